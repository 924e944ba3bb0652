// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/lease.h"

#include <gtest/gtest.h>

#include "scale/membership/testing/leases.h"

namespace bonsai::scale::membership {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(Lease, TheMarginCoversTheDriftOfBothClocks) {
  for (const uint64_t lease_ns : {kLeaseNsMin, kLeaseNsMin + 1, kSecond, 3 * kSecond + 7, kLeaseNsMax}) {
    // Real times in hundredths of a nanosecond: the slowest clock of an owner and the fastest of a node.
    const uint64_t owner_stops = owner_ns(lease_ns) * 10'000 / 99;
    const uint64_t node_gives = lease_ns * 10'000 / 101;
    EXPECT_LT(owner_stops, node_gives) << lease_ns;
    EXPECT_GT(owner_ns(lease_ns), lease_ns / 100 * 97);
  }
}

TEST(Lease, EverySequenceOfGrantsIsAsDefined) {
  const testing::Leases leases = testing::explore_leases();
  EXPECT_EQ(leases.wrong, "");
  EXPECT_GT(leases.sequences, 20'000U);
}

TEST(Lease, ItIsNotValidBeforeTheFirstGrant) {
  const Lease lease(1, 1);
  EXPECT_FALSE(lease.valid(0));
  EXPECT_EQ(lease.until_ns(), 0U);
}

TEST(Lease, ALateGrantNeverShortensIt) {
  Lease lease(1, 1);
  ASSERT_TRUE(lease.granted(0, 5 * kSecond, 5 * kSecond, kSecond).ok());
  ASSERT_TRUE(lease.granted(0, 4 * kSecond, 6 * kSecond, kSecond).ok());
  EXPECT_EQ(lease.until_ns(), 5 * kSecond + owner_ns(kSecond));
  EXPECT_EQ(lease.renew_ns(), 5 * kSecond + kSecond / 3);
}

TEST(Lease, WhatIsOutOfRangeChangesNothing) {
  Lease lease(1, 1);
  ASSERT_TRUE(lease.granted(0, kSecond, kSecond, kSecond).ok());
  const uint64_t before = lease.until_ns();
  for (const uint64_t lease_ns : {uint64_t{0}, kLeaseNsMin - 1, kLeaseNsMax + 1, UINT64_MAX}) {
    const Status status = lease.granted(0, 2 * kSecond, 2 * kSecond, lease_ns);
    EXPECT_TRUE(status.IsInvalidArgument());
    EXPECT_NE(status.message().find("same version"), std::string_view::npos);
  }
  EXPECT_TRUE(lease.granted(0, 3 * kSecond, 2 * kSecond, kSecond).IsIoError()) << "the clock went back";
  EXPECT_TRUE(lease.granted(0, UINT64_MAX - 5, UINT64_MAX, kSecond).IsIoError()) << "the sum wraps";
  EXPECT_EQ(lease.until_ns(), before);
}

TEST(Lease, AnEndedOneStaysSo) {
  Lease lease(2, 1);
  ASSERT_TRUE(lease.granted(1, kSecond, kSecond, kSecond).ok());
  lease.end();
  EXPECT_FALSE(lease.valid(kSecond));
  EXPECT_TRUE(lease.granted(0, kSecond, kSecond, kSecond).IsUnavailable());
  EXPECT_FALSE(lease.valid(kSecond));
}

}  // namespace
}  // namespace bonsai::scale::membership
