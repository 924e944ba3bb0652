// SPDX-License-Identifier: Apache-2.0
// A reusable coroutine on Boost.Coroutine2: the switch, without any policy. Only the scheduler uses it.
#ifndef BONSAI_BASE_CORO_FIBER_H_
#define BONSAI_BASE_CORO_FIBER_H_

#include <cstddef>

#include "base/coro/sanitizers.h"
#include "base/coro/stack.h"

namespace bonsai::base {

// Runs body(argument) on a stack of its own, again and again: when the body returns the fiber is *parked*, and the next
// resume() starts the body anew. So one fiber serves many functions, and creation is paid once.
//
// No exception leaves the body, and none is used to end a fiber: a parked fiber owns nothing but its stack, so giving
// the stack back is its destruction.
//
// Thread-safety: one thread at a time; a suspended fiber may move to another thread only while it is parked.
class Fiber {
 public:
  using Body = void (*)(void* argument) noexcept;

  // Requires: a stack that is not empty; the fiber owns it from now on.
  Fiber(const Stack& stack, Body body, void* argument);
  // Gives the stack back. Requires: the fiber is parked.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the fiber until it suspends or is parked. Requires: it is not running.
  void resume();
  // Returns control to the caller of resume(). Requires: called on the fiber's own stack.
  void suspend();
  // Marks a fiber that will never be resumed although its body has not ended. Its owner must leak it, so that pointers
  // to its frames stay valid: memory is lost, nothing breaks.
  void abandon();
  [[nodiscard]] bool parked() const { return parked_; }

 private:
  // An object of Boost's type lives here, never destroyed, because its destructor would unwind the stack by exception.
  static constexpr size_t kCoroutineBytes = sizeof(void*);

  Stack stack_;
  Body body_;
  void* argument_;
  void* back_ = nullptr;  // Boost's way to the caller, an object on the fiber's stack
  bool parked_ = true;
  SanitizerContext fiber_context_, caller_context_;
  alignas(void*) std::byte coroutine_[kCoroutineBytes];
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CORO_FIBER_H_
