// SPDX-License-Identifier: Apache-2.0
// Latencies that can be watched while they are recorded: coarser than Histogram (an eighth of an octave, so within an
// eighth of the value), small, and readable from another thread at any time.
#ifndef BONSAI_BENCH_DRIVER_LIVE_LATENCY_H_
#define BONSAI_BENCH_DRIVER_LIVE_LATENCY_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "bench/ycsb/workload.h"

namespace bonsai::bench {

// The number of samples in each bucket. A value type. Units: nanoseconds.
class LatencyCounts {
 public:
  static constexpr size_t kBuckets = 42 * 8;

  static size_t bucket(uint64_t ns) {
    if (ns < 8) return ns;
    const auto shift = static_cast<size_t>(std::bit_width(ns)) - 4;
    return std::min(kBuckets - 1, shift * 8 + (ns >> shift));
  }
  // The largest value that the bucket counts.
  static uint64_t last_of(size_t bucket) {
    if (bucket < 16) return bucket;
    const size_t shift = bucket / 8 - 1;
    return ((bucket - shift * 8 + 1) << shift) - 1;
  }

  void add(size_t bucket, uint64_t samples) { counts_[bucket] += samples; }
  void add(const LatencyCounts& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  }
  // Requires: `earlier` is an earlier reading of the same samples.
  void subtract(const LatencyCounts& earlier) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] -= earlier.counts_[i];
  }

  [[nodiscard]] uint64_t count() const {
    uint64_t all = 0;
    for (const uint64_t samples : counts_) all += samples;
    return all;
  }
  // The end of the bucket that holds the sample of that rank; 0 without samples.
  [[nodiscard]] uint64_t percentile(double percent) const {
    const auto wanted = static_cast<uint64_t>(std::ceil(percent * static_cast<double>(count()) / 100.0));
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (counts_[i] > 0 && seen >= wanted) return last_of(i);
    }
    return 0;
  }

 private:
  std::array<uint64_t, kBuckets> counts_{};
};

using LatencyCountsByKind = std::array<LatencyCounts, kOpKinds>;

// Thread-safety: record() and clear() from one thread, add_to() from any. Memory ordering: relaxed; a reading may miss
// the latest samples, and no other data depends on it.
class LiveLatency {
 public:
  void record(OpKind kind, uint64_t ns) {
    std::atomic<uint32_t>& counter = counts_[static_cast<size_t>(kind)][LatencyCounts::bucket(ns)];
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  void clear() {
    for (auto& kind : counts_) {
      for (auto& counter : kind) counter.store(0, std::memory_order_relaxed);
    }
  }

  void add_to(LatencyCountsByKind* counts) const {
    for (size_t kind = 0; kind < kOpKinds; ++kind) {
      for (size_t i = 0; i < LatencyCounts::kBuckets; ++i) {
        (*counts)[kind].add(i, counts_[kind][i].load(std::memory_order_relaxed));
      }
    }
  }

 private:
  std::array<std::array<std::atomic<uint32_t>, LatencyCounts::kBuckets>, kOpKinds> counts_{};
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_DRIVER_LIVE_LATENCY_H_
