// SPDX-License-Identifier: Apache-2.0
#include "bench/results/statistics.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace bonsai::bench {
namespace {

constexpr double kConfidence = .95;
constexpr size_t kRoundsMin = 3;

}  // namespace

std::optional<Interval> ratio_interval(const std::vector<double>& ratios) {
  const auto rounds = static_cast<double>(ratios.size());
  if (ratios.size() < kRoundsMin || *std::min_element(ratios.begin(), ratios.end()) <= 0) return {};
  double mean = 0, squares = 0;
  for (const double ratio : ratios) mean += std::log(ratio) / rounds;
  for (const double ratio : ratios) squares += std::pow(std::log(ratio) - mean, 2);
  const double error = std::sqrt(squares / (rounds - 1) / rounds);
  const boost::math::students_t student(rounds - 1);
  const double half = boost::math::quantile(student, (1 + kConfidence) / 2) * error;
  return Interval{std::exp(mean - half), std::exp(mean + half)};
}

}  // namespace bonsai::bench
