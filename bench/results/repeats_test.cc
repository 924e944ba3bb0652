// SPDX-License-Identifier: Apache-2.0
#include "bench/results/repeats.h"

#include <gtest/gtest.h>

namespace bonsai::bench {
namespace {

RunResult result_of(const std::string& engine, const std::string& workload, double throughput) {
  RunResult run;
  run.engine = engine;
  run.workload = workload;
  run.throughput_ops_per_s = throughput;
  run.seconds = 1000 / throughput;
  run.memory.dram_bytes = static_cast<uint64_t>(throughput);
  run.pinned = true;
  run.latency[0].record(static_cast<uint64_t>(throughput));
  return run;
}

TEST(MergeRepeats, TakesTheMiddleOne) {
  const RunResult merged = merge_repeats({result_of("e", "a", 30), result_of("e", "a", 10), result_of("e", "a", 20)});
  EXPECT_EQ(merged.throughput_ops_per_s, 20);
  EXPECT_EQ(merged.seconds, 50);
  EXPECT_EQ(merged.memory.dram_bytes, 20U);
  EXPECT_EQ(merged.repeats_ops_per_s, (std::vector<double>{30, 10, 20}));
}

TEST(MergeRepeats, OfAnEvenNumberTakesTheMeanOfTheTwoInTheMiddle) {
  const RunResult merged = merge_repeats(
      {result_of("e", "a", 40), result_of("e", "a", 10), result_of("e", "a", 20), result_of("e", "a", 100)});
  EXPECT_EQ(merged.throughput_ops_per_s, 30);
  EXPECT_EQ(merged.memory.dram_bytes, 20U);
}

TEST(MergeRepeats, AddsUpFailuresAndLatencies) {
  std::vector<RunResult> repeats(3, result_of("e", "a", 10));
  repeats[1].failures = 2;
  repeats[1].failures_of[0] = 2;
  repeats[1].first_failure = "second";
  repeats[2].failures = 5;
  repeats[2].failures_of[1] = 5;
  repeats[2].first_failure = "third";
  repeats[2].stopped = true;
  repeats[0].pinned = false;
  repeats[0].intended_latency[1].record(7);
  const RunResult merged = merge_repeats(repeats);
  EXPECT_EQ(merged.failures, 7U);
  EXPECT_EQ(merged.failures_of[0], 2U);
  EXPECT_EQ(merged.failures_of[1], 5U);
  EXPECT_EQ(merged.first_failure, "second");
  EXPECT_TRUE(merged.stopped);
  EXPECT_FALSE(merged.pinned);
  EXPECT_EQ(merged.latency[0].count(), 3U);
  EXPECT_EQ(merged.intended_latency[1].count(), 1U);
}

TEST(Repeats, PutsEachPhaseOfEachEngineTogether) {
  Repeats repeats;
  std::vector<RunResult> runs;
  for (const double speed : {1.0, 3.0, 2.0}) {
    repeats.begin();
    for (const char* engine : {"x", "y"}) {
      const double scale = *engine == 'x' ? 1 : 100;
      for (const char* phase : {"load", "a", "reload", "b", "reload"}) {
        repeats.add(result_of(engine, phase, speed * scale), &runs);
      }
    }
  }
  ASSERT_EQ(runs.size(), 10U);
  EXPECT_EQ(runs[0].workload, "load");
  EXPECT_EQ(runs[4].workload, "reload");
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].engine, i < 5 ? "x" : "y");
    EXPECT_EQ(runs[i].throughput_ops_per_s, i < 5 ? 2 : 200);
    EXPECT_EQ(runs[i].repeats_ops_per_s.size(), 3U);
  }
}

// An engine that gives up in a repetition leaves the phases that it did.
TEST(Repeats, ManagesWithPhasesThatAreMissing) {
  Repeats repeats;
  std::vector<RunResult> runs;
  repeats.begin();
  repeats.add(result_of("x", "load", 1), &runs);
  repeats.begin();
  repeats.add(result_of("x", "load", 3), &runs);
  repeats.add(result_of("x", "a", 5), &runs);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].throughput_ops_per_s, 2);
  EXPECT_EQ(runs[1].throughput_ops_per_s, 5);
}

}  // namespace
}  // namespace bonsai::bench
