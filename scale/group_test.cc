// SPDX-License-Identifier: Apache-2.0
// Targets of several members over shm, nodes of one process: what is fenced is on all members in sync, the loss of some
// of them stops nothing, and what is opened has everything that was acknowledged.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "base/units.h"
#include "scale/group_page.h"
#include "scale/pool_owner.h"
#include "scale/pool_requests.h"
#include "scale/read_batch.h"
#include "scale/target.h"
#include "scale/testing/serving_nodes.h"

namespace bonsai::scale {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kGroupBytes = uint64_t{1} << 20, kResidentBytes = 8 << 10;
constexpr uint64_t kGroupMark = 0x4b52414d;
constexpr uint64_t kMemberMs = 800;
constexpr uint64_t kNeverLateMs = 60'000;                            // on a machine that is busy, too
constexpr uint64_t kLeaseMs = kOwnerLeaseNs / base::kNsPerMs + 100;  // after which none is valid
inline constexpr base::Site kGroupSite{"group_test.write"};

TEST(WrittenBlocksTest, WhatIsPostedToTheWindowIsRemembered) {
  using Blocks = WrittenBlocks;
  constexpr uint64_t kWindow = Blocks::kWindowBytes, kBlock = Blocks::kBlockBytes;
  EXPECT_EQ(Blocks::blocks_of(0, 0, 1), 0b1U);
  EXPECT_EQ(Blocks::blocks_of(0, kBlock - 1, 2), 0b11U);
  EXPECT_EQ(Blocks::blocks_of(kWindow, 0, kWindow), 0U);
  EXPECT_EQ(Blocks::blocks_of(kWindow, 0, kWindow + 1), 0b1U);
  EXPECT_EQ(Blocks::blocks_of(kWindow, 0, 100 * kWindow), ~uint64_t{0});
  EXPECT_EQ(Blocks::blocks_of(kWindow, 2 * kWindow - 1, 8), uint64_t{1} << 63);
  EXPECT_EQ(Blocks::blocks_of(kWindow, 2 * kWindow, 8), 0U);
  Blocks blocks;
  blocks.watch(kWindow);
  blocks.add(kWindow - 8, 8);
  blocks.add(2 * kWindow, 8);
  EXPECT_FALSE(blocks.has(kWindow, kWindow));
  blocks.add(kWindow + 3 * kBlock, 8);
  EXPECT_TRUE(blocks.has(kWindow + 2 * kBlock, 2 * kBlock));
  EXPECT_FALSE(blocks.has(kWindow + 2 * kBlock, kBlock));
  blocks.watch(kWindow);
  EXPECT_FALSE(blocks.has(kWindow, kWindow));
}

class GroupTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kCarriedAt = kGroupBytes / 2;

  TargetConfig config() {
    TargetConfig config;
    config.mark = kGroupMark;
    config.first_bytes = 2 * base::kPageBytes;
    config.limit_ms = 20'000;
    config.member_ms = member_ms_;
    config.note = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      notes_ += text + "\n";
    };
    return config;
  }
  std::unique_ptr<Targets> targets(const std::string& names) {
    auto made = std::make_unique<Targets>(config());
    std::vector<TargetName> parsed;
    EXPECT_EQ("OK", parse_target_names(names, &parsed).ToString());
    for (TargetName& name : parsed) EXPECT_EQ("OK", made->add(std::move(name)).ToString());
    return made;
  }
  // Opens the volume of a target that was created or opened.
  void use(std::unique_ptr<Targets> made) {
    targets_ = std::move(made);
    volume_ = targets_->hooked_volume();
    ASSERT_EQ("OK", volume_->fetch(Addr(0, 0), kResidentBytes).ToString());
  }
  void create(const std::string& query = "") {
    auto made = targets(nodes_.group("p") + query);
    bool found = true;
    ASSERT_EQ("OK", (*made)[0].exists(true, &found).ToString());
    ASSERT_FALSE(found);
    ASSERT_EQ("OK", (*made)[0].create(kGroupBytes).ToString());
    use(std::move(made));
    ASSERT_TRUE(write(0, 1)) << "it is whole";
    ASSERT_EQ("OK", targets_->complete().ToString());
  }
  Status open(const std::string& names) {
    auto made = targets(names);
    bool found = false;
    BONSAI_RETURN_IF_ERROR((*made)[0].exists(true, &found));
    EXPECT_TRUE(found);
    BONSAI_RETURN_IF_ERROR((*made)[0].open(0));
    use(std::move(made));
    return Status::OK();
  }
  Status open() { return open(nodes_.group("p")); }
  void close() {
    volume_.reset();
    targets_.reset();
  }
  bool write(uint64_t offset, uint64_t word) {
    volume_->nt_copy(Addr(0, offset), &word, sizeof word, kGroupSite);
    return volume_->fence(kGroupSite);
  }
  uint64_t read(uint64_t offset) {
    ReadBatch reads(*volume_);
    const std::byte* const found = reads.issue(Addr(0, offset), sizeof(uint64_t));
    EXPECT_EQ("OK", reads.wait().ToString());
    uint64_t word = 0;
    std::memcpy(&word, found, sizeof word);
    return word;
  }
  uint64_t word_of(size_t node, uint64_t offset) const {
    std::ifstream file(nodes_.file(node, "p"), std::ios::binary);
    uint64_t word = ~uint64_t{0};
    std::array<char, sizeof word> bytes{};
    if (file.seekg(static_cast<std::streamoff>(offset)).read(bytes.data(), bytes.size())) {
      std::memcpy(&word, bytes.data(), sizeof word);
    }
    return word;
  }
  VersionedPage page_of(size_t node) const { return nodes_.page_of(node, "p"); }
  // All notes until one says that.
  std::string await_note(const std::string& text) {
    std::string notes = take_notes();
    for (base::BoundedWait wait("test.note", 120'000); notes.find(text) == std::string::npos && !wait.expired();
         wait.pause()) {
      notes += take_notes();
    }
    EXPECT_NE(notes.find(text), std::string::npos) << notes;
    return notes;
  }
  std::string take_notes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(notes_, "");
  }

  ServingNodes nodes_{"groups", 3};
  uint64_t member_ms_ = kMemberMs;
  std::mutex mutex_;
  std::string notes_;
  std::unique_ptr<Targets> targets_;
  std::unique_ptr<Volume> volume_;
};

TEST_F(GroupTest, WhatIsFencedIsOnAllMembers) {
  member_ms_ = kNeverLateMs;
  create();
  for (uint64_t i = 1; i <= 50; ++i) {
    ASSERT_TRUE(write(8 * i, i));                     // resident
    ASSERT_TRUE(write(kCarriedAt + 512 * i, 2 * i));  // carried
    for (size_t node = 0; node < 3; ++node) {
      EXPECT_EQ(word_of(node, 8 * i), i);
      EXPECT_EQ(word_of(node, kCarriedAt + 512 * i), 2 * i);
    }
    EXPECT_EQ(read(kCarriedAt + 512 * i), 2 * i);
  }
  close();
  EXPECT_EQ(nodes_.bytes_of(0, "p"), nodes_.bytes_of(1, "p"));
  EXPECT_EQ(nodes_.bytes_of(0, "p"), nodes_.bytes_of(2, "p"));
  for (size_t node = 0; node < 3; ++node) {
    const GroupPage page = page_of(node).page;
    EXPECT_EQ(page.members, 3);
    EXPECT_EQ(page.needed, 2) << "more than half";
    EXPECT_EQ(page.self, node);
    EXPECT_EQ(page.in_sync, 0b111);
    EXPECT_EQ(page.equal, 1) << "closed with nothing outstanding";
  }
  EXPECT_EQ(page_of(0).version, page_of(2).version);
  const uint64_t before = page_of(0).written_by;
  ASSERT_EQ("OK", open().ToString());
  EXPECT_EQ(page_of(1).page.equal, 0) << "in use";
  EXPECT_GT(page_of(1).written_by, before);
  EXPECT_EQ(read(8 * 50), 50U);
  EXPECT_EQ("", take_notes());
}

// One round trip, whatever the number of members; two messages for each, and each has all the bytes.
TEST_F(GroupTest, AnUpdateTravelsOnceToEachMember) {
  member_ms_ = kNeverLateMs;
  const std::string a = nodes_.name(0, "r1"), pair = nodes_.name(0, "r2") + "|" + nodes_.name(1, "r2");
  const std::vector<std::pair<uint64_t, std::string>> all = {{1, a}, {2, pair}, {3, nodes_.group("r3")}};
  for (const auto& [replicas, names] : all) {
    auto made = targets(names);
    ASSERT_EQ("OK", (*made)[0].create(kGroupBytes).ToString());
    use(std::move(made));
    ASSERT_TRUE(write(64, 1));
    const rdma::Traffic before = targets_->traffic();
    constexpr uint64_t kUpdates = 20;
    for (uint64_t i = 0; i < kUpdates; ++i) ASSERT_TRUE(write(64 + 8 * i, i));
    const rdma::Traffic sent = targets_->traffic() - before;
    EXPECT_EQ(sent.round_trips, kUpdates) << replicas;
    EXPECT_EQ(sent.of(rdma::Verb::kWrite).messages, replicas * kUpdates);
    EXPECT_EQ(sent.of(rdma::Verb::kWrite).bytes, replicas * kUpdates * 8);
    EXPECT_EQ(sent.of(rdma::Verb::kSend).messages, replicas * kUpdates);
    EXPECT_EQ(sent.messages(), 2 * replicas * kUpdates);
    volume_.reset();
    ASSERT_EQ("OK", (*targets_)[0].remove().ToString());
    close();
  }
}

// Its connections are gone at once; its answers are missing when it is stopped.
TEST_F(GroupTest, AMemberThatFailsIsLeftOutAndTheOthersGoOn) {
  uint64_t rounds = 0;
  for (const bool stopped : {false, true}) {
    for (size_t lost = 0; lost < testing::budget<size_t>(1, 1, 3); ++lost) {
      SCOPED_TRACE(lost);
      if (targets_ == nullptr && !fs::exists(nodes_.file(0, "p"))) create();
      if (targets_ == nullptr) {
        ASSERT_EQ("OK", open().ToString());
      }
      take_notes();
      const uint64_t base = 1000 * ++rounds;
      ASSERT_TRUE(write(kCarriedAt, base));
      stopped ? nodes_[lost].pause(true) : nodes_[lost].end();
      for (uint64_t i = 1; i <= 20; ++i) {
        ASSERT_TRUE(write(64, base + i)) << volume_->health().ToString();
        ASSERT_TRUE(write(kCarriedAt + 8 * i, base + i));
      }
      const size_t other = (lost + 1) % 3, third = (lost + 2) % 3;
      const uint8_t left = 0b111 & ~(1u << lost);
      for (const size_t node : {other, third}) {
        EXPECT_EQ(word_of(node, 64), base + 20);
        EXPECT_EQ(page_of(node).page.in_sync, left);
      }
      EXPECT_EQ(page_of(lost).page.in_sync, 0b111) << "it knows nothing of that";
      for (uint64_t i = 0; i <= 20; ++i) EXPECT_EQ(read(kCarriedAt + 8 * i), base + i);
      EXPECT_EQ("OK", targets_->leases()->await(10'000).ToString());
      EXPECT_NE(take_notes().find(nodes_.name(lost, "p")), std::string::npos);
      stopped ? nodes_[lost].pause(false) : nodes_[lost].start();
      uint64_t i = 0;
      ASSERT_TRUE(nodes_.comes_in_sync(lost, "p", [&] { EXPECT_TRUE(write(72 + 8 * (++i % 50), base)); }));
      EXPECT_NE(await_note("is up to date").find(nodes_.name(lost, "p")), std::string::npos);
      EXPECT_EQ(word_of(lost, 64), base + 20);
      EXPECT_EQ(word_of(lost, kCarriedAt + 8), base + 1);
      ASSERT_TRUE(write(64, base + 22));
      EXPECT_EQ(word_of(lost, 64), base + 22) << "it gets updates again";
      EXPECT_EQ(page_of(third).page.in_sync, 0b111);
      close();
      EXPECT_EQ(page_of(lost).page.equal, 0) << "it may have got what the others do not have";
      EXPECT_EQ(nodes_.bytes_of(lost, "p"), nodes_.bytes_of(other, "p"));
      EXPECT_EQ(nodes_.bytes_of(lost, "p"), nodes_.bytes_of(third, "p"));
    }
  }
}

TEST_F(GroupTest, AnyTwoOfThreeOpenAndOneAloneDoesNot) {
  create();
  ASSERT_TRUE(write(64, 5));
  close();
  for (size_t lost = 0; lost < testing::budget<size_t>(2, 2, 3); ++lost) {
    nodes_[lost].end();
    ASSERT_EQ("OK", open().ToString());
    EXPECT_NE(take_notes().find("left out"), std::string::npos);
    EXPECT_EQ(read(64), 5 + lost);
    ASSERT_TRUE(write(64, 6 + lost));
    close();
    // Those that went on know more than the one that was away.
    const size_t second = (lost + 1) % 3, third = (lost + 2) % 3;
    nodes_[second].end();
    nodes_[lost].start();
    const Status status = open();
    EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
    EXPECT_NE(status.message().find(nodes_.name(second, "p")), std::string_view::npos) << status.ToString();
    EXPECT_NE(status.message().find("2 of the 2"), std::string_view::npos) << status.ToString();
    EXPECT_EQ(word_of(third, 64), 6 + lost) << "nothing was changed";
    nodes_[second].start();
    ASSERT_EQ("OK", open().ToString());
    EXPECT_EQ(read(64), 6 + lost);
    close();
    EXPECT_EQ(word_of(lost, 64), 6 + lost);
  }
  nodes_[0].end();
  nodes_[1].end();
  EXPECT_TRUE(open().IsUnavailable());
  nodes_[0].start();
  nodes_[1].start();
}

TEST_F(GroupTest, WithoutEnoughMembersUpdatesWaitForThem) {
  create("?replicas_min=3");
  ASSERT_TRUE(write(64, 5));
  nodes_[1].end();
  std::atomic<bool> done{false};
  base::Thread writer("writer", [&] {
    EXPECT_TRUE(write(64, 6));
    done.store(true);
  });
  base::sleep_ms(3 * kMemberMs);
  EXPECT_FALSE(done.load());
  EXPECT_EQ(page_of(0).page.in_sync, 0b111);
  nodes_[1].start();
  writer.join();
  EXPECT_EQ(word_of(1, 64), 6U);
  EXPECT_EQ("", take_notes());
}

// A node that has lost its disk gets a new pool in its place, and the old one is not taken for it.
TEST_F(GroupTest, ALostMemberIsMadeAnew) {
  create();
  ASSERT_TRUE(write(kCarriedAt, 5));
  close();
  const std::string old = nodes_.file(1, "p") + ".old", record = nodes_.record(1, "p");
  fs::rename(nodes_.file(1, "p"), old);
  fs::rename(record, old + ".owner");
  ASSERT_EQ("OK", open().ToString());
  EXPECT_NE(take_notes().find("made anew"), std::string::npos);
  EXPECT_EQ(word_of(1, kCarriedAt), 5U);
  ASSERT_TRUE(write(kCarriedAt, 6));
  close();
  EXPECT_EQ(nodes_.bytes_of(0, "p"), nodes_.bytes_of(1, "p"));
  fs::rename(old, nodes_.file(1, "p"));
  fs::rename(old + ".owner", record);
  nodes_[1].end();  // it knows the record that it wrote
  nodes_[1].start();
  ASSERT_EQ("OK", open().ToString());
  EXPECT_NE(take_notes().find("was replaced"), std::string::npos);
  EXPECT_EQ(read(kCarriedAt), 6U);
}

// After an end without a word a member's file that was replaced is not what the others are made equal to.
TEST_F(GroupTest, AReplacedFileIsNoSource) {
  create();
  for (size_t replaced = 0; replaced < testing::budget<size_t>(2, 2, 3); ++replaced) {
    ASSERT_TRUE(write(64, 5 + replaced) && write(kCarriedAt, 6 + replaced));
    for (size_t node = 0; node < 3; ++node) nodes_[node].end();
    close();
    const auto bytes = fs::file_size(nodes_.file(replaced, "p"));
    std::ofstream(nodes_.file(replaced, "p"), std::ios::binary) << std::string(bytes, '\0');
    for (size_t node = 0; node < 3; ++node) nodes_[node].start();
    ASSERT_EQ("OK", open().ToString());
    EXPECT_EQ(read(64), 5 + replaced);
    for (size_t node = 0; node < 3; ++node) EXPECT_EQ(word_of(node, kCarriedAt), 6 + replaced) << node;
  }
}

// After an end without a word damage of one member is not what the others are made equal to.
TEST_F(GroupTest, DamageOfOneMemberIsOutvoted) {
  create();
  for (size_t node = 0; node < 3; ++node) nodes_[node].end();
  close();
  for (size_t node = 0; node < 3; ++node) {
    std::fstream file(nodes_.file(node, "p"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(kCarriedAt + node * 64)).put('\7');
  }
  for (size_t node = 0; node < 3; ++node) nodes_[node].start();
  ASSERT_EQ("OK", open().ToString());
  EXPECT_NE(take_notes().find("got 64 bytes that more members hold"), std::string::npos);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(word_of(i / 3, kCarriedAt + i % 3 * 64), 0U) << i;
}

// It was away when the store was opened, so its pool is another owner's yet.
TEST_F(GroupTest, AMemberThatWasAwayAtTheOpeningJoins) {
  create();
  ASSERT_TRUE(write(kCarriedAt, 5));
  close();
  for (const size_t away : {0, 2}) {
    nodes_[away].end();
    ASSERT_EQ("OK", open().ToString());
    EXPECT_FALSE(page_of(1).page.has(away));
    ASSERT_TRUE(write(kCarriedAt, 6 + away));
    ASSERT_TRUE(write(64, 7 + away));
    nodes_[away].start();
    ASSERT_TRUE(nodes_.comes_in_sync(away, "p"));
    EXPECT_EQ(word_of(away, kCarriedAt), 6 + away);
    EXPECT_EQ(word_of(away, 64), 7 + away);
    // It is as good as the others: one of them may be lost now.
    nodes_[1].end();
    ASSERT_TRUE(write(64, 8 + away));
    EXPECT_EQ(word_of(away, 64), 8 + away);
    EXPECT_EQ(read(kCarriedAt), 6 + away);
    nodes_[1].start();
    ASSERT_TRUE(nodes_.comes_in_sync(1, "p"));
    close();
  }
  ASSERT_EQ("OK", open().ToString());
  EXPECT_EQ(read(64), 10U);
}

// A node that has lost its disk while the store serves; the old pool is not taken for the new one.
TEST_F(GroupTest, AFreshNodeTakesALostMembersPlace) {
  create();
  ASSERT_TRUE(write(kCarriedAt, 5));
  const std::string old = nodes_.file(1, "p") + ".old", record = nodes_.record(1, "p");
  const uint64_t id = page_of(0).page.ids[1];
  nodes_[1].end();
  fs::copy(nodes_.file(1, "p"), old);
  fs::copy(record, old + ".owner");
  nodes_.lose(1, "p");
  ASSERT_TRUE(write(kCarriedAt, 6));
  nodes_[1].start();
  ASSERT_TRUE(nodes_.comes_in_sync(1, "p"));
  await_note("made anew");
  EXPECT_EQ(word_of(1, kCarriedAt), 6U);
  EXPECT_NE(page_of(0).page.ids[1], id);
  EXPECT_EQ(page_of(0).page.ids, page_of(1).page.ids);
  ASSERT_TRUE(write(kCarriedAt, 7));

  nodes_[1].end();
  ASSERT_TRUE(write(kCarriedAt, 8)) << "it is out again";
  fs::rename(old, nodes_.file(1, "p"));
  fs::rename(old + ".owner", record);
  nodes_[1].start();
  await_note("it joins when the store is opened again");
  EXPECT_FALSE(page_of(0).page.has(1));
  close();
  ASSERT_EQ("OK", open().ToString());
  await_note("was replaced");
  EXPECT_EQ(read(kCarriedAt), 8U);
}

// All of them, on the member that joins as on the others, whatever the order in which they and the copies arrive.
TEST_F(GroupTest, WhatIsWrittenWhileAMemberJoinsIsThere) {
  create();
  constexpr size_t kWriters = 3, kWords = 200;
  constexpr uint64_t kBlankAt = 900 << 10, kBlankBytes = base::kPageBytes;
  nodes_[2].end();
  ASSERT_TRUE(write(64, 1));
  std::atomic<bool> over{false};
  std::atomic<uint64_t> written{0};
  std::vector<base::Thread> writers;
  for (size_t i = 0; i < kWriters; ++i) {
    writers.emplace_back("writer", [&, i] {
      for (uint64_t n = 1; !over.load(); ++n) {
        const uint64_t at = 8 * (i * kWords + n % kWords);
        EXPECT_TRUE(write(128 + at, n));
        EXPECT_TRUE(write(kCarriedAt + 512 * (i * kWords + n * 7 % kWords), n));
        const Addr shortly(0, kBlankAt + i * kBlankBytes);  // resident
        EXPECT_EQ("OK", volume_->open_blank(shortly, kBlankBytes).ToString());
        const std::vector<uint64_t> words(kBlankBytes / sizeof n, n);  // all of it: members may differ in the rest
        volume_->nt_copy(shortly, words.data(), kBlankBytes, kGroupSite);
        EXPECT_TRUE(volume_->fence(kGroupSite));
        volume_->close_blank(shortly, kBlankBytes);
        ++written;
      }
    });
  }
  for (int round = 0; round < testing::budget(2, 4, 40); ++round) {
    nodes_[2].start();
    EXPECT_TRUE(nodes_.comes_in_sync(2, "p"));
    const uint64_t so_far = written;
    for (base::BoundedWait wait("test.writers", 20'000); written < so_far + 100 && !wait.expired(); wait.pause()) {
    }
    nodes_[2].end();
    for (base::BoundedWait wait("test.out", 20'000); page_of(0).page.has(2) && !wait.expired(); wait.pause()) {
    }
  }
  nodes_[2].start();
  EXPECT_TRUE(nodes_.comes_in_sync(2, "p"));
  over = true;
  writers.clear();
  close();
  EXPECT_EQ(nodes_.bytes_of(0, "p"), nodes_.bytes_of(2, "p"));
  EXPECT_EQ(nodes_.bytes_of(0, "p"), nodes_.bytes_of(1, "p"));
}

TEST_F(GroupTest, WhatIsNotTheGroupIsRefusedAndNothingChanges) {
  create();
  close();
  const std::string a = nodes_.name(0, "p"), b = nodes_.name(1, "p"), c = nodes_.name(2, "p");
  {
    const auto other = targets(nodes_.name(0, "q") + "|" + nodes_.name(1, "q") + "," + nodes_.name(0, "alone"));
    for (const auto& target : *other) ASSERT_EQ("OK", target->create(kGroupBytes).ToString());
    const auto volume = other->hooked_volume();
    const uint64_t whole = 1;
    for (size_t i = 0; i < 2; ++i) volume->nt_copy(Addr(i, 0), &whole, sizeof whole, kGroupSite);
    ASSERT_TRUE(volume->fence(kGroupSite));
    ASSERT_EQ("OK", other->complete().ToString());
  }
  const std::string before = nodes_.bytes_of(0, "p");
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {a, "one of the 3 members"},
      {b + "|" + a + "|" + c, "name the members as when"},
      {a + "|" + b, "member 1 of a group of 3"},
      {a + "|" + b + "|" + c + "?replicas_min=1", "replicas_min=2"},
      {nodes_.name(0, "alone") + "|" + b + "|" + c, "no member of a group"},
      {a + "|" + nodes_.name(1, "q") + "|" + c, "group of 2"}};
  for (const auto& [names, says] : wrong) {
    const Status status = open(names);
    EXPECT_TRUE(status.IsInvalidArgument()) << names << ": " << status.ToString();
    EXPECT_NE(status.message().find(says), std::string_view::npos) << names << ": " << status.ToString();
    close();
  }
  const Status local = open(nodes_.file(0, "p"));
  EXPECT_TRUE(local.IsInvalidArgument()) << local.ToString();
  EXPECT_EQ(nodes_.bytes_of(0, "p"), before);
  ASSERT_EQ("OK", open().ToString());
}

// Some members have their names when the others' nodes fail.
TEST_F(GroupTest, ACreationThatWasInterruptedLeavesNothing) {
  auto made = targets(nodes_.group("p"));
  ASSERT_EQ("OK", (*made)[0].create(kGroupBytes).ToString());
  use(std::move(made));
  ASSERT_TRUE(write(0, 1));
  nodes_[1].end();
  EXPECT_FALSE(targets_->complete().ok());
  EXPECT_TRUE(fs::exists(nodes_.file(0, "p")));
  close();
  nodes_[1].start();
  const auto again = targets(nodes_.group("p"));
  bool found = true;
  EXPECT_TRUE((*again)[0].exists(/*discard_unfinished=*/false, &found).IsUnavailable());
  ASSERT_EQ("OK", (*again)[0].exists(/*discard_unfinished=*/true, &found).ToString());
  EXPECT_FALSE(found);
  EXPECT_FALSE(fs::exists(nodes_.file(0, "p")));
  EXPECT_EQ("OK", (*again)[0].create(kGroupBytes).ToString());
}

// For a look at one copy.
TEST_F(GroupTest, AMemberIsReadAloneAndAGroupFromOneMember) {
  create();
  ASSERT_TRUE(write(kCarriedAt, 5));
  close();
  for (const std::string& name : {nodes_.name(1, "p"), nodes_.group("p")}) {
    const auto read = targets(name);
    ASSERT_EQ("OK", read->open_read_only().ToString());
    volume_ = read->hooked_volume();
    EXPECT_EQ(this->read(kCarriedAt), 5U);
    EXPECT_EQ("OK", read->confirm_reads().ToString());
    volume_.reset();
  }
  EXPECT_EQ(page_of(0).page.equal, 1) << "nothing was written";
}

// One member's lease proves nothing: the others are enough for another owner.
TEST_F(GroupTest, WhatWasReadCountsWhileEnoughMembersGrantTheirLeases) {
  create();
  close();
  TargetConfig quick = config();
  quick.limit_ms = 500;
  Targets read(quick);
  TargetName name;
  ASSERT_EQ("OK", parse_target_name(nodes_.group("p"), &name).ToString());
  ASSERT_EQ("OK", read.add(name).ToString());
  ASSERT_EQ("OK", read.open_read_only().ToString());
  nodes_[0].end();
  base::sleep_ms(kLeaseMs);
  EXPECT_EQ("OK", read.confirm_reads().ToString());
  nodes_[1].end();
  base::sleep_ms(kLeaseMs);
  EXPECT_TRUE(read.confirm_reads().IsUnavailable());
}

TEST_F(GroupTest, AGroupGrowsAndIsRemovedAsAWhole) {
  create();
  close();
  nodes_[2].end();
  {
    const auto opened = targets(nodes_.group("p"));
    ASSERT_EQ("OK", (*opened)[0].open(2 * kGroupBytes).ToString());
    EXPECT_TRUE((*opened)[0].enlarged());
    EXPECT_EQ((*opened)[0].bytes(), 2 * kGroupBytes);
  }
  nodes_[2].start();
  {
    const auto opened = targets(nodes_.group("p"));
    ASSERT_EQ("OK", (*opened)[0].open(0).ToString());
    EXPECT_EQ(fs::file_size(nodes_.file(2, "p")), 2 * kGroupBytes) << "the one that was away, too";
    ASSERT_EQ("OK", (*opened)[0].remove().ToString());
  }
  for (size_t node = 0; node < 3; ++node) EXPECT_FALSE(fs::exists(nodes_.file(node, "p")));
}

// What is left of it on the node that was away says how to go on.
TEST_F(GroupTest, AGroupThatIsRemovedWithoutAMemberLeavesItsFile) {
  create();
  close();
  nodes_[2].end();
  {
    const auto opened = targets(nodes_.group("p"));
    ASSERT_EQ("OK", (*opened)[0].open(0).ToString());
    ASSERT_EQ("OK", (*opened)[0].remove().ToString());
  }
  nodes_[2].start();
  const Status status = open();
  EXPECT_TRUE(status.IsUnavailable());
  EXPECT_NE(status.message().find("remove its file on its node"), std::string_view::npos) << status.ToString();
  fs::remove(nodes_.file(2, "p"));
  bool found = true;
  EXPECT_EQ("OK", (*targets(nodes_.group("p")))[0].exists(false, &found).ToString());
  EXPECT_FALSE(found);
}

}  // namespace
}  // namespace bonsai::scale
