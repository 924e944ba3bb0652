// SPDX-License-Identifier: Apache-2.0
// Whole runs of every engine of this build, the store included when it is linked.
#include "bench/driver/runner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/engines/pool_place.h"

namespace bonsai::bench {
namespace {

struct Record {
  std::vector<std::string> phases;
  std::vector<RunResult> results;
  std::vector<std::string> notes;
  std::vector<LeftOut> left_out;

  RunListener listener() {
    return {.on_phase = [this](const std::string&, const std::string& phase, uint64_t) { phases.push_back(phase); },
            .on_progress = [](const PhaseProgress&) {},
            .on_result = [this](const RunResult& result) { results.push_back(result); },
            .on_note = [this](const std::string& note) { notes.push_back(note); },
            .on_left_out = [this](const LeftOut& one) { left_out.push_back(one); }};
  }
};

Step step_of(const std::string& name, std::array<double, kOpKinds> shares, Distribution requests) {
  Step step;
  step.workload.name = name;
  step.workload.shares = shares;
  step.workload.requests = requests;
  step.workload.scan_length_max = 20;
  return step;
}

// The list load,a,b,c,f,d,e in small.
std::vector<Step> main_job() {
  Step load = step_of("a", {0.5, 0.5}, Distribution::kZipfian);
  load.load_only = true;
  return {load,
          step_of("a", {0.5, 0.5}, Distribution::kZipfian),
          step_of("b", {0.95, 0.05}, Distribution::kZipfian),
          step_of("c", {1}, Distribution::kZipfian),
          step_of("f", {0.5, 0, 0, 0, 0.5}, Distribution::kZipfian),
          step_of("d", {0.95, 0, 0.05}, Distribution::kLatest),
          step_of("e", {0, 0, 0.05, 0.95}, Distribution::kZipfian)};
}

RunConfig small_config() {
  RunConfig config;
  config.records = 3000;
  config.operations = 3000;
  config.threads = 2;
  config.out_dir = ::testing::TempDir();
  return config;
}

Record run(const std::string& engine, const RunConfig& config, const std::vector<Step>& steps) {
  Record record;
  const std::atomic<bool> stop = false;
  const Status status = run_engine(*find_engine(engine), config, steps, stop, record.listener());
  EXPECT_TRUE(status.ok()) << status.ToString();
  return record;
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const EngineEntry& entry : engine_list()) names.emplace_back(entry.name);
  return names;
}

class EveryEngine : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryEngine, RunsTheMainJobWithoutFailure) {
  const Record record = run(GetParam(), small_config(), main_job());
  const Capabilities can = find_engine(GetParam())->make()->capabilities();
  std::vector<std::string> phases = {"load", "a", "b", "c", "f", "reload", "d", "reload", "e"};
  if (!can.scan) phases.resize(7);  // E is left out, and with it its reload
  EXPECT_EQ(record.phases, phases);
  ASSERT_EQ(record.left_out.size(), can.scan ? 0U : 1U);
  if (!can.scan) {
    EXPECT_EQ(record.left_out[0].workload, "e");
  }
  ASSERT_EQ(record.results.size(), phases.size());
  for (const RunResult& result : record.results) {
    EXPECT_EQ(result.failures, 0U) << result.workload << ": " << result.first_failure;
    EXPECT_EQ(result.operations, 3000U);
    EXPECT_GT(result.throughput_ops_per_s, 0);
    EXPECT_EQ(result.key, "fixed8");
  }
  EXPECT_EQ(record.results[0].distribution, "sequential");
  EXPECT_EQ(record.results[6].distribution, "latest");
  if (can.keeps_data) {
    EXPECT_EQ(record.results[4].user_bytes, 3000U * 16);
    EXPECT_GT(record.results[6].user_bytes, 3000U * 16);
    if (can.scan) {
      EXPECT_EQ(record.results[7].user_bytes, 3000U * 16);
    }
    const MemoryUse& memory = record.results[0].memory;
    if (memory.dram_bytes || memory.nvm_bytes) {
      EXPECT_GT(memory.dram_bytes.value_or(0) + memory.nvm_bytes.value_or(0), 3000U * 16);
    }
  }
}

#if !defined(__SANITIZE_THREAD__)  // whose own memory grows with every byte that is touched
// A store of a known size, and one that keeps nothing while the harness replays twice as many bytes of requests.
TEST(Runner, TellsWhatTheProcessHoldsForTheEngine) {
  RunConfig config = small_config();
  config.records = 200'000;
  config.operations = 1'000'000;
  const Step reads = step_of("c", {1}, Distribution::kUniform);
  Step load = reads;
  load.load_only = true;
  const auto grown = [&](const char* engine) {
    const Record record = run(engine, config, {load, reads});
    EXPECT_EQ(record.results.size(), 2U);
    const std::optional<uint64_t> bytes = record.results.back().memory.process_bytes;
    EXPECT_TRUE(bytes.has_value());
    return bytes.value_or(0);
  };
  EXPECT_GT(grown("absl_btree"), config.records * 16);
  EXPECT_LT(grown("dummy"), config.operations * sizeof(Request) / 2) << "requests were taken for the engine's";
}
#endif

TEST_P(EveryEngine, RunsStringKeysLargeValuesAndBatchedReads) {
  RunConfig config = small_config();
  config.key_form = KeyForm::kString;
  config.value_bytes.reset();
  config.depth = 8;
  config.buffered = true;
  const Record record = run(GetParam(), config, main_job());
  const bool words_only = find_engine(GetParam())->make()->capabilities().words_only;
  EXPECT_EQ(record.results.empty(), words_only);
  EXPECT_EQ(record.left_out.size() >= main_job().size(), words_only);
  for (const RunResult& result : record.results) {
    EXPECT_EQ(result.failures, 0U) << result.workload << ": " << result.first_failure;
    EXPECT_EQ(result.value_size, 1000U);
    EXPECT_EQ(result.key, "string");
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, EveryEngine, ::testing::ValuesIn(engine_names()),
                         [](const auto& engine) { return engine.param; });

TEST(RunEngine, LoadsByItselfAndAgainWhenRecordsDiffer) {
  std::vector<Step> steps = {step_of("c", {1}, Distribution::kZipfian), step_of("o", {1}, Distribution::kUniform),
                             step_of("x", {0.9, 0, 0, 0, 0, 0.1}, Distribution::kUniform),
                             step_of("c2", {1}, Distribution::kUniform)};
  for (size_t i = 1; i < steps.size(); ++i) steps[i].workload.hashed_inserts = false;
  const Record record = run("absl_btree", small_config(), steps);
  EXPECT_EQ(record.phases, (std::vector<std::string>{"load", "c", "reload", "o", "x", "reload", "c2"}));
  for (const RunResult& result : record.results) EXPECT_EQ(result.failures, 0U) << result.first_failure;
  EXPECT_FALSE(record.results[4].user_bytes.has_value());  // nobody counted what the deletes hit
}

TEST(RunEngine, InsertsIntoAFreshLoadUnlessNothingWasWritten) {
  const Step reads = step_of("c", {1}, Distribution::kZipfian);
  const Step updates = step_of("a", {0.5, 0.5}, Distribution::kZipfian);
  const Step inserts = step_of("d", {0.95, 0, 0.05}, Distribution::kLatest);
  EXPECT_EQ(run("dummy", small_config(), {reads, inserts}).phases, (std::vector<std::string>{"load", "c", "d"}));
  EXPECT_EQ(run("dummy", small_config(), {updates, reads, inserts}).phases,
            (std::vector<std::string>{"load", "a", "c", "reload", "d"}));
}

// Records the calls about sessions.
class Sessions final : public Engine {
 public:
  explicit Sessions(std::string* calls) : calls_(calls) {}
  [[nodiscard]] Capabilities capabilities() const override { return {.many = true, .keeps_data = false}; }
  Status open(const EngineOptions&) override { return Status::OK(); }
  Status close() override { return Status::OK(); }
  void use_sessions(bool use) override { *calls_ += use ? "sessions " : "calls "; }
  Status insert(std::string_view, std::string_view) override { return Status::OK(); }
  Status read(std::string_view, std::string*) override { return Status::OK(); }
  Status remove(std::string_view) override { return Status::OK(); }

 private:
  std::string* calls_;
};

TEST(RunEngine, TellsTheEngineWhenAStepAsksForSessions) {
  std::string calls;
  const EngineEntry entry{"sessions", "", [&calls] { return std::make_unique<Sessions>(&calls); }};
  std::vector<Step> steps(3, step_of("c", {1}, Distribution::kUniform));
  steps[0].sessions = true;
  steps[2].sessions = false;
  Record record;
  const std::atomic<bool> stop = false;
  EXPECT_TRUE(run_engine(entry, small_config(), steps, stop, record.listener()).ok());
  EXPECT_EQ(calls, "sessions calls ");
}

TEST(RunEngines, TakeTurnsStepByStepAtTheDepthOfTheStep) {
  std::vector<Step> steps = {step_of("c", {1}, Distribution::kZipfian), step_of("u", {1}, Distribution::kUniform),
                             step_of("d", {0.95, 0, 0.05}, Distribution::kLatest)};
  steps.front().sessions = true;
  steps[1].depth = 3;
  steps[1].sessions = false;
  RunConfig config = small_config();
  config.depth = 8;
  std::vector<EngineEntry> engines = {*find_engine("absl_btree"), *find_engine("dummy")};
  if (find_engine("bonsai") != nullptr) engines.back() = *find_engine("bonsai");
  Record record;
  std::atomic<bool> stop = false;
  ASSERT_TRUE(run_engines_in_turns(engines, config, steps, stop, record.listener()).ok());
  EXPECT_EQ(record.phases, (std::vector<std::string>{"load", "c", "load", "c", "u", "u", "d", "d"}));
  ASSERT_EQ(record.results.size(), 8U);
  for (size_t i = 0; i < record.results.size(); ++i) {
    const RunResult& result = record.results[i];
    const bool second = i == 2 || i == 3 || i == 5 || i == 7;
    EXPECT_EQ(result.engine, engines[second ? 1 : 0].name) << i;
    EXPECT_EQ(result.failures, 0U) << result.first_failure;
    EXPECT_EQ(result.depth, second ? (result.workload == "u" ? 3U : 8U) : 1U);
  }
  for (const size_t i : {3, 5}) {
    const auto& nvm = record.results[i].nvm;
    EXPECT_EQ(nvm ? nvm->gets : 3000, 3000U);
    EXPECT_EQ(nvm ? nvm->gets_answered : 3000, 3000U);
  }
  // An error ends all of them.
  config.pool_dir = "/nowhere";
  const Status status = run_engines_in_turns(engines, config, steps, stop, record.listener());
  EXPECT_EQ(status.ok(), find_engine("bonsai") == nullptr);
}

TEST(RunEngine, SaysThatAnEngineTakesOneThreadOnly) {
  const Record record = run("absl_btree", small_config(), {step_of("c", {1}, Distribution::kZipfian)});
  ASSERT_EQ(record.notes.size(), 1U);
  EXPECT_NE(record.notes[0].find("1 thread"), std::string::npos);
  EXPECT_EQ(record.results[0].threads, 1U);
  EXPECT_FALSE(record.results[0].durability.has_value());
  EXPECT_FALSE(record.results[0].memory.nvm_bytes.has_value());
}

TEST(RunEngine, ReplaysWhatItRecorded) {
  RunConfig config = small_config();
  config.record_dir = ::testing::TempDir() + "/bench-recorded";
  for (const unsigned threads : {1U, 2U}) {
    config.threads = threads;
    run("dummy", config, main_job());
    RunConfig replaying = small_config();
    replaying.threads = threads;
    replaying.records = 1;  // not those of the trace
    std::vector<Step> steps;
    for (const char* name : {"load", "a", "d", "e", "f"}) {
      Trace trace;
      ASSERT_TRUE(read_trace(config.record_dir + "/" + name + ".trace", &trace).ok());
      ASSERT_EQ(trace.requests.size(), 3000U);
      steps.push_back(step_of_trace(name, std::move(trace)));
    }
    const Record record = run("absl_btree", replaying, steps);
    EXPECT_EQ(record.phases, (std::vector<std::string>{"load", "a", "reload", "d", "reload", "e", "reload", "f"}));
    for (const RunResult& result : record.results) {
      EXPECT_EQ(result.failures, 0U) << result.workload << ": " << result.first_failure;
      EXPECT_EQ(result.absent, 0U);
      EXPECT_EQ(result.operations, 3000U);
      EXPECT_EQ(result.records, 3000U);
      EXPECT_EQ(result.distribution, "trace");
      EXPECT_EQ(result.requests, "trace");
    }
  }
}

TEST(RunEngine, ATraceWithoutALoadRunsOnYcsbsRecords) {
  RunConfig config = small_config();
  config.warmup = 1;
  Trace trace;
  ASSERT_TRUE(
      parse_trace("READ user6284781860667377211\nREAD 8517097267634966620\nSCAN 0 5\nREAD 5", "t", &trace).ok());
  const Record record =
      run("absl_btree", config, {step_of_trace("t", trace), step_of("c", {1}, Distribution::kUniform)});
  EXPECT_EQ(record.phases, (std::vector<std::string>{"load", "t", "c"}));
  EXPECT_EQ(record.results[1].operations, 3U);
  EXPECT_EQ(record.results[1].warmup_operations, 1U);
  EXPECT_EQ(record.results[1].failures, 1U);  // the last
  EXPECT_NE(record.results[1].first_failure.find("not found"), std::string::npos);
  EXPECT_EQ(record.results[2].failures, 0U);
}

TEST(RunEngine, NamesTheLevelThatUpdatesHad) {
  if (find_engine("bonsai") == nullptr) return;
  RunConfig config = small_config();
  const std::vector<Step> steps = {step_of("c", {1}, Distribution::kUniform)};
  EXPECT_EQ(run("bonsai", config, steps).results[0].durability, "durable");
  EXPECT_EQ(run("bonsai_buffered", config, steps).results[0].durability, "buffered");
  config.buffered = true;
  EXPECT_EQ(run("bonsai", config, steps).results[0].durability, "buffered");
}

TEST(RunEngine, TellsHowItRan) {
  RunConfig config = small_config();
  config.draw = DrawMode::kLive;
  config.warmup = 500;
  config.latency_every = 1;
  config.pin = true;
  const Record plain = run("dummy", config, main_job());
  for (const RunResult& result : plain.results) {
    EXPECT_EQ(result.operations, 3000U);
    EXPECT_EQ(result.warmup_operations, result.distribution == "sequential" ? 0U : 500U);
    EXPECT_EQ(result.requests, "drawn");
    EXPECT_EQ(result.latency_every, 1U);
    EXPECT_TRUE(result.pinned);
    EXPECT_FALSE(result.target_ops_per_s.has_value());
  }
  config = small_config();
  config.operations = 600;
  config.target_ops_per_s = 10'000;
  const Record paced = run("absl_btree", config, {step_of("c", {1}, Distribution::kPlainZipf)});
  EXPECT_EQ(paced.results[0].latency_every, kLatencySampled);  // a load has no target
  EXPECT_FALSE(paced.results[0].target_ops_per_s.has_value());
  EXPECT_EQ(paced.results[1].latency_every, 1U);
  EXPECT_EQ(paced.results[1].target_ops_per_s, 10'000);
  EXPECT_EQ(paced.results[1].distribution, "plain_zipf 0.99");
  EXPECT_LT(paced.results[1].throughput_ops_per_s, 10'100);
}

// Live, the engines find the same requests as replayed, and so the same records.
TEST(RunEngine, LiveRequestsFindTheirRecords) {
  RunConfig config = small_config();
  config.draw = DrawMode::kLive;
  config.warmup = 100;
  for (const KeyForm form : {KeyForm::kFixed8, KeyForm::kString}) {
    config.key_form = form;
    for (const RunResult& result : run("absl_btree", config, main_job()).results) {
      EXPECT_EQ(result.failures, 0U) << result.workload << ": " << result.first_failure;
    }
  }
}

TEST(RunEngine, EndsEarlyWhenStopped) {
  Record record;
  const std::atomic<bool> stop = true;
  EXPECT_TRUE(run_engine(*find_engine("dummy"), small_config(), main_job(), stop, record.listener()).ok());
  EXPECT_TRUE(record.results.empty());
}

TEST(PoolPlace, MakesAndRemovesADirectory) {
  std::string path;
  {
    PoolPlace place;
    ASSERT_TRUE(place.make(::testing::TempDir(), "", 4096).ok());
    path = place.path();
    EXPECT_TRUE(std::filesystem::is_directory(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PoolPlace, TellsWhatItsFilesTakeAndLieOn) {
  PoolPlace place;
  ASSERT_TRUE(place.make(::testing::TempDir(), "", 4096).ok());
  const uint64_t before = place.bytes_of_files();
  std::ofstream(place.path() + "/file") << std::string(100'000, 'x') << std::flush;
  EXPECT_GE(place.bytes_of_files(), before + 100'000);
  EXPECT_LT(place.bytes_of_files(), before + 300'000);
  EXPECT_EQ(place.medium_of_files().emulated, place.medium_of_files().text.find("tmpfs") != std::string::npos);
  if (place.make("/dev/shm", "", 4096).ok()) {
    EXPECT_TRUE(place.medium_of_files().emulated);
  }
}

TEST(PoolPlace, RefusesWhatCannotBe) {
  PoolPlace place;
  const Status missing = place.make("/nowhere", "", 1);
  EXPECT_TRUE(missing.IsIoError());
  EXPECT_NE(missing.message().find("--pool-dir"), std::string::npos);
  const Status full = place.make(::testing::TempDir(), "", uint64_t{1} << 60);
  EXPECT_TRUE(full.IsNoSpace());
  EXPECT_NE(full.message().find("--records"), std::string::npos);
  EXPECT_TRUE(place.path().empty());
}

TEST(PoolPlace, FallsBackWhenSharedMemoryIsTooSmall) {
  PoolPlace place;
  const Status status = place.make("", ::testing::TempDir(), uint64_t{1} << 60);
  EXPECT_TRUE(status.IsNoSpace());
  std::string parent = ::testing::TempDir();
  EXPECT_EQ(status.message().find("/dev/shm"), std::string::npos) << status.ToString();
  ASSERT_TRUE(place.make("", parent, 4096).ok());
}

}  // namespace
}  // namespace bonsai::bench
