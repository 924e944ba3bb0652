// SPDX-License-Identifier: Apache-2.0
// The command line of bonsai-bench. Flags are gflags, so that their values are typed and known by name, but they are
// read and explained here: an error names the known flags, the help teaches, and gflags' own flags stay out of sight.
#ifndef BONSAI_BENCH_CLI_FLAGS_H_
#define BONSAI_BENCH_CLI_FLAGS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/driver/runner.h"
#include "bench/experiments/experiment.h"
#include "bench/fabric/run.h"
#include "bench/melt/sweep.h"
#include "bonsai/status.h"

namespace bonsai::bench {

// Reads `--name=value`, `--name value` and single-dash forms; '-' and '_' in names are the same; `-P` and `-p` may come
// more than once; `--pin` and `-s` need no value. Errors:
// InvalidArgument (unknown flag, bad value, a word that is no flag) with the remedy.
Status read_flags(const std::vector<std::string>& words);

// What the flags ask for.
struct RunRequest {
  RunConfig config;
  std::vector<const EngineEntry*> engines;
  std::vector<Step> steps;
  unsigned repeat = 1;             // so many times over, each time all engines
  bool status = false;             // -s: progress as YCSB reports it
  std::vector<std::string> notes;  // for the user, before the run
  bool ycsb_text = false;          // print each run as YCSB does, too
};

// Builds the request out of the flags. Errors: InvalidArgument (bounds, unknown engine or workload, each listing the
// known ones), IoError (workload file).
Status request_of_flags(RunRequest* request);

// `bonsai-bench sweep` with its flags.
struct SweepRequest {
  SweepPlan plan;
  RunConfig config;
  std::vector<std::string> notes;
};

// Errors: as request_of_flags() and check_sweep().
Status sweep_of_flags(SweepRequest* request);

// `bonsai-bench experiment NAME` with its flags.
struct ExperimentRequest {
  bool resumes = false;                        // what the directory has of this commit and these flags is not measured
  std::vector<const Experiment*> experiments;  // not empty
  ExperimentPlan plan;
};

// Builds the request for the experiment, or its figures, called `name`. Errors: InvalidArgument (no such experiment,
// listing those that there are; bounds).
Status experiment_of_flags(const std::string& name, ExperimentRequest* request);

// `bonsai-bench fabric` with its flags.
struct FabricRequest {
  FabricConfig config;
  std::optional<FabricAddress> serve;  // be the far side there
  bool once = false;                   // until the first node that was served has gone
  std::string out_dir;
};

// Errors: InvalidArgument (bounds, unknown words, each listing the known ones).
Status fabric_of_flags(FabricRequest* request);

// Every flag of ours and its value, as written in the manifest.
[[nodiscard]] std::map<std::string, std::string> flag_values();

// The workload files that a name may mean, as "name  path" with the first comment line of each.
[[nodiscard]] std::vector<std::vector<std::string>> known_workloads();

[[nodiscard]] const char* help_text();

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_CLI_FLAGS_H_
