// SPDX-License-Identifier: Apache-2.0
// Two compute nodes and one pool in simulation: every seed is a life (owner_life.h), and replays exactly.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "testing/sim/owner_life.h"

namespace bonsai::testing::sim {
namespace {

constexpr uint64_t kReplayedOneIn = 8;

TEST(OwnerSim, EverySeedHasOneOwnerAndReplaysExactly) {
  const uint64_t first = base::seed_from_env_or(1);
  const uint64_t seeds = budget<uint64_t>(50, 1'000, 20'000);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(first));
  OwnerDeeds all;
  uint64_t violations = 0;
  for (uint64_t seed = first; seed < first + seeds && violations < 3; ++seed) {
    const OwnerOutcome outcome = live_with_owners(seed);
    EXPECT_EQ(outcome.violation, "") << "BONSAI_SEED=" << seed;
    const bool is_old = outcome.old_answers != 0;
    if (is_old) ADD_FAILURE() << "BONSAI_SEED=" << seed << ": " << outcome.old_answer;
    violations += !outcome.violation.empty() || is_old ? 1 : 0;
    all.add(outcome.deeds);
    if (seed % kReplayedOneIn == 0) {
      EXPECT_EQ(live_with_owners(seed).trace, outcome.trace) << "BONSAI_SEED=" << seed << " does not replay";
    }
  }
  const auto n = [](uint64_t count) { return static_cast<unsigned long long>(count); };
  std::printf(
      "%llu seeds: %llu answers of %llu owners, of which %llu were asked after they had been replaced; owners: %llu "
      "stops, %llu suspends, %llu pauses, %llu kills, %llu power cuts; nodes: %llu stops, %llu kills, "
      "%llu power cuts, %llu records lost; %llu cuts; service after %llu ms at most; %llu ms of virtual time\n",
      n(seeds), n(all.answers), n(all.tenures), n(all.outlived), n(all.stops), n(all.suspends), n(all.pauses),
      n(all.kills), n(all.power_cuts), n(all.node_stops), n(all.node_kills), n(all.node_power_cuts),
      n(all.records_lost), n(all.cuts), n(all.service_ms_max), n(all.virtual_ms));
  add_figure("owner_sim_seeds", seeds);
  add_figure("owner_sim_violations", violations);
  EXPECT_GT(all.answers, 50 * seeds);
  EXPECT_GT(all.tenures, 2 * seeds);
  EXPECT_GT(all.outlived, seeds / 20) << "the simulation does not see replaced owners";
  EXPECT_GT(all.stops + all.suspends, seeds / 2);
  EXPECT_GT(all.pauses, seeds / 20);
  EXPECT_GT(all.kills + all.power_cuts, seeds / 10);
  EXPECT_GT(all.node_kills + all.node_power_cuts, seeds / 10);
}

}  // namespace
}  // namespace bonsai::testing::sim
