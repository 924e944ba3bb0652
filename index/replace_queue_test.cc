// SPDX-License-Identifier: Apache-2.0
// The queue of replacements: order, references, counts, and writers concurrent with replacers.
#include "index/replace_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using base::Fence;
using Kind = ReplaceQueue::Kind;

// Bnodes with a table each.
class Bnodes {
 public:
  explicit Bnodes(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      all_.push_back(new Bnode(Fence(), Fence::infinite(), i, Base(), Slots::kCapacityMin));
      bool made = false;
      all_.back()->slots_or_make(0, &made);
    }
  }
  ~Bnodes() {
    for (Bnode* bnode : all_) bnode->unref();
  }
  Bnodes(const Bnodes&) = delete;
  Bnodes& operator=(const Bnodes&) = delete;
  Bnode* operator[](size_t i) const { return all_[i]; }

 private:
  std::vector<Bnode*> all_;
};

class ReplaceQueueTest : public ::testing::TestWithParam<Kind> {
 protected:
  Kind kind() const { return GetParam(); }
  // The number of the next one, which is finished.
  uint64_t take() {
    Bnode* bnode = queue.next(kind());
    if (bnode == nullptr) return UINT64_MAX;
    const uint64_t number = bnode->gen();
    queue.finish(kind(), bnode);
    return number;
  }

  Bnodes bnodes{6};
  ReplaceQueue queue;
};

TEST_P(ReplaceQueueTest, TheLongestWaitingComesFirst) {
  EXPECT_EQ(queue.next(kind()), nullptr);
  for (size_t i = 0; i < 3; ++i) queue.enqueue(kind(), bnodes[i]);
  EXPECT_EQ(take(), 0u);
  for (size_t i = 3; i < 6; ++i) queue.enqueue(kind(), bnodes[i]);
  for (uint64_t i = 1; i < 6; ++i) EXPECT_EQ(take(), i);
  EXPECT_EQ(take(), UINT64_MAX);
}

TEST_P(ReplaceQueueTest, WhatIsPutBackWaitsAfterAllOthersAndStillCounts) {
  for (size_t i = 0; i < 3; ++i) queue.enqueue(kind(), bnodes[i]);
  Bnode* first = queue.next(kind());
  EXPECT_EQ(queue.waiting(kind()), 3u) << "until it is finished";
  queue.put_back(kind(), first);
  EXPECT_EQ(queue.waiting(kind()), 3u);
  EXPECT_EQ(take(), 1u);
  EXPECT_EQ(take(), 2u);
  EXPECT_EQ(take(), 0u);
  EXPECT_EQ(queue.waiting(kind()), 0u);
}

TEST_P(ReplaceQueueTest, TheQueueKeepsBnodesAlive) {
  auto* bnode = new Bnode(Fence(), Fence::infinite(), 7, Base(), Slots::kCapacityMin);
  bool made = false;
  bnode->slots_or_make(0, &made);
  queue.enqueue(kind(), bnode);
  bnode->unref();  // the last one but the queue's
  EXPECT_EQ(take(), 7u);
}

// For the sanitizers: entries that were enqueued, or taken and put back, are dropped with the queue.
TEST_P(ReplaceQueueTest, TheEndDropsReferences) {
  for (const size_t put_back : {0, 1}) {
    ReplaceQueue ending;
    for (uint64_t gen = 0; gen < 3; ++gen) {
      auto* bnode = new Bnode(Fence(), Fence::infinite(), gen, Base(), Slots::kCapacityMin);
      bool made = false;
      bnode->slots_or_make(0, &made);
      ending.enqueue(kind(), bnode);
      bnode->unref();
      if (put_back != 0) ending.put_back(kind(), ending.next(kind()));
    }
  }
}

// Each of many that several threads enqueue is taken once by those that take, who put some of them back.
TEST_P(ReplaceQueueTest, NothingIsLostOrTakenTwiceBesideWriters) {
  constexpr size_t kWriters = 3, kTakers = 2, kEach = 2'000;
  const Bnodes many(kWriters * kEach);
  std::vector<std::atomic<int>> taken(kWriters * kEach);
  std::atomic<size_t> left{kWriters * kEach};
  in_threads(kWriters + kTakers, [&](size_t thread) {
    if (thread < kWriters) {
      for (size_t i = 0; i < kEach; ++i) queue.enqueue(kind(), many[thread * kEach + i]);
      return;
    }
    base::BoundedWait wait("the writers of a test", 30'000);
    for (size_t looked = 0; left.load() > 0 && !wait.expired(); ++looked) {
      Bnode* bnode = queue.next(kind());
      if (bnode == nullptr) {
        wait.pause();
      } else if (looked % 5 == 0) {
        queue.put_back(kind(), bnode);
      } else {
        taken[bnode->gen()].fetch_add(1);
        queue.finish(kind(), bnode);
        left.fetch_sub(1);
      }
    }
  });
  EXPECT_EQ(queue.waiting(kind()), 0u);
  for (size_t i = 0; i < taken.size(); ++i) ASSERT_EQ(taken[i].load(), 1) << i;
}

INSTANTIATE_TEST_SUITE_P(Kinds, ReplaceQueueTest, ::testing::Values(Kind::kDirty, Kind::kHighMark),
                         [](const auto& kind) { return kind.param == Kind::kDirty ? "Dirty" : "HighMark"; });

// Both kinds at a time, which most that are above the mark are; forgotten wherever it is.
TEST(ReplaceQueue, WhatIsForgottenIsOnlyNotDirtyAnyMore) {
  const Bnodes bnodes(3);
  ReplaceQueue queue;
  queue.forget_dirty(bnodes[0]);  // its writer has not enqueued it yet
  for (size_t i = 0; i < 3; ++i) queue.enqueue(Kind::kDirty, bnodes[i]);
  queue.enqueue(Kind::kHighMark, bnodes[1]);
  queue.forget_dirty(bnodes[1]);
  queue.forget_dirty(bnodes[1]);
  EXPECT_EQ(queue.waiting(Kind::kDirty), 2u);
  EXPECT_EQ(queue.waiting(Kind::kHighMark), 1u);
  Bnode* high = queue.next(Kind::kHighMark);
  EXPECT_EQ(high, bnodes[1]);
  queue.finish(Kind::kHighMark, high);
  Bnode* dirty = queue.next(Kind::kDirty);
  queue.put_back(Kind::kDirty, dirty);
  queue.forget_dirty(dirty);
  dirty = queue.next(Kind::kDirty);
  EXPECT_EQ(dirty, bnodes[2]);
  queue.finish(Kind::kDirty, dirty);
  EXPECT_FALSE(queue.dirty());
}

TEST(ReplaceQueue, LayersCountUntilTheyAreOffloaded) {
  ReplaceQueue queue;
  Layer layers[3];
  EXPECT_EQ(queue.next_urgent(), nullptr);
  for (Layer& layer : layers) {
    queue.count_urgent();
    EXPECT_TRUE(queue.urgent() && queue.dirty()) << "also while it is being installed";
    layer.installed = true;
    queue.enqueue_urgent(&layer);
  }
  EXPECT_EQ(queue.next_urgent(), &layers[0]);
  const std::deque<Layer*> taken = queue.take_urgent();
  EXPECT_EQ(queue.next_urgent(), nullptr) << "nobody else works on what was taken";
  queue.enqueue_urgent(&layers[0]);
  queue.put_back_urgent(taken);
  for (Layer* layer : {&layers[1], &layers[2], &layers[0]}) {
    EXPECT_EQ(queue.ranges(), layer == &layers[1] ? 3u : layer == &layers[2] ? 2u : 1u);
    EXPECT_EQ(queue.next_urgent(), layer);
    queue.finish_urgent();
  }
  EXPECT_FALSE(queue.urgent() || queue.dirty());
}

TEST(ReplaceQueue, AGroupAboveTheHighWaterMarkIsUrgent) {
  const Bnodes bnodes(ReplaceQueue::kHighMarkGroup);
  ReplaceQueue queue;
  for (size_t i = 0; i < ReplaceQueue::kHighMarkGroup; ++i) {
    EXPECT_FALSE(queue.urgent()) << i;
    queue.enqueue(Kind::kHighMark, bnodes[i]);
  }
  EXPECT_TRUE(queue.urgent());
  EXPECT_FALSE(queue.dirty()) << "they are enqueued as dirty, too, by others";
}

TEST(ReplaceQueueDeath, WhatNobodyCountedCannotBeFinished) {
  const Bnodes bnodes(1);
  ReplaceQueue queue;
  EXPECT_DEATH(queue.finish(Kind::kDirty, bnodes[0]), "broken invariant");
  Layer layer;
  layer.installed = true;
  EXPECT_DEATH(queue.enqueue_urgent(&layer), "broken invariant");
}

}  // namespace
}  // namespace bonsai::index::testing
