// SPDX-License-Identifier: Apache-2.0
// The whole store over a group of three members (shm, nodes of one process): the death of one amid load loses nothing
// that was acknowledged, and service goes on; any two open the store.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "bonsai/db.h"
#include "bonsai/groups.h"
#include "scale/testing/serving_nodes.h"

namespace bonsai::store {
namespace {

using testing::budget;

constexpr uint64_t kPoolBytes = uint64_t{8} << 20;
constexpr size_t kThreads = 3, kNodes = 3;

std::string key_of(size_t thread, uint64_t i) { return "key " + std::to_string(thread) + " " + std::to_string(i); }

class GroupStore : public ::testing::Test {
 protected:
  Status open(Durability durability = Durability::kDurable, const std::string& query = "") {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = kPoolBytes;
    options.durability = durability;
    options.fabric_wait_ms_max = 20'000;
    db_.reset();
    return DB::Open(options, nodes_.group("p") + query, &db_);
  }
  // Puts until each thread has done so many more.
  void put(uint64_t count) {
    base::for_each_on(kThreads, kThreads, [&](size_t thread) {
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t next = acknowledged_[thread].load();
        const Status status = db_->Put(key_of(thread, next), "value " + std::to_string(next));
        if (!status.ok()) {
          ADD_FAILURE() << status.ToString();
          return;
        }
        acknowledged_[thread].store(next + 1);
      }
    });
  }
  // All that was acknowledged is there.
  void expect_all() {
    std::string value;
    uint64_t lost = 0;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      for (uint64_t i = 0; i < acknowledged_[thread]; ++i) {
        const Status status = db_->Get(key_of(thread, i), &value);
        lost += status.ok() && value == "value " + std::to_string(i) ? 0 : 1;
        EXPECT_TRUE(status.ok()) << key_of(thread, i) << ": " << status.ToString();
      }
    }
    EXPECT_EQ(lost, 0U);
    testing::add_figure("acknowledged_lost", lost);
  }
  void expect_equal_and_sound() {
    db_.reset();
    for (size_t node = 0; node < kNodes; ++node) {
      EXPECT_TRUE(nodes_.bytes_of(0, "p") == nodes_.bytes_of(node, "p")) << node;
      CheckReport report;
      EXPECT_EQ("OK", Check(nodes_.file(node, "p"), &report).ToString());
      EXPECT_TRUE(report.ok());
    }
  }

  scale::ServingNodes nodes_{"group", kNodes};
  std::array<std::atomic<uint64_t>, kThreads> acknowledged_{};
  std::unique_ptr<DB> db_;
};

TEST_F(GroupStore, AMemberThatDiesUnderLoadLosesNothing) {
  ASSERT_EQ("OK", open().ToString());
  put(200);
  for (int round = 0; round < budget(1, 3, 30); ++round) {
    const size_t lost = static_cast<size_t>(round) % kNodes;
    base::Thread load("load", [this] { put(500); });
    base::sleep_ms(5);
    nodes_[lost].end();
    load.join();
    put(50);
    expect_all();
    // Without it, and then with it again.
    ASSERT_EQ("OK", open().ToString());
    expect_all();
    put(50);
    nodes_[lost].start();
    ASSERT_EQ("OK", open().ToString());
    expect_all();
  }
  expect_equal_and_sound();
}

// It gets what it has missed while the store is in use. Then it is as good as the others, also alone; and so is a fresh
// node in a lost one's place.
TEST_F(GroupStore, AMemberThatComesBackJoinsUnderLoad) {
  ASSERT_EQ("OK", open(Durability::kDurable, "?replicas_min=1").ToString());
  put(200);
  for (int round = 0; round < budget(1, 1, 20); ++round) {
    std::atomic<bool> over{false};
    base::Thread load("load", [&] {
      while (!over.load()) put(50);
    });
    nodes_[2].end();
    base::BoundedWait wait("test.out", 60'000);
    while (nodes_.page_of(0, "p").page.has(2) && !wait.expired()) wait.pause();
    nodes_[2].start();
    EXPECT_TRUE(nodes_.comes_in_sync(2, "p"));
    nodes_[0].end();
    nodes_[1].end();
    nodes_.lose(1, "p");
    over.store(true);
    load.join();
    put(20);
    expect_all();
    nodes_[0].start();
    nodes_[1].start();
    base::Thread more("load", [this] { put(200); });
    EXPECT_TRUE(nodes_.comes_in_sync(0, "p"));
    EXPECT_TRUE(nodes_.comes_in_sync(1, "p"));
    more.join();
    expect_all();
    ASSERT_EQ("OK", open().ToString());  // members that have joined are compared
    expect_all();
  }
  expect_equal_and_sound();
}

// A node that is stopped keeps its connections, and what was sent to it arrives when it goes on.
TEST_F(GroupStore, AMemberThatStopsIsReadFromNoMore) {
  ASSERT_EQ("OK", open(Durability::kBuffered).ToString());
  put(300);
  ASSERT_EQ("OK", db_->Drain().ToString());
  nodes_[1].pause(true);
  expect_all();
  put(100);
  ASSERT_EQ("OK", db_->Sync().ToString());
  nodes_[1].pause(false);
  expect_all();
  ASSERT_EQ("OK", open().ToString());
  expect_all();
  expect_equal_and_sound();
}

// Power fails on all nodes at once, or the owner ends without a word: members differ in what was not acknowledged.
TEST_F(GroupStore, AfterEveryNodesEndMembersAreMadeEqual) {
  ASSERT_EQ("OK", open().ToString());
  put(300);
  for (size_t node = 0; node < kNodes; ++node) nodes_[node].end();
  for (size_t node = 0; node < kNodes; ++node) nodes_[node].start();
  put(10);
  expect_all();
  ASSERT_EQ("OK", open().ToString());
  expect_all();
  ASSERT_EQ("OK", db_->Close().ToString());
  expect_equal_and_sound();
}

// The file of a member that was replaced since the group was closed does not pass for what its page says of it. Nothing
// of the others is overwritten, and without it they open.
TEST_F(GroupStore, AReplacedFileOfAMemberIsNoticed) {
  ASSERT_EQ("OK", open().ToString());
  put(50);
  db_.reset();
  const std::string older = nodes_.bytes_of(0, "p");
  ASSERT_EQ("OK", open().ToString());
  put(50);
  for (size_t node = 0; node < kNodes; ++node) {
    for (const std::string& bytes : {older, std::string(kPoolBytes, '\0')}) {
      db_.reset();
      const std::string right = nodes_.bytes_of(1 - node % 2, "p");
      std::ofstream(nodes_.file(node, "p"), std::ios::binary) << bytes;
      const Status refused = open();
      EXPECT_TRUE(refused.IsCorruption()) << refused.ToString();
      EXPECT_NE(refused.message().find("remove that file on its node"), std::string::npos) << refused.ToString();
      CheckReport report;
      EXPECT_TRUE(Check(nodes_.group("p"), &report).IsCorruption());
      EXPECT_EQ(nodes_.bytes_of(1 - node % 2, "p"), right);
      ASSERT_TRUE(std::filesystem::remove(nodes_.file(node, "p")));
      ASSERT_EQ("OK", open().ToString());
      expect_all();
    }
  }
  expect_equal_and_sound();
}

TEST_F(GroupStore, AnOperatorIsToldOfItsMembers) {
  ASSERT_EQ("OK", open().ToString());
  const std::vector<GroupInfo> groups = GetGroups(*db_);
  ASSERT_EQ(groups.size(), 1U);
  const std::string text = GroupText(groups[0]);
  EXPECT_NE(text.find(nodes_.group("p") + "\n  3 of 3 members in sync, 2 needed: 1 may be lost; epoch "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  in sync  " + nodes_.name(1, "p") + "\n"), std::string::npos) << text;
  std::vector<GroupInfo> looked;
  ASSERT_EQ("OK", GetGroups(nodes_.group("p"), &looked).ToString());
  ASSERT_EQ(looked.size(), 1U);
  EXPECT_EQ(looked[0].page, groups[0].page);
  EXPECT_TRUE(GetGroups("no query?role=none", &looked).IsInvalidArgument());
}

TEST(GroupTextTest, SaysHowManyMayBeLostAndWhyOthersAreMissing) {
  GroupInfo group{"a|b|c", 2, 1000, 7, 12, {{"a", MemberState::kInSync, 0, ""}, {"b", MemberState::kInSync, 0, ""}}};
  group.members.push_back({"c", MemberState::kJoining, 250, ""});
  EXPECT_EQ(GroupText(group),
            "a|b|c\n"
            "  2 of 3 members in sync, 2 needed: none may be lost; epoch 7, page 12\n"
            "  in sync  a\n"
            "  in sync  b\n"
            "  joining  c: 250 of 1000 bytes copied (25 %)\n");
  group.members[1] = {"b", MemberState::kAway, 0, "no node answers"};
  group.members[2] = {"c", MemberState::kOut, 0, ""};
  EXPECT_EQ(GroupText(group),
            "a|b|c\n"
            "  1 of 3 members in sync, 2 needed: too few; epoch 7, page 12\n"
            "  in sync  a\n"
            "  away     b: no node answers\n"
            "  out      c\n");
}

TEST(GroupTextTest, WithoutItsWitnessNoMemberMayBeLost) {
  GroupInfo group{"a|b", 1, 1000, 7, 12, {{"a", MemberState::kInSync, 0, ""}, {"b", MemberState::kInSync, 0, ""}}};
  group.witness = {"c", MemberState::kInSync, 0, ""};
  EXPECT_EQ(GroupText(group),
            "a|b\n"
            "  2 of 2 members in sync, 1 needed: 1 may be lost; epoch 7, page 12\n"
            "  in sync  a\n"
            "  in sync  b\n"
            "  in sync  witness c\n");
  group.witness = {"c", MemberState::kOut, 0, "no node answers"};
  const std::string text = GroupText(group);
  EXPECT_NE(text.find("none may be lost"), std::string::npos) << text;
  EXPECT_NE(text.find("  out      witness c: no node answers\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace bonsai::store
