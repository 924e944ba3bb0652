// SPDX-License-Identifier: Apache-2.0
// The common parts of MELT's figures: stores, records, rates, and samples. All figures share the samples, so that a
// figure measures only what no other has measured.
#ifndef BONSAI_BENCH_STUDIES_EXPERIMENTS_MELT_STUDY_H_
#define BONSAI_BENCH_STUDIES_EXPERIMENTS_MELT_STUDY_H_

#include <memory>
#include <string>
#include <vector>

#include "bench/studies/experiments/experiment.h"
#include "bench/studies/melt/sweep.h"

namespace bonsai::bench {

// YCSB's A, B, C or D, on keys of 24 bytes.
[[nodiscard]] Workload melt_workload(char letter);

// The stores of the thesis that this build has, a newer concurrent one, and Bonsai.
[[nodiscard]] std::vector<std::string> melt_engines();
// True if the engine takes one thread only.
[[nodiscard]] bool is_serial(const std::string& engine);
// The thesis' name for a store on so many threads, such as "hopscotch" and "2 libcuckoo".
[[nodiscard]] std::string store_name(const SweepCurve& curve);

// Thread-safety: one owner.
class MeltStudy {
 public:
  // Requires: the plan outlives it. Errors: those of MeltSamples::open().
  static Status open(const ExperimentPlan& plan, std::unique_ptr<MeltStudy>* study);

  // The curves of every store on these workloads.
  Status sweep(const std::string& letters, std::vector<SweepCurve>* curves);
  // Measures every store on every number of threads, at these rates only.
  Status at_rates(char letter, const std::vector<double>& rates, std::vector<SweepCurve>* curves);
  Status measure(const MeltConfiguration& configuration, MeltPoint* point);
  // The configuration without engine, threads and target.
  [[nodiscard]] MeltConfiguration configuration(char letter) const;

  // The reason why energy is not measured; empty = it is.
  [[nodiscard]] const std::string& without_energy() const { return without_energy_; }
  // Labels that a reader of any of the figures needs.
  [[nodiscard]] std::vector<std::string> labels() const;
  [[nodiscard]] const ExperimentPlan& plan() const { return plan_; }

 private:
  explicit MeltStudy(const ExperimentPlan& plan) : plan_(plan) {}
  [[nodiscard]] SweepPlan sweep_plan() const;
  [[nodiscard]] RunConfig base() const;
  [[nodiscard]] SweepTools tools();

  const ExperimentPlan& plan_;
  MeltSamples samples_;
  std::unique_ptr<EnergyMeter> meter_;
  std::string without_energy_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_MELT_STUDY_H_
