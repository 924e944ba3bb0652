// SPDX-License-Identifier: Apache-2.0
#include "bench/results/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

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

TEST(Histogram, EveryBucketEndsWhereTheNextBegins) {
  Histogram histogram;
  for (size_t bucket = 0; bucket < 20'000; ++bucket) {
    const uint64_t last = Histogram::last_of(bucket);
    const uint64_t first = bucket == 0 ? 0 : Histogram::last_of(bucket - 1) + 1;
    ASSERT_LE(first, last) << bucket;
    ASSERT_LE(last - first, first / 1024) << bucket << " is wider than a thousandth";
    histogram.clear();
    histogram.record(first);
    histogram.record(last, 3);
    ASSERT_EQ(histogram.buckets()[bucket], 4U) << bucket;
  }
}

TEST(Histogram, CountsManySamplesAsThatManyTimesOne) {
  Histogram one_by_one, at_once;
  for (int i = 0; i < 700; ++i) one_by_one.record(i < 500 ? 100 : 5000);
  at_once.record(100, 500);
  at_once.record(5000, 200);
  EXPECT_EQ(at_once.buckets(), one_by_one.buckets());
  EXPECT_EQ(at_once.count(), 700U);
  EXPECT_EQ(at_once.min(), 100U);
  EXPECT_EQ(at_once.max(), 5000U);
  EXPECT_DOUBLE_EQ(at_once.mean(), (500 * 100.0 + 200 * 5000.0) / 700);
  EXPECT_DOUBLE_EQ(at_once.mean(), one_by_one.mean());
  at_once.clear();
  EXPECT_EQ(at_once.count(), 0U);
  EXPECT_EQ(at_once.max(), 0U);
  at_once.record(7);
  EXPECT_EQ(at_once.min(), 7U) << "nothing is left of what was there";
  EXPECT_EQ(at_once.percentile(100), 7U);
}

// A percentile is printed only where ten samples are beyond it.
TEST(Histogram, CarriesWhatItsSamplesSay) {
  for (const auto& [samples, carried, not_carried] : std::vector<std::tuple<uint64_t, double, double>>{
           {20, 50, 75}, {100, 90, 95}, {1000, 99, 99.9}, {10'000, 99.9, 99.95}}) {
    Histogram histogram;
    histogram.record(1, samples);
    EXPECT_TRUE(histogram.carries(carried)) << samples;
    EXPECT_FALSE(histogram.carries(not_carried)) << samples;
  }
  EXPECT_FALSE(Histogram().carries(50));
}

TEST(Histogram, CapsWhatIsTooLong) {
  Histogram histogram;
  histogram.record(UINT64_MAX);
  EXPECT_EQ(histogram.max(), Histogram::kNanosecondsMax);
  EXPECT_EQ(histogram.percentile(50), Histogram::kNanosecondsMax);
}

}  // namespace
}  // namespace bonsai::bench
