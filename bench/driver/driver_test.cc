// SPDX-License-Identifier: Apache-2.0
#include "bench/driver/driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/thread.h"
#include "bench/engines/scan_check.h"
#include "bench/engines/testing/faulty_engine.h"
#include "bench/ycsb/values.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kRecords = 2000;

Workload workload_of(std::array<double, kOpKinds> shares, Distribution requests) {
  Workload workload;
  workload.shares = shares;
  workload.requests = requests;
  workload.scan_length_max = 20;
  return workload;
}

// Loads, runs the workload, and returns what the driver made of it.
PhaseResult run_on(Engine* engine, const Workload& workload, const RecordShape& shape, unsigned threads, unsigned depth,
                   PhaseResult* loaded = nullptr) {
  const RequestPlan load = draw_load(shape, kRecords, threads);
  PhaseOptions options;
  Versions versions;
  options.versions = &versions;
  options.shape = shape;
  options.key_max = load.key_max;
  options.loaded = kRecords;
  const PhaseResult load_result = run_phase(engine, load, options);
  if (loaded != nullptr) *loaded = load_result;
  const RequestPlan plan = draw_requests(workload, shape, kRecords, 10 * kRecords, threads, 1);
  AcknowledgedCounter counter(kRecords, plan.inserts_max);
  options.counter = &counter;
  options.depth = depth;
  options.absent_is_fine = workload.share(OpKind::kDelete) > 0;
  PhaseResult result = run_phase(engine, plan, options);
  EXPECT_EQ(counter.end(), kRecords + plan.inserts_max);
  return result;
}

struct Shape {
  KeyForm key_form;
  size_t value_bytes;
  unsigned threads;
  unsigned depth;
};

class SoundEngine : public ::testing::TestWithParam<Shape> {};

TEST_P(SoundEngine, HasNoFailureInAnyMix) {
  const Shape& run = GetParam();
  const RecordShape shape{run.key_form, true, 1, run.value_bytes};
  const std::array<Workload, 4> workloads = {workload_of({0.5, 0.2, 0.1, 0.1, 0.1}, Distribution::kZipfian),
                                             workload_of({0.6, 0.1, 0.2, 0.1}, Distribution::kLatest),
                                             workload_of({0.5, 0.1, 0.1, 0.1, 0, 0.2}, Distribution::kUniform),
                                             workload_of({0.5, 0, 0, 0.5}, Distribution::kSequential)};
  for (const Workload& workload : workloads) {
    FaultyEngine engine(Fault::kNone);
    PhaseResult loaded;
    const PhaseResult result = run_on(&engine, workload, shape, run.threads, run.depth, &loaded);
    EXPECT_EQ(result.failures, 0U) << result.first_failure;
    EXPECT_EQ(result.operations, 10 * kRecords);
    EXPECT_EQ(std::accumulate(result.operations_of.begin(), result.operations_of.end(), uint64_t{0}), 10 * kRecords);
    EXPECT_FALSE(result.stopped);
    EXPECT_GT(result.seconds, 0);
    EXPECT_EQ(loaded.inserted, kRecords);
    EXPECT_EQ(loaded.latency[static_cast<size_t>(OpKind::kInsert)].count(),
              run.threads * ((kRecords / run.threads + kLatencySampled - 1) / kLatencySampled));
    if (run.key_form == KeyForm::kFixed8) {
      EXPECT_EQ(loaded.inserted_key_bytes, 8 * kRecords);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SoundEngine,
                         ::testing::Values(Shape{KeyForm::kFixed8, 8, 1, 1}, Shape{KeyForm::kFixed8, 8, 2, 4},
                                           Shape{KeyForm::kString, 100, 2, 1}, Shape{KeyForm::kString, 0, 1, 3},
                                           Shape{KeyForm::kFixed8, 3, 1, 100}));

struct Detection {
  Fault fault;
  std::array<double, kOpKinds> shares;
  const char* says;
};

class FaultyEngines : public ::testing::TestWithParam<Detection> {};

TEST_P(FaultyEngines, AreFoundOut) {
  for (const KeyForm form : {KeyForm::kFixed8, KeyForm::kString}) {
    for (const unsigned depth : {1U, 4U}) {
      FaultyEngine engine(GetParam().fault);
      const PhaseResult result =
          run_on(&engine, workload_of(GetParam().shares, Distribution::kUniform), {form, true, 1, 8}, 1, depth);
      EXPECT_GT(result.failures, 100U);
      const auto kind = static_cast<size_t>(std::find(GetParam().shares.begin(), GetParam().shares.end(), 1) -
                                            GetParam().shares.begin());
      EXPECT_EQ(result.failures_of[kind], result.failures);
      EXPECT_EQ(result.operations_of[kind], result.operations);
      EXPECT_NE(result.first_failure.find(GetParam().says), std::string::npos) << result.first_failure;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultyEngines,
                         ::testing::Values(Detection{Fault::kLosesKeys, {1}, "not found"},
                                           Detection{Fault::kLosesKeys, {0, 0, 0, 0, 1}, "not found"},
                                           Detection{Fault::kMixesValues, {1}, "not its record's"},
                                           Detection{Fault::kShortValues, {1}, "(7 bytes)"},
                                           Detection{Fault::kKeepsOldValues, {0, 0, 0, 0, 1}, "a stale value"},
                                           Detection{Fault::kScanSkips, {0, 0, 0, 1}, "out of order"},
                                           Detection{Fault::kScanBackwards, {0, 0, 0, 1}, "out of order"},
                                           Detection{Fault::kScanEndsEarly, {0, 0, 0, 1}, "ended after"}));

TEST(RunPhase, GivesUpOnAnEngineThatOnlyRefuses) {
  FaultyEngine engine(Fault::kRefuses);
  const RequestPlan load = draw_load(RecordShape(), 100'000, 1);
  const PhaseResult result = run_phase(&engine, load, PhaseOptions());
  EXPECT_TRUE(result.stopped);
  EXPECT_GE(result.failures, kErrorsMax);
  EXPECT_LT(result.operations, 1000U);
  EXPECT_NE(result.first_failure.find("the store is full"), std::string::npos);
}

TEST(RunPhase, StopsWhenAsked) {
  FaultyEngine engine(Fault::kNone);
  const std::atomic<bool> stop = true;
  PhaseOptions options;
  options.stop = &stop;
  const PhaseResult result = run_phase(&engine, draw_load(RecordShape(), 1000, 2), options);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.operations, 0U);
}

TEST(AcknowledgedCounter, WaitsForTheGapToClose) {
  AcknowledgedCounter counter(10, 3);
  EXPECT_EQ(counter.take(), 10U);
  EXPECT_EQ(counter.take(), 11U);
  counter.acknowledge(11);
  EXPECT_EQ(counter.end(), 10U);
  counter.acknowledge(10);
  EXPECT_EQ(counter.end(), 12U);
  counter.acknowledge(counter.take());
  EXPECT_EQ(counter.end(), 13U);
}

TEST(AcknowledgedCounter, NeverStaysBehind) {
  for (int round = 0; round < 200; ++round) {
    AcknowledgedCounter counter(0, 400);
    {
      std::vector<base::Thread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back("inserter", [&counter] {
          for (int n = 0; n < 100; ++n) counter.acknowledge(counter.take());
        });
      }
    }
    ASSERT_EQ(counter.end(), 400U);
  }
}

TEST(Values, NameTheirKey) {
  for (const size_t bytes : {1, 4, 7, 8, 9, 16, 100, 1000}) {
    std::string value(bytes, '\0');
    fill_value(42, 7, value.data(), bytes);
    EXPECT_TRUE(value_is_of(42, value, bytes));
    EXPECT_FALSE(value_is_of(43, value, bytes)) << bytes;
    EXPECT_FALSE(value_is_of(42, value, bytes + 1));
  }
  std::string torn(1000, '\0');
  std::string other(1000, '\0');
  fill_value(42, 7, torn.data(), torn.size());
  fill_value(42, 8, other.data(), other.size());
  torn.replace(500, 500, other, 500, 500);
  EXPECT_FALSE(value_is_of(42, torn, torn.size()));
}

TEST(ScanCheck, SeesWhatIsWrongInRows) {
  constexpr size_t kStride = 20, kRows = 5;
  RecordShape shape;
  shape.key_form = KeyForm::kFixed8;
  shape.value_bytes = 8;
  std::string bytes(kRows * kStride, '\0');
  const Rows rows{bytes.data(), bytes.data() + 8, kRows, kStride, 8, 8};
  const auto put = [&](size_t i, uint64_t id, uint64_t value_of) {
    const uint64_t key = __builtin_bswap64(id);
    std::memcpy(bytes.data() + i * kStride, &key, 8);
    fill_value(value_of, 1, bytes.data() + i * kStride + 8, 8);
  };
  std::string room;
  const auto wrong = [&] {
    ScanCheck check(shape, rows.key(0), false, &room);
    check.visit_thoroughly(Rows{rows.keys, rows.values, 2, kStride, 8, 8});  // what came before counts, too
    check.visit_thoroughly(Rows{rows.keys + 2 * kStride, rows.values + 2 * kStride, 0, kStride, 8, 8});
    check.visit_thoroughly(Rows{rows.keys + 2 * kStride, rows.values + 2 * kStride, kRows - 2, kStride, 8, 8});
    EXPECT_EQ(check.count(), kRows);
    EXPECT_EQ(check.last_key(), rows.key(kRows - 1));
    return check.wrong();
  };
  const auto put_all = [&] {
    for (size_t i = 0; i < kRows; ++i) put(i, 10 + i, 10 + i);
  };
  put_all();
  EXPECT_FALSE(wrong());
  for (size_t i = 0; i < kRows; ++i) {
    put_all();
    put(i, 10 + i, 99);
    EXPECT_TRUE(wrong()) << "the value of row " << i;
    if (i == 0) continue;
    put_all();
    put(i, 9 + i, 9 + i);
    EXPECT_TRUE(wrong()) << "row " << i << " has the key before";
  }
}

}  // namespace
}  // namespace bonsai::bench
