// SPDX-License-Identifier: Apache-2.0
#include "base/coro/machine.h"

#include <utility>

#include "base/clock.h"

namespace bonsai::base {

uint64_t Machine::behind_ns() const {
  return slept_ns_ + (suspended_ ? scheduler_.virtual_ns_ - suspended_since_ns_ : 0);
}

void Machine::enter() {
  scheduler_.enter(this);
  while (stopped_) Scheduler::wait_until(now_ns() + kNsPerMs);
}

void Machine::suspend() {
  stop();
  if (std::exchange(suspended_, true)) return;
  suspended_since_ns_ = scheduler_.virtual_ns_;
}

void Machine::pause() {
  if (!suspended_) paused_ = true;
  suspend();
}

void Machine::go_on() {
  if (paused_) paused_ns_ += behind_ns() - slept_ns_;
  slept_ns_ = behind_ns();
  stopped_ = suspended_ = paused_ = false;
  for (Scheduler::Coroutine* const coroutine : std::exchange(held_, {})) scheduler_.make_ready(coroutine);
}

}  // namespace bonsai::base
