// SPDX-License-Identifier: Apache-2.0
// An experiment that was never run, for tests of code that processes results.
#ifndef BONSAI_BENCH_STUDIES_TESTING_EXPERIMENT_H_
#define BONSAI_BENCH_STUDIES_TESTING_EXPERIMENT_H_

#include "bench/studies/experiments/experiment.h"

namespace bonsai::bench {

inline Reference reference() { return {{"thread", "ours", "theirs"}, {{6, 1.25, {}}}}; }

inline Experiment experiment() { return {"made-up", "A <title>", "seed 0", "what", nullptr, reference}; }

inline ExperimentResult result() {
  return {.columns = {{"thread", "threads"}, {"ours", "Mop/s", true}, {"theirs", "Mop/s", true, "not built"}},
          .rows = {{1, 2.5, {}}, {2, 4.25, {}}},
          .labels = {"EMULATED"},
          .medium = {}};
}

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_TESTING_EXPERIMENT_H_
