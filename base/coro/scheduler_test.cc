// SPDX-License-Identifier: Apache-2.0
#include "base/coro/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/coro/stack.h"
#include "base/thread.h"

// TSan's runtime of GCC 12 knows at most 8,128 contexts, and sanitizers replace the fault at a guard page by a report.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define BONSAI_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define BONSAI_TEST_SANITIZED 1
#endif
#endif

namespace bonsai::base {
namespace {

using Pick = Scheduler::Pick;

TEST(Scheduler, FifoTakesTurnsInOrder) {
  Scheduler scheduler;
  std::string trace;
  for (char name : {'a', 'b', 'c'}) {
    scheduler.spawn([&trace, name] {
      for (int i = 0; i < 3; ++i) {
        trace += name;
        Scheduler::yield();
      }
    });
  }
  EXPECT_EQ(trace, "") << "nothing runs before run()";
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_EQ(trace, "abcabcabc");
  EXPECT_EQ(scheduler.live(), 0u);
}

TEST(Scheduler, OutsideACoroutineYieldIsNothingAndWaitingWaits) {
  EXPECT_EQ(Scheduler::current(), nullptr);
  Scheduler::yield();
  const uint64_t deadline = now_ns() + 2 * kNsPerMs;
  Scheduler::wait_until(deadline);
  EXPECT_GE(now_ns(), deadline);
  Scheduler scheduler;
  EXPECT_TRUE(scheduler.run().ok()) << "no coroutines";
  scheduler.spawn([&] { EXPECT_EQ(Scheduler::current(), &scheduler); });
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_EQ(Scheduler::current(), nullptr);
}

TEST(Scheduler, ACoroutineKeepsItsNumberAndNoLiveOneHasIt) {
  Scheduler scheduler;
  std::set<size_t> numbers;
  for (int i = 0; i < 5; ++i) {
    scheduler.spawn([&numbers] {
      const size_t mine = Scheduler::number();
      numbers.insert(mine);
      Scheduler::yield();
      EXPECT_EQ(Scheduler::number(), mine);
    });
  }
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_EQ(numbers.size(), 5u);
  EXPECT_LT(*numbers.rbegin(), 5u) << "they are small";
}

TEST(Scheduler, CoroutinesSpawnCoroutines) {
  Scheduler scheduler;
  int ended = 0;
  std::function<void(int)> tree = [&](int depth) {
    if (depth > 0) {
      for (int i = 0; i < 2; ++i) scheduler.spawn([&tree, depth] { tree(depth - 1); });
    }
    Scheduler::yield();
    ++ended;
  };
  scheduler.spawn([&] { tree(7); });
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_EQ(ended, 255);
}

TEST(Scheduler, CoroutinesAndStacksAreReused) {
  Scheduler scheduler;
  int ended = 0;
  size_t stacks = 0;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 10; ++i) {
      scheduler.spawn([&] {
        Scheduler::yield();
        ++ended;
      });
    }
    ASSERT_TRUE(scheduler.run().ok());
    if (round == 0) stacks = stacks_created();
  }
  EXPECT_EQ(ended, 1000);
  EXPECT_EQ(scheduler.created(), 10u);
  EXPECT_EQ(stacks_created(), stacks);
  Scheduler next;  // takes its stacks from the pool only when the first one gives them back
  next.spawn([] {});
  EXPECT_TRUE(next.run().ok());
}

TEST(Scheduler, FunctionsAreDestroyedWhenTheyEnd) {
  auto held = std::make_shared<int>(1);
  Scheduler scheduler;
  scheduler.spawn([held] { Scheduler::yield(); });
  EXPECT_EQ(held.use_count(), 2);
  ASSERT_TRUE(scheduler.run().ok());
  EXPECT_EQ(held.use_count(), 1);
  {
    Scheduler never_run;
    never_run.spawn([held] {});
  }
  EXPECT_EQ(held.use_count(), 1);
}

std::string seeded_trace(Scheduler& scheduler) {
  std::string trace;
  for (char name : {'a', 'b', 'c', 'd'}) {
    scheduler.spawn([&trace, name] {
      for (int i = 0; i < 5; ++i) {
        trace += name;
        if (i == 2) Scheduler::wait_until(now_ns() + 700);
        Scheduler::yield();
      }
      trace += std::to_string(now_ns() % 1'000'000);
    });
  }
  EXPECT_TRUE(scheduler.run().ok());
  return trace;
}

TEST(Scheduler, SeededRunsAreAFunctionOfTheSeed) {
  std::set<std::string> traces;
  Scheduler reused({.pick = Pick::kSeeded});
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Scheduler fresh({.pick = Pick::kSeeded, .seed = seed});
    const std::string trace = seeded_trace(fresh);
    reused.reset(seed);
    EXPECT_EQ(seeded_trace(reused), trace) << "reset() is as good as a new one";
    traces.insert(trace);
  }
  EXPECT_GT(traces.size(), 45u);
}

TEST(Scheduler, WhatASeededRunTakesForChanceIsAFunctionOfTheSeed) {
  const auto drawn = [](uint64_t seed) {
    std::vector<uint64_t> numbers;
    const auto draw = [&] {
      numbers.push_back(fresh_seed());
      numbers.push_back(thread_random().next());
      random_secret(std::as_writable_bytes(std::span(&numbers.emplace_back(), 1)));
      numbers.push_back(static_cast<uint64_t>(wall_seconds()));
      Scheduler::yield();
    };
    Scheduler scheduler({.pick = Scheduler::Pick::kSeeded, .seed = seed});
    scheduler.spawn(draw);
    scheduler.spawn(draw);
    EXPECT_TRUE(scheduler.run().ok());
    scheduler.reset(seed);
    scheduler.spawn(draw);
    EXPECT_TRUE(scheduler.run().ok());
    return numbers;
  };
  const std::vector<uint64_t> once = drawn(1);
  EXPECT_EQ(once, drawn(1));
  EXPECT_NE(once, drawn(2));
  EXPECT_EQ(once[0], once[8]) << "a reset begins anew";
  EXPECT_NE(once[0], once[4]);
  EXPECT_EQ(simulated_random, nullptr);
  EXPECT_NE(fresh_seed(), once[0]);
}

TEST(Scheduler, SeededReachesEveryInterleaving) {
  Scheduler scheduler({.pick = Pick::kSeeded});
  std::set<std::string> traces;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    scheduler.reset(seed);
    std::string trace;
    for (char name : {'a', 'b'}) {
      scheduler.spawn([&trace, name] {
        for (int i = 0; i < 3; ++i) {
          Scheduler::yield();
          trace += name;
        }
      });
    }
    ASSERT_TRUE(scheduler.run().ok());
    traces.insert(trace);
  }
  EXPECT_EQ(traces.size(), 20u) << "6 over 3 orders of two times three steps";
}

TEST(Scheduler, StayingMakesLongStretches) {
  const auto changes = [](uint32_t stay) {
    Scheduler scheduler({.pick = Pick::kSeeded, .seed = 1, .stay_per_256 = stay});
    int last = -1, count = 0;
    for (int id = 0; id < 2; ++id) {
      scheduler.spawn([&, id] {
        for (int i = 0; i < 1000; ++i) {
          count += std::exchange(last, id) != id;
          Scheduler::yield();
        }
      });
    }
    EXPECT_TRUE(scheduler.run().ok());
    return count;
  };
  EXPECT_GT(changes(0), 600);
  EXPECT_LT(changes(250), 100);
}

TEST(Scheduler, DeadlinesPassInOrderWhileOthersRun) {
  Scheduler scheduler;
  std::string trace;
  for (int i = 0; i < 4; ++i) scheduler.spawn([] {});
  ASSERT_TRUE(scheduler.run().ok());  // makes the coroutines, which takes milliseconds under tsan
  const uint64_t start = now_ns();
  for (int i = 3; i >= 1; --i) {
    scheduler.spawn([&, i] {
      const uint64_t deadline = start + static_cast<uint64_t>(i) * 3 * kNsPerMs;
      Scheduler::wait_until(deadline);
      EXPECT_GE(now_ns(), deadline);
      trace += static_cast<char>('0' + i);
    });
  }
  int spins = 0;
  scheduler.spawn([&] {
    for (; trace.size() < 2; ++spins) Scheduler::yield();
  });
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_EQ(trace, "123");
  EXPECT_GT(spins, 100);
  EXPECT_GE(now_ns() - start, 9 * kNsPerMs);
}

TEST(Scheduler, VirtualTimeCostsNoTime) {
  Scheduler scheduler({.virtual_time = true});
  const uint64_t real_start = now_ns();
  std::string trace;
  for (int i = 3; i >= 1; --i) {
    scheduler.spawn([&, i] {
      EXPECT_LT(now_ns(), 2 * kNsPerSecond);
      sleep_ms(static_cast<uint64_t>(i) * 3'600'000);
      trace += static_cast<char>('0' + i);
    });
  }
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_EQ(trace, "123");
  EXPECT_LT(now_ns() - real_start, 10 * kNsPerSecond) << "and outside the clock is the real one";
}

TEST(Scheduler, ParkAndWake) {
  Scheduler scheduler;
  Scheduler::Token token;
  std::string trace;
  scheduler.spawn([&] {
    token = Scheduler::token();
    trace += "p";
    EXPECT_TRUE(Scheduler::park());
    trace += "w";
    token = Scheduler::token();
    EXPECT_FALSE(Scheduler::park(now_ns() + kNsPerMs));
    trace += "t";
    scheduler.wake(Scheduler::token());
    EXPECT_TRUE(Scheduler::park()) << "a wake before the park counts";
  });
  scheduler.spawn([&] {
    const Scheduler::Token first = token;
    scheduler.wake(first);
    scheduler.wake(first);
    Scheduler::yield();
    scheduler.wake(first);  // stale: must not end the second park
    trace += "s";
  });
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_EQ(trace, "pwst");
  scheduler.wake(token);
  scheduler.wake(Scheduler::Token());
}

TEST(Scheduler, AWakeBeatsTheDeadlineAndLeavesNoStaleTimer) {
  Scheduler scheduler({.virtual_time = true});
  Scheduler::Token token;
  scheduler.spawn([&] {
    token = Scheduler::token();
    EXPECT_TRUE(Scheduler::park(now_ns() + 10 * kNsPerSecond));
    const uint64_t woken_at = now_ns();
    Scheduler::wait_until(woken_at + 20 * kNsPerSecond);
    EXPECT_GE(now_ns(), woken_at + 20 * kNsPerSecond);
  });
  scheduler.spawn([&] { scheduler.wake(token); });
  EXPECT_TRUE(scheduler.run().ok());
}

TEST(Scheduler, DeadlockIsReportedByNameAndCanBeResolved) {
  Scheduler scheduler;
  std::vector<Scheduler::Token> tokens;
  for (const char* name : {"left", "right"}) {
    scheduler.spawn(
        [&] {
          tokens.push_back(Scheduler::token());
          EXPECT_TRUE(Scheduler::park());
        },
        name);
  }
  scheduler.spawn([] {}, "done");
  const Status status = scheduler.run();
  EXPECT_TRUE(status.IsUnavailable());
  EXPECT_NE(status.message().find("left #0 (parked) right #1 (parked)"), std::string::npos) << status.ToString();
  EXPECT_EQ(status.message().find("done"), std::string::npos);
  EXPECT_EQ(scheduler.live(), 2u);
  for (const auto& token : tokens) scheduler.wake(token);
  EXPECT_TRUE(scheduler.run().ok());
}

TEST(Scheduler, IdleTimeIsBounded) {
  Scheduler scheduler({.idle_ms_max = 10});
  scheduler.spawn([] { sleep_ms(2'000); }, "sleeper");
  const Status status = scheduler.run();
  EXPECT_EQ(scheduler.live(), 1u);
  EXPECT_NE(status.message().find("sleeper #0 (waits for a deadline)"), std::string::npos) << status.ToString();
  while (!scheduler.run().ok()) {
  }
  EXPECT_EQ(scheduler.live(), 0u);
}

TEST(Scheduler, LivelocksAreBounded) {
  for (const auto pick : {Pick::kFifo, Pick::kSeeded}) {
    for (int spinners : {1, 2}) {
      Scheduler scheduler({.pick = pick, .stay_per_256 = 100, .switches_max = 10'000});
      bool stop = false;
      for (int i = 0; i < spinners; ++i) {
        scheduler.spawn(
            [&] {
              while (!stop) Scheduler::yield();
            },
            "spinner");
      }
      const Status status = scheduler.run();
      EXPECT_NE(status.message().find("spinner #0 (runnable)"), std::string::npos) << status.ToString();
      EXPECT_FALSE(scheduler.run().ok());
      stop = true;
      EXPECT_TRUE(scheduler.run().ok());
    }
  }
}

TEST(Scheduler, AbandonedCoroutinesHarmNobody) {
  auto held = std::make_shared<int>(1);
  {
    Scheduler scheduler;
    scheduler.spawn([held] {
      const std::vector<int> on_the_stack(100, *held);
      Scheduler::park();
    });
    EXPECT_FALSE(scheduler.run().ok());
  }
  EXPECT_EQ(held.use_count(), 2) << "its frames were not left";
  Scheduler scheduler;
  scheduler.spawn([] { Scheduler::yield(); });
  EXPECT_TRUE(scheduler.run().ok());
}

TEST(Scheduler, SchedulersNest) {
  Scheduler outer({.virtual_time = true});
  int inner_runs = 0;
  for (int i = 0; i < 3; ++i) {
    outer.spawn([&] {
      const uint64_t outer_time = now_ns();
      Scheduler inner({.pick = Pick::kSeeded});
      inner.spawn([&] { sleep_ms(5'000'000); });
      inner.spawn([&] {
        Scheduler::yield();
        ++inner_runs;
        EXPECT_EQ(Scheduler::current(), &inner);
      });
      EXPECT_TRUE(inner.run().ok());
      EXPECT_EQ(Scheduler::current(), &outer);
      EXPECT_EQ(now_ns(), outer_time);
      Scheduler::yield();
    });
  }
  EXPECT_TRUE(outer.run().ok());
  EXPECT_EQ(inner_runs, 3);
}

TEST(Scheduler, ANestedOneLivesInTheTimeOfItsHost) {
  Scheduler host({.virtual_time = true});
  std::string trace;
  host.spawn([&] {
    Scheduler nested;
    const uint64_t begin = now_ns();
    for (const uint64_t seconds : {3, 1}) {
      nested.spawn([&trace, begin, seconds] {
        EXPECT_EQ(now_ns() / kNsPerSecond, begin / kNsPerSecond);
        Scheduler::wait_until(begin + seconds * kNsPerSecond);
        EXPECT_EQ(now_ns() / kNsPerSecond, (begin + seconds * kNsPerSecond) / kNsPerSecond);
        trace += "n" + std::to_string(seconds);
      });
    }
    ASSERT_TRUE(nested.run().ok());
    EXPECT_EQ(Scheduler::current(), &host);
  });
  host.spawn([&] {
    Scheduler::wait_until(now_ns() + 2 * kNsPerSecond);
    trace += "h2";
  });
  ASSERT_TRUE(host.run().ok());
  EXPECT_EQ(trace, "n1h2n3");
}

TEST(Scheduler, CoroutinesOfTheHostRunBetweenThoseOfANestedOneAndWakeThem) {
  for (const bool virtual_time : {false, true}) {
    Scheduler host({.virtual_time = virtual_time});
    Scheduler nested;
    Scheduler::Token sleeper;
    bool polled = false, woken = false;
    host.spawn([&] {
      nested.spawn([&] {
        sleeper = Scheduler::token();
        woken = Scheduler::park(now_ns() + 50 * kNsPerSecond);
      });
      nested.spawn([&] {
        for (int i = 0; i < 1'000 && !polled; ++i) Scheduler::yield();
        EXPECT_TRUE(polled);
      });
      EXPECT_TRUE(nested.run().ok());
    });
    host.spawn([&] {
      polled = true;
      Scheduler::wait_until(now_ns() + kNsPerMs);  // by then no coroutine of the nested scheduler is runnable
      nested.wake(sleeper);
    });
    ASSERT_TRUE(host.run().ok());
    EXPECT_TRUE(woken) << virtual_time;
  }
}

TEST(Scheduler, ANestedOneThatNobodyWakesNamesWhoWaits) {
  Scheduler host({.virtual_time = true});
  Scheduler nested;
  host.spawn([&] {
    nested.spawn([] { static_cast<void>(Scheduler::park()); }, "sleeper");
    const Status status = nested.run();
    EXPECT_NE(status.ToString().find("sleeper"), std::string::npos) << status.ToString();
  });
  ASSERT_TRUE(host.run().ok());
}

TEST(Scheduler, OnePerThreadAtTheSameTimeAndPassedOnWhenIdle) {
  Scheduler shared;
  for (int round = 0; round < 2; ++round) {
    std::vector<Thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back("worker", [] {
        Scheduler own;
        int steps = 0;
        for (int k = 0; k < 20; ++k) {
          own.spawn([&] {
            for (int step = 0; step < 50; ++step) {
              ++steps;
              Scheduler::yield();
            }
          });
        }
        EXPECT_TRUE(own.run().ok());
        EXPECT_EQ(steps, 1000);
      });
    }
    shared.spawn([] { Scheduler::yield(); });
    Thread("borrower", [&] { EXPECT_TRUE(shared.run().ok()); }).join();
    shared.spawn([] { Scheduler::yield(); });
    EXPECT_TRUE(shared.run().ok());
  }
}

TEST(Scheduler, ManyCoroutinesAtOnce) {
#ifdef BONSAI_TEST_SANITIZED
  constexpr int kCoroutines = 500;
#else
  constexpr int kCoroutines = 10'000;
#endif
  Scheduler scheduler({.stack_bytes = 16 << 10});
  int sum = 0;
  for (int i = 0; i < kCoroutines; ++i) {
    scheduler.spawn([&sum, i] {
      const int before = i;
      Scheduler::yield();
      Scheduler::wait_until(now_ns() + 1000);
      sum += before == i;
    });
  }
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_EQ(sum, kCoroutines);
}

TEST(Scheduler, RefusedStacksAreAnAnswer) {
  Scheduler scheduler({.stack_bytes = size_t{1} << 46});
  scheduler.spawn([] { FAIL() << "it has no stack"; });
  const Status status = scheduler.run();
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  EXPECT_TRUE(scheduler.run().ok()) << "reported once";
}

[[gnu::noinline]] int use_stack(int depth) {
  volatile char frame[512];
  frame[0] = static_cast<char>(depth);
  Scheduler::yield();
  return depth == 0 ? 0 : use_stack(depth - 1) + (frame[0] == static_cast<char>(depth));
}

TEST(Scheduler, DeepStacksSurviveSwitches) {
  Scheduler scheduler;
  for (int i = 0; i < 3; ++i) {
    scheduler.spawn([] { EXPECT_EQ(use_stack(80), 80); });
  }
  EXPECT_TRUE(scheduler.run().ok());
}

#ifndef BONSAI_TEST_SANITIZED
TEST(SchedulerDeath, OverflowHitsTheGuardPage) {
  Scheduler scheduler({.stack_bytes = 16 << 10});
  scheduler.spawn([] { (void)use_stack(1000); });
  EXPECT_EXIT((void)scheduler.run(), ::testing::KilledBySignal(SIGSEGV), "");
}
#endif

TEST(SchedulerDeath, ExceptionsDoNotCross) {
  EXPECT_DEATH(
      {
        Scheduler scheduler;
        scheduler.spawn([] { throw 1; });
        (void)scheduler.run();
      },
      "");
}

TEST(Scheduler, ExceptionsInsideAreTheFunctionsOwnBusiness) {
  Scheduler scheduler;
  int caught = 0;
  for (int i = 0; i < 3; ++i) {
    scheduler.spawn([&] {
      try {
        Scheduler::yield();
        throw 1;
      } catch (int) {
        ++caught;
      }
      Scheduler::yield();
    });
  }
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_EQ(caught, 3);
}

TEST(Scheduler, Cost) {
  Scheduler scheduler({.pick = Pick::kSeeded});
#ifdef BONSAI_TEST_SANITIZED
  constexpr int kRuns = 500, kYields = 5'000;
#else
  constexpr int kRuns = 20'000, kYields = 500'000;
#endif
  const uint64_t start = now_ns();
  for (uint64_t run = 0; run < kRuns; ++run) {
    scheduler.reset(run);
    for (int i = 0; i < 3; ++i) {
      scheduler.spawn([] {
        for (int step = 0; step < 8; ++step) Scheduler::yield();
      });
    }
    ASSERT_TRUE(scheduler.run().ok());
  }
  const uint64_t runs_done = now_ns();
  Scheduler fifo;
  for (int i = 0; i < 2; ++i) {
    fifo.spawn([] {
      for (int step = 0; step < kYields; ++step) Scheduler::yield();
    });
  }
  ASSERT_TRUE(fifo.run().ok());
  const uint64_t yields_done = now_ns();
  std::printf("a run of 3 coroutines with 8 yields each %.0f ns, a yield to another coroutine %.1f ns\n",
              static_cast<double>(runs_done - start) / kRuns,
              static_cast<double>(yields_done - runs_done) / (2 * kYields));
}

}  // namespace
}  // namespace bonsai::base
