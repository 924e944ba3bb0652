// SPDX-License-Identifier: Apache-2.0
// Read-repair: bytes that some members of a group hold damaged are put together and repaired, those that nobody can put
// together are refused, and what is sound is left alone. layout_mutant_test.cc shows that these tests can fail.
#include "scale/mend.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/crc.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/units.h"
#include "scale/target.h"
#include "scale/testing/serving_nodes.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kMendPoolBytes = uint64_t{1} << 20, kMendBytes = 20'000, kMendUnit = 4096;
constexpr size_t kMembers = 3;
inline constexpr base::Site kMendSite{"mend_test.write"};

class Mend : public ::testing::Test {
 protected:
  static constexpr uint64_t kAt = kMendPoolBytes / 2 + 300;  // in the middle of a block

  // Writes the bytes to pools of these names, each of which is a group of all nodes, or is on the first node alone.
  void make(const std::vector<std::string>& pools, bool alone = false, uint64_t member_ms = 60'000,
            uint64_t limit_ms = 20'000) {
    TargetConfig config;
    config.first_bytes = 2 * base::kPageBytes;
    config.limit_ms = limit_ms;
    config.member_ms = member_ms;  // at first nobody is late
    config.note = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      told_ += text.find("had damage between bytes") != std::string::npos ? 1 : 0;
    };
    targets_ = std::make_unique<Targets>(config);
    std::vector<size_t> ring;
    for (const std::string& pool : pools) {
      TargetName name;
      ASSERT_EQ("OK", parse_target_name(alone ? nodes_.name(0, pool) : nodes_.group(pool), &name).ToString());
      ASSERT_EQ("OK", targets_->add(std::move(name)).ToString());
      ASSERT_EQ("OK", targets_->back().create(kMendPoolBytes).ToString());
      ring.push_back(ring.size());
    }
    volume_ = targets_->hooked_volume();
    if (pools.size() > 1) {
      const Layout layout(LayoutChoice::kSoftware, ring, kMendUnit, 2 * base::kPageBytes);
      ASSERT_EQ("OK", volume_->lay_out(layout).ToString());
    }
    for (char& byte : bytes_) byte = static_cast<char>(random_.next());
    volume_->nt_copy(Addr(0, kAt), bytes_.data(), bytes_.size(), kMendSite);
    ASSERT_TRUE(volume_->fence(kMendSite));
    ASSERT_EQ("OK", targets_->complete().ToString());
    pools_ = pools;
  }
  // Flips a bit of the byte `at` of the bytes, as a member holds it.
  void flip(size_t member, uint64_t at) {
    const Addr place = volume_->layout().place_of(Addr(0, kAt) + at);
    std::fstream file(nodes_.file(member, pools_[place.target()]), std::ios::binary | std::ios::in | std::ios::out);
    char byte = 0;
    file.seekg(static_cast<std::streamoff>(place.offset())).get(byte);
    byte = static_cast<char>(byte ^ (1 << random_.below(8)));
    file.seekp(static_cast<std::streamoff>(place.offset())).put(byte);
    ASSERT_TRUE(file.good());
  }
  // What a member holds of them.
  std::string held(size_t member) {
    std::vector<std::string> files;
    for (const std::string& pool : pools_) files.push_back(nodes_.bytes_of(member, pool));
    std::string all;
    for (uint64_t i = 0; i < bytes_.size(); ++i) {
      const Addr place = volume_->layout().place_of(Addr(0, kAt) + i);
      all += files[place.target()][place.offset()];
    }
    return all;
  }
  void expect_all_whole() {
    for (size_t member = 0; member < kMembers; ++member) EXPECT_TRUE(held(member) == bytes_) << "member " << member;
  }
  // False: null was returned. What is returned must be right.
  bool mend() {
    ReadBatch reads(*volume_);
    const uint32_t crc = base::crc32c(bytes_.data(), bytes_.size(), 1);
    const auto is_sound = [&](const std::byte* found) { return base::crc32c(found, bytes_.size(), 1) == crc; };
    const std::byte* const found = mended(*volume_, Addr(0, kAt), bytes_.size(), is_sound, &reads, &is_known_);
    EXPECT_TRUE(found == nullptr || std::memcmp(found, bytes_.data(), bytes_.size()) == 0);
    return found != nullptr;
  }
  // Of all members of a group.
  std::vector<uint64_t> repaired(size_t group = 0) {
    std::vector<uint64_t> all;
    const std::vector<GroupInfo> groups = targets_->groups();
    for (const GroupMember& member : groups.at(group).members) all.push_back(member.repaired_bytes);
    return all;
  }
  int told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  ServingNodes nodes_{"mends", kMembers};
  base::Random random_{base::seed_from_env_or(7)};
  std::string bytes_ = std::string(kMendBytes, '\0');
  std::vector<std::string> pools_;
  std::mutex mutex_;
  int told_ = 0;
  bool is_known_ = false;  // of the last mend()
  std::unique_ptr<Targets> targets_;
  std::unique_ptr<VolumeOf<base::HookedMedium>> volume_;
};

TEST_F(Mend, TheMemberWithTheDamageIsRepairedAndNoOther) {
  make({"p"});
  for (size_t member = 0; member < kMembers; ++member) {
    flip(member, 0);
    flip(member, 5'000);
    flip(member, kMendBytes - 1);
    ASSERT_TRUE(mend());
    expect_all_whole();
    EXPECT_EQ(told(), static_cast<int>(member) + 1);
    const std::vector<uint64_t> bytes = repaired();
    for (size_t i = 0; i < kMembers; ++i) EXPECT_EQ(bytes[i] != 0, i <= member) << i << " of " << member;
    EXPECT_LE(bytes[member], 3 * base::kMediaBlockBytes);
  }
  const std::vector<uint64_t> before = repaired();
  ASSERT_TRUE(mend()) << "it may have been repaired meanwhile";
  EXPECT_EQ(repaired(), before);
  EXPECT_EQ(told(), 3);
}

TEST_F(Mend, OneSoundMemberIsEnough) {
  make({"p"});
  for (uint64_t at = 0; at < kMendBytes; at += 256) {  // more blocks than combinations can be tried of
    flip(0, at);
    flip(2, at);
  }
  ASSERT_TRUE(mend());
  expect_all_whole();
  EXPECT_EQ(repaired()[1], 0U);
}

TEST_F(Mend, MembersThatAreDamagedInDifferentPlacesArePutTogether) {
  make({"p"});
  const int rounds = testing::budget(20, 60, 1'000);
  for (int round = 0; round < rounds; ++round) {
    for (uint64_t i = 0; i < 4; ++i) {  // in each place one or two members
      const uint64_t at = i * 5'000 + random_.below(4'000);
      const size_t first = random_.below(kMembers);
      flip(first, at);
      if (random_.chance(1, 2)) flip((first + 1) % kMembers, at);
    }
    ASSERT_TRUE(mend()) << round;
    expect_all_whole();
  }
}

// In neighbouring blocks different members are sound, and all differ in both.
TEST_F(Mend, ASoundBlockBesideAnotherMembersSoundBlockIsFound) {
  make({"p"});
  constexpr uint64_t kBlock = base::kMediaBlockBytes, kFirst = 10 * kBlock - kAt % kBlock;
  flip(1, kFirst + 10);
  flip(2, kFirst + 20);
  flip(0, kFirst + kBlock + 10);
  flip(2, kFirst + kBlock + 20);
  ASSERT_TRUE(mend());
  expect_all_whole();
}

TEST_F(Mend, WhatAllHaveDamagedIsRefusedAndStays) {
  make({"p"});
  std::vector<std::string> before;
  for (size_t member = 0; member < kMembers; ++member) {
    flip(member, 1'000);
    before.push_back(held(member));
  }
  EXPECT_FALSE(mend());
  EXPECT_TRUE(is_known_);
  for (size_t member = 0; member < kMembers; ++member) EXPECT_TRUE(held(member) == before[member]);
  EXPECT_EQ(repaired(), std::vector<uint64_t>(kMembers, 0));
  EXPECT_EQ(told(), 0);
}

TEST_F(Mend, AMemberThatIsOutIsNotAsked) {
  make({"p"}, /*alone=*/false, /*member_ms=*/500);
  nodes_[2].end();
  volume_->nt_copy(Addr(0, kAt), bytes_.data(), 8, kMendSite);
  ASSERT_TRUE(volume_->fence(kMendSite)) << "it is out";
  flip(0, 1'000);
  EXPECT_TRUE(mend());
  EXPECT_TRUE(held(0) == bytes_);
  flip(0, 2'000);
  flip(1, 2'000);
  EXPECT_FALSE(mend()) << "only the third has them whole";
  EXPECT_TRUE(is_known_) << "it is made equal to the others when it is back";
  nodes_[2].start();
}

// Nobody knows what it has: the page names it.
TEST_F(Mend, WhileASoundMemberIsAwayNothingIsKnownToBeDamaged) {
  make({"p"}, /*alone=*/false, /*member_ms=*/60'000, /*limit_ms=*/2'000);
  nodes_[2].end();
  flip(0, 2'000);
  flip(1, 2'000);
  EXPECT_FALSE(mend());
  EXPECT_FALSE(is_known_);
  EXPECT_TRUE(volume_->unavailable().IsUnavailable());
  nodes_[2].start();
  for (base::BoundedWait wait("test.mend", 60'000); !mend() && !wait.expired(); wait.pause()) EXPECT_FALSE(is_known_);
  EXPECT_TRUE(is_known_);
  expect_all_whole();
}

TEST_F(Mend, StripedBytesComeFromWhicheverMembersHaveThem) {
  make({"p", "q"});
  flip(0, 100);                  // of one group
  flip(1, kMendUnit + 100);      // of the other
  flip(2, 2 * kMendUnit + 100);  // no member has all pieces
  ASSERT_TRUE(mend());
  expect_all_whole();
  EXPECT_GT(repaired(0)[0] + repaired(1)[0], 0U);
  EXPECT_GT(repaired(0)[1] + repaired(1)[1], 0U);
}

TEST_F(Mend, ATargetAloneHasNobodyToAsk) {
  make({"p"}, /*alone=*/true);
  EXPECT_FALSE(mend());
}

}  // namespace
}  // namespace bonsai::scale
