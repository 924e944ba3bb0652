// SPDX-License-Identifier: Apache-2.0
// What is not the group that was made, or cannot be: a clear error, and nothing is changed.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/nvm/media.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "base/units.h"
#include "scale/target.h"
#include "scale/testing/serving_nodes.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kRefusalBytes = uint64_t{1} << 20, kRefusalMark = 0x53554645;
inline constexpr base::Site kRefusalSite{"group_refusals_test.write"};

class GroupRefusals : public ::testing::Test {
 protected:
  std::unique_ptr<Targets> targets(const std::string& name) {
    TargetConfig config;
    config.mark = kRefusalMark;
    config.first_bytes = 2 * base::kPageBytes;
    config.limit_ms = 20'000;
    config.member_ms = 800;
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
  // A group that was closed, or whose nodes all end before it is.
  void create(const std::string& name, bool ends_in_order = true) {
    const auto made = targets(name);
    ASSERT_EQ("OK", (*made)[0].create(kRefusalBytes).ToString());
    const auto volume = made->hooked_volume();
    for (const uint64_t at : {uint64_t{0}, kRefusalBytes / 2}) {
      volume->nt_copy(Addr(0, at), &kWord, sizeof kWord, kRefusalSite);
    }
    ASSERT_TRUE(volume->fence(kRefusalSite));
    ASSERT_EQ("OK", made->complete().ToString());
    if (ends_in_order) return;
    for (size_t node = 0; node < 3; ++node) nodes_[node].end();
  }
  Status open(const std::string& name, std::unique_ptr<Targets>* opened = nullptr, uint64_t grow_bytes = 0) {
    auto made = targets(name);
    bool found = false;
    BONSAI_RETURN_IF_ERROR((*made)[0].exists(/*discard_unfinished=*/true, &found));
    EXPECT_TRUE(found);
    const Status status = (*made)[0].open(grow_bytes);
    if (opened != nullptr) *opened = std::move(made);
    return status;
  }
  // The bytes and pages of all members of p.
  struct State {
    std::array<std::string, 3> bytes;
    std::array<VersionedPage, 3> pages;
    bool operator==(const State&) const = default;
  };
  State state() {
    State all;
    for (size_t node = 0; node < 3; ++node) {
      all.bytes[node] = nodes_.bytes_of(node, "p");
      all.pages[node] = nodes_.page_of(node, "p");
    }
    return all;
  }
  void expect_refused(const Status& status, const std::string& says) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(says), std::string_view::npos) << status.ToString();
  }
  bool is_told(const std::string& text) {
    for (base::BoundedWait wait("test.note", 20'000); !wait.expired(); wait.pause()) {
      const std::lock_guard lock(mutex_);
      if (notes_.find(text) != std::string::npos) return true;
    }
    return false;
  }
  [[nodiscard]] std::string with_third(const std::string& pool) const {
    return nodes_.name(0, "p") + "|" + nodes_.name(1, "p") + "|" + nodes_.name(2, pool);
  }

  static constexpr uint64_t kWord = 0x6e6f73616273;
  std::atomic<bool> is_full_{false};
  ServingNodes nodes_{"refusals", 3, [this](const base::Mapping& mapping, base::Media* media) {
                        if (is_full_.load()) return Status::NoSpace("no space is left on the node's device");
                        return base::make_media(mapping, {}, media);
                      }};
  std::mutex mutex_;
  std::string notes_;
};

TEST_F(GroupRefusals, AMisspeltNameTakesNoMembersPlace) {
  create(nodes_.group("p"));
  const State before = state();
  const std::string typo = with_third("typo");
  for (const bool reads_only : {false, true}) {
    const Status status = reads_only ? (*targets(typo))[0].open_read_only() : open(typo);
    EXPECT_TRUE(status.IsInvalidArgument());
    expect_refused(status, "correct the name, or, if a new pool is to take that member's place there, add ?replace=3");
  }
  EXPECT_TRUE(state() == before);
  EXPECT_TRUE((*targets(typo + "?replace=2"))[0].open(0).IsInvalidArgument());
  EXPECT_FALSE(std::filesystem::exists(nodes_.file(2, "typo")));
  {
    // Nor when its node is back later.
    nodes_[2].end();
    std::unique_ptr<Targets> opened;
    ASSERT_EQ("OK", open(typo, &opened).ToString());
    nodes_[2].start();
    EXPECT_TRUE(is_told("add ?replace=3"));
    EXPECT_FALSE(std::filesystem::exists(nodes_.file(2, "typo")));
  }
  ASSERT_EQ("OK", open(typo + "?replace=3").ToString());
  EXPECT_TRUE(nodes_.bytes_of(2, "typo") == before.bytes[0]);
  nodes_[2].end();
  nodes_.lose(2, "typo");
  nodes_[2].start();
  EXPECT_EQ("OK", open(typo).ToString()) << "it was made under that name now";
}

TEST_F(GroupRefusals, AMemberOfAnotherGroupIsRefused) {
  create(nodes_.group("p"));
  create(nodes_.group("q"));
  const State before = state();
  const std::string other = nodes_.bytes_of(2, "q");
  expect_refused(open(with_third("q")), "is a member of another group than those before it");
  EXPECT_TRUE(state() == before);
  EXPECT_EQ(nodes_.bytes_of(2, "q"), other);
  EXPECT_EQ("OK", open(nodes_.group("p")).ToString());
  EXPECT_EQ("OK", open(nodes_.group("q")).ToString());
}

TEST_F(GroupRefusals, AFullMemberLeavesNothingBehind) {
  is_full_.store(true);
  const Status status = (*targets(nodes_.group("p")))[0].create(kRefusalBytes);
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  for (size_t node = 0; node < 3; ++node) EXPECT_FALSE(std::filesystem::exists(nodes_.file(node, "p")));
  is_full_.store(false);
  create(nodes_.group("p"));
  {
    std::unique_ptr<Targets> opened;
    ASSERT_EQ("OK", open(nodes_.group("p"), &opened).ToString());
    opened.reset();
    auto grown = targets(nodes_.group("p"));
    bool found = false;
    ASSERT_EQ("OK", (*grown)[0].exists(true, &found).ToString());
    is_full_.store(true);
    EXPECT_TRUE((*grown)[0].open(2 * kRefusalBytes).IsNoSpace());
    EXPECT_TRUE((*grown)[0].enlarged());
    is_full_.store(false);
    (*grown)[0].shrink_back();
  }
  // The file of the one that is full was enlarged before its medium was made.
  for (size_t node = 0; node < 2; ++node) EXPECT_EQ(std::filesystem::file_size(nodes_.file(node, "p")), kRefusalBytes);
  EXPECT_EQ("OK", open(nodes_.group("p")).ToString());
}

// One that is away while it is changed by hand.
TEST_F(GroupRefusals, AMemberOfAnotherSizeDoesNotJoin) {
  create(nodes_.group("p"));
  nodes_[2].end();
  std::unique_ptr<Targets> opened;
  ASSERT_EQ("OK", open(nodes_.group("p"), &opened).ToString());
  std::filesystem::resize_file(nodes_.file(2, "p"), 2 * kRefusalBytes);
  const std::string before = nodes_.bytes_of(2, "p");
  nodes_[2].start();
  EXPECT_TRUE(is_told("has " + std::to_string(2 * kRefusalBytes) + " bytes, and the others of its group "));
  EXPECT_FALSE(nodes_.page_of(0, "p").page.has(2));
  EXPECT_TRUE(nodes_.bytes_of(2, "p") == before);
}

TEST_F(GroupRefusals, ARecordOfAnotherVersionIsRefused) {
  create(nodes_.group("p"));
  const std::string record = nodes_.record(1, "p");
  const std::string right = testing::read_file(record);
  const State before = state();
  nodes_[1].end();
  std::string other = right;
  for (const size_t slot : {0, 4096}) other[slot] = static_cast<char>(other[slot] ^ 1);
  std::ofstream(record, std::ios::binary) << other;
  nodes_[1].start();
  expect_refused(open(nodes_.group("p")), nodes_.name(1, "p") + ": both copies of the owner's record are damaged, or ");
  EXPECT_EQ(testing::read_file(record), other);
  nodes_[1].end();
  std::ofstream(record, std::ios::binary) << right;
  nodes_[1].start();
  EXPECT_TRUE(state() == before);
  EXPECT_EQ("OK", open(nodes_.group("p")).ToString());
}

// After an end without a word, of two members that do not begin alike one may be what is left of the pool.
TEST_F(GroupRefusals, AFileThatIsNoPoolIsNotTakenForOneOfTwo) {
  const std::string pair = nodes_.name(0, "p") + "|" + nodes_.name(1, "p");
  create(pair, /*ends_in_order=*/false);
  const std::string right = nodes_.bytes_of(1, "p");
  std::ofstream(nodes_.file(0, "p"), std::ios::binary) << std::string(right.size(), '\0');
  for (size_t node = 0; node < 3; ++node) nodes_[node].start();
  const Status status = open(pair);
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
  expect_refused(status, "the file of one of them was replaced. Find out which, and remove that file on its node");
  EXPECT_TRUE(nodes_.bytes_of(1, "p") == right);
  // Other bytes may differ after a crash, and that is told.
  std::string torn = right;
  torn[5000] = 'x';
  std::ofstream(nodes_.file(0, "p"), std::ios::binary) << torn;
  EXPECT_EQ("OK", open(pair).ToString());
  EXPECT_TRUE(is_told("was made equal to " + nodes_.name(0, "p") + " after an end without a word: 4096 of "));
}

}  // namespace
}  // namespace bonsai::scale
