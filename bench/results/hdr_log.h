// SPDX-License-Identifier: Apache-2.0
// A histogram as an interval log of HdrHistogram (log format 1.3, histograms in the V2 compressed encoding, base64), so
// that its tools read it: HistogramLogProcessor, HistogramLogAnalyzer, the plotters. Values are nanoseconds, by the
// convention of those logs; the column Interval_Max is in milliseconds.
#ifndef BONSAI_BENCH_RESULTS_HDR_LOG_H_
#define BONSAI_BENCH_RESULTS_HDR_LOG_H_

#include <string>
#include <string_view>

#include "bench/results/histogram.h"

namespace bonsai::bench {

struct HdrInterval {
  std::string_view what;          // a line of comment, e.g. "bonsai, workload a, read"
  double start_wall_seconds = 0;  // since 1970
  double seconds = 0;
};

// The text of the .hdr file: one interval.
[[nodiscard]] std::string hdr_log(const Histogram& histogram, const HdrInterval& interval);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_HDR_LOG_H_
