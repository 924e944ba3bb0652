// SPDX-License-Identifier: Apache-2.0
// The experiments, one or more per file of this folder.
#ifndef BONSAI_BENCH_EXPERIMENTS_EXPERIMENTS_H_
#define BONSAI_BENCH_EXPERIMENTS_EXPERIMENTS_H_

#include "bench/experiments/experiment.h"

namespace bonsai::bench {

[[nodiscard]] Experiment as_left();
[[nodiscard]] Experiment index_technique();
[[nodiscard]] std::vector<Experiment> kiwi();
[[nodiscard]] std::vector<Experiment> kiwi_goals();
[[nodiscard]] std::vector<Experiment> melt();
[[nodiscard]] std::vector<Experiment> melt_tables();
[[nodiscard]] std::vector<Experiment> offloading();
[[nodiscard]] std::vector<Experiment> pipelining();
[[nodiscard]] Experiment put_tails();
[[nodiscard]] std::vector<Experiment> rcuckoo();
[[nodiscard]] Experiment recovery();
[[nodiscard]] std::vector<Experiment> speed();
[[nodiscard]] std::vector<Experiment> striping();
[[nodiscard]] std::vector<Experiment> synthesis();
[[nodiscard]] std::vector<Experiment> writes();

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_EXPERIMENTS_EXPERIMENTS_H_
