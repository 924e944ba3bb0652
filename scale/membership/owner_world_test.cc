// SPDX-License-Identifier: Apache-2.0
// Two owners, a node and messages between them: all orders of small worlds, and long lives by seed.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "scale/membership/testing/owner_life.h"
#include "scale/membership/testing/small_worlds.h"

namespace bonsai::scale::membership::testing {
namespace {

using bonsai::testing::add_figure;
using bonsai::testing::budget;

TEST(OwnerWorld, NoOrderOfASmallWorldHasTwoOwners) {
  const auto states_max = budget<uint64_t>(30'000, 500'000, 2'000'000);
  uint64_t states = 0;
  for (const SmallWorld& small : kSmallWorlds) {
    const Explored found = explore(small.make(), states_max);
    std::printf("  %-52s %9llu states%s\n", small.name, static_cast<unsigned long long>(found.states),
                found.whole ? "" : ", not all");
    EXPECT_EQ(found.wrong, "") << small.name;
    EXPECT_TRUE(found.whole || states_max < 500'000) << small.name;
    states += found.states;
  }
  add_figure("node_model_states", states);
}

TEST(OwnerWorld, NoLifeHasTwoOwnersAndServiceComesBack) {
  const uint64_t first = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(first));
  const auto lives = budget<uint64_t>(1'000, 5'000, 100'000);
  uint64_t answers = 0, violations = 0;
  for (uint64_t seed = first; seed < first + lives; ++seed) {
    const Life life = live(seed);
    violations += life.wrong.empty() ? 0 : 1;
    answers += life.answers;
    EXPECT_EQ(life.wrong, "");
    if (seed % 8 == 0) {
      const Life again = live(seed);
      EXPECT_EQ(again.digest, life.digest) << "seed " << seed << " does not replay";
      EXPECT_EQ(again.moves, life.moves);
    }
    if (violations > 3) break;
  }
  std::printf("%llu answers in %llu lives\n", static_cast<unsigned long long>(answers),
              static_cast<unsigned long long>(lives));
  EXPECT_GT(answers, 5 * lives) << "lives without answers prove nothing";
  add_figure("node_sim_seeds", lives);
  add_figure("node_sim_violations", violations);
}

// Each assumption is needed: without it some life has two owners.
TEST(OwnerWorld, LivesThatBreakAnAssumptionAreNoticed) {
  for (const Broken broken : {Broken::kDrift, Broken::kClockStands, Broken::kDiskForgets}) {
    uint64_t seed = 1;
    while (seed <= 20'000 && live_in(broken, seed).wrong.empty()) ++seed;
    std::printf("  noticed by life %llu\n", static_cast<unsigned long long>(seed));
    EXPECT_LE(seed, 20'000U) << "assumption " << static_cast<int>(broken);
  }
}

}  // namespace
}  // namespace bonsai::scale::membership::testing
