// SPDX-License-Identifier: Apache-2.0
// One execution of `bonsai-bench fabric`: opens providers with a far side for each, lets all cells take turns.
#ifndef BONSAI_BENCH_STUDIES_FABRIC_RUN_H_
#define BONSAI_BENCH_STUDIES_FABRIC_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/studies/fabric/end.h"
#include "bench/studies/fabric/plan.h"
#include "bench/studies/fabric/report.h"

namespace bonsai::bench {

struct FabricConfig {
  std::vector<std::string> providers;  // of "shm", "sim" and "verbs"; empty: all that this machine has
  std::optional<FabricAddress> peer;   // the far side is there, with its provider; else one is started here
  std::string device;                  // of verbs; empty: found
  bool blocks = false;                 // waits block instead of polling, here, there and in perftest
  bool perftest = true;
  FabricGrid grid;
  uint64_t cell_ms = 0;  // of each measurement; 0: what suits the provider
  unsigned runs = 9;
};

struct FabricListener {
  std::function<void(const std::string& doing)> on_progress;
  std::function<void(const std::string& note)> on_note;
};

// Fills all but the manifest of *report. Errors: NotSupported (a requested provider is not there, or breaks a litmus
// test), Unavailable (the far side does not answer; interrupted), those of requests.
Status run_fabric_cells(const FabricConfig& config, const std::atomic<bool>& stop, const FabricListener& listener,
                        FabricReport* report);

// Serves as the far side at `address` until `stop`, or with `once` until the first node that was served has gone.
// Errors: those of opening and listening; Unavailable (`once`, and no node came).
Status serve_fabric(const FabricAddress& address, const FabricConfig& config, bool once, const std::atomic<bool>& stop,
                    const FabricListener& listener);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_FABRIC_RUN_H_
