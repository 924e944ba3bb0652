// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/experiments/experiment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/studies/testing/experiment.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

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

TEST(Experiment, WritesItsChartsIfItHasAny) {
  ExperimentResult charted = result();
  EXPECT_EQ(experiment_json(experiment(), charted, Manifest()).at("charts"), Json::array());
  charted.charts = {{"A title", "thread", "kind", "ours", "theirs", {1, 0}}};
  EXPECT_EQ(experiment_json(experiment(), charted, Manifest()).at("charts").dump(),
            R"([{"title":"A title","axis":"thread","curves":"kind","figure":"ours","beside":"theirs","rows":[1,0]}])");
}

Reference named_reference() { return {{"line", "goal"}, {{1, 7}}}; }

TEST(Experiment, NamesItsRowsInWords) {
  const ExperimentResult named = {
      .columns = {{"line", "", false, {}, {"Load", "C <u>"}}, {"ratio", "times", true}, {"goal", "times", true}},
      .rows = {{0, 2.5, 3}, {1, {}, 4}},
      .labels = {},
      .medium = {}};
  Experiment made_up = experiment();
  made_up.reference = named_reference;
  const Json json = experiment_json(made_up, named, Manifest());
  EXPECT_EQ(json.at("rows").dump(), R"([{"line":"Load","ratio":2.5,"goal":3},{"line":"C <u>","ratio":null,"goal":4}])");
  EXPECT_EQ(json.at("reference").dump(), R"([{"line":"C <u>","goal":7}])");
  EXPECT_EQ(cell_text(named.columns[0], 1), "C <u>");
  EXPECT_EQ(cell_text(named.columns[1], 2.5), "2.5");
  EXPECT_EQ(cell_text(named.columns[1], {}), "-");
  // The chart has bars instead of curves, since rows have no positions.
  const std::string picture = experiment_svg(json);
  for (const char* text : {">Load<", ">C &lt;u&gt;<", ">goal<", ">ratio<", ">times<"}) {
    EXPECT_NE(picture.find(text), std::string::npos) << text << " in " << picture;
  }
  EXPECT_EQ(picture.find("<polyline"), std::string::npos) << picture;
  EXPECT_NE(experiment_section(json).find("<td>C &lt;u&gt;</td>"), std::string::npos);
}

TEST(Experiment, LeavesItsFiles) {
  const std::string directory = ::testing::TempDir() + "/bench_experiment";
  std::filesystem::remove_all(directory);
  ASSERT_TRUE(write_experiment(directory, experiment_json(experiment(), result(), Manifest())).ok());
  for (const char* suffix : {".json", ".svg", ".csv"}) {
    EXPECT_TRUE(std::filesystem::exists(directory + "/made-up" + suffix)) << suffix;
  }
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

TEST(Experiment, GivesNoVerdictOnANoisyMachine) {
  const ExperimentResult judged = {.columns = {{"line", "", false, {}, {"Load"}},
                                               {"ratio", "times", true},
                                               {"reached", "", false, {}, {"no", "yes"}, true}},
                                   .rows = {{0, 2.5, 1}},
                                   .labels = {"of 10 M records"},
                                   .medium = {},
                                   .verdicts = {"1 of 1 lines reaches its goal."}};
  ExperimentResult quiet = judged;
  settle_verdicts("", &quiet);
  EXPECT_EQ(quiet.labels, (std::vector<std::string>{"1 of 1 lines reaches its goal.", "of 10 M records"}));
  EXPECT_EQ(quiet.rows[0][2], 1);
  ExperimentResult noisy = judged;
  settle_verdicts("others took half of it", &noisy);
  EXPECT_EQ(noisy.labels, (std::vector<std::string>{"NOT JUDGED: noisy; others took half of it", "of 10 M records"}));
  EXPECT_EQ(noisy.rows[0][1], 2.5) << "figures stay";
  EXPECT_FALSE(noisy.rows[0][2].has_value());
  EXPECT_EQ(noisy.columns[2].absent, "not judged: noisy");
  ExperimentResult plain = judged;
  plain.verdicts.clear();
  plain.columns[2].verdict = false;
  ExperimentResult modelled = plain;
  modelled.labels = {"MODELLED in virtual time"};
  settle_verdicts("others took half of it", &plain);
  EXPECT_EQ(plain.labels.front(), "NOISY: others took half of it");
  EXPECT_EQ(plain.rows[0][2], 1);
  settle_verdicts("others took half of it", &modelled);
  EXPECT_EQ(modelled.labels.size(), 1U) << "virtual time does not pass by the machine's";
  Manifest manifest;
  EXPECT_TRUE(manifest_json(manifest).at("noise").is_null());
  manifest.noise = Noise{.others_percent = 50};
  EXPECT_TRUE(manifest_json(manifest).at("noise").is_string());
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
    EXPECT_EQ(find_experiments(each.name), std::vector<const Experiment*>{&each});
    const Reference figures = each.reference();
    for (const Row& row : figures.rows) EXPECT_EQ(row.size(), figures.columns.size()) << each.name;
  }
  // Published figures come from other sources, and goals from the project's own page.
  for (const Experiment& each : experiment_list()) {
    const Reference figures = each.reference();
    if (figures.rows.empty()) continue;
    EXPECT_EQ(figures.kind == ReferenceKind::kGoals, each.source.rfind("docs/", 0) == 0) << each.name;
  }
  for (const Experiment& each : experiment_list()) {
    if (each.group.empty()) continue;
    const auto group = find_experiments(each.group);
    EXPECT_NE(std::find(group.begin(), group.end(), &each), group.end()) << each.name;
  }
  EXPECT_TRUE(find_experiments("none").empty());
  EXPECT_TRUE(find_experiments("").empty());
}

}  // namespace
}  // namespace bonsai::bench
