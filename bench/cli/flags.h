// SPDX-License-Identifier: Apache-2.0
// The flags of `bonsai-bench run` and `load`, and the request that they define.
#ifndef BONSAI_BENCH_CLI_FLAGS_H_
#define BONSAI_BENCH_CLI_FLAGS_H_

#include <string>
#include <vector>

#include "bench/driver/runner.h"
#include "bonsai/status.h"

namespace bonsai::bench {

// The run that the flags request.
struct RunRequest {
  RunConfig config;
  std::vector<const EngineEntry*> engines;
  std::vector<Step> steps;
  unsigned repeat = 1;             // so many times over, each time all engines
  bool status = false;             // -s: progress as YCSB reports it
  std::vector<std::string> notes;  // for the user, before the run
  bool ycsb_text = false;          // print each run as YCSB does, too
};

// Reads the words after `run` or `load`: flags, and before them, as in YCSB's command line, the engines. Errors:
// InvalidArgument, as read_flags(), or the engines are named twice.
Status read_run_line(const std::vector<std::string>& words);

// Builds the request out of the flags. Errors: InvalidArgument (bounds, unknown engine or workload, each listing the
// known ones), IoError (workload file).
Status request_of_flags(RunRequest* request);

// The same for `load`: one step, the load of the first workload's records. Errors: InvalidArgument also for a trace
// that does more than insert.
Status load_of_flags(RunRequest* request);

// Parts of the request, for commands that share flags with `run`.
// Configuration, engines, steps and notes. Errors: as request_of_flags().
Status work_of_flags(RunRequest* request);
// The configuration alone, with the properties of -P and -p. Errors: InvalidArgument.
Status config_of_flags(const Properties& given, RunConfig* config);
// --repeat. Errors: InvalidArgument.
Status repeat_of_flags(unsigned* repeat);

// The workload files that a name may mean, as "name  path" with the first comment line of each.
[[nodiscard]] std::vector<std::vector<std::string>> known_workloads();

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_CLI_FLAGS_H_
