// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include "base/boot_clock.h"
#include "base/coro/scheduler.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include <ctime>

namespace bonsai::base {

uint64_t thread_cpu_ns() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * kNsPerSecond + static_cast<uint64_t>(used.tv_nsec);
}

uint64_t boot_ns() {
  if (const uint64_t* simulated = virtual_now_ns) {
    return Scheduler::current() != nullptr ? Scheduler::machine_boot_ns() : *simulated;
  }
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace bonsai::base

namespace bonsai::base::clock_internal {

#if defined(__x86_64__)

namespace {

constexpr uint64_t kValidNs = 100 * kNsPerUs;  // an error of the rate has no time to grow
constexpr uint64_t kRateNsMin = kNsPerMs;      // an interval of this length gives the rate to a ten-thousandth
constexpr uint64_t kRateNsMax = kNsPerSecond;  // a longer interval starts anew, so that a change is not averaged away
constexpr uint64_t kTogetherTicksMax = 1'000;  // readings further apart were interrupted
constexpr double kOne = uint64_t{1} << kFractionBits;

// Whether the counter runs at a constant rate, synchronised on all processors, in all of their sleep states.
bool counter_is_steady() {
  static const bool steady = [] {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx >> 8 & 1) != 0;
  }();
  return steady;
}

}  // namespace

uint64_t cast_anchor() {
  Anchor& mine = anchor;
  const uint64_t before = __rdtsc();
  const uint64_t ns = now_ns();
  const uint64_t apart = __rdtsc() - before;
  mine.valid_ticks = 0;
  if (apart > kTogetherTicksMax || !counter_is_steady()) return ns;
  mine.ticks = before + apart / 2;
  mine.ns = ns;
  const uint64_t rate_ns = ns - mine.rate_since_ns;
  if (rate_ns >= kRateNsMin && rate_ns <= kRateNsMax && mine.ticks > mine.rate_since_ticks) {
    const double ns_per_tick = static_cast<double>(rate_ns) / static_cast<double>(mine.ticks - mine.rate_since_ticks);
    mine.ns_per_tick = static_cast<uint64_t>(ns_per_tick * kOne);
    mine.valid_ticks = static_cast<uint64_t>(static_cast<double>(kValidNs) / ns_per_tick);
  } else if (rate_ns > kRateNsMax) {
    mine.rate_since_ns = ns;
    mine.rate_since_ticks = mine.ticks;
  }
  return ns;
}

#else

uint64_t cast_anchor() { return now_ns(); }

#endif

}  // namespace bonsai::base::clock_internal
