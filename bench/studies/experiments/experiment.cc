// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/experiments/experiment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status_macros.h"
#include "bench/results/csv.h"
#include "bench/results/repeats.h"
#include "bench/studies/published/published.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kExperimentVersion = 1;
constexpr const char* kPublishedName = "published";
constexpr const char* kGoalsName = "goals";

// Counts are written as whole numbers.
Json number_json(double value) {
  const bool whole = std::floor(value) == value && std::abs(value) < 1e15;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

// The word of a cell. Requires: the column has words.
const std::string& word_of(const Column& column, double cell) { return column.words.at(static_cast<size_t>(cell)); }

Json cell_json(const Column& column, const std::optional<double>& cell) {
  if (!cell) return nullptr;
  return column.words.empty() ? number_json(*cell) : Json(word_of(column, *cell));
}

Json rows_json(const std::vector<Column>& columns, const std::vector<Row>& rows) {
  Json out = Json::array();
  for (const Row& row : rows) {
    Json line = Json::object();
    for (size_t i = 0; i < columns.size(); ++i) line[columns[i].name] = cell_json(columns[i], row[i]);
    out.push_back(std::move(line));
  }
  return out;
}

Json charts_json(const std::vector<CurveChart>& charts) {
  Json out = Json::array();
  for (const CurveChart& chart : charts) {
    out.push_back({{"title", chart.title},
                   {"axis", chart.axis},
                   {"curves", chart.curves},
                   {"figure", chart.figure},
                   {"beside", chart.beside},
                   {"rows", chart.rows}});
  }
  return out;
}

// Measures one run and appends its result to *runs.
Status measure_once(const ExperimentPlan& plan, const EngineEntry& engine, const RunConfig& config,
                    const Workload& workload, std::vector<RunResult>* runs) {
  std::vector<RunResult> results;
  BONSAI_RETURN_IF_ERROR(
      measure_in_turns(plan, {engine}, config, {{.load_only = false, .workload = workload}}, &results));
  if (results.empty() || results.back().workload != workload.name) {
    return Status::NotSupported(std::string(engine.name) + " cannot run workload " + workload.name);
  }
  runs->push_back(std::move(results.back()));
  return Status::OK();
}

}  // namespace

std::vector<const Experiment*> find_experiments(std::string_view name) {
  std::vector<const Experiment*> figures;
  for (const Experiment& experiment : experiment_list()) {
    if (experiment.name == name) return {&experiment};
    if (name == kAllExperiments || (!name.empty() && experiment.group == name)) figures.push_back(&experiment);
  }
  return figures;
}

Status measure_in_turns(const ExperimentPlan& plan, const std::vector<EngineEntry>& engines, const RunConfig& config,
                        const std::vector<Step>& steps, std::vector<RunResult>* results) {
  results->clear();
  RunListener listener = plan.listener;
  listener.on_result = [results](const RunResult& one) { results->push_back(one); };
  listener.on_left_out = [&listener](const LeftOut& one) { listener.on_note(one.engine + " " + one.reason); };
  BONSAI_RETURN_IF_ERROR(run_engines_in_turns(engines, config, steps, *plan.stop, listener));
  if (*plan.stop) return Status::Unavailable("interrupted");
  for (const RunResult& one : *results) {
    if (one.failures > 0) {
      return Status::Unavailable(one.engine + ", " + one.workload + ": " + std::to_string(one.failures) +
                                 " operations failed; the first: " + one.first_failure);
    }
  }
  return Status::OK();
}

Status measure(const ExperimentPlan& plan, const EngineEntry& engine, const RunConfig& config, const Workload& workload,
               RunResult* result) {
  std::vector<RunResult> runs;
  for (unsigned i = 0; i < plan.repeat; ++i)
    BONSAI_RETURN_IF_ERROR(measure_once(plan, engine, config, workload, &runs));
  *result = merge_repeats(runs);
  return Status::OK();
}

std::string cell_text(const Column& column, const std::optional<double>& cell) {
  if (!cell) return "-";
  if (!column.words.empty()) return word_of(column, *cell);
  std::array<char, 32> text{};
  const bool is_count = std::floor(*cell) == *cell && std::abs(*cell) < 1e6;
  std::snprintf(text.data(), text.size(), is_count ? "%.0f" : "%.4g", *cell);
  return text.data();
}

Reference published_reference(std::string_view table) {
  const PublishedTable& figures = published_table(table);
  return {figures.columns, figures.rows, ReferenceKind::kPublished, origin_of(figures)};
}

std::vector<Column> reference_columns(const Reference& reference, const ExperimentResult& result) {
  std::vector<Column> columns;
  for (const std::string& name : reference.columns) {
    columns.push_back({name, ""});
    for (const Column& ours : result.columns) {
      if (ours.name == name) columns.back().words = ours.words;
    }
  }
  return columns;
}

void explain_empty_columns(std::string_view reason, ExperimentResult* result) {
  for (size_t i = 0; i < result->columns.size(); ++i) {
    const auto has_figure = [i](const Row& row) { return i < row.size() && row[i].has_value(); };
    if (!result->columns[i].absent.empty() || std::any_of(result->rows.begin(), result->rows.end(), has_figure))
      continue;
    result->columns[i].absent = reason;
  }
}

void settle_verdicts(const std::string& noise, ExperimentResult* result) {
  std::vector<std::string> labels = std::move(result->verdicts);
  result->verdicts.clear();
  const auto is_modelled = [](const std::string& label) { return label.find("MODELLED") != std::string::npos; };
  const bool by_clock = std::none_of(result->labels.begin(), result->labels.end(), is_modelled);
  if (!noise.empty()) {
    bool judges = !labels.empty();
    labels.clear();
    for (size_t i = 0; i < result->columns.size(); ++i) {
      if (!result->columns[i].verdict) continue;
      judges = true;
      result->columns[i].absent = "not judged: noisy";
      for (Row& row : result->rows) row[i].reset();
    }
    if (judges || by_clock) labels = {(judges ? "NOT JUDGED: noisy; " : "NOISY: ") + noise};
  }
  result->labels.insert(result->labels.begin(), labels.begin(), labels.end());
}

std::vector<unsigned> thread_counts(const ExperimentPlan& plan, const std::vector<unsigned>& wanted) {
  std::vector<unsigned> counts = {plan.threads_max};
  for (const unsigned count : wanted) {
    if (count < plan.threads_max) counts.push_back(count);
  }
  std::sort(counts.begin(), counts.end());
  return counts;
}

Json experiment_json(const Experiment& experiment, const ExperimentResult& result, const Manifest& manifest) {
  std::vector<std::string> names;
  Json units = Json::object();
  Json charted = Json::array();
  Json absent = Json::object();
  for (const Column& column : result.columns) {
    names.push_back(column.name);
    units[column.name] = column.unit;
    if (column.charted) charted.push_back(column.name);
    if (!column.absent.empty()) absent[column.name] = column.absent;
  }
  const Reference reference = experiment.reference();
  return {{"version", kExperimentVersion},
          {"name", experiment.name},
          {"title", experiment.title},
          {"source", experiment.source},
          {"labels", result.labels},
          {"columns", names},
          {"units", units},
          {"charted", charted},
          {"charts", charts_json(result.charts)},
          {"absent", absent},
          {"rows", rows_json(result.columns, result.rows)},
          {"reference_is", reference.kind == ReferenceKind::kGoals ? kGoalsName : kPublishedName},
          {"reference", rows_json(reference_columns(reference, result), reference.rows)},
          {"reference_from", reference.origin.empty() ? Json(nullptr) : Json(reference.origin)},
          {"manifest", manifest_json(manifest)}};
}

std::string reference_heading(const Json& experiment) {
  const auto source = experiment.at("source").get<std::string>();
  if (experiment.value("reference_is", kPublishedName) == kGoalsName) return "Goals (" + source + ")";
  const auto from = experiment.find("reference_from");
  const bool known = from != experiment.end() && from->is_string();
  return "Published figures (" + source + (known ? "; " + from->get<std::string>() : "") +
         "), measured on other hardware";
}

bool is_experiment(const Json& json) {
  if (!json.is_object() || json.value("version", Json(0)) != kExperimentVersion) return false;
  for (const char* list : {"labels", "columns", "charted", "rows", "reference"}) {
    if (!json.contains(list) || !json.at(list).is_array()) return false;
  }
  return json.contains("name") && json.contains("manifest") && json.contains("absent");
}

Status write_experiment(const std::string& directory, const Json& experiment) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Status::IoError("cannot make " + directory + ": " + error.message() + "; give another --out");
  const std::string path = directory + "/" + experiment.at("name").get<std::string>();
  BONSAI_RETURN_IF_ERROR(write_file(path + ".json", experiment.dump(2) + "\n"));
  BONSAI_RETURN_IF_ERROR(write_file(
      path + ".csv", csv_text(experiment.at("columns").get<std::vector<std::string>>(), experiment.at("rows"))));
  return write_file(path + ".svg", experiment_svg(experiment));
}

}  // namespace bonsai::bench
