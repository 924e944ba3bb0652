// SPDX-License-Identifier: Apache-2.0
// With a rule of ownership, recovery or remote targets left out, some life of two owners has no explanation.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "persist/testing/mutants.h"
#include "scale/testing/mutants.h"
#include "testing/sim/owner_life.h"
#include "testing/sim/without_rule.h"

namespace bonsai::testing::sim {
namespace {

constexpr Rule kRules[] = {
    {scale::kRecordSkipped, "an owner is served before its record is durable"},
    {scale::kReplacedResumes, "a replaced owner takes the pool back"},
    {scale::kSendAgainSkipped, "unanswered writes are not sent again"},
    {scale::kReadAgainSkipped, "unanswered reads are not repeated"},
    {scale::kFenceNotAwaited, "acknowledged before the answer"},
    {scale::kFenceFailureIgnored, "a failed fence of remote targets is ignored"},
    {scale::kAnswerBeforeFlush, "the server answers and flushes nothing"},
    {scale::kFlushFirstOnly, "the server flushes one range of several"},
    {scale::kReadNotAwaited, "a buffer is used again before its READ is complete"},
    {scale::kCopyUsedAgain, "a buffer is used again before its WRITE is complete"},
    {persist::kAppendFailureIgnored, "a failed append is taken for durable"},
    {persist::kRecoveredNotWritten, "recovery builds on what may not be durable"},
};

TEST(OwnerSimMutants, TheLossOfEveryRuleIsNoticed) {
  if (kSanitized) GTEST_SKIP() << "the build without sanitizers is enough";
  const uint64_t first = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(first));
  const auto processes_max = budget<uint64_t>(16, 40, 400);
  const auto is_wrong = [](uint64_t seed) { return !live_with_owners(seed).violation.empty(); };
  EXPECT_EQ(lives_until_noticed(0, first, 1, is_wrong), 0U) << "with all rules on";
  const uint64_t killed = rules_noticed("mutants of two owners in simulation", kRules, first, processes_max, is_wrong);
  add_figure("owner_sim_mutants", std::size(kRules));
  add_figure("owner_sim_mutants_killed", killed);
}

}  // namespace
}  // namespace bonsai::testing::sim
