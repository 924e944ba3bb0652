// SPDX-License-Identifier: Apache-2.0
// Building blocks of the maps: numbers for operations in flight, and memory that is counted and given back.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "bench/studies/maps/memory.h"
#include "bench/studies/maps/slots.h"

namespace bonsai::bench::maps {
namespace {

using bonsai::testing::budget;

constexpr unsigned kThreads = 4;

TEST(Slots, AreGivenToOneAtATime) {
  Slots slots(8);
  std::vector<Slots::Slot> taken;
  std::set<uint32_t> numbers;
  for (uint32_t i = 0; i < slots.size(); ++i) {
    taken.push_back(slots.take());
    EXPECT_LT(taken.back().number(), slots.size());
    EXPECT_TRUE(numbers.insert(taken.back().number()).second) << taken.back().number() << " was taken";
    EXPECT_LT(taken.back().number(), slots.used());
  }
  EXPECT_EQ(slots.used(), 8U);
  const uint32_t last = taken.back().number();
  taken.pop_back();
  EXPECT_EQ(slots.take().number(), last) << "the only one that nobody has";
  EXPECT_EQ(slots.take().number(), last) << "and again";
}

TEST(Slots, KeepWhoMovesThem) {
  Slots slots(2);
  Slots::Slot first = slots.take();
  const uint32_t number = first.number();
  {
    const Slots::Slot moved = std::move(first);
    EXPECT_EQ(moved.number(), number);
    EXPECT_NE(slots.take().number(), number) << "it is taken still";
  }
  const Slots::Slot other = slots.take(), again = slots.take();
  EXPECT_NE(other.number(), again.number()) << "both are free";
}

TEST(Slots, StaySmallWhereOneThreadActs) {
  Slots slots(64);
  const uint32_t number = slots.take().number();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(slots.take().number(), number);
  EXPECT_EQ(slots.used(), number + 1);
}

// More threads than slots: each number has one owner at a time, and each waiting thread gets one.
TEST(Slots, ServeMoreThreadsThanThereAre) {
  Slots slots(kThreads - 1);
  std::vector<std::atomic<int>> owners(slots.size());
  std::atomic<uint64_t> shared{0};
  {
    std::vector<base::Thread> threads;
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back("taker", [&] {
        for (int i = 0; i < budget(2'000, 20'000, 200'000); ++i) {
          const Slots::Slot slot = slots.take();
          if (owners[slot.number()].fetch_add(1) != 0) shared.fetch_add(1);
          owners[slot.number()].fetch_sub(1);
        }
      });
    }
  }
  EXPECT_EQ(shared, 0U);
  EXPECT_LE(slots.used(), slots.size());
}

struct Node {
  uint64_t value;
  std::atomic<int>* destroyed;
  ~Node() { destroyed->fetch_add(1); }
};

TEST(Memory, CountsWhatIsAllocatedAndNotFreed) {
  std::atomic<int> destroyed{0};
  Memory memory;
  EXPECT_EQ(memory.bytes(), 0U);
  Node* const node = memory.make<Node>(uint64_t{7}, &destroyed);
  EXPECT_EQ(node->value, 7U);
  EXPECT_EQ(memory.bytes(), sizeof(Node));
  void* const room = memory.allocate(1000);
  EXPECT_EQ(memory.bytes(), sizeof(Node) + 1000);
  memory.free(room, 1000);
  memory.destroy(node);
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(memory.bytes(), 0U);
}

TEST(Memory, KeepsWhatAReaderMaySee) {
  std::atomic<int> destroyed{0};
  {
    Memory memory;
    {
      const auto reader = memory.enter();
      memory.retire_object(memory.make<Node>(uint64_t{1}, &destroyed));
      for (int i = 0; i < 1'000; ++i) memory.retire_object(memory.make<Node>(uint64_t{2}, &destroyed));
      EXPECT_EQ(destroyed, 0) << "a reader from before may be at it";
      EXPECT_EQ(memory.bytes(), 1'001 * sizeof(Node)) << "what waits counts";
    }
    for (int i = 0; i < 10'000 && destroyed == 0; ++i) {
      const auto reader = memory.enter();
      memory.retire_object(memory.make<Node>(uint64_t{3}, &destroyed));
    }
    EXPECT_GT(destroyed, 0) << "without readers it goes";
  }
  EXPECT_GE(destroyed, 1'002) << "all of it goes with the map";
}

// Readers follow a pointer that writers replace. No reader reads freed memory (a sanitizer would report it), and the
// count is that of the live objects.
TEST(Memory, IsGivenBackBesideReaders) {
  std::atomic<int> destroyed{0};
  int made = 1;
  {
    Memory memory;
    std::atomic<Node*> newest{memory.make<Node>(uint64_t{0}, &destroyed)};
    std::atomic<bool> over{false};
    std::atomic<uint64_t> backwards{0};
    {
      std::vector<base::Thread> readers;
      for (unsigned thread = 1; thread < kThreads; ++thread) {
        readers.emplace_back("reader", [&] {
          uint64_t last = 0;
          while (!over) {
            const auto guard = memory.enter();
            const uint64_t value = newest.load()->value;
            if (value < last) backwards.fetch_add(1);
            last = value;
          }
        });
      }
      for (; made < budget(5'000, 50'000, 500'000); ++made) {
        const auto guard = memory.enter();
        Node* const before = newest.exchange(memory.make<Node>(static_cast<uint64_t>(made), &destroyed));
        memory.retire_object(before);
      }
      over = true;
    }
    EXPECT_EQ(backwards, 0U);
    EXPECT_EQ(memory.bytes(), (static_cast<size_t>(made) - static_cast<size_t>(destroyed)) * sizeof(Node));
    memory.destroy(newest.load());
  }
  EXPECT_EQ(destroyed, made) << "each once";
}

}  // namespace
}  // namespace bonsai::bench::maps
