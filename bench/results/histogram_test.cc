#include "bench/results/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace bonsai::bench {
namespace {

TEST(Histogram, IsExactBelowTwoMicroseconds) {
  Histogram histogram;
  for (uint64_t ns = 1; ns <= 1000; ++ns) histogram.record(ns);
  EXPECT_EQ(histogram.count(), 1000U);
  EXPECT_EQ(histogram.percentile(50), 500U);
  EXPECT_EQ(histogram.percentile(99.9), 999U);
  EXPECT_EQ(histogram.percentile(100), 1000U);
  EXPECT_EQ(histogram.percentile(0), 1U);
  EXPECT_EQ(histogram.max(), 1000U);
}

TEST(Histogram, KeepsThreeDigitsOverAllMagnitudes) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  base::Random random(seed);
  Histogram histogram;
  std::vector<uint64_t> exact;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t ns = random.next() >> (22 + random.below(40));
    exact.push_back(ns);
    histogram.record(ns);
  }
  std::sort(exact.begin(), exact.end());
  for (const double percent : {1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99}) {
    const auto rank = static_cast<size_t>(std::ceil(percent * static_cast<double>(exact.size()) / 100.0));
    const double truth = static_cast<double>(exact[rank - 1]);
    const auto found = static_cast<double>(histogram.percentile(percent));
    EXPECT_GE(found, truth);
    EXPECT_LE(found, truth * (1 + 1.0 / 1024) + 1) << percent;
  }
  EXPECT_EQ(histogram.percentile(100), exact.back());
}

TEST(Histogram, MergesAsIfRecordedInOne) {
  Histogram one;
  Histogram left;
  Histogram right;
  for (uint64_t i = 1; i < 5000; ++i) {
    const uint64_t ns = i * i;
    one.record(ns);
    (i % 3 == 0 ? left : right).record(ns);
  }
  left.merge(right);
  left.merge(Histogram());
  EXPECT_EQ(left.count(), one.count());
  EXPECT_EQ(left.max(), one.max());
  for (const double percent : {10.0, 50.0, 99.0}) EXPECT_EQ(left.percentile(percent), one.percentile(percent));
}

TEST(Histogram, CapsWhatIsTooLong) {
  Histogram histogram;
  histogram.record(UINT64_MAX);
  EXPECT_EQ(histogram.max(), Histogram::kNanosecondsMax);
  EXPECT_EQ(histogram.percentile(50), Histogram::kNanosecondsMax);
}

}  // namespace
}  // namespace bonsai::bench
