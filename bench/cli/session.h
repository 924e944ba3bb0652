// SPDX-License-Identifier: Apache-2.0
// One execution of `bonsai-bench run` (engines one after the other, results kept as they come): a status line and a
// table on the terminal.
#ifndef BONSAI_BENCH_CLI_SESSION_H_
#define BONSAI_BENCH_CLI_SESSION_H_

#include <atomic>
#include <functional>
#include <string>

#include "bench/cli/flags.h"

namespace bonsai::bench {

// Removes pools that killed runs have left in the place of this run's pools, with a note for each.
void remove_abandoned_pools(const std::string& pool_dir, const std::string& out_dir,
                            const std::function<void(const std::string& text)>& note);

// Carries out the request and returns the exit code. `interrupted` may become true at any time and ends the run early.
int run_session(RunRequest request, const std::atomic<bool>& interrupted);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_CLI_SESSION_H_
