// SPDX-License-Identifier: Apache-2.0
// Compiled without instrumentation: TSan pairs each function's entry and exit on a shadow stack of the running fiber,
// and in the functions of a switch these two fall on different fibers. Keep this file free of anything but the switch,
// and include Boost.Coroutine2 nowhere else, so that no instrumented copy of its inline functions is linked.
#include "base/coro/fiber.h"

#include <boost/coroutine2/coroutine.hpp>
#include <new>

#include "base/check.h"

namespace bonsai::base {
namespace {

using Into = boost::coroutines2::coroutine<void>::pull_type;  // held by the scheduler's side
using Back = boost::coroutines2::coroutine<void>::push_type;  // held by the fiber's side

// Gives Boost the stack that the fiber owns.
struct BorrowedStack {
  using traits_type = boost::context::stack_traits;

  Stack stack;

  boost::context::stack_context allocate() {
    boost::context::stack_context context;
    context.sp = stack.top();
    context.size = stack.bytes;
    return context;
  }
  void deallocate(boost::context::stack_context&) noexcept {}
};

}  // namespace

Fiber::Fiber(const Stack& stack, Body body, void* argument) : stack_(stack), body_(body), argument_(argument) {
  static_assert(sizeof(Into) == kCoroutineBytes);
  sanitizer_fiber_created(fiber_context_, stack.bottom, stack.bytes);
  sanitizer_note_running(caller_context_);
  sanitizer_before_switch(caller_context_, fiber_context_);
  new (coroutine_) Into(BorrowedStack{stack}, [this](Back& back) {
    sanitizer_after_switch(caller_context_, fiber_context_);
    back_ = &back;
    for (;;) {
      suspend();
      parked_ = false;
      body_(argument_);
      parked_ = true;
    }
  });
  sanitizer_after_switch(fiber_context_, caller_context_);
}

Fiber::~Fiber() {
  BONSAI_CHECK(parked_);
  sanitizer_fiber_destroyed(fiber_context_);
  give_back_stack(stack_);
}

void Fiber::abandon() { sanitizer_stack_abandoned(stack_.bottom, stack_.bytes); }

void Fiber::resume() {
  sanitizer_note_running(caller_context_);
  sanitizer_before_switch(caller_context_, fiber_context_);
  (*std::launder(reinterpret_cast<Into*>(coroutine_)))();
  sanitizer_after_switch(fiber_context_, caller_context_);
}

void Fiber::suspend() {
  sanitizer_before_switch(fiber_context_, caller_context_);
  (*static_cast<Back*>(back_))();
  sanitizer_after_switch(caller_context_, fiber_context_);
}

}  // namespace bonsai::base
