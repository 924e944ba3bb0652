// SPDX-License-Identifier: Apache-2.0
// Statistics of several measurements of one thing.
#ifndef BONSAI_BENCH_RESULTS_STATISTICS_H_
#define BONSAI_BENCH_RESULTS_STATISTICS_H_

#include <algorithm>
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

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_STATISTICS_H_
