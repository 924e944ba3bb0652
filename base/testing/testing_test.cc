// SPDX-License-Identifier: Apache-2.0
// The test helpers themselves: figures reach the file whole, budgets choose by the environment.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/mutants.h"
#include "base/testing/running_time.h"

namespace bonsai::testing {
namespace {

// Sets one environment variable for a scope, so that this program's own figures and budget stay as they are.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    ::setenv(name, value, 1);
  }
  ~ScopedEnvironment() { had_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

TEST(Figures, LinesOfManyThreadsDoNotMix) {
  const std::string path = ::testing::TempDir() + "figures-" + std::to_string(::getpid());
  {
    const ScopedEnvironment named("BONSAI_FIGURES", path.c_str());
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int round = 0; round < 100; ++round) add_figure("sample", 12345);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::ifstream file(path);
  std::string line;
  int lines = 0;
  for (; std::getline(file, line); ++lines) EXPECT_EQ(line, "sample 12345");
  EXPECT_EQ(lines, 400);
  std::remove(path.c_str());
}

TEST(Figures, ARowIsOneLine) {
  const std::string path = ::testing::TempDir() + "rows-" + std::to_string(::getpid());
  {
    const ScopedEnvironment named("BONSAI_FIGURES", path.c_str());
    add_row("crash images", "log.append", {{"fences", 3}, {"images", 50}});
  }
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, "table\tcrash images\tlog.append\tfences=3 images=50");
  EXPECT_FALSE(std::getline(file, line));
  std::remove(path.c_str());
}

TEST(Figures, WithoutAFileNothingHappens) {
  const ScopedEnvironment unnamed("BONSAI_FIGURES", "");
  add_figure("sample", 1);
}

TEST(Budget, ChoosesByTheEnvironment) {
  for (const auto& [word, amount] : {std::pair{"fast", 1}, {"full", 2}, {"nightly", 3}, {"", 2}}) {
    const ScopedEnvironment chosen("BONSAI_TEST_BUDGET", word);
    EXPECT_EQ(budget(1, 2, 3), amount) << word;
  }
}

TEST(BudgetDeathTest, AMisspeltBudgetEndsTheProgram) {
  const ScopedEnvironment misspelt("BONSAI_TEST_BUDGET", "nigthly");
  EXPECT_EXIT(static_cast<void>(budget(1, 2, 3)), ::testing::ExitedWithCode(2), "use fast, full or nightly");
}

TEST(Mutants, AreOffUnlessTheirBitIsSet) {
  EXPECT_FALSE(mutant(UINT32_MAX));
  mutants_on = 4;
  EXPECT_TRUE(mutant(4));
  EXPECT_FALSE(mutant(2));
  mutants_on = 0;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::noinline]] void reach_for(volatile int* nothing) { *nothing = 1; }

TEST(Main, ACrashPrintsItsStack) {
  EXPECT_EXIT(reach_for(nullptr), ::testing::KilledBySignal(SIGSEGV), "SIGSEGV(.|\n)*reach_for");
}
#endif

TEST(RunningTime, DoesNotCountWhileTheProcessIsStopped) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RunningTime time;
    const uint64_t begin_ns = base::now_ns();
    uint64_t now_ns = begin_ns, gap_ns = 0;
    while (gap_ns < 900 * base::kNsPerMs && now_ns - begin_ns < 20 * base::kNsPerSecond) {
      const uint64_t last_ns = now_ns;
      base::sleep_ms(10);
      now_ns = base::now_ns();
      gap_ns = std::max(gap_ns, now_ns - last_ns);
    }
    base::sleep_ms(50);  // until its thread has woken, too
    const uint64_t lost_ns = base::now_ns() - begin_ns - time.ms() * base::kNsPerMs;
    ::_exit(time.ms() > 0 && gap_ns >= 900 * base::kNsPerMs && lost_ns >= gap_ns - 2 * base::BoundedWait::kStepNsMax
                ? 0
                : 1);
  }
  base::sleep_ms(200);
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  base::sleep_ms(1'000);
  ASSERT_EQ(::kill(child, SIGCONT), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace bonsai::testing
