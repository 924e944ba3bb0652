// SPDX-License-Identifier: Apache-2.0
// The frame of experiments. An experiment measures a table or figure of a paper, or the goals of docs/design.md,
// section 6, and shows it beside the published figures or the goals. `bonsai-bench experiment NAME --out=DIR` writes
// DIR/NAME.json, DIR/NAME.csv, DIR/NAME.svg and a section of DIR/report.html.
//
// An experiment is one file NAME.cc here with a variable `const Registered<Experiment>`. A study with several figures
// is a group: one Experiment per figure. A variant that cannot be measured today is a column with a reason and no
// figures.
#ifndef BONSAI_BENCH_STUDIES_EXPERIMENTS_EXPERIMENT_H_
#define BONSAI_BENCH_STUDIES_EXPERIMENTS_EXPERIMENT_H_

#include <atomic>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/driver/runner.h"
#include "bench/registered.h"
#include "bench/studies/fabric/plan.h"

namespace bonsai::bench {

enum class Scale : uint8_t {
  kTrial,  // a moment, to check that it works
  kSmall,  // seconds
  kPaper,  // as much data as the paper, or the goal
};

// Values from the command line. An experiment that uses them says so.
struct AskedFor {
  std::optional<uint64_t> records = {};
  std::optional<uint64_t> operations = {};
  std::optional<unsigned> threads = {};
  std::optional<unsigned> depth = {};
};

// The inputs of an experiment.
struct ExperimentPlan {
  Scale scale = Scale::kSmall;
  unsigned threads_max = 1;
  unsigned repeat = 1;  // of each measurement, whose median counts
  RunConfig config;     // seed, pool_dir, out_dir and pin are the user's
  AskedFor asked;
  FabricConfig fabric;  // of the experiment `fabric`
  const std::atomic<bool>* stop = nullptr;
  RunListener listener;  // gets phases, progress and notes; results stay with the experiment

  [[nodiscard]] bool is_trial() const { return scale == Scale::kTrial; }
};

struct Column {
  std::string name;
  std::string unit;
  bool charted = false;
  std::string absent = {};              // why it has no figures; empty = it has
  std::vector<std::string> words = {};  // if not empty, a figure is an index into these words
  bool verdict = false;                 // says whether a bound is kept: not shown of a noisy machine
};

// A line of the table: for each column a figure or nothing.
using Row = std::vector<std::optional<double>>;

// Curves of some of the rows. Their places on the axis are evenly spaced.
struct CurveChart {
  std::string title;
  std::string axis;    // the column of places, which are numbers
  std::string curves;  // a column of words; the rows of one word are one curve
  std::string figure;  // a charted column
  std::string beside;  // a charted column whose curves are dashed
  std::vector<size_t> rows;
};

struct ExperimentResult {
  // The first column is the horizontal axis of the chart; if it has words, the chart has bars.
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::vector<std::string> labels;  // what a reader must know: emulation, size, what differs from the paper
  std::optional<MediumUse> medium;
  std::vector<std::string> verdicts = {};  // labels that say whether bounds are kept: not shown of a noisy machine
  std::vector<CurveChart> charts = {};     // if not empty, the picture has these in place of the chart of all rows
};

// The kind of figures that results are compared with.
enum class ReferenceKind : uint8_t {
  kPublished,  // figures of the paper that Experiment::source names, from other hardware
  kGoals,      // docs/design.md, section 6
};

// The figures to compare with, possibly none. Columns have the names and words of the columns in ExperimentResult.
struct Reference {
  std::vector<std::string> columns;
  std::vector<Row> rows;
  ReferenceKind kind = ReferenceKind::kPublished;
  std::string origin = {};  // of published figures: repository, commit and path, or the page of a paper
};
// All of a table of published.json.
[[nodiscard]] Reference published_reference(std::string_view table);
// For an experiment without a reference.
[[nodiscard]] inline Reference no_reference() { return {}; }

struct Experiment {
  std::string_view name;
  std::string_view title;
  std::string_view source;  // the paper or section that has the figures or the goals (docs/design.md, section 7)
  std::string_view what;    // one line for `bonsai-bench list`
  Status (*run)(const ExperimentPlan& plan, ExperimentResult* result);
  Reference (*reference)();
  std::string_view group = {};  // `experiment GROUP` runs all of it
};

// Every experiment of this build.
[[nodiscard]] inline const std::vector<Experiment>& experiment_list() { return Registered<Experiment>::all(); }
inline constexpr std::string_view kAllExperiments = "all";
// The experiment called `name`, all of the group `name`, all experiments for kAllExperiments, or none.
[[nodiscard]] std::vector<const Experiment*> find_experiments(std::string_view name);

// Runs the steps once on the engines, which take turns; *results has every phase in order. Errors: Unavailable when
// operations failed or the user interrupted, others as run_engines_in_turns().
Status measure_in_turns(const ExperimentPlan& plan, const std::vector<EngineEntry>& engines, const RunConfig& config,
                        const std::vector<Step>& steps, std::vector<RunResult>* results);

// Runs one workload plan.repeat times, each on a freshly loaded engine; *result is the median run. Errors: Unavailable
// when operations failed or the user interrupted, NotSupported when the engine cannot run the workload, others as
// run_engine().
Status measure(const ExperimentPlan& plan, const EngineEntry& engine, const RunConfig& config, const Workload& workload,
               RunResult* result);

// A cell as text: its word, a whole number below a million, another figure with four digits, or a dash.
[[nodiscard]] std::string cell_text(const Column& column, const std::optional<double>& cell);

// The heading above the reference of the experiment with this JSON.
[[nodiscard]] std::string reference_heading(const nlohmann::ordered_json& experiment);

// The columns of a reference, with the words of the result's columns of the same names.
[[nodiscard]] std::vector<Column> reference_columns(const Reference& reference, const ExperimentResult& result);

// Sets this reason for columns without any figure, unless they have one.
void explain_empty_columns(std::string_view reason, ExperimentResult* result);

// Puts the verdicts before the labels. Of a machine that was in use, whose `noise` says why, it takes all verdicts
// away; it says so, unless the figures are of a model in virtual time.
void settle_verdicts(const std::string& noise, ExperimentResult* result);

// The counts in `wanted` that are at most plan.threads_max, and threads_max itself.
[[nodiscard]] std::vector<unsigned> thread_counts(const ExperimentPlan& plan, const std::vector<unsigned>& wanted);

// The content of DIR/NAME.json (docs/results.md).
[[nodiscard]] nlohmann::ordered_json experiment_json(const Experiment& experiment, const ExperimentResult& result,
                                                     const Manifest& manifest);

// The section of the report, and the picture as a separate file, both from such JSON.
[[nodiscard]] std::string experiment_section(const nlohmann::ordered_json& experiment);
[[nodiscard]] std::string experiment_svg(const nlohmann::ordered_json& experiment);

// True if `json` has the form that experiment_json() writes.
[[nodiscard]] bool is_experiment(const nlohmann::ordered_json& json);

// Writes NAME.json, NAME.csv and NAME.svg. Errors: IoError.
Status write_experiment(const std::string& directory, const nlohmann::ordered_json& experiment);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_EXPERIMENT_H_
