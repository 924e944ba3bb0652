// SPDX-License-Identifier: Apache-2.0
#include "bench/results/results.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/results/csv.h"
#include "bench/results/machine.h"
#include "bench/testing/run.h"

namespace bonsai::bench {
namespace {

using Facts = nlohmann::json;  // members in any order

std::set<std::string> keys_of(const Facts& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

TEST(Results, SayWhatEachThreadDid) {
  const Facts json = Facts::parse(results_json({Manifest(), {full_run()}, {}, {}}));
  EXPECT_EQ(json["runs"][0]["thread_times"],
            Facts::parse(R"([{"operations": 490, "seconds": 0.5, "slept_seconds": 0.25, "cpu_seconds": 0.125,
                             "deviation_percent": -2.0}])"));
}

TEST(Results, HaveTheDocumentedShape) {
  Manifest manifest;
  manifest.commit = "abc";
  manifest.seed = 7;
  manifest.flags = {{"records", "1000"}};
  manifest.emulated = {"NVM: tmpfs"};
  const Facts json =
      Facts::parse(results_json({manifest, {full_run()}, {{"lmdb", "x", "cannot"}}, {{"rocksdb", "no space"}}}));
  EXPECT_EQ(json["version"], kResultsVersion);
  EXPECT_EQ(keys_of(json), (std::set<std::string>{"version", "manifest", "runs", "left_out", "errors"}));
  for (const char* key : {"commit", "cpu", "kernel", "medium", "domain", "flags", "seed"}) {
    EXPECT_TRUE(json["manifest"].contains(key)) << key;
  }
  const Facts& run = json["runs"][0];
  std::istringstream names(
      "engine workload key value_size records operations threads depth distribution durability throughput_ops_per_s "
      "failures latency_us memory huge_pages nvm fabric medium emulated seconds settle_seconds operations_of requests "
      "warmup_operations target_ops_per_s interval_ms seconds_max cpu_seconds joules thread_times pinned "
      "repeats_ops_per_s absent latency_every intended_latency_us failures_of first_failure complete");
  EXPECT_EQ(keys_of(run),
            (std::set<std::string>{std::istream_iterator<std::string>(names), std::istream_iterator<std::string>()}));
  EXPECT_EQ(keys_of(run["latency_us"]), std::set<std::string>{"read"});
  EXPECT_EQ(keys_of(run["latency_us"]["read"]),
            (std::set<std::string>{"p50", "p95", "p99", "p999", "max", "min", "mean", "samples", "curve"}));
  EXPECT_EQ(run["latency_us"]["read"]["curve"].back(), Facts::parse("[100.0, 2.0]"));
  EXPECT_EQ(run["latency_us"]["read"]["curve"].size(), 10U) << "1001 samples tell percentiles up to 99 and the maximum";
  EXPECT_EQ(json["left_out"][0]["reason"], "cannot");
  EXPECT_EQ(json["errors"][0]["message"], "no space");
  EXPECT_EQ(run["latency_us"]["read"]["p50"], 1.5);
  EXPECT_EQ(run["latency_us"]["read"]["max"], 2.0);
  EXPECT_EQ(run["memory"], Facts::parse(R"({"dram_bytes": 4000, "dram_bytes_unsettled": 4500,
                                           "process_bytes": 5000, "process_bytes_unsettled": null,
                                           "nvm_bytes": 28000, "log_bytes": 900, "user_bytes": 16000,
                                           "reserved_bytes": 32000, "used_bytes_max": 33000,
                                           "reserved_bytes_max": 40000, "space_efficiency_sampled": 0.45,
                                           "samples": 2, "space_efficiency": 0.5})"));
  EXPECT_EQ(run["nvm"],
            Facts::parse(
                R"({"bytes_stored": 1, "media_bytes": 2, "flushes": 3, "fences": 4, "gets": 5, "gets_answered": 6})"));
  EXPECT_EQ(run["fabric"], Facts::parse(R"({"round_trips": 7, "messages": 8, "bytes": 9})"));
  EXPECT_EQ(run["durability"], "durable");
  EXPECT_EQ(run["depth"], 16);
  EXPECT_EQ(run["failures"], 3);
}

TEST(Results, AbsentFactsAreNull) {
  RunResult run;
  const Facts json = Facts::parse(results_json({Manifest(), {run}, {}, {}}));
  for (const char* key : {"commit", "cpu", "kernel", "medium", "domain"}) {
    EXPECT_TRUE(json["manifest"][key].is_null()) << key;
  }
  const Facts& out = json["runs"][0];
  for (const char* key : {"durability", "nvm", "fabric", "target_ops_per_s", "intended_latency_us", "interval_ms",
                          "seconds_max", "joules"})
    EXPECT_TRUE(out[key].is_null()) << key;
  for (const auto& [key, value] : out["memory"].items()) EXPECT_TRUE(value.is_null() || key == "samples") << key;
  EXPECT_TRUE(out["latency_us"].is_object());
}

TEST(MemorySamples, AreOfWhatIsKnown) {
  MemorySamples samples;
  samples.add({}, 100);
  EXPECT_EQ(samples.count, 0U);
  samples.add({.dram_bytes = 200}, 100);
  samples.add({.dram_bytes = 100, .nvm_bytes = 300, .reserved_bytes = 1000}, 400);
  EXPECT_EQ(samples.count, 2U);
  EXPECT_EQ(samples.used_bytes_max, 400U);
  EXPECT_EQ(samples.reserved_bytes_max, 1000U);
  EXPECT_DOUBLE_EQ(samples.space_efficiency.value_or(0), 0.75);
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
  EXPECT_NE(csv.find(",fabric_round_trips,fabric_messages,fabric_bytes"), std::string::npos) << csv;
}

TEST(Results, AreWrittenWhole) {
  const std::string path = ::testing::TempDir() + "/bench_results.json";
  ASSERT_TRUE(write_file(path, "one").ok());
  ASSERT_TRUE(write_file(path, "two").ok());
  std::ifstream in(path);
  std::string text;
  std::getline(in, text);
  EXPECT_EQ(text, "two");
  // Files of others with names like those of half-written files stay.
  const std::string foreign = path + ".unfinished", taken = path + "." + std::to_string(::getpid()) + ".unfinished";
  for (const std::string& each : {foreign, taken}) std::ofstream(each) << "of somebody";
  EXPECT_TRUE(write_file(path, "three").IsIoError()) << "its own name is taken";
  std::filesystem::remove(taken);
  ASSERT_TRUE(write_file(path, std::string(1'000'000, 'x')).ok());
  EXPECT_EQ(std::filesystem::file_size(path), 1'000'000U);
  EXPECT_FALSE(std::filesystem::exists(taken));
  EXPECT_EQ(std::filesystem::file_size(foreign), std::string("of somebody").size());
  std::filesystem::remove(foreign);
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

}  // namespace
}  // namespace bonsai::bench
