// SPDX-License-Identifier: Apache-2.0
// Waits that block the whole thread, not only the coroutine. Only for use in base/: other rooms use base/thread.h.
#ifndef BONSAI_BASE_OS_WAIT_H_
#define BONSAI_BASE_OS_WAIT_H_

#include <cerrno>
#include <cstdint>
#include <ctime>

#include "base/clock.h"

namespace bonsai::base {

// Blocks the thread until the steady clock reads `deadline_ns`. On virtual time it returns at once.
inline void os_wait_until(uint64_t deadline_ns) {
  if (virtual_now_ns != nullptr) return;
  const timespec deadline{static_cast<time_t>(deadline_ns / kNsPerSecond),
                          static_cast<long>(deadline_ns % kNsPerSecond)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

inline void relax_processor();

// Blocks until the base clock reads deadline_ns, at most a second. It sleeps first and spins for the last microseconds,
// since the operating system may wake a sleeper late. On virtual time, which only its scheduler moves, it returns at
// once.
inline void wait_politely_until(uint64_t deadline_ns) {
  constexpr uint64_t kSleepErrorNs = 60 * kNsPerUs;
  if (virtual_now_ns != nullptr) return;
  const uint64_t now = now_ns();
  const uint64_t end = deadline_ns < now + kNsPerSecond ? deadline_ns : now + kNsPerSecond;
  if (end > now + 2 * kSleepErrorNs) os_wait_until(end - kSleepErrorNs);
  while (now_ns() < end) relax_processor();
}

// Hints to the processor that this is a spinning wait.
inline void relax_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("" ::: "memory");
#endif
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_OS_WAIT_H_
