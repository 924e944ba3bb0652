// SPDX-License-Identifier: Apache-2.0
#include "base/heap.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"

namespace bonsai::base {
namespace {

using testing::budget;

struct Block {
  unsigned char* at;
  size_t bytes;
  unsigned char mark;
};

size_t random_bytes(Random* random) {
  const uint64_t kind = random->next() % 100;
  if (kind == 0) return 1 + random->next() % (3 * Heap::kRegionBytes);  // some have regions of their own
  if (kind < 10) return 1 + random->next() % (3 * Heap::kSlabBytes);
  return 1 + random->next() % (kind < 50 ? 256 : 9'000);
}

// Blocks of all sizes are allocated and freed: none overlaps another, and the heap's counters are right.
TEST(Heap, BlocksOfAllSizesAreApart) {
  Heap heap;
  const uint64_t seed = seed_from_env_or(fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  Random random(seed);
  std::vector<Block> blocks;
  uint64_t bytes = 0;
  const int rounds = budget(2'000, 20'000, 500'000);
  for (int i = 0; i < rounds; ++i) {
    if (blocks.size() < 300 && random.next() % 8 != 0) {
      Block block{nullptr, random_bytes(&random), static_cast<unsigned char>(random.next())};
      block.at = static_cast<unsigned char*>(heap.allocate(block.bytes));
      ASSERT_NE(block.at, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block.at) % (block.bytes % 64 == 0 ? 64 : 16), 0U) << block.bytes;
      std::memset(block.at, block.mark, block.bytes);
      bytes += block.bytes;
      blocks.push_back(block);
    } else if (!blocks.empty()) {
      std::swap(blocks[random.next() % blocks.size()], blocks.back());
      const Block& block = blocks.back();
      for (const size_t at : {size_t{0}, block.bytes / 2, block.bytes - 1}) ASSERT_EQ(block.at[at], block.mark);
      bytes -= block.bytes;
      Heap::free(block.at);
      blocks.pop_back();
    }
    const Heap::Use use = heap.use();
    ASSERT_GE(use.used_bytes, bytes);
    ASSERT_GE(use.held_bytes, use.used_bytes);
  }
  for (const Block& block : blocks) Heap::free(block.at);
  EXPECT_EQ(heap.use().used_bytes, 0U);
  heap.give_back();
  EXPECT_EQ(heap.use().held_bytes, 0U);
}

// Blocks that one thread allocates and another frees return to the system, although neither allocates again.
TEST(Heap, WhatAnotherThreadFreesIsGivenBack) {
  constexpr size_t kBlocks = 10'000, kBytes = 7'000;
  Heap heap;
  std::vector<void*> blocks(kBlocks);
  Thread("allocates", [&] {
    for (void*& block : blocks) block = heap.allocate(kBytes);
  }).join();
  const uint64_t held = heap.use().held_bytes;
  EXPECT_LT(held, kBlocks * kBytes * 5 / 4);
  Thread("frees", [&] {
    for (void* block : blocks) Heap::free(block);
  }).join();
  EXPECT_LT(heap.use().held_bytes, held / 4) << "some regions are kept in hand";
  heap.give_back();
  EXPECT_EQ(heap.use().held_bytes, 0U);
}

// A random half of the blocks stays; new blocks then fill the gaps before the heap grows.
TEST(Heap, GapsAreFilledFirst) {
  constexpr size_t kBlocks = 20'000, kBytes = 1'500;
  Heap heap;
  Random random(seed_from_env_or(1));
  std::vector<void*> blocks(kBlocks);
  for (void*& block : blocks) block = heap.allocate(kBytes);
  const uint64_t held = heap.use().held_bytes;
  for (int round = 0; round < 10; ++round) {
    for (void*& block : blocks) {
      if (block != nullptr && random.next() % 2 == 0) {
        Heap::free(block);
        block = nullptr;
      }
    }
    for (void*& block : blocks) {
      if (block == nullptr) block = heap.allocate(kBytes);
    }
    EXPECT_LE(heap.use().held_bytes, held + Heap::kRegionBytes);
  }
  for (void* block : blocks) Heap::free(block);
}

// Threads that allocate at the same time get blocks of different slabs, but not regions of their own.
TEST(Heap, ThreadsShareRegions) {
  constexpr size_t kThreads = 4, kBlocks = 2'000, kBytes = 128;
  Heap heap;
  std::vector<std::vector<void*>> blocks(kThreads, std::vector<void*>(kBlocks));
  {
    std::vector<Thread> threads;
    for (std::vector<void*>& mine : blocks) {
      threads.emplace_back("allocates", [&heap, &mine] {
        for (void*& block : mine) block = heap.allocate(kBytes);
      });
    }
  }
  EXPECT_EQ(heap.use().held_bytes, Heap::kRegionBytes);
  for (const std::vector<void*>& mine : blocks) {
    for (void* block : mine) Heap::free(block);
  }
}

// Blocks are replaced by blocks of other random sizes, many times. Each size class has partly used slabs; their free
// room stays below the size of all blocks.
TEST(Heap, PartlyUsedSlabsAreBounded) {
  Heap heap;
  Random random(seed_from_env_or(1));
  std::vector<void*> blocks(10'000);
  for (int round = 0; round < 20; ++round) {
    for (void*& block : blocks) {
      if (block != nullptr && random.next() % 2 == 0) continue;
      if (block != nullptr) Heap::free(block);
      block = heap.allocate(1'000 + random.next() % 2'000);
    }
  }
  heap.give_back();
  EXPECT_LT(heap.use().held_bytes, heap.use().used_bytes * 3 / 2);
  for (void* block : blocks) Heap::free(block);
}

TEST(Heap, ThreadsAllocateAndFreeForEachOther) {
  constexpr int kThreads = 4;
  const int rounds = budget(2'000, 20'000, 200'000);
  Heap heap;
  std::vector<std::atomic<uint64_t*>> shared(64);
  {
    std::vector<Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("heap", [&, t] {
        Random random(seed_from_env_or(1) + static_cast<uint64_t>(t));
        for (int i = 0; i < rounds; ++i) {
          const size_t words = 1 + random.next() % 1'000;
          auto* block = static_cast<uint64_t*>(heap.allocate(words * sizeof(uint64_t)));
          block[0] = words;
          block[words - 1] = words;
          block = shared[random.next() % shared.size()].exchange(block);
          if (block == nullptr) continue;
          EXPECT_EQ(block[block[0] - 1], block[0]);
          Heap::free(block);
        }
      });
    }
  }
  for (auto& block : shared) {
    if (block.load() != nullptr) Heap::free(block.load());
  }
  EXPECT_EQ(heap.use().used_bytes, 0U);
}

// How many regions the system gives to the test's heaps.
class Granting {
 public:
  explicit Granting(int64_t regions) { grant(regions); }
  ~Granting() { grant(-1); }
  static void grant(int64_t regions) { Heap::regions_granted_for_test.store(regions); }
};

TEST(Heap, AReserveServesWhenTheSystemDoesNot) {
  Heap heap;
  ASSERT_TRUE(heap.set_reserve(2));
  EXPECT_EQ(heap.use().held_bytes, 0U);
  const Granting none(0);
  std::vector<void*> blocks;
  while (void* block = heap.allocate(30'000)) blocks.push_back(block);
  EXPECT_GT(blocks.size(), 80U);
  EXPECT_EQ(heap.reserve_regions(), 0U);
  EXPECT_TRUE(Heap::any_short());
  EXPECT_FALSE(heap.refill());
  for (void* block : blocks) std::memset(block, 1, 30'000);
  for (void* block : blocks) Heap::free(block);
  heap.give_back();
  EXPECT_EQ(heap.reserve_regions(), 2U) << "what becomes empty fills the reserve first";
  EXPECT_FALSE(Heap::any_short());
}

TEST(Heap, AReserveIsFilledAgainByTheSystem) {
  Heap heap;
  ASSERT_TRUE(heap.set_reserve(1));
  Granting some(0);
  void* const block = heap.allocate(100);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(Heap::any_short());
  EXPECT_FALSE(heap.refill());
  Granting::grant(1);
  EXPECT_TRUE(heap.refill());
  EXPECT_FALSE(Heap::any_short());
  EXPECT_TRUE(heap.spend_reserve());
  EXPECT_TRUE(Heap::any_short());
  EXPECT_FALSE(heap.spend_reserve());
  Heap::free(block);
}

TEST(Heap, AHeapThatGetsNoReserveIsShortUntilItNeedsNone) {
  Heap heap;
  const Granting one(1);
  EXPECT_FALSE(heap.set_reserve(3));
  EXPECT_EQ(heap.reserve_regions(), 1U);
  EXPECT_TRUE(Heap::any_short());
  EXPECT_TRUE(heap.set_reserve(0));
  EXPECT_FALSE(Heap::any_short());
}

TEST(Heap, AnEndedHeapIsNotShort) {
  {
    Heap heap;
    const Granting none(0);
    EXPECT_FALSE(heap.set_reserve(1));
    EXPECT_TRUE(Heap::any_short());
  }
  EXPECT_FALSE(Heap::any_short());
}

}  // namespace
}  // namespace bonsai::base
