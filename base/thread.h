// SPDX-License-Identifier: Apache-2.0
// Threads, and the ways in which a thread waits. The only code that creates threads or sleeps.
//
// All waits here are coroutine-aware: called inside a coroutine of a base::Scheduler they let its siblings run.
#ifndef BONSAI_BASE_THREAD_H_
#define BONSAI_BASE_THREAD_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "bonsai/status.h"

namespace bonsai::base {

inline constexpr uint32_t kNoOrdinal = UINT32_MAX;
// The limit of a BoundedWait for a lock, which is released as soon as its holder runs.
inline constexpr uint64_t kUnboundedMs = uint64_t{1} << 40;

namespace detail {
inline constinit thread_local uint32_t ordinal_of_thread = kNoOrdinal;
uint32_t assign_thread_ordinal();
}  // namespace detail

// A small dense number of the calling thread: the least number that no other live thread holds. It is assigned at the
// first call and freed when the thread's thread_local objects are destroyed. Cost: one thread-local load.
// Guarantees: no two live threads hold the same one (a destructor of a thread_local object may run after the release;
// another thread may then hold the number, so it is only a hint there).
[[nodiscard]] inline uint32_t thread_ordinal() {
  const uint32_t ordinal = detail::ordinal_of_thread;
  return ordinal != kNoOrdinal ? ordinal : detail::assign_thread_ordinal();
}

// A named OS thread that is joined by its destructor. The body must return without help: signal it before the join.
// `name` shows in debuggers and `top`; the kernel keeps its first 15 bytes.
// If a coroutine in virtual time makes it, it is a coroutine of the same scheduler, and only coroutines may own it.
// Thread-safety: one owner.
class Thread {
 public:
  Thread() = default;
  // Errors: NoSpace, with the remedy, when the system gives no further thread: limits of processes and of memory.
  [[nodiscard]] static Status start(std::string name, std::function<void()> body, Thread* thread);
  // Makes a thread that waits for begin(), for callers that must have the thread before they change anything. A thread
  // that never begins ends with join(). Errors: as start().
  [[nodiscard]] static Status reserve(std::string name, Thread* thread);
  // Requires: reserve() made this one, and it has not begun.
  void begin(std::function<void()> body);
  // As start(), for tests: a refusal ends the process.
  Thread(std::string name, std::function<void()> body);
  ~Thread() { join(); }
  Thread(Thread&& other) noexcept = default;
  Thread& operator=(Thread&& other) noexcept;

  // Waits for the body's end. Idempotent.
  void join();
  [[nodiscard]] bool joinable() const { return thread_.joinable() || simulated_ || reserved_; }

 private:
  struct Simulated;
  struct Reserved;

  std::thread thread_;
  std::shared_ptr<Simulated> simulated_;
  std::shared_ptr<Reserved> reserved_;  // until it begins
};

// For tests: the number of further threads that can be made; negative: as many as the system gives.
inline constinit std::atomic<int64_t> threads_granted_for_test{-1};

// The number of processors on which the calling thread may run; at least 1.
[[nodiscard]] unsigned processors();

// Calls work(i) for each i below `count`, on `threads` threads including the caller, and returns when all calls have
// ended. Requires: the calls may run at the same time and in any order, and end without help. With one thread: in
// order. If the system gives fewer threads, it uses those. If a call throws, the calls that have begun end, the others
// are left out, and the exception is thrown here.
void for_each_on(unsigned threads, size_t count, const std::function<void(size_t)>& work);

// Binds the calling thread to the `index`-th of the processors that it may run on, modulo their number. Errors:
// NotSupported when the system refuses.
[[nodiscard]] Status pin_thread(unsigned index);

// Waits for `condition` on a condition variable, for `limit_ms` at most; returns the last value of `condition`. As with
// BoundedWait, time for which the process was stopped hardly counts. Requires: *lock is held, and guards the condition.
[[nodiscard]] bool wait_on(std::condition_variable* changed, std::unique_lock<std::mutex>* lock, uint64_t limit_ms,
                           const std::function<bool()>& condition);

// A wake-up that is not lost: signal() before wait_for() makes that wait return at once. Signals do not add up.
// Thread-safety: any thread may signal or wait; one signal wakes one waiter.
class Event {
 public:
  void signal();
  // Returns true when signalled (and resets), false after `limit_ms`. As with BoundedWait, time for which the process
  // was stopped hardly counts.
  [[nodiscard]] bool wait_for(uint64_t limit_ms);

 private:
  bool take();

  std::mutex mutex_;
  std::condition_variable signalled_;
  bool set_ = false;
};

// Returns when now_ns() >= deadline_ns, at most a second later, and soon after it: for waits of microseconds that a
// sleep would miss. Inside a coroutine its siblings run meanwhile.
void wait_closely_until(uint64_t deadline_ns);

// Returns when now_ns() >= deadline_ns: keeps the processor for the first two microseconds and then yields it
// repeatedly. For pauses that a sleep would make too long. Inside a coroutine its siblings run meanwhile.
void yield_until(uint64_t deadline_ns);

// Sleeps for at least `ms`, or `us`. The system may add some 50 us.
void sleep_ms(uint64_t ms);
void sleep_us(uint64_t us);
// Sleeps until now_ns() >= deadline_ns, without spinning. Repeated calls do not drift if the deadlines do not depend on
// when the calls returned.
void sleep_until(uint64_t deadline_ns);
// From now on the system wakes this thread as exactly as it can, instead of delaying it to save power: this removes the
// 50 us.
void wake_exactly();

// Gives the processor to another thread, or inside a coroutine to a sibling.
void yield_thread();

// One wait for a condition that another thread brings about:
//   for (BoundedWait wait("log.segment", 1000); !condition(); wait.pause()) if (wait.expired()) return wait.status();
// It spins for about a microsecond, then yields, then sleeps up to a millisecond at a time. Inside a coroutine it
// always yields to the siblings. Making one costs nothing: the clock is first read when spinning has not helped.
//
// The limit bounds time in which this thread could have run: the time between two pauses counts up to kStepNsMax, and
// up to an eighth of the limit. So a stopped process or a suspended machine does not expire its waits. The condition
// has the last word: expired() returns true only after the caller has checked the condition once more after the limit
// passed.
class BoundedWait {
 public:
  BoundedWait(const char* name, uint64_t limit_ms) : name_(name), limit_ms_(limit_ms) {}

  static constexpr uint64_t kStepNsMax = 100'000'000, kWatchStepNsMax = 1'000'000'000;

  // True if `limit_ms`, counted from the end of the spinning phase, had passed at the previous call already. Requires:
  // the caller checks the condition between two calls.
  [[nodiscard]] bool expired();
  void pause();

  // Replaces pause() in waits that poll a device and then block on it: returns the time since its first call, where
  // each step counts at most kWatchStepNsMax, and at most a quarter of the limit: a process that was stopped once looks
  // again. The limit counts from the first call. Cost: one reading of the clock.
  uint64_t watch_ns();

  [[nodiscard]] const char* name() const { return name_; }
  // Unavailable, naming the wait and its limit.
  [[nodiscard]] Status status() const;

 private:
  void pause_slowly();
  [[nodiscard]] uint64_t passed_ns(uint64_t now) const;

  static constexpr uint32_t kSpins = 32;
  static constexpr uint32_t kYields = 64;

  const char* name_;
  uint64_t limit_ms_;
  uint64_t counted_to_ns_ = 0;  // by the clock; 0 = still spinning
  uint64_t counted_ns_ = 0;
  uint32_t pauses_ = 0;
  bool over_ = false;  // the limit has passed; the caller checks once more
};

// A mutex whose holder may be a coroutine that is suspended at a fence or a far access: a waiter lets others run. For
// short sections off the hot path; meets the requirements of std::lock_guard. lock() waits as long as the lock is held,
// as std::mutex does, because the holder may have been stopped.
class YieldingMutex {
 public:
  explicit YieldingMutex(const char* name) : name_(name) {}
  YieldingMutex(const YieldingMutex&) = delete;
  YieldingMutex& operator=(const YieldingMutex&) = delete;

  void lock();
  [[nodiscard]] bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  const char* name_;
  std::atomic<bool> held_{false};
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_THREAD_H_
