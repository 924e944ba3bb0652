// SPDX-License-Identifier: Apache-2.0
// What operators see of a target of several members: by its owner, and by the nodes' records.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "base/units.h"
#include "scale/pool_owner.h"
#include "scale/target.h"
#include "scale/testing/serving_nodes.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kInfoBytes = uint64_t{1} << 20, kInfoMark = 0x4f464e49;
inline constexpr base::Site kInfoSite{"group_info_test.write"};

class GroupInfoTest : public ::testing::Test {
 protected:
  std::unique_ptr<Targets> targets(const std::string& name, uint64_t member_ms = 800) {
    TargetConfig config;
    config.mark = kInfoMark;
    config.first_bytes = 2 * base::kPageBytes;
    config.limit_ms = 20'000;
    config.member_ms = member_ms;
    config.note = [this](const std::string& text) {
      if (stops_joiner_.load() && text.find("and is brought up to date") != std::string::npos) nodes_[2].pause(true);
    };
    auto made = std::make_unique<Targets>(config);
    TargetName parsed;
    EXPECT_EQ("OK", parse_target_name(name, &parsed).ToString());
    EXPECT_EQ("OK", made->add(std::move(parsed)).ToString());
    return made;
  }
  void create() {
    targets_ = targets(nodes_.group("p"));
    ASSERT_EQ("OK", (*targets_)[0].create(kInfoBytes).ToString());
    volume_ = targets_->hooked_volume();
    ASSERT_TRUE(write()) << "it is whole";
    ASSERT_EQ("OK", targets_->complete().ToString());
  }
  bool write() {
    const uint64_t word = ++words_;
    volume_->nt_copy(Addr(0, 0), &word, sizeof word, kInfoSite);
    return volume_->fence(kInfoSite);
  }
  void close() {
    volume_.reset();
    targets_.reset();
  }
  GroupInfo owners_view() {
    const std::vector<GroupInfo> groups = targets_->groups();
    EXPECT_EQ(groups.size(), 1U);
    return groups.empty() ? GroupInfo() : groups[0];
  }
  std::vector<GroupInfo> look(const std::string& name) {
    std::vector<GroupInfo> found;
    EXPECT_EQ("OK", (*targets(name))[0].look_at_group(&found).ToString());
    return found;
  }
  static std::string states(const GroupInfo& info) {
    std::string all;
    for (const GroupMember& member : info.members) all += "IAJO"[static_cast<size_t>(member.state)];
    return all;
  }
  // Waits until the owner sees the third member so.
  bool comes_to_be(MemberState state) {
    for (base::BoundedWait wait("test.state", 60'000); !wait.expired(); wait.pause()) {
      if (owners_view().members.at(2).state == state) return true;
    }
    return false;
  }

  ServingNodes nodes_{"infos", 3};
  std::atomic<bool> stops_joiner_{false};
  uint64_t words_ = 0;
  std::unique_ptr<Targets> targets_;
  std::unique_ptr<Volume> volume_;
};

TEST_F(GroupInfoTest, TheOwnerSeesAMemberFailAndJoin) {
  create();
  GroupInfo info = owners_view();
  EXPECT_EQ(info.name, nodes_.group("p"));
  EXPECT_EQ(info.needed, 2U);
  EXPECT_EQ(info.bytes, kInfoBytes);
  EXPECT_EQ(info.epoch, nodes_.page_of(0, "p").written_by);
  EXPECT_EQ(info.page, nodes_.page_of(0, "p").version);
  EXPECT_EQ(states(info), "III");
  EXPECT_EQ(info.members[1].name, nodes_.name(1, "p"));
  EXPECT_EQ(info.members[1].failure, "");

  const uint64_t before = info.page;
  nodes_[2].end();
  ASSERT_TRUE(write());
  info = owners_view();
  EXPECT_EQ(states(info), "IIO");
  EXPECT_NE(info.members[2].failure, "");
  EXPECT_EQ(info.members[0].failure, "");
  EXPECT_GT(info.page, before);
  EXPECT_EQ(info.page, nodes_.page_of(0, "p").version);

  stops_joiner_.store(true);  // its node, while its bytes are copied: it is joining until that is noticed
  nodes_[2].start();
  ASSERT_TRUE(comes_to_be(MemberState::kJoining));
  ASSERT_TRUE(comes_to_be(MemberState::kOut));
  ASSERT_TRUE(write());
  stops_joiner_.store(false);
  nodes_[2].pause(false);
  ASSERT_TRUE(comes_to_be(MemberState::kInSync));
  info = owners_view();
  EXPECT_EQ(states(info), "III");
  EXPECT_EQ(info.members[2].failure, "");
}

// Whoever owns it, and with no effect.
TEST_F(GroupInfoTest, TheNodesRecordsAreLookedAt) {
  create();
  for (const bool is_open : {true, false}) {
    if (!is_open) close();
    const std::vector<GroupInfo> found = look(nodes_.group("p"));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].name, nodes_.group("p"));
    EXPECT_EQ(states(found[0]), "III");
    EXPECT_EQ(found[0].needed, 2U);
    EXPECT_EQ(found[0].page, nodes_.page_of(0, "p").version);
    EXPECT_EQ(found[0].members[2].name, nodes_.name(2, "p"));
  }
  EXPECT_EQ(nodes_.page_of(0, "p").page.equal, 1) << "it is closed as before";

  nodes_[2].end();
  GroupInfo info = look(nodes_.group("p")).at(0);
  EXPECT_EQ(states(info), "IIA");
  EXPECT_NE(info.members[2].failure.find("no node answers"), std::string::npos) << info.members[2].failure;

  targets_ = targets(nodes_.group("p"));
  ASSERT_EQ("OK", (*targets_)[0].open(0).ToString());
  EXPECT_EQ(states(owners_view()), "IIO");
  EXPECT_NE(owners_view().members[2].failure.find("no node answers"), std::string::npos);
  close();
  nodes_[2].start();
  info = look(nodes_.group("p")).at(0);
  EXPECT_EQ(states(info), "IIO") << "its own page is older";
  EXPECT_EQ(info.members[2].failure, "");

  nodes_[1].end();
  nodes_.lose(1, "p");
  nodes_[1].start();
  info = look(nodes_.group("p")).at(0);
  EXPECT_EQ(states(info), "IAO");
  EXPECT_NE(info.members[1].failure.find("has no pool p"), std::string::npos) << info.members[1].failure;
}

TEST_F(GroupInfoTest, OneMemberSaysWhatItKnows) {
  create();
  close();
  for (const std::string& name : {nodes_.name(1, "p"), nodes_.file(1, "p")}) {
    const std::vector<GroupInfo> found = look(name);
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_EQ(found[0].name, name);
    EXPECT_EQ(states(found[0]), "III");
    EXPECT_EQ(found[0].members[2].name, "member 3");
  }
  EXPECT_TRUE(look(nodes_.name(1, "none")).empty());
  EXPECT_TRUE(look(nodes_.file(1, "none")).empty());
  EXPECT_TRUE(look(nodes_.group("none")).empty());
  std::vector<GroupInfo> found;
  EXPECT_TRUE((*targets("infos://x/p|infos://y/p", 100))[0].look_at_group(&found).IsUnavailable());
  EXPECT_TRUE(found.empty());
}

}  // namespace
}  // namespace bonsai::scale
