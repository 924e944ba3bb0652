// SPDX-License-Identifier: Apache-2.0
// The column "balanced" of KiWi's table 1, of this index: keys that are inserted in order do not make the way to a key
// longer in proportion, whether their updates are still in bnodes or in dnodes. Counted in the product's own steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/step.h"
#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

constexpr uint64_t kFew = 1'000, kMany = 64'000, kProbes = 64;
constexpr double kHalfANode = 31;  // of 64 slots, one of which a split may move
constexpr uint64_t kOdd = 40'503;  // prime to both: multiples of it are all numbers, in no order

uint64_t steps_taken = 0;

// The most steps of a get, of some keys that are there.
uint64_t longest_way(Tier* tier, uint64_t keys) {
  uint64_t most = 0;
  for (uint64_t i = 0; i < kProbes; ++i) {
    const std::string key = key_of(i * keys / kProbes);
    steps_taken = 0;
    base::step_hook.store([](const char*) { ++steps_taken; });
    const bool found = tier->get(key).has_value();
    base::step_hook.store(nullptr);
    EXPECT_TRUE(found) << key;
    most = std::max(most, steps_taken);
  }
  return most;
}

struct Ways {
  uint64_t undrained = 0, drained = 0;
  size_t ranges = 0;

  // The most levels below its root that a tree of `ranges` ranges has, when inner nodes are split in halves.
  [[nodiscard]] uint64_t levels_max() const {
    return static_cast<uint64_t>(std::log(static_cast<double>(ranges)) / std::log(kHalfANode));
  }
};

Ways ways_after_inserts(uint64_t keys, bool ordered) {
  Tier tier({.pool_bytes = size_t{32} << 20});
  for (uint64_t i = 0; i < keys; ++i) EXPECT_TRUE(tier.put(key_of(ordered ? i : i * kOdd % keys), "value"));
  Ways ways;
  ways.undrained = longest_way(&tier, keys);
  EXPECT_TRUE(tier.drain().ok());
  ways.drained = longest_way(&tier, keys);
  ways.ranges = tier.ranges();
  std::printf("%llu keys, %s: %llu steps, drained %llu, in %zu ranges\n", static_cast<unsigned long long>(keys),
              ordered ? "in order" : "at random", static_cast<unsigned long long>(ways.undrained),
              static_cast<unsigned long long>(ways.drained), ways.ranges);
  if (keys == kMany) {
    EXPECT_GT(ways.ranges, 64u) << "one inner node has them all";
  }
  return ways;
}

TEST(Balance, OrderedInsertsDoNotMakeTheWayLonger) {
  const Ways few = ways_after_inserts(kFew, true), many = ways_after_inserts(kMany, true);
  const Ways random = ways_after_inserts(kMany, false);
  ASSERT_EQ(few.ranges, 1u);
  ASSERT_GT(few.drained, 0u) << "no step is seen";
  EXPECT_LT(many.undrained, 4 * few.undrained) << "of probing in a table of bounded size";
  EXPECT_LE(many.drained, few.drained + many.levels_max()) << "a step for each level";
  EXPECT_LE(random.drained, few.drained + random.levels_max());
}

}  // namespace
}  // namespace bonsai::index::testing
