// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc.h"
#include "base/testing/figures.h"
#include "scale/membership/testing/pages.h"

namespace bonsai::scale::membership {
namespace {

std::array<Slot, kSlots> written(const Page& page) {
  std::array<Slot, kSlots> slots{};
  PageWriter writer;
  for (std::optional<PageWriter::Write> write = writer.begin(page); write; write = writer.written()) {
    slots[write->slot] = write->bytes;
  }
  return slots;
}

TEST(Page, EveryFieldComesBack) {
  for (uint64_t n = 1; n <= 20; ++n) {
    const Page page = testing::make_page(n);
    FoundPage found;
    ASSERT_TRUE(find_page(written(page), page.pool, &found).ok());
    EXPECT_EQ(found.page, page);
    EXPECT_TRUE(found.whole);
  }
}

TEST(Page, TheBytesAreThoseOfTheFormat) {
  const std::array<Slot, kSlots> slots = written(testing::make_page(2));
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(slots[0].data()), 8), "BNSOWNR1");
  EXPECT_EQ(slots[0][8], std::byte{1}) << "sequence";
  EXPECT_EQ(slots[0][16], std::byte{77}) << "pool";
  EXPECT_EQ(slots[0][32], std::byte{2}) << "epoch";
}

TEST(Page, NoCrashAndNoDamageOfASlotBringsAnotherPageBack) {
  const testing::Pages pages = testing::explore_pages();
  std::printf("  %llu images\n", static_cast<unsigned long long>(pages.images));
  EXPECT_EQ(pages.wrong, "");
  EXPECT_GT(pages.images, 1'000U);
  bonsai::testing::add_figure("node_page_images", pages.images);
}

// A page whose numbers are near their end could not be followed by another one.
TEST(Page, NumbersThatLeaveNoRoomAreRefusedThoughTheCheckIsRight) {
  for (const size_t offset : {size_t{8}, size_t{32}, size_t{56}, size_t{192}, size_t{200}}) {
    const Page page = testing::make_page(1);
    std::array<Slot, kSlots> slots = written(page);
    for (size_t i = 0; i < kSlots; ++i) {
      std::fill_n(slots[i].begin() + static_cast<std::ptrdiff_t>(offset), 8, std::byte{0xff});
      const uint64_t check = base::crc32c(slots[i].data(), kSlotCheckedBytes, static_cast<uint32_t>(i + 1));
      std::memcpy(slots[i].data() + kSlotCheckedBytes, &check, sizeof check);
    }
    FoundPage found;
    EXPECT_TRUE(find_page(slots, page.pool, &found).IsCorruption()) << "offset " << offset;
  }
}

TEST(Page, APageThatCannotBeWrittenIsNotSound) {
  const Page good = testing::make_page(4);
  EXPECT_TRUE(is_sound(good));
  std::vector<Page> bad(12, good);
  bad[0].members = kMembersMax + 1;
  bad[1].holder = std::string(Page::kHolderBytesMax + 1, 'x');
  bad[2].holder = std::string(3, '\0');
  bad[3].member[0].address = std::string(Member::kAddressBytesMax + 1, 'x');
  bad[4].member[0].id = {0, 0};
  bad[5].member[1].role = static_cast<Role>(9);
  bad[6].needed = 0;
  bad[7].needed = good.members + 1;
  bad[8].version = kEpochMax + 1;
  bad[9].owner.lease_ns = kLeaseNsMax + 1;
  bad[10].pool = {0, 0};
  bad[11].owner.epoch = 0;
  for (size_t i = 0; i < bad.size(); ++i) EXPECT_FALSE(is_sound(bad[i])) << i;
}

TEST(Page, WhatIsNoPageIsRefusedWithAReason) {
  FoundPage found;
  const std::array<uint64_t, 2> pool = testing::make_page(1).pool;
  EXPECT_TRUE(find_page({}, pool, &found).IsNotFound());

  std::array<Slot, kSlots> slots = written(testing::make_page(1));
  for (Slot& slot : slots) slot[50] ^= std::byte{4};
  const Status damaged = find_page(slots, pool, &found);
  EXPECT_TRUE(damaged.IsCorruption());
  EXPECT_NE(damaged.message().find("another owner may be alive"), std::string_view::npos);

  const Status other = find_page(written(testing::make_page(1)), {1, 1}, &found);
  EXPECT_TRUE(other.IsCorruption());
  EXPECT_NE(other.message().find("another pool"), std::string_view::npos);
}

}  // namespace
}  // namespace bonsai::scale::membership
