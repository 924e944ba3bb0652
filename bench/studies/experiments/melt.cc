// SPDX-License-Identifier: Apache-2.0
// The figures of MELT's chapter 9 that show stores by target rate, by workload and by percentile: views of the same
// samples.
#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/melt_study.h"

namespace bonsai::bench {
namespace {

constexpr const char* kSource = "MELT";
constexpr const char* kTarget = "target";
constexpr const char* kStore = "store";
constexpr const char* kPercentile = "percentile";

// A figure of a point; absent where the samples lack it.
struct Metric {
  std::optional<double> (*of)(const MeltPoint& point, double target);
  bool energy = false;
};

struct Figure;
// A function that fills the table of one kind of figure.
using View = void (*)(const Figure& figure, const MeltStudy& study, const std::vector<SweepCurve>& curves,
                      ExperimentResult* result);

struct Figure {
  std::string_view name;
  std::string_view title;
  std::string_view what;
  std::string_view workloads;
  View view;
  const char* unit;
  const Metric* metric = nullptr;    // null: percentiles
  const Metric* beside = nullptr;    // a second line for each store
  OpKind kind = OpKind::kRead;       // of percentiles
  std::string_view engine = {};      // of a surface
  std::array<double, 3> rates = {};  // of an application

  [[nodiscard]] bool energy() const { return metric != nullptr && metric->energy; }
};

constexpr std::array<double, 12> kPercents = {10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9};

std::string rate_name(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%g M/s", rate / 1e6);
  return text;
}

std::optional<double> percentile_ns(const MeltPoint& point, OpKind kind, double percent) {
  const Histogram& latency = point.latency[static_cast<size_t>(kind)];
  if (!latency.carries(percent)) return std::nullopt;
  return static_cast<double>(latency.percentile(percent));
}

Column column_of(const Figure& figure, const std::string& name, const MeltStudy& study) {
  return {name, figure.unit, true, figure.energy() ? study.without_energy() : ""};
}

// One line per store, one row per rate. Rates that were not held are shown, too, since a curve ends there.
void view_by_rate(const Figure& figure, const MeltStudy& study, const std::vector<SweepCurve>& curves,
                  ExperimentResult* result) {
  std::set<double> rates;
  result->columns = {{kTarget, "M/s"}};
  for (const SweepCurve& curve : curves) {
    rates.insert(curve.targets.begin(), curve.targets.end());
    result->columns.push_back(column_of(figure, store_name(curve), study));
    if (figure.beside != nullptr) result->columns.push_back(column_of(figure, store_name(curve) + ", idle", study));
  }
  for (const double rate : rates) {
    Row row = {rate / 1e6};
    for (const SweepCurve& curve : curves) {
      const auto at = std::find(curve.targets.begin(), curve.targets.end(), rate);
      const MeltPoint* point =
          at == curve.targets.end() ? nullptr : &curve.points[static_cast<size_t>(at - curve.targets.begin())];
      row.push_back(point == nullptr ? std::nullopt : figure.metric->of(*point, rate));
      if (figure.beside == nullptr) continue;
      row.push_back(point == nullptr ? std::nullopt : figure.beside->of(*point, rate));
    }
    result->rows.push_back(std::move(row));
  }
}

// The highest figure of each store. At its last rate the rate that it reached counts, not the target.
std::optional<double> greatest(const Figure& figure, const SweepCurve& curve) {
  std::optional<double> most;
  for (size_t i = 0; i < curve.points.size(); ++i) {
    const std::optional<double> one = figure.metric->of(curve.points[i], curve.targets[i]);
    if (one && (!most || *one > *most)) most = one;
  }
  return most;
}

void view_by_workload(const Figure& figure, const MeltStudy& study, const std::vector<SweepCurve>& curves,
                      ExperimentResult* result) {
  Column stores{kStore, ""};
  std::vector<std::string> workloads;
  for (const SweepCurve& curve : curves) {
    const std::string name = store_name(curve);
    if (std::find(stores.words.begin(), stores.words.end(), name) == stores.words.end()) stores.words.push_back(name);
    if (workloads.empty() || workloads.back() != curve.workload) workloads.push_back(curve.workload);
  }
  for (size_t i = 0; i < stores.words.size(); ++i) {
    result->rows.push_back({static_cast<double>(i)});
    result->rows.back().resize(1 + workloads.size());
  }
  for (const SweepCurve& curve : curves) {
    const auto store = std::find(stores.words.begin(), stores.words.end(), store_name(curve)) - stores.words.begin();
    const auto workload = std::find(workloads.begin(), workloads.end(), curve.workload) - workloads.begin();
    result->rows[static_cast<size_t>(store)][1 + static_cast<size_t>(workload)] = greatest(figure, curve);
  }
  result->columns = {std::move(stores)};
  for (const std::string& workload : workloads) result->columns.push_back(column_of(figure, workload, study));
}

void add_percentile_rows(ExperimentResult* result, const std::vector<const MeltPoint*>& points, OpKind kind) {
  for (const double percent : kPercents) {
    Row row = {percent};
    for (const MeltPoint* point : points) row.push_back(percentile_ns(*point, kind, percent));
    result->rows.push_back(std::move(row));
  }
}

void view_surface(const Figure& figure, const MeltStudy& study, const std::vector<SweepCurve>& curves,
                  ExperimentResult* result) {
  result->columns = {{kPercentile, "%"}};
  const SweepCurve* chosen = nullptr;  // the one on most threads
  for (const SweepCurve& curve : curves) {
    if (curve.engine == figure.engine) chosen = &curve;
  }
  if (chosen == nullptr) return;
  std::vector<const MeltPoint*> points;
  for (size_t i = 0; i < chosen->points.size(); ++i) {
    result->columns.push_back(column_of(figure, rate_name(chosen->targets[i]), study));
    points.push_back(&chosen->points[i]);
  }
  add_percentile_rows(result, points, figure.kind);
}

void view_mean_percentiles(const Figure& figure, const MeltStudy& study, const std::vector<SweepCurve>& curves,
                           ExperimentResult* result) {
  result->columns = {{kPercentile, "%"}};
  for (const SweepCurve& curve : curves) result->columns.push_back(column_of(figure, store_name(curve), study));
  for (const double percent : kPercents) {
    Row row = {percent};
    for (const SweepCurve& curve : curves) {
      double sum = 0;
      unsigned count = 0;
      for (const MeltPoint& point : curve.points) {
        const auto one = percentile_ns(point, figure.kind, percent);
        sum += one.value_or(0);
        count += one.has_value();
      }
      row.push_back(count > 0 ? std::optional(sum / count) : std::nullopt);
    }
    result->rows.push_back(std::move(row));
  }
}

// Only stores that held the rate are shown; the labels name the others.
void view_application(const Figure& figure, const MeltStudy& study, const std::vector<SweepCurve>& curves,
                      ExperimentResult* result) {
  result->columns = {{figure.metric != nullptr ? kTarget : kPercentile, figure.metric != nullptr ? "M/s" : "%"}};
  std::vector<const MeltPoint*> points;
  std::string missed;
  for (const SweepCurve& curve : curves) {
    if (figure.metric != nullptr) result->columns.push_back(column_of(figure, store_name(curve), study));
    for (size_t i = 0; i < curve.points.size(); ++i) {
      if (curve.points[i].ops_per_s < kHeldShare * curve.targets[i]) {
        missed += (missed.empty() ? "" : ", ") + store_name(curve) + " at " + rate_name(curve.targets[i]);
      } else if (figure.metric == nullptr) {
        result->columns.push_back(column_of(figure, store_name(curve) + " at " + rate_name(curve.targets[i]), study));
        points.push_back(&curve.points[i]);
      }
    }
  }
  if (figure.metric == nullptr) {
    add_percentile_rows(result, points, figure.kind);
  } else {
    for (size_t i = 0; i < curves.front().targets.size(); ++i) {
      const double rate = curves.front().targets[i];
      Row row = {rate / 1e6};
      for (const SweepCurve& curve : curves) {
        const bool held = curve.points[i].ops_per_s >= kHeldShare * rate;
        row.push_back(held ? figure.metric->of(curve.points[i], rate) : std::nullopt);
      }
      result->rows.push_back(std::move(row));
    }
  }
  result->labels.push_back(missed.empty() ? "Every store held every rate." : "Not held, so not shown: " + missed + ".");
}

constexpr Metric kSeconds{[](const MeltPoint& p, double) { return std::optional(p.seconds); }};
constexpr Metric kThroughput{[](const MeltPoint& p, double) { return std::optional(p.ops_per_s / 1e6); }};
constexpr Metric kDeviation{[](const MeltPoint& p, double target) { return std::optional(p.ops_per_s - target); }};
constexpr Metric kDeviationPercent{
    [](const MeltPoint& p, double target) { return std::optional(100 * (p.ops_per_s / target - 1)); }};
constexpr Metric kUpdatesTimed{[](const MeltPoint& p, double) {
  return std::optional(static_cast<double>(p.latency[static_cast<size_t>(OpKind::kUpdate)].count()));
}};
constexpr Metric kLoadSeconds{[](const MeltPoint& p, double) { return std::optional(p.load_seconds); }};
constexpr Metric kLoadThroughput{[](const MeltPoint& p, double) { return std::optional(p.load_ops_per_s / 1e6); }};
constexpr Metric kLoadEnergy{[](const MeltPoint& p, double) { return p.load_joules_per_op; }, true};
constexpr Metric kWatts{[](const MeltPoint& p, double) { return p.watts; }, true};
constexpr Metric kIdleWatts{[](const MeltPoint& p, double) { return p.idle_watts; }, true};
constexpr Metric kEnergyRaw{[](const MeltPoint& p, double) { return p.joules_per_op_raw; }, true};
constexpr Metric kEnergy{[](const MeltPoint& p, double) { return p.joules_per_op; }, true};
constexpr Metric kEnergyAtLowRates{
    [](const MeltPoint& p, double target) { return target <= 9e6 ? p.joules_per_op : std::nullopt; }, true};
constexpr Metric kP90{[](const MeltPoint& p, double) { return percentile_ns(p, OpKind::kRead, 90); }};

constexpr std::array<double, 3> kRatesA = {8e6, 9e6, 10e6}, kRatesB = {2e6, 3e6, 0};
constexpr auto kReads = OpKind::kRead, kUpdates = OpKind::kUpdate;
constexpr size_t kFigureCount = 24;

// In the order of the thesis.
constexpr std::array<Figure, kFigureCount> kFigures = {
    {{"melt-9-1", "MELT, figure 9-1: execution time by target rate", "how long a sample takes, workload B", "b",
      view_by_rate, "s", &kSeconds},
     {"melt-9-2", "MELT, figure 9-2: throughput by target rate", "operations per second by target rate, workload B",
      "b", view_by_rate, "M/s", &kThroughput},
     {"melt-9-3", "MELT, figure 9-3: deviation from the target rate in operations",
      "operations per second above the target, workload B", "b", view_by_rate, "op/s", &kDeviation},
     {"melt-9-4", "MELT, figure 9-4: deviation from the target rate in percent", "the same in percent", "b",
      view_by_rate, "%", &kDeviationPercent},
     {"melt-9-5", "MELT, figure 9-5: latency samples of updates", "how many updates were timed, workload B", "b",
      view_by_rate, "samples", &kUpdatesTimed},
     {"melt-9-6", "MELT, figure 9-6: time to load", "seconds to load the records, by workload", "abcd",
      view_by_workload, "s", &kLoadSeconds},
     {"melt-9-7", "MELT, figure 9-7: throughput of loading", "inserts per second of the load, by workload", "abcd",
      view_by_workload, "M/s", &kLoadThroughput},
     {"melt-9-8", "MELT, figure 9-8: energy of loading", "joules per insert of the load, by workload", "abcd",
      view_by_workload, "J/op", &kLoadEnergy},
     {"melt-9-9", "MELT, figure 9-9: power by target rate", "watts while a workload runs, and idle", "a", view_by_rate,
      "W", &kWatts, &kIdleWatts},
     {"melt-9-10", "MELT, figure 9-10: energy per operation, idle power included",
      "joules per operation as the machine used them", "a", view_by_rate, "J/op", &kEnergyRaw},
     {"melt-9-11", "MELT, figure 9-11: energy per operation at low rates", "without idle power, up to 9 M/s", "a",
      view_by_rate, "J/op", &kEnergyAtLowRates},
     {"melt-9-12", "MELT, figure 9-12: energy per operation, workload A", "without idle power, all rates", "a",
      view_by_rate, "J/op", &kEnergy},
     {"melt-9-13", "MELT, figure 9-13: energy per operation, workload C", "without idle power, all rates", "c",
      view_by_rate, "J/op", &kEnergy},
     {"melt-9-14", "MELT, figure 9-14: highest throughput", "the most operations per second, by workload", "abcd",
      view_by_workload, "M/s", &kThroughput},
     {"melt-9-15", "MELT, figure 9-15: percentiles of reads by target rate, a serial store",
      "the percentile x rate surface of hopscotch, workload A", "a", view_surface, "ns", nullptr, nullptr, kReads,
      "hopscotch"},
     {"melt-9-16", "MELT, figure 9-16: percentiles of reads by target rate, a concurrent store",
      "the percentile x rate surface of libcuckoo on all threads, workload A", "a", view_surface, "ns", nullptr,
      nullptr, kReads, "libcuckoo"},
     {"melt-9-17", "MELT, figure 9-17: percentiles of reads, mean of all rates", "by store, workload A", "a",
      view_mean_percentiles, "ns"},
     {"melt-9-18", "MELT, figure 9-18: 90th percentile of reads by target rate", "by store, workload A", "a",
      view_by_rate, "ns", &kP90},
     {"melt-9-19", "MELT, figure 9-19: application A, energy", "workload A at 8, 9 and 10 M/s: joules per operation",
      "a", view_application, "J/op", &kEnergy, nullptr, kReads, "", kRatesA},
     {"melt-9-20", "MELT, figure 9-20: application A, reads", "workload A at 8, 9 and 10 M/s: percentiles of reads",
      "a", view_application, "ns", nullptr, nullptr, kReads, "", kRatesA},
     {"melt-9-21", "MELT, figure 9-21: application A, updates", "workload A at 8, 9 and 10 M/s: percentiles of updates",
      "a", view_application, "ns", nullptr, nullptr, kUpdates, "", kRatesA},
     {"melt-9-22", "MELT, figure 9-22: application B, energy", "workload C at 2 and 3 M/s: joules per operation", "c",
      view_application, "J/op", &kEnergy, nullptr, kReads, "", kRatesB},
     {"melt-9-23", "MELT, figure 9-23: application B, reads", "workload C at 2 and 3 M/s: percentiles of reads", "c",
      view_application, "ns", nullptr, nullptr, kReads, "", kRatesB},
     {"melt-9-24", "MELT, figure 9-24: application B, updates",
      "workload B, as C has no updates, at 2 and 3 M/s: percentiles of updates", "b", view_application, "ns", nullptr,
      nullptr, kUpdates, "", kRatesB}}};

Status run_figure(const Figure& figure, const ExperimentPlan& plan, ExperimentResult* result) {
  std::unique_ptr<MeltStudy> study;
  BONSAI_RETURN_IF_ERROR(MeltStudy::open(plan, &study));
  std::vector<SweepCurve> curves;
  if (figure.rates[0] > 0) {
    std::vector<double> rates;
    for (const double rate : figure.rates) {
      if (rate > 0) rates.push_back(plan.scale == Scale::kTrial ? rate / 100 : rate);
    }
    BONSAI_RETURN_IF_ERROR(study->at_rates(figure.workloads.front(), rates, &curves));
  } else {
    BONSAI_RETURN_IF_ERROR(study->sweep(std::string(figure.workloads), &curves));
  }
  figure.view(figure, *study, curves, result);
  const std::vector<std::string> labels = study->labels();
  result->labels.insert(result->labels.end(), labels.begin(), labels.end());
  return Status::OK();
}

// The numbers in the thesis' text; its figures are pictures only.
Reference reference_of(const Figure& figure) {
  if (figure.name == "melt-9-4") return {{kTarget, "1 thread", "2 to 4 threads"}, {{1, 1, 0.5}, {9, 1, 0.5}}};
  if (figure.name == "melt-9-18") return {{kTarget, "hopscotch", "4 libcuckoo"}, {{6, 760, 900}, {10, 760, 900}}};
  return {};
}

template <size_t kIndex>
Experiment experiment_of() {
  const Figure& figure = kFigures[kIndex];
  return {
      figure.name,
      figure.title,
      kSource,
      figure.what,
      [](const ExperimentPlan& plan, ExperimentResult* result) { return run_figure(kFigures[kIndex], plan, result); },
      [] { return reference_of(kFigures[kIndex]); },
      "melt"};
}

template <size_t... kIndices>
std::vector<Experiment> all_of(std::index_sequence<kIndices...>) {
  return {experiment_of<kIndices>()...};
}

}  // namespace

const Registered<Experiment> kMeltExperiments("melt", []() -> std::vector<Experiment> {
  return all_of(std::make_index_sequence<kFigureCount>());
});

}  // namespace bonsai::bench
