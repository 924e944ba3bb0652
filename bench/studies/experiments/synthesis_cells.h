// SPDX-License-Identifier: Apache-2.0
// The cells of the synthesis: each is a system under a workload on a ground. At small size each system is loaded for
// each ground, and all operations are measured. At full size, 0.3 GB, a system is filled once for each form of keys,
// without a model of time; then a stated number of operations of each cell is measured, for a load on a store of nearly
// full size.
#ifndef BONSAI_BENCH_STUDIES_EXPERIMENTS_SYNTHESIS_CELLS_H_
#define BONSAI_BENCH_STUDIES_EXPERIMENTS_SYNTHESIS_CELLS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/studies/cluster/trial.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/synthesis_reference.h"

namespace bonsai::bench {

constexpr size_t kCoroutines = 4;            // of a thread; BonsaiKV's optimum, for all systems
constexpr size_t kRecordBytes = 16;          // integer keys and their values
constexpr uint64_t kScansPerOperation = 10;  // a scan is as much work as this many other operations
constexpr std::string_view kSweptLetters = "lace";

// The systems on one form of keys, for a shape of clients.
struct Ground {
  const ExperimentPlan& plan;
  KeyForm key_form = KeyForm::kFixed8;
  size_t threads = 1;
  rdma::SimDevice device = rdma::SimDevice::cx5();
  double list_cpu_ns = 0;
  std::optional<double> operation_cpu_ns = {};  // absent: the system's own
  size_t coroutines = 0;                        // of a thread; 0: as requested, or the number for all
  // The cache's share of the bytes of keys and values, for systems that use it; 0: as published.
  double cache_percent = 0;
  uint64_t backoff_ns = 0;                       // TrialOptions::backoff_ns
  uint64_t fault_ns = 0;                         // TrialOptions::fault_ns; above 0: of systems that page alone
  std::string_view letters = kSynthesisLetters;  // the load first
  uint64_t sample = 50'000;                      // operations of a cell at full size
  bool settings = false;                         // settings of the systems differ, so each has stores of its own

  // 0.3 GB, and all measurements share stores.
  [[nodiscard]] bool full_size() const { return plan.scale == Scale::kPaper && !settings; }
  [[nodiscard]] uint64_t records() const;
  // Operations of a cell. A load inserts all records, or at full size its share of the last ones.
  [[nodiscard]] uint64_t operations(char letter) const;
  [[nodiscard]] rivals::Shape shape() const {
    return {.threads = threads, .coroutines = coroutines > 0 ? coroutines : plan.asked.depth.value_or(kCoroutines)};
  }
  [[nodiscard]] std::optional<size_t> cache_bytes() const {
    if (cache_percent == 0) return {};
    return static_cast<size_t>(static_cast<double>(records() * kRecordBytes) * cache_percent / 100);
  }
  // True if both have the same cells.
  [[nodiscard]] bool is(const Ground& other) const;
};

// Counts of threads of the plan.
[[nodiscard]] std::vector<size_t> threads_of(const ExperimentPlan& plan);
// The grounds of the rates: both forms of keys, all counts of threads.
[[nodiscard]] std::vector<Ground> rate_grounds(const ExperimentPlan& plan);
// The grounds of the sweep over the model's parameters.
[[nodiscard]] std::vector<Ground> swept_grounds(const ExperimentPlan& plan);

struct Cell {
  size_t ground = 0;  // index into the requested grounds
  size_t system = 0;  // index into systems()
  char letter = 'l';
  double mops = 0, spread = 0;  // TrialResult
  double lists = 0, messages = 0, bytes = 0;
  double p50_us = 0, p99_us = 0;
  Ceiling ceiling;
  uint64_t cache_bytes = 0;
  double memory_bytes_per_record = 0;
};
using OnCell = std::function<void(const Cell&)>;

// Measures each system on each ground that it can run on, as many at a time as there are processors. A simulation takes
// one thread, and others beside it do not change it. Cells of one system and ground arrive in the order of letters, one
// at a time. Cells measured at full size for a plan are kept for the next call. Errors: those of Trial; Unavailable
// when interrupted.
Status measure_systems(const std::vector<Ground>& grounds, const OnCell& on_cell);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_SYNTHESIS_CELLS_H_
