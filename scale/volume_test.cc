// SPDX-License-Identifier: Apache-2.0
#include "scale/volume.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/nvm/recorder.h"

namespace bonsai::scale {
namespace {

inline constexpr base::Site kVolumeFlushSite{"volume_test.flush"};
inline constexpr base::Site kVolumeFenceSite{"volume_test.fence"};

constexpr size_t kMediumBytes = 4096;

// Remembers which operations reached it, and fails if asked to.
class NotingMedium final : public base::HookedMedium {
 public:
  NotingMedium() : HookedMedium(nullptr, 0) { set_view(bytes_of_view_.data(), kMediumBytes); }

  void store8(std::byte* dst, uint64_t value) override {
    std::memcpy(dst, &value, sizeof value);
    note("store8", dst, 8);
  }
  void copy(std::byte* dst, const void* src, size_t n) override {
    std::memcpy(dst, src, n);
    note("copy", dst, n);
  }
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site& site) override {
    std::memcpy(dst, src, n);
    note(std::string("nt_copy/") + site.name, dst, n);
  }
  void flush(const std::byte* dst, size_t n, const base::Site& site) override {
    note(std::string("flush/") + site.name, dst, n);
  }
  bool fence(const base::Site& site) override {
    ++fences;
    note(std::string("fence/") + site.name, view(), 0);
    return failure.ok();
  }
  [[nodiscard]] Status health() const override { return failure; }

  std::vector<std::string> notes;
  int fences = 0;
  Status failure;

 private:
  void note(const std::string& what, const std::byte* at, size_t n) {
    notes.push_back(what + " " + std::to_string(at - view()) + "+" + std::to_string(n));
  }
  alignas(64) std::array<std::byte, kMediumBytes> bytes_of_view_{};
};

uint64_t word(const Volume& volume, Addr addr) {
  uint64_t value;
  std::memcpy(&value, volume.resident(addr), sizeof value);
  return value;
}

TEST(Addr, HoldsTargetAndOffset) {
  constexpr uint64_t kOffsetMax = (uint64_t{1} << 48) - 1;
  for (const uint64_t target : {uint64_t{0}, uint64_t{1}, uint64_t{kTargetsMax - 1}}) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{4096}, kOffsetMax}) {
      const Addr addr(target, offset);
      EXPECT_EQ(addr.target(), target);
      EXPECT_EQ(addr.offset(), offset);
      EXPECT_EQ(Addr::of_bits(addr.bits()), addr);
      EXPECT_EQ(addr.is_nil(), target == 0 && offset == 0);
    }
  }
  EXPECT_TRUE(Addr().is_nil());
  EXPECT_EQ(Addr(3, 100) + 28, Addr(3, 128));
  EXPECT_NE(Addr(0, 64), Addr(1, 64));
}

class TwoTargets : public ::testing::Test {
 protected:
  NotingMedium one_, two_;
  VolumeOf<base::HookedMedium> volume_{{&one_, &two_}};
};

TEST_F(TwoTargets, ContainsWhatLiesInOneTarget) {
  EXPECT_EQ(volume_.targets(), 2u);
  EXPECT_EQ(volume_.target_bytes(0), kMediumBytes);
  EXPECT_EQ(volume_.target_bytes(1), kMediumBytes);
  for (const uint64_t target : {uint64_t{0}, uint64_t{1}}) {
    EXPECT_TRUE(volume_.contains(Addr(target, 0), kMediumBytes));
    EXPECT_TRUE(volume_.contains(Addr(target, kMediumBytes), 0));
    EXPECT_TRUE(volume_.contains(Addr(target, kMediumBytes - 1), 1));
    EXPECT_FALSE(volume_.contains(Addr(target, 0), kMediumBytes + 1));
    EXPECT_FALSE(volume_.contains(Addr(target, kMediumBytes - 7), 8)) << "objects do not run on into the next target";
    EXPECT_FALSE(volume_.contains(Addr(target, kMediumBytes + 1), 0));
    EXPECT_FALSE(volume_.contains(Addr(target, 8), UINT64_MAX)) << "no overflow";
    EXPECT_FALSE(volume_.contains(Addr(target, uint64_t{1} << 47), 1));
  }
  EXPECT_FALSE(volume_.contains(Addr(2, 0), 0));
  EXPECT_FALSE(volume_.contains(Addr::of_bits(UINT64_MAX), 1));
}

TEST_F(TwoTargets, OperationsReachTheirTargetOnly) {
  alignas(8) const char bytes[] = "sixteen bytes...";
  volume_.store8(Addr(0, 8), 77);
  volume_.copy(Addr(1, 3), bytes, 5);
  volume_.nt_copy(Addr(1, 64), bytes, 16, kVolumeFlushSite);
  volume_.flush(Addr(0, 8), 8, kVolumeFlushSite);
  EXPECT_EQ(one_.notes, (std::vector<std::string>{"store8 8+8", "flush/volume_test.flush 8+8"}));
  EXPECT_EQ(two_.notes, (std::vector<std::string>{"copy 3+5", "nt_copy/volume_test.flush 64+16"}));
  EXPECT_EQ(word(volume_, Addr(0, 8)), 77u);
  EXPECT_EQ(word(volume_, Addr(1, 8)), 0u);
  EXPECT_EQ(std::memcmp(volume_.resident(Addr(1, 64)), bytes, 16), 0);
}

TEST_F(TwoTargets, AFenceFencesEveryMedium) {
  volume_.flush(Addr(1, 0), 8, kVolumeFlushSite);
  EXPECT_TRUE(volume_.fence(kVolumeFenceSite));
  EXPECT_EQ(one_.fences, 1);
  EXPECT_EQ(two_.fences, 1);
  EXPECT_EQ(two_.notes.back(), "fence/volume_test.fence 0+0");
}

TEST_F(TwoTargets, OneFailingMediumFailsTheVolume) {
  EXPECT_TRUE(volume_.fence(kVolumeFenceSite));
  EXPECT_FALSE(volume_.failed());
  EXPECT_TRUE(volume_.health().ok());
  two_.failure = Status::IoError("two broke");
  EXPECT_FALSE(volume_.failed()) << "nobody has fenced since";
  EXPECT_FALSE(volume_.fence(kVolumeFenceSite));
  EXPECT_EQ(one_.fences, 2) << "the others are fenced all the same";
  EXPECT_TRUE(volume_.failed());
  EXPECT_EQ(volume_.failed_targets(), 0b10u);
  EXPECT_TRUE(volume_.health().IsIoError());
  EXPECT_EQ(volume_.health().message(), "two broke");
  one_.failure = Status::IoError("one broke");
  EXPECT_EQ(volume_.health().message(), "one broke");
}

TEST_F(TwoTargets, AFailureIsNotForgotten) {
  two_.failure = Status::IoError("two broke");
  EXPECT_FALSE(volume_.fence(kVolumeFenceSite));
  two_.failure = Status::OK();
  EXPECT_FALSE(volume_.fence(kVolumeFenceSite)) << "though the medium says that it works again";
  EXPECT_TRUE(volume_.failed());
  EXPECT_TRUE(volume_.health().IsIoError()) << volume_.health().ToString();
}

TEST(Volume, TargetsMayDifferInSize) {
  std::vector<std::byte> image(kMediumBytes / 2);
  base::RecorderMedium small(image, PersistenceDomain::kAdr);
  NotingMedium large;
  const VolumeOf<base::HookedMedium> volume({&small, &large});
  EXPECT_EQ(volume.target_bytes(0), kMediumBytes / 2);
  EXPECT_FALSE(volume.contains(Addr(0, kMediumBytes / 2), 1));
  EXPECT_TRUE(volume.contains(Addr(1, kMediumBytes / 2), 1));
}

TEST(Volume, HasAtLeastOneTargetAndAtMostItsBound) {
  NotingMedium medium;
  EXPECT_DEATH(VolumeOf<base::HookedMedium>({}), "media_");
  EXPECT_DEATH(VolumeOf<base::HookedMedium>(std::vector<base::HookedMedium*>(kTargetsMax + 1, &medium)), "kTargetsMax");
}

// The medium that holds the bytes decides which of them are durable, and where.
TEST(Volume, DurabilityIsThatOfTheTarget) {
  const std::vector<std::byte> image(kMediumBytes);
  base::RecorderMedium one(image, PersistenceDomain::kAdr), two(image, PersistenceDomain::kAdr);
  VolumeOf<base::HookedMedium> volume({&one, &two});
  const auto durable = [](const base::RecorderMedium& medium, size_t offset) {
    uint64_t value;
    std::memcpy(&value, medium.durable_image().data() + offset, sizeof value);
    return value;
  };
  volume.store8(Addr(0, 64), 5);
  volume.store8(Addr(1, 64), 6);
  EXPECT_EQ(one.pending_words(), 1u);
  EXPECT_EQ(two.pending_words(), 1u);
  volume.flush(Addr(1, 64), 8, kVolumeFlushSite);
  EXPECT_TRUE(volume.fence(kVolumeFenceSite));
  EXPECT_EQ(durable(one, 64), 0u) << "stored, fenced, not flushed";
  EXPECT_EQ(durable(two, 64), 6u);
  EXPECT_EQ(one.pending_words(), 1u);
  volume.flush(Addr(0, 64), 8, kVolumeFlushSite);
  EXPECT_EQ(durable(one, 64), 0u) << "flushed, not fenced";
  EXPECT_TRUE(volume.fence(kVolumeFenceSite));
  EXPECT_EQ(durable(one, 64), 5u);
  for (const base::RecorderMedium* medium : {&one, &two}) {
    for (const base::SiteCount& count : medium->site_counts()) {
      EXPECT_EQ(count.calls, count.use == base::SiteUse::kFence ? 2u : 1u) << count.site->name;
    }
  }
}

TEST(Volume, ADroppedFlushIsSeenOnItsTarget) {
  const std::vector<std::byte> image(kMediumBytes);
  base::RecorderMedium one(image, PersistenceDomain::kAdr), two(image, PersistenceDomain::kAdr);
  two.drop(kVolumeFlushSite, base::SiteUse::kFlush);
  VolumeOf<base::HookedMedium> volume({&one, &two});
  for (const uint64_t target : {uint64_t{0}, uint64_t{1}}) {
    volume.store8(Addr(target, 0), 9);
    volume.flush(Addr(target, 0), 8, kVolumeFlushSite);
  }
  EXPECT_TRUE(volume.fence(kVolumeFenceSite));
  EXPECT_EQ(one.pending_words(), 0u);
  EXPECT_EQ(two.pending_words(), 1u);
}

TEST(Volume, DirectlyMappedTargetsShareOneFence) {
  alignas(64) static std::array<std::byte, kMediumBytes> memory[3];
  std::vector<base::ProductMedium> media;
  for (auto& bytes : memory) media.emplace_back(bytes.data(), kMediumBytes, PersistenceDomain::kAdr);
  VolumeOf<base::ProductMedium> volume({&media[0], &media[1], &media[2]});
  const base::NvmCounters before = base::nvm_counters();
  for (size_t target = 0; target < 3; ++target) {
    volume.store8(Addr(target, 128), 40 + target);
    volume.flush(Addr(target, 128), 8, kVolumeFlushSite);
  }
  EXPECT_TRUE(volume.fence(kVolumeFenceSite));
  const base::NvmCounters after = base::nvm_counters();
  EXPECT_EQ(after.fences - before.fences, 1u);
  EXPECT_EQ(after.lines_flushed - before.lines_flushed, 3u);
  EXPECT_EQ(after.bytes_stored - before.bytes_stored, 24u);
  for (size_t target = 0; target < 3; ++target) EXPECT_EQ(word(volume, Addr(target, 128)), 40 + target);
  EXPECT_TRUE(volume.health().ok());
}

}  // namespace
}  // namespace bonsai::scale
