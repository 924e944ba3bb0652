// SPDX-License-Identifier: Apache-2.0
// Scrubbing: damage that nobody reads is found and repaired, by this node's memory, by checks, or by most members; what
// is written meanwhile is no damage, and what nobody knows is left alone. layout_mutant_test.cc shows that these tests
// can fail.
#include "scale/scrubber.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/probe.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "base/units.h"
#include "scale/target.h"
#include "scale/testing/serving_nodes.h"

namespace bonsai::scale {
namespace {

// Three windows, of which the last is a part.
constexpr uint64_t kScrubPoolBytes = (uint64_t{5} << 19) + 3 * base::kPageBytes,
                   kScrubFirstBytes = 2 * base::kPageBytes;
constexpr uint64_t kBlock = base::kMediaBlockBytes;
inline constexpr base::Site kScrubSite{"scrubber_test.write"};

class Scrub : public ::testing::Test {
 protected:
  using Verdict = ScrubBlock::Verdict;

  // Makes a group on so many nodes, full of random bytes, whose blocks `judge` judges. It is compared on request alone.
  // With a witness it is on all nodes but the last one.
  void make(size_t members, const Targets::Judge& judge = nullptr, uint64_t bytes_per_s = 0,
            uint64_t member_ms = 60'000, bool has_witness = false) {
    nodes_ = std::make_unique<ServingNodes>("scrubs", members + (has_witness ? 1 : 0));
    std::string group = nodes_->name(0, "p");
    for (size_t i = 1; i < members; ++i) group += "|" + nodes_->name(i, "p");
    group += has_witness ? "?witness=" + nodes_->name(members, "w") : "?replicas_min=1";
    TargetConfig config;
    config.first_bytes = kScrubFirstBytes;
    config.limit_ms = 20'000;
    config.member_ms = member_ms;
    config.note = [this](const std::string& text) {
      told_.fetch_add(text.find("had damage between bytes") != std::string::npos ? 1 : 0);
    };
    targets_ = std::make_unique<Targets>(config);
    TargetName name;
    ASSERT_EQ("OK", parse_target_name(group, &name).ToString());
    ASSERT_EQ("OK", targets_->add(std::move(name)).ToString());
    ASSERT_EQ("OK", targets_->back().create(kScrubPoolBytes).ToString());
    volume_ = targets_->hooked_volume();
    ASSERT_EQ("OK", targets_->complete().ToString());
    right_ = nodes_->bytes_of(0, "p");
    ASSERT_EQ(right_.size(), kScrubPoolBytes);
    for (uint64_t at = kScrubFirstBytes; at < kScrubPoolBytes; at += kBlock) write(at, random_block());
    ASSERT_EQ("OK", targets_->start_scrubbing(bytes_per_s, judge).ToString());
  }
  ~Scrub() override {
    if (targets_ != nullptr) targets_->stop_scrubbing();
  }
  std::string random_block() {
    std::string block(kBlock, '\0');
    for (char& byte : block) byte = static_cast<char>(random_.next());
    return block;
  }
  void write(uint64_t at, const std::string& bytes) {
    volume_->nt_copy(Addr(0, at), bytes.data(), bytes.size(), kScrubSite);
    ASSERT_TRUE(volume_->fence(kScrubSite));
    right_.replace(at, bytes.size(), bytes);
  }
  // As the member's device holds it from now on.
  void damage(size_t member, uint64_t at, const std::string& bytes) {
    std::fstream file(nodes_->file(member, "p"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at)).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(file.good());
  }
  // A block, after the pool's first bytes, whose number has this remainder by three.
  uint64_t random_place(uint64_t remainder = 0) {
    const uint64_t blocks = (kScrubPoolBytes - kScrubFirstBytes) / kBlock / 3;
    return kScrubFirstBytes + (random_.below(blocks) * 3 + remainder) * kBlock;
  }
  void zero_or_flip(size_t member, uint64_t at) {
    if (random_.below(2) == 0) return damage(member, at, std::string(kBlock, '\0'));
    const uint64_t byte = at + random_.below(kBlock);
    damage(member, byte, std::string(1, static_cast<char>(right_[byte] ^ (1 << random_.below(8)))));
  }
  void expect_all_right() {
    for (size_t i = 0; i < info().members.size(); ++i)
      EXPECT_TRUE(nodes_->bytes_of(i, "p") == right_) << "member " << i;
  }
  // How often blocks were compared again, as updates to them were in flight.
  static uint64_t updates_met() {
    uint64_t met = 0;
    base::Probe::each([&met](const base::Probe& probe) {
      if (probe.name() == std::string("group.scrub_block_was_written")) met += probe.hits();
    });
    return met;
  }
  GroupInfo info() { return targets_->groups().at(0); }
  uint64_t repaired() {
    uint64_t all = 0;
    for (const GroupMember& member : info().members) all += member.repaired_bytes;
    return all;
  }

  base::Random random_{base::seed_from_env_or(11)};
  std::unique_ptr<ServingNodes> nodes_;
  std::string right_;
  std::atomic<int> told_{0};
  std::unique_ptr<Targets> targets_;
  std::unique_ptr<VolumeOf<base::HookedMedium>> volume_;
};

TEST_F(Scrub, DamageThatNobodyReadsIsRepaired) {
  make(3);
  const int rounds = testing::budget(2, 5, 100);
  uint64_t damaged_bytes = 0;
  for (int round = 1; round <= rounds; ++round) {
    std::set<uint64_t> places;
    for (int i = 0; i < 100; ++i) places.insert(random_place(random_.below(3)));
    for (const uint64_t at : places) zero_or_flip(at / kBlock % 3, at);
    damaged_bytes += places.size() * kBlock;
    ASSERT_EQ("OK", targets_->scrub_now().ToString());
    expect_all_right();
    EXPECT_EQ(repaired(), damaged_bytes);
    EXPECT_EQ(info().scrub_passes, static_cast<uint64_t>(round));
    EXPECT_EQ(info().scrub_unsettled_bytes + info().scrub_missed_bytes, 0U);
  }
  EXPECT_GE(told_.load(), 3);
  const uint64_t windows = kScrubPoolBytes / WrittenBlocks::kWindowBytes + 1;
  EXPECT_LE(told_.load(), 3 * static_cast<int>(std::bit_width(windows * static_cast<uint64_t>(rounds))));
}

TEST_F(Scrub, ThisNodesMemoryDecidesWhereItHasTheBytes) {
  make(3);
  const uint64_t page = kScrubFirstBytes + 7 * base::kPageBytes;
  ASSERT_EQ("OK", volume_->fetch(Addr(0, page), base::kPageBytes).ToString());
  write(page + 512, random_block());
  for (const size_t member : {0, 2}) damage(member, page + 512, std::string(kBlock, '\0'));  // most say zero
  ASSERT_EQ("OK", targets_->scrub_now().ToString());
  expect_all_right();
  EXPECT_EQ(repaired(), 2 * kBlock);
}

// What was stored and not flushed is not on the members: they are alike, and nothing is repaired. Beside it damage is.
TEST_F(Scrub, WhatWasNotFlushedIsNoDamage) {
  make(3);
  const uint64_t page = kScrubFirstBytes;
  ASSERT_EQ("OK", volume_->fetch(Addr(0, page), base::kPageBytes).ToString());
  volume_->store8(Addr(0, page), 42);
  ASSERT_EQ("OK", targets_->scrub_now().ToString());
  expect_all_right();
  EXPECT_EQ(repaired(), 0U);
  damage(1, page + 8, std::string(8, '\0'));
  ASSERT_EQ("OK", targets_->scrub_now().ToString());
  expect_all_right();
  EXPECT_EQ(info().members[1].repaired_bytes, kBlock);
  EXPECT_EQ(repaired(), kBlock);
}

TEST_F(Scrub, ACheckDecidesAgainstMostMembers) {
  std::vector<ScrubBlock> seen;
  make(3, [&seen](size_t target, std::span<ScrubBlock> blocks) {
    EXPECT_EQ(target, 0U);
    for (ScrubBlock& block : blocks) {
      seen.push_back(block);
      block.verdict = Verdict::kDamaged;
    }
  });
  const uint64_t at = random_place();
  for (const size_t member : {0, 1}) damage(member, at, std::string(kBlock, '\0'));
  ASSERT_EQ("OK", targets_->scrub_now().ToString());
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].offset, at);
  EXPECT_EQ(seen[0].bytes, kBlock);
  EXPECT_TRUE(nodes_->bytes_of(2, "p") == right_) << "it alone has the truth";
  EXPECT_EQ(repaired(), 0U);
  EXPECT_EQ(info().scrub_unsettled_bytes, kBlock);
}

TEST_F(Scrub, OfTwoMembersNoneIsTakenForRight) {
  make(2);
  const uint64_t at = random_place();
  damage(0, at, std::string(kBlock, '\0'));
  damage(1, at + 3 * kBlock < kScrubPoolBytes ? at + 3 * kBlock : at - 3 * kBlock, std::string(kBlock, '\0'));
  const std::string first = nodes_->bytes_of(0, "p"), second = nodes_->bytes_of(1, "p");
  ASSERT_EQ("OK", targets_->scrub_now().ToString());
  EXPECT_TRUE(nodes_->bytes_of(0, "p") == first);
  EXPECT_TRUE(nodes_->bytes_of(1, "p") == second);
  EXPECT_EQ(repaired(), 0U);
  EXPECT_EQ(info().scrub_unsettled_bytes, 2 * kBlock);
  EXPECT_EQ(told_.load(), 0);
}

// Beside it something is written, as a repair of the checked bytes is: so the first attempt is not the last one.
TEST_F(Scrub, WhatIsBesideCheckedBytesInTheirBlockIsEvenedOut) {
  constexpr uint64_t kChecked = 100, kBesides = 60, kAt = kScrubFirstBytes + 2 * base::kPageBytes;
  const uint64_t other = kAt + base::kPageBytes;
  int calls = 0;
  make(2, [&](size_t, std::span<ScrubBlock> blocks) {
    for (ScrubBlock& block : blocks) {
      if (block.offset != kAt) continue;
      block.verdict = Verdict::kMended;
      block.checked_begin = kAt + kBesides;
      block.checked_end = kAt + kBesides + kChecked;
    }
    if (++calls == 1) write(kAt + kBlock, random_block());
  });
  const std::string zeros(kChecked, '\0');
  damage(0, kAt + kBesides, zeros);  // is not the scrubber's: its check has passed
  damage(0, kAt + 1, "?");
  damage(1, kAt + kBlock - 1, "?");
  damage(1, other, zeros);
  ASSERT_EQ("OK", targets_->scrub_now().ToString());
  EXPECT_EQ(calls, 2);
  const auto [first, second] = std::pair{nodes_->bytes_of(0, "p"), nodes_->bytes_of(1, "p")};
  EXPECT_EQ(first.substr(kAt, kBesides), second.substr(kAt, kBesides));
  const uint64_t end = kAt + kBesides + kChecked;
  EXPECT_EQ(first.substr(end, kAt + kBlock - end), second.substr(end, kAt + kBlock - end));
  EXPECT_EQ(first.substr(kAt + kBesides, kChecked), zeros);
  EXPECT_EQ(second.substr(kAt + kBesides, kChecked), right_.substr(kAt + kBesides, kChecked));
  EXPECT_EQ(info().scrub_unsettled_bytes, kBlock) << "the other block";
  EXPECT_EQ(info().scrub_missed_bytes, 0U);
  EXPECT_EQ(repaired(), 0U) << "it harmed nobody";
  EXPECT_EQ(told_.load(), 0);
}

// Until a pass has met an update in flight, which was on some members only.
TEST_F(Scrub, WhatIsWrittenMeanwhileIsNoDamage) {
  std::atomic<uint64_t> judged{0};
  make(3, [&judged](size_t, std::span<ScrubBlock> blocks) { judged.fetch_add(blocks.size()); });
  constexpr uint64_t kHotBytes = (kScrubPoolBytes - kScrubFirstBytes) / 2 / kBlock * kBlock;  // of each writer
  std::atomic<bool> over{false};
  std::vector<base::Thread> writers;
  for (uint64_t number = 0; number < 2; ++number) {
    writers.emplace_back("writer", [this, number, &over] {
      base::Random random(100 + number);
      for (std::string block(kBlock, '\0'); !over.load();) {
        block[random.below(kBlock)] = static_cast<char>(random.next());
        const uint64_t at = kScrubFirstBytes + number * kHotBytes + random.below(kHotBytes / kBlock) * kBlock;
        volume_->nt_copy(Addr(0, at), block.data(), block.size(), kScrubSite);
        if (!volume_->fence(kScrubSite)) ADD_FAILURE();
      }
    });
  }
  const auto passes = static_cast<uint64_t>(testing::budget(60, 200, 5'000));
  const uint64_t before = updates_met();
  const auto have_met = [&] { return updates_met() != before || judged.load() != 0; };
  base::BoundedWait wait("test.scrub", 60'000);
  for (uint64_t pass = 0; (pass < passes || !have_met()) && !wait.expired() && !HasFailure(); ++pass) {
    EXPECT_EQ("OK", targets_->scrub_now().ToString());
    wait.pause();
  }
  over.store(true);
  writers.clear();
  EXPECT_TRUE(have_met()) << "no pass has met an update in flight";
  EXPECT_EQ(judged.load(), 0U) << "blocks of updates in flight were taken for damaged";
  EXPECT_EQ(repaired(), 0U);
  EXPECT_EQ(info().scrub_unsettled_bytes, 0U);
  right_ = nodes_->bytes_of(0, "p");
  expect_all_right();
}

// The update comes when the members have been read, and before the repair.
TEST_F(Scrub, ARepairNeverReplacesANewerByte) {
  std::string newer;
  make(3, [this, &newer](size_t, std::span<ScrubBlock> blocks) {
    newer = random_block();
    write(blocks.front().offset, newer);
  });
  const uint64_t at = random_place();
  damage(1, at, std::string(kBlock, '\0'));
  ASSERT_EQ("OK", targets_->scrub_now().ToString());
  ASSERT_FALSE(newer.empty());
  expect_all_right();
}

TEST_F(Scrub, APassReadsEachMemberOnceAndAPutCostsWhatItDid) {
  make(3);
  const auto cost_of_a_put = [this] {
    const rdma::Traffic before = targets_->traffic();
    write(random_place(), random_block());
    return (targets_->traffic() - before).messages();
  };
  const uint64_t alone = cost_of_a_put();
  const rdma::Traffic before = targets_->traffic();
  ASSERT_EQ("OK", targets_->scrub_now().ToString());
  const rdma::Traffic pass = targets_->traffic() - before;
  EXPECT_EQ(pass.of(rdma::Verb::kRead).bytes, 3 * kScrubPoolBytes);
  EXPECT_EQ(pass.messages(), pass.of(rdma::Verb::kRead).messages);
  std::atomic<bool> over{false};
  base::Thread scrubbing("passes", [&] {
    while (!over.load()) EXPECT_EQ("OK", targets_->scrub_now().ToString());
  });
  const auto writes = [](const rdma::Traffic& of) { return of.messages() - of.of(rdma::Verb::kRead).messages; };
  const rdma::Traffic beside = targets_->traffic();
  constexpr uint64_t kPuts = 100;
  for (uint64_t i = 0; i < kPuts; ++i) write(random_place(), random_block());
  EXPECT_EQ(writes(targets_->traffic() - beside), kPuts * alone);
  over.store(true);
  scrubbing.join();
}

TEST_F(Scrub, ItGoesOnByItselfAtItsPace) {
  make(3, nullptr, /*bytes_per_s=*/uint64_t{1} << 30);
  const uint64_t at = random_place();
  zero_or_flip(2, at);
  for (base::BoundedWait wait("test.scrub", 60'000); info().scrub_passes < 3 && !wait.expired(); wait.pause()) {
  }
  expect_all_right();
  EXPECT_EQ(info().members[2].repaired_bytes, kBlock);
}

TEST_F(Scrub, TheFirstWindowIsDueAfterItsTime) {
  make(3, nullptr, /*bytes_per_s=*/1);
  for (int i = 0; i < 20; ++i) base::sleep_ms(1);
  EXPECT_EQ(info().scrub_compared_bytes + info().scrub_passes, 0U) << "it is due in three days";
  ASSERT_EQ("OK", targets_->scrub_now().ToString());
  EXPECT_EQ(info().scrub_passes, 1U);
}

// It has a page and no bytes.
TEST_F(Scrub, AWitnessIsNeitherReadNorWaitedFor) {
  make(2, nullptr, 0, /*member_ms=*/60'000, /*has_witness=*/true);
  const std::string witness = nodes_->bytes_of(2, "w");
  const auto read_by_a_pass = [this] {
    const rdma::Traffic before = targets_->traffic();
    EXPECT_EQ("OK", targets_->scrub_now().ToString());
    return (targets_->traffic() - before).of(rdma::Verb::kRead).bytes;
  };
  EXPECT_EQ(read_by_a_pass(), 2 * kScrubPoolBytes);
  (*nodes_)[2].end();
  EXPECT_EQ(read_by_a_pass(), 2 * kScrubPoolBytes);
  EXPECT_EQ(info().scrub_unsettled_bytes + info().scrub_missed_bytes, 0U);
  expect_all_right();
  (*nodes_)[2].start();
  EXPECT_TRUE(nodes_->bytes_of(2, "w") == witness);
}

TEST_F(Scrub, OneMemberAloneIsNotCompared) {
  make(2, nullptr, 0, /*member_ms=*/500);
  (*nodes_)[1].end();
  write(random_place(), random_block());
  EXPECT_TRUE(targets_->scrub_now().IsUnavailable());
  EXPECT_EQ(info().scrub_passes, 0U);
  (*nodes_)[1].start();
}

}  // namespace
}  // namespace bonsai::scale
