// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
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

#if BONSAI_SCALABLE_MEMORY
TEST(Memory, IsScarceFromTheReserveOnUntilItIsFull) {
  MemoryReserve reserve;
  ASSERT_TRUE(reserve.take().ok());
  EXPECT_FALSE(memory_is_scarce());
  EXPECT_TRUE(memory_for_work().ok());
  Heap::regions_granted_for_test.store(0);
  std::vector<void*> blocks;
  EXPECT_THROW(for (;;) blocks.push_back(allocate_block(50'000, Lifetime::kRanges)), std::bad_alloc);
  EXPECT_TRUE(memory_is_scarce());
  EXPECT_TRUE(memory_for_work().IsNoSpace()) << "what frees memory may need some itself";
  EXPECT_FALSE(refill_memory());
  for (void* block : blocks) free_block(block);
  EXPECT_TRUE(refill_memory()) << "it was freed";
  EXPECT_FALSE(memory_is_scarce());
  Heap::regions_granted_for_test.store(-1);
}

TEST(Memory, HoldersShareAReserve) {
  MemoryReserve second;
  {
    MemoryReserve first;
    ASSERT_TRUE(first.take().ok());
    Heap::regions_granted_for_test.store(0);
    EXPECT_TRUE(first.take().ok());
    EXPECT_TRUE(second.take().ok());
    Heap::regions_granted_for_test.store(-1);
  }
  memory_ran_out();
  EXPECT_TRUE(memory_is_scarce());
  EXPECT_TRUE(refill_memory());
}

TEST(Memory, AReserveThatCannotBeHadIsRefused) {
  Heap::regions_granted_for_test.store(1);
  MemoryReserve reserve;
  EXPECT_TRUE(reserve.take().IsNoSpace());
  EXPECT_FALSE(memory_is_scarce()) << "nobody holds it";
  Heap::regions_granted_for_test.store(-1);
  EXPECT_TRUE(reserve.take().ok());
}
#endif

TEST(Memory, HasWhatNobodyCouldUse) {
  EXPECT_TRUE(memory_has(1000));
  EXPECT_TRUE(memory_has(size_t{3} << 20));
#if BONSAI_SCALABLE_MEMORY
  EXPECT_FALSE(memory_has(size_t{1} << 60));
#endif
}

}  // namespace
}  // namespace bonsai::base
