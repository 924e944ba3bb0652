// SPDX-License-Identifier: Apache-2.0
// The simulation's own test: with a rule of the product left out, some life has no explanation.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "persist/testing/mutants.h"
#include "scale/testing/mutants.h"
#include "testing/sim/life.h"
#include "testing/sim/without_rule.h"

namespace bonsai::testing::sim {
namespace {

constexpr Rule kRules[] = {
    {scale::kFenceNotAwaited, "acknowledged before the answer"},
    {scale::kFenceFailureIgnored, "a failed fence of remote targets is ignored"},
    {scale::kFailureForgotten, "a failed request is forgotten"},
    {scale::kAnswerBeforeFlush, "the server answers and flushes nothing"},
    {scale::kFlushFirstOnly, "the server flushes one range of several"},
    {scale::kFlushNotAwaited, "the server answers before its thread has flushed"},
    {scale::kOwnerReplaced, "two owners of a pool at once"},
    {scale::kReadNotAwaited, "a buffer is used again before its READ is complete"},
    {scale::kCopyUsedAgain, "a buffer is used again before its WRITE is complete"},
    {scale::kSendAgainSkipped, "unanswered writes are not sent again"},
    {scale::kReadAgainSkipped, "unanswered reads are not repeated"},
    {persist::kAppendFailureIgnored, "a failed append is taken for durable"},
    {persist::kHeaderWithRuns, "headers go with their runs"},
    {persist::kCommitFailureIgnored, "a failed commit is taken for durable"},
    {persist::kLargeNotFenced, "a large value is referred to before it is durable"},
    {persist::kEpochClosedEarly, "an epoch is closed before its records are durable"},
    {persist::kRecoveredNotWritten, "recovery builds on what may not be durable"},
};

TEST(StoreSimMutants, TheLossOfEveryRuleIsNoticed) {
  if (kSanitized) GTEST_SKIP() << "the build without sanitizers is enough";
  const uint64_t first = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(first));
  const auto processes_max = budget<uint64_t>(300, 300, 1'000);
  const auto is_wrong = [](uint64_t seed) { return !live(seed).violation.empty(); };
  EXPECT_EQ(lives_until_noticed(0, first, 2, is_wrong), 0U) << "with all rules on";
  const uint64_t killed =
      rules_noticed("mutants of the whole store in simulation", kRules, first, processes_max, is_wrong);
  add_figure("store_sim_mutants", std::size(kRules));
  add_figure("store_sim_mutants_killed", killed);
}

}  // namespace
}  // namespace bonsai::testing::sim
