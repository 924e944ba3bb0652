// SPDX-License-Identifier: Apache-2.0
// A volume with a layout over far targets: what is written is where the layout says, durable and nowhere else, and what
// is read is put together again. layout_mutant_test.cc shows that these tests can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/nvm/far.h"
#include "base/nvm/recorder.h"
#include "base/random.h"
#include "base/units.h"
#include "scale/read_batch.h"
#include "scale/volume.h"

namespace bonsai::scale {
namespace {

constexpr base::Site kStripedSite{"striped_volume_test"};
constexpr uint64_t kStripedBytes = uint64_t{96} << 10;
constexpr uint64_t kStripedBegin = 2 * base::kPageBytes;
constexpr size_t kStripedTargets = 4;
constexpr std::array<size_t, 3> kRing = {0, 2, 3};  // target 1 has no dnodes

// Four targets on another node, and what their bytes must be.
class StripedTargets {
 public:
  explicit StripedTargets(uint64_t unit_bytes) : unit_bytes_(unit_bytes), random_(base::seed_from_env_or(unit_bytes)) {
    const std::vector<std::byte> zeros(kStripedBytes);
    for (size_t i = 0; i < kStripedTargets; ++i) {
      near_.push_back(std::make_unique<base::RecorderMedium>(zeros, PersistenceDomain::kAdr));
      far_.push_back(std::make_unique<base::FarMedium>(*near_[i], base::FarOptions{.seed = i + 1, .limit_ms = 50}));
      expected_.push_back(zeros);
    }
    volume_ = std::make_unique<VolumeOf<base::HookedMedium>>(
        std::vector<base::HookedMedium*>{far_[0].get(), far_[1].get(), far_[2].get(), far_[3].get()});
    const Layout layout(LayoutChoice::kSoftware, kRing, unit_bytes, kStripedBegin);
    EXPECT_EQ("OK", volume_->lay_out(layout).ToString());
  }

  [[nodiscard]] VolumeOf<base::HookedMedium>& volume() { return *volume_; }
  [[nodiscard]] base::FarMedium& far(size_t target) { return *far_[target]; }
  [[nodiscard]] Volume::Range random_range() {
    const Addr at(random_.below(kStripedTargets), random_.below(kStripedBytes));
    const uint64_t bytes = 1 + random_.below(random_.chance(1, 2) ? 64 : 3 * unit_bytes_);
    return {at, std::min(bytes, kStripedBytes - at.offset())};
  }
  [[nodiscard]] std::vector<std::byte> expected(Volume::Range range) {
    std::vector<std::byte> bytes;
    for (uint64_t i = 0; i < range.bytes; ++i) bytes.push_back(byte_at(range.at + i));
    return bytes;
  }
  // The number of targets' units and own parts that a range takes.
  [[nodiscard]] uint64_t pieces_of(Volume::Range range) const {
    uint64_t pieces = 1;
    for (uint64_t i = 1; i < range.bytes; ++i) {
      const uint64_t offset = range.at.offset() + i;
      if (range.at.target() != 1 && offset >= kStripedBegin && (offset % unit_bytes_ == 0 || offset == kStripedBegin)) {
        ++pieces;
      }
    }
    return pieces;
  }

  // Some writes of all kinds, flushed and fenced.
  void write() {
    for (uint64_t n = 1 + random_.below(8); n > 0; --n) {
      Volume::Range range = random_range();
      const uint64_t kind = random_.below(3);
      if (kind != 0) {
        range.at = Addr(range.at.target(), range.at.offset() / 8 * 8);
        range.bytes = kind == 1 ? 8 : std::min((range.bytes + 7) / 8 * 8, kStripedBytes - range.at.offset());
      }
      std::vector<std::byte> bytes(range.bytes);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_.next());
      for (uint64_t i = 0; i < range.bytes; ++i) byte_at(range.at + i) = bytes[i];
      uint64_t word = 0;
      if (kind == 1) std::memcpy(&word, bytes.data(), sizeof word);
      if (kind == 0) volume_->copy(range.at, bytes.data(), range.bytes);
      if (kind == 1) volume_->store8(range.at, word);
      if (kind == 2) volume_->nt_copy(range.at, bytes.data(), range.bytes, kStripedSite);
      if (kind != 2) volume_->flush(range.at, range.bytes, kStripedSite);
    }
    EXPECT_TRUE(volume_->fence(kStripedSite));
  }

  void expect_places() const {
    for (size_t i = 0; i < kStripedTargets; ++i) {
      const std::span<const std::byte> durable = near_[i]->durable_image();
      ASSERT_TRUE(std::equal(durable.begin(), durable.end(), expected_[i].begin())) << "target " << i;
    }
  }

 private:
  // By what layout.h says of the ring, and by none of its code.
  [[nodiscard]] std::byte& byte_at(Addr addr) {
    const uint64_t offset = addr.offset();
    if (addr.target() == 1 || offset < kStripedBegin) return expected_[addr.target()][offset];
    const auto position = static_cast<uint64_t>(std::find(kRing.begin(), kRing.end(), addr.target()) - kRing.begin());
    return expected_[kRing[(position + offset / unit_bytes_) % kRing.size()]][offset];
  }

  const uint64_t unit_bytes_;
  base::Random random_;
  std::vector<std::unique_ptr<base::RecorderMedium>> near_;
  std::vector<std::unique_ptr<base::FarMedium>> far_;
  std::unique_ptr<VolumeOf<base::HookedMedium>> volume_;
  std::vector<std::vector<std::byte>> expected_;  // by place
};

class StripedVolume : public ::testing::TestWithParam<uint64_t> {
 protected:
  StripedTargets targets_{GetParam()};
};

TEST_P(StripedVolume, WritesReachTheirPlacesAndNoOthers) {
  for (int i = 0; i < 100; ++i) {
    targets_.write();
    ASSERT_NO_FATAL_FAILURE(targets_.expect_places()) << "after fence " << i;
  }
}

TEST_P(StripedVolume, ReadsPutTheBytesTogether) {
  for (int i = 0; i < 20; ++i) targets_.write();
  for (int i = 0; i < 50; ++i) {
    std::vector<Volume::Range> ranges;
    std::vector<const std::byte*> places;
    uint64_t pieces = 0, reads_before = 0, reads_after = 0;
    for (size_t target = 0; target < kStripedTargets; ++target) reads_before += targets_.far(target).counts().reads;
    ReadBatch reads(targets_.volume());
    for (int j = 0; j < 8; ++j) {
      ranges.push_back(targets_.random_range());
      places.push_back(reads.issue(ranges.back().at, ranges.back().bytes));
      pieces += targets_.pieces_of(ranges.back());
    }
    ASSERT_EQ("OK", reads.wait().ToString());
    for (size_t j = 0; j < ranges.size(); ++j) {
      const std::vector<std::byte> expected = targets_.expected(ranges[j]);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), places[j]))
          << ranges[j].bytes << " bytes at " << ranges[j].at.target() << ", " << ranges[j].at.offset();
    }
    for (size_t target = 0; target < kStripedTargets; ++target) reads_after += targets_.far(target).counts().reads;
    EXPECT_EQ(reads_after - reads_before, pieces) << "one for each unit";
  }
}

TEST_P(StripedVolume, WhatIsFetchedIsReadInPlaceByPieces) {
  for (int i = 0; i < 20; ++i) targets_.write();
  for (int i = 0; i < 20; ++i) {
    const Volume::Range range = targets_.random_range();
    ASSERT_EQ("OK", targets_.volume().fetch(range.at, range.bytes).ToString());
    const std::vector<std::byte> expected = targets_.expected(range);
    for (uint64_t done = 0; done < range.bytes;) {
      const Addr at = range.at + done;
      const uint64_t bytes = targets_.volume().piece_bytes(at, range.bytes - done);
      ASSERT_TRUE(bytes > 0 && bytes <= range.bytes - done);
      ASSERT_EQ(std::memcmp(targets_.volume().resident(at), expected.data() + done, bytes), 0);
      done += bytes;
    }
  }
}

// Any of the ring's targets may have held what is missing.
TEST_P(StripedVolume, AReadIsLostWithAnyOfItsTargets) {
  targets_.far(2).fail_reads(1);
  ReadBatch reads(targets_.volume());
  static_cast<void>(reads.issue(Addr(0, kStripedBegin), 4 * GetParam()));
  const std::byte* const other = reads.issue(Addr(1, kStripedBegin), 8);
  EXPECT_TRUE(reads.wait().IsUnavailable());
  EXPECT_TRUE(reads.lost(Addr(0, kStripedBegin)));
  EXPECT_FALSE(reads.lost(Addr(1, kStripedBegin)));
  EXPECT_EQ(*other, std::byte{0});
}

INSTANTIATE_TEST_SUITE_P(Units, StripedVolume, ::testing::Values(256, 4096, 16384));

TEST(StripedVolumes, WhatCannotBeLaidOutChangesNothing) {
  const std::vector<std::byte> zeros(kStripedBytes);
  base::RecorderMedium near(zeros, PersistenceDomain::kAdr), mapped(zeros, PersistenceDomain::kAdr);
  base::FarMedium one(near, {.seed = 1}), two(near, {.seed = 2});
  VolumeOf<base::HookedMedium> mixed({&one, &mapped}), far({&one, &two});
  const std::array<size_t, 2> ring = {0, 1};
  EXPECT_TRUE(mixed.lay_out({LayoutChoice::kSoftware, ring, 4096, 4096}).IsInvalidArgument());
  EXPECT_TRUE(far.lay_out({LayoutChoice::kHardware, ring, 4096, 4096}).IsInvalidArgument());
  EXPECT_FALSE(mixed.layout().striped() || far.layout().striped());
  EXPECT_TRUE(far.lay_out(Layout()).ok());
  EXPECT_TRUE(far.lay_out({LayoutChoice::kSoftware, ring, 4096, 4096}).ok());
  EXPECT_TRUE(far.layout().striped());
}

}  // namespace
}  // namespace bonsai::scale
