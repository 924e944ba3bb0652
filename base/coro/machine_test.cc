// SPDX-License-Identifier: Apache-2.0
#include "base/coro/machine.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/boot_clock.h"
#include "base/clock.h"
#include "base/thread.h"

namespace bonsai::base {
namespace {

constexpr uint64_t kMs = kNsPerMs;

// Runs `body` as a coroutine that belongs to no machine.
void in_world(const std::function<void(Scheduler*)>& body, uint64_t seed = 1) {
  Scheduler scheduler({.pick = Scheduler::Pick::kSeeded, .seed = seed, .switches_max = 1'000'000});
  scheduler.spawn([&] { body(&scheduler); }, "world");
  EXPECT_EQ(scheduler.run().ToString(), "OK");
}

TEST(Machine, StoppedCoroutinesDoNotRunAndThenGoOn) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    in_world(
        [](Scheduler* scheduler) {
          Machine machine(scheduler);
          uint64_t turns = 0, naps = 0;
          bool over = false;
          Thread process("process", [&] {
            machine.enter();
            Thread child("child", [&] {  // of the same machine
              for (; !over; ++naps) sleep_ms(1);
            });
            for (; !over; ++turns) yield_thread();
          });
          sleep_ms(5);
          EXPECT_GT(turns, 0U);
          machine.stop();
          const uint64_t turns_before = turns, naps_before = naps;
          sleep_ms(50);
          EXPECT_EQ(turns, turns_before);
          EXPECT_EQ(naps, naps_before);
          machine.go_on();
          sleep_ms(5);
          EXPECT_GT(turns, turns_before);
          EXPECT_GT(naps, naps_before);
          over = true;
        },
        seed);
  }
}

TEST(Machine, AWorldOfWhichAllElseIsStoppedGoesOnInTime) {
  in_world([](Scheduler* scheduler) {
    Machine machine(scheduler);
    bool over = false;
    Thread process("process", [&] {
      machine.enter();
      while (!over) yield_thread();
    });
    machine.stop();
    const uint64_t begin_ns = now_ns();
    sleep_ms(1'000);
    EXPECT_GE(now_ns(), begin_ns + 1'000 * kMs);
    over = true;
    machine.go_on();
  });
}

// A process that sleeps for 100 ms, and how long that took by each clock.
struct Sleeper {
  explicit Sleeper(Machine* machine)
      : thread("process", [this, machine] {
          machine->enter();
          const uint64_t begin_ns = now_ns(), begin_boot_ns = boot_ns(), begin_world_ns = Scheduler::world_ns();
          sleep_ms(100);
          slept_ns = now_ns() - begin_ns;
          slept_boot_ns = boot_ns() - begin_boot_ns;
          slept_world_ns = Scheduler::world_ns() - begin_world_ns;
        }) {}

  uint64_t slept_ns = 0, slept_boot_ns = 0, slept_world_ns = 0;
  Thread thread;  // the last member, so that it ends first
};

TEST(Machine, RunningTimeStandsInSuspendAndBootTimeDoesNot) {
  in_world([](Scheduler* scheduler) {
    Machine machine(scheduler);
    Sleeper process(&machine);
    sleep_ms(50);
    machine.suspend();
    sleep_ms(1'000);
    machine.go_on();
    process.thread.join();
    EXPECT_GE(process.slept_ns, 100 * kMs);
    EXPECT_LT(process.slept_ns, 110 * kMs);
    EXPECT_GE(process.slept_boot_ns, 1'100 * kMs);
    EXPECT_LT(process.slept_boot_ns, 1'110 * kMs);
    EXPECT_EQ(process.slept_boot_ns, process.slept_world_ns);
  });
}

TEST(Machine, BothClocksStandInAPause) {
  in_world([](Scheduler* scheduler) {
    Machine machine(scheduler);
    Sleeper process(&machine);
    sleep_ms(20);
    machine.pause();
    sleep_ms(1'000);
    machine.go_on();
    sleep_ms(20);
    machine.suspend();
    machine.pause();  // it is suspended already
    sleep_ms(300);
    machine.go_on();
    process.thread.join();
    EXPECT_GE(process.slept_ns, 100 * kMs);
    EXPECT_LT(process.slept_ns, 110 * kMs);
    EXPECT_GE(process.slept_boot_ns, 400 * kMs);
    EXPECT_LT(process.slept_boot_ns, 410 * kMs);
    EXPECT_EQ(process.slept_boot_ns + 1'000 * kMs, process.slept_world_ns);
  });
}

TEST(Machine, ItsBootClockRunsAtItsOwnRateAndNeverBack) {
  for (const int64_t ppm : {10'000, 0, -10'000}) {
    in_world([ppm](Scheduler* scheduler) {
      Machine machine(scheduler, ppm);
      Thread process("process", [&] {
        machine.enter();
        const uint64_t begin_ns = boot_ns(), begin_world_ns = Scheduler::world_ns();
        uint64_t before_ns = begin_ns;
        for (int i = 0; i < 1'000; ++i) {
          sleep_ms(1);
          EXPECT_GE(boot_ns(), before_ns);
          before_ns = boot_ns();
        }
        const auto passed = static_cast<int64_t>(boot_ns() - begin_ns);
        const auto world = static_cast<int64_t>(Scheduler::world_ns() - begin_world_ns);
        EXPECT_NEAR(static_cast<double>(passed - world), static_cast<double>(world / 1'000'000 * ppm), 20'000.);
      });
    });
  }
}

TEST(Machine, RunsReplayExactly) {
  const auto run = [](uint64_t seed) {
    std::vector<uint64_t> trace;
    in_world(
        [&trace](Scheduler* scheduler) {
          Machine machine(scheduler, 5'000);
          bool over = false;
          Thread process("process", [&] {
            machine.enter();
            while (!over) {
              trace.push_back(boot_ns());
              sleep_us(300);
            }
          });
          for (int i = 0; i < 10; ++i) {
            sleep_ms(1 + static_cast<uint64_t>(i));
            machine.stop();
            sleep_us(700);
            machine.go_on();
            machine.suspend();
            sleep_us(500);
            machine.go_on();
          }
          over = true;
        },
        seed);
    return trace;
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_FALSE(run(7).empty());
}

}  // namespace
}  // namespace bonsai::base
