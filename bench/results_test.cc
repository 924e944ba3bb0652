#include "bench/results.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/csv.h"
#include "bench/machine.h"
#include "bench/terminal.h"
#include "bench/ycsb_text.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::json;

std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

RunResult full_run() {
  RunResult run;
  run.engine = "bonsai";
  run.workload = "a";
  run.key = "fixed8";
  run.value_size = 8;
  run.records = 1000;
  run.operations = 500;
  run.threads = 2;
  run.depth = 16;
  run.distribution = "zipfian";
  run.durability = "durable";
  run.throughput_ops_per_s = 1.5e6;
  run.failures = 3;
  run.first_failure = "a record is missing";
  for (uint64_t ns = 1000; ns <= 2000; ++ns) run.latency[static_cast<size_t>(OpKind::kRead)].record(ns);
  run.memory = {.dram_bytes = 4000, .nvm_bytes = 28000};
  run.user_bytes = 16000;
  run.memory.log_bytes = 900;
  run.memory_unsettled.dram_bytes = 4500;
  run.nvm = NvmUse{1, 2, 3, 4, 5, 6};
  return run;
}

TEST(Results, HaveTheDocumentedShape) {
  Manifest manifest;
  manifest.commit = "abc";
  manifest.seed = 7;
  manifest.flags = {{"records", "1000"}};
  manifest.emulated = {"NVM: tmpfs"};
  const Json json =
      Json::parse(results_json({manifest, {full_run()}, {{"lmdb", "x", "cannot"}}, {{"rocksdb", "no space"}}}));
  EXPECT_EQ(json["version"], kResultsVersion);
  EXPECT_EQ(keys_of(json), (std::set<std::string>{"version", "manifest", "runs", "left_out", "errors"}));
  for (const char* key : {"commit", "cpu", "kernel", "medium", "domain", "flags", "seed"}) {
    EXPECT_TRUE(json["manifest"].contains(key)) << key;
  }
  const Json& run = json["runs"][0];
  EXPECT_EQ(keys_of(run), (std::set<std::string>{"engine",
                                                 "workload",
                                                 "key",
                                                 "value_size",
                                                 "records",
                                                 "operations",
                                                 "threads",
                                                 "depth",
                                                 "distribution",
                                                 "durability",
                                                 "throughput_ops_per_s",
                                                 "failures",
                                                 "latency_us",
                                                 "memory",
                                                 "nvm",
                                                 "fabric",
                                                 "medium",
                                                 "emulated",
                                                 "seconds",
                                                 "settle_seconds",
                                                 "operations_of",
                                                 "requests",
                                                 "warmup_operations",
                                                 "target_ops_per_s",
                                                 "pinned",
                                                 "repeats_ops_per_s",
                                                 "absent",
                                                 "latency_every",
                                                 "intended_latency_us",
                                                 "failures_of",
                                                 "first_failure",
                                                 "complete"}));
  EXPECT_EQ(keys_of(run["latency_us"]), std::set<std::string>{"read"});
  EXPECT_EQ(keys_of(run["latency_us"]["read"]),
            (std::set<std::string>{"p50", "p95", "p99", "p999", "max", "min", "mean", "samples", "curve"}));
  EXPECT_EQ(run["latency_us"]["read"]["curve"].back(), Json::parse("[100.0, 2.0]"));
  EXPECT_EQ(run["latency_us"]["read"]["curve"].size(), 10U) << "1001 samples tell percentiles up to 99 and the maximum";
  EXPECT_EQ(json["left_out"][0]["reason"], "cannot");
  EXPECT_EQ(json["errors"][0]["message"], "no space");
  EXPECT_EQ(run["latency_us"]["read"]["p50"], 1.5);
  EXPECT_EQ(run["latency_us"]["read"]["max"], 2.0);
  EXPECT_EQ(run["memory"], Json::parse(R"({"dram_bytes": 4000, "dram_bytes_unsettled": 4500,
                                           "nvm_bytes": 28000, "log_bytes": 900, "user_bytes": 16000,
                                           "space_efficiency": 0.5})"));
  EXPECT_EQ(run["nvm"],
            Json::parse(
                R"({"bytes_stored": 1, "media_bytes": 2, "flushes": 3, "fences": 4, "gets": 5, "gets_answered": 6})"));
  EXPECT_TRUE(run["fabric"].is_null());
  EXPECT_EQ(run["durability"], "durable");
  EXPECT_EQ(run["depth"], 16);
  EXPECT_EQ(run["failures"], 3);
}

TEST(Results, AbsentFactsAreNull) {
  RunResult run;
  const Json json = Json::parse(results_json({Manifest(), {run}, {}, {}}));
  for (const char* key : {"commit", "cpu", "kernel", "medium", "domain"}) {
    EXPECT_TRUE(json["manifest"][key].is_null()) << key;
  }
  const Json& out = json["runs"][0];
  for (const char* key : {"durability", "nvm", "fabric", "target_ops_per_s", "intended_latency_us"})
    EXPECT_TRUE(out[key].is_null()) << key;
  for (const auto& [key, value] : out["memory"].items()) EXPECT_TRUE(value.is_null()) << key;
  EXPECT_TRUE(out["latency_us"].is_object());
}

TEST(Csv, QuotesWhatNeedsItAndLeavesAbsentFactsEmpty) {
  const auto rows = nlohmann::ordered_json::parse(R"([{"a": 1.5, "b": "x,\"y\""}, {"a": null, "c": true}])");
  EXPECT_EQ(csv_text({"a", "b", "c"}, rows), "a,b,c\n1.5,\"x,\"\"y\"\"\",\n,,true\n");
}

TEST(Csv, HasOneLinePerRunAndNoColumnForAnObjectThatIsNull) {
  RunResult volatile_run = full_run();
  volatile_run.nvm.reset();
  const auto json = nlohmann::ordered_json::parse(results_json({Manifest(), {volatile_run, full_run()}, {}, {}}));
  const std::string csv = runs_csv(json);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_EQ(csv.find(",nvm,"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",nvm_bytes_stored,nvm_media_bytes,nvm_flushes,nvm_fences"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",fabric,"), std::string::npos) << csv;
}

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
            "[READ-MODIFY-WRITE], Operations, 100\n[READ-MODIFY-WRITE], Return=OK, 100\n");
  run.intended_latency[static_cast<size_t>(OpKind::kRead)].record(7000);
  EXPECT_NE(ycsb_text(run).find("[Intended-READ], Operations, 400\n[Intended-READ], AverageLatency(us), 7.0\n"),
            std::string::npos);
}

TEST(Results, AreWrittenWhole) {
  const std::string path = testing::TempDir() + "/bench_results.json";
  ASSERT_TRUE(write_file(path, "one").ok());
  ASSERT_TRUE(write_file(path, "two").ok());
  std::ifstream in(path);
  std::string text;
  std::getline(in, text);
  EXPECT_EQ(text, "two");
  EXPECT_FALSE(std::filesystem::exists(path + ".unfinished"));
  const Status status = write_file("/nowhere/results.json", "x");
  EXPECT_TRUE(status.IsIoError());
  EXPECT_NE(status.message().find("--out"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(Machine, DescribesItself) {
  Manifest manifest;
  describe_machine(&manifest);
  EXPECT_GE(manifest.processors, 1U);
  EXPECT_EQ(manifest.started.size(), 20U) << manifest.started;
  EXPECT_EQ(manifest.kernel.value_or("").rfind("Linux", 0), 0U);
  EXPECT_TRUE(std::filesystem::is_directory(program_directory()));
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

TEST(Table, AlignsColumns) {
  EXPECT_EQ(align({{"a", "1", "x"}, {"long", "1000", "y"}}, 1), "a        1  x\nlong  1000  y\n");
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

TEST(LatencyCounts, AreWithinAnEighth) {
  for (uint64_t ns = 1; ns < uint64_t{1} << 40; ns += 1 + ns / 7) {
    const uint64_t end = LatencyCounts::last_of(LatencyCounts::bucket(ns));
    EXPECT_GE(end, ns);
    EXPECT_LE(end - ns, ns / 8) << ns;
  }
  LatencyCounts counts;
  EXPECT_EQ(counts.percentile(99), 0U);
  for (uint64_t ns = 1; ns <= 1000; ++ns) counts.add(LatencyCounts::bucket(ns), 1);
  EXPECT_EQ(counts.count(), 1000U);
  EXPECT_NEAR(static_cast<double>(counts.percentile(50)), 500, 64);
  EXPECT_NEAR(static_cast<double>(counts.percentile(99)), 990, 64);
  LatencyCounts same = counts;
  same.subtract(counts);
  EXPECT_EQ(same.count(), 0U);
}

}  // namespace
}  // namespace bonsai::bench
