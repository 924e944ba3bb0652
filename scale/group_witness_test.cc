// SPDX-License-Identifier: Apache-2.0
// Targets of two members and a witness over shm, nodes of one process: any one of the three may be lost, what is opened
// has everything that was acknowledged, and the witness gets no bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "base/units.h"
#include "scale/group_page.h"
#include "scale/read_batch.h"
#include "scale/target.h"
#include "scale/testing/serving_nodes.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kWitnessedBytes = uint64_t{1} << 20, kWitnessedMark = 0x53544957;
constexpr uint64_t kCarried = kWitnessedBytes / 2;
constexpr uint64_t kLateMs = 800;
inline constexpr base::Site kWitnessSite{"group_witness_test.write"};

class WitnessTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string members(const std::string& pool = "p") const {
    return nodes_.name(0, pool) + "|" + nodes_.name(1, pool);
  }
  [[nodiscard]] std::string group() const { return members() + "?witness=" + nodes_.name(2, "p"); }

  std::unique_ptr<Targets> targets(const std::string& name) {
    TargetConfig config;
    config.mark = kWitnessedMark;
    config.first_bytes = 2 * base::kPageBytes;
    config.limit_ms = 20'000;
    config.member_ms = kLateMs;
    config.note = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      notes_ += text + "\n";
    };
    auto made = std::make_unique<Targets>(config);
    TargetName parsed;
    EXPECT_EQ("OK", parse_target_name(name, &parsed).ToString());
    EXPECT_EQ("OK", made->add(std::move(parsed)).ToString());
    return made;
  }
  void use(std::unique_ptr<Targets> made) {
    targets_ = std::move(made);
    volume_ = targets_->hooked_volume();
    ASSERT_EQ("OK", volume_->fetch(Addr(0, 0), base::kPageBytes).ToString());
  }
  void create(const std::string& name) {
    auto made = targets(name);
    ASSERT_EQ("OK", (*made)[0].create(kWitnessedBytes).ToString());
    use(std::move(made));
    ASSERT_TRUE(write(0, 1)) << "it is whole";
    ASSERT_EQ("OK", targets_->complete().ToString());
  }
  void create() { create(group()); }
  Status open(const std::string& name) {
    auto made = targets(name);
    bool found = false;
    BONSAI_RETURN_IF_ERROR((*made)[0].exists(true, &found));
    if (!found) return Status::NotFound(name);
    BONSAI_RETURN_IF_ERROR((*made)[0].open(0));
    use(std::move(made));
    return Status::OK();
  }
  Status open() { return open(group()); }
  void close() {
    volume_.reset();
    targets_.reset();
  }
  bool write(uint64_t offset, uint64_t word) {
    volume_->nt_copy(Addr(0, offset), &word, sizeof word, kWitnessSite);
    return volume_->fence(kWitnessSite);
  }
  uint64_t read(uint64_t offset) {
    ReadBatch reads(*volume_);
    const std::byte* const found = reads.issue(Addr(0, offset), sizeof(uint64_t));
    EXPECT_EQ("OK", reads.wait().ToString());
    uint64_t word = 0;
    std::memcpy(&word, found, sizeof word);
    return word;
  }
  VersionedPage page_of(size_t node) const { return nodes_.page_of(node, "p"); }
  GroupInfo info() { return targets_->groups().at(0); }
  // A read is proved by grants that were requested after it.
  Status lease() { return targets_->leases()->await(20'000); }
  std::string take_notes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(notes_, "");
  }
  bool says(const std::string& text) {
    std::string notes;
    return comes([&] { return (notes += take_notes()).find(text) != std::string::npos; });
  }
  template <class Condition>
  static bool comes(Condition condition) {
    for (base::BoundedWait wait("test.comes", 120'000); !condition(); wait.pause()) {
      if (wait.expired()) return false;
    }
    return true;
  }
  bool witness_is(MemberState state) {
    return comes([&] { return info().witness->state == state; });
  }
  bool member_is(size_t member, MemberState state) {
    return comes([&] { return info().members[member].state == state; });
  }

  ServingNodes nodes_{"witnesses", 3};
  std::mutex mutex_;
  std::string notes_;
  std::unique_ptr<Targets> targets_;
  std::unique_ptr<Volume> volume_;
};

TEST_F(WitnessTest, ItKeepsPagesAndNoBytes) {
  create();
  const rdma::Traffic before = targets_->traffic();
  constexpr uint64_t kUpdates = 20;
  for (uint64_t i = 1; i <= kUpdates; ++i) ASSERT_TRUE(write(kCarried + 512 * i, i));
  const rdma::Traffic sent = targets_->traffic() - before;
  EXPECT_EQ(sent.round_trips, kUpdates);
  EXPECT_EQ(sent.messages(), 2 * 2 * kUpdates) << "those of two members";
  EXPECT_EQ(nodes_.bytes_of(2, "p"), std::string(kWitnessBytes, '\0'));
  for (size_t node = 0; node < 3; ++node) {
    const GroupPage page = page_of(node).page;
    EXPECT_EQ(page.members, 2);
    EXPECT_EQ(page.witness, 1);
    EXPECT_EQ(page.needed, 1);
    EXPECT_EQ(page.self, node);
    EXPECT_EQ(page.in_sync, 0b11);
  }
  EXPECT_EQ(info().witness->name, nodes_.name(2, "p"));
  EXPECT_EQ(info().witness->state, MemberState::kInSync);
  close();
  EXPECT_EQ(nodes_.bytes_of(0, "p"), nodes_.bytes_of(1, "p"));
  EXPECT_EQ(page_of(2).page.equal, 1);
  ASSERT_EQ("OK", open().ToString());
  EXPECT_EQ(read(kCarried + 512), 1U);
  volume_.reset();
  ASSERT_EQ("OK", (*targets_)[0].remove().ToString());
  for (size_t node = 0; node < 3; ++node) EXPECT_FALSE(std::filesystem::exists(nodes_.file(node, "p")));
}

// Its process ends, or is stopped.
TEST_F(WitnessTest, AnyOneOfTheThreeMayBeLostWhileTheStoreServes) {
  create();
  uint64_t word = 1;
  for (const bool stops : {false, true}) {
    for (size_t lost = 0; lost < 3; ++lost) {
      SCOPED_TRACE(std::to_string(lost) + (stops ? " stops" : " ends"));
      stops ? nodes_[lost].pause(true) : nodes_[lost].end();
      for (uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(write(kCarried + 8 * i, word + i)) << volume_->health().ToString();
      EXPECT_EQ(read(kCarried + 8), word + 1);
      EXPECT_EQ("OK", lease().ToString());
      if (lost == 2) {
        EXPECT_TRUE(witness_is(MemberState::kOut));
        EXPECT_TRUE(says("no member can be left out until it is back"));
      } else {
        EXPECT_EQ(page_of(2).page.in_sync, 0b11 & ~(1 << lost)) << "the witness knows who goes on";
      }
      stops ? nodes_[lost].pause(false) : nodes_[lost].start();
      ASSERT_TRUE(lost == 2 ? witness_is(MemberState::kInSync) : member_is(lost, MemberState::kInSync));
      EXPECT_EQ(page_of(2).page.in_sync, 0b11);
      word += 100;
    }
  }
  close();
  EXPECT_EQ(nodes_.bytes_of(0, "p"), nodes_.bytes_of(1, "p"));
  EXPECT_EQ(nodes_.bytes_of(2, "p"), std::string(kWitnessBytes, '\0'));
}

TEST_F(WitnessTest, AnyTwoOfTheThreeOpenAndOneAloneDoesNot) {
  create();
  close();
  for (size_t lost = 0; lost < 3; ++lost) {
    SCOPED_TRACE(lost);
    nodes_[lost].end();
    ASSERT_EQ("OK", open().ToString());
    EXPECT_EQ(read(64), lost == 0 ? 0 : 4 + lost);
    ASSERT_TRUE(write(64, 5 + lost));
    close();
    const size_t second = (lost + 1) % 3;
    nodes_[second].end();
    const Status status = open();
    EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
    EXPECT_NE(status.message().find("2 of the 3 that decide"), std::string_view::npos) << status.ToString();
    EXPECT_NE(status.message().find(nodes_.name(second, "p")), std::string_view::npos) << status.ToString();
    nodes_[lost].start();
    nodes_[second].start();
    ASSERT_EQ("OK", open().ToString());
    EXPECT_EQ(read(64), 5 + lost);
    close();
  }
}

// The witness says that the other member went on without it.
TEST_F(WitnessTest, AMemberThatWasLeftOutDoesNotOpenWithTheWitness) {
  create();
  nodes_[1].end();
  ASSERT_TRUE(write(64, 7));
  close();
  nodes_[0].end();
  nodes_[1].start();
  const Status status = open();
  EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
  EXPECT_NE(status.message().find("1 of the 1"), std::string_view::npos) << status.ToString();
  EXPECT_NE(status.message().find(nodes_.name(0, "p")), std::string_view::npos) << status.ToString();
  nodes_[0].start();
  ASSERT_EQ("OK", open().ToString());
  EXPECT_EQ(read(64), 7U);
}

// Nobody can vouch for the one that is left: updates wait, and go on with either.
TEST_F(WitnessTest, WithoutTheWitnessAMemberIsNotLeftOut) {
  create();
  for (const size_t back : {size_t{2}, size_t{1}}) {
    SCOPED_TRACE(back);
    nodes_[2].end();
    ASSERT_TRUE(witness_is(MemberState::kOut));
    nodes_[1].end();
    std::atomic<bool> done{false};
    base::Thread writer("writer", [&] {
      EXPECT_TRUE(write(64, back));
      done.store(true);
    });
    base::sleep_ms(3 * kLateMs);
    EXPECT_FALSE(done.load());
    nodes_[back].start();
    writer.join();
    EXPECT_TRUE(back == 1 || page_of(2).page.in_sync == 0b01);
    take_notes();
    nodes_[3 - back].start();
    ASSERT_TRUE(witness_is(MemberState::kInSync) && member_is(1, MemberState::kInSync));
    const bool was_left_out = take_notes().find(nodes_.name(1, "p") + " is back") != std::string::npos;
    EXPECT_EQ(was_left_out, back == 2) << "one that is back in time is copied to";
  }
}

// Its disk is lost while the store serves, and while it is closed.
TEST_F(WitnessTest, ALostWitnessIsMadeAnew) {
  create();
  nodes_[2].end();
  nodes_.lose(2, "p");
  nodes_[2].start();
  ASSERT_TRUE(witness_is(MemberState::kOut) || witness_is(MemberState::kInSync));
  ASSERT_TRUE(witness_is(MemberState::kInSync));
  EXPECT_EQ(page_of(2).page.ids, page_of(0).page.ids);
  nodes_[0].end();
  ASSERT_TRUE(write(64, 7)) << "it counts";
  close();
  ASSERT_EQ("OK", open().ToString()) << "the other member, and the new witness";
  EXPECT_EQ(read(64), 7U);
  close();
  nodes_[0].start();
  ASSERT_EQ("OK", open().ToString());
  close();
  nodes_[2].end();
  nodes_.lose(2, "p");
  nodes_[2].start();
  ASSERT_EQ("OK", open().ToString());
  EXPECT_NE(take_notes().find("made anew"), std::string::npos);
  EXPECT_EQ(page_of(2).page.in_sync, 0b11);
}

// It was away at the opening.
TEST_F(WitnessTest, AWitnessThatWasAwayJoins) {
  create();
  close();
  nodes_[2].end();
  ASSERT_EQ("OK", open().ToString());
  EXPECT_NE(take_notes().find(nodes_.name(2, "p") + ", the witness, is away"), std::string::npos);
  EXPECT_EQ(info().witness->state, MemberState::kOut);
  ASSERT_TRUE(write(64, 7));
  EXPECT_EQ("OK", lease().ToString());
  nodes_[2].start();
  ASSERT_TRUE(witness_is(MemberState::kInSync));
  nodes_[0].end();
  ASSERT_TRUE(write(64, 8));
  EXPECT_EQ("OK", lease().ToString()) << "its grant counts";
  EXPECT_EQ(page_of(2).page.in_sync, 0b10);
}

TEST_F(WitnessTest, WhatIsNotTheGroupIsRefusedAndNothingChanges) {
  create();
  close();
  create(members("q"));
  close();
  const VersionedPage before = page_of(0);
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {members(), "a witness; name it, too"},
      {members("q") + "?witness=" + nodes_.name(2, "p"), "without a witness; name none"},
      {nodes_.name(0, "p") + "|" + nodes_.name(2, "p") + "?witness=" + nodes_.name(1, "p"),
       "the witness of a group of 2"},
      {members() + "?witness=" + nodes_.name(2, "other"), "?replace=3"},
      {group() + "&replicas_min=2", "replicas_min=1"}};
  for (const auto& [name, says] : wrong) {
    const Status status = open(name);
    EXPECT_TRUE(status.IsInvalidArgument()) << name << ": " << status.ToString();
    EXPECT_NE(status.message().find(says), std::string_view::npos) << status.ToString();
  }
  EXPECT_EQ(page_of(0), before);
  EXPECT_EQ("OK", open(members() + "?replace=3&witness=" + nodes_.name(2, "other")).ToString());
  close();
  ASSERT_EQ("OK", open().ToString()) << "two members are a majority";
  EXPECT_NE(take_notes().find(nodes_.name(2, "p") + " was replaced as a member by another pool"), std::string::npos);
}

// The witness is the last to get its name.
TEST_F(WitnessTest, ACreationThatWasInterruptedLeavesNothing) {
  auto made = targets(group());
  ASSERT_EQ("OK", (*made)[0].create(kWitnessedBytes).ToString());
  use(std::move(made));
  ASSERT_TRUE(write(0, 1));
  nodes_[2].end();
  EXPECT_FALSE(targets_->complete().ok());
  close();
  EXPECT_TRUE(std::filesystem::exists(nodes_.file(0, "p")));
  nodes_[2].start();
  EXPECT_TRUE(open().IsNotFound());
  EXPECT_FALSE(std::filesystem::exists(nodes_.file(0, "p")));
  create();
}

TEST_F(WitnessTest, AnOperatorSeesItByTheNodesRecords) {
  create();
  const auto look = [&](const std::string& name) {
    std::vector<GroupInfo> found;
    EXPECT_EQ("OK", (*targets(name))[0].look_at_group(&found).ToString());
    return found.at(0);
  };
  EXPECT_EQ(look(group()).witness->state, MemberState::kInSync);
  EXPECT_EQ(look(group()).witness->name, nodes_.name(2, "p"));
  EXPECT_EQ(look(members()).witness->name, "witness") << "a group that is named without it";
  close();
  nodes_[2].end();
  EXPECT_EQ(look(group()).witness->state, MemberState::kOut);
  EXPECT_NE(look(group()).witness->failure.find("no node answers"), std::string::npos);
  nodes_[2].start();
}

}  // namespace
}  // namespace bonsai::scale
