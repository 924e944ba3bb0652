// SPDX-License-Identifier: Apache-2.0
#include "persist/space.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/units.h"
#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using scale::Addr;
using testing::seeded_random;

constexpr uint64_t kBegin = 4096;
using base::kMiB;

// One bit per block of each target.
class Model {
 public:
  explicit Model(std::vector<uint64_t> blocks) {
    for (const uint64_t n : blocks) used_.emplace_back(n, false);
  }
  // False if a block of the range is not in the state `from` or does not exist.
  bool set(Addr addr, uint64_t bytes, bool to) {
    if (!all(addr, bytes, !to)) return false;
    for (uint64_t i = 0; i < round_up(bytes, kBlockBytes) / kBlockBytes; ++i)
      used_[addr.target()][first(addr) + i] = to;
    return true;
  }
  [[nodiscard]] bool all(Addr addr, uint64_t bytes, bool state) const {
    if (addr.offset() < kBegin || addr.offset() % kBlockBytes != 0) return false;
    for (uint64_t i = 0; i < round_up(bytes, kBlockBytes) / kBlockBytes; ++i) {
      const auto& target = used_[addr.target()];
      if (first(addr) + i >= target.size() || target[first(addr) + i] != state) return false;
    }
    return true;
  }
  [[nodiscard]] uint64_t used_bytes() const {
    uint64_t used = 0;
    for (const auto& target : used_)
      used += kBlockBytes * static_cast<uint64_t>(std::count(target.begin(), target.end(), true));
    return used;
  }
  // Whether some free range of `bytes` at a multiple of `align` exists in any target.
  [[nodiscard]] bool fits(uint64_t bytes, uint64_t align) const {
    for (size_t t = 0; t < used_.size(); ++t) {
      for (uint64_t i = 0; i < used_[t].size(); ++i) {
        const Addr addr(t, kBegin + i * kBlockBytes);
        if (addr.offset() % align == 0 && all(addr, bytes, false)) return true;
      }
    }
    return false;
  }

 private:
  static uint64_t first(Addr addr) { return (addr.offset() - kBegin) / kBlockBytes; }
  std::vector<std::vector<bool>> used_;
};

TEST(Space, TheReserveIsOnePieceAndStaysFreeForTheNextOpening) {
  Space space;
  space.add_target(kBegin, kBegin + 8 * kBlockBytes, 0);
  space.add_target(kBegin, kBegin + 20 * kBlockBytes, 0);
  space.hold_relocation_reserve(16 * kBlockBytes - 5);
  EXPECT_EQ(space.used_bytes(), 0U);
  EXPECT_EQ(space.ordinary_free_bytes(), 12 * kBlockBytes);
  EXPECT_TRUE(space.allocate(9 * kBlockBytes, Space::Use::kReserve).is_nil());
  EXPECT_FALSE(space.allocate(8 * kBlockBytes, Space::Use::kReserve).is_nil());
  EXPECT_FALSE(space.allocate(4 * kBlockBytes, Space::Use::kReserve).is_nil());
  EXPECT_TRUE(space.allocate(1, Space::Use::kReserve).is_nil());
}

TEST(Space, TheReserveMovesThroughTheAreaAndCollectsFreeBlocks) {
  constexpr auto kReserve = Space::Use::kReserve;
  Space space;
  space.add_target(kBegin, kBegin + 20 * kBlockBytes, 0);
  EXPECT_EQ(space.relocation_reserve().bytes, 0U);
  space.hold_relocation_reserve(4 * kBlockBytes);
  const Addr a = space.allocate(3 * kBlockBytes - 1, kReserve);
  const Addr b = space.allocate(2 * kBlockBytes, kReserve);
  const Addr c = space.allocate(4 * kBlockBytes, kReserve);
  const Addr d = space.allocate(7 * kBlockBytes, kReserve);
  space.free(b, 2 * kBlockBytes);
  const uint64_t used = space.used_bytes();
  space.widen_relocation_reserve();
  EXPECT_EQ(space.relocation_reserve().bytes, 4 * kBlockBytes) << "nothing free is beside it";
  EXPECT_EQ(space.begin_slide({a, 3 * kBlockBytes - 1}), Addr(0, kBegin)) << "upwards";
  EXPECT_EQ(space.relocation_reserve().bytes, 0U) << "readers may be at the old place";
  space.end_slide(true);
  space.widen_relocation_reserve();
  EXPECT_EQ(space.relocation_reserve().addr, Addr(0, kBegin) + 3 * kBlockBytes);
  EXPECT_EQ(space.relocation_reserve().bytes, 6 * kBlockBytes) << "b's place, too";
  EXPECT_EQ(space.begin_slide({c, 4 * kBlockBytes}), Addr(0, kBegin + 3 * kBlockBytes));
  space.end_slide(false);
  EXPECT_EQ(space.relocation_reserve().end(), c) << "given up";
  space.restore_relocation_reserve(true);
  space.restore_relocation_reserve(true);
  EXPECT_EQ(space.relocation_reserve().end(), c);
  EXPECT_EQ(space.relocation_reserve().bytes, 4 * kBlockBytes);
  EXPECT_EQ(space.allocate(2 * kBlockBytes, kReserve), Addr(0, kBegin + 3 * kBlockBytes)) << "in one piece";
  space.free(Addr(0, kBegin + 3 * kBlockBytes), 2 * kBlockBytes);
  space.free(d, 7 * kBlockBytes);
  EXPECT_EQ(space.used_bytes(), used - 7 * kBlockBytes);
  space.widen_relocation_reserve();
  EXPECT_EQ(space.begin_slide({Addr(0, kBegin), 3 * kBlockBytes}), Addr(0, kBegin + 6 * kBlockBytes)) << "downwards";
  space.end_slide(true);
  EXPECT_EQ(space.relocation_reserve().addr, Addr(0, kBegin));
  space.restore_relocation_reserve(false);
  EXPECT_EQ(space.relocation_reserve().addr, Addr(0, kBegin));
  EXPECT_EQ(space.relocation_reserve().bytes, 4 * kBlockBytes);
}

TEST(Space, AnotherReserveIsHeldWhereEverythingIsFree) {
  Space space;
  space.add_target(kBegin, kBegin + 20 * kBlockBytes, 0);
  space.hold_relocation_reserve(6 * kBlockBytes);
  const Addr high = space.allocate(1, Space::Use::kReserve, 0, Space::Where::kHigh);
  EXPECT_EQ(high, Addr(0, kBegin + 19 * kBlockBytes));
  EXPECT_EQ(space.allocate(kBlockBytes, Space::Use::kReserve, 4 * kBlockBytes, Space::Where::kHigh),
            Addr(0, kBegin + 16 * kBlockBytes));
  EXPECT_EQ(space.cut_relocation_reserve(2 * kBlockBytes), Addr(0, kBegin));
  EXPECT_EQ(space.used_bytes(), 4 * kBlockBytes);
  EXPECT_FALSE(space.begin_exchange({Addr(0, kBegin + 12 * kBlockBytes), 6 * kBlockBytes}, 0)) << "a part is used";
  ASSERT_EQ(space.free_pieces(0).size(), 2U);
  EXPECT_EQ(space.free_pieces(0)[0].bytes, 10 * kBlockBytes);
  EXPECT_TRUE(space.begin_exchange({Addr(0, kBegin + 8 * kBlockBytes), 6 * kBlockBytes}, 0));
  EXPECT_EQ(space.free_pieces(0)[0].addr, Addr(0, kBegin + 2 * kBlockBytes)) << "the rest of the old piece is free";
  EXPECT_EQ(space.free_pieces(0)[0].bytes, 6 * kBlockBytes);
}

TEST(Space, ThePieceIsExchangedForAWindowWhoseRunsAreMoved) {
  Space space;
  space.add_target(kBegin, kBegin + 8 * kBlockBytes, 0);
  space.add_target(kBegin, kBegin + 7 * kBlockBytes, 0);
  space.hold_relocation_reserve(4 * kBlockBytes);
  ASSERT_EQ(space.relocation_reserve().addr, Addr(0, kBegin));
  const auto at = [](uint64_t block) { return Addr(1, kBegin + block * kBlockBytes); };
  for (uint64_t block = 0; block < 7; ++block) ASSERT_TRUE(space.reserve(at(block), 1));
  for (const uint64_t block : {1, 3, 4}) space.free(at(block), 1);
  const Space::Piece window{at(1), 5 * kBlockBytes};
  EXPECT_FALSE(space.begin_exchange(window, kBlockBytes)) << "more is in use";
  for (const bool gives_up : {true, false}) {
    const uint64_t used = space.used_bytes();
    ASSERT_TRUE(space.begin_exchange(window, 2 * kBlockBytes));
    EXPECT_EQ(space.relocation_reserve().bytes, 0U) << "readers may be in the window";
    EXPECT_TRUE(space.free_pieces(1).empty());
    const Addr moved = space.cut_relocation_reserve(2);
    EXPECT_EQ(moved.target(), 0U);
    space.free(at(2), 1);
    EXPECT_TRUE(space.free_pieces(1).empty()) << "of the window, too";
    EXPECT_EQ(space.used_bytes(), used);
    if (gives_up) {
      space.give_up_exchange();
      EXPECT_EQ(space.relocation_reserve().bytes, 3 * kBlockBytes);
      ASSERT_EQ(space.free_pieces(1).size(), 1U);
      EXPECT_EQ(space.free_pieces(1)[0].bytes, 4 * kBlockBytes);
      ASSERT_TRUE(space.reserve(at(2), 1));
      space.free(moved, 1);
      continue;
    }
    space.free(at(5), 1);
  }
  EXPECT_EQ(space.relocation_reserve().addr, window.addr);
  EXPECT_EQ(space.relocation_reserve().bytes, window.bytes);
  space.restore_relocation_reserve(true);
  EXPECT_EQ(space.relocation_reserve().end(), window.end());
  EXPECT_EQ(space.relocation_reserve().bytes, 4 * kBlockBytes);
}

TEST(Space, TheReserveIsLentAsTheLastResortAndMissedUntilItHasGrownAgain) {
  Space space;
  space.add_target(kBegin, kBegin + 8 * kBlockBytes, kBlockBytes);
  space.hold_relocation_reserve(4 * kBlockBytes);
  EXPECT_EQ(space.ordinary_free_bytes(), 3 * kBlockBytes);
  const Addr first = space.allocate(4 * kBlockBytes, Space::Use::kReserve);
  EXPECT_TRUE(space.allocate(1, Space::Use::kReserve).is_nil());
  space.lend_relocation_reserve(true);
  EXPECT_TRUE(space.allocate(1, Space::Use::kOrdinary).is_nil());
  EXPECT_TRUE(space.allocate(4 * kBlockBytes, Space::Use::kReserve).is_nil()) << "something is kept to go on from";
  EXPECT_EQ(space.allocate(3 * kBlockBytes, Space::Use::kReserve), Addr(0, kBegin));
  space.lend_relocation_reserve(false);
  EXPECT_TRUE(space.allocate(1, Space::Use::kReserve).is_nil());
  EXPECT_EQ(space.used_bytes(), 7 * kBlockBytes);
  space.free(first, 4 * kBlockBytes);
  EXPECT_EQ(space.ordinary_free_bytes(), 0U) << "three blocks are missed, one is for the reserve";
  space.widen_relocation_reserve();
  space.restore_relocation_reserve(false);
  EXPECT_EQ(space.relocation_reserve().bytes, 4 * kBlockBytes);
  space.free(Addr(0, kBegin), 3 * kBlockBytes);
  EXPECT_EQ(space.ordinary_free_bytes(), 3 * kBlockBytes);
}

// As after a crash in the middle of an exchange.
TEST(Space, WhereThereIsNoPieceOfThatLengthTheLongestOneIsHeldAndGrows) {
  Space space;
  space.add_target(kBegin, kBegin + 9 * kBlockBytes, 0);
  ASSERT_TRUE(space.reserve(Addr(0, kBegin + 2 * kBlockBytes), kBlockBytes));
  ASSERT_TRUE(space.reserve(Addr(0, kBegin + 6 * kBlockBytes), kBlockBytes));
  space.hold_relocation_reserve(5 * kBlockBytes);
  EXPECT_EQ(space.relocation_reserve().addr, Addr(0, kBegin + 3 * kBlockBytes));
  EXPECT_EQ(space.relocation_reserve().bytes, 3 * kBlockBytes);
  EXPECT_EQ(space.relocation_bytes_wanted(), 5 * kBlockBytes);
  space.free(Addr(0, kBegin + 6 * kBlockBytes), kBlockBytes);
  space.widen_relocation_reserve();
  space.restore_relocation_reserve(true);
  EXPECT_EQ(space.relocation_reserve().bytes, 5 * kBlockBytes);
}

TEST(Space, AgreesWithAModelUnderRandomOperations) {
  base::Random random = seeded_random(4);
  for (int round = 0; round < 20; ++round) {
    const std::vector<uint64_t> blocks = {1 + random.below(300), 1 + random.below(100)};
    Space space;
    for (const uint64_t n : blocks) space.add_target(kBegin, kBegin + n * kBlockBytes, 0);
    Model model(blocks);
    std::vector<std::pair<Addr, uint64_t>> held;
    for (int step = 0; step < 2000; ++step) {
      const uint64_t bytes = 1 + random.below(random.chance(1, 10) ? 20'000 : 2000);
      if (random.chance(1, 2)) {
        const uint64_t align = random.chance(1, 4) ? 4096 : kBlockBytes;
        const auto where = random.chance(1, 3) ? Space::Where::kHigh : Space::Where::kLow;
        const Addr addr = space.allocate(bytes, Space::Use::kReserve, align, where);
        ASSERT_EQ(addr.is_nil(), !model.fits(bytes, align)) << bytes;
        if (addr.is_nil()) continue;
        ASSERT_EQ(addr.offset() % align, 0U);
        ASSERT_TRUE(model.set(addr, bytes, true)) << "overlaps another";
        held.emplace_back(addr, bytes);
      } else if (random.chance(1, 4)) {
        const Addr addr(random.below(2), random.below(320) * kBlockBytes + (random.chance(1, 8) ? 8 : 0));
        const bool free = model.all(addr, bytes, false);
        ASSERT_EQ(space.reserve(addr, bytes), free);
        if (free) {
          model.set(addr, bytes, true);
          held.emplace_back(addr, bytes);
        }
      } else if (!held.empty()) {
        std::swap(held[random.below(held.size())], held.back());
        space.free(held.back().first, held.back().second);
        ASSERT_TRUE(model.set(held.back().first, held.back().second, false));
        held.pop_back();
      }
      ASSERT_EQ(space.used_bytes(), model.used_bytes());
    }
    for (const auto& [addr, bytes] : held) space.free(addr, bytes);
    EXPECT_EQ(space.used_bytes(), 0U);
    EXPECT_EQ(space.ordinary_free_bytes(), space.capacity_bytes());
    for (size_t i = 0; i < blocks.size(); ++i) EXPECT_TRUE(space.reserve(Addr(i, kBegin), blocks[i] * kBlockBytes));
  }
}

TEST(Space, OrdinaryDataLeavesTheReserveAlone) {
  Space space;
  space.add_target(kBegin, kBegin + 10 * kBlockBytes, 4 * kBlockBytes);
  EXPECT_EQ(space.reserve_bytes(), 4 * kBlockBytes);
  EXPECT_EQ(space.ordinary_free_bytes(), 6 * kBlockBytes);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(space.allocate(1, Space::Use::kOrdinary).is_nil());
  EXPECT_TRUE(space.allocate(1, Space::Use::kOrdinary).is_nil());
  EXPECT_EQ(space.ordinary_free_bytes(), 0U);
  const Addr last = space.allocate(4 * kBlockBytes, Space::Use::kReserve);
  EXPECT_FALSE(last.is_nil());
  EXPECT_TRUE(space.allocate(1, Space::Use::kReserve).is_nil());
  space.free(last, 4 * kBlockBytes);
  EXPECT_TRUE(space.allocate(1, Space::Use::kOrdinary).is_nil());
}

TEST(Space, TheEmptiestTargetIsTriedFirstAndTheOthersAfterIt) {
  Space space;
  space.add_target(kBegin, kBegin + 2 * kBlockBytes, 0);
  space.add_target(kBegin, kBegin + 4 * kBlockBytes, 0);
  EXPECT_EQ(space.allocate(3 * kBlockBytes, Space::Use::kOrdinary).target(), 1U);
  EXPECT_EQ(space.allocate(kBlockBytes, Space::Use::kOrdinary).target(), 0U);
  EXPECT_EQ(space.capacity_bytes(), 6 * kBlockBytes);
}

TEST(Space, AReservationOutsideAnyTargetIsRefused) {
  Space space;
  space.add_target(kBegin, kBegin + kBlockBytes, 0);
  EXPECT_FALSE(space.reserve(Addr(1, kBegin), 1));
  EXPECT_FALSE(space.reserve(Addr(0, 0), 1));
  EXPECT_FALSE(space.reserve(Addr(0, kBegin), kBlockBytes + 1));
  EXPECT_FALSE(space.reserve(Addr(0, kBegin + 1), 1));
  EXPECT_TRUE(space.reserve(Addr(0, kBegin), 1));
  EXPECT_FALSE(space.reserve(Addr(0, kBegin), 1)) << "two owners";
}

TEST(SpaceDeathTest, FreeingTwiceIsABrokenInvariant) {
  Space space;
  space.add_target(kBegin, kBegin + kMiB, 0);
  const Addr addr = space.allocate(100, Space::Use::kOrdinary);
  space.free(addr, 100);
  EXPECT_DEATH(space.free(addr, 100), "broken invariant");
}

TEST(Space, ThreadsNeverShareABlock) {
  Space space;
  space.add_target(kBegin, kBegin + kMiB, 0);
  space.add_target(kBegin, kBegin + kMiB, 0);
  std::vector<std::byte> owners(2 * kMiB / kBlockBytes);  // a data race here is an overlap, for TSan
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(t);
      std::vector<std::pair<Addr, uint64_t>> held;
      const auto mark = [&](Addr addr, uint64_t bytes) {
        for (uint64_t i = 0; i < bytes / kBlockBytes; ++i) {
          owners[addr.target() * kMiB / kBlockBytes + (addr.offset() - kBegin) / kBlockBytes + i] ^= std::byte{1};
        }
      };
      for (int i = 0; i < 3000; ++i) {
        const uint64_t bytes = (1 + random.below(8)) * kBlockBytes;
        if (const Addr addr = space.allocate(bytes, Space::Use::kOrdinary); !addr.is_nil()) {
          mark(addr, bytes);
          held.emplace_back(addr, bytes);
        }
        if (held.size() < 100 && i != 2999) continue;
        for (const auto& [addr, n] : held) {
          mark(addr, n);
          space.free(addr, n);
        }
        held.clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(space.used_bytes(), 0U);
  for (const std::byte owner : owners) EXPECT_EQ(owner, std::byte{0});
}

TEST(SpaceDeathTest, ABlockIsFreedOnce) {
  Space space;
  space.add_target(4096, 65536, 0);
  const Addr first = space.allocate(kBlockBytes, Space::Use::kOrdinary);
  const Addr second = space.allocate(kBlockBytes, Space::Use::kOrdinary);
  ASSERT_FALSE(first.is_nil() || second.is_nil());
  space.free(first, kBlockBytes);
  EXPECT_DEATH(space.free(first, kBlockBytes), "broken invariant");
  EXPECT_DEATH(space.free(Addr(), kBlockBytes), "broken invariant");
  EXPECT_DEATH(space.free(Addr(7, 4096), kBlockBytes), "broken invariant");
}

}  // namespace
}  // namespace bonsai::persist
