// SPDX-License-Identifier: Apache-2.0
#include "bench/driver/live_latency.h"

#include <gtest/gtest.h>

namespace bonsai::bench {
namespace {

TEST(LatencyCounts, AreWithinAnEighth) {
  for (uint64_t ns = 1; ns < uint64_t{1} << 40; ns += 1 + ns / 7) {
    const uint64_t end = LatencyCounts::last_of(LatencyCounts::bucket(ns));
    EXPECT_GE(end, ns);
    EXPECT_LE(end - ns, ns / 8) << ns;
  }
  LatencyCounts counts;
  EXPECT_EQ(counts.percentile(99), 0U);
  for (uint64_t ns = 1; ns <= 1000; ++ns) counts.add(LatencyCounts::bucket(ns), 1);
  EXPECT_EQ(counts.count(), 1000U);
  EXPECT_NEAR(static_cast<double>(counts.percentile(50)), 500, 64);
  EXPECT_NEAR(static_cast<double>(counts.percentile(99)), 990, 64);
  LatencyCounts same = counts;
  same.subtract(counts);
  EXPECT_EQ(same.count(), 0U);
}

}  // namespace
}  // namespace bonsai::bench
