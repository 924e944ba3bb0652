// SPDX-License-Identifier: Apache-2.0
// One execution of `bonsai-bench run` (engines one after the other, results kept as they come) or `experiment`: a
// status line and a table for the person who waits.
#ifndef BONSAI_BENCH_CLI_SESSION_H_
#define BONSAI_BENCH_CLI_SESSION_H_

#include <atomic>
#include <functional>
#include <string>

#include "bench/cli/flags.h"
#include "bonsai/status.h"

namespace bonsai::bench {

inline constexpr int kExitFailures = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

// Prints what is wrong with the command line and returns the exit code for it.
int usage_error(const Status& status);

// Removes pools that killed runs have left where this one puts its own, each with a note.
void remove_abandoned_pools(const std::string& pool_dir, const std::string& out_dir,
                            const std::function<void(const std::string& text)>& note);

// Runs what was asked for and returns the exit code. `interrupted` may become true at any time and ends it early.
int run_session(RunRequest request, const std::atomic<bool>& interrupted);

// The same for an experiment.
int run_experiment(ExperimentRequest request, const std::atomic<bool>& interrupted);

// The same for a sweep.
int run_sweep_session(const SweepRequest& request, const std::atomic<bool>& interrupted);

// The same for the fabric: measures it, or is the far side for another program.
int run_fabric(const FabricRequest& request, const std::atomic<bool>& interrupted);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_CLI_SESSION_H_
