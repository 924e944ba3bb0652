#include "bench/experiment.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/report.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

Reference reference() { return {{"thread", "ours", "theirs"}, {{6, 1.25, {}}}}; }

Experiment experiment() { return {"made-up", "A <title>", "seed 0", "what", nullptr, reference}; }

ExperimentResult result() {
  return {.columns = {{"thread", "threads"}, {"ours", "Mop/s", true}, {"theirs", "Mop/s", true, "not built"}},
          .rows = {{1, 2.5, {}}, {2, 4.25, {}}},
          .labels = {"EMULATED"},
          .medium = {}};
}

RunListener silent() {
  return {.on_phase = [](const std::string&, const std::string&, uint64_t) {},
          .on_progress = [](const PhaseProgress&) {},
          .on_result = {},
          .on_note = [](const std::string&) {},
          .on_left_out = {}};
}

TEST(Experiment, WritesWhatItMeasuredBesideTheReference) {
  const Json json = experiment_json(experiment(), result(), Manifest());
  EXPECT_EQ(json.at("columns"), Json::parse(R"(["thread", "ours", "theirs"])"));
  EXPECT_EQ(json.at("rows").dump(),
            R"([{"thread":1,"ours":2.5,"theirs":null},{"thread":2,"ours":4.25,"theirs":null}])");
  EXPECT_EQ(json.at("reference").dump(), R"([{"thread":6,"ours":1.25,"theirs":null}])");
  EXPECT_EQ(json.at("absent").dump(), R"({"theirs":"not built"})");
  EXPECT_TRUE(is_experiment(json));
  for (const char* part : {"columns", "rows", "manifest", "version"}) {
    Json broken = json;
    broken.erase(part);
    EXPECT_FALSE(is_experiment(broken)) << part;
  }
  EXPECT_FALSE(is_experiment(Json::parse("[1]")));
}

TEST(Experiment, LeavesItsFilesAndASectionOfTheReport) {
  const std::string directory = testing::TempDir() + "/bench_experiment";
  std::filesystem::remove_all(directory);
  EXPECT_TRUE(write_report(directory).IsNotFound());
  ASSERT_TRUE(write_experiment(directory, experiment_json(experiment(), result(), Manifest())).ok());
  std::ofstream(directory + "/other.json") << "no JSON";
  ASSERT_TRUE(write_report(directory).ok());
  std::ifstream in(directory + "/report.html");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(page.find("Experiment made-up"), std::string::npos);
  EXPECT_NE(page.find("A &lt;title&gt;"), std::string::npos);
  EXPECT_NE(page.find("theirs: not built"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(directory + "/made-up.svg"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/made-up.csv"));
  std::ofstream(directory + "/results.json") << R"({"version": 99})";
  EXPECT_EQ(write_report(directory).code(), Status::Code::kNotSupported);
  std::ofstream(directory + "/results.json") << R"({"version": 1, "runs": [{}]})";
  EXPECT_EQ(write_report(directory).code(), Status::Code::kCorruption);
  std::ofstream(directory + "/results.json") << "{";
  EXPECT_EQ(write_report(directory).code(), Status::Code::kCorruption);
  std::filesystem::remove_all(directory);
}

TEST(Experiment, MeasuresAWorkloadOrSaysWhyNot) {
  const std::atomic<bool> running = false;
  const std::atomic<bool> stopped = true;
  ExperimentPlan plan;
  plan.stop = &running;
  plan.repeat = 3;
  plan.listener = silent();
  RunConfig config;
  config.records = 500;
  config.operations = 1000;
  Workload reads;
  reads.name = "c";
  reads.shares = {1};
  RunResult run;
  ASSERT_TRUE(measure(plan, *find_engine("absl_btree"), config, reads, &run).ok());
  EXPECT_EQ(run.workload, "c");
  EXPECT_EQ(run.repeats_ops_per_s.size(), 3U);
  Workload scans = reads;
  scans.shares = {0, 0, 0, 1};
  EXPECT_EQ(measure(plan, *find_engine("unordered_map"), config, scans, &run).code(), Status::Code::kNotSupported);
  plan.stop = &stopped;
  EXPECT_TRUE(measure(plan, *find_engine("absl_btree"), config, reads, &run).IsUnavailable());
}

TEST(Experiment, CountsThreadsUpToWhatThereIs) {
  ExperimentPlan plan;
  EXPECT_EQ(thread_counts(plan, {1, 6, 24}), std::vector<unsigned>{1});
  plan.threads_max = 8;
  EXPECT_EQ(thread_counts(plan, {1, 6, 24}), (std::vector<unsigned>{1, 6, 8}));
}

TEST(ExperimentList, HasNamesOfItsOwnAndFigures) {
  std::set<std::string_view> names;
  for (const Experiment& each : experiment_list()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_EQ(find_experiment(each.name), &each);
    const Reference figures = each.reference();
    EXPECT_FALSE(figures.rows.empty());
    for (const Row& row : figures.rows) EXPECT_EQ(row.size(), figures.columns.size()) << each.name;
  }
  EXPECT_EQ(find_experiment("none"), nullptr);
}

}  // namespace
}  // namespace bonsai::bench
