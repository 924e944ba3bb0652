// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/thread.h"

namespace bonsai::base {
namespace {

template <size_t alignment>
void expect_aligned_blocks() {
  std::vector<void*> blocks;
  for (size_t bytes = alignment; bytes < 3000; bytes += 37) {
    void* block = allocate_block<alignment>(bytes, Lifetime::kUpdates);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0U) << bytes;
    std::memset(block, static_cast<int>(bytes), bytes);
    blocks.push_back(block);
  }
  size_t bytes = alignment;
  for (void* block : blocks) {  // none overlaps another
    EXPECT_EQ(*static_cast<unsigned char*>(block), static_cast<unsigned char>(bytes));
    EXPECT_EQ(static_cast<unsigned char*>(block)[bytes - 1], static_cast<unsigned char>(bytes));
    bytes += 37;
    free_block<alignment>(block);
  }
}

TEST(Memory, BlocksAreAlignedAndApart) {
  expect_aligned_blocks<16>();
  expect_aligned_blocks<64>();
}

TEST(Memory, ABlockMayBeFreedByAnotherThread) {
  std::vector<void*> blocks(10'000);
  Thread("allocates", [&] {
    for (void*& block : blocks) block = allocate_block(48, Lifetime::kRanges);
  }).join();
  Thread("frees", [&] {
    for (void* block : blocks) free_block(block);
  }).join();
}

}  // namespace
}  // namespace bonsai::base
