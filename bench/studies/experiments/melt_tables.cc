// SPDX-License-Identifier: Apache-2.0
// Questions of MELT for which it shows no figure: whether serial or concurrent stores are better at a rate, their
// memory, how well they hold the rate, and the effect of the hash maps' parameters.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/melt_study.h"

namespace bonsai::bench {
namespace {

constexpr const char* kSource = "MELT";
constexpr double kMiB = 1 << 20;

Reference none() { return {}; }

void add_labels(const MeltStudy& study, ExperimentResult* result) {
  const std::vector<std::string> labels = study.labels();
  result->labels.insert(result->labels.end(), labels.begin(), labels.end());
}

// ---- serial or concurrent

std::optional<double> p90(const MeltPoint& point) {
  const Histogram& reads = point.latency[static_cast<size_t>(OpKind::kRead)];
  return reads.carries(90) ? std::optional(static_cast<double>(reads.percentile(90))) : std::nullopt;
}

// A measure by which stores are compared.
struct Contest {
  const char* name;
  const char* unit;
  std::optional<double> (*of)(const MeltPoint& point, double records);
  bool most_wins = false;
  bool of_held = true;  // only stores that hold the rate take part
  bool charted = false;
  bool energy = false;
};

constexpr Contest kContests[] = {
    {"p90", "ns", [](const MeltPoint& point, double) { return p90(point); }, false, true, true},
    {"throughput", "M/s", [](const MeltPoint& point, double) { return std::optional(point.ops_per_s / 1e6); }, true,
     false},
    {"memory", "bytes per record",
     [](const MeltPoint& point, double records) {
       return point.used_bytes ? std::optional(*point.used_bytes / records) : std::nullopt;
     }},
    {"J/op", "J/op", [](const MeltPoint& point, double) { return point.joules_per_op; }, false, true, false, true}};

struct Best {
  std::optional<double> figure;
  size_t store = 0;
};

// The store of the wanted kind that is best at the rate.
Best best_at(const std::vector<SweepCurve>& curves, double rate, bool serial, const Contest& contest, double records) {
  Best best;
  for (size_t i = 0; i < curves.size(); ++i) {
    if (is_serial(curves[i].engine) != serial) continue;
    const size_t end = contest.of_held ? curves[i].held() : curves[i].points.size();
    for (size_t at = 0; at < end; ++at) {
      if (curves[i].targets[at] != rate) continue;
      const std::optional<double> figure = contest.of(curves[i].points[at], records);
      const bool wins =
          figure && (!best.figure || (contest.most_wins ? *figure > *best.figure : *figure < *best.figure));
      if (wins) best = {figure, i};
    }
  }
  return best;
}

// Finds the rate from which on concurrent stores always win, if there is one.
class Crossover {
 public:
  void see(const Contest& contest, double rate, const Best& serial, const Best& concurrent) {
    if (!serial.figure && !concurrent.figure) return;
    last_ = rate;
    const bool wins = concurrent.figure &&
                      (!serial.figure ||
                       (contest.most_wins ? *concurrent.figure > *serial.figure : *concurrent.figure < *serial.figure));
    if (!wins) from_.reset();
    if (wins && !from_) from_ = rate;
  }
  // Empty when nothing was compared.
  [[nodiscard]] std::string text(const Contest& contest) const {
    if (last_ == 0) return {};
    char text[160];
    std::snprintf(text, sizeof text,
                  from_ ? "Workload A, by %s: from %g M/s on, a concurrent store is the best."
                        : "Workload A, by %s: up to the last rate, %g M/s, a serial store is the best.",
                  contest.name, from_.value_or(last_) / 1e6);
    return text;
  }

 private:
  double last_ = 0;
  std::optional<double> from_;
};

std::vector<Column> contest_columns(const std::vector<std::string>& names, const std::string& no_energy) {
  std::vector<Column> columns = {{"target", "M/s"}};
  for (const Contest& contest : kContests) {
    const std::string name = contest.name;
    const std::string absent = contest.energy ? no_energy : "";
    for (const char* kind : {"serial ", "concurrent "}) {
      columns.push_back({kind + name, contest.unit, contest.charted, absent});
    }
    for (const char* kind : {"serial by ", "concurrent by "}) {
      columns.push_back({kind + name, "store", false, absent, names});
    }
  }
  return columns;
}

Status run_serial_or_concurrent(const ExperimentPlan& plan, ExperimentResult* result) {
  std::unique_ptr<MeltStudy> study;
  BONSAI_RETURN_IF_ERROR(MeltStudy::open(plan, &study));
  std::vector<SweepCurve> curves;
  BONSAI_RETURN_IF_ERROR(study->sweep("a", &curves));
  std::vector<std::string> names;
  std::set<double> rates;
  for (const SweepCurve& curve : curves) {
    names.push_back(store_name(curve));
    rates.insert(curve.targets.begin(), curve.targets.end());
  }
  const auto records = static_cast<double>(study->configuration('a').records);
  result->columns = contest_columns(names, study->without_energy());
  std::array<Crossover, std::size(kContests)> crossovers;
  for (const double rate : rates) {
    Row row = {rate / 1e6};
    for (size_t i = 0; i < std::size(kContests); ++i) {
      const Best serial = best_at(curves, rate, true, kContests[i], records);
      const Best concurrent = best_at(curves, rate, false, kContests[i], records);
      crossovers[i].see(kContests[i], rate, serial, concurrent);
      row.push_back(serial.figure);
      row.push_back(concurrent.figure);
      for (const Best& best : {serial, concurrent}) {
        row.push_back(best.figure ? std::optional(static_cast<double>(best.store)) : std::nullopt);
      }
    }
    result->rows.push_back(std::move(row));
  }
  for (size_t i = 0; i < std::size(kContests); ++i) {
    const std::string text = crossovers[i].text(kContests[i]);
    if (!text.empty()) result->labels.push_back(text);
  }
  result->labels.emplace_back(
      "By p90 of reads, memory (the most used bytes of any sample of the run) and J/op the best is the least of the "
      "stores that hold the rate; by throughput it is the most of all that tried it.");
  add_labels(*study, result);
  return Status::OK();
}

// ---- memory

Status run_memory(const ExperimentPlan& plan, ExperimentResult* result) {
  std::unique_ptr<MeltStudy> study;
  BONSAI_RETURN_IF_ERROR(MeltStudy::open(plan, &study));
  std::vector<SweepCurve> curves;
  BONSAI_RETURN_IF_ERROR(study->sweep("a", &curves));
  Column stores{"store", ""};
  for (const SweepCurve& curve : curves) {
    const MeltPoint& point = curve.points.front();
    const auto mib = [](const std::optional<double>& bytes) { return bytes ? std::optional(*bytes / kMiB) : bytes; };
    result->rows.push_back({static_cast<double>(stores.words.size()), point.space_efficiency, mib(point.used_bytes),
                            mib(point.reserved_bytes), point.load_space_efficiency, mib(point.load_used_bytes),
                            mib(point.load_reserved_bytes)});
    stores.words.push_back(store_name(curve));
  }
  result->columns = {std::move(stores),        {"space efficiency", "user / used bytes", true}, {"used", "MiB"},
                     {"reserved", "MiB"},      {"load: space efficiency", "user / used bytes"}, {"load: used", "MiB"},
                     {"load: reserved", "MiB"}};
  result->labels.emplace_back(
      "Keys and values over all memory that the store has asked for, DRAM and NVM, sampled every 10 ms of the load and "
      "of "
      "a run of workload A at the first rate; used and reserved are the most of any sample, efficiencies their means. "
      "Bonsai's reserved bytes have the whole log.");
  add_labels(*study, result);
  return Status::OK();
}

// ---- pacing

Status run_pacing(const ExperimentPlan& plan, ExperimentResult* result) {
  std::unique_ptr<MeltStudy> study;
  BONSAI_RETURN_IF_ERROR(MeltStudy::open(plan, &study));
  MeltConfiguration configuration = study->configuration('b');
  configuration.engine = find_engine("libcuckoo") != nullptr ? "libcuckoo" : "bonsai";
  configuration.threads = plan.threads_max;
  configuration.target_ops_per_s = 0;
  MeltPoint point;
  BONSAI_RETURN_IF_ERROR(study->measure(configuration, &point));
  const double saturation = point.ops_per_s;
  std::vector<double> targets = {10e3, 100e3};
  for (const double share : {0.1, 0.2, 0.4, 0.6, 0.8}) targets.push_back(std::round(share * saturation / 1e3) * 1e3);
  result->columns = {{"target", "op/s"},
                     {"deviation", "%", true},
                     {"load", "% of saturation"},
                     {"processor", "% of one per thread", true},
                     {"slept", "% of the time", true}};
  for (const double target : targets) {
    configuration.target_ops_per_s = target;
    BONSAI_RETURN_IF_ERROR(study->measure(configuration, &point));
    const double time = point.seconds * configuration.threads;
    result->rows.push_back({target, 100 * (point.ops_per_s / target - 1), 100 * target / saturation,
                            100 * point.cpu_seconds / time, 100 * point.slept_seconds / point.seconds});
  }
  char text[160];
  std::snprintf(text, sizeof text, "%s on %u threads, workload B; as fast as it goes it did %.3g M/s.",
                configuration.engine.c_str(), configuration.threads, saturation / 1e6);
  result->labels.emplace_back(text);
  add_labels(*study, result);
  return Status::OK();
}

// Section 10.1.1: about 1 %, from 0 to 2 %.
Reference pacing_reference() { return {{"target", "deviation"}, {{1e6, 1}, {10e6, 1}}}; }

// ---- parameters

struct Variant {
  const char* name;
  const char* engine;
  MapTuning tuning;
};

const std::vector<Variant>& variants() {
  constexpr HashKind kCity = HashKind::kCity, kOwn = HashKind::kDefault;
  static const std::vector<Variant> kVariants = {{"hopscotch", "hopscotch", {kCity}},
                                                 {"hopscotch, default hash", "hopscotch", {kOwn}},
                                                 {"hopscotch, room ahead", "hopscotch", {kCity, true}},
                                                 {"hopscotch, malloc", "hopscotch", {kCity, false, 4, true}},
                                                 {"unordered_map", "unordered_map", {kCity}},
                                                 {"unordered_map, malloc", "unordered_map", {kCity, false, 4, true}},
                                                 {"libcuckoo", "libcuckoo", {kCity}},
                                                 {"libcuckoo, default hash", "libcuckoo", {kOwn}},
                                                 {"libcuckoo, room ahead", "libcuckoo", {kCity, true}},
                                                 {"libcuckoo, malloc", "libcuckoo", {kCity, false, 4, true}},
                                                 {"libcuckoo, buckets of 2", "libcuckoo", {kCity, false, 2}},
                                                 {"libcuckoo, buckets of 8", "libcuckoo", {kCity, false, 8}}};
  return kVariants;
}

Status run_parameters(const ExperimentPlan& plan, ExperimentResult* result) {
  std::unique_ptr<MeltStudy> study;
  BONSAI_RETURN_IF_ERROR(MeltStudy::open(plan, &study));
  Column names{"variant", ""};
  for (const Variant& variant : variants()) {
    if (find_engine(variant.engine) == nullptr) continue;
    MeltConfiguration configuration = study->configuration('b');
    configuration.engine = variant.engine;
    configuration.map = variant.tuning;
    configuration.threads = is_serial(variant.engine) ? 1 : plan.threads_max;
    configuration.target_ops_per_s = 0;
    MeltPoint point;
    BONSAI_RETURN_IF_ERROR(study->measure(configuration, &point));
    const double records = static_cast<double>(configuration.records);
    result->rows.push_back({static_cast<double>(names.words.size()), point.ops_per_s / 1e6, point.load_ops_per_s / 1e6,
                            point.used_bytes ? std::optional(*point.used_bytes / records) : std::nullopt,
                            point.joules_per_op});
    names.words.emplace_back(variant.name);
  }
  result->columns = {std::move(names),
                     {"run", "M/s", true},
                     {"load", "M/s", true},
                     {"memory", "bytes per record"},
                     {"energy", "J/op", false, study->without_energy()}};
  result->labels = {
      "Workload B as fast as it goes, concurrent maps on all threads. CityHash64 unless the default hash is named; "
      "memory "
      "of operator new, on huge pages, unless malloc is named; maps grow unless they have room ahead. libcuckoo's lock "
      "stripes are a constant of the library and not varied."};
  add_labels(*study, result);
  return Status::OK();
}

// ---- records around a doubling

Status run_doubling(const ExperimentPlan& plan, ExperimentResult* result) {
  std::unique_ptr<MeltStudy> study;
  BONSAI_RETURN_IF_ERROR(MeltStudy::open(plan, &study));
  const double doubling = plan.scale == Scale::kPaper ? 1 << 20 : plan.scale == Scale::kSmall ? 1 << 17 : 1 << 11;
  result->columns = {{"records", "records"}};
  std::vector<std::string> engines;
  for (const char* engine : {"hopscotch", "dense_hash", "libcuckoo", "unordered_map"}) {
    if (find_engine(engine) == nullptr) continue;
    engines.emplace_back(engine);
    result->columns.push_back({engine, "bytes per record", true});
    result->columns.push_back({std::string(engine) + " load", "M/s"});
  }
  for (const double share : {0.45, 0.55, 0.7, 0.8, 0.85, 0.9, 0.95, 1.05, 1.2, 1.6, 1.9}) {
    const double records = std::round(share * doubling);
    Row row = {records};
    for (const std::string& engine : engines) {
      MeltConfiguration configuration = study->configuration('c');
      configuration.engine = engine;
      configuration.records = static_cast<uint64_t>(records);
      configuration.target_ops_per_s = 100e3;
      configuration.seconds = std::min(configuration.seconds, 1.0);
      MeltPoint point;
      BONSAI_RETURN_IF_ERROR(study->measure(configuration, &point));
      const std::optional<double> most = std::max(point.used_bytes, point.load_used_bytes);
      row.push_back(most ? std::optional(*most / records) : std::nullopt);
      row.emplace_back(point.load_ops_per_s / 1e6);
    }
    result->rows.push_back(std::move(row));
  }
  result->labels = {
      "Records around the numbers at which the tables double; one thread. While a table doubles, it has its "
      "old memory and its new one; what is shown is the most of any sample of the load and the run, 10 ms apart."};
  add_labels(*study, result);
  return Status::OK();
}

}  // namespace

const Registered<Experiment> kMeltTablesExperiments("melt_tables", []() -> std::vector<Experiment> {
  return {
      {"melt-serial-or-concurrent", "Serial or concurrent stores by target rate", kSource,
       "the best store of each kind at every rate, by p90, throughput, memory and energy, and where they cross",
       run_serial_or_concurrent, none, "melt"},
      {"melt-memory", "Space efficiency by store", kSource,
       "keys and values over all memory, sampled in load and run; used and reserved bytes", run_memory, none, "melt"},
      {"melt-pacing", "How well intervals keep the rate", kSource,
       "deviation and processor time from 10 K/s to 80 % of saturation", run_pacing, pacing_reference, "melt"},
      {"melt-parameters", "Parameters of the hash maps", kSource,
       "hash, allocator, room ahead and size of buckets, as fast as they go", run_parameters, none, "melt"},
      {"melt-doubling", "Memory around a doubling", kSource,
       "bytes per record and throughput of loading by number of records", run_doubling, none, "melt"}};
});

}  // namespace bonsai::bench
