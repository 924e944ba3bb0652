// SPDX-License-Identifier: Apache-2.0
// run_engine() in a child process, so that an engine that ends by a signal does not lose the results of others.
#ifndef BONSAI_BENCH_DRIVER_ENGINE_APART_H_
#define BONSAI_BENCH_DRIVER_ENGINE_APART_H_

#include "bench/driver/runner.h"

namespace bonsai::bench {

// As run_engine(): `listener` is called in this process. A pool that the child leaves is removed.
//   Requires: as run_apart().
//   Errors: those of run_engine() and run_apart(); Unavailable: no operation has ended for kIdleSecondsMax.
[[nodiscard]] Status run_engine_apart(const EngineEntry& entry, const RunConfig& config, const std::vector<Step>& steps,
                                      const std::atomic<bool>& stop, const RunListener& listener);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_DRIVER_ENGINE_APART_H_
