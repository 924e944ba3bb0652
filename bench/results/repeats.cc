// SPDX-License-Identifier: Apache-2.0
#include "bench/results/repeats.h"

#include <algorithm>

#include "base/check.h"

namespace bonsai::bench {

RunResult merge_repeats(const std::vector<RunResult>& repeats) {
  BONSAI_CHECK(!repeats.empty());
  std::vector<const RunResult*> sorted;
  for (const RunResult& one : repeats) sorted.push_back(&one);
  std::stable_sort(sorted.begin(), sorted.end(), [](const RunResult* a, const RunResult* b) {
    return a->throughput_ops_per_s < b->throughput_ops_per_s;
  });
  const RunResult& lower = *sorted[(sorted.size() - 1) / 2];
  const RunResult& upper = *sorted[sorted.size() / 2];
  RunResult merged = lower;
  merged.throughput_ops_per_s = (lower.throughput_ops_per_s + upper.throughput_ops_per_s) / 2;
  merged.repeats_ops_per_s.clear();
  merged.failures = 0;
  merged.failures_of = {};
  merged.first_failure.clear();
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    merged.latency[kind].clear();
    merged.intended_latency[kind].clear();
  }
  for (const RunResult& one : repeats) {
    merged.repeats_ops_per_s.push_back(one.throughput_ops_per_s);
    merged.failures += one.failures;
    if (merged.first_failure.empty()) merged.first_failure = one.first_failure;
    merged.stopped |= one.stopped;
    merged.pinned &= one.pinned;
    for (size_t kind = 0; kind < kOpKinds; ++kind) {
      merged.failures_of[kind] += one.failures_of[kind];
      merged.latency[kind].merge(one.latency[kind]);
      merged.intended_latency[kind].merge(one.intended_latency[kind]);
    }
  }
  return merged;
}

void Repeats::add(const RunResult& run, std::vector<RunResult>* runs) {
  std::vector<size_t>& places = places_[run.engine];
  const size_t turn = seen_[run.engine]++;
  if (turn == places.size()) {
    places.push_back(phases_.size());
    phases_.emplace_back();
    runs->emplace_back();
  }
  const size_t place = places[turn];
  phases_[place].push_back(run);
  (*runs)[place] = merge_repeats(phases_[place]);
}

}  // namespace bonsai::bench
