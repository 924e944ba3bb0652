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
  std::vector<std::pair<Versions::Announcement, Model>> snapshots;
  for (int i = 0; i < 10; ++i) {
    const std::string value = std::to_string(i);
    ASSERT_TRUE(tier.write({{"a", value}, {"b", value}}));
    snapshots.emplace_back(tier.index().announce(), Model{{"a", value}, {"b", value}});
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
