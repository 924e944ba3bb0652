// SPDX-License-Identifier: Apache-2.0
// DIR/results.json: the runs, the machine, and the results. README.md documents the format.
// A fact that is absent (an engine without NVM, a commit that git does not know) is null, never 0.
#ifndef BONSAI_BENCH_RESULTS_RESULTS_H_
#define BONSAI_BENCH_RESULTS_RESULTS_H_

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/engines/engine.h"
#include "bench/results/histogram.h"
#include "bench/results/noise.h"
#include "bench/ycsb/workload.h"
#include "bonsai/status.h"

namespace bonsai::bench {

// Version of the format. Fields may be added under the same version; a changed or removed one raises it.
inline constexpr int kResultsVersion = 1;

struct Manifest {
  std::optional<std::string> commit;  // "-dirty" is appended when the work tree differs from it
  std::optional<std::string> cpu;
  std::optional<std::string> kernel;
  std::optional<std::string> medium;  // of the first persistent engine that ran and reported it
  std::optional<std::string> domain;
  std::vector<std::string> emulated;  // what was emulated, in words
  std::map<std::string, std::string> flags;
  uint64_t seed = 0;
  unsigned processors = 0;
  std::optional<uint64_t> memory_bytes;
  std::string started;         // UTC, ISO 8601
  std::optional<Noise> noise;  // while it was measured; absent: not known
};

// A workload that an engine could not do.
struct LeftOut {
  std::string engine;
  std::string workload;
  std::string reason;
};

// The error that ended the run of an engine before its time.
struct EngineError {
  std::string engine;
  std::string message;
};

// The work of one thread while the clock ran.
struct ThreadTimes {
  uint64_t operations = 0;
  double seconds = 0;
  double slept_seconds = 0;  // until something was due
  double cpu_seconds = 0;    // of a processor
};

// DRAM and NVM in use; absent when the engine reports neither.
[[nodiscard]] std::optional<uint64_t> used_bytes(const MemoryUse& memory);
// The memory in use plus the memory that is reserved beyond it.
[[nodiscard]] std::optional<uint64_t> reserved_bytes(const MemoryUse& memory);

// An engine's memory at regular intervals of a phase.
struct MemorySamples {
  // `user_bytes`: keys and values that are stored at that moment.
  void add(const MemoryUse& memory, uint64_t user_bytes);

  uint64_t count = 0;
  std::optional<uint64_t> used_bytes_max = {};
  std::optional<uint64_t> reserved_bytes_max = {};
  std::optional<double> space_efficiency = {};  // user / used bytes, mean
};

struct RunResult {
  std::string engine;
  std::string workload;
  std::string key;
  uint64_t value_size = 0;
  uint64_t records = 0;
  uint64_t operations = 0;
  unsigned threads = 0;
  unsigned depth = 1;  // reads and writes submitted at once
  std::string distribution;
  std::optional<std::string> durability;
  std::string requests = "replayed";       // "replayed" from memory, "drawn" while the clock ran, or of a "trace"
  uint64_t warmup_operations = 0;          // carried out before the clock started, beside `operations`
  std::optional<double> target_ops_per_s;  // absent = as fast as it went
  uint64_t interval_ms = 0;                // of a target that is kept by intervals; 0 = open loop
  std::optional<double> seconds_max = {};  // that the phase was given
  bool pinned = false;                     // each thread to one processor
  double throughput_ops_per_s = 0;         // of several repetitions the median
  std::vector<double> repeats_ops_per_s;   // the throughput of each repetition, in order
  std::array<uint64_t, kOpKinds> operations_of{};  // by kind of request
  std::array<uint64_t, kOpKinds> failures_of{};
  uint64_t failures = 0;
  uint64_t absent = 0;                               // requests for records that may be missing, and were
  uint64_t latency_every = 0;                        // one operation in so many was timed
  std::array<Histogram, kOpKinds> latency;           // from the start of the operation; of all repetitions
  std::array<Histogram, kOpKinds> intended_latency;  // from its intended start; empty without a target
  MemoryUse memory;                                  // after settling
  MemoryUse memory_unsettled;                        // before
  std::optional<double> huge_pages;                  // huge_page_share() when the phase ended
  std::optional<uint64_t> user_bytes;  // keys and values of the live records; absent once records were deleted
  std::optional<NvmUse> nvm;
  std::optional<FabricUse> fabric;  // absent where everything is on this machine
  std::optional<MediumUse> medium;  // absent for volatile engines and those that do not report it
  double start_wall_seconds = 0;    // since 1970
  double seconds = 0;
  double cpu_seconds = 0;  // of processors, by the client threads
  std::vector<ThreadTimes> thread_times = {};
  std::optional<double> joules = {};  // of the machine, in `seconds`; absent without counters
  MemorySamples sampled = {};         // while the clock ran
  double settle_seconds = 0;          // finishing what the phase put off, outside the clock
  std::string first_failure;
  bool stopped = false;  // before its last operation
};

// All results of one execution of the program.
struct Results {
  Manifest manifest;
  std::vector<RunResult> runs;
  std::vector<LeftOut> left_out;
  std::vector<EngineError> errors = {};
};

// Adds to the manifest the storage on which `who` keeps its bytes.
void tell_medium(const std::string& who, const MediumUse& medium, Manifest* manifest);

// The manifest, in the form that is written to files.
[[nodiscard]] nlohmann::ordered_json manifest_json(const Manifest& manifest);

// The JSON text of results.json.
[[nodiscard]] std::string results_json(const Results& results);

// Writes `text` to `path` whole or not at all: the file of an earlier run is replaced by rename. Errors: IoError.
Status write_file(const std::string& path, const std::string& text);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_RESULTS_H_
