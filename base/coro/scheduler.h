// SPDX-License-Identifier: Apache-2.0
// Coroutines of one thread: many functions that take turns at the points where they wait.
//
// Two uses. Product: a worker runs several operations at once and switches at far accesses. Test: product code runs
// under interleavings that a seed chooses, on one OS thread, reproducibly (Pick::kSeeded and base/step.h).
//
//   Scheduler scheduler({.pick = Scheduler::Pick::kSeeded, .seed = seed});
//   scheduler.spawn([&] { store.put(...); }, "writer");
//   scheduler.spawn([&] { store.get(...); }, "reader");
//   Status status = scheduler.run();
//
// Guarantees
//   - A coroutine runs until it calls yield(), wait_until() or park(), or anything of base/ that waits.
//   - kFifo: runnable coroutines take turns in the order in which they became runnable.
//   - kSeeded: the whole run is a function of the seed and of what the coroutines do. Time is virtual.
//   - Coroutines and stacks are reused: after the first runs spawn() allocates and maps nothing.
//   - run() returns when all coroutines have ended, or when a bound is exceeded, with the names of those that wait.
// Not promised
//   - Preemption, or fairness towards a coroutine while another one computes.
//   - Protection from deep recursion beyond Options::stack_bytes: the guard page ends the process.
// Requires
//   - The functions do not throw (an exception would end the process) and do not switch inside a catch block.
//   - Code that runs in coroutines keeps no references to thread_local objects of *other* threads. During a run
//     coroutines never migrate between threads.
//
// Thread-safety: one thread at a time. A scheduler without live coroutines may move to another thread.
// Cost: creation about 1 us, reuse 20 ns, a yield to another coroutine two switches of 5 to 10 ns.
#ifndef BONSAI_BASE_CORO_SCHEDULER_H_
#define BONSAI_BASE_CORO_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/coro/ready_queue.h"
#include "base/random.h"
#include "bonsai/status.h"

namespace bonsai::base {

class Machine;

class Scheduler {
  struct Coroutine;

 public:
  enum class Pick : uint8_t {
    kFifo,    // in turn
    kSeeded,  // pseudo-randomly among the runnable; implies virtual time
  };

  static constexpr uint64_t kVirtualNsPerSwitch = 100;

  struct Options {
    Pick pick = Pick::kFifo;
    uint64_t seed = 1;
    // kSeeded: this many of 256 yields continue without a switch. Large values give long undisturbed stretches, which
    // find other bugs than a switch at every step does.
    uint32_t stay_per_256 = 0;
    // now_ns() is simulated inside the coroutines: it starts at 1 s, each switch takes virtual_ns_per_switch, and when
    // nothing can run it jumps to the next deadline. Deadlines then cost no real time. The random numbers of
    // base/random.h are simulated, too, and a base::Thread that a coroutine makes is itself a coroutine.
    bool virtual_time = false;
    // 0: only deadlines let time pass, for models of time. Requires: nobody waits by yield() alone.
    uint64_t virtual_ns_per_switch = kVirtualNsPerSwitch;
    size_t stack_bytes = size_t{64} << 10;
    // run() gives up after this time in which no coroutine was runnable (real time only).
    uint64_t idle_ms_max = 60'000;
    // One run() gives up after this many switches; bounds livelocks of code under test.
    uint64_t switches_max = UINT64_MAX;
  };

  static constexpr uint64_t kVirtualStartNs = 1'000'000'000;
  static constexpr uint64_t kNever = UINT64_MAX;

  Scheduler() : Scheduler(Options()) {}
  explicit Scheduler(const Options& options);
  // Requires: not called from a coroutine of this scheduler. Coroutines that still wait are abandoned: their frames are
  // never left, and their memory stays reserved.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Makes `body` runnable, before or during run(). `name` must outlive the coroutine; run() reports it.
  // Errors show in the result of run().
  void spawn(std::function<void()> body, const char* name = "coroutine");

  // Runs until every coroutine has ended. Errors: Unavailable, naming those that wait, when all wait without a deadline
  // or a bound of Options is exceeded (run() may then be called again to go on); NoSpace when a spawn() found no stack
  // (the others have run).
  // Requires: not called from a coroutine of this scheduler. A coroutine of another scheduler, the host, may call it.
  // In virtual time this scheduler then has its own clock and random numbers, and the host's other coroutines wait
  // until run() ends. Otherwise it uses the host's clock and random numbers, and the host's other coroutines run
  // whenever its own yield or wait; then only the host's coroutines may make base::Threads.
  Status run();

  // Starts a new reproducible history: as if made anew, but with warm coroutines. Requires: no live coroutines.
  void reset(uint64_t seed);

  // The scheduler whose coroutine calls, or null outside.
  [[nodiscard]] static Scheduler* current() { return current_; }

  // Pick::kSeeded: the time of the simulation, whatever the clocks of the calling coroutine's machine show (machine.h);
  // else now_ns().
  [[nodiscard]] static uint64_t world_ns();
  // The calling coroutine's boot_ns(). Requires: in a coroutine, in virtual time.
  [[nodiscard]] static uint64_t machine_boot_ns();

  // A small number, unique among the live coroutines of its scheduler. Requires: in a coroutine.
  [[nodiscard]] static size_t number();

  // Lets the others run. Outside a coroutine: nothing.
  static void yield() {
    if (Scheduler* scheduler = current_) scheduler->yield_running();
  }

  // Returns when now_ns() >= deadline_ns; the others run meanwhile. Outside a coroutine the thread waits.
  static void wait_until(uint64_t deadline_ns);

  // Names one suspension of one coroutine, for wake(). A wake() of an earlier suspension does nothing.
  struct Token {
    size_t coroutine = SIZE_MAX;
    uint64_t turn = 0;
  };

  // The next suspension of the calling coroutine: take it, pass it to the one that will call wake(), then park().
  // Requires: in a coroutine.
  [[nodiscard]] static Token token();
  // Suspends until wake(token) or the deadline; false on deadline. A wake() that came since token() counts.
  // Requires: in a coroutine.
  static bool park(uint64_t deadline_ns = kNever);
  // Makes a parked coroutine runnable. Requires: on the scheduler's thread.
  void wake(const Token& token);

  [[nodiscard]] bool is_virtual() const { return options_.virtual_time || options_.pick == Pick::kSeeded; }
  [[nodiscard]] size_t live() const { return live_; }            // spawned and not ended
  [[nodiscard]] size_t created() const { return all_.size(); }   // coroutines ever made
  [[nodiscard]] uint64_t switches() const { return switches_; }  // points where a switch was possible, since reset()
  [[nodiscard]] const Options& options() const { return options_; }

 private:
  friend class Machine;

  struct Timer {
    uint64_t deadline_ns;
    uint64_t order;  // equal deadlines: first come, first served
    Token token;
  };

  [[nodiscard]] Coroutine* waiter(const Token& token);
  void enter(Machine* machine);
  void set_virtual_ns(uint64_t ns);
  void show_clock(const Coroutine& coroutine);
  [[nodiscard]] bool wakes_early(const Coroutine& coroutine) const;
  [[nodiscard]] static const Scheduler* outermost();
  Coroutine* unused_coroutine();
  static void run_body(void* coroutine) noexcept;
  void yield_running();
  void suspend_running();
  Coroutine* pick_next();
  void resume(Coroutine* coroutine);
  void make_ready(Coroutine* coroutine);
  void add_timer(uint64_t deadline_ns, Coroutine* coroutine);
  void pass_time();
  void wake_due_timers(uint64_t now);
  const Timer* next_timer();
  void let_host_run();
  bool wait_in_host(uint64_t deadline_ns);
  bool wait_for_timer();
  Status run_all();
  Status stuck(const std::string& why) const;

  static inline constinit thread_local Scheduler* current_ = nullptr;

  Options options_;
  Random random_;        // chooses the switches
  Random world_random_;  // the random numbers that the coroutines see
  uint64_t virtual_ns_ = kVirtualStartNs;
  uint64_t behind_ns_ = 0;               // by so much the clock of the running coroutine's machine is behind
  uint64_t clock_ns_ = kVirtualStartNs;  // and so it is what now_ns() returns
  uint64_t switches_ = 0;
  uint64_t switches_end_ = 0;  // where the current run() gives up
  uint64_t timers_made_ = 0;
  size_t live_ = 0;
  Scheduler* host_ = nullptr;  // one of its coroutines is in our run(), and our time is its time
  Token host_token_;           // that coroutine's latest suspension by wait_in_host()
  Coroutine* running_ = nullptr;
  Coroutine* next_ = nullptr;  // chosen by the coroutine that just suspended
  ReadyQueue<Coroutine*> ready_;
  std::vector<Timer> timers_;  // a heap; entries of coroutines that were woken otherwise are dropped when met
  std::vector<std::unique_ptr<Coroutine>> all_;
  std::vector<Coroutine*> unused_;
  Status spawn_failure_;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CORO_SCHEDULER_H_
