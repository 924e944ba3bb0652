// SPDX-License-Identifier: Apache-2.0
#include "rdma/sim/core.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/probe.h"

namespace bonsai::rdma {
namespace {

base::Probe late{"sim.packet_late"};
constexpr uint64_t kSleepNsMax = 20'000;

// What the clock of the caller's machine shows when the network's is at `ns`. The network may be ahead of the
// scheduler: it keeps its time, and a later scheduler begins anew.
uint64_t on_callers_clock(uint64_t ns) { return base::now_ns() + (ns - base::Scheduler::world_ns()); }

}  // namespace

uint64_t SimCore::now() {
  if (base::virtual_now_ns != nullptr) now_ns_ = std::max(now_ns_, base::Scheduler::world_ns());
  return now_ns_;
}

void SimCore::wake_leader(uint64_t due_ns) {
  BONSAI_CHECK(led_ && due_ns < led_until_ns_);
  led_until_ns_ = due_ns;
  base::Scheduler::current()->wake(leader_);
}

void SimCore::run_due() {
  const uint64_t until = now();
  while (!events_.empty() && events_.first_ns() <= until) run_next();
}

bool SimCore::run_next() {
  if (events_.empty()) return false;
  now_ns_ = std::max(now_ns_, events_.first_ns());
  events_.run_first();
  return true;
}

void SimCore::pause(base::BoundedWait* wait) {
  if (base::virtual_now_ns == nullptr) {
    run_next();
  } else if (!events_.empty() && events_.first_ns() > now()) {
    // The scheduler's clock jumps there when no other coroutine is runnable.
    base::Scheduler::wait_until(on_callers_clock(std::min(events_.first_ns(), now() + base::kNsPerMs)));
  }
  wait->pause();
  run_due();
}

void SimCore::await_event(std::vector<base::Scheduler::Token>* sleepers, base::BoundedWait* wait) {
  static_cast<void>(wait->watch_ns());
  if (led_ || events_.empty()) {
    sleepers->push_back(base::Scheduler::token());
    static_cast<void>(
        base::Scheduler::park(on_callers_clock(now() + kSleepNsMax)));  // bounded: the leader may have ended
    return;
  }
  led_ = true;
  led_until_ns_ = events_.first_ns();
  if (led_until_ns_ > now()) {
    leader_ = base::Scheduler::token();
    static_cast<void>(base::Scheduler::park(on_callers_clock(led_until_ns_)));
  }
  led_until_ns_ = 0;
  run_due();
  led_ = false;
}

uint64_t SimCore::flight() {
  if (options.device.modelled()) return static_cast<uint64_t>(options.device.wire_ns / 2);
  const uint64_t usual = options.flight_ns_min + dice.below(options.flight_ns_max - options.flight_ns_min + 1);
  if (!chance(options.late_chance)) return usual;
  late.hit();
  return usual + dice.below(options.late_ns_max);
}

void SimCore::note(SimStep step, uint64_t first, uint64_t second) {
  trace = base::splitmix64(trace ^ base::splitmix64(now() ^ (static_cast<uint64_t>(step) << 56)));
  trace = base::splitmix64(trace ^ base::splitmix64(first ^ base::splitmix64(second)));
}

}  // namespace bonsai::rdma
