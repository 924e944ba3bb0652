// SPDX-License-Identifier: Apache-2.0
// The table of the experiment `fabric`.
#ifndef BONSAI_BENCH_STUDIES_EXPERIMENTS_FABRIC_H_
#define BONSAI_BENCH_STUDIES_EXPERIMENTS_FABRIC_H_

#include "bench/studies/experiments/experiment.h"
#include "bench/studies/fabric/run.h"

namespace bonsai::bench {

// A row for each cell, with medians and comparisons; two charts for each provider; what a reader must know as labels.
// Requires: each row of `figures` has samples.
[[nodiscard]] ExperimentResult fabric_result(const FabricConfig& config, const FabricFigures& figures);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_FABRIC_H_
