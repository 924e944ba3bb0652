// SPDX-License-Identifier: Apache-2.0
#include "index/policy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "index/bnode.h"

namespace bonsai::index::policy {
namespace {

constexpr Limits kLimits{.large_value_bytes_min = 4096, .dnode_bytes_max = 64'000, .dnode_entries_max = 900};

// A dnode whose entries take 30 bytes each.
Shape shape(uint64_t body, uint64_t appended = 0, size_t runs = 0) {
  Shape shape;
  shape.runs = runs != 0 ? runs : (body != 0 ? 1 : 0) + (appended != 0 ? 1 : 0);
  shape.body = {body, 30 * body};
  shape.all = {body + appended, 30 * (body + appended)};
  shape.newest_entries = appended != 0 ? appended : body;
  return shape;
}
Weight updates(uint64_t entries) { return {entries, 30 * entries}; }
Facts facts(const Shape& dnode, uint64_t entries) {
  return {.updates = updates(entries), .dnode = dnode, .table = {.exists = true, .capacity = 64, .used = 40}};
}

TEST(Policy, UpdatesAreAppendedUntilThreeQuartersAreHidden) {
  EXPECT_TRUE(may_append(shape(400), updates(300), kLimits, 0));
  EXPECT_FALSE(may_append(shape(400), updates(301), kLimits, 0));
  EXPECT_TRUE(may_append(shape(400, 200), updates(100), kLimits, 0));
  EXPECT_FALSE(may_append(shape(400, 200), updates(101), kLimits, 0));
}

TEST(Policy, FreshUpdatesAreAppendedForLonger) {
  EXPECT_FALSE(may_append(shape(400, 300), updates(100), kLimits, 0));
  EXPECT_TRUE(may_append(shape(400, 300), updates(100), kLimits, 0.3));
  EXPECT_TRUE(may_append(shape(400, 1000), updates(600), kLimits, 0.6)) << "they never hide three quarters";
  EXPECT_FALSE(may_append(shape(400, 1500), updates(600), kLimits, 1)) << "more than a dnode may have";
}

TEST(Policy, NothingIsAppendedToWhatMustBeCompacted) {
  EXPECT_FALSE(may_append(shape(0), updates(1), kLimits, 0)) << "there is no body";
  EXPECT_FALSE(may_append(shape(400), updates(0), kLimits, 0)) << "there is nothing to append";
  Shape large = shape(400);
  large.has_large = true;
  EXPECT_FALSE(may_append(large, updates(1), kLimits, 0));
  EXPECT_FALSE(may_append(shape(400), {1, 64'000}, kLimits, 0)) << "compacting it would take too much at once";
  EXPECT_FALSE(may_append(shape(400, 100, persist::kRunsMax), updates(10), kLimits, 0)) << "no run is left";
}

// A small newest run is written again rather than that runs come to their end before the body is compacted.
TEST(Policy, ASmallNewestRunIsAbsorbedWhenRunsRunOut) {
  Shape dnode = shape(400, 40, 3);
  dnode.newest_entries = 10;
  EXPECT_TRUE(absorbs_newest(dnode, 10, kLimits, 0)) << "as many updates go on coming";
  EXPECT_FALSE(absorbs_newest(dnode, 200, kLimits, 0)) << "the next one compacts";
  dnode.newest_entries = 16;
  EXPECT_FALSE(absorbs_newest(dnode, 10, kLimits, 0)) << "not small";
  EXPECT_FALSE(absorbs_newest(shape(400), 10, kLimits, 0)) << "the body is not absorbed";
  Shape full = shape(400, 40, persist::kRunsMax);
  full.newest_entries = 10;
  EXPECT_TRUE(may_append(full, updates(10), kLimits, 0));
}

TEST(Policy, LooksOnlyBeforeCompacting) {
  EXPECT_FALSE(wants_a_look(facts(shape(400), 100), kLimits)) << "appended";
  EXPECT_TRUE(wants_a_look(facts(shape(400), 400), kLimits));
  EXPECT_FALSE(wants_a_look(facts(shape(0), 0), kLimits)) << "nothing is there";
  Facts far = facts(shape(400), 400);
  far.carries = true;
  EXPECT_FALSE(wants_a_look(far, kLimits)) << "a round trip to see that it is small";
  far = facts(shape(800), 700);
  far.carries = true;
  EXPECT_TRUE(wants_a_look(far, kLimits));
}

TEST(Policy, SplitsWhatIsTooLargeOnceItIsCompacted) {
  const Facts all = facts(shape(800), 700);
  EXPECT_FALSE(plan(all, kLimits, Weight{790, 23'700}).splits) << "most updates hide entries";
  EXPECT_TRUE(plan(all, kLimits, Weight{850, 25'500}).splits);
  EXPECT_FALSE(plan(all, kLimits, Weight{1400, 42'000}).splits) << "most are fresh: they are appended";
  EXPECT_FALSE(plan(all, kLimits, std::nullopt).splits) << "nobody looked";
  Facts rising = all;
  rising.rising = true;
  EXPECT_TRUE(plan(rising, kLimits, std::nullopt).splits);
  EXPECT_TRUE(plan(facts(shape(1500), 1200), kLimits, std::nullopt).splits) << "more than two dnodes hold";
  EXPECT_FALSE(plan(facts(shape(800), 110), kLimits, std::nullopt).splits) << "appended";
}

TEST(Policy, ALookFindsHowManyUpdatesAreFresh) {
  EXPECT_EQ(plan(facts(shape(400), 400), kLimits, Weight{600, 18'000}).fresh, 0.5);
  EXPECT_EQ(plan(facts(shape(400), 400), kLimits, Weight{300, 9'000}).fresh, 0) << "some were deleted";
  EXPECT_EQ(plan(facts(shape(400), 400), kLimits, std::nullopt).fresh, 0);
}

TEST(Policy, SmallNeighboursMerge) {
  EXPECT_TRUE(plan(facts(shape(100), 100), kLimits, std::nullopt).merges);
  EXPECT_FALSE(plan(facts(shape(100), 125), kLimits, std::nullopt).merges);
  EXPECT_TRUE(fit_together({200, 6'000}, {250, 7'500}, kLimits));
  EXPECT_FALSE(fit_together({200, 6'000}, {251, 7'500}, kLimits));
  EXPECT_FALSE(fit_together({200, 6'000}, {20, 30'000}, kLimits));
}

TEST(Policy, WhileSpaceIsShortOnlyBytesSplitARange) {
  const Limits now = limits_now(kLimits, true);
  EXPECT_EQ(now.dnode_entries_max, 4 * kLimits.dnode_entries_max);
  EXPECT_EQ(now.dnode_bytes_max, kLimits.dnode_bytes_max);
  EXPECT_EQ(limits_now(kLimits, false).dnode_entries_max, kLimits.dnode_entries_max);
  EXPECT_TRUE(exceeds({901, 0}, kLimits));
  EXPECT_FALSE(exceeds({901, 0}, now));
  EXPECT_FALSE(exceeds({901, 64'001}, kLimits, 2));
}

TEST(Policy, TablesDoubleAndShrinkAgain) {
  const auto capacity = [](uint32_t now, uint32_t used, bool full, uint64_t update_bytes, bool low, bool rising) {
    Facts f = facts(shape(400), used);
    f.updates.bytes = update_bytes;
    f.table = {true, now, used, full};
    f.log_low = low;
    f.rising = rising;
    return plan(f, kLimits, std::nullopt).capacity;
  };
  EXPECT_EQ(capacity(64, 60, true, 1'800, false, false), 128U);
  EXPECT_EQ(capacity(64, 30, false, 900, false, false), 64U);
  EXPECT_EQ(capacity(64, 20, false, 600, false, false), 32U);
  EXPECT_EQ(capacity(16, 1, false, 30, false, false), Slots::kCapacityMin);
  EXPECT_EQ(capacity(512, 450, true, 30'000, false, false), Slots::kWideCapacityMax);
  EXPECT_EQ(capacity(512, 450, true, 30'000, false, true), Slots::kRisingCapacityMax);
  EXPECT_EQ(capacity(512, 450, true, 64'001, false, true), Slots::kCapacityMax) << "more than a dnode holds";
  EXPECT_EQ(capacity(512, 300, false, 9'000, true, false), 512U) << "ranges wait for the log";
  EXPECT_EQ(capacity(512, 300, false, 9'000, false, false), Slots::kCapacityMax);
}

TEST(Policy, PartsShareATable) {
  const Plan wide{.capacity = 512};
  EXPECT_EQ(capacity_of_part(wide, false, 1, true), 512U);
  EXPECT_EQ(capacity_of_part(wide, false, 2, true), 256U);
  EXPECT_EQ(capacity_of_part(wide, false, 8, false), Slots::kCapacityMax);
  EXPECT_EQ(capacity_of_part(wide, true, 3, true), 512U) << "where the next keys come";
  EXPECT_EQ(capacity_of_part(wide, true, 3, false), Slots::kCapacityMax);
}

TEST(Policy, ABatchGetsTheTableThatItNeeds) {
  EXPECT_EQ(capacity_for_batch({true, 64, 60, true}, false, 1), 128U) << "tables double";
  EXPECT_EQ(capacity_for_batch({true, 64, 10, false}, false, 100), 256U);
  EXPECT_EQ(capacity_for_batch({.capacity = 64}, false, 1'000'000), Slots::kBatchCapacityMax);
  EXPECT_EQ(capacity_for_batch({true, 1024, 1000, true}, true, 1), Slots::kCapacityMax) << "the range is cut";
}

TEST(Policy, ReadersGainByFewerRunsOrUpdates) {
  EXPECT_FALSE(is_compactable(1, false));
  EXPECT_TRUE(is_compactable(2, false));
  EXPECT_TRUE(is_compactable(0, true));
}

// Each part fits into a dnode; those of a rising range are nearly full, others about equal.
TEST(Policy, CutsAreWhereTheWeightIs) {
  std::vector<std::string> names;
  for (int i = 0; i < 3000; ++i) names.push_back("key" + std::to_string(10'000 + i));
  std::vector<Sized> keys;
  for (const std::string& name : names) keys.push_back({base::Key::of(name), 30});
  const auto at = [&](const std::vector<std::string>& cuts, size_t i) { return std::stoi(cuts[i].substr(3)) - 10'000; };
  const auto even = cuts_of(keys, false, kLimits);
  ASSERT_EQ(even.size(), 4U);
  for (size_t i = 0; i < even.size(); ++i) EXPECT_NEAR(at(even, i), 600 * (i + 1), 1);
  const auto rising = cuts_of(keys, true, kLimits);
  ASSERT_EQ(rising.size(), 3U);
  for (size_t i = 0; i < rising.size(); ++i) EXPECT_EQ(at(rising, i), 810 * static_cast<int>(i + 1));
  EXPECT_TRUE(cuts_of(std::span(keys).first(900), false, kLimits).empty()) << "one dnode holds it";
  for (size_t i = 0; i < 10; ++i) keys[i].bytes = 30'000;
  const auto heavy = cuts_of(keys, false, kLimits);
  EXPECT_LT(at(heavy, 2), 10) << "large entries are few to a part";
  EXPECT_TRUE(cuts_of({}, true, kLimits).empty());
}

}  // namespace
}  // namespace bonsai::index::policy
