// SPDX-License-Identifier: Apache-2.0
// The fixture of tests that run experiments at trial size and check their tables.
#ifndef BONSAI_BENCH_STUDIES_TESTING_EXPERIMENT_TRIAL_H_
#define BONSAI_BENCH_STUDIES_TESTING_EXPERIMENT_TRIAL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

#include "bench/studies/experiments/experiment.h"

namespace bonsai::bench {

class ExperimentTrial : public ::testing::Test {
 protected:
  ExperimentTrial() {
    plan_.scale = Scale::kTrial;
    plan_.stop = &stop_;
    plan_.config.seed = 1;
    plan_.listener.on_phase = [this](const std::string&, const std::string&, uint64_t) { ++phases_; };
  }
  ExperimentResult run(std::string_view name) {
    ExperimentResult result;
    const auto found = find_experiments(name);
    EXPECT_EQ(found.size(), 1u) << name;
    EXPECT_EQ("OK", found.front()->run(plan_, &result).ToString()) << name;
    for (const Row& row : result.rows) EXPECT_EQ(row.size(), result.columns.size()) << name;
    return result;
  }
  static size_t column(const ExperimentResult& result, std::string_view name) {
    const auto at = std::find_if(result.columns.begin(), result.columns.end(),
                                 [name](const Column& one) { return one.name == name; });
    EXPECT_NE(at, result.columns.end()) << name;
    return static_cast<size_t>(at - result.columns.begin());
  }

  std::atomic<bool> stop_ = false;
  size_t phases_ = 0;
  ExperimentPlan plan_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_TESTING_EXPERIMENT_TRIAL_H_
