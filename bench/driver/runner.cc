// SPDX-License-Identifier: Apache-2.0
#include "bench/driver/runner.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"
#include "bench/results/machine.h"

namespace bonsai::bench {
namespace {

constexpr const char* kOfTrace = "trace";
constexpr uint64_t kProgressEveryMs = 200;

class EngineRun {
 public:
  EngineRun(const EngineEntry& entry, const RunConfig& config, const std::vector<Step>& steps,
            const std::atomic<bool>& stop, const RunListener& listener)
      : name_(entry.name),
        config_(config),
        steps_(steps),
        stop_(stop),
        listener_(listener),
        engine_(entry.make()),
        can_(engine_->capabilities()),
        threads_(can_.threads ? config.threads : 1) {}

  void begin() const {
    if (threads_ < config_.threads) {
      note("runs on 1 thread: it takes no more (asked: " + std::to_string(config_.threads) + ")");
    }
  }

  Status close() { return open_ ? engine_->close() : Status::OK(); }

  Status run_step(const Step& step) {
    const Workload& workload = step.workload;
    depth_ = !can_.many ? 1 : step.depth != 0 ? step.depth : config_.depth;
    if (step.sessions) engine_->use_sessions(*step.sessions);
    if (!step.load_only && workload.share(OpKind::kScan) > 0 && !can_.scan) {
      listener_.on_left_out({name_, workload.name, "has no ordered scan"});
      return Status::OK();
    }
    const RecordShape shape{config_.key_form, workload.hashed_inserts, workload.zero_padding,
                            config_.value_bytes.value_or(workload.record_bytes)};
    if (can_.words_only && (shape.key_form != KeyForm::kFixed8 || shape.value_bytes != 8)) {
      listener_.on_left_out({name_, workload.name, "takes records of 8 + 8 bytes only"});
      return Status::OK();
    }
    if (step.load_only) load_trace_ = step.trace.get();
    const Trace* records = step.trace ? load_trace_ : nullptr;
    const bool others_keys = keys_changed_ || records != loaded_trace_;
    const bool wants_fresh = written_ && workload.changes_keys();
    if (step.load_only || !open_ || shape != shape_ || others_keys || wants_fresh) {
      BONSAI_RETURN_IF_ERROR(load(shape, records));
    }
    if (step.load_only || stop_) return Status::OK();
    keys_changed_ = workload.changes_keys();
    written_ |= workload.writes();
    return step.trace ? replay(step) : run_workload(workload);
  }

 private:
  Status run_workload(const Workload& workload) {
    const RequestPlan plan = draw_requests(workload, shape_, config_.records, config_.operations + config_.warmup,
                                           threads_, config_.seed, config_.draw);
    BONSAI_RETURN_IF_ERROR(record(workload.name, plan));
    AcknowledgedCounter counter(config_.records, plan.inserts_max);
    PhaseOptions options = workload_options(workload);
    options.warmup = config_.warmup;
    options.counter = &counter;
    return run_phase_named(workload.name, workload.distribution_text(), plan, options);
  }

  Status replay(const Step& step) {
    PhaseOptions options = workload_options(step.workload);
    options.warmup = std::min<uint64_t>(config_.warmup, step.trace->requests.size() - 1);
    options.scan_start_may_miss = true;
    // Another thread's insert may be late.
    options.absent_is_fine |= threads_ > 1 && step.trace->count(OpKind::kInsert) > 0;
    return run_phase_named(step.workload.name, kOfTrace, plan_of_trace(*step.trace, shape_, threads_), options);
  }

  Status load(const RecordShape& shape, const Trace* trace) {
    const bool again = open_;
    begin_turn();
    if (open_) BONSAI_RETURN_IF_ERROR(engine_->close());
    open_ = false;
    EngineOptions options{shape,           records_max(), config_.buffered,   config_.pool_dir,
                          config_.out_dir, config_.map,   config_.wait_ms_max};
    BONSAI_RETURN_IF_ERROR(engine_->open(options));
    process_growth_ = process_growth();
    open_ = true;
    shape_ = shape;
    loaded_trace_ = trace;
    records_ = trace != nullptr ? trace->requests.size() : config_.records;
    keys_changed_ = false;
    written_ = false;
    user_bytes_ = 0;
    versions_ = std::make_unique<Versions>();
    const RequestPlan plan = trace != nullptr ? plan_of_trace(*trace, shape, threads_)
                                              : draw_load(shape, config_.records, threads_, config_.draw);
    key_max_ = plan.key_max;
    if (!again && trace == nullptr) BONSAI_RETURN_IF_ERROR(record("load", plan));
    return run_phase_named(again ? "reload" : "load", trace != nullptr ? kOfTrace : "sequential", plan,
                           phase_options());
  }

  [[nodiscard]] Status record(const std::string& phase, const RequestPlan& plan) const {
    if (config_.record_dir.empty()) return Status::OK();
    return write_trace(config_.record_dir + "/" + phase + ".trace", plan, shape_, config_.records);
  }

  [[nodiscard]] uint64_t records_max() const {
    double insert_share = 0;
    uint64_t traced = 0;
    for (const Step& step : steps_) {
      insert_share = std::max(insert_share, step.trace ? 0 : step.workload.share(OpKind::kInsert));
      if (step.trace) traced += step.trace->count(OpKind::kInsert);
    }
    // A drawn number of inserts strays little from its mean; twice the mean is never reached.
    return config_.records + traced + 1000 +
           static_cast<uint64_t>(static_cast<double>(config_.operations + config_.warmup) * insert_share * 2);
  }

  [[nodiscard]] PhaseOptions workload_options(const Workload& workload) const {
    PhaseOptions options = phase_options();
    options.target_ops_per_s = config_.target_ops_per_s;
    options.interval_ms = config_.interval_ms;
    options.latency_per_interval = config_.latency_per_interval;
    options.seconds_max = config_.seconds_max;
    options.absent_is_fine = workload.share(OpKind::kDelete) > 0;
    return options;
  }

  [[nodiscard]] PhaseOptions phase_options() const {
    PhaseOptions options;
    options.shape = shape_;
    options.key_max = key_max_;
    options.loaded = records_;
    options.versions = versions_.get();
    options.depth = depth_;
    options.latency_every = config_.latency_every;
    options.pin = config_.pin;
    options.stop = &stop_;
    options.progress_every_ms = config_.memory_every_ms;
    return options;
  }

  Status run_phase_named(const std::string& phase, const std::string& distribution, const RequestPlan& plan,
                         PhaseOptions options) {
    listener_.on_phase(name_, phase, plan.operations - options.warmup);
    std::optional<NvmUse> nvm_before;
    std::optional<FabricUse> fabric_before;
    double start_wall_seconds = 0;
    std::optional<double> joules_before;
    options.on_clock = [&] {
      nvm_before = engine_->nvm();
      fabric_before = engine_->fabric();
      start_wall_seconds = base::wall_seconds();
      joules_before = joules();
    };
    MemorySamples sampled;
    uint64_t ticks = 0;
    const uint64_t progress_every = std::max<uint64_t>(1, kProgressEveryMs / options.progress_every_ms);
    const uint64_t inserts_per_done = phase == "load" || phase == "reload" ? record_bytes() : 0;
    options.on_progress = [&](const PhaseProgress& progress) {
      if (start_wall_seconds > 0) sampled.add(engine_->memory(), user_bytes_ + progress.done * inserts_per_done);
      if (++ticks % progress_every != 0) return;
      static_cast<void>(joules());  // so that no counter wraps around unseen
      if (listener_.on_progress) listener_.on_progress(progress);
    };
    begin_turn();
    PhaseResult measured = run_phase(engine_.get(), plan, options);
    const std::optional<double> joules_after = joules();
    const MemoryUse memory_unsettled = memory_in_use();
    const std::optional<double> huge_pages = huge_page_share();
    const uint64_t settle_start_ns = base::now_ns();
    const Status settled = engine_->settle();

    RunResult result = describe_run(phase, distribution, options);
    result.settle_seconds = static_cast<double>(base::now_ns() - settle_start_ns) * 1e-9;
    result.start_wall_seconds = start_wall_seconds;
    result.operations = measured.operations;
    result.seconds = measured.seconds;
    result.throughput_ops_per_s = static_cast<double>(measured.operations) / measured.seconds;
    result.repeats_ops_per_s = {result.throughput_ops_per_s};
    result.operations_of = measured.operations_of;
    result.failures_of = measured.failures_of;
    result.failures = measured.failures;
    result.first_failure = measured.first_failure;
    result.absent = measured.absent;
    result.stopped = measured.stopped;
    result.pinned = measured.pinned;
    result.cpu_seconds = measured.cpu_seconds;
    result.thread_times = std::move(measured.threads);
    if (joules_before && joules_after) result.joules = *joules_after - *joules_before;
    result.latency = std::move(measured.latency);
    result.intended_latency = std::move(measured.intended_latency);
    result.memory = memory_in_use();
    process_growth_ = process_growth();
    result.memory_unsettled = memory_unsettled;
    result.huge_pages = huge_pages;
    result.user_bytes = user_bytes_after(measured);
    if (result.user_bytes) sampled.add(memory_unsettled, *result.user_bytes);
    result.sampled = sampled;
    result.nvm = nvm_since(nvm_before);
    result.fabric = fabric_since(fabric_before);
    result.medium = engine_->medium();
    if (config_.pin && !measured.pinned) note("could not be pinned: the system refuses to bind threads to processors");
    listener_.on_result(result);
    if (!settled.ok()) return settled;
    if (measured.stopped && !stop_) return Status::Unavailable("gave up after " + measured.first_failure);
    return Status::OK();
  }

  // Used so far; absent without counters, and from when they have gone.
  std::optional<double> joules() {
    if (config_.energy == nullptr || energy_is_lost_) return std::nullopt;
    double used = 0;
    const Status status = config_.energy->read(&used);
    if (status.ok()) return used;
    energy_is_lost_ = true;
    note("is measured on without energy: " + std::string(status.message()));
    return std::nullopt;
  }

  // Key and value of a record, about: string keys are not all as long.
  [[nodiscard]] uint64_t record_bytes() const {
    return (shape_.key_form == KeyForm::kFixed8 ? 8 : shape_.key_bytes_max()) + shape_.value_bytes;
  }

  // From here on growth of the process's memory is the engine's: the requests are already drawn.
  void begin_turn() { process_before_ = process_bytes(); }

  // Growth since before the engine was opened, summed over its turns.
  [[nodiscard]] std::optional<int64_t> process_growth() const {
    const std::optional<uint64_t> now = process_bytes();
    if (!now || !process_before_ || !process_growth_) return std::nullopt;
    return *process_growth_ + static_cast<int64_t>(*now - *process_before_);
  }

  [[nodiscard]] MemoryUse memory_in_use() const {
    MemoryUse memory = engine_->memory();
    if (const auto grown = process_growth()) memory.process_bytes = static_cast<uint64_t>(std::max<int64_t>(0, *grown));
    return memory;
  }

  [[nodiscard]] RunResult describe_run(const std::string& phase, const std::string& distribution,
                                       const PhaseOptions& options) const {
    RunResult result;
    result.engine = name_;
    result.workload = phase;
    result.key = key_form_name(shape_.key_form);
    result.value_size = shape_.value_bytes;
    result.records = records_;
    result.threads = threads_;
    result.depth = options.depth;
    result.distribution = distribution;
    if (can_.durability) result.durability = config_.buffered || can_.always_buffered ? "buffered" : "durable";
    result.requests = distribution == kOfTrace ? kOfTrace : config_.draw == DrawMode::kLive ? "drawn" : "replayed";
    result.warmup_operations = options.warmup;
    const bool paced = options.target_ops_per_s > 0;
    if (paced) result.target_ops_per_s = options.target_ops_per_s;
    if (paced) result.interval_ms = options.interval_ms;
    if (options.seconds_max > 0) result.seconds_max = options.seconds_max;
    result.latency_every = !paced ? options.latency_every : options.interval_ms > 0 ? 0 : 1;
    return result;
  }

  std::optional<uint64_t> user_bytes_after(const PhaseResult& measured) {
    user_bytes_ += measured.inserted_key_bytes + measured.inserted * shape_.value_bytes;
    // A trace may insert a record that is there.
    if (measured.removes > 0 || !can_.keeps_data || loaded_trace_ != nullptr) return std::nullopt;
    return user_bytes_;
  }

  [[nodiscard]] std::optional<NvmUse> nvm_since(const std::optional<NvmUse>& before) const {
    std::optional<NvmUse> now = engine_->nvm();
    if (!now || !before) return now;
    return NvmUse{now->bytes_stored - before->bytes_stored,
                  now->media_bytes - before->media_bytes,
                  now->flushes - before->flushes,
                  now->fences - before->fences,
                  now->gets - before->gets,
                  now->gets_answered - before->gets_answered};
  }

  [[nodiscard]] std::optional<FabricUse> fabric_since(const std::optional<FabricUse>& before) const {
    const std::optional<FabricUse> now = engine_->fabric();
    if (!now || !before) return now;
    return FabricUse{now->round_trips - before->round_trips, now->messages - before->messages,
                     now->bytes - before->bytes};
  }

  void note(const std::string& text) const { listener_.on_note(name_ + " " + text); }

  const std::string name_;
  const RunConfig& config_;
  const std::vector<Step>& steps_;
  const std::atomic<bool>& stop_;
  const RunListener& listener_;
  std::unique_ptr<Engine> engine_;
  const Capabilities can_;
  const unsigned threads_;

  bool energy_is_lost_ = false;
  bool open_ = false;
  unsigned depth_ = 1;                   // of the current step
  RecordShape shape_;                    // of the loaded records
  uint64_t records_ = 0;                 // how many they are
  const Trace* load_trace_ = nullptr;    // what a trace runs on; null = YCSB's records
  const Trace* loaded_trace_ = nullptr;  // what was loaded
  bool written_ = false;                 // a workload has updated records since the load
  bool keys_changed_ = false;            // other keys than the loaded ones are there
  std::string key_max_;
  uint64_t user_bytes_ = 0;
  std::unique_ptr<Versions> versions_;         // since the load
  std::optional<uint64_t> process_before_;     // this turn of the engine
  std::optional<int64_t> process_growth_ = 0;  // in the turns before it
};

}  // namespace

Step step_of_trace(const std::string& name, Trace trace) {
  Step step;
  step.load_only = trace.is_load();
  step.workload.name = name;
  step.workload.requests = Distribution::kTrace;
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    step.workload.shares[kind] =
        static_cast<double>(trace.operations_of[kind]) / static_cast<double>(trace.requests.size());
  }
  step.trace = std::make_shared<const Trace>(std::move(trace));
  return step;
}

Status run_engines_in_turns(const std::vector<EngineEntry>& entries, const RunConfig& config,
                            const std::vector<Step>& steps, const std::atomic<bool>& stop,
                            const RunListener& listener) {
  std::vector<std::unique_ptr<EngineRun>> runs;
  for (const EngineEntry& entry : entries) {
    runs.push_back(std::make_unique<EngineRun>(entry, config, steps, stop, listener));
    runs.back()->begin();
  }
  Status status;
  for (const Step& step : steps) {
    for (const auto& run : runs) {
      if (status.ok() && !stop) status = run->run_step(step);
    }
  }
  for (const auto& run : runs) {
    const Status closed = run->close();
    if (status.ok()) status = closed;
  }
  return status;
}

Status run_engine(const EngineEntry& entry, const RunConfig& config, const std::vector<Step>& steps,
                  const std::atomic<bool>& stop, const RunListener& listener) {
  return run_engines_in_turns({entry}, config, steps, stop, listener);
}

}  // namespace bonsai::bench
