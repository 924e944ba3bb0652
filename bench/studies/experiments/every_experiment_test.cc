// SPDX-License-Identifier: Apache-2.0
// Runs every experiment at trial size: the result has the form that its readers rely on, names what was emulated or
// made smaller, and the run can be interrupted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/testing/budget.h"
#include "bench/report/svg.h"
#include "bench/results/csv.h"
#include "bench/studies/claims/claims.h"
#include "bench/studies/experiments/experiment.h"
#include "testing/scratch.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;
using bonsai::testing::budget;

// These take some seconds to a minute even at trial size. The tests of rivals run those of synthesis by day. The
// figures of MELT share their samples and have a test of their own.
const std::set<std::string_view> kSlow = {"recovery",        "striping-units",        "synthesis-costs",
                                          "synthesis-rates", "synthesis-sensitivity", "synthesis-tuning"};

std::vector<const Experiment*> experiments() {
  std::vector<const Experiment*> chosen;
  for (const Experiment& each : experiment_list()) {
    if (each.group == "melt" || (kSlow.contains(each.name) && budget(0, 0, 1) == 0)) continue;
    chosen.push_back(&each);
  }
  return chosen;
}

std::string name_of(const ::testing::TestParamInfo<const Experiment*>& experiment) {
  std::string name(experiment.param->name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class EveryExperiment : public ::testing::TestWithParam<const Experiment*> {
 protected:
  EveryExperiment() {
    plan_.scale = Scale::kTrial;
    plan_.asked.records = 2000;
    plan_.asked.operations = 1000;
    plan_.config.out_dir = folder_.file("out");
    // The far side of other providers would be this program, which has no such command.
    plan_.fabric.providers = {&fabric_provider(FarSide::kSameThread)};
    plan_.fabric.grid = {{rdma::Verb::kRead, rdma::Verb::kSend}, {64, 512}, {1, 4}, {1, 2}};
    plan_.stop = &stop_;
    plan_.listener = {
        .on_phase = [this](const std::string&, const std::string& phase, uint64_t) { phases_.push_back(phase); },
        .on_progress = {},
        .on_result = {},
        .on_note = [this](const std::string& note) { notes_.push_back(note); },
        .on_left_out = {}};
    std::filesystem::create_directories(plan_.config.out_dir);
  }
  Status run() { return GetParam()->run(plan_, &result_); }

  testing::ScratchFolder folder_;
  std::atomic<bool> stop_{false};
  ExperimentPlan plan_;
  ExperimentResult result_;
  std::vector<std::string> phases_, notes_;
};
INSTANTIATE_TEST_SUITE_P(Experiments, EveryExperiment, ::testing::ValuesIn(experiments()), name_of);

// Describes a fault of the table; empty = none.
std::string wrong_in_table(const ExperimentResult& result) {
  if (result.columns.size() < 2 || result.rows.empty()) return "nothing is in it";
  std::set<std::string> names;
  bool charted = false;
  for (const Column& column : result.columns) {
    if (column.name.empty() || !names.insert(column.name).second) return "two columns are called '" + column.name + "'";
    charted = charted || column.charted;
  }
  if (!charted) return "no column is in the chart";
  if (result.columns[0].charted) return "the axis is a series, too";
  std::vector<size_t> figures(result.columns.size());
  for (const Row& row : result.rows) {
    if (row.size() != result.columns.size()) return "a row has " + std::to_string(row.size()) + " cells";
    if (!row[0]) return "a row has no place";
    for (size_t i = 0; i < row.size(); ++i) {
      if (!row[i]) continue;
      ++figures[i];
      if (!std::isfinite(*row[i])) return "a figure of " + result.columns[i].name + " is no number";
      const size_t words = result.columns[i].words.size();
      if (words > 0 && (*row[i] < 0 || *row[i] >= static_cast<double>(words))) return "a word is not in its list";
    }
  }
  for (size_t i = 0; i < figures.size(); ++i) {
    const bool absent = !result.columns[i].absent.empty();
    if (absent && figures[i] > 0) return result.columns[i].name + " has figures and a reason for having none";
    if (!absent && figures[i] == 0) return result.columns[i].name + " has neither figures nor a reason";
  }
  return {};
}

// Names facts that the page withholds from a reader; empty = none.
std::string unsaid(const Json& json, const std::string& page) {
  std::vector<std::string> must = {json.at("title"), json.at("source"), json.at("name")};
  for (const Json& label : json.at("labels")) must.push_back(label);
  for (const auto& [column, reason] : json.at("absent").items()) must.push_back(reason);
  for (const Json& column : json.at("columns")) must.push_back(column);
  if (!json.at("reference").empty()) must.push_back(reference_heading(json));
  for (const std::string& text : must) {
    if (page.find(escaped(text)) == std::string::npos) return text;
  }
  return {};
}

// Names columns that claims are judged by and that this result has not; empty = none. Sizes in names are of
// Scale::kPaper.
std::string missing_for_claims(const Json& json) {
  std::string missing;
  for (const Claim& claim : claims().claims) {
    for (const std::optional<ClaimedFigure>& figure : {claim.figure, claim.over}) {
      if (!figure || figure->experiment != json.at("name")) continue;
      const bool sized = figure->columns.front().find(" 1 M") != std::string::npos;
      if (const std::string fault = find_figure(json, *figure).fault; !fault.empty() && !sized) missing += fault + "\n";
    }
  }
  return missing;
}

TEST_P(EveryExperiment, LeavesATableThatItsReadersCanRelyOn) {
  const Status status = run();
  ASSERT_TRUE(status.ok()) << status.ToString();
  settle_verdicts("", &result_);
  EXPECT_EQ(wrong_in_table(result_), "");
  EXPECT_FALSE(phases_.empty()) << "nobody who waits sees what goes on";
  const Experiment& experiment = *GetParam();
  const Reference reference = experiment.reference();
  if (!reference.columns.empty()) {
    EXPECT_EQ(reference.columns[0], result_.columns[0].name) << "the figures to compare with have another axis";
  }
  ASSERT_FALSE(result_.labels.empty());
  std::string labels;
  for (const std::string& label : result_.labels) {
    EXPECT_FALSE(label.empty());
    labels += label + "\n";
  }
  for (const char* wrong : {"nan", " inf", "%s", "-nan", "  "})
    EXPECT_EQ(labels.find(wrong), std::string::npos) << labels;
  // Machines that run tests have no such device: the result names the substitute, or its labels do.
  if (result_.medium) {
    EXPECT_TRUE(result_.medium->emulated) << result_.medium->text;
    EXPECT_FALSE(result_.medium->text.empty());
  }

  const Json json = experiment_json(experiment, result_, Manifest());
  ASSERT_TRUE(is_experiment(json));
  EXPECT_EQ(unsaid(json, experiment_section(json)), "");
  EXPECT_EQ(missing_for_claims(json), "");
  ASSERT_TRUE(write_experiment(plan_.config.out_dir, json).ok());
  const std::string path = plan_.config.out_dir + "/" + std::string(experiment.name);
  std::ifstream in(path + ".json");
  EXPECT_EQ(Json::parse(in, nullptr, false), json) << "what is read back is what was written";
  std::ifstream csv(path + ".csv");
  size_t lines = 0;
  for (std::string line; std::getline(csv, line);) ++lines;
  EXPECT_EQ(lines, 1 + result_.rows.size());
  std::ifstream svg(path + ".svg");
  const std::string picture((std::istreambuf_iterator<char>(svg)), {});
  EXPECT_EQ(picture.find("nan"), std::string::npos);
  EXPECT_EQ(picture.find("inf\""), std::string::npos);
}

TEST_P(EveryExperiment, EndsWhenItIsInterrupted) {
  stop_ = true;
  const Status before = run();
  EXPECT_TRUE(before.IsUnavailable()) << before.ToString();
  stop_ = false;
  phases_.clear();
  result_ = ExperimentResult();
  plan_.listener.on_phase = [this](const std::string&, const std::string& phase, uint64_t) {
    phases_.push_back(phase);
    stop_ = true;
  };
  const Status amid = run();
  EXPECT_TRUE(amid.IsUnavailable()) << amid.ToString();
  EXPECT_LE(phases_.size(), 2U) << "it went on after the interruption";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(plan_.config.out_dir)) {
    EXPECT_TRUE(entry.is_directory()) << "left behind: " << entry.path();
  }
}

// Tests of the judges above, on tables with one fault each.
TEST(WrongTables, AreFound) {
  const ExperimentResult sound{
      .columns = {{"thread", "threads"}, {"ours", "M/s", true}, {"theirs", "M/s", true, "why"}},
      .rows = {{1, 2.5, {}}, {2, {}, {}}},
      .labels = {"a label & more"},
      .medium = {}};
  EXPECT_EQ(wrong_in_table(sound), "");
  const auto broken = [&](const std::function<void(ExperimentResult*)>& breaks) {
    ExperimentResult result = sound;
    breaks(&result);
    return wrong_in_table(result);
  };
  const std::vector<std::pair<std::function<void(ExperimentResult*)>, const char*>> cases = {
      {[](auto* result) { result->rows.clear(); }, "nothing is in it"},
      {[](auto* result) { result->columns[1].name = "thread"; }, "two columns"},
      {[](auto* result) { result->columns[1].charted = result->columns[2].charted = false; }, "no column"},
      {[](auto* result) { result->columns[0].charted = true; }, "the axis"},
      {[](auto* result) { result->rows[1].pop_back(); }, "2 cells"},
      {[](auto* result) { result->rows[1][0].reset(); }, "no place"},
      {[](auto* result) { result->rows[0][1] = NAN; }, "no number"},
      {[](auto* result) {
         result->columns[0].words = {"zero", "one"};
       },
       "not in its list"},
      {[](auto* result) { result->rows[0][2] = 1; }, "a reason for having none"},
      {[](auto* result) { result->rows[0][1].reset(); }, "neither figures nor a reason"}};
  for (const auto& [breaks, says] : cases) {
    EXPECT_NE(broken(breaks).find(says), std::string::npos) << says << ", not: " << broken(breaks);
  }
  const Experiment made_up{"made-up", "A title", "a paper", "what", nullptr, [] { return Reference(); }};
  const Json json = experiment_json(made_up, sound, Manifest());
  std::string page = experiment_section(json);
  EXPECT_EQ(unsaid(json, page), "");
  page.replace(page.find("a label &amp; more"), 5, "A LAB");
  EXPECT_EQ(unsaid(json, page), "a label & more");
}

}  // namespace
}  // namespace bonsai::bench
