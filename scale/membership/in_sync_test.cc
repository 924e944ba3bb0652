// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/in_sync.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "scale/membership/testing/group.h"

namespace bonsai::scale::membership {
namespace {

using bonsai::testing::budget;

// The rule's reason, over all sets: what an unreached member may know never contradicts the opening.
TEST(InSync, AnOpeningIsAllowedOnlyIfNoHiddenPageCouldHaveGoneOnWithoutIt) {
  constexpr MemberSet kAll = 0b1111;
  for (size_t needed = 1; needed <= 4; ++needed) {
    for (MemberSet in_sync = 1; in_sync <= kAll; ++in_sync) {
      for (MemberSet reached = 0; reached <= kAll; ++reached) {
        // A newer page that none of `reached` has seen names at least `needed` of the unreached.
        const bool hidden = count(in_sync & ~reached) >= needed;
        const bool enough = count(in_sync & reached) >= needed;
        EXPECT_EQ(may_open(in_sync, reached, {needed}), !hidden && enough);
      }
    }
  }
  EXPECT_TRUE(may_open(0b111, 0b011, {2}))
      << "of three, two of which hold what is acknowledged, any one may be missing";
  EXPECT_FALSE(may_open(0b011, 0b001, {1})) << "of two both are needed";
  EXPECT_TRUE(may_open(0b001, 0b001, {1}));
}

// So a take-over waits out a lease that an owner's reads may rely on.
TEST(InSync, EveryOpeningFencesAMemberOfEveryLease) {
  constexpr MemberSet kAll = 0b1111;
  for (size_t needed = 1; needed <= 4; ++needed) {
    for (MemberSet in_sync = 1; in_sync <= kAll; ++in_sync) {
      for (MemberSet reached = 0; reached <= kAll; ++reached) {
        for (MemberSet granted = 0; granted <= kAll && may_open(in_sync, reached, {needed}); ++granted) {
          const bool valid = (granted & ~in_sync) == 0 && count(granted) >= needed;
          EXPECT_TRUE(!valid || (granted & reached) != 0);
        }
      }
    }
  }
}

TEST(InSync, WithAWitnessAMajorityDecides) {
  constexpr Quorum kQuorum = {.needed = 1, .voters = 3};
  EXPECT_EQ(kQuorum.witness(), 2U);
  EXPECT_TRUE(may_open(0b011, 0b101, kQuorum)) << "either of two members may be missing";
  EXPECT_TRUE(may_open(0b011, 0b011, kQuorum)) << "so may the witness";
  EXPECT_FALSE(may_open(0b011, 0b001, kQuorum)) << "one voter alone";
  EXPECT_FALSE(may_open(0b001, 0b110, kQuorum)) << "no member in sync is reached";
  EXPECT_TRUE(may_open(0b001, 0b101, kQuorum));
  EXPECT_FALSE(may_open(0b011, 0b101, {.needed = 2, .voters = 3}));
  for (MemberSet reached = 0; reached < 8; ++reached) {
    for (MemberSet granted = 0; granted < 8; ++granted) {
      const bool both = may_open(0b011, reached, kQuorum) && count(granted) >= kQuorum.grants();
      EXPECT_TRUE(!both || (granted & reached) != 0) << "an opening fences a voter of every lease";
    }
  }
}

TEST(InSync, APageOfOneMemberIsInForceWhenItsWitnessHasIt) {
  InSync in_sync(0b011, {.needed = 1, .voters = 3}, 1);
  ASSERT_TRUE(in_sync.begin(0b001, 0b011));
  in_sync.durable(0, 2);
  EXPECT_TRUE(in_sync.is_changing());
  EXPECT_EQ(in_sync.awaited(), 0b011U);
  in_sync.durable(2, 1);
  EXPECT_TRUE(in_sync.is_changing()) << "an answer about another version counts";
  in_sync.durable(2, 2);
  EXPECT_EQ(in_sync.awaited(), 0b001U);
  ASSERT_TRUE(in_sync.begin(0b011, 0b011));
  in_sync.durable(0, 3);
  in_sync.durable(2, 3);
  EXPECT_TRUE(in_sync.is_changing()) << "the page is on a majority, and not on a member that it names";
  in_sync.durable(1, 3);
  EXPECT_FALSE(in_sync.is_changing());
  EXPECT_EQ(in_sync.durable_on(), 0b111U);
  ASSERT_TRUE(in_sync.begin(0b011, 0b011));
  in_sync.durable(0, 4);
  in_sync.durable(1, 4);
  EXPECT_FALSE(in_sync.is_changing()) << "two members are a majority without the witness";
  EXPECT_FALSE(in_sync.begin(0b101, 0b111)) << "a witness is no member";
}

TEST(InSync, AMemberIsAwaitedUntilThePageWithoutItIsInForce) {
  InSync in_sync(0b111, {2}, 4);
  EXPECT_FALSE(in_sync.is_changing());
  ASSERT_TRUE(in_sync.begin(0b011, 0b111));
  EXPECT_EQ(in_sync.version(), 5U);
  in_sync.durable(0, 5);
  EXPECT_EQ(in_sync.awaited(), 0b111U);
  in_sync.durable(1, 4);
  EXPECT_EQ(in_sync.awaited(), 0b111U) << "an answer about another version counts";
  in_sync.durable(2, 5);
  EXPECT_TRUE(in_sync.is_changing()) << "the member that is left out does not count";
  in_sync.durable(1, 5);
  EXPECT_EQ(in_sync.awaited(), 0b011U);
  EXPECT_FALSE(in_sync.is_changing());
}

TEST(InSync, AMemberThatIsAddedIsAwaitedFromTheFirstByteOfItsPage) {
  InSync in_sync(0b011, {1}, 1);
  EXPECT_FALSE(in_sync.begin(0b111, 0b011)) << "it is not caught up";
  EXPECT_EQ(in_sync.version(), 1U);
  ASSERT_TRUE(in_sync.begin(0b111, 0b111));
  EXPECT_EQ(in_sync.awaited(), 0b111U);
  // It fails before its page is everywhere: only a further page frees the others from it.
  ASSERT_TRUE(in_sync.begin(0b011, 0b111));
  EXPECT_EQ(in_sync.awaited(), 0b111U);
  in_sync.durable(0, 3);
  in_sync.durable(1, 3);
  EXPECT_EQ(in_sync.awaited(), 0b011U);
}

TEST(InSync, FewerThanNeededAreNeverNamed) {
  InSync in_sync(0b011, {2}, 1);
  EXPECT_FALSE(in_sync.begin(0b001, 0b011));
  EXPECT_FALSE(in_sync.begin(0, 0));
  EXPECT_FALSE(in_sync.begin(MemberSet{1} << kMembersMax | 0b11, ~MemberSet{0}));
  EXPECT_FALSE(in_sync.is_changing());
}

TEST(InSync, NoOrderOfFailuresPagesAndOpeningsLosesAnAcknowledgedUpdate) {
  const auto states_max = budget<uint64_t>(100'000, 1'000'000, 1'000'000);
  for (const testing::GroupSetup& setup : testing::kGroupSetups) {
    const testing::GroupExplored found = testing::explore_group(setup, states_max);
    std::printf("  needed %llu%s: %llu states%s, %llu openings\n", static_cast<unsigned long long>(setup.needed),
                setup.witness ? ", a witness" : "", static_cast<unsigned long long>(found.states),
                found.whole ? "" : ", not all", static_cast<unsigned long long>(found.openings));
    EXPECT_EQ(found.wrong, "") << "needed " << setup.needed << (setup.witness ? ", a witness" : "");
    EXPECT_GT(found.openings, 0U);
    EXPECT_TRUE(found.whole || states_max < 1'000'000);
    bonsai::testing::add_figure("node_model_states", found.states);
  }
}

}  // namespace
}  // namespace bonsai::scale::membership
