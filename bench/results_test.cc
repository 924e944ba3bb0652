#include "bench/results.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/machine.h"
#include "bench/terminal.h"

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
  run.nvm = NvmUse{1, 2, 3, 4};
  return run;
}

TEST(Results, HaveTheDocumentedShape) {
  Manifest manifest;
  manifest.commit = "abc";
  manifest.seed = 7;
  manifest.flags = {{"records", "1000"}};
  manifest.emulated = {"NVM: tmpfs"};
  const Json json = Json::parse(results_json(manifest, {full_run()}));
  EXPECT_EQ(json["version"], kResultsVersion);
  EXPECT_EQ(keys_of(json), (std::set<std::string>{"version", "manifest", "runs"}));
  for (const char* key : {"commit", "cpu", "kernel", "medium", "domain", "flags", "seed"}) {
    EXPECT_TRUE(json["manifest"].contains(key)) << key;
  }
  const Json& run = json["runs"][0];
  EXPECT_EQ(keys_of(run),
            (std::set<std::string>{"engine", "workload", "key", "value_size", "records", "operations", "threads",
                                   "depth", "distribution", "durability", "throughput_ops_per_s", "failures",
                                   "latency_us", "memory", "nvm", "fabric"}));
  EXPECT_EQ(keys_of(run["latency_us"]), std::set<std::string>{"read"});
  EXPECT_EQ(keys_of(run["latency_us"]["read"]), (std::set<std::string>{"p50", "p95", "p99", "p999", "max"}));
  EXPECT_EQ(run["latency_us"]["read"]["p50"], 1.5);
  EXPECT_EQ(run["latency_us"]["read"]["max"], 2.0);
  EXPECT_EQ(run["memory"], Json::parse(R"({"dram_bytes": 4000, "nvm_bytes": 28000, "user_bytes": 16000,
                                           "space_efficiency": 0.5})"));
  EXPECT_EQ(run["nvm"], Json::parse(R"({"bytes_stored": 1, "media_bytes": 2, "flushes": 3, "fences": 4})"));
  EXPECT_TRUE(run["fabric"].is_null());
  EXPECT_EQ(run["durability"], "durable");
  EXPECT_EQ(run["depth"], 16);
  EXPECT_EQ(run["failures"], 3);
}

TEST(Results, AbsentFactsAreNull) {
  RunResult run;
  const Json json = Json::parse(results_json(Manifest(), {run}));
  for (const char* key : {"commit", "cpu", "kernel", "medium", "domain"}) {
    EXPECT_TRUE(json["manifest"][key].is_null()) << key;
  }
  const Json& out = json["runs"][0];
  for (const char* key : {"durability", "nvm", "fabric"}) EXPECT_TRUE(out[key].is_null()) << key;
  for (const auto& [key, value] : out["memory"].items()) EXPECT_TRUE(value.is_null()) << key;
  EXPECT_TRUE(out["latency_us"].is_object());
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

TEST(Table, AlignsColumns) {
  EXPECT_EQ(align({{"a", "1", "x"}, {"long", "1000", "y"}}, 1), "a        1  x\nlong  1000  y\n");
}

TEST(StatusLine, TellsShareRateAndTimeLeft) {
  StatusLine line(stderr, false);
  line.start("bonsai", "a", 1000);
  EXPECT_EQ(line.text({}), "bonsai, workload a: starting");
  EXPECT_EQ(line.text({.done = 250, .seconds = 0.001, .seconds_idle = 0}),
            "bonsai, workload a: 25 %, 0.25 Mop/s, 0 s left");
  line.start("bonsai", "reload", 4'000'000);
  EXPECT_EQ(line.text({.done = 1'000'000, .seconds = 2, .seconds_idle = 0}),
            "bonsai, reload: 25 %, 0.50 Mop/s, 6 s left");
}

}  // namespace
}  // namespace bonsai::bench
