// SPDX-License-Identifier: Apache-2.0
// MELT's rules: for each, a test fails without it. The decisions of the sweep are judged on invented samples, so no
// figure depends on how fast this machine is; energy, on counters that the test moves.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/testing/planted_fault.h"
#include "bench/results/results.h"
#include "bench/results/testing/counters.h"
#include "bench/results/testing/mutants.h"
#include "bench/studies/melt/sweep.h"
#include "bench/studies/melt/testing/mutants.h"
#include "testing/scratch.h"

namespace bonsai::bench {
namespace {

using bonsai::testing::expect_found;

Workload reads() {
  Workload workload;
  workload.name = "c";
  workload.shares = {1};
  return workload;
}

// A directory with the samples of a sweep of `dummy`, two at each rate.
class Scene {
 public:
  Scene() {
    plan_.engines = {"dummy"};
    plan_.workloads = {reads()};
    plan_.rate_first = 10e3;
    plan_.rate_step = 10e3;
    plan_.samples = 2;
    plan_.each.records = 100;
    plan_.each.seconds = 0.05;
    plan_.each.idle_seconds = 0.05;
    base_.out_dir = folder_.file("out");
    opened_ = samples_.open(base_.out_dir);
  }

  // As if it had been measured.
  void add(double rate, double ops_per_s, double idle_watts = 5) {
    MeltConfiguration configuration = plan_.each;
    configuration.engine = "dummy";
    configuration.workload = reads();
    configuration.target_ops_per_s = rate;
    MeltSample sample = melt_key(configuration, base_);
    sample["ops_per_s"] = ops_per_s;
    sample["runtime_seconds"] = configuration.seconds;
    sample["idle_joules"] = idle_watts * configuration.idle_seconds;
    sample["latency_counts"] = {{"read", MeltSample::array({MeltSample::array({100, 90}), {200, 10}})}};
    EXPECT_TRUE(samples_.add(std::move(sample)).ok());
  }

  // Sweeps; whatever wants to measure is interrupted at its first phase.
  Status sweep() {
    stop_ = false;
    // The engine's process receives SIGTERM, and ends as that of the program does.
    static std::atomic<bool>* stopped = nullptr;
    stopped = &stop_;
    const auto before = std::signal(SIGTERM, [](int) { *stopped = true; });
    notes_.clear();
    measured_ = 0;
    const RunListener listener = {.on_phase =
                                      [this](const std::string&, const std::string&, uint64_t) {
                                        ++measured_;
                                        stop_ = true;
                                      },
                                  .on_progress = {},
                                  .on_result = {},
                                  .on_note = [this](const std::string& note) { notes_.push_back(note); },
                                  .on_left_out = {}};
    const Status status = run_sweep(plan_, base_, {&samples_, nullptr, &stop_, listener}, &curves_);
    std::signal(SIGTERM, before);
    return status;
  }

  testing::ScratchFolder folder_;
  SweepPlan plan_;
  RunConfig base_;
  Status opened_;
  MeltSamples samples_;
  std::atomic<bool> stop_{false};
  int measured_ = 0;
  std::vector<std::string> notes_;
  std::vector<SweepCurve> curves_;
};

// Held are 10 K/s and, by the mean of its samples, 20 K/s; 30 K/s is not, though its first sample holds it.
bool ends_at_the_last_rate_held() {
  Scene scene;
  for (const auto& [rate, ops_per_s] : std::vector<std::pair<double, double>>{
           {10e3, 10e3}, {10e3, 10e3}, {20e3, 19.4e3}, {20e3, 20e3}, {30e3, 30e3}, {30e3, 28e3}}) {
    scene.add(rate, ops_per_s);
  }
  const Status status = scene.sweep();
  return status.ok() && scene.measured_ == 0 && scene.curves_.size() == 1 &&
         scene.curves_[0].targets == std::vector<double>{10e3, 20e3, 30e3} && scene.curves_[0].held() == 2;
}

// A sweep that was killed after three samples takes the fourth, and no other.
bool goes_on_where_it_stopped() {
  Scene scene;
  scene.plan_.rate_max = 20e3;
  scene.add(10e3, 10e3);
  scene.add(10e3, 10e3);
  scene.add(20e3, 20e3);
  MeltSamples read_back;
  if (!read_back.open(scene.base_.out_dir).ok() || read_back.size() != 3) return false;
  scene.samples_ = read_back;
  if (!scene.sweep().IsUnavailable() || scene.measured_ != 1) return false;
  return scene.curves_.size() == 1 && scene.curves_[0].targets == std::vector<double>{10e3};
}

// An interrupted sample is dropped; complete samples are kept.
bool keeps_whole_samples_only() {
  Scene scene;
  scene.plan_.rate_max = scene.plan_.rate_first;
  scene.add(10e3, 10e3);
  const Status status = scene.sweep();
  MeltSamples read_back;
  return status.IsUnavailable() && read_back.open(scene.base_.out_dir).ok() && read_back.size() == 1;
}

bool warns_of_drift(double first_watts, double then_watts) {
  Scene scene;
  scene.plan_.samples = 1;
  scene.add(10e3, 10e3, first_watts);
  scene.add(20e3, 10e3, then_watts);
  EXPECT_TRUE(scene.sweep().ok());
  return scene.notes_.size() == 1 && scene.notes_[0].find("idle power went from 5 W to") == 0;
}

bool puts_latencies_together() {
  Scene scene;
  scene.plan_.rate_max = scene.plan_.rate_first;
  scene.add(10e3, 10e3);
  scene.add(10e3, 10e3);
  if (!scene.sweep().ok()) return false;
  const Histogram& latency = scene.curves_[0].points[0].latency[static_cast<size_t>(OpKind::kRead)];
  return latency.count() == 200 && latency.percentile(90) == 100 && latency.percentile(91) == 200;
}

// Files of this name with other contents.
bool refuses_files_of_others() {
  const testing::ScratchFolder folder;
  const std::string directory = folder.file("out");
  std::filesystem::create_directories(directory);
  for (const char* text :
       {R"({"version": 2, "samples": []})", R"({"samples": []})", R"({"version": 1})",
        R"({"version": 1, "samples": 7})", R"({"version": 1, "samples": [7]})",
        R"({"version": 1, "samples": [{"latency_counts": 7}]})",
        R"({"version": 1, "samples": [{"latency_counts": {"read": [7]}}]})",
        R"({"version": 1, "samples": [{"latency_counts": {"read": [[1, 0]]}}]})",
        R"({"version": 1, "samples": [{"latency_counts": {"read": [[1, -2]]}}]})",
        R"({"version": 1, "samples": [{"latency_counts": {"read": [["x", 1]]}}]})", "[]", "{", "", "null"}) {
    std::ofstream(directory + "/samples.json") << text;
    MeltSamples samples;
    const Status status = samples.open(directory);
    if (status.code() != Status::Code::kCorruption || samples.size() != 0) return false;
    EXPECT_NE(status.message().find("give another --out"), std::string::npos) << status.ToString();
    if (bonsai::testing::mutants_on.load() != 0) return true;  // what comes next is no array
  }
  return true;
}

// The machine uses 5 W, whatever it does: an operation costs nothing beyond.
bool charges_nothing_for_idling() {
  Scene scene;
  Counters counters(scene.folder_.file("root"));
  counters.make("intel-rapl:0", "package-0", 0);
  std::unique_ptr<EnergyMeter> meter;
  EXPECT_TRUE(EnergyMeter::open(counters.root(), &meter).ok());
  const SteadyUse use(counters, "intel-rapl:0", 5);
  MeltConfiguration configuration = scene.plan_.each;
  configuration.engine = "dummy_delayed";
  configuration.workload = reads();
  configuration.target_ops_per_s = 10e3;
  configuration.seconds = 0.3;
  configuration.idle_seconds = 0.3;
  const RunListener listener = {.on_phase = [](const std::string&, const std::string&, uint64_t) {},
                                .on_progress = {},
                                .on_result = {},
                                .on_note = [](const std::string& note) { ADD_FAILURE() << note; },
                                .on_left_out = {}};
  MeltSample sample;
  const Status status = take_melt_sample(configuration, scene.base_, 1, meter.get(), scene.stop_, listener, &sample);
  EXPECT_TRUE(status.ok()) << status.ToString();
  const auto raw = sample.at("joules_per_op_raw").get<double>();
  const auto corrected = sample.at("joules_per_op").get<double>();
  EXPECT_GT(raw, 0);
  return std::abs(corrected) < 0.5 * raw;
}

TEST(MeltRules, EachIsNeeded) {
  EXPECT_TRUE(ends_at_the_last_rate_held());
  EXPECT_TRUE(goes_on_where_it_stopped());
  EXPECT_TRUE(keeps_whole_samples_only());
  EXPECT_TRUE(puts_latencies_together());
  EXPECT_TRUE(warns_of_drift(5, 5.6));
  EXPECT_FALSE(warns_of_drift(5, 5.4)) << "within a tenth";
  EXPECT_TRUE(refuses_files_of_others());
  EXPECT_TRUE(charges_nothing_for_idling());
  const auto fails = [](const std::function<bool()>& holds) { return [holds] { return !holds(); }; };
  expect_found({
      {"never stops", kNeverStops, fails(ends_at_the_last_rate_held)},
      {"missed counted", kMissedCounted, fails(ends_at_the_last_rate_held)},
      {"first sample counts", kFirstSampleCounts, fails(ends_at_the_last_rate_held)},
      {"measured again", kMeasuredAgain, fails(ends_at_the_last_rate_held)},
      {"sample not written", kSampleNotWritten, fails(goes_on_where_it_stopped)},
      {"other targets match", kOtherTargetsMatch, fails(goes_on_where_it_stopped)},
      {"counts dropped", kCountsDropped, fails(puts_latencies_together)},
      {"drift unnoticed", kDriftUnnoticed, fails([] { return warns_of_drift(5, 5.6); })},
      {"foreign file read", kForeignFileRead, fails(refuses_files_of_others)},
      {"idle counted", kIdleCounted, fails(charges_nothing_for_idling)},
  });
}

// The meter's figures for one package and its memory, after the package's counter has wrapped around.
bool counts_over_the_wrap() {
  const testing::ScratchFolder folder;
  Counters counters(folder.file("root"));
  counters.make("intel-rapl:0", "package-0", 900'000'000);
  counters.make("intel-rapl:0:0", "dram", 1'000'000);
  counters.make("intel-rapl-mmio:0", "package-0", 900'000'000);
  std::unique_ptr<EnergyMeter> meter;
  if (!EnergyMeter::open(counters.root(), &meter).ok()) return false;
  double first = -1, second = -1;
  for (const char* zone : {"intel-rapl:0", "intel-rapl-mmio:0"}) counters.set(zone, 950'000'000);
  if (!meter->read(&first).ok()) return false;
  for (const char* zone : {"intel-rapl:0", "intel-rapl-mmio:0"}) counters.set(zone, 20'000'000);
  counters.set("intel-rapl:0:0", 4'000'000);
  return meter->read(&second).ok() && std::abs(first - 50) < 1e-9 && std::abs(second - (50 + 70 + 3)) < 1e-9;
}

bool says_that_a_counter_is_gone() {
  const testing::ScratchFolder folder;
  Counters counters(folder.file("root"));
  counters.make("intel-rapl:0", "package-0", 1);
  std::unique_ptr<EnergyMeter> meter;
  if (!EnergyMeter::open(counters.root(), &meter).ok()) return false;
  counters.remove_all();
  double joules = -1;
  return meter->read(&joules).IsUnavailable() && joules == -1;
}

bool samples_memory() {
  MemorySamples samples;
  samples.add({.dram_bytes = 100, .nvm_bytes = 300, .reserved_bytes = 1000}, 400);
  samples.add({.dram_bytes = 200}, 100);
  return samples.count == 2 && samples.used_bytes_max == 400 && samples.reserved_bytes_max == 1000 &&
         std::abs(samples.space_efficiency.value_or(0) - 0.75) < 1e-9;
}

bool leaves_the_unknown_unknown() { return !used_bytes({}) && !reserved_bytes({}); }

TEST(MeasuringRules, EachIsNeeded) {
  EXPECT_TRUE(counts_over_the_wrap());
  EXPECT_TRUE(says_that_a_counter_is_gone());
  EXPECT_TRUE(samples_memory());
  EXPECT_TRUE(leaves_the_unknown_unknown());
  expect_found({
      {"wrap ignored", kWrapIgnored, [] { return !counts_over_the_wrap(); }},
      {"second view counted", kSecondViewCounted, [] { return !counts_over_the_wrap(); }},
      {"vanished is none", kVanishedIsNone, [] { return !says_that_a_counter_is_gone(); }},
      {"reserved is used", kReservedIsUsed, [] { return !samples_memory(); }},
      {"efficiency of the last", kEfficiencyOfLast, [] { return !samples_memory(); }},
      {"unknown counts as none", kUnknownCountsAsNone, [] { return !leaves_the_unknown_unknown(); }},
  });
}

}  // namespace
}  // namespace bonsai::bench
