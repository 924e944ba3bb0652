// SPDX-License-Identifier: Apache-2.0
#include "scale/layout.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/units.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kOffsetsEnd = uint64_t{1} << 48;

// Some targets of a pool, in rising order as pools have them, and a layout over them.
Layout random_layout(base::Random& random) {
  const size_t targets = 2 + random.below(kTargetsMax - 1);
  std::vector<size_t> ring;
  for (size_t target = 0; target < targets; ++target) {
    if (random.below(4) != 0) ring.push_back(target);
  }
  while (ring.size() < 2) ring = {0, targets - 1};
  const uint64_t unit = kStripeUnitMin << random.below(std::bit_width(kStripeUnitMax / kStripeUnitMin));
  const auto kind = random.below(2) == 0 ? LayoutChoice::kSoftware : LayoutChoice::kHardware;
  return {kind, ring, unit, base::kPageBytes * random.below(1000)};
}

// Near a boundary half of the time.
Addr random_addr(const Layout& layout, base::Random& random) {
  uint64_t offset = random.below(random.below(2) == 0 ? layout.begin() + 4 * layout.unit_bytes() : kOffsetsEnd);
  if (random.below(2) == 0) offset = offset / layout.unit_bytes() * layout.unit_bytes() + random.below(3);
  return {random.below(kTargetsMax), std::min(offset, kOffsetsEnd - 1)};
}

TEST(Layout, NoneLeavesEverythingWhereItIs) {
  const Layout none;
  EXPECT_FALSE(none.striped());
  const Addr addr(3, 12345);
  EXPECT_EQ(none.place_of(addr), addr);
  EXPECT_EQ(none.address_of(addr), addr);
  EXPECT_EQ(none.piece_bytes(addr, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(none.places_of(3), uint64_t{8});
}

TEST(Layout, UnitsGoAroundTheRing) {
  const Layout layout(LayoutChoice::kSoftware, std::vector<size_t>{1, 2, 4}, 4096, 8192);
  EXPECT_EQ(layout.place_of({0, 8192}), Addr(0, 8192)) << "it has no dnodes";
  EXPECT_EQ(layout.place_of({2, 8191}), Addr(2, 8191)) << "a log, or a table";
  EXPECT_EQ(layout.place_of({1, 8192}), Addr(4, 8192)) << "unit 2";
  EXPECT_EQ(layout.place_of({1, 12288}), Addr(1, 12288));
  EXPECT_EQ(layout.place_of({4, 16384 + 5}), Addr(1, 16384 + 5));
  EXPECT_EQ(layout.places_of(2), uint64_t{0b10110});
  EXPECT_EQ(layout.places_of(3), uint64_t{0b1000});
  std::vector<Addr> places;
  layout.each_piece({1, 8000}, 5000, [&](Addr place, uint64_t done, uint64_t bytes) {
    places.push_back(place);
    EXPECT_EQ(done, places.size() == 1 ? 0 : places.size() == 2 ? 192 : 192 + 4096);
    EXPECT_EQ(bytes, places.size() == 1 ? 192 : places.size() == 2 ? 4096 : 712);
  });
  EXPECT_EQ(places, (std::vector<Addr>{{1, 8000}, {4, 8192}, {1, 12288}}));
}

// Each address has one place and each place one address, of the same offset and thus aligned as the address is.
TEST(Layout, IsABijectionThatKeepsOffsets) {
  base::Random random(base::seed_from_env_or(1));
  const int layouts = testing::budget(500, 2'500, 50'000);
  constexpr int kAddresses = 2'000;
  for (int i = 0; i < layouts; ++i) {
    const Layout layout = random_layout(random);
    for (int j = 0; j < kAddresses; ++j) {
      const Addr addr = random_addr(layout, random);
      const Addr place = layout.place_of(addr);
      const bool sound = place.offset() == addr.offset() && layout.address_of(place) == addr &&
                         layout.place_of(layout.address_of(addr)) == addr &&
                         (layout.places_of(addr.target()) >> place.target() & 1) != 0 &&
                         layout.in_ring(place.target()) == layout.in_ring(addr.target()) &&
                         (place == addr || (layout.in_ring(addr.target()) && addr.offset() >= layout.begin()));
      ASSERT_TRUE(sound) << addr.target() << ", " << addr.offset() << " is at " << place.target();
    }
  }
}

// The bytes of each piece have places that follow each other, in one unit of one target, and the pieces are all bytes.
TEST(Layout, NoPieceCrossesATarget) {
  base::Random random(base::seed_from_env_or(2));
  const int layouts = testing::budget(200, 1'000, 10'000);
  for (int i = 0; i < layouts; ++i) {
    const Layout layout = random_layout(random);
    for (int j = 0; j < 50; ++j) {
      const Addr addr = random_addr(layout, random);
      const uint64_t n = std::min(random.below(20 * layout.unit_bytes()), kOffsetsEnd - addr.offset());
      uint64_t end = 0;
      size_t last_target = kTargetsMax;
      layout.each_piece(addr, n, [&](Addr place, uint64_t done, uint64_t bytes) {
        ASSERT_EQ(done, end);
        ASSERT_GT(bytes, 0u);
        ASSERT_EQ(place, layout.place_of(addr + done));
        ASSERT_EQ(layout.place_of(addr + (done + bytes - 1)), place + (bytes - 1));
        if (place.offset() >= layout.begin() && layout.in_ring(place.target())) {
          ASSERT_LE(place.offset() % layout.unit_bytes() + bytes, layout.unit_bytes());
          ASSERT_NE(place.target(), last_target) << "neighbours are on different targets";
          last_target = place.target();
        }
        end += bytes;
      });
      ASSERT_EQ(end, n);
    }
  }
}

// As many units that follow each other as there are targets are one on each, so that they are read side by side.
TEST(Layout, SpreadsNeighboursOverAllTargets) {
  base::Random random(base::seed_from_env_or(3));
  for (int i = 0; i < 1'000; ++i) {
    const Layout layout = random_layout(random);
    const uint64_t unit = layout.begin() / layout.unit_bytes() + 1 + random.below(1'000'000);
    const size_t target = layout.ring()[random.below(layout.ring().size())];
    std::set<size_t> met;
    for (size_t j = 0; j < layout.ring().size(); ++j) {
      met.insert(layout.place_of({target, (unit + j) * layout.unit_bytes()}).target());
    }
    ASSERT_EQ(met.size(), layout.ring().size());
  }
}

}  // namespace
}  // namespace bonsai::scale
