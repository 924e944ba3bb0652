// SPDX-License-Identifier: Apache-2.0
// Runs the phases of the chosen workloads on an engine, or on several that take turns.
//
// A store is loaded before its first workload, and again ("reload") before a workload that needs other records than are
// there (another record shape, or keys that an earlier workload inserted or deleted) or that will insert or delete,
// when records have been updated meanwhile. So the list load,a,b,c,f,d,e runs as load, A, B, C, F, reload, D, reload,
// E. A trace runs on the records of the load trace before it, or else on YCSB's.
#ifndef BONSAI_BENCH_DRIVER_RUNNER_H_
#define BONSAI_BENCH_DRIVER_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/driver/driver.h"
#include "bench/engines/engine.h"
#include "bench/results/energy.h"
#include "bench/results/results.h"
#include "bench/ycsb/trace.h"
#include "bench/ycsb/workload.h"

namespace bonsai::bench {

// A phase in which no operation ends for this long is abandoned.
inline constexpr double kIdleSecondsMax = 120;

struct RunConfig {
  uint64_t records = 1'000'000;
  uint64_t operations = 1'000'000;
  unsigned threads = 1;
  unsigned depth = 1;
  uint64_t seed = 1;
  DrawMode draw = DrawMode::kAhead;
  uint64_t warmup = 0;  // requests of each workload before its clock starts
  uint64_t latency_every = kLatencySampled;
  double target_ops_per_s = 0;  // of workloads, not of loads; 0 = as fast as it goes
  uint64_t interval_ms = 0;     // a target is kept by intervals; 0 = in an open loop
  uint64_t latency_per_interval = 1;
  double seconds_max = 0;         // of workloads, not of loads; 0 = until all operations are done
  uint64_t memory_every_ms = 50;  // how often an engine's memory is sampled, in loads, too
  EnergyMeter* energy = nullptr;  // null = not measured
  MapTuning map = {};
  bool pin = false;
  KeyForm key_form = KeyForm::kFixed8;
  std::optional<size_t> value_bytes = 8;  // absent = fieldcount x fieldlength of the workload
  bool buffered = false;
  uint32_t wait_ms_max = 0;  // as EngineOptions
  std::string pool_dir;      // empty = the engine chooses
  std::string out_dir;
  std::string record_dir;  // where the requests of each workload are written as traces; empty = nowhere
};

// One entry of --workloads.
struct Step {
  bool load_only = false;                        // `workload` then only gives the shape of records
  Workload workload;                             // of a trace: its name and the features that it needs
  std::shared_ptr<const Trace> trace = nullptr;  // null = requests are drawn
  unsigned depth = 0;                            // 0 = RunConfig's
  std::optional<bool> sessions = {};             // Engine::use_sessions() from this step on; absent = as it is
};

// The step that replays `trace`. One that only inserts is a load: it begins with an empty store.
[[nodiscard]] Step step_of_trace(const std::string& name, Trace trace);

// Receives the runner's progress. Called from the thread that runs it.
struct RunListener {
  std::function<void(const std::string& engine, const std::string& phase, uint64_t operations)> on_phase;
  std::function<void(const PhaseProgress& progress)> on_progress;
  std::function<void(const RunResult& result)> on_result;
  std::function<void(const std::string& note)> on_note;
  std::function<void(const LeftOut& left_out)> on_left_out;
};

// Runs all steps on one engine and closes it. Every finished phase is reported to `listener`; so are failures, which
// are no error here. Errors: those of the engine's open, close and settle; Unavailable (a phase ended before its time).
Status run_engine(const EngineEntry& entry, const RunConfig& config, const std::vector<Step>& steps,
                  const std::atomic<bool>& stop, const RunListener& listener);

// Runs all steps on several engines that are open at once: each step on each engine, in order, before the next step, so
// that other load on the machine affects all engines alike. Ends at the first error.
Status run_engines_in_turns(const std::vector<EngineEntry>& entries, const RunConfig& config,
                            const std::vector<Step>& steps, const std::atomic<bool>& stop, const RunListener& listener);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_DRIVER_RUNNER_H_
