// SPDX-License-Identifier: Apache-2.0
// Combines the repetitions of a run into one result per phase of each engine, whose throughput is the median.
#ifndef BONSAI_BENCH_RESULTS_REPEATS_H_
#define BONSAI_BENCH_RESULTS_REPEATS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "bench/results/results.h"

namespace bonsai::bench {

// Combines the repetitions of one phase: the throughput is their median, with each of them in repeats_ops_per_s;
// latencies are those of all operations; failures add up; all else is taken from the median repetition. Requires: at
// least one.
[[nodiscard]] RunResult merge_repeats(const std::vector<RunResult>& repeats);

// Thread-safety: none.
class Repeats {
 public:
  // Begins a new repetition: the results that follow repeat earlier ones, in the same order per engine.
  void begin() { seen_.clear(); }
  // Adds one result; *runs has one entry per phase of each engine, in order of first appearance.
  void add(const RunResult& run, std::vector<RunResult>* runs);

 private:
  std::vector<std::vector<RunResult>> phases_;         // as *runs
  std::map<std::string, std::vector<size_t>> places_;  // of an engine's phases in it
  std::map<std::string, size_t> seen_;                 // phases of each engine in this repetition
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_REPEATS_H_
