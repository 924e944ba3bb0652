#include "bench/experiments/experiment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/driver/team.h"
#include "bench/testing/experiment.h"

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
  // Bars in place of curves, whose rows would need places.
  const std::string picture = experiment_svg(json);
  for (const char* text : {">Load<", ">C &lt;u&gt;<", ">goal<", ">ratio: times<"}) {
    EXPECT_NE(picture.find(text), std::string::npos) << text << " in " << picture;
  }
  EXPECT_EQ(picture.find("<polyline"), std::string::npos) << picture;
  EXPECT_NE(experiment_section(json).find("<td>C &lt;u&gt;</td>"), std::string::npos);
}

TEST(Experiment, LeavesItsFiles) {
  const std::string directory = testing::TempDir() + "/bench_experiment";
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

TEST(Experiment, CountsThreadsUpToWhatThereIs) {
  ExperimentPlan plan;
  EXPECT_EQ(thread_counts(plan, {1, 6, 24}), std::vector<unsigned>{1});
  plan.threads_max = 8;
  EXPECT_EQ(thread_counts(plan, {1, 6, 24}), (std::vector<unsigned>{1, 6, 8}));
}

// An engine of one record too few, or of wrong values.
class Faulty final : public Engine {
 public:
  enum class Fault { kNone, kForgets, kMixes, kScansBackwards };
  explicit Faulty(Fault fault) : fault_(fault), inner_(find_engine("std_map")->make()) {}
  [[nodiscard]] Capabilities capabilities() const override { return inner_->capabilities(); }
  Status open(const EngineOptions& options) override { return inner_->open(options); }
  Status close() override { return inner_->close(); }
  Status insert(std::string_view key, std::string_view value) override { return inner_->insert(key, value); }
  Status read(std::string_view key, std::string* value) override {
    if (fault_ == Fault::kForgets) return Status::NotFound("forgotten");
    if (fault_ == Fault::kMixes) key = mixed_.empty() ? mixed_ = key : mixed_;
    return inner_->read(key, value);
  }
  Status remove(std::string_view key) override { return inner_->remove(key); }
  Status scan(std::string_view from, uint32_t limit, const ScanVisit& visit) override {
    if (fault_ == Fault::kScansBackwards) visit(std::string(8, '\0'), "8 bytes.");
    return inner_->scan(from, limit, visit);
  }

 private:
  const Fault fault_;
  std::string mixed_;
  std::unique_ptr<Engine> inner_;
};

Status run_member(Faulty::Fault fault, Member member, TeamResult* result, bool stopped = false) {
  const std::atomic<bool> stop = stopped;
  const std::atomic<bool> never = false;
  Faulty engine(fault);
  TeamPlan plan;
  plan.records = 5000;
  plan.ms = 20;
  plan.zipfian = member.depth > 1;
  plan.members = {member};
  plan.stop = &stop;
  EngineOptions options;
  options.records_max = 10000;
  EXPECT_TRUE(engine.open(options).ok());
  EXPECT_TRUE(load_for_team(&engine, plan.shape, plan.records, 1, never).ok());
  return run_team(&engine, plan, result);
}

TEST(Team, CountsWhatItsMembersDo) {
  TeamResult result;
  ASSERT_TRUE(run_member(Faulty::Fault::kNone, {Part::kGet}, &result).ok());
  EXPECT_GT(result.operations[0], 0U);
  EXPECT_EQ(result.operations, result.records);
  EXPECT_GE(result.seconds, 0.02);
  ASSERT_TRUE(run_member(Faulty::Fault::kNone, {Part::kPut}, &result).ok());
  EXPECT_GT(result.operations[0], 0U);
  ASSERT_TRUE(run_member(Faulty::Fault::kNone, {Part::kScan, 10}, &result).ok());
  EXPECT_GT(result.records[0], 9 * result.operations[0]);
  EXPECT_LE(result.records[0], 10 * result.operations[0]);
  ASSERT_TRUE(run_member(Faulty::Fault::kNone, {.part = Part::kMix, .depth = 8}, &result).ok());
  EXPECT_GT(result.operations[0], 0U);
  EXPECT_EQ(result.operations, result.records);
  // 100 K per second for 20 ms, in strides of a hundred.
  ASSERT_TRUE(run_member(Faulty::Fault::kNone,
                         {.part = Part::kStream, .scan_records = 100, .records_per_s_max = 100'000}, &result)
                  .ok());
  EXPECT_GT(result.records[0], 0U);
  EXPECT_LE(static_cast<double>(result.records[0]), 100'000 * result.seconds + 200);
}

TEST(Team, FindsFaults) {
  TeamResult result;
  EXPECT_TRUE(run_member(Faulty::Fault::kForgets, {Part::kGet}, &result).IsUnavailable());
  EXPECT_TRUE(run_member(Faulty::Fault::kMixes, {Part::kGet}, &result).IsUnavailable());
  EXPECT_TRUE(run_member(Faulty::Fault::kMixes, {.part = Part::kGet, .depth = 8}, &result).IsUnavailable());
  EXPECT_TRUE(run_member(Faulty::Fault::kForgets, {.part = Part::kMix, .depth = 8}, &result).IsUnavailable());
  EXPECT_TRUE(run_member(Faulty::Fault::kScansBackwards, {Part::kScan, 10}, &result).IsUnavailable());
  EXPECT_TRUE(run_member(Faulty::Fault::kNone, {Part::kGet}, &result, true).IsUnavailable());
}

TEST(ExperimentList, HasNamesOfItsOwnAndFigures) {
  std::set<std::string_view> names;
  for (const Experiment& each : experiment_list()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_EQ(find_experiments(each.name), std::vector<const Experiment*>{&each});
    const Reference figures = each.reference();
    for (const Row& row : figures.rows) EXPECT_EQ(row.size(), figures.columns.size()) << each.name;
  }
  // What is published comes from elsewhere, and the project's goals from its own page.
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
