// SPDX-License-Identifier: Apache-2.0
// Batches: whole for readers and for crashes, whatever is in their way.
#include <gtest/gtest.h>

#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using Updates = std::map<std::string, std::optional<std::string>>;

TEST(Batch, BecomesVisibleWhole) {
  Tier tier;
  ASSERT_TRUE(tier.put("b", "old"));
  ASSERT_TRUE(tier.write(Updates{{"a", "1"}, {"b", std::nullopt}, {"c", "3"}}));
  EXPECT_EQ(tier.scan_now(), (Model{{"a", "1"}, {"c", "3"}}));
  tier.crash();
  EXPECT_EQ(tier.scan_now(), (Model{{"a", "1"}, {"c", "3"}}));
}

// More keys in one range than a bnode has slots: the batch must push through successors whose predecessors
// cannot be offloaded before the batch itself is complete.
TEST(Batch, OfMoreKeysThanABnodeHasSlots) {
  Tier tier({.pool_bytes = size_t{16} << 20, .log_bytes = uint64_t{8} << 20});
  Updates updates;
  Model expected;
  for (uint64_t i = 0; i < 500; ++i) {
    updates[key_of(i)] = "v";
    expected[key_of(i)] = "v";
  }
  ASSERT_TRUE(tier.write(updates));
  EXPECT_EQ(tier.scan_now(), expected);
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.scan_now(), expected);
}

// The layers that a read of the deepest range passes, and the entries of the largest dnode.
struct Depth {
  size_t layers = 0;
  uint64_t entries = 0;
};

void measure(const Bnode& bnode, size_t layers, Depth* depth) {
  depth->layers = std::max(depth->layers, layers);
  const Base base = bnode.base();
  if (const persist::Dnode* dnode = base.dnode()) depth->entries = std::max(depth->entries, dnode->entries());
  if (const Layer* layer = base.layer()) {
    for (const Bnode* old : layer->olds) measure(*old, layers + 1, depth);
  }
}

void measure_newest(const Bnode& bnode, Depth* depth) {
  if (const Layer* layer = bnode.layer()) {
    for (const Bnode* fresh : layer->news) measure_newest(*fresh, depth);
  } else {
    measure(bnode, 0, depth);
  }
}

Depth depth_of(Tier& tier) {
  const auto guard = tier.epochs().enter();
  Depth depth;
  tier.index().tree().for_each([&](Bnode* bnode) { measure_newest(*bnode, &depth); });
  return depth;
}

// Batch i of `batches` writes every batches-th key from i on, so that each goes over the whole range.
Updates spread(uint64_t i, uint64_t batches, uint64_t count, Model* model) {
  Updates updates;
  for (uint64_t k = 0; k < count; ++k) {
    const std::string key = key_of(k * batches + i);
    updates[key] = std::to_string(i);
    (*model)[key] = std::to_string(i);
  }
  return updates;
}

// Batches that stack on each other before anything is offloaded. The updates that a range collects are cut into dnodes
// of usual size, and a read passes few layers.
TEST(Batch, StackedLargeOnesAreCutAndStayShallow) {
  constexpr uint64_t kBatches = 8, kCount = 11'000;  // more than a run may have entries
  Tier tier({.pool_bytes = size_t{160} << 20, .log_bytes = uint64_t{96} << 20});
  Model model;
  for (uint64_t i = 0; i < kBatches; ++i) {
    // The first item waits for room, and so for the layers before it, if others may fill its range.
    Batch* batch = Tier::make_batch(spread(i, kBatches, kCount, &model));
    const auto write = [&] {
      const auto guard = tier.epochs().enter();
      return tier.index().write(batch);
    };
    while (write() == Index::Outcome::kStalled) {
      ASSERT_FALSE(batch->begun());
      ASSERT_EQ(tier.offload(Index::Which::kUrgent, 1).ranges, 1u);
    }
    ASSERT_TRUE(batch->begun());
    batch->unref();
    EXPECT_LE(depth_of(tier).layers, 10u) << "after batch " << i;
  }
  EXPECT_LE(tier.index().work().plans_by_writers.load(), kBatches * kCount / 100);
  EXPECT_TRUE(tier.scan_now() == model);
  tier.crash();
  EXPECT_TRUE(tier.scan_now() == model) << "one range of recovered updates";
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_TRUE(tier.scan_now() == model);
  EXPECT_LE(depth_of(tier).entries, 4 * tier.pool().limits().dnode_entries_max);
  tier.crash();
  EXPECT_TRUE(tier.scan_now() == model);
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
}

TEST(Batch, DrivesThroughRangesThatAreBeingReplaced) {
  Tier tier({.pool_bytes = size_t{16} << 20});
  Model expected;
  for (uint64_t i = 0; i < 3'000; ++i) {
    ASSERT_TRUE(tier.put(key_of(i), "old"));
    expected[key_of(i)] = "old";
  }
  for (int round = 0; round < 30; ++round) {
    Updates updates;
    for (uint64_t i = 0; i < 20; ++i) updates[key_of(i * 150 + static_cast<uint64_t>(round))] = std::to_string(round);
    ASSERT_TRUE(tier.write(updates));
    for (const auto& [key, value] : updates) expected[key] = *value;
    if (round % 3 == 0) tier.offload(Index::Which::kAll, 2);
  }
  EXPECT_EQ(tier.scan_now(), expected);
  tier.crash();
  EXPECT_EQ(tier.scan_now(), expected);
}

TEST(Batch, OverwritingMergesInPlace) {
  Tier tier;
  for (int i = 0; i < 5'000; ++i) ASSERT_TRUE(tier.write({{"a", std::to_string(i)}, {"b", std::to_string(i)}}));
  EXPECT_EQ(tier.index().work().offloads.load(), 0u) << "overwritten nodes of batches give up their records too";
  EXPECT_EQ(tier.scan_now(), (Model{{"a", "4999"}, {"b", "4999"}}));
}

TEST(Batch, SnapshotsBetweenBatches) {
  Tier tier;
  std::vector<std::pair<Versions::Registration, Model>> snapshots;
  for (int i = 0; i < 10; ++i) {
    const std::string value = std::to_string(i);
    ASSERT_TRUE(tier.write({{"a", value}, {"b", value}}));
    snapshots.emplace_back(tier.index().register_scan(), Model{{"a", value}, {"b", value}});
    ASSERT_TRUE(i != 5 || tier.drain().ok());
  }
  for (const auto& [own, model] : snapshots) EXPECT_EQ(tier.scan(own.version()), model);
}

TEST(Batch, DoesNotBeginWhenTheLogIsFull) {
  Tier tier({.pool_bytes = size_t{2} << 20, .log_bytes = uint64_t{32} << 10});
  ASSERT_TRUE(tier.put("a", "before"));
  ASSERT_TRUE(tier.put("b", "before"));
  Batch* batch = Tier::make_batch({{"a", "batch"}, {"b", "batch"}});
  uint64_t fill = 0;
  {
    const auto guard = tier.epochs().enter();
    // Fill the log to the last byte with records that nothing frees.
    const std::string value(600, 'f');
    uint32_t segment = 0;
    while (tier.log().append({key_of(0), value, 1, 1, false, false}, persist::Log::Use::kBatch, &segment) ==
           persist::Log::Result::kOk) {
      ++fill;
    }
    const std::string small(8, 'f');
    while (tier.log().append({"f", small, 1, 1, false, false}, persist::Log::Use::kBatch, &segment) ==
           persist::Log::Result::kOk) {
      ++fill;
    }
    EXPECT_EQ(tier.index().write(batch), Index::Outcome::kLogFull) << "not even begun";
    EXPECT_EQ(batch->items[0].node.load(), nullptr);
  }
  EXPECT_EQ(tier.scan_now(), (Model{{"a", "before"}, {"b", "before"}}));
  EXPECT_GT(fill, 0u);
  batch->unref();
}

}  // namespace
}  // namespace bonsai::index::testing
