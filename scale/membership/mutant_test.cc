// SPDX-License-Identifier: Apache-2.0
// With a rule left out, a judge is dissatisfied: lives of two owners by seed, or an exploration of one part.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/planted_fault.h"
#include "scale/membership/testing/group.h"
#include "scale/membership/testing/leases.h"
#include "scale/membership/testing/member_walk.h"
#include "scale/membership/testing/mutants.h"
#include "scale/membership/testing/owner_life.h"
#include "scale/membership/testing/pages.h"
#include "scale/membership/testing/small_worlds.h"

namespace bonsai::scale::membership::testing {
namespace {

using bonsai::testing::add_figure;
using bonsai::testing::add_row;
using bonsai::testing::expect_found;
using bonsai::testing::mutants_on;

struct Rule {
  uint64_t bit;
  const char* name;
};

// Those that the simulation must notice.
constexpr Rule kRules[] = {
    {kGrantByArrival, "a grant counts from its arrival"},
    {kNoMargin, "clocks are taken for exact"},
    {kEndForgotten, "a late grant revives an ended lease"},
    {kNotChecked, "a read does not look at the lease"},
    {kLeaseNotAwaited, "the pool is given away while a lease runs"},
    {kRestartForgetsLease, "a restarted node does not wait"},
    {kNotPersisted, "an epoch is not durable before its owner is served"},
    {kEarlierNotEnded, "earlier connections are not ended"},
    {kResumeEndsNothing, "the owner's earlier connection is not ended"},
    {kAnybodyServed, "flush requests of earlier owners are carried out"},
    {kEpochNotCompared, "an old fence takes the pool back"},
    {kAnybodyLeaves, "an earlier owner gives the pool back"},
    {kAnybodyRenews, "an earlier owner gets grants"},
    {kLostRecordNotAwaited, "a lost record counts as none"},
    {kSessionNotCompared, "an epoch alone names an owner"},
    {kGrantsForgotten, "the node forgets its grants"},
    {kOneCopy, "a record counts in one slot"},
    {kNotSentAgain, "unanswered updates are not sent again"},
    {kBackAfterNo, "updates are taken after a refusal"},
};

// Lives until one is wrong; 0: none was.
uint64_t lives_until_wrong(uint64_t lives_max) {
  for (uint64_t seed = 1; seed <= lives_max; ++seed) {
    if (!live(seed).wrong.empty()) return seed;
  }
  return 0;
}

TEST(MembershipMutants, TheSimulationNoticesTheLossOfEveryRule) {
  const auto lives_max = bonsai::testing::budget<uint64_t>(20'000, 40'000, 100'000);
  EXPECT_EQ(lives_until_wrong(500), 0U) << "with all rules on";
  uint64_t killed = 0;
  for (const Rule& rule : kRules) {
    mutants_on.store(rule.bit);
    const uint64_t lives = lives_until_wrong(lives_max);
    mutants_on.store(0);
    killed += lives != 0 ? 1 : 0;
    std::printf("  %-52s %s\n", rule.name, lives == 0 ? "SURVIVES" : ("after " + std::to_string(lives)).c_str());
    EXPECT_NE(lives, 0U) << rule.name << ": nothing notices it";
    add_row("mutants of ownership", rule.name, {{"mutants", 1}, {"killed", lives != 0 ? 1 : 0}, {"lives", lives}});
  }
  add_figure("node_sim_mutants", std::size(kRules));
  add_figure("node_sim_mutants_killed", killed);
}

bool small_worlds_find(uint64_t states_max) {
  for (const SmallWorld& small : kSmallWorlds) {
    if (!explore(small.make(), states_max).wrong.empty()) return true;
  }
  return false;
}

bool groups_find() {
  for (const GroupSetup& setup : kGroupSetups) {
    if (!explore_group(setup, 1'000'000).wrong.empty()) return true;
  }
  return false;
}

// A live owner that renews all the time gives way to a forced take-over within a lease, and to no other.
bool force_fails() {
  constexpr uint64_t kLeaseNs = 1'000'000'000;
  const Sender a = {{{1, 1}}, 1, 1}, b = {{{2, 2}}, 2, 2};
  OwnerRegister reg(OwnerRecord(), 0);
  static_cast<void>(reg.fence(a, 0, kLeaseNs, false, 0));
  reg.persisted();
  reg.earlier_ended(1);
  for (uint64_t now_ns = 0; now_ns <= 2 * kLeaseNs; now_ns += kLeaseNs / 10) {
    static_cast<void>(reg.renew(a, now_ns));
    static_cast<void>(reg.fence(b, 1, kLeaseNs, true, now_ns));
    if (reg.record().session == b.session) return false;
  }
  return true;
}

TEST(MembershipMutants, ExplorationsNoticeTheLossOfEveryRule) {
  EXPECT_EQ(explore_leases().wrong + explore_pages().wrong + walk_members().wrong, "") << "with all rules on";
  EXPECT_FALSE(small_worlds_find(5'000) || groups_find() || force_fails()) << "with all rules on";
  const auto worlds = [] { return small_worlds_find(100'000); };
  const auto leases = [] { return !explore_leases().wrong.empty(); };
  const auto pages = [] { return !explore_pages().wrong.empty(); };
  const auto walks = [] { return !walk_members().wrong.empty(); };
  expect_found({
      {"a grant counts from its arrival", kGrantByArrival, leases},
      {"clocks are taken for exact", kNoMargin, leases},
      {"one member's grant is enough", kOneGrantEnough, leases},
      {"a late grant revives an ended lease", kEndForgotten, leases},
      {"a read does not look at the lease", kNotChecked, worlds},
      {"clocks are taken for exact, in a world", kNoMargin, worlds},
      {"the pool is given away while a lease runs", kLeaseNotAwaited, worlds},
      {"a restarted node does not wait", kRestartForgetsLease, worlds},
      {"an epoch is not durable", kNotPersisted, worlds},
      {"earlier connections are not ended", kEarlierNotEnded, worlds},
      {"the owner's earlier connection is not ended", kResumeEndsNothing, worlds},
      {"an earlier owner gets grants", kAnybodyRenews, worlds},
      {"a lost record counts as none", kLostRecordNotAwaited, worlds},
      {"force does not stop grants", kForceIgnored, force_fails},
      {"a torn page is accepted", kTornAccepted, pages},
      {"a page counts in one slot", kOneCopy, pages},
      {"the newest page is overwritten first", kNewestOverwrittenFirst, pages},
      {"another pool's page is accepted", kPoolNotCompared, pages},
      {"too few members open", kOpenedByTooFew, groups_find},
      {"fewer members than needed are left", kDroppedBelowMin, groups_find},
      {"a page on one member is in force", kOnSomeEnough, groups_find},
      {"an added member is not awaited", kAddedNotAwaited, groups_find},
      {"a joining member counts", kJoiningCounted, groups_find},
      {"an answer about an earlier page counts", kLateAnswerCounts, groups_find},
      {"a page is in force without the witness", kWitnessNotAwaited, groups_find},
      {"members in sync open without a majority", kMajorityNotReached, groups_find},
      {"unanswered updates are forgotten", kNotSentAgain, walks},
      {"updates are taken after a refusal", kBackAfterNo, walks},
      {"a late member is not waited for", kOutTooEarly, walks},
  });
}

}  // namespace
}  // namespace bonsai::scale::membership::testing
