// SPDX-License-Identifier: Apache-2.0
// Batches over successors that are not offloaded, at the product's own steps: chosen ones, then seeded schedules in
// which each thread is stopped somewhere until others have gone on (the model of it: testing/put_model.h).
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <utility>

#include "base/step.h"
#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using Outcome = Index::Outcome;

// Runs `call` the next time that the step is reached.
std::function<void()> once;
const char* once_at = "";
int batch_nodes = 0;  // that were published
void hook(const char* step) {
  batch_nodes += std::strcmp(step, "published batch node") == 0 ? 1 : 0;
  if (once && std::strcmp(step, once_at) == 0) std::exchange(once, {})();
}

// Two full ranges for the tests, with room for more keys near theirs.
class TwoRanges {
 public:
  TwoRanges() : tier({.pool_bytes = size_t{8} << 20, .log_bytes = uint64_t{2} << 20}) {
    for (uint64_t i = 0; i < 5'000; ++i) BONSAI_CHECK(tier.put(key_of(i), std::string(100, 'v')));
    BONSAI_CHECK(tier.drain().ok() && tier.ranges() > 1);
  }

  // One attempt, inside the caller's guard.
  Outcome put(const std::string& key, const std::string& value) {
    Index::Put put;
    put.key = Key::of(key);
    put.value = value;
    return tier.index().put(&put);
  }
  // Puts other keys into the last range until one would have to wait for an offload.
  void fill() {
    while (put(kKey + std::to_string(++filled_), "f") == Outcome::kDone) BONSAI_CHECK(filled_ % 100'000 != 0);
  }
  // A batch that begins in the first range, and then needs room in the last.
  Batch* batch_that_needs_room() {
    return Tier::make_batch({{kFirst, "y"}, {kKey + ".needs room" + std::to_string(++filled_), "y"}});
  }
  static inline const std::string kFirst = "key", kKey = "key9", kFar = "kez";
  Tier tier;

 private:
  uint64_t filled_ = 0;
};

// X = {key, far} is published in the key's chain alone, when others have piled up two successors above it. A later put
// of the key must make X visible first, because X came before.
std::optional<std::string> far_behind_the_put() {
  TwoRanges ranges;
  Tier& tier = ranges.tier;
  Batch* x = Tier::make_batch({{ranges.kKey, "x"}, {ranges.kFar, "x"}});
  Batch* y = ranges.batch_that_needs_room();
  std::optional<std::string> far;
  once_at = "published batch node";
  once = [&] {
    ranges.fill();
    EXPECT_EQ(tier.index().write(y), Outcome::kDone);
    EXPECT_EQ(ranges.put(ranges.kKey, "p"), Outcome::kDone);
    far = tier.get(ranges.kFar);
  };
  {
    const auto guard = tier.epochs().enter();
    base::step_hook.store(&hook);
    EXPECT_EQ(tier.index().write(x), Outcome::kDone);
    base::step_hook.store(nullptr);
  }
  EXPECT_FALSE(once) << "the step was not reached";
  EXPECT_EQ(tier.get(ranges.kKey), "p");
  tier.crash();
  EXPECT_EQ(tier.get(ranges.kKey), "p");
  EXPECT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.get(ranges.kKey), "p");
  x->unref();
  y->unref();
  return far;
}

TEST(StackRace, APutSeesABatchTwoLayersBelow) { EXPECT_EQ(far_behind_the_put(), "x"); }

TEST(StackRace, ALayerThatIsSettledByItsOwnHeadsIsNoticed) {
  bonsai::testing::mutants_on.store(kSettledByOwnHeads);
  EXPECT_EQ(far_behind_the_put(), std::nullopt);
  bonsai::testing::mutants_on.store(0);
}

// As above, with a put that began before. It finds X's node in the old bnode and helps, while X's owner has not noted
// yet that the node is in its chain.
int batch_nodes_with_a_helper() {
  batch_nodes = 0;
  TwoRanges ranges;
  Tier& tier = ranges.tier;
  Batch* x = Tier::make_batch({{ranges.kKey, "x"}, {ranges.kFar, "x"}});
  Batch* y = ranges.batch_that_needs_room();
  once_at = "published batch node";
  once = [&] {
    once_at = "persist record";
    once = [&] {
      ranges.fill();
      EXPECT_EQ(tier.index().write(y), Outcome::kDone);
    };
    EXPECT_NE(ranges.put(ranges.kKey, "p"), Outcome::kLogFull);
  };
  {
    const auto guard = tier.epochs().enter();
    base::step_hook.store(&hook);
    EXPECT_EQ(tier.index().write(x), Outcome::kDone);
    base::step_hook.store(nullptr);
  }
  EXPECT_FALSE(once) << "the step was not reached";
  x->unref();
  y->unref();
  return batch_nodes;
}

TEST(StackRace, AHelperFindsABatchsItemTwoLayersBelow) { EXPECT_EQ(batch_nodes_with_a_helper(), 2 + 2); }

TEST(StackRace, AnItemThatStandsTwiceIsNoticed) {
  bonsai::testing::mutants_on.store(kSettledByOwnHeads);
  EXPECT_EQ(batch_nodes_with_a_helper(), 2 + 2 + 1);
  bonsai::testing::mutants_on.store(0);
}

}  // namespace
}  // namespace bonsai::index::testing
