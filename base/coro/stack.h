// SPDX-License-Identifier: Apache-2.0
// Stacks of coroutines: mapped with a guard page below, pooled for the whole process.
#ifndef BONSAI_BASE_CORO_STACK_H_
#define BONSAI_BASE_CORO_STACK_H_

#include <cstddef>

namespace bonsai::base {

// A mapping [bottom - guard, top): it grows down from `top`, and touching the page below `bottom` faults.
struct Stack {
  std::byte* bottom = nullptr;  // null = none
  size_t bytes = 0;
  [[nodiscard]] std::byte* top() const { return bottom + bytes; }
};

// Takes a stack of at least `bytes` (sanitizer builds: four times that, since their frames are larger) from the pool,
// or maps one. Contents are undefined. Returns an empty stack when the system gives none: there is no memory, or the
// number of mappings has reached vm.max_map_count (65,530 by default; each stack uses two). Thread-safety: any thread.
[[nodiscard]] Stack take_stack(size_t bytes);

// Gives back a stack on which nothing runs. The pool keeps a bounded number of each size and unmaps the others.
void give_back_stack(const Stack& stack);

// Stacks mapped since the start of the process.
[[nodiscard]] size_t stacks_created();

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CORO_STACK_H_
