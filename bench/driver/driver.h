// SPDX-License-Identifier: Apache-2.0
// Carries out a plan against an engine, on as many threads as the plan has, and measures it.
//
// The clock runs from the moment when all threads are ready, and warmed up if asked, to the moment when the last one is
// done, or to the phase's limit. One operation in kLatencySampled is timed; reading the clock for each would be a
// visible part of a 100 ns operation.
//
// A target is kept in one of two ways. In the open loop each operation has a time at which it ought to start; then each
// is timed, both from its real start and from the intended one, so that a stall shows in all the operations that it
// delays and not in one (coordinated omission). By intervals (pace.h) the threads do some operations and sleep; a fixed
// number of each interval is timed. In neither does a waiting thread spin, so a sleeper's wake-up is part of the
// intended latency.
#ifndef BONSAI_BENCH_DRIVER_DRIVER_H_
#define BONSAI_BENCH_DRIVER_DRIVER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/driver/live_latency.h"
#include "bench/driver/versions.h"
#include "bench/engines/acknowledged_counter.h"
#include "bench/engines/engine.h"
#include "bench/results/histogram.h"
#include "bench/results/results.h"
#include "bench/ycsb/requests.h"

namespace bonsai::bench {

inline constexpr uint64_t kLatencySampled = 64;
// After this many operations of one thread that return an error, the phase ends: the engine is out of order.
inline constexpr uint64_t kErrorsMax = 100;

struct PhaseProgress {
  uint64_t done = 0;  // operations, warm-up not counted
  double seconds = 0;
  double seconds_idle = 0;      // since the last operation was seen to end
  LatencyCountsByKind latency;  // of the timed operations; with a target from their intended start
};

struct PhaseOptions {
  RecordShape shape;
  unsigned depth = 1;                        // reads and writes handed to the engine at once
  bool absent_is_fine = false;               // the workload deletes, so requests may miss
  bool scan_start_may_miss = false;          // scans start at any key, not only at stored ones
  std::string key_max;                       // the greatest loaded key: only there may a scan end early
  uint64_t loaded = 0;                       // records that were loaded
  AcknowledgedCounter* counter = nullptr;    // of inserts; may be null when the plan has none
  Versions* versions = nullptr;              // of the store since its load; null = of this phase alone
  uint64_t warmup = 0;                       // number of the plan's operations before the clock starts
  uint64_t latency_every = kLatencySampled;  // one operation in this many is timed; a power of two
  double target_ops_per_s = 0;               // over all threads; 0 = as fast as it goes
  uint64_t interval_ms = 0;                  // of a target: control by intervals (pace.h); 0 = open loop
  uint64_t latency_per_interval = 1;         // operations that each thread times in an interval
  double seconds_max = 0;                    // of the clock; 0 = as long as it takes
  bool pin = false;                          // thread i to the i-th processor
  const std::atomic<bool>* stop = nullptr;   // ends the phase early when it becomes true; may be null
  std::function<void()> on_clock;            // called before the clock starts; may be empty
  uint64_t progress_every_ms = 200;
  std::function<void(const PhaseProgress&)> on_progress;  // called so often, from the caller's thread; may be empty
};

struct PhaseResult {
  uint64_t operations = 0;  // that were carried out while the clock ran
  double seconds = 0;
  double cpu_seconds = 0;  // of processors, that all threads used
  std::vector<ThreadTimes> threads;
  std::array<uint64_t, kOpKinds> operations_of{};  // by kind of request
  std::array<uint64_t, kOpKinds> failures_of{};
  uint64_t failures = 0;  // errors, absent records and wrong values, those of the warm-up included
  uint64_t absent = 0;    // records that were not there, where that is no failure
  std::string first_failure;
  bool stopped = false;  // by `stop` or by kErrorsMax, not by the limit of time
  bool pinned = false;   // every thread to its processor
  uint64_t inserted = 0;
  uint64_t inserted_key_bytes = 0;
  uint64_t removes = 0;
  std::array<Histogram, kOpKinds> latency;           // from the start of the operation
  std::array<Histogram, kOpKinds> intended_latency;  // from the intended start; empty without a target
};

// Runs the phase. Requires: the engine is open and supports the requests of the plan, on plan.threads.size() threads.
// Requests that are drawn live come from a copy of the plan's drawers.
[[nodiscard]] PhaseResult run_phase(Engine* engine, const RequestPlan& plan, const PhaseOptions& options);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_DRIVER_DRIVER_H_
