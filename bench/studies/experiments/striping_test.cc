// SPDX-License-Identifier: Apache-2.0
// Tests of the experiments on striping: requests are the store's own, and the model gives each layout its modules.
#include <gtest/gtest.h>

#include <string_view>

#include "bench/studies/testing/experiment_trial.h"

namespace bonsai::bench {
namespace {

class StripingTest : public ExperimentTrial {
 protected:
  StripingTest() {
    plan_.asked.records = 20'000;
    plan_.asked.operations = 1'000;
  }
  static double at(const ExperimentResult& result, size_t row, std::string_view name) {
    return result.rows.at(row).at(column(result, name)).value_or(-1);
  }
};

// As in the scheme: without striping and with hardware striping there are about as many requests; with software
// striping some 26 times as many.
TEST_F(StripingTest, OnlyTheClientsSplittingCostsRequests) {
  const ExperimentResult scans = run("striping-scans");
  for (size_t row = 0; row < scans.rows.size(); ++row) {
    const double none = at(scans, row, "none, requests");
    EXPECT_GT(none, .9) << row;
    EXPECT_NEAR(at(scans, row, "hardware, requests"), none, .05 * none) << row;
    EXPECT_GT(at(scans, row, "software, requests"), 12 * none) << row;
    EXPECT_LT(at(scans, row, "software, requests"), 40 * none) << row;
    EXPECT_GT(at(scans, row, "hardware"), at(scans, row, "software")) << row;
    EXPECT_GT(at(scans, row, "hardware"), .9 * at(scans, row, "none")) << row;
  }
}

TEST_F(StripingTest, LargerUnitsCostTheClientLess) {
  const ExperimentResult units = run("striping-units");
  double before = 1e9;
  for (size_t row = 0; row < units.rows.size(); ++row) {
    EXPECT_LT(at(units, row, "software, requests"), before) << row;
    before = at(units, row, "software, requests");
  }
  const size_t last = units.rows.size() - 1;
  // Runs are hardly ever in two such units.
  EXPECT_NEAR(at(units, last, "software"), at(units, last, "none"), .15 * at(units, last, "none"));
  EXPECT_LT(at(units, last, "software, requests"), 1.25 * at(units, last, "none, requests"));
  EXPECT_EQ(at(units, 0, "none"), at(units, last, "none"));
}

}  // namespace
}  // namespace bonsai::bench
