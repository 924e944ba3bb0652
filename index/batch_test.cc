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

}  // namespace
}  // namespace bonsai::index::testing
