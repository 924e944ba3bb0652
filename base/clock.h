// SPDX-License-Identifier: Apache-2.0
// Time. The only code that gets the time from the operating system.
//
// Thread-safety: all functions from any thread. Cost of now_ns(): 20 to 40 ns (a vDSO call), 1 ns on virtual time.
#ifndef BONSAI_BASE_CLOCK_H_
#define BONSAI_BASE_CLOCK_H_

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <chrono>
#include <cstdint>

namespace bonsai::base {

inline constexpr uint64_t kNsPerUs = 1'000;
inline constexpr uint64_t kNsPerMs = 1'000'000;
inline constexpr uint64_t kNsPerSecond = 1'000'000'000;

// When set, this thread lives in virtual time: a scheduler with Options::virtual_time sets it while it runs, so that
// code under simulation sees the simulated clock. Nobody else sets it.
inline constinit thread_local const uint64_t* virtual_now_ns = nullptr;

// Steady time in nanoseconds since an arbitrary origin; never goes back on one thread.
[[nodiscard]] inline uint64_t now_ns() {
  if (const uint64_t* simulated = virtual_now_ns) return *simulated;
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

namespace clock_internal {

inline constexpr int kFractionBits = 32;

// Estimates the time of a clock by the processor's cycle counter, for a while, on one thread.
struct Anchor {
  uint64_t ticks = 0, ns = 0;                        // readings of both clocks
  uint64_t valid_ticks = 0;                          // from then on; 0 = no estimate yet
  uint64_t ns_per_tick = 0;                          // with kFractionBits
  uint64_t rate_since_ticks = 0, rate_since_ns = 0;  // what the rate is measured from

  // The estimate; `clock` is read where there is none.
  [[nodiscard]] uint64_t ns_by(uint64_t (*clock)()) {
#if defined(__x86_64__)
    const uint64_t passed = __rdtsc() - ticks;
    if (passed < valid_ticks) [[likely]]
      return ns + (passed * ns_per_tick >> kFractionBits);
#endif
    return cast(clock);
  }
  // Compares the clock with the counter. Returns clock().
  uint64_t cast(uint64_t (*clock)());
};
inline constinit thread_local Anchor anchor{};

}  // namespace clock_internal

// now_ns() with an error of about a tenth of a microsecond, by which it may go back. For code that reads the clock
// every few hundred instructions. It reads the cycle counter where that is steady. Unlike the system's clock, it does
// not stop the processor from executing ahead. Cost: 13 ns where now_ns() takes 31.
[[nodiscard]] inline uint64_t quick_now_ns() {
  if (const uint64_t* simulated = virtual_now_ns) return *simulated;
  return clock_internal::anchor.ns_by(now_ns);
}

// Steady time in seconds, for rates and reports.
[[nodiscard]] inline double now_seconds() { return static_cast<double>(now_ns()) * 1e-9; }

// Processor time that the calling thread has used, in nanoseconds. Waits and the time of other threads on the processor
// do not count. Cost: a system call.
[[nodiscard]] uint64_t thread_cpu_ns();

// Calendar time in seconds since 1970. It may jump; never use it for intervals. Simulated time begins in 2000.
[[nodiscard]] inline double wall_seconds() {
  constexpr double kSimulatedStartSeconds = 946'684'800;
  if (const uint64_t* simulated = virtual_now_ns)
    return kSimulatedStartSeconds + static_cast<double>(*simulated) * 1e-9;
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CLOCK_H_
