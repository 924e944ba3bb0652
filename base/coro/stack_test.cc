// SPDX-License-Identifier: Apache-2.0
#include "base/coro/stack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace bonsai::base {
namespace {

TEST(Stack, IsWritableInFullAndReused) {
  const Stack stack = take_stack(10'000);
  ASSERT_NE(stack.bottom, nullptr);
  EXPECT_GE(stack.bytes, 10'000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(stack.top()) % 4096, 0u);
  std::memset(stack.bottom, 1, stack.bytes);
  give_back_stack(stack);
  const size_t created = stacks_created();
  const Stack again = take_stack(10'000);
  EXPECT_EQ(again.bottom, stack.bottom);
  EXPECT_EQ(stacks_created(), created);
  give_back_stack(again);
}

TEST(Stack, SizesDoNotMix) {
  const Stack small = take_stack(4096);
  give_back_stack(small);
  const Stack large = take_stack(1 << 20);
  EXPECT_GE(large.bytes, size_t{1} << 20);
  EXPECT_NE(large.bottom, small.bottom);
  give_back_stack(large);
}

TEST(Stack, ThePoolIsBoundedAndARefusalIsAnAnswer) {
  std::vector<Stack> stacks;
  for (int i = 0; i < 5000; ++i) {
    stacks.push_back(take_stack(4096));
    ASSERT_NE(stacks.back().bottom, nullptr);
  }
  for (const Stack& stack : stacks) give_back_stack(stack);
  EXPECT_EQ(take_stack(size_t{1} << 46).bottom, nullptr);
}

TEST(StackDeath, ThePageBelowIsAGuard) {
  const Stack stack = take_stack(4096);
  EXPECT_DEATH(stack.bottom[-1] = std::byte{1}, "");
  give_back_stack(stack);
}

}  // namespace
}  // namespace bonsai::base
