// Gathering beside offloading, at a chosen step: what was noted of the runs is old by the time that one of them is
// moved.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <utility>

#include "base/step.h"
#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using Piece = persist::Space::Piece;

// Runs `call` the next time that a run is about to be moved.
std::function<void()> once;
void hook(const char* step) {
  if (once && std::strcmp(step, "move run") == 0) std::exchange(once, {})();
}

// A range of which the whole content is one run.
class OneRange {
 public:
  static constexpr uint64_t kKeys = 4;

  void fill(size_t value_bytes) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      model[key_of(i)] = std::string(value_bytes, 'v');
      ASSERT_TRUE(tier.put(key_of(i), model[key_of(i)]));
    }
    ASSERT_TRUE(tier.drain().ok());
  }
  // Where its run is.
  Piece run() {
    const persist::Dnode* dnode = nullptr;
    tier.index().tree().for_each([&](Bnode* bnode) { dnode = bnode->base().dnode(); });
    BONSAI_CHECK(dnode != nullptr && dnode->runs().size() == 1);
    const persist::RunDesc& run = dnode->runs().front();
    return {scale::Addr::of_bits(run.addr), persist::round_up(run.bytes, persist::kBlockBytes)};
  }

  Tier tier;
  Model model;
};

// The run that is beside the piece makes way for one that is elsewhere, and that for a shorter one, which takes the
// first one's place: of the same bnode, at the same address. Were it moved as the first, the piece would be put over
// blocks that are free.
TEST(GatherRace, ARunThatHasTakenTheNotedOnesPlaceIsNotTakenForIt) {
  OneRange range;
  persist::Space& space = range.tier.space();
  range.fill(900);
  const Piece noted = range.run();
  const uint64_t piece_bytes = 2 * noted.bytes;
  ASSERT_TRUE(space.begin_exchange({noted.end(), piece_bytes}, 0));
  for (const Piece& piece : space.free_pieces(0)) {  // one is left, with room for a run and more
    if (piece.bytes <= 4 * noted.bytes) {
      ASSERT_TRUE(space.reserve(piece.addr, piece.bytes));
    } else {
      ASSERT_TRUE(space.reserve(piece.addr, persist::kBlockBytes));
      const uint64_t kept = persist::kBlockBytes + 4 * noted.bytes;
      ASSERT_TRUE(space.reserve(piece.addr + kept, piece.bytes - kept));
    }
  }
  once = [&] {
    range.fill(800);
    range.fill(50);
    EXPECT_EQ(range.run().addr, noted.addr);
    EXPECT_LT(range.run().bytes, noted.bytes);
  };
  base::step_hook.store(&hook);
  static_cast<void>(range.tier.index().gather());
  base::step_hook.store(nullptr);
  EXPECT_FALSE(once) << "no run was to be moved";
  const Piece aside = space.aside();
  for (const Piece& piece : space.free_pieces(0)) {
    EXPECT_TRUE(piece.end().bits() <= aside.addr.bits() || aside.end().bits() <= piece.addr.bits());
  }
  EXPECT_EQ(range.tier.scan_now(), range.model);
}

}  // namespace
}  // namespace bonsai::index::testing
