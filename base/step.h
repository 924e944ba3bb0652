// SPDX-License-Identifier: Apache-2.0
// Named steps of the lock-free protocols, so that tests can run the product's own code under chosen interleavings. They
// exist only in the test variant of the libraries (BONSAI_STEPPED); in the product they compile to nothing.
#ifndef BONSAI_BASE_STEP_H_
#define BONSAI_BASE_STEP_H_

#include <atomic>

#ifdef BONSAI_STEPPED
#include "base/check.h"
#endif

namespace bonsai::base {

#ifdef BONSAI_STEPPED

// A namespace of its own keeps this apart from the empty one when a test links both variants of a room.
inline namespace stepped {

// Called before each shared-memory step of the protocols when set. Set it only while no operation runs.
using StepHook = void (*)(const char* step);
inline std::atomic<StepHook> step_hook{nullptr};

// Forbids steps while it lives. The guarded section holds a lock: a switch at a step inside it could resume a thread
// that would wait for that lock for ever.
class StepFree {
 public:
  StepFree() { ++depth; }
  ~StepFree() { --depth; }
  StepFree(const StepFree&) = delete;
  StepFree& operator=(const StepFree&) = delete;
  inline static thread_local int depth = 0;
};

inline void step(const char* name) {
  BONSAI_CHECK(StepFree::depth == 0);
  if (StepHook hook = step_hook.load(std::memory_order_relaxed)) hook(name);
}

}  // namespace stepped

#else

constexpr void step(const char*) {}

struct StepFree {
  StepFree() {}  // user-provided, so that a local variable of this type does not count as unused
};

#endif

}  // namespace bonsai::base

#endif  // BONSAI_BASE_STEP_H_
