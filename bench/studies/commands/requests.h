// SPDX-License-Identifier: Apache-2.0
// The flags of the studies' commands as requests. Each command is one file, which defines its flags.
#ifndef BONSAI_BENCH_STUDIES_COMMANDS_REQUESTS_H_
#define BONSAI_BENCH_STUDIES_COMMANDS_REQUESTS_H_

#include <string>
#include <vector>

#include "bench/driver/runner.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/fabric/plan.h"
#include "bench/studies/melt/sweep.h"
#include "bonsai/status.h"

namespace bonsai::bench {

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
  bool resumes = false;                        // skip experiments that the directory has of this commit and these flags
  bool judges = false;                         // the claims, by all that the directory has then
  std::vector<const Experiment*> experiments;  // not empty, unless it judges
  ExperimentPlan plan;
};

// Builds the request for the experiment, or its figures, called `name`. Errors: InvalidArgument (no such experiment,
// with a list of all experiments; bounds).
Status experiment_of_flags(const std::string& name, ExperimentRequest* request);

// The flags of the experiment `fabric`. Errors: InvalidArgument (bounds, unknown words, each listing the known ones).
Status fabric_of_flags(FabricConfig* config);

// `bonsai-bench fabric --serve` with its flags.
struct ServeRequest {
  FabricAddress address;
  FabricConfig config;  // its device and its way of waiting
  bool once = false;    // stop when the first node that was served has gone
};

// Errors: InvalidArgument, as fabric_of_flags().
Status serve_of_flags(ServeRequest* request);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_COMMANDS_REQUESTS_H_
