// Time. The only place of the code that asks the operating system for it.
//
// Thread-safety: all functions from any thread. Cost of now_ns(): about 20 ns (a vDSO call), 1 ns on virtual time.
#ifndef BONSAI_BASE_CLOCK_H_
#define BONSAI_BASE_CLOCK_H_

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

// Steady time in seconds, for rates and reports.
[[nodiscard]] inline double now_seconds() { return static_cast<double>(now_ns()) * 1e-9; }

// Calendar time in seconds since 1970. It may jump; never use it for intervals.
[[nodiscard]] inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CLOCK_H_
