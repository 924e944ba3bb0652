// SPDX-License-Identifier: Apache-2.0
// The influence of the harness on a measurement: how fast it is, when its clock runs, and what its latencies mean.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/sanitized.h"
#include "base/thread.h"
#include "bench/driver/driver.h"
#include "bench/driver/pace.h"
#include "bench/engines/engine.h"
#include "bench/results/statistics.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kRecords = 1'000'000;

constexpr bool kInstrumented = bonsai::testing::kSanitized;

Workload reads() {
  Workload workload;
  workload.shares = {1};
  workload.requests = Distribution::kZipfian;
  return workload;
}

// The least that reading through the interface can cost: the request, its key, the call, a look at the answer.
double bare_seconds(Engine* engine, const RequestList& list, const RecordShape& shape) {
  std::array<char, 8> room;
  std::string value;
  uint64_t failed = 0;
  const uint64_t start_ns = base::thread_cpu_ns();
  for (const Request& request : list.requests) {
    failed += !engine->read(encode_key(shape, request.key, room.data()), &value).ok();
  }
  const uint64_t end_ns = base::thread_cpu_ns();
  BONSAI_CHECK(failed == 0);
  return static_cast<double>(end_ns - start_ns) * 1e-9;
}

double drawing_seconds(Drawer drawer, uint64_t requests) {
  uint64_t sum = 0;
  const uint64_t start_ns = base::thread_cpu_ns();
  for (uint64_t i = 0; i < requests; ++i) sum += drawer.next().key;
  const uint64_t end_ns = base::thread_cpu_ns();
  BONSAI_CHECK(sum != 0);
  return static_cast<double>(end_ns - start_ns) * 1e-9;
}

// A unit of work to compare a request with, because a machine may run at a third of its speed for minutes: a power and
// two hashes.
double yardstick_seconds(uint64_t requests) {
  double sum = 0;
  uint64_t state = requests;
  const uint64_t start_ns = base::thread_cpu_ns();
  for (uint64_t i = 0; i < requests; ++i) {
    state = base::splitmix64(base::splitmix64(state + i));
    sum += std::pow(static_cast<double>(state | 1) * 0x1p-64, 0.01);
  }
  const uint64_t end_ns = base::thread_cpu_ns();
  BONSAI_CHECK(sum > 0);
  return static_cast<double>(end_ns - start_ns) * 1e-9;
}

// In processor time, which leaves out what the machine does for other programs. Ratios are medians of the harness's
// time over the time of the reference measured next to it.
struct Speed {
  double mops_best = 0;
  double to_reference = 0, to_yardstick = 0;
};

uint64_t waits_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_nvcsw);
}

template <class Reference>
Speed measure(const RequestPlan& plan, const Reference& reference) {
  const auto engine = find_engine("dummy")->make();
  Speed speed;
  std::vector<double> to_reference, to_yardstick;
  for (int round = 0; round < 9; ++round) {
    const double reference_seconds = reference(engine.get());
    const double yardstick = yardstick_seconds(plan.operations);
    const uint64_t waits_before = waits_so_far();
    const PhaseResult result = run_phase(engine.get(), plan, PhaseOptions());
    EXPECT_LT(waits_so_far() - waits_before, 100 + 20 * result.seconds) << "no request waits for anything";
    EXPECT_EQ(result.operations, plan.operations);
    EXPECT_EQ(result.failures, 0U);
    to_reference.push_back(result.cpu_seconds / reference_seconds);
    to_yardstick.push_back(result.cpu_seconds / yardstick);
    speed.mops_best = std::max(speed.mops_best, static_cast<double>(plan.operations) / result.cpu_seconds / 1e6);
  }
  speed.to_reference = median(to_reference);
  speed.to_yardstick = median(to_yardstick);
  return speed;
}

void print(const char* what, const Speed& speed, const char* reference) {
  std::printf("%s: %.0f M requests/s at best, %.2f times %s time, %.2f times the yardstick's\n", what, speed.mops_best,
              speed.to_reference, reference, speed.to_yardstick);
}

// On a machine where the bare loop makes 520 M requests/s and the harness 115 M/s, the bound of the ratio is at 104
// M/s. Other load on the machine slows down both alike.
TEST(Harness, ReplaysAHundredMillionRequestsPerSecond) {
  const uint64_t requests = testing::budget<uint64_t>(200'000, 2'000'000, 2'000'000);
  const RequestPlan plan = draw_requests(reads(), RecordShape(), kRecords, requests, 1, 1);
  const Speed speed =
      measure(plan, [&](Engine* engine) { return bare_seconds(engine, plan.threads[0], RecordShape()); });
  print("replayed", speed, "the bare loop's");
  if (kInstrumented) {  // which costs more where more is done
    EXPECT_LT(speed.to_reference, 30);
    return;
  }
  EXPECT_LT(speed.to_reference, 5);
  testing::add_figure("dummy_replayed_mops_max", static_cast<uint64_t>(speed.mops_best));
  EXPECT_LT(speed.to_yardstick, 1.2);
}

// Drawing costs about 28 ns, a power and two hashes; on a machine where it does, the bounds leave 15 M requests/s.
TEST(Harness, DrawsTwentyFiveMillionRequestsPerSecond) {
  const uint64_t requests = testing::budget<uint64_t>(100'000, 1'000'000, 1'000'000);
  const RequestPlan plan = draw_requests(reads(), RecordShape(), kRecords, requests, 1, 1, DrawMode::kLive);
  const Speed speed = measure(plan, [&](Engine*) { return drawing_seconds(*plan.threads[0].live, requests); });
  print("drawn", speed, "the drawing's");
  if (kInstrumented) {
    EXPECT_LT(speed.to_reference, 8);
    return;
  }
  EXPECT_LT(speed.to_reference, 1.7);
  testing::add_figure("dummy_drawn_mops_max", static_cast<uint64_t>(speed.mops_best));
  EXPECT_LT(speed.to_yardstick, 4);
}

// Counts its calls, and sleeps in one of them.
class CountingEngine final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {.threads = true, .keeps_data = false}; }
  Status open(const EngineOptions&) override { return Status::OK(); }
  Status close() override { return Status::OK(); }
  Status insert(std::string_view, std::string_view) override { return count(); }
  Status read(std::string_view, std::string*) override { return count(); }
  Status remove(std::string_view) override { return count(); }

  std::atomic<uint64_t> calls{0};
  uint64_t stall_at = UINT64_MAX;
  uint64_t stall_ms = 0;

 private:
  Status count() {
    if (calls.fetch_add(1) == stall_at) base::sleep_ms(stall_ms);
    return Status::OK();
  }
};

TEST(Harness, WarmsUpBeforeTheClockStarts) {
  for (const DrawMode mode : {DrawMode::kAhead, DrawMode::kLive}) {
    CountingEngine engine;
    engine.stall_at = 100;  // in the warm-up
    engine.stall_ms = 300;
    uint64_t calls_at_clock = 0;
    PhaseOptions options;
    options.warmup = 1001;
    options.latency_every = 1;
    options.on_clock = [&] { calls_at_clock = engine.calls; };
    const PhaseResult result =
        run_phase(&engine, draw_requests(reads(), RecordShape(), 1000, 6001, 2, 1, mode), options);
    EXPECT_EQ(calls_at_clock, 1001U);
    EXPECT_EQ(engine.calls, 6001U);
    EXPECT_EQ(result.operations, 5000U);
    EXPECT_EQ(result.operations_of[static_cast<size_t>(OpKind::kRead)], 5000U);
    EXPECT_EQ(result.latency[static_cast<size_t>(OpKind::kRead)].count(), 5000U);
    EXPECT_LT(result.latency[static_cast<size_t>(OpKind::kRead)].max(), 250 * base::kNsPerMs);
    EXPECT_LT(result.seconds, 0.25);
  }
}

TEST(Harness, StopsInTheWarmUp) {
  CountingEngine engine;
  const std::atomic<bool> stop = true;
  PhaseOptions options;
  options.warmup = 1000;
  options.stop = &stop;
  const PhaseResult result = run_phase(&engine, draw_requests(reads(), RecordShape(), 1000, 2000, 2, 1), options);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.operations, 0U);
  EXPECT_EQ(engine.calls, 0U);
}

TEST(Harness, KeepsTheTarget) {
  for (const DrawMode mode : {DrawMode::kAhead, DrawMode::kLive}) {
    CountingEngine engine;
    PhaseOptions options;
    options.target_ops_per_s = 20'000;
    const PhaseResult result =
        run_phase(&engine, draw_requests(reads(), RecordShape(), 1000, 4000, 2, 1, mode), options);
    // The last operation is due one interval before the end.
    EXPECT_GT(result.seconds, 0.199);
    EXPECT_EQ(result.operations, 4000U);
    EXPECT_EQ(result.latency[static_cast<size_t>(OpKind::kRead)].count(), 4000U);
    EXPECT_EQ(result.intended_latency[static_cast<size_t>(OpKind::kRead)].count(), 4000U);
  }
}

// One call of 200 ms delays the 2,000 that were due meanwhile: the intended times show it, the service times do not.
TEST(Harness, IntendedLatencyShowsWhomAStallDelayed) {
  CountingEngine engine;
  engine.stall_at = 500;
  engine.stall_ms = 200;
  PhaseOptions options;
  options.target_ops_per_s = 10'000;
  const PhaseResult result = run_phase(&engine, draw_requests(reads(), RecordShape(), 1000, 4000, 1, 1), options);
  const Histogram& service = result.latency[static_cast<size_t>(OpKind::kRead)];
  const Histogram& intended = result.intended_latency[static_cast<size_t>(OpKind::kRead)];
  EXPECT_GE(service.max(), 200 * base::kNsPerMs);
  EXPECT_GE(intended.max(), 200 * base::kNsPerMs);
  EXPECT_LT(service.percentile(90), 20 * base::kNsPerMs);
  EXPECT_GT(intended.percentile(75), 40 * base::kNsPerMs);  // half of all were delayed, by 100 ms on average
}

TEST(IntervalPace, SpreadsOperationsAndThreads) {
  constexpr uint64_t kMs = base::kNsPerMs;
  for (const unsigned threads : {1U, 2U, 3U, 8U}) {
    for (const double rate : {10.0, 10'000.0, 1e6, 1e7 / 3}) {
      std::vector<uint64_t> ends;
      for (unsigned thread = 0; thread < threads; ++thread) {
        const IntervalPace pace(rate, 25 * kMs, thread, threads);
        ends.push_back(pace.end_of(0));
        EXPECT_EQ(pace.end_of(1), pace.end_of(0) + 25 * kMs);
        const uint64_t second = pace.due_by(1000 * kMs);
        EXPECT_NEAR(static_cast<double>(second), rate / threads, 1);
        for (const uint64_t n : {uint64_t{1}, uint64_t{7}, second + 1}) {
          EXPECT_EQ(pace.due_by(pace.time_of(n)), n) << rate << " on " << threads;
          EXPECT_LT(pace.due_by(pace.time_of(n) - pace.time_of(1) / 1000 - 1), n) << rate << " on " << threads;
        }
      }
      std::sort(ends.begin(), ends.end());
      EXPECT_EQ(ends.back(), 25 * kMs) << "that of the first thread";
      for (unsigned i = 0; i < threads; ++i) EXPECT_NEAR(ends[i], 25.0 * kMs * (i + 1) / threads, 1);
    }
  }
}

TEST(SampleChoice, TakesAsManyOfEachIntervalAndSpreadsThem) {
  for (const auto& [operations, samples] : {std::pair{100U, 4U}, {3U, 5U}, {0U, 2U}, {1000U, 1U}, {10U, 0U}}) {
    SampleChoice choice(operations, samples);
    std::vector<unsigned> taken;
    for (unsigned i = 0; i < operations; ++i) {
      if (choice.takes(i)) taken.push_back(i);
    }
    ASSERT_EQ(taken.size(), std::min(operations, samples));
    for (unsigned i = 0; i < taken.size(); ++i) EXPECT_EQ(taken[i], (2 * i + 1) * operations / (2 * taken.size()));
  }
}

PhaseOptions by_intervals(double rate) {
  PhaseOptions options;
  options.target_ops_per_s = rate;
  options.interval_ms = 25;
  options.latency_per_interval = 2;
  return options;
}

TEST(Harness, IntervalsKeepTheTarget) {
  for (const DrawMode mode : {DrawMode::kAhead, DrawMode::kLive}) {
    CountingEngine engine;
    const RequestPlan plan = draw_requests(reads(), RecordShape(), 1000, 40'000, 2, 1, mode);
    const PhaseResult result = run_phase(&engine, plan, by_intervals(200'000));
    EXPECT_EQ(result.operations, 40'000U);
    EXPECT_FALSE(result.stopped);
    EXPECT_GE(result.seconds, 0.2);
    // Eight intervals, and of one thread half a one.
    EXPECT_EQ(result.latency[static_cast<size_t>(OpKind::kRead)].count(), 2U * (8 + 9));
    EXPECT_EQ(result.intended_latency[static_cast<size_t>(OpKind::kRead)].count(), 0U);
    ASSERT_EQ(result.threads.size(), 2U);
    for (const ThreadTimes& thread : result.threads) {
      EXPECT_EQ(thread.operations, 20'000U);
      EXPECT_GT(thread.slept_seconds, 0.5 * thread.seconds);
      EXPECT_LT(thread.cpu_seconds, 0.3 * thread.seconds) << "it sleeps and does not spin";
    }
  }
}

TEST(Harness, WaitsOfTheOpenLoopDoNotSpin) {
  CountingEngine engine;
  PhaseOptions options;
  options.target_ops_per_s = 1'000;
  const PhaseResult result = run_phase(&engine, draw_requests(reads(), RecordShape(), 1000, 300, 1, 1), options);
  EXPECT_LT(result.cpu_seconds, 0.3 * result.seconds);
  EXPECT_GT(result.threads.at(0).slept_seconds, 0.5 * result.seconds);
}

// A stall of an interval or more is made up for: the operations that became due meanwhile start at once.
TEST(Harness, IntervalsCatchUpAfterAStall) {
  CountingEngine engine;
  engine.stall_at = 1000;
  engine.stall_ms = 100;
  const RequestPlan plan = draw_requests(reads(), RecordShape(), 1000, 10'000, 1, 1);
  const PhaseResult result = run_phase(&engine, plan, by_intervals(20'000));
  EXPECT_EQ(result.operations, 10'000U);
  EXPECT_GE(result.seconds, 0.5);
  EXPECT_LT(result.threads.at(0).slept_seconds, result.seconds - 0.09);
}

TEST(Harness, EndsWhenItsTimeIsOver) {
  const RequestPlan plan = draw_requests(reads(), RecordShape(), 1000, uint64_t{1} << 40, 2, 1, DrawMode::kLive);
  for (const double target : {0.0, 50'000.0}) {
    for (const uint64_t interval_ms : {0, 25}) {
      for (const unsigned depth : {1U, 4U}) {
        CountingEngine engine;
        PhaseOptions options = by_intervals(target);
        options.interval_ms = interval_ms;
        options.seconds_max = 0.11;
        options.depth = depth;
        const PhaseResult result = run_phase(&engine, plan, options);
        EXPECT_FALSE(result.stopped);
        EXPECT_EQ(result.operations, engine.calls);
        EXPECT_GE(result.seconds, 0.109);
        EXPECT_TRUE(target == 0 || result.operations <= 5500U + 2) << result.operations;
      }
    }
  }
}

TEST(Harness, IntendedLatencyCountsTheWaitForABatch) {
  CountingEngine engine;
  PhaseOptions options;
  options.depth = 10;
  options.target_ops_per_s = 1000;
  const PhaseResult result = run_phase(&engine, draw_requests(reads(), RecordShape(), 1000, 100, 1, 1), options);
  const Histogram& intended = result.intended_latency[static_cast<size_t>(OpKind::kRead)];
  EXPECT_EQ(intended.count(), 100U);
  EXPECT_GE(intended.percentile(50), 4 * base::kNsPerMs);  // the first of ten waits 9 ms, the last not at all
  EXPECT_EQ(result.latency[static_cast<size_t>(OpKind::kRead)].count(), 10U);
}

TEST(Harness, WithoutATargetThereIsNoIntendedTime) {
  CountingEngine engine;
  const PhaseResult result = run_phase(&engine, draw_requests(reads(), RecordShape(), 1000, 1000, 1, 1), {});
  EXPECT_EQ(result.intended_latency[static_cast<size_t>(OpKind::kRead)].count(), 0U);
  EXPECT_EQ(result.latency[static_cast<size_t>(OpKind::kRead)].count(), 16U);
  EXPECT_FALSE(result.pinned);
}

TEST(Harness, PinsItsThreads) {
  CountingEngine engine;
  PhaseOptions options;
  options.pin = true;
  const PhaseResult result = run_phase(&engine, draw_requests(reads(), RecordShape(), 1000, 1000, 3, 1), options);
  EXPECT_TRUE(result.pinned);
}

}  // namespace
}  // namespace bonsai::bench
