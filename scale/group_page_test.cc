// SPDX-License-Identifier: Apache-2.0
#include "scale/group_page.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace bonsai::scale {
namespace {

VersionedPage page_of(uint64_t written_by, uint64_t version) {
  GroupPage page;
  page.group = 7;
  page.ids = {11, 12, 13};
  page.members = 3;
  page.needed = 2;
  page.self = 1;
  page.in_sync = 0b011;
  return {page, written_by, version};
}

TEST(GroupPageTest, PagesThatMakeNoSenseAreFound) {
  ASSERT_TRUE(is_sound(page_of(1, 1).page));
  const std::vector<std::function<void(GroupPage*)>> faults = {
      [](GroupPage* page) { page->group = 0; },       [](GroupPage* page) { page->members = 1; },
      [](GroupPage* page) { page->members = 9; },     [](GroupPage* page) { page->self = 3; },
      [](GroupPage* page) { page->needed = 0; },      [](GroupPage* page) { page->needed = 4; },
      [](GroupPage* page) { page->needed = 3; },      [](GroupPage* page) { page->in_sync = 0b1011; },
      [](GroupPage* page) { page->in_sync = 0b100; }, [](GroupPage* page) { page->ids[2] = 0; },
      [](GroupPage* page) { page->ids[3] = 1; },      [](GroupPage* page) { page->equal = 2; },
      [](GroupPage* page) { page->zeros[1] = 1; }};
  for (size_t i = 0; i < faults.size(); ++i) {
    GroupPage page = page_of(1, 1).page;
    faults[i](&page);
    EXPECT_FALSE(is_sound(page)) << i;
    EXPECT_TRUE(may_follow({}, {page, 1, 1}).IsInvalidArgument()) << i;
  }
  EXPECT_TRUE(may_follow({}, page_of(1, uint64_t{1} << 49)).IsInvalidArgument()) << "near its end";
}

// Of two members, and that of their witness.
VersionedPage witnessed_page(uint8_t self) {
  VersionedPage made = page_of(3, 8);
  made.page.members = 2;
  made.page.witness = 1;
  made.page.needed = 1;
  made.page.self = self;
  return made;
}

TEST(GroupPageTest, AWitnessIsNumberedAfterTheMembers) {
  for (const uint8_t self : {0, 1, 2}) EXPECT_TRUE(is_sound(witnessed_page(self).page));
  EXPECT_EQ(witnessed_page(0).page.rule().witness(), 2U);
  EXPECT_EQ(page_of(1, 1).page.rule().voters, 0U);
  const std::vector<std::function<void(GroupPage*)>> faults = {
      [](GroupPage* page) { page->self = 3; },        [](GroupPage* page) { page->witness = 2; },
      [](GroupPage* page) { page->ids[2] = 0; },      [](GroupPage* page) { page->ids[3] = 1; },
      [](GroupPage* page) { page->in_sync = 0b101; }, [](GroupPage* page) { page->needed = 3; },
      [](GroupPage* page) { page->members = 8; }};
  for (size_t i = 0; i < faults.size(); ++i) {
    GroupPage page = witnessed_page(1).page;
    faults[i](&page);
    EXPECT_FALSE(is_sound(page)) << i;
  }
  const GroupInfo info = info_of(witnessed_page(2), "name");
  EXPECT_EQ(info.members.size(), 2U);
  ASSERT_TRUE(info.witness.has_value());
  EXPECT_FALSE(info_of(page_of(1, 1), "name").witness.has_value());
}

// A later owner's page is newer, whatever its version.
TEST(GroupPageTest, APageIsFollowedByNewerOnesOfItsMember) {
  const VersionedPage own = page_of(3, 8);
  EXPECT_EQ("OK", may_follow(own, page_of(3, 9)).ToString());
  EXPECT_EQ("OK", may_follow(own, page_of(4, 1)).ToString());
  EXPECT_TRUE(may_follow(own, page_of(3, 8)).IsBusy());
  EXPECT_TRUE(may_follow(own, page_of(2, 90)).IsBusy());
  EXPECT_EQ("OK", may_follow({}, own).ToString()) << "a new pool has none";

  VersionedPage other = page_of(4, 1);
  other.page.group = 8;
  EXPECT_TRUE(may_follow(own, other).IsInvalidArgument()) << "another group";
  other = page_of(4, 1);
  other.page.self = 0;
  EXPECT_TRUE(may_follow(own, other).IsInvalidArgument()) << "another member";
  other = page_of(4, 1);
  other.page.ids[1] = 99;
  EXPECT_TRUE(may_follow(own, other).IsInvalidArgument()) << "another pool in its place";
  other = page_of(4, 1);
  other.page.ids[2] = 99;
  EXPECT_EQ("OK", may_follow(own, other).ToString()) << "another pool in a lost member's place";
}

TEST(GroupPageTest, ARecordKeepsThePageAndTheOwner) {
  membership::Page record;
  record.owner.epoch = 5;
  record.holder = "somebody";
  EXPECT_EQ(group_page_of(record), VersionedPage()) << "a target alone";
  for (const uint8_t in_sync : {0b011, 0b110, 0b111}) {
    VersionedPage page = page_of(3, 8);
    page.page.in_sync = in_sync;
    page.page.equal = in_sync & 1;
    set_group_page(page, &record);
    record.pool = {1, 2};
    record.owner.lease_ns = membership::kLeaseNsMin;
    EXPECT_TRUE(membership::is_sound(record));
    EXPECT_EQ(group_page_of(record), page);
  }
  for (const uint8_t self : {0, 2}) {
    set_group_page(witnessed_page(self), &record);
    EXPECT_EQ(record.members, 3U);
    EXPECT_TRUE(membership::is_sound(record));
    EXPECT_EQ(group_page_of(record), witnessed_page(self));
  }
  EXPECT_EQ(record.owner.epoch, 5U);
  EXPECT_EQ(record.holder, "somebody");
  set_group_page({}, &record);
  EXPECT_TRUE(membership::is_sound(record));
  EXPECT_EQ(group_page_of(record), VersionedPage());
}

}  // namespace
}  // namespace bonsai::scale
