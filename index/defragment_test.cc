// SPDX-License-Identifier: Apache-2.0
// Defragmenting while readers use the index: runs move, and every read returns the right value.
#include <gtest/gtest.h>

#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using Which = Index::Which;

void fill(Tier* tier, base::Random* random) {
  for (uint64_t i = 0; i < 8'000; ++i) {
    EXPECT_TRUE(tier->put(key_of(i * 7'919 % 8'000), std::string(random->below(200), 'a')));
  }
  EXPECT_TRUE(tier->drain().ok());
}

// Takes all longer free pieces, so that only short ones are left, each next to a run.
void leave_short_pieces(persist::Space* space, uint64_t gap_bytes) {
  for (const auto& piece : space->free_pieces(0)) {
    const uint64_t left = piece.bytes > 2 * gap_bytes ? 2 * gap_bytes : gap_bytes;
    EXPECT_TRUE(piece.bytes <= gap_bytes || space->reserve(piece.addr + gap_bytes, piece.bytes - left));
  }
}

// Makes free pieces short and defragments, while runs are read by bnodes, by frozen ones of a layer that is not
// offloaded, and by residues of live snapshots. Nothing is lost, also in a crash. True: there is a longer piece now.
bool defragment_under_readers(uint64_t seed) {
  Tier tier;
  base::Random random(seed);
  fill(&tier, &random);
  for (int i = 0; i < 3'000; ++i) {
    EXPECT_TRUE(tier.put(key_of(random.below(8'000)), std::string(random.below(90), 'b')));
  }
  EXPECT_TRUE(tier.drain().ok());
  for (uint64_t i = 4'800; i < 8'000; ++i) {  // every other dnode or so shrinks and leaves a gap where it was
    EXPECT_TRUE(i / 200 % 2 == 0 || i % 16 == 0 || tier.del(key_of(i)));
  }
  EXPECT_TRUE(tier.drain().ok());
  auto snapshot = tier.index().register_scan();
  const Model then = tier.scan(snapshot.version());
  for (uint64_t i = 0; i < 500; ++i) EXPECT_TRUE(tier.put(key_of(i * 3), "c"));
  for (uint64_t i = 2'000; tier.index().work().plans_by_writers.load() < 90; ++i) EXPECT_TRUE(tier.put(key_of(i), "d"));
  tier.offload(Which::kUrgent, 1);
  for (uint64_t i = 4'000; !tier.index().urgent(); ++i) EXPECT_TRUE(tier.put(key_of(i), "e"));
  const Model now = tier.scan_now();
  leave_short_pieces(&tier.space(), tier.pool().limits().dnode_bytes_max / 4);
  const bool gained = tier.index().defragment();
  EXPECT_TRUE(!gained || tier.index().work().moves.load() > 2);
  EXPECT_GT(tier.residues(), 0u);
  EXPECT_EQ(tier.scan_now(), now);
  EXPECT_EQ(tier.scan(snapshot.version()), then);
  snapshot = Versions::Registration();  // it does not outlive the index
  tier.crash();
  EXPECT_EQ(tier.scan_now(), now);
  EXPECT_GT(tier.space().relocation_reserve().bytes, 0u);
  EXPECT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.scan_now(), now);
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
  return gained;
}

// A jump that ends half way leaves the piece short, perhaps shorter than any run: it takes in what fits, and so grows
// again. True: until any run can cross it.
bool grow_short_piece(uint64_t seed) {
  Tier tier;
  base::Random random(seed);
  fill(&tier, &random);
  for (uint64_t i = 0; i < 8'000; ++i) EXPECT_TRUE(i / 200 % 2 == 0 || i % 16 == 0 || tier.del(key_of(i)));
  EXPECT_TRUE(tier.drain().ok());
  const Model model = tier.scan_now();
  persist::Space& space = tier.space();
  const uint64_t run_bytes_max = tier.pool().limits().dnode_bytes_max;
  leave_short_pieces(&space, run_bytes_max / 8);
  static_cast<void>(space.cut_relocation_reserve(space.relocation_bytes_wanted() - persist::kBlockBytes));
  for (int i = 0; i < 40 && space.relocation_reserve().bytes < run_bytes_max; ++i)
    static_cast<void>(tier.index().defragment());
  EXPECT_EQ(tier.scan_now(), model);
  return space.relocation_reserve().bytes >= run_bytes_max;
}

// About one arrangement in eight has too little between two things that do not move; far, one in four or five.
TEST(Defragment, APieceThatHasBecomeShortGrowsAgain) {
  constexpr uint64_t kRoundsMax = 12;
  const uint64_t seed = test_seed();
  int grown = 0;
  for (uint64_t round = 0; round < kRoundsMax && grown < 3; ++round) grown += grow_short_piece(seed + round) ? 1 : 0;
  EXPECT_EQ(grown, 3);
}

// About one arrangement in a thousand has the piece that is set aside hemmed in by what does not move.
TEST(Defragment, MovesRunsUnderTheirReaders) {
  const uint64_t seed = test_seed();
  int gained = 0;
  for (uint64_t round = 0; round < 3; ++round) gained += defragment_under_readers(seed + round) ? 1 : 0;
  EXPECT_GE(gained, 2);
}

}  // namespace
}  // namespace bonsai::index::testing
