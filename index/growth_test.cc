// SPDX-License-Identifier: Apache-2.0
// Growth of ranges: when a dnode is appended to, compacted or split, and how much tables widen.
#include <gtest/gtest.h>

#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using base::Key;
using Which = Index::Which;

// Whether a dnode is too large without its overwritten entries is estimated from its first part. New keys after that
// part are noticed one compaction later.
TEST(Growth, OverwritingSplitsNothingAndNewKeysDoWhereverTheyCome) {
  Tier tier({.pool_bytes = size_t{32} << 20});
  Model model;
  const uint64_t records = 20 * tier.pool().limits().dnode_entries_max;
  const auto put_all = [&](const std::string& value) {
    for (uint64_t i = 0; i < records; ++i) model[key_of(i * 7'919 % records)] = value;
    for (const auto& record : model) ASSERT_TRUE(tier.put(record.first, record.second));
    ASSERT_TRUE(tier.drain().ok());
  };
  put_all("first");
  put_all("full");
  const uint64_t splits = tier.index().work().splits.load();
  for (const char* value : {"some", "more", "later"}) put_all(value);
  EXPECT_EQ(tier.index().work().splits.load(), splits);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> last;
    tier.index().tree().for_each([&](Bnode* bnode) {
      const auto behind = bnode->hi().is_infinite() ? model.end() : model.lower_bound(bnode->hi().bytes());
      last.push_back(std::prev(behind)->first);
    });
    for (const std::string& key : last) {
      for (int i = 0; i < 40; ++i) ASSERT_TRUE(tier.put(key + key_of(i), model[key + key_of(i)] = "new"));
    }
    ASSERT_TRUE(tier.drain().ok());
    tier.index().tree().for_each([&](Bnode* bnode) {
      EXPECT_LE(bnode->base().dnode()->runs().front().count, tier.pool().limits().dnode_entries_max * 7 / 4);
    });
  }
  EXPECT_GT(tier.index().work().splits.load(), splits);
  EXPECT_EQ(tier.scan_now(), model);
}

// The most that was appended to any dnode, as a multiple of its body.
double appended_max(Tier& tier) {
  double most = 0;
  tier.index().tree().for_each([&](Bnode* bnode) {
    const persist::Dnode& dnode = *bnode->base().dnode();
    const double body = dnode.runs().front().count;
    most = std::max(most, (static_cast<double>(dnode.entries()) - body) / body);
    EXPECT_LE(dnode.entries(), tier.pool().limits().entries_appended_max());
  });
  return most;
}

// Overwritten entries take space, so a body is compacted when they come to three quarters of it. New ones take none
// that compaction would give back: they are appended until the dnode is to be split, into many.
TEST(Growth, NewKeysAreAppendedForLongerThanOverwrites) {
  Tier tier({.pool_bytes = size_t{64} << 20});
  Model model;
  constexpr uint64_t kRecords = 60'000;
  uint64_t put = 0;
  const auto put_some = [&](const std::string& value) {  // offloaded where tables fill up, as while the log has room
    for (const uint64_t end = std::min(kRecords, put + 300 * tier.ranges()); put < end; ++put) {
      const std::string key = key_of(put * 7'919 % kRecords);
      ASSERT_TRUE(tier.put(key, model[key] = value));
      if (tier.index().urgent()) tier.offload(Which::kUrgent);
    }
  };
  double most = 0;
  while (put < kRecords) {
    put_some("new");
    most = std::max(most, appended_max(tier));
  }
  EXPECT_GT(most, 1.5);
  EXPECT_LE(tier.index().work().compactions.load(), kRecords / tier.pool().limits().dnode_entries_max * 2)
      << "cut in two whenever they have doubled, ranges would be compacted twice as often";
  ASSERT_TRUE(tier.drain().ok());
  tier.put_in_order();
  EXPECT_EQ(appended_max(tier), 0);
  for (int round = 0; round < 3; ++round) {
    for (put = 0; put < kRecords;) {
      put_some("again");
      EXPECT_LE(appended_max(tier), 0.75);
    }
  }
  EXPECT_EQ(tier.scan_now(), model);
  tier.crash();
  EXPECT_EQ(tier.scan_now(), model);
}

// Keys that come in rising order all go to the last range: it gets a table that seldom fills up, and its dnodes are
// full.
TEST(Growth, RisingKeysFillDnodesAndSeldomTheTable) {
  static constexpr uint64_t kRecords = 20'000;
  const auto load = [](bool rising, Tier* tier) {
    for (uint64_t i = 0; i < kRecords; ++i) {
      ASSERT_TRUE(tier->put(key_of(rising ? i : i * 7'919 % kRecords), "v"));
      if (tier->index().urgent()) tier->offload(Which::kUrgent);
    }
    ASSERT_TRUE(tier->drain().ok());
    EXPECT_EQ(tier->scan_now().size(), kRecords);
  };
  Tier rising({.pool_bytes = size_t{32} << 20}), mixed({.pool_bytes = size_t{32} << 20});
  load(true, &rising);
  load(false, &mixed);
  const uint64_t entries_max = rising.pool().limits().dnode_entries_max;
  EXPECT_LE(rising.ranges(), kRecords / (entries_max * 9 / 10) + 2);
  EXPECT_GE(mixed.ranges(), kRecords / mixed.pool().limits().entries_appended_max());
  EXPECT_LE(rising.index().work().offloads.load(), kRecords / Slots::kRisingCapacityMax * 5 / 4 + 10);
  EXPECT_GE(mixed.index().work().offloads.load(), kRecords / Slots::kWideCapacityMax);
  size_t wide = 0;
  rising.index().tree().for_each([&](Bnode* bnode) { wide += bnode->capacity() > Slots::kWideCapacityMax ? 1 : 0; });
  EXPECT_LE(wide, 1U);
  for (uint64_t i = 0; i < kRecords; i += 3) ASSERT_TRUE(rising.put(key_of(i * 7'919 % kRecords), "later"));
  rising.index().tree().for_each([](Bnode* bnode) { EXPECT_LE(bnode->capacity(), Slots::kWideCapacityMax); });
  EXPECT_EQ(rising.scan_now().size(), kRecords);
}

TEST(Growth, FewUpdatesAreAppendedManyAreCompacted) {
  Tier tier;
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(tier.put(key_of(i), "0123456789"));
  ASSERT_TRUE(tier.drain().ok());
  const uint64_t compactions = tier.index().work().compactions.load();
  ASSERT_TRUE(tier.put(key_of(5), "changed"));
  ASSERT_TRUE(tier.del(key_of(6)));
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.index().work().compactions.load(), compactions) << "one run more";
  EXPECT_EQ(tier.get(key_of(5)), "changed");
  EXPECT_EQ(tier.get(key_of(6)), std::nullopt);
  EXPECT_EQ(tier.scan_now().size(), 99u);
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(tier.put(key_of(7), std::to_string(i)));
    ASSERT_TRUE(tier.drain().ok());
  }
  EXPECT_EQ(tier.index().work().compactions.load(), compactions) << "a small run is written again with the next update";
  EXPECT_EQ(tier.get(key_of(7)), "39");
  EXPECT_EQ(tier.get(key_of(6)), std::nullopt) << "its tombstone is still over the body";
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
  for (uint64_t i = 0; i < 80; ++i) ASSERT_TRUE(tier.put(key_of(i), std::to_string(i)) && tier.drain().ok());
  EXPECT_GT(tier.index().work().compactions.load(), compactions) << "what was appended does not pile up";
  EXPECT_EQ(tier.get(key_of(79)), "79");
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
}

}  // namespace
}  // namespace bonsai::index::testing
