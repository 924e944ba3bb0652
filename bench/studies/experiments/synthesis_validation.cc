// SPDX-License-Identifier: Apache-2.0
// How far the model of devices is from what others measured: every published rate of the systems that are rebuilt here,
// beside what their code does on the model. The synthesis is to be read with these errors in mind.
#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "base/thread.h"
#include "bench/studies/cluster/validation.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/published/published.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kRecords = 20'000, kRecordsOfTrial = 2'000;
constexpr uint64_t kManyRecords = 1'000'000;  // of tables whose locks are as many as their records: RCuckoo's updates
constexpr size_t kClientsOfTrial = 16;

enum : size_t { kPoint, kSystem, kClients, kPublished, kModelled, kRatio, kPredicted };

uint64_t records_of(const ExperimentPlan& plan, const ValidationPoint& point) {
  if (plan.asked.records) return *plan.asked.records;
  if (plan.is_trial()) return kRecordsOfTrial;
  const bool many = plan.scale == Scale::kPaper && point.load->system == "RCuckoo-like" && point.load->contended;
  return many ? kManyRecords : kRecords;
}

std::string load_name(const ValidationPoint& point) {
  return std::string(point.load->system) + ", " + point.load->what;
}

// "Sherman-like, half updates: 0.82 to 2.7 times the published rates, 6 of 7 within a factor of two."
std::string error_text(const ExperimentResult& result, const ValidationLoad& load, const std::vector<size_t>& rows) {
  double least = INFINITY, most = 0;
  size_t predicted = 0;
  for (const size_t row : rows) {
    least = std::min(least, *result.rows[row][kRatio]);
    most = std::max(most, *result.rows[row][kRatio]);
    predicted += *result.rows[row][kPredicted] == 1 ? 1 : 0;
  }
  std::array<char, 240> text{};
  std::snprintf(text.data(), text.size(), "%s, %s: %.2f to %.2f times the published rates, %zu of %zu within %s (%s).",
                std::string(load.system).c_str(), load.what, least, most, predicted, rows.size(),
                load.contended ? "a factor of two" : "a quarter", origin_of(published_table(load.table)).c_str());
  return text.data();
}

// A chart for each load: modelled rates by clients, published ones dashed.
void describe(const std::vector<ValidationPoint>& points, ExperimentResult* result) {
  for (size_t first = 0; first < points.size();) {
    std::vector<size_t> rows;
    const ValidationLoad* const load = points[first].load;
    for (; first < points.size() && points[first].load == load; ++first) rows.push_back(first);
    result->labels.push_back(error_text(*result, *load, rows));
    if (points[rows[0]].clients() == points[rows.back()].clients()) continue;  // by skew
    result->charts.push_back({.title = load_name(points[rows[0]]),
                              .axis = "clients",
                              .curves = "system",
                              .figure = "modelled",
                              .beside = "published",
                              .rows = rows});
  }
}

Status run_validation(const ExperimentPlan& plan, ExperimentResult* result) {
  std::vector<ValidationPoint> points = validation_points();
  if (plan.is_trial()) std::erase_if(points, [](const auto& point) { return point.clients() > kClientsOfTrial; });
  result->columns = {{"point", ""},
                     {"system", ""},
                     {"clients", "clients"},
                     {"published", "Mop/s", true},
                     {"modelled", "Mop/s", true},
                     {"modelled / published", ""},
                     {"predicted", "", false, {}, {"no", "yes"}}};
  for (const ValidationPoint& point : points) {
    Row& row = result->rows.emplace_back(result->columns.size());
    std::vector<std::string>& names = result->columns[kSystem].words;
    if (names.empty() || names.back() != point.load->system) names.emplace_back(point.load->system);
    row[kPoint] = static_cast<double>(result->columns[kPoint].words.size());
    row[kSystem] = static_cast<double>(names.size() - 1);
    row[kClients] = static_cast<double>(point.clients());
    row[kPublished] = point.published;
    std::array<char, 32> alpha{};
    std::snprintf(alpha.data(), alpha.size(), ", alpha %.2f", point.alpha);
    result->columns[kPoint].words.push_back(load_name(point) + ", " + std::to_string(point.threads) + " x " +
                                            std::to_string(point.coroutines) +
                                            (point.load->what == std::string("updates, by skew") ? alpha.data() : ""));
  }
  std::vector<Status> statuses(points.size());
  std::mutex one_at_a_time;
  base::for_each_on(base::processors(), points.size(), [&](size_t i) {
    {
      const std::lock_guard lock(one_at_a_time);
      if (*plan.stop) {
        statuses[i] = Status::Unavailable("interrupted");
        return;
      }
      plan.listener.on_phase(std::string(points[i].load->system), result->columns[kPoint].words[i], 0);
    }
    double mops = 0;
    statuses[i] = measure_point(points[i], records_of(plan, points[i]), &mops);
    result->rows[i][kModelled] = mops;
    result->rows[i][kRatio] = mops / points[i].published;
    result->rows[i][kPredicted] = points[i].predicts(mops / points[i].published) ? 1 : 0;
  });
  for (const Status& status : statuses) BONSAI_RETURN_IF_ERROR(status);
  result->labels = {
      "MODELLED in virtual time: no statement about a real device.",
      "Every published rate of these systems, and their code on the model. One figure of each system is fitted, at "
      "light "
      "load: the processor's time for a list; the rest is predicted. Predicted: within a quarter where nothing "
      "collides, and within a factor of two where updates do. What is not predicted is a fault of the model. "
      "In the charts published rates are dashed.",
      "Exponents are those at which the hottest of the records has the share that it has of 10^8. " +
          std::to_string(kRecords) +
          " records; RCuckoo's updates 1 M with --scale=paper, as few records have few locks."};
  describe(points, result);
  return Status::OK();
}

}  // namespace

const Registered<Experiment> kValidationExperiment("synthesis_validation", []() -> std::vector<Experiment> {
  return {{"synthesis-validation", "How far the model is from what others measured",
           "BonsaiKV scheme, synthesis benchmark",
           "every published rate of RACE, Sherman, Clover and RCuckoo beside the model's", run_validation, no_reference,
           "synthesis"}};
});

}  // namespace bonsai::bench
