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

uint64_t Anchor::cast(uint64_t (*clock)()) {
  const uint64_t before = __rdtsc();
  const uint64_t read_ns = clock();
  const uint64_t apart = __rdtsc() - before;
  valid_ticks = 0;
  if (apart > kTogetherTicksMax || !counter_is_steady()) return read_ns;
  ticks = before + apart / 2;
  ns = read_ns;
  const uint64_t rate_ns = ns - rate_since_ns;
  if (rate_ns >= kRateNsMin && rate_ns <= kRateNsMax && ticks > rate_since_ticks) {
    const double known = static_cast<double>(rate_ns) / static_cast<double>(ticks - rate_since_ticks);
    ns_per_tick = static_cast<uint64_t>(known * kOne);
    valid_ticks = static_cast<uint64_t>(static_cast<double>(kValidNs) / known);
  } else if (rate_ns > kRateNsMax) {
    rate_since_ns = ns;
    rate_since_ticks = ticks;
  }
  return ns;
}

#else

uint64_t Anchor::cast(uint64_t (*clock)()) { return clock(); }

#endif

}  // namespace bonsai::base::clock_internal
