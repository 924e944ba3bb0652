// SPDX-License-Identifier: Apache-2.0
// Statistics of several measurements of one thing.
#ifndef BONSAI_BENCH_RESULTS_STATISTICS_H_
#define BONSAI_BENCH_RESULTS_STATISTICS_H_

#include <algorithm>
#include <optional>
#include <vector>

#include "base/check.h"

namespace bonsai::bench {

// The median; of an even number the mean of the middle two. Requires: not empty.
[[nodiscard]] inline double median(std::vector<double> values) {
  BONSAI_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Bounds between which a figure is.
struct Interval {
  double low = 0, high = 0;
};

// The 95 % confidence interval of a ratio that was measured in several rounds: Student's t over the logarithms, so that
// a ratio and its inverse have the same interval. Absent: fewer than three rounds, or one of them is not positive.
// Assumes that rounds are independent, and their logarithms about normal.
[[nodiscard]] std::optional<Interval> ratio_interval(const std::vector<double>& ratios);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_STATISTICS_H_
