// SPDX-License-Identifier: Apache-2.0
// The whole store in simulation: every seed is a life (life.h), and replays exactly.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/coro/scheduler.h"
#include "base/probe.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "testing/expect_budgets.h"
#include "testing/scratch.h"
#include "testing/sim/life.h"
#include "testing/sim/store_node.h"

namespace bonsai::testing::sim {
namespace {

constexpr uint64_t kReplayedOneIn = 8;

TEST(StoreSim, EverySeedKeepsThePromisesAndReplaysExactly) {
  const uint64_t first = base::seed_from_env_or(1);
  const uint64_t seeds = budget<uint64_t>(100, 1'000, 20'000);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(first));
  Deeds all;
  uint64_t violations = 0;
  for (uint64_t seed = first; seed < first + seeds && violations < 3; ++seed) {
    const Outcome outcome = live(seed);
    violations += outcome.violation.empty() ? 0 : 1;
    EXPECT_EQ(outcome.violation, "") << "BONSAI_SEED=" << seed;
    all.add(outcome.deeds);
    if (seed % kReplayedOneIn == 0) {
      EXPECT_EQ(live(seed).trace, outcome.trace) << "BONSAI_SEED=" << seed << " does not replay";
    }
  }
  size_t probes = 0, hit = 0;
  base::Probe::each([&](const base::Probe& probe) {
    if (std::string_view(probe.name()).starts_with("group.")) return;  // no life here has a group
    ++probes;
    hit += probe.hits() > 0 ? 1 : 0;
    if (probe.hits() == 0) std::printf("not reached: %s\n", probe.name());
  });
  std::printf(
      "%llu seeds: %llu operations, %llu openings (%llu refused), %llu closes, %llu offloads, %llu clients with an "
      "update of unknown outcome, %llu reads unavailable; power cuts: %llu amid work, %llu amid an opening, %llu of "
      "memory nodes; %llu cuts; %llu ms of virtual time; %zu of %zu probes hit\n",
      static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(all.operations),
      static_cast<unsigned long long>(all.openings), static_cast<unsigned long long>(all.refused_openings),
      static_cast<unsigned long long>(all.closes), static_cast<unsigned long long>(all.offloads),
      static_cast<unsigned long long>(all.unknown), static_cast<unsigned long long>(all.unread),
      static_cast<unsigned long long>(all.power_cuts), static_cast<unsigned long long>(all.opening_power_cuts),
      static_cast<unsigned long long>(all.memory_power_cuts), static_cast<unsigned long long>(all.cuts),
      static_cast<unsigned long long>(all.virtual_ms), hit, probes);
  add_figure("store_sim_seeds", seeds);
  add_figure("store_sim_violations", violations);
  EXPECT_GE(hit * 10, probes * 8);
  EXPECT_GT(all.operations, 10 * seeds);
  EXPECT_GT(all.openings, seeds / 2);
  EXPECT_GT(all.unread, 0U);
  EXPECT_LT(all.unread, all.operations / 4);
  EXPECT_GT(all.power_cuts, seeds / 10);
  EXPECT_GT(all.memory_power_cuts, seeds / 10);
}

Asked asked_of(const rdma::Traffic& traffic) { return {traffic.round_trips, traffic.messages(), traffic.bytes()}; }

// The shared memory that DB::Open's stores hold (store/remote_test.cc).
TEST(StoreSim, AsksNoMoreOfItsNodesThanItsBudgets) {
  rdma::SimOptions options;
  options.remote_flush = false;  // a flush request for all that was written, as elsewhere, not a flush of each range
  rdma::SimNetwork network(options);
  const ScratchFolder scratch;
  MemoryNode node(&network, "node", std::filesystem::path(scratch.file("pool")).parent_path(), 1, true);
  StoreNode store(&network, {{nullptr, &node}}, 1'000);
  std::vector<BudgetRow> rows;
  base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = 1, .stack_bytes = size_t{256} << 10});
  scheduler.spawn(
      [&] {
        node.start();
        ASSERT_EQ("OK", store.open(budget_options(), true).ToString());
        EXPECT_EQ("OK", count_remote_budgets(
                            store.db(), [&] { return asked_of(store.traffic()); }, &rows)
                            .ToString());
        EXPECT_EQ("OK", store.close().ToString());
        node.stop();
      },
      "budgets");
  ASSERT_EQ("OK", scheduler.run().ToString());
  expect_kept(rows);
}

}  // namespace
}  // namespace bonsai::testing::sim
