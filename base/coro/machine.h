// SPDX-License-Identifier: Apache-2.0
// A simulated machine: coroutines that are stopped and go on together, and their clocks.
//
//   Machine machine(scheduler, 10'000);                     // its boot_ns() is 1 % fast
//   Thread process("process", [&] { machine.enter(); ... });
//   machine.stop(); ... machine.go_on();                    // as SIGSTOP and SIGCONT of all processes
//   machine.suspend(); ... machine.go_on();                 // now_ns() stands meanwhile, and boot_ns() does not
//   machine.pause(); ... machine.go_on();                   // both stand, as those of a guest that its host pauses
//
// A coroutine belongs to the machine of the coroutine that made it.
//
// Requires: a scheduler with Pick::kSeeded, which outlives it; coroutines of that scheduler call, and none of a machine
// calls stop(), suspend() or pause() of its own. All coroutines of the machine end before it does.
#ifndef BONSAI_BASE_CORO_MACHINE_H_
#define BONSAI_BASE_CORO_MACHINE_H_

#include <cstdint>
#include <vector>

#include "base/coro/scheduler.h"

namespace bonsai::base {

class Machine {
 public:
  explicit Machine(Scheduler* scheduler, int64_t fast_ppm = 0) : scheduler_(*scheduler), fast_ppm_(fast_ppm) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // From now on the calling coroutine belongs to this machine. Returns when the machine runs.
  void enter();
  void stop() { stopped_ = true; }
  void suspend();
  void pause();
  // Ends stop(), suspend() and pause(); else nothing.
  void go_on();
  [[nodiscard]] bool is_stopped() const { return stopped_; }

 private:
  friend class Scheduler;

  // By how much its now_ns() is behind the simulation's.
  [[nodiscard]] uint64_t behind_ns() const;
  // For how long its boot_ns() has stood. Requires: it runs.
  [[nodiscard]] uint64_t stood_ns() const { return paused_ns_; }

  Scheduler& scheduler_;
  const int64_t fast_ppm_;
  bool stopped_ = false;
  bool suspended_ = false;  // or paused
  bool paused_ = false;
  uint64_t suspended_since_ns_ = 0;
  uint64_t slept_ns_ = 0;                    // in suspensions and pauses that have ended
  uint64_t paused_ns_ = 0;                   // in pauses that have ended
  std::vector<Scheduler::Coroutine*> held_;  // would run if the machine were not stopped
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CORO_MACHINE_H_
