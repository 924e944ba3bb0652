// SPDX-License-Identifier: Apache-2.0
#include "bench/report/terminal.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>

#include "bench/report/ycsb_text.h"
#include "bench/testing/run.h"

namespace bonsai::bench {
namespace {

TEST(YcsbText, ListsWhatWasDoneAndWhatFailed) {
  RunResult run = full_run();
  run.seconds = 0.25;
  run.operations_of[static_cast<size_t>(OpKind::kRead)] = 400;
  run.failures_of[static_cast<size_t>(OpKind::kRead)] = 3;
  run.operations_of[static_cast<size_t>(OpKind::kReadModifyWrite)] = 100;
  EXPECT_EQ(ycsb_text(run),
            "[OVERALL], RunTime(ms), 250\n[OVERALL], Throughput(ops/sec), 1500000.0\n[READ], Operations, 400\n"
            "[READ], AverageLatency(us), 1.5\n[READ], MinLatency(us), 1\n[READ], MaxLatency(us), 2\n"
            "[READ], 50thPercentileLatency(us), 1\n[READ], 95thPercentileLatency(us), 1\n"
            "[READ], 99thPercentileLatency(us), 1\n[READ], Return=OK, 397\n[READ], Return=ERROR, 3\n"
            "[READ-MODIFY-WRITE], Operations, 100\n[READ-MODIFY-WRITE], Return=OK, 100\n"
            "[MEMORY], DramBytes, 4000\n[MEMORY], ProcessBytes, 5000\n[MEMORY], NvmBytes, 28000\n"
            "[FABRIC], RoundTrips, 7\n[FABRIC], Messages, 8\n[FABRIC], Bytes, 9\n");
  run.intended_latency[static_cast<size_t>(OpKind::kRead)].record(7000);
  EXPECT_NE(ycsb_text(run).find("[Intended-READ], Operations, 400\n[Intended-READ], AverageLatency(us), 7.0\n"),
            std::string::npos);
}

TEST(Table, PutsRunsOfAPhaseSideBySideAndNamesFailures) {
  RunResult ours = full_run();
  RunResult yardstick = full_run();
  yardstick.engine = "absl_btree";
  yardstick.failures = 0;
  yardstick.durability.reset();
  yardstick.memory.nvm_bytes.reset();
  RunResult other = full_run();
  other.workload = "b";
  const std::string table = results_table({ours, other, yardstick});
  const size_t a1 = table.find("a         bonsai");
  const size_t a2 = table.find("a         absl_btree  -");
  const size_t b = table.find("b         bonsai");
  ASSERT_NE(a1, std::string::npos) << table;
  EXPECT_LT(a1, a2);
  EXPECT_LT(a2, b);
  EXPECT_NE(table.find("FAILED: bonsai, a: 3 operations; the first: a record is missing"), std::string::npos);
  EXPECT_EQ(table.find("FAILED: absl_btree"), std::string::npos);
  EXPECT_NE(table.find("1.500"), std::string::npos);
}

TEST(Table, ShowsHowFarRepetitionsLieApart) {
  RunResult run = full_run();
  EXPECT_EQ(results_table({run}).find(" %"), std::string::npos);
  run.repeats_ops_per_s = {1.2e6, 1.5e6, 1.65e6};
  EXPECT_NE(results_table({run}).find("1.500    30 %"), std::string::npos) << results_table({run});
}

TEST(Table, SaysWhatAnOperationCostsOnTheFabric) {
  RunResult run = full_run();
  run.fabric = FabricUse{500, 1250, 36'000};
  EXPECT_NE(results_table({run}).find("fabric: bonsai, a: 1.00 round trips, 2.50 messages, 72.00 bytes per operation"),
            std::string::npos)
      << results_table({run});
  run.fabric.reset();
  EXPECT_EQ(results_table({run}).find("fabric"), std::string::npos);
}

TEST(Table, AlignsColumns) {
  EXPECT_EQ(align({{"a", "1", "x"}, {"long", "1000", "y"}}, 1), "a        1  x\nlong  1000  y\n");
}

TEST(Table, AlignsRowsOfDifferentLengths) {
  EXPECT_EQ(align({}, 1), "");
  EXPECT_EQ(align({{"a"}, {"bb", "c"}, {"", "dddd", "e"}}, 1), "a\nbb  c\n    dddd  e\n");
}

// The text that the status line writes to a file, as it would appear on a terminal.
std::string written(bool live, const std::function<void(StatusLine*)>& use) {
  std::FILE* const file = std::tmpfile();
  {
    StatusLine line(file, live);
    use(&line);
  }
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(StatusLine, IsRewrittenInPlaceOnATerminalAndSilentElsewhere) {
  const auto use = [](StatusLine* line) {
    line->start("bonsai", "a", 100);
    line->show({.done = 50, .seconds = 1, .seconds_idle = 0, .latency = {}});
    line->show_text("something else");
    line->clear();
  };
  EXPECT_EQ(written(false, use), "") << "no terminal";
  const std::string text = written(true, use);
  EXPECT_EQ(text.find('\n'), std::string::npos) << "one line only";
  size_t rewritten = 0;
  for (size_t at = text.find('\r'); at != std::string::npos; at = text.find('\r', at + 1)) ++rewritten;
  EXPECT_EQ(rewritten, 5U) << "three texts, and cleared twice: by the caller and in the end";
  EXPECT_LT(text.find("starting"), text.find("50 %"));
  EXPECT_LT(text.find("50 %"), text.find("something else"));
  EXPECT_TRUE(text.ends_with("\r\033[K")) << "nothing of it stays";
}

TEST(StatusLine, TellsShareRateAndTimeLeft) {
  StatusLine line(stderr, false);
  line.start("bonsai", "a", 1000);
  EXPECT_EQ(line.text({}), "bonsai, workload a: starting");
  EXPECT_EQ(line.text({.done = 250, .seconds = 0.001, .seconds_idle = 0, .latency = {}}),
            "bonsai, workload a: 25 %, 0.25 Mop/s, 0 s left");
  PhaseProgress timed{.done = 250, .seconds = 0.001, .seconds_idle = 0, .latency = {}};
  timed.latency[0].add(LatencyCounts::bucket(1200), 98);
  timed.latency[1].add(LatencyCounts::bucket(50'000), 2);
  EXPECT_EQ(line.text(timed), "bonsai, workload a: 25 %, 0.25 Mop/s, p99 53.2 us, 0 s left");
  line.start("bonsai", "reload", 4'000'000);
  EXPECT_EQ(line.text({.done = 1'000'000, .seconds = 2, .seconds_idle = 0, .latency = {}}),
            "bonsai, reload: 25 %, 0.50 Mop/s, 6 s left");
}

TEST(YcsbStatus, ReportsEveryTenSecondsWhatHappenedSince) {
  YcsbStatus status;
  status.start(4'000'000);
  PhaseProgress progress{.done = 900'000, .seconds = 9.9, .seconds_idle = 0, .latency = {}};
  EXPECT_FALSE(status.line(progress).has_value());
  progress.done = 1'000'000;
  progress.seconds = 10.1;
  progress.latency[0].add(LatencyCounts::bucket(1000), 10);
  const std::string first = status.line(progress).value_or("");
  EXPECT_NE(first.find(" 10 sec: 1000000 operations; 99009.90 current ops/sec; est completion in 31 seconds [READ: "
                       "Count=10, Max=1.02, 50=1.02,"),
            std::string::npos)
      << first;
  EXPECT_FALSE(status.line(progress).has_value());
  progress.done = 3'000'000;
  progress.seconds = 20.1;
  progress.latency[4].add(LatencyCounts::bucket(2000), 3);
  const std::string second = status.line(progress).value_or("");
  EXPECT_NE(second.find(" 20 sec: 3000000 operations; 200000.00 current ops/sec; est completion in 7 seconds "
                        "[READ-MODIFY-WRITE: Count=3, "),
            std::string::npos)
      << second;
}

}  // namespace
}  // namespace bonsai::bench
