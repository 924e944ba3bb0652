// SPDX-License-Identifier: Apache-2.0
// The sweep ends at the last rate that was held, keeps what it measured, goes on where it was interrupted, refuses what
// cannot be done, and corrects energy by the idle phase.
#include "bench/studies/melt/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "bench/results/testing/counters.h"
#include "testing/scratch.h"

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;

Workload reads_and_updates() {
  Workload workload;
  workload.name = "a";
  workload.shares = {0.5, 0.5};
  workload.requests = Distribution::kZipfian;
  return workload;
}

class Sweep : public ::testing::Test {
 protected:
  Sweep() {
    plan_.engines = {"dummy_delayed"};  // 1 us per operation: nearly 1 M/s
    plan_.workloads = {reads_and_updates()};
    plan_.rate_first = 10e3;  // so that whatever else the machine does, there is time enough
    plan_.rate_step = 10e3;
    plan_.rate_max = 30e3;
    plan_.samples = 2;
    plan_.each.records = 100;
    plan_.each.seconds = 0.3;
    plan_.each.idle_seconds = 0.05;
    plan_.each.latency_per_interval = 20;
    base_.out_dir = folder_.file("out");
    EXPECT_TRUE(samples_.open(base_.out_dir).ok());
  }

  SweepTools tools() {
    return {&samples_,
            meter_.get(),
            &stop_,
            {.on_phase = [this](const std::string&, const std::string& phase, uint64_t) { phases_.push_back(phase); },
             .on_progress = {},
             .on_result = {},
             .on_note = [this](const std::string& note) { notes_.push_back(note); },
             .on_left_out = {}}};
  }
  Status run() { return run_sweep(plan_, base_, tools(), &curves_); }

  testing::ScratchFolder folder_;
  SweepPlan plan_;
  RunConfig base_;
  MeltSamples samples_;
  std::unique_ptr<EnergyMeter> meter_;
  std::atomic<bool> stop_{false};
  std::vector<std::string> phases_, notes_;
  std::vector<SweepCurve> curves_;
};

TEST_F(Sweep, MeasuresEachRateAndEndsAtTheLastOne) {
  Status status = run();
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(curves_.size(), 1U);
  // Other load on the machine may keep a rate from being held, and the next one from being tried.
  const std::vector<double>& targets = curves_[0].targets;
  const std::vector<double> all = {10e3, 20e3, 30e3};
  ASSERT_FALSE(targets.empty());
  ASSERT_LE(targets.size(), 3U);
  EXPECT_TRUE(std::equal(targets.begin(), targets.end(), all.begin()));
  EXPECT_GE(curves_[0].held() + 1, targets.size());
  if (targets != all) {
    EXPECT_LT(curves_[0].held(), targets.size());
  }
  EXPECT_EQ(samples_.size(), 2 * targets.size());
  for (const MeltPoint& point : curves_[0].points) {
    EXPECT_EQ(point.samples, 2U);
    EXPECT_GT(point.latency[static_cast<size_t>(OpKind::kRead)].count(), 20U);
    EXPECT_FALSE(point.joules_per_op.has_value()) << "there is no counter";
    EXPECT_GT(point.slept_seconds, 0.5 * point.seconds);
  }
  EXPECT_NE(phases_.back().find("sample 2 of 2"), std::string::npos) << phases_.back();
}

TEST_F(Sweep, EndsAtTheFirstRateThatIsNotHeld) {
  plan_.rate_first = 1.5e6;
  plan_.rate_step = 1e6;
  plan_.rate_max = 0;
  plan_.samples = 1;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(curves_[0].targets, (std::vector<double>{1.5e6})) << "the engine takes 1 us per operation";
  EXPECT_EQ(curves_[0].held(), 0U);
  EXPECT_LT(curves_[0].points[0].ops_per_s, 1e6);
}

TEST_F(Sweep, OnMoreThreadsOnlyWhatTakesThem) {
  plan_.engines = {"dummy_delayed", "unordered_map"};
  plan_.threads_max = 2;
  plan_.rate_max = plan_.rate_first;
  plan_.samples = 1;
  ASSERT_TRUE(run().ok());
  ASSERT_EQ(curves_.size(), 3U);
  EXPECT_EQ(curves_[0].threads, 1U);
  EXPECT_EQ(curves_[1].threads, 2U);
  EXPECT_EQ(curves_[2].engine, "unordered_map");
  EXPECT_GT(curves_[2].points[0].space_efficiency.value_or(0), 0.05);
  EXPECT_LT(curves_[2].points[0].space_efficiency.value_or(2), 1);
}

TEST_F(Sweep, GoesOnWhereItWasInterrupted) {
  SweepTools interrupting = tools();
  interrupting.listener.on_phase = [this](const std::string&, const std::string& phase, uint64_t) {
    stop_ = phase.find("sample 2 of 2") != std::string::npos;
  };
  EXPECT_TRUE(run_sweep(plan_, base_, interrupting, &curves_).IsUnavailable());
  EXPECT_EQ(samples_.size(), 1U) << "what was measured is kept";
  stop_ = false;
  MeltSamples again;
  ASSERT_TRUE(again.open(base_.out_dir).ok());
  EXPECT_EQ(again.size(), 1U);
  samples_ = again;
  phases_.clear();
  ASSERT_TRUE(run().ok());
  const size_t taken = samples_.size();
  EXPECT_EQ(taken, 2 * curves_[0].targets.size());
  ASSERT_FALSE(phases_.empty());
  EXPECT_NE(phases_[0].find("at 0.01 M/s on 1, sample 2 of 2"), std::string::npos) << phases_[0];
  phases_.clear();
  ASSERT_TRUE(run().ok());
  EXPECT_TRUE(phases_.empty()) << "all is there";
  plan_.each.seconds = 0.31;
  plan_.rate_max = plan_.rate_first;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(samples_.size(), taken + 2) << "other settings are other samples";
  std::ifstream csv(base_.out_dir + "/samples.csv");
  std::string header;
  std::getline(csv, header);
  for (const char* column : {"engine", "target_ops_per_s", "adjusted_target_ops_per_s", "idle_joules", "load_joules",
                             "joules_per_op", "thread_slept_seconds", "read_p10_ns", "update_p90_ns"}) {
    EXPECT_NE(header.find(column), std::string::npos) << column;
  }
}

TEST_F(Sweep, SaysWhatEachThreadDid) {
  plan_.threads_max = 2;
  plan_.rate_max = plan_.rate_first;
  plan_.samples = 1;
  ASSERT_TRUE(run().ok());
  ASSERT_EQ(samples_.size(), 2U);
  const MeltSample both = samples_.of({{"threads", 2}}).at(0);
  uint64_t operations = 0;
  for (const std::string thread : {"thread_1_", "thread_2_"}) {
    const double done = both.at(thread + "operations"), seconds = both.at(thread + "seconds");
    operations += both.at(thread + "operations").get<uint64_t>();
    EXPECT_GT(both.at(thread + "slept_seconds").get<double>(), 0.5 * seconds) << "at a hundredth of its pace";
    EXPECT_NEAR(both.at(thread + "deviation_percent").get<double>(), 100 * (done / (5e3 * seconds) - 1), 1e-6)
        << "of its half of the target";
  }
  EXPECT_EQ(operations, both.at("operations").get<uint64_t>());
  EXPECT_FALSE(samples_.of({{"threads", 1}}).at(0).contains("thread_2_seconds"));
  std::ifstream csv(base_.out_dir + "/samples.csv");
  std::string header, one, two;
  std::getline(csv, header);
  std::getline(csv, one);
  std::getline(csv, two);
  EXPECT_TRUE(
      header.ends_with(",thread_2_operations,thread_2_seconds,thread_2_slept_seconds,"
                       "thread_2_deviation_percent"))
      << header;
  EXPECT_TRUE(one.ends_with(",,,,")) << "it has no second thread: " << one;
  EXPECT_EQ(std::count(one.begin(), one.end(), ','), std::count(two.begin(), two.end(), ','));
  EXPECT_EQ(std::count(header.begin(), header.end(), ','), std::count(two.begin(), two.end(), ','));
}

TEST_F(Sweep, SamplesMemoryInTheLoad) {
  plan_.engines = {"unordered_map"};
  plan_.each.records = 200'000;
  plan_.rate_max = plan_.rate_first;
  plan_.samples = 1;
  ASSERT_TRUE(run().ok());
  const MeltPoint& point = curves_[0].points[0];
  EXPECT_GT(point.load_used_bytes.value_or(0), 200'000 * 16);
  EXPECT_GE(point.load_reserved_bytes.value_or(0), point.load_used_bytes.value_or(1));
  EXPECT_GT(point.load_space_efficiency.value_or(0), 0);
  EXPECT_LT(point.load_space_efficiency.value_or(2), 1);
  EXPECT_GT(samples_.of({{"sample", 1}}).at(0).at("load_memory_samples").get<uint64_t>(), 0U);
}

TEST_F(Sweep, LeavesOutWhatAnEngineCannotDo) {
  Workload scans = reads_and_updates();
  scans.name = "e";
  scans.shares = {0, 0, 0, 1};
  plan_.engines = {"unordered_map"};
  plan_.workloads = {scans, reads_and_updates()};
  plan_.rate_max = plan_.rate_first;
  plan_.samples = 1;
  ASSERT_TRUE(run().ok());
  ASSERT_EQ(curves_.size(), 1U);
  EXPECT_EQ(curves_[0].workload, "a");
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("no ordered scan, so workload e is left out"), std::string::npos) << notes_[0];
}

TEST_F(Sweep, RefusesWhatCannotBeDone) {
  const auto refused = [&](const char* remedy, auto change) {
    SweepPlan plan = plan_;
    change(&plan);
    const Status status = check_sweep(plan);
    EXPECT_TRUE(status.IsInvalidArgument()) << remedy;
    EXPECT_NE(status.message().find(remedy), std::string::npos) << status.ToString();
  };
  EXPECT_TRUE(check_sweep(plan_).ok());
  refused("--engines", [](SweepPlan* plan) { plan->engines.clear(); });
  refused("no engine none", [](SweepPlan* plan) { plan->engines = {"none"}; });
  refused("--workloads", [](SweepPlan* plan) { plan->workloads.clear(); });
  refused("--threads", [](SweepPlan* plan) { plan->threads_max = 0; });
  refused("--samples", [](SweepPlan* plan) { plan->samples = 0; });
  refused("--seconds", [](SweepPlan* plan) { plan->each.seconds = 0; });
  refused("--idle-seconds", [](SweepPlan* plan) { plan->each.idle_seconds = 0; });
  refused("--interval-ms", [](SweepPlan* plan) { plan->each.interval_ms = 0; });
  refused("longer than a sample", [](SweepPlan* plan) { plan->each.interval_ms = 400; });
  refused("--rate-first", [](SweepPlan* plan) { plan->rate_first = 0; });
  refused("--rate-step", [](SweepPlan* plan) { plan->rate_step = 0; });
  refused("--rate-max", [](SweepPlan* plan) { plan->rate_max = 5e3; });
  refused("--rate-step", [](SweepPlan* plan) { plan->rate_step = 1; });
}

TEST(MeltSamples, RefusesAFileOfSomebodyElse) {
  const testing::ScratchFolder folder;
  const std::string directory = folder.file("out");
  fs::create_directories(directory);
  std::ofstream(directory + "/samples.json") << "{\"version\": 7}";
  MeltSamples samples;
  const Status status = samples.open(directory);
  EXPECT_EQ(status.code(), Status::Code::kCorruption);
  EXPECT_NE(status.message().find("--out"), std::string::npos);
}

// With a counter, which the test moves.
class EnergySweep : public Sweep {
 protected:
  EnergySweep() {
    counters_.make(kZone, "package-0", 0);
    EXPECT_TRUE(EnergyMeter::open(counters_.root(), &meter_).ok());
    plan_.rate_max = plan_.rate_first;
    plan_.samples = 1;
  }

  static constexpr const char* kZone = "intel-rapl:0";
  Counters counters_{folder_.file("root")};
};

TEST_F(EnergySweep, CorrectsByTheIdlePhase) {
  const SteadyUse use(counters_, kZone, 5);
  const Status status = run();
  ASSERT_TRUE(status.ok()) << status.ToString();
  const MeltPoint& point = curves_[0].points[0];
  EXPECT_NEAR(point.idle_watts.value_or(0), 5, 1);
  EXPECT_NEAR(point.watts.value_or(0), 5, 1);
  EXPECT_NEAR(point.joules_per_op_raw.value_or(0), 5.0 / 10e3, 1.0 / 10e3);
  EXPECT_NEAR(point.joules_per_op.value_or(1), 0, 1.5 / 10e3) << "no more than idle";
}

TEST_F(EnergySweep, GoesOnWithoutACounterThatHasGone) {
  SweepTools mine = tools();
  mine.listener.on_phase = [this](const std::string&, const std::string&, uint64_t) { counters_.remove_all(); };
  const Status status = run_sweep(plan_, base_, mine, &curves_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(curves_[0].points[0].ops_per_s, 0);
  EXPECT_FALSE(curves_[0].points[0].joules_per_op.has_value());
  ASSERT_FALSE(notes_.empty());
  EXPECT_NE(notes_[0].find("has vanished"), std::string::npos) << notes_[0];
}

TEST(MeltPoint, PutsTheLatenciesOfAllSamplesTogether) {
  const auto sample = [](uint64_t ns, uint64_t count, double ops) {
    return MeltSample{{"ops_per_s", ops},
                      {"runtime_seconds", 1},
                      {"joules_per_op", nullptr},
                      {"latency_counts", {{"read", MeltSample::array({MeltSample::array({ns, count})})}}}};
  };
  const MeltPoint point = melt_point({sample(100, 900, 1e6), sample(1000, 100, 3e6)});
  const Histogram& reads = point.latency[static_cast<size_t>(OpKind::kRead)];
  EXPECT_EQ(reads.count(), 1000U);
  EXPECT_EQ(reads.percentile(90), 100U);
  EXPECT_EQ(reads.percentile(95), 1000U);
  EXPECT_TRUE(reads.carries(99));
  EXPECT_FALSE(reads.carries(99.9)) << "one sample is beyond it";
  EXPECT_DOUBLE_EQ(point.ops_per_s, 2e6);
  EXPECT_FALSE(point.joules_per_op.has_value());
}

}  // namespace
}  // namespace bonsai::bench
