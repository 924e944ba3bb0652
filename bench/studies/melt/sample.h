// SPDX-License-Identifier: Apache-2.0
// One sample of MELT's method: on a fresh store the machine is idle for a while, the records are loaded, and a workload
// runs for a while at a target rate; each with its time and energy. And many of them, kept in a file.
//
// Follows T. Blomli-Edvardsen, "MELT: The multidimensional key-value store performance evaluation framework", 2017,
// chapters 6 and 7. The latencies of a configuration are those of all its samples together, not means of percentiles.
#ifndef BONSAI_BENCH_STUDIES_MELT_SAMPLE_H_
#define BONSAI_BENCH_STUDIES_MELT_SAMPLE_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/driver/runner.h"
#include "bench/results/energy.h"
#include "bench/results/histogram.h"
#include "bonsai/status.h"

namespace bonsai::bench {

// A configuration to measure; two samples of one configuration differ in their number only.
struct MeltConfiguration {
  std::string engine;
  Workload workload;
  unsigned threads = 1;
  double target_ops_per_s = 1e6;  // 0 = as fast as it goes
  uint64_t records = 1'000'000;
  double seconds = 30;
  double idle_seconds = 5;
  uint64_t interval_ms = 25;
  uint64_t latency_per_interval = 1;
  MapTuning map = {};
};

// A sample as one line of samples.json. The names of its columns, but for `latency_counts`, are in docs/results.md.
using MeltSample = nlohmann::ordered_json;

// The fields that all samples of one configuration share.
[[nodiscard]] MeltSample melt_key(const MeltConfiguration& configuration, const RunConfig& base);

// Takes one. `base` has the user's seed, directories and shape of records; *meter may be null: then there is no idle
// phase and no energy. Errors: those of run_engine(); Unavailable when operations failed or the user interrupted.
Status take_melt_sample(const MeltConfiguration& configuration, const RunConfig& base, unsigned number,
                        EnergyMeter* meter, const std::atomic<bool>& stop, const RunListener& listener,
                        MeltSample* sample);

// The samples of one configuration together. Means, but for the latencies.
struct MeltPoint {
  unsigned samples = 0;
  double ops_per_s = 0;
  double seconds = 0;
  double slept_seconds = 0;  // per thread
  double cpu_seconds = 0;    // of all threads
  double load_seconds = 0;
  double load_ops_per_s = 0;
  std::optional<double> idle_watts = {};  // absent without counters, as the following
  std::optional<double> watts = {};
  std::optional<double> joules_per_op = {};      // without what the machine uses when idle
  std::optional<double> joules_per_op_raw = {};  // with it
  std::optional<double> load_joules_per_op = {};
  std::optional<double> space_efficiency = {};
  std::optional<double> used_bytes = {};
  std::optional<double> reserved_bytes = {};
  std::optional<double> load_space_efficiency = {};  // while the records are loaded, as the following
  std::optional<double> load_used_bytes = {};
  std::optional<double> load_reserved_bytes = {};
  std::array<Histogram, kOpKinds> latency = {};
};

// Requires: at least one sample.
[[nodiscard]] MeltPoint melt_point(const std::vector<MeltSample>& samples);

// DIR/samples.json, and DIR/samples.csv for spreadsheets. Thread-safety: one owner.
class MeltSamples {
 public:
  // Reads what an earlier run left. Errors: Corruption when the file is none of ours, with the remedy.
  Status open(const std::string& directory);
  // Adds one and writes both files, so that it is kept whatever happens next. Errors: IoError.
  Status add(MeltSample sample);
  // Those that have this key, in the order of their numbers.
  [[nodiscard]] std::vector<MeltSample> of(const MeltSample& key) const;
  [[nodiscard]] size_t size() const { return samples_.size(); }

 private:
  std::string directory_;
  MeltSample samples_ = MeltSample::array();
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_MELT_SAMPLE_H_
