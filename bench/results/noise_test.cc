// SPDX-License-Identifier: Apache-2.0
// Tests of what else a machine did while something was measured.
#include "bench/results/noise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bench/results/statistics.h"

namespace bonsai::bench {
namespace {

TEST(Noise, ReadsTheSystemsLine) {
  MachineCounters counters;
  read_processors("cpu  100 10 40 800 50 1 2 30 7 0", 100, &counters);
  EXPECT_DOUBLE_EQ(*counters.all_s, 10.33) << "guests' time is in user's";
  EXPECT_DOUBLE_EQ(*counters.busy_s, 1.53);
  EXPECT_DOUBLE_EQ(*counters.stolen_s, .3);
  for (const char* line : {"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu a b c d e f g h"}) {
    MachineCounters none;
    read_processors(line, 100, &none);
    EXPECT_FALSE(none.all_s) << line;
  }
}

MachineCounters at(double all, double busy, double stolen, double own) {
  return {.all_s = all, .busy_s = busy, .stolen_s = stolen, .own_s = own, .at_ns = static_cast<uint64_t>(all * 1e9)};
}

TEST(Noise, IsWhatOthersTook) {
  const MachineCounters start = at(100, 40, 1, 5);
  const Noise quiet = noise_between(start, at(200, 140, 1, 103));
  EXPECT_DOUBLE_EQ(*quiet.others_percent, 2);
  EXPECT_DOUBLE_EQ(*quiet.stolen_percent, 0);
  EXPECT_EQ(quiet.verdict(), "");
  const Noise busy = noise_between(start, at(200, 140, 1, 55));
  EXPECT_DOUBLE_EQ(*busy.others_percent, 50);
  EXPECT_NE(busy.verdict().find("50.0 %"), std::string::npos) << busy.verdict();
  const Noise robbed = noise_between(start, at(200, 130, 11, 95));
  EXPECT_DOUBLE_EQ(*robbed.stolen_percent, 10);
  EXPECT_NE(robbed.verdict(), "");
  EXPECT_EQ(*noise_between(start, at(200, 60, 1, 105)).others_percent, 0) << "clocks of the two differ a little";
}

TEST(Noise, IsUnknownWhereTheSystemDoesNotSay) {
  const Noise unknown = noise_between({}, {.own_s = 3, .involuntary = 8, .at_ns = 2'000'000'000});
  EXPECT_FALSE(unknown.others_percent || unknown.stolen_percent);
  EXPECT_DOUBLE_EQ(*unknown.involuntary_per_s, 4);
  EXPECT_EQ(unknown.verdict(), "");
}

TEST(Noise, CountsThisProcess) {
  const MachineCounters start = machine_counters();
  // Counters have whole ticks: work until the system has counted some of it.
  MachineCounters end = start;
  double x = 1;
  while (end.own_s <= start.own_s) {
    for (int i = 0; i < 100'000; ++i) x = std::sqrt(x + 1);
    end = machine_counters();
  }
  EXPECT_GT(x, 0);
  EXPECT_GT(end.at_ns, start.at_ns);
}

// Figures of a table of Student's t: 4 degrees of freedom have 2.776 at 97.5 %.
TEST(RatioInterval, IsStudentsOverLogarithms) {
  const std::vector<double> ratios = {1.8, 1.9, 2.0, 2.1, 2.2};
  const std::optional<Interval> interval = ratio_interval(ratios);
  ASSERT_TRUE(interval.has_value());
  double mean = 0, squares = 0;
  for (const double ratio : ratios) mean += std::log(ratio) / 5;
  for (const double ratio : ratios) squares += std::pow(std::log(ratio) - mean, 2);
  const double half = 2.776445 * std::sqrt(squares / 4 / 5);
  EXPECT_NEAR(interval->low, std::exp(mean - half), 1e-6);
  EXPECT_NEAR(interval->high, std::exp(mean + half), 1e-6);
  std::vector<double> inverse;
  for (const double ratio : ratios) inverse.push_back(1 / ratio);
  EXPECT_NEAR(ratio_interval(inverse)->low, 1 / interval->high, 1e-12) << "a ratio and its inverse say the same";
}

TEST(RatioInterval, NeedsRounds) {
  EXPECT_FALSE(ratio_interval({}));
  EXPECT_FALSE(ratio_interval({2, 2.1})) << "two rounds say nothing of how far apart others would be";
  EXPECT_FALSE(ratio_interval({2, 0, 2.1}));
  EXPECT_NEAR(ratio_interval({2, 2, 2})->low, 2, 1e-12);
}

}  // namespace
}  // namespace bonsai::bench
