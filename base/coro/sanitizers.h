// SPDX-License-Identifier: Apache-2.0
// Informs the sanitizers of stacks and switches: Debian's Boost.Context has no hooks of its own.
// Each function is empty in builds without its sanitizer.
//
// BONSAI_CORO_ASAN and BONSAI_CORO_TSAN come from the build and not from the compiler's own macros, because fiber.cc is
// itself compiled without instrumentation (see there).
#ifndef BONSAI_BASE_CORO_SANITIZERS_H_
#define BONSAI_BASE_CORO_SANITIZERS_H_

#include <cstddef>

#ifdef BONSAI_CORO_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#ifdef BONSAI_CORO_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace bonsai::base {

#if defined(BONSAI_CORO_ASAN) || defined(BONSAI_CORO_TSAN)
inline constexpr size_t kSanitizerStackFactor = 4;
#else
inline constexpr size_t kSanitizerStackFactor = 1;
#endif

// Makes the leak checker treat the memory that an abandoned stack points to as reachable. Only for these few stacks:
// the checker's time grows with the number of such regions times the number of mappings.
inline void sanitizer_stack_abandoned([[maybe_unused]] void* bottom, [[maybe_unused]] size_t bytes) {
#ifdef BONSAI_CORO_ASAN
  __lsan_register_root_region(bottom, bytes);
#endif
}

// Frames that were left without returning may have poisoned the stack.
inline void sanitizer_stack_left([[maybe_unused]] void* bottom, [[maybe_unused]] size_t bytes) {
#ifdef BONSAI_CORO_ASAN
  __asan_unpoison_memory_region(bottom, bytes);
#endif
}

// ASan's and TSan's view of one side of a switch.
struct SanitizerContext {
  void* asan_fake_stack = nullptr;
  const void* asan_bottom = nullptr;
  size_t asan_bytes = 0;
  void* tsan_fiber = nullptr;
};

inline void sanitizer_fiber_created([[maybe_unused]] SanitizerContext& fiber, [[maybe_unused]] const void* bottom,
                                    [[maybe_unused]] size_t bytes) {
#ifdef BONSAI_CORO_ASAN
  fiber.asan_bottom = bottom;
  fiber.asan_bytes = bytes;
#endif
#ifdef BONSAI_CORO_TSAN
  fiber.tsan_fiber = __tsan_create_fiber(0);
#endif
}

inline void sanitizer_fiber_destroyed([[maybe_unused]] SanitizerContext& fiber) {
#ifdef BONSAI_CORO_TSAN
  __tsan_destroy_fiber(fiber.tsan_fiber);
#endif
}

// Records the running context before its first switch.
inline void sanitizer_note_running([[maybe_unused]] SanitizerContext& context) {
#ifdef BONSAI_CORO_TSAN
  context.tsan_fiber = __tsan_get_current_fiber();
#endif
}

// Immediately before the switch, on the stack that is left.
inline void sanitizer_before_switch([[maybe_unused]] SanitizerContext& from, [[maybe_unused]] SanitizerContext& to) {
#ifdef BONSAI_CORO_ASAN
  __sanitizer_start_switch_fiber(&from.asan_fake_stack, to.asan_bottom, to.asan_bytes);
#endif
#ifdef BONSAI_CORO_TSAN
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
}

// Immediately after the switch, on the stack that was switched to; reports the bounds of the one that was left.
inline void sanitizer_after_switch([[maybe_unused]] SanitizerContext& from, [[maybe_unused]] SanitizerContext& to) {
#ifdef BONSAI_CORO_ASAN
  __sanitizer_finish_switch_fiber(to.asan_fake_stack, &from.asan_bottom, &from.asan_bytes);
#endif
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CORO_SANITIZERS_H_
