// SPDX-License-Identifier: Apache-2.0
// Latency histogram: log-linear buckets, three significant digits (each bucket is at most 1/1024 of its value wide), as
// in HdrHistogram. Units: nanoseconds. Thread-safety: none; one per thread, merged afterwards.
#ifndef BONSAI_BENCH_RESULTS_HISTOGRAM_H_
#define BONSAI_BENCH_RESULTS_HISTOGRAM_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace bonsai::bench {

class Histogram {
 public:
  // Longer times are recorded as this one: about 73 minutes.
  static constexpr uint64_t kNanosecondsMax = (uint64_t{1} << 42) - 1;

  void record(uint64_t ns) { record(ns, 1); }
  // Records the time `samples` times. Requires: samples > 0.
  void record(uint64_t ns, uint64_t samples) {
    ns = std::min(ns, kNanosecondsMax);
    if (counts_.empty()) counts_.resize(index(kNanosecondsMax) + 1);
    counts_[index(ns)] += samples;
    count_ += samples;
    sum_ += static_cast<double>(ns) * static_cast<double>(samples);
    min_ = std::min(min_, ns);
    max_ = std::max(max_, ns);
  }

  // The parts of a histogram, to be stored or sent and put together again by of().
  struct Parts {
    std::vector<uint64_t> counts;  // as buckets()
    double sum = 0;
    uint64_t min = UINT64_MAX;
    uint64_t max = 0;
  };
  [[nodiscard]] Parts parts() const { return {counts_, sum_, min_, max_}; }
  static Histogram of(Parts parts) {
    Histogram made;
    made.counts_ = std::move(parts.counts);
    for (const uint64_t samples : made.counts_) made.count_ += samples;
    made.sum_ = parts.sum;
    made.min_ = parts.min;
    made.max_ = parts.max;
    return made;
  }

  void merge(const Histogram& other) {
    if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
    for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  // Forgets the samples and keeps the memory.
  void clear() {
    std::fill(counts_.begin(), counts_.end(), 0);
    count_ = 0;
    max_ = 0;
    min_ = UINT64_MAX;
    sum_ = 0;
  }

  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] uint64_t max() const { return max_; }
  // Requires count() > 0.
  [[nodiscard]] uint64_t min() const { return min_; }
  // The mean of the samples themselves, not of their buckets. Requires count() > 0.
  [[nodiscard]] double mean() const { return sum_ / static_cast<double>(count_); }
  // The samples per bucket, in the order and of the widths of an HdrHistogram from 1 to kNanosecondsMax with three
  // significant digits. Empty without samples.
  [[nodiscard]] const std::vector<uint64_t>& buckets() const { return counts_; }

  // Whether the samples suffice for this percentile: at least ten are beyond it.
  [[nodiscard]] bool carries(double percent) const {
    constexpr double kRounding = 1e-6;  // 100 - 99.9 is a little less than 0.1
    return (100 - percent) * static_cast<double>(count_) >= 1000 - kRounding;
  }

  // The largest value of the bucket that holds the sample of rank ceil(percent / 100 * count), never above max().
  // Requires count() > 0.
  [[nodiscard]] uint64_t percentile(double percent) const {
    const auto wanted = static_cast<uint64_t>(std::ceil(percent * static_cast<double>(count_) / 100.0));
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= std::max<uint64_t>(wanted, 1)) return std::min(last_of(i), max_);
    }
    return max_;
  }

  // The largest value that buckets()[bucket] counts.
  static uint64_t last_of(size_t bucket) {
    if (bucket < 2 * kHalf) return bucket;
    const size_t shift = bucket / kHalf - 1;
    return ((bucket - shift * kHalf + 1) << shift) - 1;
  }

 private:
  static constexpr int kBits = 11;  // values below 2^11 have buckets of their own
  static constexpr uint64_t kHalf = uint64_t{1} << (kBits - 1);

  static size_t index(uint64_t value) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kBits);
    return static_cast<size_t>(shift) * kHalf + (value >> shift);
  }

  std::vector<uint64_t> counts_;  // empty until the first sample
  uint64_t count_ = 0;
  double sum_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_HISTOGRAM_H_
