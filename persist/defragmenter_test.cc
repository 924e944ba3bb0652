// SPDX-License-Identifier: Apache-2.0
// Defragmenting, with ranges of keys as the owners of dnodes: which runs move, which stay, and what other threads may
// do meanwhile.
#include "persist/defragmenter.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <utility>

#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using base::Fence;
using testing::Content;
using testing::Entries;
using testing::MemoryMedium;
using testing::MemoryPool;
using testing::Rig;
using Piece = Space::Piece;

// A pool of ranges that tile the key space, each with a dnode.
class Ranges final : public Defragmenter::Owners {
 public:
  explicit Ranges(size_t count, uint64_t pool_bytes = uint64_t{4} << 20) : pool(pool_bytes) {
    dnodes_.resize(count);
    retire_found();
    for (size_t i = 0; i < count; ++i) write(i, 1, 8);
    std::vector<scale::Addr> slots(2 * count);  // in advance, so that no test depends on when an extent is claimed
    for (scale::Addr& slot : slots) EXPECT_TRUE(store().take_slot(&slot).ok());
    for (const scale::Addr slot : slots) store().give_slot(slot);
  }

  // From now on the range has `count` values of `value_bytes` bytes, in one run.
  void write(size_t range, int count, size_t value_bytes) {
    Entries entries;
    std::erase_if(model, [&](const auto& each) { return each.first.starts_with(prefix(range)); });
    for (int i = 0; i < count; ++i) put(range, i, value_bytes, &entries);
    replace(range, nullptr, entries);
  }
  // The first `count` values are written again, in a run more.
  void append(size_t range, int count, size_t value_bytes) {
    Entries entries;
    for (int i = 0; i < count; ++i) put(range, i, value_bytes, &entries);
    replace(range, dnodes_[range].get(), entries);
  }

  // The place of the range's first run.
  Piece run_of(size_t range) {
    const RunDesc& run = dnodes_[range]->runs().front();
    return {scale::Addr::of_bits(run.addr), round_up(run.bytes, kBlockBytes)};
  }
  Content content() {
    Content all;
    for (const auto& dnode : dnodes_) EXPECT_TRUE(collect(pool.rig, *dnode, dnode->lo(), dnode->hi(), &all));
    return all;
  }
  // The content that a recovery would find now.
  Content content_after_crash() {
    MemoryMedium copy(pool.medium.image());
    Rig rig({&copy});
    EXPECT_TRUE(rig.analyse_only().ok());
    return testing::analysed_content(rig).value();
  }
  // Leaves `gap_bytes` free at each end of the free pieces, next to the runs there, and takes all other space.
  void leave_gaps(uint64_t gap_bytes) {
    for (const Piece& piece : space().free_pieces(0)) {
      const uint64_t left = piece.bytes > 2 * gap_bytes ? 2 * gap_bytes : gap_bytes;
      EXPECT_TRUE(piece.bytes <= gap_bytes || space().reserve(piece.addr + gap_bytes, piece.bytes - left));
    }
  }

  // ---- Owners
  void for_each(const Visit& visit) override {
    for (size_t i = 0; i < dnodes_.size(); ++i) visit(i, *dnodes_[i]);
  }
  bool hold(size_t owner) override {
    if (before_hold) std::exchange(before_hold, {})();
    if (refused.contains(owner)) return false;
    held.insert(owner);
    return true;
  }
  const Dnode* dnode(size_t owner) override {
    EXPECT_TRUE(held.contains(owner));
    return dnodes_[owner].get();
  }
  void exchange(size_t owner, const Dnode* moved) override {
    EXPECT_TRUE(held.contains(owner));
    moves.push_back(owner);
    static_cast<void>(dnodes_[owner].release());  // the defragmenter's
    dnodes_[owner].reset(moved);
  }
  void release() override { held.clear(); }

  Space& space() { return pool.rig.space; }
  DnodeStore& store() { return *pool.rig.store; }

  MemoryPool pool;
  base::EpochDomain epochs;
  Defragmenter defragmenter{store(), epochs};
  Content model;
  std::set<size_t> refused;           // somebody else replaces their dnodes
  std::function<void()> before_hold;  // once
  std::set<size_t> held;
  std::vector<size_t> moves;  // whose runs

 private:
  static std::string prefix(size_t range) { return std::to_string(10'000 + range) + "/"; }

  void put(size_t range, int i, size_t value_bytes, Entries* entries) {
    const std::string key = prefix(range) + std::to_string(1'000 + i);
    model[key] = std::string(value_bytes, static_cast<char>('a' + (++values_) % 26));
    entries->put(key, model[key]);
  }
  void replace(size_t range, const Dnode* kept, const Entries& entries) {
    const Fence lo = range == 0 ? Fence() : Fence(prefix(range));
    const Fence hi = range + 1 == dnodes_.size() ? Fence::infinite() : Fence(prefix(range + 1));
    DnodeWriter writer(store());
    Dnode* dnode = nullptr;
    ASSERT_TRUE(writer.add(lo, hi, ++gen_, kept, entries.list(), &dnode).ok());
    std::unique_ptr<const Dnode> old = std::move(dnodes_[range]);
    dnodes_[range] = std::move(testing::committed(writer).front());
    if (old == nullptr) return;
    testing::retire(store(), {old.get()});
    store().free(*old, kept != nullptr ? dnodes_[range]->runs() : Runs());
  }
  // Retires the dnodes of a fresh pool, which the first dnodes cover.
  void retire_found() {
    for (RecoveredRange& found : pool.rig.ranges) {
      gen_ = std::max(gen_, found.dnode->gen());
      found_.push_back(std::move(found.dnode));
    }
  }

  std::vector<std::unique_ptr<const Dnode>> dnodes_;
  std::vector<std::unique_ptr<Dnode>> found_;
  uint64_t gen_ = 0;
  size_t values_ = 0;
};

// Ranges of which every other one has shrunk and left a gap where it was.
void scatter(Ranges* ranges, size_t count, uint64_t gap_bytes, base::Random* random) {
  for (size_t i = 0; i < count; ++i) ranges->write(i, 20, 100 + random->below(300));
  for (size_t i = 0; i < count; ++i) {
    if (i % 2 == 0) {
      ranges->write(i, 1, 8);
    } else if (random->chance(1, 2)) {
      ranges->append(i, 3, 50);
    }
  }
  ranges->leave_gaps(gap_bytes);
}

TEST(DefragmenterTest, RunsMoveUntilAPieceIsLongEnough) {
  base::Random random = testing::seeded_random(1);
  int gained = 0;
  for (int round = 0; round < 8; ++round) {
    Ranges ranges(60);
    const uint64_t gap_bytes = 32 * kBlockBytes;
    scatter(&ranges, 60, gap_bytes, &random);
    const uint64_t used_bytes = ranges.space().used_bytes();
    const uint64_t bytes_before = ranges.space().longest_free_bytes();
    const bool gains = ranges.defragmenter.run(&ranges, 4 * gap_bytes);
    EXPECT_EQ(gains, ranges.space().longest_free_bytes() > bytes_before);
    gained += gains ? 1 : 0;
    EXPECT_GT(ranges.moves.size(), 2u);
    ASSERT_TRUE(ranges.epochs.drain(1'000));
    EXPECT_EQ(ranges.space().used_bytes(), used_bytes);
    EXPECT_EQ(ranges.space().relocation_reserve().bytes, ranges.space().relocation_bytes_wanted());
    EXPECT_EQ(ranges.content(), ranges.model);
    EXPECT_EQ(ranges.content_after_crash(), ranges.model);
    EXPECT_TRUE(ranges.held.empty());
  }
  EXPECT_GE(gained, 3);
}

// The piece is next to a run, and hardly any other space is free.
class DefragmenterOfTwoTest : public ::testing::Test {
 protected:
  // Puts the piece next to the first range's run; `kept_blocks` more are free elsewhere.
  void hem_in(uint64_t kept_blocks) {
    ranges.write(0, 4, 900);
    const Piece noted = ranges.run_of(0);
    ASSERT_TRUE(ranges.space().begin_exchange({noted.end(), 2 * noted.bytes}, 0));
    for (const Piece& piece : ranges.space().free_pieces(0)) {
      const uint64_t kept = piece.bytes > (kept_blocks + 1) * kBlockBytes ? kept_blocks * kBlockBytes : 0;
      const uint64_t before = kept != 0 ? kBlockBytes : piece.bytes;
      ASSERT_TRUE(ranges.space().reserve(piece.addr, before));
      if (piece.bytes > before + kept) {
        ASSERT_TRUE(ranges.space().reserve(piece.addr + before + kept, piece.bytes - before - kept));
      }
      if (kept != 0) kept_blocks = 0;
    }
  }
  bool run() { return ranges.defragmenter.run(&ranges, 200 * kBlockBytes); }

  Ranges ranges{2};
};

// The notes about the runs are old by the time that one is moved. The run next to the piece makes way for one that is
// elsewhere, and that for a shorter one, which takes the first one's place: of the same owner, at the same address. If
// it were moved as the first, the piece would be put over blocks that are free.
TEST_F(DefragmenterOfTwoTest, ARunThatHasTakenTheNotedOnesPlaceIsNotTakenForIt) {
  hem_in(64);
  const Piece noted = ranges.run_of(0);
  ranges.before_hold = [&] {
    ranges.write(0, 4, 800);
    ranges.write(0, 4, 50);
    EXPECT_EQ(ranges.run_of(0).addr, noted.addr);
    EXPECT_LT(ranges.run_of(0).bytes, noted.bytes);
  };
  static_cast<void>(run());
  EXPECT_FALSE(ranges.before_hold) << "no run was to be moved";
  const Piece reserve = ranges.space().relocation_reserve();
  for (const Piece& piece : ranges.space().free_pieces(0)) {
    EXPECT_TRUE(piece.end().bits() <= reserve.addr.bits() || reserve.end().bits() <= piece.addr.bits());
  }
  EXPECT_EQ(ranges.content(), ranges.model);
}

// A reader of the run's old place keeps it, and the piece does not come back before it has ended.
TEST_F(DefragmenterOfTwoTest, TheOldPlaceStaysUntilItsReadersEnd) {
  hem_in(0);
  const Piece noted = ranges.run_of(0);
  const std::vector<std::byte> before = ranges.pool.medium.image();
  const auto at = static_cast<ptrdiff_t>(noted.addr.offset());
  {
    const auto reader = ranges.epochs.enter();
    EXPECT_FALSE(run());
    ASSERT_EQ(ranges.moves, std::vector<size_t>{0});
    EXPECT_NE(ranges.run_of(0).addr, noted.addr);
    EXPECT_EQ(ranges.space().relocation_reserve().bytes, 0u) << "a slide has not ended";
    const std::vector<std::byte> now = ranges.pool.medium.image();
    EXPECT_TRUE(
        std::equal(now.begin() + at, now.begin() + at + static_cast<ptrdiff_t>(noted.bytes), before.begin() + at));
    EXPECT_FALSE(run()) << "it would need the piece";
  }
  ASSERT_TRUE(ranges.epochs.drain(1'000));
  EXPECT_EQ(ranges.space().relocation_reserve().bytes, 2 * noted.bytes);
  EXPECT_EQ(ranges.content(), ranges.model);
  EXPECT_EQ(ranges.content_after_crash(), ranges.model);
}

TEST_F(DefragmenterOfTwoTest, WhatOthersReplaceIsLeftAlone) {
  hem_in(0);
  ranges.refused = {0, 1};
  const Piece noted = ranges.run_of(0);
  EXPECT_FALSE(run());
  EXPECT_TRUE(ranges.moves.empty());
  EXPECT_EQ(ranges.run_of(0).addr, noted.addr);
  EXPECT_TRUE(ranges.held.empty());
  EXPECT_EQ(ranges.content(), ranges.model);
}

// One exchange at a time: the second caller is refused, whichever of the two it wants.
TEST_F(DefragmenterOfTwoTest, TheReserveHasOneUser) {
  hem_in(0);
  EXPECT_TRUE(ranges.defragmenter.with_reserve_lent([&] {
    EXPECT_FALSE(run());
    EXPECT_FALSE(ranges.defragmenter.with_reserve_lent([] { ADD_FAILURE(); }));
  }));
  EXPECT_TRUE(ranges.moves.empty());
  ranges.before_hold = [&] { EXPECT_FALSE(ranges.defragmenter.with_reserve_lent([] { ADD_FAILURE(); })); };
  static_cast<void>(run());
  EXPECT_FALSE(ranges.before_hold) << "no run was to be moved";
}

}  // namespace
}  // namespace bonsai::persist
