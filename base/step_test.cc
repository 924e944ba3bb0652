// SPDX-License-Identifier: Apache-2.0
// Compiled with BONSAI_STEPPED, as the test variants of the libraries are.
#include "base/step.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/coro/scheduler.h"

namespace bonsai::base {
namespace {

std::vector<std::string>& steps_seen() {
  static std::vector<std::string> seen;
  return seen;
}

TEST(Step, CallsTheHook) {
  step("unseen");
  step_hook = [](const char* name) { steps_seen().emplace_back(name); };
  step("seen");
  step_hook = nullptr;
  step("unseen");
  EXPECT_EQ(steps_seen(), std::vector<std::string>{"seen"});
}

// Shows the use in protocol tests: a read-modify-write in two steps loses updates under some interleavings, and never
// without concurrency.
TEST(Step, WithASeededSchedulerShowsALostUpdate) {
  step_hook = [](const char*) { Scheduler::yield(); };
  Scheduler scheduler({.pick = Scheduler::Pick::kSeeded});
  int lost = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    scheduler.reset(seed);
    int counter = 0;
    for (int i = 0; i < 2; ++i) {
      scheduler.spawn([&] {
        step("read");
        const int read = counter;
        step("write");
        counter = read + 1;
      });
    }
    ASSERT_TRUE(scheduler.run().ok());
    lost += counter == 1;
  }
  step_hook = nullptr;
  EXPECT_GT(lost, 20);
  EXPECT_LT(lost, 180);
}

}  // namespace
}  // namespace bonsai::base
