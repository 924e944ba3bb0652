// SPDX-License-Identifier: Apache-2.0
// Tests of the experiment on members: a further one costs messages and no round trip, and one that joins leaves most of
// the rate to the clients (modelled, in virtual time).
#include <gtest/gtest.h>

#include <string_view>

#include "bench/studies/testing/experiment_trial.h"

namespace bonsai::bench {
namespace {

class ReplicationTest : public ExperimentTrial {
 protected:
  ReplicationTest() {
    plan_.asked.records = 20'000;
    plan_.asked.operations = 3'000;
    plan_.asked.threads = 6;
  }
};

TEST_F(ReplicationTest, AFurtherMemberCostsMessagesAlone) {
  const ExperimentResult result = run("replication");
  ASSERT_EQ(result.rows.size(), 3U);
  const auto at = [&result](size_t row, std::string_view name) {
    return result.rows.at(row).at(column(result, name)).value_or(-1);
  };
  for (size_t row = 0; row < 3; ++row) {
    const double members = static_cast<double>(row + 1);
    EXPECT_NEAR(at(row, "put, round trips"), 1, .1) << row;
    EXPECT_NEAR(at(row, "put, messages"), members * at(0, "put, messages"), .05 * members) << row;
    EXPECT_NEAR(at(row, "put, bytes"), members * at(0, "put, bytes"), .1 * members * at(0, "put, bytes")) << row;
    EXPECT_NEAR(at(row, "get, messages"), at(0, "get, messages"), .01) << row;
    if (row == 0) continue;
    EXPECT_LT(at(row, "put, 50th percentile"), 1.2 * at(0, "put, 50th percentile")) << row;
    // A copy takes half of the time at most.
    EXPECT_GT(at(row, "puts while the last member is brought up to date"), .5 * at(row, "puts")) << row;
    EXPECT_GT(at(row, "copied meanwhile"), 500) << row;
  }
}

// What the joining member's column means: too many operations for the pool's size are refused.
TEST_F(ReplicationTest, AMemberThatIsUpToDateTooSoonIsSaid) {
  plan_.asked.records = 2'000;
  plan_.asked.operations = 20'000;
  ExperimentResult result;
  const Status status = find_experiments("replication").front()->run(plan_, &result);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_NE(status.message().find("ask for fewer operations"), std::string::npos) << status.ToString();
}

}  // namespace
}  // namespace bonsai::bench
