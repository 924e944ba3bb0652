// SPDX-License-Identifier: Apache-2.0
// The product store under real threads: every operation's result must be explained by one order of all operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "bonsai/db.h"
#include "testing/client.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

struct Case {
  uint64_t keys;
  KeyFormat key_format = KeyFormat::kBytes;
  size_t value_bytes_max = 100;
  uint64_t log_bytes = uint64_t{1} << 20;  // small: bnodes are replaced all the time
  uint32_t background_threads = 1;
  size_t targets = 1;
  uint64_t tide = 0;
  Mix mix = {};
};

// Runs the case and judges it; the store is closed and checked at the end. Returns its counters.
Stats run(const Case& what, uint64_t steps) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const ScratchFolder folder;
  const std::string pool = folder.pool(what.targets);
  Options options;
  options.create_if_missing = true;
  options.key_format = what.key_format;
  options.pool_bytes = (uint64_t{64} << 20) / what.targets;
  options.log_bytes = what.log_bytes;
  options.background_threads = what.background_threads;
  std::unique_ptr<DB> db;
  const Status opened = open_db(options, pool, &db);
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  if (!opened.ok()) return {};

  ClientOptions clients;
  clients.keys = what.keys;
  clients.key_format = what.key_format;
  clients.value_bytes_max = what.value_bytes_max;
  clients.mix = what.mix;
  clients.tide = what.tide;
  const WorkloadResult result = run_workload(db.get(), clients, seed, steps);
  EXPECT_EQ(result.error, "");
  const Verdict verdict = check_workload(result.history, clients);
  EXPECT_TRUE(verdict.ok) << verdict.text;
  add_figure("linearizability_events", result.history.operations.size());
  add_figure("snapshot_reads_checked", result.snapshot_reads);
  const Stats stats = db->GetStats();
  std::printf("%zu operations, %llu snapshot reads; %llu offloads, %llu splits, %llu merges, %llu compactions\n",
              result.history.operations.size(), static_cast<unsigned long long>(result.snapshot_reads),
              static_cast<unsigned long long>(stats.offloads), static_cast<unsigned long long>(stats.splits),
              static_cast<unsigned long long>(stats.merges), static_cast<unsigned long long>(stats.compactions));

  EXPECT_TRUE(db->Close().ok());
  db.reset();
  CheckReport report;
  EXPECT_TRUE(Check(file_names(pool), &report).ok());
  EXPECT_TRUE(report.ok()) << report.damages[0].where << ": " << report.damages[0].what;
  return stats;
}

uint64_t steps() { return budget<uint64_t>(3'000, 20'000, 200'000); }

TEST(Linearizability, FewHotKeys) { run({.keys = 8}, steps()); }

TEST(Linearizability, FewHotKeysReplacedAllTheTime) {
  Case what{.keys = 16};
  what.mix.drain = 2;
  run(what, steps());
}

TEST(Linearizability, ConditionalUpdatesOfFewHotKeys) {
  Case what{.keys = 16};
  what.mix.conditional = 60;
  what.mix.drain = 1;
  run(what, steps());
}

TEST(Linearizability, ConditionalUpdatesMakeRoom) {
  Case what{.keys = 2'000, .background_threads = 0};
  what.mix.conditional = 60;
  run(what, steps());
}

TEST(Linearizability, WritersReplaceTheirOwnBnodes) {
  Case what{.keys = 64, .background_threads = 0};
  what.mix.drain = 1;
  run(what, steps());
}

TEST(Linearizability, WideRangesSplit) {
  Case what{.keys = 20'000, .value_bytes_max = 300};
  what.mix.put = 80;
  what.mix.batch = 20;
  const Stats stats = run(what, steps());
  EXPECT_GT(stats.splits, 0u);
}

TEST(Linearizability, RangesThatGrowAndShrinkSplitAndMerge) {
  constexpr int kRunsMax = 10;  // how much a tide is offloaded in parts depends on the machine
  const uint64_t ranged_steps = std::max<uint64_t>(steps(), 8'000);
  Case what{.keys = 1'500, .value_bytes_max = 400, .tide = ranged_steps / 5};
  what.mix.put = 80;
  what.mix.drain = 1;
  uint64_t splits = 0;
  uint64_t merges = 0;
  for (int runs = 0; runs < kRunsMax && (splits == 0 || merges == 0); ++runs) {
    const Stats stats = run(what, ranged_steps);
    splits += stats.splits;
    merges += stats.merges;
  }
  EXPECT_GT(splits, 0u);
  EXPECT_GT(merges, 0u);
}

TEST(Linearizability, Fixed8OnTwoTargets) {
  Case what{.keys = 500, .key_format = KeyFormat::kFixed8, .value_bytes_max = 16, .targets = 2};
  what.mix.drain = 1;
  run(what, steps());
}

TEST(Linearizability, MostlyReadsAndSnapshots) {
  Case what{.keys = 200};
  what.mix = {.put = 25, .del = 4, .batch = 8, .get = 20, .multi_get = 5, .scan = 14, .snapshot = 12, .iterator = 12};
  run(what, steps());
}

}  // namespace
}  // namespace bonsai::testing
