// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/boot_clock.h"
#include "base/thread.h"

namespace bonsai::base {
namespace {

constexpr uint64_t kErrorNsMax = 1'000;

// How many times the quick clock was outside the interval of the exact clock's readings before and after it.
uint64_t lies_in(uint64_t ms) {
  const uint64_t end_ns = now_ns() + ms * kNsPerMs;
  uint64_t lies = 0;
  for (uint64_t before = now_ns(); before < end_ns;) {
    const uint64_t quick = quick_now_ns();
    const uint64_t after = now_ns();
    lies += quick + kErrorNsMax < before || quick > after + kErrorNsMax;
    before = after;
  }
  return lies;
}

TEST(Clock, OfTheMachinesStartMovesForwardAndCanBeSimulated) {
  const uint64_t first = boot_ns();
  sleep_ms(2);
  EXPECT_GE(boot_ns(), first + 2 * kNsPerMs);
  const uint64_t simulated = 77;
  virtual_now_ns = &simulated;
  EXPECT_EQ(boot_ns(), 77U);
  virtual_now_ns = nullptr;
}

// Asked seldom and often; the first readings are the system's own.
TEST(Clock, TheQuickOneOfTheMachinesStartIsRightWithinItsError) {
  for (const uint64_t pause_ms : {2, 2, 0}) {
    sleep_ms(pause_ms);
    for (int i = 0; i < 100'000; ++i) {
      const uint64_t before = boot_ns(), quick = quick_boot_ns(), after = boot_ns();
      ASSERT_LE(before, quick + kQuickBootErrorNsMax) << i;
      ASSERT_LE(quick, after + kQuickBootErrorNsMax) << i;
    }
  }
  const uint64_t simulated = 77;
  virtual_now_ns = &simulated;
  EXPECT_EQ(quick_boot_ns(), 77U);
  virtual_now_ns = nullptr;
}

TEST(Clock, MovesForwardAndCanBeSimulated) {
  const uint64_t first = now_ns();
  EXPECT_LE(first, now_ns());
  EXPECT_GT(now_seconds(), 0.0);
  EXPECT_GT(wall_seconds(), 1.7e9);
  const uint64_t simulated = 42;
  virtual_now_ns = &simulated;
  EXPECT_EQ(now_ns(), 42u);
  virtual_now_ns = nullptr;
  EXPECT_GE(now_ns(), first);
}

TEST(Clock, ProcessorTimeCountsWorkAndNoSleep) {
  const uint64_t begin = thread_cpu_ns();
  sleep_ms(50);
  const uint64_t slept = thread_cpu_ns();
  EXPECT_LT(slept - begin, 25 * kNsPerMs);
  while (thread_cpu_ns() < slept + 2 * kNsPerMs) {
  }
  EXPECT_GE(thread_cpu_ns(), slept + 2 * kNsPerMs);
}

TEST(Clock, TheQuickOneSaysTheSame) { EXPECT_EQ(lies_in(100), 0U); }

TEST(Clock, TheQuickOneSaysTheSameWhenItIsAskedSeldom) {
  static_cast<void>(quick_now_ns());
  for (const uint64_t pause_ms : {2, 1'100, 2}) {
    sleep_ms(pause_ms);
    EXPECT_EQ(lies_in(2), 0U) << "after " << pause_ms << " ms";
  }
}

TEST(Clock, EachThreadsQuickOneSaysTheSame) {
  std::vector<uint64_t> lies(8);
  std::vector<std::thread> threads;
  for (uint64_t& mine : lies) threads.emplace_back([&mine] { mine = lies_in(100); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lies, std::vector<uint64_t>(lies.size(), 0));
}

TEST(Clock, TheQuickOneFollowsVirtualTime) {
  const uint64_t simulated = 42;
  virtual_now_ns = &simulated;
  EXPECT_EQ(quick_now_ns(), 42U);
  virtual_now_ns = nullptr;
}

#if defined(__x86_64__)
// Whether the cycle counter comes into use: it does a millisecond after its first reading, unless that was disturbed.
bool comes_to_believe_the_counter() {
  for (int ms = 0; ms < 500 && clock_internal::anchor.valid_ticks == 0; ++ms) EXPECT_EQ(lies_in(1), 0U);
  return clock_internal::anchor.valid_ticks != 0;
}

TEST(Clock, TheCounterIsBelievedForAWhileOnly) {
  if (!comes_to_believe_the_counter()) GTEST_SKIP() << "this processor's cycle counter is not steady";
  const uint64_t anchored_ns = clock_internal::anchor.ns;
  sleep_ms(2);
  for (int i = 0; i < 1'000 && clock_internal::anchor.ns == anchored_ns; ++i) static_cast<void>(quick_now_ns());
  EXPECT_GE(clock_internal::anchor.ns, anchored_ns + 2 * kNsPerMs);
}

// The counter of a machine that moves to another host may jump.
TEST(Clock, ACounterThatJumpedIsForgottenInASecond) {
  if (!comes_to_believe_the_counter()) GTEST_SKIP() << "this processor's cycle counter is not steady";
  clock_internal::anchor.rate_since_ticks += uint64_t{1} << 60;
  clock_internal::anchor.valid_ticks = 0;
  EXPECT_EQ(lies_in(5), 0U) << "the other clock is asked";
  EXPECT_EQ(clock_internal::anchor.valid_ticks, 0U);
  sleep_ms(1'100);
  EXPECT_TRUE(comes_to_believe_the_counter());
}
#endif

}  // namespace
}  // namespace bonsai::base
