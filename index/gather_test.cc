// Gathering free space: runs move, and nobody notices.
#include <gtest/gtest.h>

#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using Which = Index::Which;

// Runs move under everything that reads them: bnodes, frozen ones of a layer that is not offloaded, residues of live
// snapshots. What comes together is one piece, nothing is lost, also in a crash.
TEST(Gather, MovesRunsUnderTheirReaders) {
  Tier tier;
  base::Random random(test_seed());
  for (uint64_t i = 0; i < 8'000; ++i) {
    ASSERT_TRUE(tier.put(key_of(i * 7'919 % 8'000), std::string(random.below(200), 'a')));
  }
  ASSERT_TRUE(tier.drain().ok());
  for (int i = 0; i < 3'000; ++i)
    ASSERT_TRUE(tier.put(key_of(random.below(8'000)), std::string(random.below(90), 'b')));
  ASSERT_TRUE(tier.drain().ok());
  auto snapshot = tier.index().announce();
  const Model then = tier.scan(snapshot.version());
  for (uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(tier.put(key_of(i * 3), "c"));
  for (uint64_t i = 2'000; tier.index().work().plans_by_writers.load() < 90; ++i) ASSERT_TRUE(tier.put(key_of(i), "d"));
  tier.offload(Which::kUrgent, 1);
  for (uint64_t i = 4'000; !tier.index().urgent(); ++i) ASSERT_TRUE(tier.put(key_of(i), "e"));
  const Model now = tier.scan_now();
  const uint64_t long_bytes = tier.pool().limits().dnode_bytes_max;
  for (const auto& piece : tier.space().free_pieces(0)) {  // only short ones are left
    ASSERT_TRUE(piece.bytes < long_bytes || tier.space().reserve(piece.addr, piece.bytes));
  }
  EXPECT_TRUE(tier.index().gather());
  EXPECT_GT(tier.index().work().moves.load(), 2u);
  EXPECT_GT(tier.residues(), 0u);
  EXPECT_EQ(tier.scan_now(), now);
  EXPECT_EQ(tier.scan(snapshot.version()), then);
  snapshot = Versions::Announcement();  // it does not outlive the index
  tier.crash();
  EXPECT_EQ(tier.scan_now(), now);
  EXPECT_GT(tier.space().aside().bytes, 0u);
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.scan_now(), now);
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
}

}  // namespace
}  // namespace bonsai::index::testing
