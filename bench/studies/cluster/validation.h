// SPDX-License-Identifier: Apache-2.0
// The model of devices against published measurements: each published rate of a system that is rebuilt here
// (bench/studies/published), and the rate of its code on the model. One figure per system is fitted, at light load: the
// processor's time for a list. The rest is predicted.
#ifndef BONSAI_BENCH_STUDIES_CLUSTER_VALIDATION_H_
#define BONSAI_BENCH_STUDIES_CLUSTER_VALIDATION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/studies/cluster/trial.h"

namespace bonsai::bench {

// Requests as published: uniform, or Zipf over so many keys that a table of ours is smaller.
struct ValidationLoad {
  std::string_view system;
  const char* table;  // of published.json
  const char* what;
  bool contended = false;  // updates that collide
  bool cx6 = false;        // the device; otherwise CX-5
  size_t memory_nodes = 1;
  double updates = 0;  // the rest are reads
  double list_cpu_ns = 0;
  uint64_t reads_before = 0;  // of each record by each compute node, which fill its cache
  uint64_t backoff_ns = 0;
};

struct ValidationPoint {
  const ValidationLoad* load = nullptr;
  double alpha = 0;  // as published; 0: uniform
  size_t threads = 1, coroutines = 1;
  double published = 0;  // Mop/s

  [[nodiscard]] size_t clients() const { return threads * coroutines; }
  // The ratios of modelled to published rates at which the model predicts the point: a quarter off where nothing
  // collides, and a factor of two where updates do.
  [[nodiscard]] double low() const { return load->contended ? .5 : .75; }
  [[nodiscard]] double high() const { return load->contended ? 2 : 1.25; }
  [[nodiscard]] bool predicts(double ratio) const { return ratio >= low() && ratio <= high(); }
};

// Every published point.
[[nodiscard]] std::vector<ValidationPoint> validation_points();

// The exponent at which the hottest of `records` keys gets the share that the hottest of 10^8 gets at `alpha`.
[[nodiscard]] double alpha_of_fewer(double alpha, uint64_t records);

// Measures the point on the model, with so many records. Errors: those of Trial.
Status measure_point(const ValidationPoint& point, uint64_t records, double* mops);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_CLUSTER_VALIDATION_H_
