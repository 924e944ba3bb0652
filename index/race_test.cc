// Races of the background with itself, forced at the product's own steps.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <utility>

#include "base/step.h"
#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

// Runs `call` the next time that the step is reached.
std::function<void()> once;
const char* once_at = "";
void hook(const char* step) {
  if (once && std::strcmp(step, once_at) == 0) std::exchange(once, {})();
}

Index::Outcome try_put(Tier* tier, const std::string& key) {
  Index::Put put;
  put.key = Key::of(key);
  put.value = "v";
  const auto guard = tier->epochs().enter();
  const Index::Outcome outcome = tier->index().put(&put);
  if (outcome != Index::Outcome::kDone) tier->index().abandon(put);
  return outcome;
}

// Fills the bnode of `prefix` and its successor until a put must wait for the offload between them.
void pile_up(Tier* tier, const std::string& prefix) {
  for (int i = 0; i < 100'000; ++i) {
    const Index::Outcome outcome = try_put(tier, prefix + std::to_string(i));
    if (outcome == Index::Outcome::kStalled) return;
    ASSERT_EQ(outcome, Index::Outcome::kDone);
  }
  FAIL() << "no put had to wait";
}

// A batch names a layer over a successor that is itself not offloaded. Another thread must not offload that layer
// between the moments in which the successor gets its dnode and its place in the tree.
TEST(Race, ALayerOfABatchWaitsUntilItsBnodeIsInTheTree) {
  Tier tier;
  for (int i = 0; i < 5'000; ++i) ASSERT_TRUE(tier.put(key_of(static_cast<uint64_t>(i)), std::string(100, 'v')));
  ASSERT_TRUE(tier.drain().ok());
  ASSERT_GT(tier.ranges(), 1u);
  pile_up(&tier, "key9");
  Batch* batch = Tier::make_batch({{"key", "of the first bnode"}, {"key9 of the last", "2"}});
  {
    const auto guard = tier.epochs().enter();
    ASSERT_EQ(tier.index().write(batch), Index::Outcome::kDone);
  }
  batch->unref();
  bool reached = false;
  once_at = "update index";
  once = [&] {
    reached = true;
    static_cast<void>(tier.index().offload(1, Index::Which::kUrgent));
  };
  base::step_hook.store(&hook);
  EXPECT_EQ(tier.index().offload(1, Index::Which::kUrgent).ranges, 1u);
  base::step_hook.store(nullptr);
  EXPECT_TRUE(reached);
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.get("key"), "of the first bnode");
  EXPECT_EQ(tier.get("key9 of the last"), "2");
}

}  // namespace
}  // namespace bonsai::index::testing
