// SPDX-License-Identifier: Apache-2.0
// The simulation's own test: with a rule of the product left out, some life has no explanation.
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "testing/sim/life.h"
#include "testing/sim/rules.h"
#include "testing/sim/without_rule.h"

namespace bonsai::testing::sim {
namespace {

TEST(StoreSimMutants, TheLossOfEveryRuleIsNoticed) {
  const std::vector<Rule> rules = rules_noticed_by(kOneNode);
  const uint64_t first = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(first));
  const auto processes_max = budget<uint64_t>(300, 300, 1'000);
  const auto is_wrong = [](uint64_t seed) { return !live(seed).violation.empty(); };
  EXPECT_EQ(lives_until_noticed(0, first, 2, is_wrong), 0U) << "with all rules on";
  const uint64_t killed =
      rules_noticed("mutants of the whole store in simulation", rules, first, processes_max, is_wrong);
  add_figure("store_sim_mutants", rules.size());
  add_figure("store_sim_mutants_killed", killed);
}

}  // namespace
}  // namespace bonsai::testing::sim
