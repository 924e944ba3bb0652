// SPDX-License-Identifier: Apache-2.0
// One execution of the experiment `fabric`: opens providers with a far side for each, lets all cells take turns.
#ifndef BONSAI_BENCH_STUDIES_FABRIC_RUN_H_
#define BONSAI_BENCH_STUDIES_FABRIC_RUN_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/driver/runner.h"
#include "bench/studies/fabric/plan.h"

namespace bonsai::bench {

// A provider under test.
struct FabricSubject {
  const FabricProvider* provider = nullptr;
  std::string text;    // Capabilities::text
  std::string label;   // in what sense its times are real
  std::string litmus;  // what the litmus tests found; empty: not run
};

struct FabricRow {
  const FabricProvider* provider = nullptr;
  FabricCell cell;
  std::vector<FabricSample> samples;  // one per run
  std::vector<double> perftest;       // its figure, per run: microseconds for a cell that is alone, else messages/s
};

struct FabricFigures {
  std::vector<FabricSubject> subjects;
  std::vector<FabricRow> rows;
  std::vector<std::string> notes;  // what was left out or failed, and why
};

// Measures every cell of the grid on every provider. The listener gets phases and notes. Errors: NotSupported (a
// requested provider is not there, or breaks a litmus test), Unavailable (the far side does not answer; interrupted),
// those of requests.
Status run_fabric_cells(const FabricConfig& config, const std::atomic<bool>& stop, const RunListener& listener,
                        FabricFigures* figures);

// Serves as the far side at `address` until `stop`, or with `once` until the first node that was served has gone.
// The listener gets a note when it serves. Errors: those of opening and listening; Unavailable (`once`, and no node
// came).
Status serve_fabric(const FabricAddress& address, const FabricConfig& config, bool once, const std::atomic<bool>& stop,
                    const RunListener& listener);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_FABRIC_RUN_H_
