// SPDX-License-Identifier: Apache-2.0
// The fabric's providers, each request in several sizes, batches and depths, beside perftest where there is an RDMA
// device. Obeys ExperimentPlan::fabric.
#include "bench/studies/experiments/fabric.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "bench/results/statistics.h"
#include "bench/studies/fabric/perftest.h"

namespace bonsai::bench {
namespace {

// Ours / perftest's.
constexpr double kTimeGoal = 1.3, kRateGoal = 0.8;

// Scripts read the columns by these names (docs/results.md).
enum FabricColumn : size_t {
  kProvider,
  kRequest,
  kBytes,
  kBatch,
  kDepth,
  kP50,
  kP99,
  kOneWay,
  kRate,
  kTheirTime,
  kTheirRate,
  kRatio,
  kProgram,
  kGoal,
  kReached,
  kTime,
  kInFlight,
  kP50Least,
  kP50Most,
  kRateLeast,
  kRateMost,
  kRatioLeast,
  kRatioMost
};

std::vector<Column> columns() {
  return {{"provider", ""},
          {"request", ""},
          {"bytes", "bytes"},
          {"batch", "requests in one doorbell"},
          {"depth", "doorbells at once"},
          {"p50_us", "us from post to completion"},
          {"p99_us", "us from post to completion"},
          {"one_way_us", "us, half of a ping-pong"},
          {"messages_per_s", "requests/s", true},
          {"perftest_us", "us", true},
          {"perftest_messages_per_s", "requests/s", true},
          {"ratio", "ours / perftest's"},
          {"perftest", ""},
          {"goal", "ours / perftest's"},
          {"reached", "", false, {}, {"no", "yes"}},
          {"time_us", "us", true},
          {"in_flight", "requests in flight"},
          {"p50_us_least", "us, of the runs"},
          {"p50_us_most", "us, of the runs"},
          {"messages_per_s_least", "requests/s, of the runs"},
          {"messages_per_s_most", "requests/s, of the runs"},
          {"ratio_least", "our runs / perftest's median"},
          {"ratio_most", "our runs / perftest's median"}};
}

// The figure of a word in a column, which gets the word if it has not had it.
double word(std::string_view text, Column* column) {
  const auto found = std::find(column->words.begin(), column->words.end(), text);
  const auto index = static_cast<double>(found - column->words.begin());
  if (found == column->words.end()) column->words.emplace_back(text);
  return index;
}

// The figure that is compared with perftest's.
double compared(const FabricCell& cell, const FabricSample& sample) {
  return perftest_tells_latency(cell) ? sample.one_way_us.value_or(sample.p50_us) : sample.messages_per_s;
}

std::pair<double, double> least_and_most(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {*least, *most};
}

void compare_with_perftest(const FabricRow& measured, std::vector<Column>* columns, Row* row) {
  if (measured.perftest.empty()) return;
  const bool is_time = perftest_tells_latency(measured.cell);
  const double theirs = median(measured.perftest);
  const double ratio = compared(measured.cell, median(measured.samples)) / theirs;
  (*row)[is_time ? kTheirTime : kTheirRate] = theirs;
  (*row)[kRatio] = ratio;
  (*row)[kProgram] = word(perftest_program(measured.cell), &(*columns)[kProgram]);
  (*row)[kGoal] = is_time ? kTimeGoal : kRateGoal;
  (*row)[kReached] = (is_time ? ratio <= kTimeGoal : ratio >= kRateGoal) ? 1 : 0;
  std::vector<double> ratios;
  for (const FabricSample& sample : measured.samples) ratios.push_back(compared(measured.cell, sample) / theirs);
  std::tie((*row)[kRatioLeast], (*row)[kRatioMost]) = least_and_most(ratios);
}

Row row_of(const FabricRow& measured, std::vector<Column>* columns) {
  const FabricCell& cell = measured.cell;
  const FabricSample middle = median(measured.samples);
  std::vector<double> times, rates;
  for (const FabricSample& sample : measured.samples) {
    times.push_back(sample.p50_us);
    rates.push_back(sample.messages_per_s);
  }
  Row row(columns->size());
  row[kProvider] = word(measured.provider->name, &(*columns)[kProvider]);
  row[kRequest] = word(rdma::verb_name(cell.verb), &(*columns)[kRequest]);
  row[kBytes] = static_cast<double>(cell.bytes);
  row[kBatch] = static_cast<double>(cell.batch);
  row[kDepth] = static_cast<double>(cell.depth);
  row[kP50] = middle.p50_us;
  row[kP99] = middle.p99_us;
  row[kOneWay] = middle.one_way_us;
  row[kRate] = middle.messages_per_s;
  if (cell.alone()) row[kTime] = compared(cell, middle);
  row[kInFlight] = static_cast<double>(cell.batch * cell.depth);
  std::tie(row[kP50Least], row[kP50Most]) = least_and_most(times);
  std::tie(row[kRateLeast], row[kRateMost]) = least_and_most(rates);
  compare_with_perftest(measured, columns, &row);
  return row;
}

// The size in which batches and depths of this request were measured.
uint64_t least_bytes(const FabricFigures& figures, const FabricRow& row) {
  uint64_t least = row.cell.bytes;
  for (const FabricRow& other : figures.rows) {
    if (other.provider == row.provider && other.cell.verb == row.cell.verb) least = std::min(least, other.cell.bytes);
  }
  return least;
}

// Each provider has a chart by size and one by requests in flight.
std::vector<CurveChart> charts_of(const FabricFigures& figures) {
  std::vector<CurveChart> charts;
  for (const FabricSubject& subject : figures.subjects) {
    const std::string name(subject.provider->name);
    CurveChart times{name + ": time of one request", "bytes", "request", "time_us", "perftest_us", {}};
    CurveChart rates{name + ": requests per second", "in_flight", "request", "messages_per_s",
                     "perftest_messages_per_s",      {}};
    bool has_perftest = false;
    for (size_t i = 0; i < figures.rows.size(); ++i) {
      const FabricRow& row = figures.rows[i];
      if (row.provider != subject.provider) continue;
      if (row.cell.alone()) times.rows.push_back(i);
      if (row.cell.bytes == least_bytes(figures, row)) rates.rows.push_back(i);
      has_perftest = has_perftest || !row.perftest.empty();
    }
    for (CurveChart* chart : {&times, &rates}) {
      if (has_perftest) chart->title += "; dashed: perftest";
      charts.push_back(std::move(*chart));
    }
  }
  return charts;
}

std::string goal_text(const std::vector<Row>& rows) {
  size_t compared = 0, reached = 0;
  for (const Row& row : rows) {
    if (!row[kReached]) continue;
    ++compared;
    reached += *row[kReached] > 0 ? 1 : 0;
  }
  if (compared == 0) return "No comparison with perftest.";
  return std::to_string(reached) + " of " + std::to_string(compared) +
         " cells are within the goal (times at most 1.3 x perftest's, rates at least 0.8 x).";
}

std::string why_no_perftest(const FabricConfig& config, const std::vector<Row>& rows) {
  if (!config.perftest) return "a comparison with perftest was not asked for";
  const bool ran = std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row[kProgram].has_value(); });
  return ran ? "perftest measured no such cell" : "perftest needs an RDMA device, and itself at both ends";
}

void explain(const FabricConfig& config, ExperimentResult* result) {
  const auto has_one_way = [](const Row& row) { return row[kOneWay].has_value(); };
  if (std::none_of(result->rows.begin(), result->rows.end(), has_one_way)) {
    result->columns[kOneWay].absent = "only WRITE and SEND alone are timed one way";
  }
  explain_empty_columns(why_no_perftest(config, result->rows), result);
}

Status run(const ExperimentPlan& plan, ExperimentResult* result) {
  FabricConfig config = plan.fabric;
  if (plan.is_trial()) {
    config.runs = 1;
    config.perftest = false;
  }
  FabricFigures figures;
  BONSAI_RETURN_IF_ERROR(run_fabric_cells(config, *plan.stop, plan.listener, &figures));
  *result = fabric_result(config, figures);
  return Status::OK();
}

}  // namespace

ExperimentResult fabric_result(const FabricConfig& config, const FabricFigures& figures) {
  ExperimentResult result{.columns = columns(), .rows = {}, .labels = {}, .medium = {}, .charts = charts_of(figures)};
  for (const FabricRow& row : figures.rows) result.rows.push_back(row_of(row, &result.columns));
  explain(config, &result);
  for (const FabricSubject& subject : figures.subjects) {
    result.labels.push_back(std::string(subject.provider->name) + ": " + subject.label + " (" + subject.text + ")" +
                            (subject.litmus.empty() ? "" : "; litmus tests: " + subject.litmus));
  }
  result.labels.push_back("Medians of " + std::to_string(config.runs) + (config.runs == 1 ? " run" : " runs") +
                          ", cells taking turns; waits: " + (config.blocks ? "block" : "poll") +
                          "; the time of WRITE and SEND is one way. " + goal_text(result.rows));
  result.labels.insert(result.labels.end(), figures.notes.begin(), figures.notes.end());
  return result;
}

const Registered<Experiment> kFabricExperiment("fabric", []() -> std::vector<Experiment> {
  return {{"fabric", "The fabric, beside perftest", "docs/benchmarking.md",
           "times and rates of the fabric's requests by size, batch and depth, beside perftest", run, no_reference}};
});

}  // namespace bonsai::bench
