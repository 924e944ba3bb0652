// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/cluster/validation.h"

#include <cmath>

#include "base/status_macros.h"
#include "bench/studies/published/published.h"
#include "bench/studies/rivals/backoff.h"

namespace bonsai::bench {
namespace {

constexpr double kKeysPublished = 1e8;
constexpr double kUsualAlpha = .99;
constexpr size_t kThreadsOfSkews = 16, kCoroutinesOfSkews = 8;
constexpr double kRaceUpdateListNs = 1'400;  // of RACE's updates, which do more between lists than its reads

constexpr ValidationLoad kLoads[] = {
    {.system = "RACE-like", .table = "model, RACE, reads", .what = "reads", .cx6 = true, .memory_nodes = 2},
    {.system = "RACE-like",
     .table = "model, RACE, updates by skew",
     .what = "updates, by skew",
     .contended = true,
     .cx6 = true,
     .memory_nodes = 2,
     .updates = 1,
     .list_cpu_ns = kRaceUpdateListNs},
    {.system = "RACE-like",
     .table = "model, RACE, updates",
     .what = "updates",
     .contended = true,
     .cx6 = true,
     .memory_nodes = 2,
     .updates = 1,
     .list_cpu_ns = kRaceUpdateListNs},
    {.system = "RACE-like",
     .table = "model, RACE, updates with backoff",
     .what = "updates, backoff",
     .contended = true,
     .cx6 = true,
     .memory_nodes = 2,
     .updates = 1,
     .list_cpu_ns = kRaceUpdateListNs,
     .backoff_ns = rivals::Backoff::kBaseNs},
    {.system = "Sherman-like", .table = "model, Sherman, reads", .what = "reads", .cx6 = true},
    {.system = "Sherman-like",
     .table = "model, Sherman, half updates",
     .what = "half updates",
     .contended = true,
     .cx6 = true,
     .updates = .5},
    // After five reads of each record .7 % of the cursors are in one node only.
    {.system = "Clover-like", .table = "model, Clover, reads", .what = "reads", .reads_before = 5},
    {.system = "Clover-like",
     .table = "model, Clover, one update in twenty",
     .what = "one update in twenty",
     .contended = true,
     .updates = .05},
    {.system = "Clover-like",
     .table = "model, Clover, half updates",
     .what = "half updates",
     .contended = true,
     .updates = .5},
    {.system = "RCuckoo-like", .table = "model, RCuckoo, reads", .what = "reads"},
    {.system = "RCuckoo-like",
     .table = "model, RCuckoo, one update in twenty",
     .what = "one update in twenty",
     .contended = true,
     .updates = .05},
    {.system = "RCuckoo-like",
     .table = "model, RCuckoo, half updates, uniform",
     .what = "half updates, uniform",
     .contended = true,
     .updates = .5},
    {.system = "RCuckoo-like",
     .table = "model, RCuckoo, half updates, .90",
     .what = "half updates, .90",
     .contended = true,
     .updates = .5},
    {.system = "RCuckoo-like",
     .table = "model, RCuckoo, half updates, .99",
     .what = "half updates, .99",
     .contended = true,
     .updates = .5},
};

// Reads never collide, so their skew does not matter and they are uniform here.
double alpha_of(const ValidationLoad& load) {
  const std::string_view what = load.what;
  if (!load.contended || what.ends_with("uniform")) return 0;
  return what.ends_with(".90") ? .90 : kUsualAlpha;
}

rivals::Shape shape_of(const ValidationPoint& point) {
  constexpr size_t kThreadsOfNodeMax = 100;
  size_t nodes = 1;
  while (point.threads / nodes > kThreadsOfNodeMax || point.threads % nodes != 0) ++nodes;
  return {.compute_nodes = nodes, .threads = point.threads / nodes, .coroutines = point.coroutines};
}

// The sum of 1 / rank^alpha over `keys` ranks: the first ones exactly, the others as an integral.
double harmonic(double alpha, double keys) {
  constexpr double kExactly = 1'000;
  double sum = 0;
  for (double rank = 1; rank <= std::min(keys, kExactly); ++rank) sum += std::pow(rank, -alpha);
  if (keys <= kExactly) return sum;
  const double from = kExactly + .5, to = keys + .5;
  return sum + (std::abs(alpha - 1) < 1e-9 ? std::log(to / from)
                                           : (std::pow(to, 1 - alpha) - std::pow(from, 1 - alpha)) / (1 - alpha));
}

}  // namespace

double alpha_of_fewer(double alpha, uint64_t records) {
  if (alpha == 0) return 0;
  const double wanted = harmonic(alpha, kKeysPublished);  // the inverse of the hottest key's share
  double low = 0, high = alpha;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (harmonic(middle, static_cast<double>(records)) > wanted ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::vector<ValidationPoint> validation_points() {
  std::vector<ValidationPoint> points;
  for (const ValidationLoad& load : kLoads) {
    const PublishedTable& table = published_table(load.table);
    const bool by_skew = table.columns.front() == "alpha";
    for (const auto& row : table.rows) {
      points.push_back({.load = &load,
                        .alpha = by_skew ? *row[0] : alpha_of(load),
                        .threads = by_skew ? kThreadsOfSkews : static_cast<size_t>(*row[0]),
                        .coroutines = by_skew ? kCoroutinesOfSkews : static_cast<size_t>(*row[1]),
                        .published = *row.back()});
    }
  }
  return points;
}

Status measure_point(const ValidationPoint& point, uint64_t records, double* mops) {
  const ValidationLoad& load = *point.load;
  const rivals::Shape shape = shape_of(point);
  std::unique_ptr<Trial> trial;
  BONSAI_RETURN_IF_ERROR(Trial::make(*find_system(load.system),
                                     {.device = load.cx6 ? rdma::SimDevice::cx6() : rdma::SimDevice::cx5(),
                                      .list_cpu_ns = load.list_cpu_ns,
                                      .memory_nodes = load.memory_nodes,
                                      .records = records,
                                      .backoff_ns = load.backoff_ns,
                                      .shape = shape},
                                     &trial));
  BONSAI_RETURN_IF_ERROR(trial->fill(records));
  TrialResult result;
  if (load.reads_before > 0) {
    Workload before;
    before.name = "reads before";
    before.shares = {1};
    BONSAI_RETURN_IF_ERROR(trial->run(before, load.reads_before * records * shape.compute_nodes, &result));
  }
  Workload workload;
  workload.name = "validation";
  workload.shares = {1 - load.updates, load.updates};
  if (point.alpha > 0) {
    workload.requests = Distribution::kPlainZipf;
    workload.plain_zipf_alpha = alpha_of_fewer(point.alpha, records);
  }
  BONSAI_RETURN_IF_ERROR(trial->run(workload, 10'000 + 20 * shape.clients(), &result));
  *mops = result.mops();
  return Status::OK();
}

}  // namespace bonsai::bench
