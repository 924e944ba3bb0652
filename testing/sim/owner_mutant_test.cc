// SPDX-License-Identifier: Apache-2.0
// With a rule of ownership, recovery or remote targets left out, some life of two owners has no explanation, or a
// replaced owner answers what it was asked too late.
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "testing/sim/owner_life.h"
#include "testing/sim/rules.h"
#include "testing/sim/without_rule.h"

namespace bonsai::testing::sim {
namespace {

TEST(OwnerSimMutants, TheLossOfEveryRuleIsNoticed) {
  const std::vector<Rule> rules = rules_noticed_by(kTwoNodes);
  const uint64_t first = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(first));
  const auto processes_max = budget<uint64_t>(40, 40, 400);
  const auto is_wrong = [](uint64_t seed) {
    const OwnerOutcome outcome = live_with_owners(seed);
    return !outcome.violation.empty() || outcome.old_answers != 0;
  };
  EXPECT_EQ(lives_until_noticed(0, first, 1, is_wrong), 0U) << "with all rules on";
  const uint64_t killed = rules_noticed("mutants of two owners in simulation", rules, first, processes_max, is_wrong);
  add_figure("owner_sim_mutants", rules.size());
  add_figure("owner_sim_mutants_killed", killed);
}

}  // namespace
}  // namespace bonsai::testing::sim
