// SPDX-License-Identifier: Apache-2.0
// The simulation's own test: with a rule of the product left out, some life has no explanation. Lives without a rule
// run in a child process, where a broken invariant or a hang ends them as well.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "persist/testing/mutants.h"
#include "scale/testing/mutants.h"
#include "testing/scratch.h"
#include "testing/sim/life.h"

namespace bonsai::testing::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

struct Rule {
  uint32_t bit;
  const char* name;
};

constexpr Rule kRules[] = {
    {scale::kFenceNotAwaited, "acknowledged before the answer"},
    {scale::kFenceFailureIgnored, "a failed fence of remote targets is ignored"},
    {scale::kFailureForgotten, "a failed request is forgotten"},
    {scale::kAnswerBeforeFlush, "the server answers and flushes nothing"},
    {scale::kFlushFirstOnly, "the server flushes one range of several"},
    {scale::kFlushNotAwaited, "the server answers before its thread has flushed"},
    {scale::kOwnersNotLookedFor, "owners without power keep their pools"},
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

// Runs lives until one fails. Returns an upper bound of the lives that this took; 0: none failed.
uint64_t lives_until_noticed(uint32_t bit, uint64_t first, uint64_t processes_max) {
  const ScratchFolder scratch;  // what children leave goes with it
  const std::string folder = std::filesystem::path(scratch.file("child")).parent_path();
  for (uint64_t n = 0; n < processes_max; ++n) {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("BONSAI_TEST_DIR", folder.c_str(), 1);
      mutants_on.store(bit);
      ::alarm(60);
      if (std::freopen("/dev/null", "w", stdout) == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr) {
        ::_exit(2);
      }
      // Several to a process, since making one takes as long as a short life.
      for (uint64_t i = 0; i < 16; ++i) {
        if (!live(first + 16 * n + i).violation.empty()) ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (status != 0) return 16 * (n + 1);
  }
  return 0;
}

TEST(StoreSimMutants, TheLossOfEveryRuleIsNoticed) {
  if (kSlow) GTEST_SKIP() << "the build without sanitizers is enough";
  const uint64_t first = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(first));
  const auto processes_max = budget<uint64_t>(300, 300, 1'000);
  EXPECT_EQ(lives_until_noticed(0, first, 2), 0U) << "with all rules on";
  uint64_t killed = 0;
  for (const Rule& rule : kRules) {
    const uint64_t lives = lives_until_noticed(rule.bit, first, processes_max);
    killed += lives != 0 ? 1 : 0;
    std::printf("  %-52s %s\n", rule.name, lives == 0 ? "SURVIVES" : ("after " + std::to_string(lives)).c_str());
    EXPECT_NE(lives, 0U) << rule.name << ": nothing notices it";
    add_row("mutants of the whole store in simulation", rule.name,
            {{"mutants", 1}, {"killed", lives != 0 ? 1 : 0}, {"lives", lives}});
  }
  add_figure("store_sim_mutants", std::size(kRules));
  add_figure("store_sim_mutants_killed", killed);
}

}  // namespace
}  // namespace bonsai::testing::sim
