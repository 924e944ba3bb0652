// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/counters.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace bonsai::base {
namespace {

NvmCounters since(const NvmCounters& before) {
  const NvmCounters now = nvm_counters();
  return {now.bytes_stored - before.bytes_stored, now.lines_flushed - before.lines_flushed, now.fences - before.fences,
          now.media_bytes - before.media_bytes};
}

// Addresses are only counted, never touched.
const std::byte* at(uintptr_t address) { return reinterpret_cast<const std::byte*>(address); }

TEST(Counters, LinesOfARange) {
  EXPECT_EQ(lines_of(at(0x1000), 1), 1U);
  EXPECT_EQ(lines_of(at(0x1000), 64), 1U);
  EXPECT_EQ(lines_of(at(0x1000), 65), 2U);
  EXPECT_EQ(lines_of(at(0x103f), 2), 2U);
  EXPECT_EQ(lines_of(at(0x1001), 64), 2U);
}

TEST(Counters, CountEachKindExactly) {
  const NvmCounters before = nvm_counters();
  count_stored(8);
  count_stored(100);
  count_flush(at(0x10000), 65);
  count_flush(at(0x10000), 0);
  count_nt(at(0x20000), 64);
  count_fence();
  count_fence();
  const NvmCounters diff = since(before);
  EXPECT_EQ(diff.bytes_stored, 172U);
  EXPECT_EQ(diff.lines_flushed, 2U);
  EXPECT_EQ(diff.fences, 2U);
  EXPECT_EQ(diff.media_bytes, 512U);  // one block for the flush, one for the copy
}

TEST(Counters, NeighbouringLinesShareABlock) {
  const NvmCounters before = nvm_counters();
  for (uintptr_t line = 0; line < 1024; ++line) count_nt(at(0x1000000 + line * 64), 64);
  EXPECT_EQ(since(before).media_bytes, 1024U * 64);  // a stream has write amplification 1
}

TEST(Counters, ScatteredLinesCostABlockEach) {
  const NvmCounters before = nvm_counters();
  for (uintptr_t i = 0; i < 1000; ++i) count_flush(at(0x2000000 + i * 4096), 8);
  EXPECT_EQ(since(before).media_bytes, 1000U * 256);
}

TEST(Counters, BufferHoldsSixtyFourBlocks) {
  const uintptr_t base = 0x3000000;
  for (uintptr_t i = 0; i < 64; ++i) count_flush(at(base + i * 256), 8);
  const NvmCounters before = nvm_counters();
  for (uintptr_t i = 0; i < 64; ++i) count_flush(at(base + i * 256 + 64), 8);
  EXPECT_EQ(since(before).media_bytes, 0U);
  count_flush(at(base + 64 * 256), 8);  // takes the slot of block 0
  count_flush(at(base), 8);
  EXPECT_EQ(since(before).media_bytes, 512U);
}

TEST(Counters, ThreadsThatEndKeepTheirCounts) {
  const NvmCounters before = nvm_counters();
  constexpr int kThreads = 4, kRounds = 5, kIncrements = 1000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < kIncrements; ++i) {
          count_stored(3);
          count_fence();
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  const NvmCounters diff = since(before);
  EXPECT_EQ(diff.fences, uint64_t{kThreads} * kRounds * kIncrements);
  EXPECT_EQ(diff.bytes_stored, uint64_t{kThreads} * kRounds * kIncrements * 3);
}

struct CountsLate {
  ~CountsLate() { count_stored(7); }
};

TEST(Counters, CountsOfThreadLocalDestructorsAreNotLost) {
  const NvmCounters before = nvm_counters();
  std::thread([] {
    thread_local CountsLate late;  // made before the thread's block is, so destroyed after the block was given back
    static_cast<void>(&late);
    count_stored(1);
  }).join();
  EXPECT_EQ(since(before).bytes_stored, 8U);
}

TEST(Counters, OrdinalsOfLiveThreadsDiffer) {
  const uint32_t mine = counter_block_ordinal();
  uint32_t other = mine;
  std::thread([&] { other = counter_block_ordinal(); }).join();
  EXPECT_NE(mine, other);
  EXPECT_EQ(mine, counter_block_ordinal());
}

TEST(Counters, EndedThreadsMakeRoomForNewOnes) {
  std::set<uint32_t> ordinals;
  for (int i = 0; i < 50; ++i) std::thread([&] { ordinals.insert(counter_block_ordinal()); }).join();
  EXPECT_EQ(ordinals.size(), 1U);
}

}  // namespace
}  // namespace bonsai::base
