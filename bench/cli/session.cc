// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/session.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "bench/cli/command.h"
#include "bench/cli/flag_reader.h"
#include "bench/driver/engine_apart.h"
#include "bench/engines/bonsai.h"
#include "bench/engines/pool_place.h"
#include "bench/pages/output_directory.h"
#include "bench/report/terminal.h"
#include "bench/report/ycsb_text.h"
#include "bench/results/machine.h"
#include "bench/results/repeats.h"

namespace bonsai::bench {
namespace {

class Session {
 public:
  Session(RunRequest request, const std::atomic<bool>& interrupted)
      : request_(std::move(request)),
        interrupted_(interrupted),
        out_(request_.config.out_dir),
        line_(stderr, isatty(2) == 1) {
    describe_machine(&results_.manifest);
    counters_ = machine_counters();
    if (EnergyMeter::open("", &energy_).ok()) request_.config.energy = energy_.get();
    results_.manifest.flags = flag_values();
    results_.manifest.seed = request_.config.seed;
  }

  int run() {
    for (const std::string& text : request_.notes) note(text);
    if (Status status = start(); !status.ok()) return usage_error(status);
    bool failed = false;
    // The engines take turns, so that a change of the machine's speed affects all of them.
    for (round_ = 0; round_ < request_.repeat && !interrupted_; ++round_) {
      repeats_.begin();
      for (const EngineEntry* engine : request_.engines) failed |= !run_one(*engine);
    }
    note_pools_on_nodes();
    return finish(failed);
  }

 private:
  // Pools on nodes that are left, of this run or others. Only now: processes that were forked after a device was used
  // cannot use it.
  void note_pools_on_nodes() {
    for (const PoolOnNodes& pool : pools_on_nodes(request_.config.pool_dir)) {
      note("another run has " + pool.path + (pool.owner.empty() ? "" : ", owner " + pool.owner) +
           "; if it was killed: bonsai remove --pool=" + pool.path);
    }
  }

  Status start() {
    BONSAI_RETURN_IF_ERROR(out_.open());
    remove_abandoned_pools(request_.config.pool_dir, request_.config.out_dir,
                           [this](const std::string& text) { note(text); });
    return out_.write(results_);
  }

  bool run_one(const EngineEntry& engine) {
    RunConfig config = request_.config;
    if (round_ > 0 || &engine != request_.engines.front()) config.record_dir.clear();  // recorded already
    const Status status = run_engine_apart(engine, config, request_.steps, interrupted_, listener());
    line_.clear();
    if (status.ok()) return true;
    std::fprintf(stderr, "bonsai-bench: engine %s: %s\n", std::string(engine.name).c_str(), status.ToString().c_str());
    results_.errors.push_back({std::string(engine.name), status.ToString()});
    return false;
  }

  RunListener listener() {
    return {.on_phase =
                [this](const std::string& engine, const std::string& phase, uint64_t operations) {
                  line_.start(engine, phase, operations);
                  ycsb_status_.start(operations);
                },
            .on_progress = [this](const PhaseProgress& progress) { show(progress); },
            .on_result = [this](const RunResult& result) { keep(result); },
            .on_note =
                [this](const std::string& text) {
                  if (round_ == 0) note(text);
                },
            .on_left_out =
                [this](const LeftOut& one) {
                  if (round_ == 0) keep(one);
                }};
  }

  void show(const PhaseProgress& progress) {
    if (request_.status) {
      if (const auto text = ycsb_status_.line(progress)) std::fprintf(stderr, "%s\n", text->c_str());
    } else {
      line_.show(progress);
    }
  }

  void keep(const RunResult& result) {
    repeats_.add(result, &results_.runs);
    failures_ += result.failures;
    if (result.medium) tell_medium(result.engine, *result.medium, &results_.manifest);
    warn(out_.add(result));
    warn(out_.write(results_));
    if (!request_.ycsb_text) return;
    line_.clear();
    std::printf("%s, %s\n%s\n", result.engine.c_str(), result.workload.c_str(), ycsb_text(result).c_str());
  }

  void keep(const LeftOut& one) {
    results_.left_out.push_back(one);
    note(one.engine + " " + one.reason + ", so workload " + one.workload + " is left out");
  }

  void warn(const Status& status) {
    if (!status.ok()) note(std::string(status.message()));
  }

  void note(const std::string& text) {
    line_.clear();
    std::fprintf(stderr, "note: %s\n", text.c_str());
  }

  int finish(bool failed) {
    results_.manifest.noise = noise_between(counters_, machine_counters());
    warn(out_.write(results_));
    const Manifest& manifest = results_.manifest;
    std::printf("%s", results_table(results_.runs).c_str());
    std::printf("\n%s | %s | seed %llu | medium %s\n", manifest.cpu.value_or("unknown processor").c_str(),
                manifest.kernel.value_or("unknown kernel").c_str(), static_cast<unsigned long long>(manifest.seed),
                manifest.medium.value_or("none").c_str());
    if (const std::string noise = manifest.noise->verdict(); !noise.empty()) std::printf("NOISY: %s\n", noise.c_str());
    for (const std::string& what : manifest.emulated)
      std::printf("EMULATED %s; no statement about a real device\n", what.c_str());
    std::printf("results: %s\nreport: %s\n", out_.file("results.json").c_str(), out_.file("report.html").c_str());
    if (interrupted_) return kExitInterrupted;
    return failed || failures_ > 0 ? kExitFailures : 0;
  }

  RunRequest request_;
  std::unique_ptr<EnergyMeter> energy_;  // null without counters
  const std::atomic<bool>& interrupted_;
  OutputDirectory out_;
  StatusLine line_;
  YcsbStatus ycsb_status_;
  unsigned round_ = 0;  // of the repetitions
  Repeats repeats_;
  Results results_;
  MachineCounters counters_;  // before the first run
  uint64_t failures_ = 0;
};

}  // namespace

void remove_abandoned_pools(const std::string& pool_dir, const std::string& out_dir,
                            const std::function<void(const std::string& text)>& note) {
  for (const std::string& path : PoolPlace::remove_abandoned(pool_dir, out_dir)) {
    note("removed " + path + ", which a run that was killed had left");
  }
}

int run_session(RunRequest request, const std::atomic<bool>& interrupted) {
  return Session(std::move(request), interrupted).run();
}

}  // namespace bonsai::bench
