// SPDX-License-Identifier: Apache-2.0
// MELT's sweep: threads 1 ... n times target rates, upwards until a rate is not held; some samples of each, all on
// fresh stores. Samples that are in samples.json already are not measured again, so that an interrupted sweep goes on.
//
// A rate is held when the mean over all its samples is at least kHeldShare of it. (MELT ended when no thread had slept.
// On more threads than processors that came too late.)
#ifndef BONSAI_BENCH_STUDIES_MELT_SWEEP_H_
#define BONSAI_BENCH_STUDIES_MELT_SWEEP_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/studies/melt/sample.h"

namespace bonsai::bench {

inline constexpr double kHeldShare = 0.98;

struct SweepPlan {
  std::vector<std::string> engines;
  std::vector<Workload> workloads;
  unsigned threads_max = 1;  // of engines that take more than one
  double rate_first = 1e6;
  double rate_step = 1e6;
  double rate_max = 0;  // 0 = until one is not held
  unsigned samples = 5;
  MeltConfiguration each;  // all but engine, workload, threads and target
};

// Errors: InvalidArgument for what cannot be done (nothing to run, times or rates of zero, rates that never come), with
// the remedy.
Status check_sweep(const SweepPlan& plan);

// The rates of one engine on this many threads, upwards; the last may be one that was not held.
struct SweepCurve {
  std::string engine;
  std::string workload;
  unsigned threads = 1;
  std::vector<double> targets;
  std::vector<MeltPoint> points;

  // The number of targets that were held.
  [[nodiscard]] size_t held() const;
};

struct SweepTools {
  MeltSamples* samples = nullptr;
  EnergyMeter* meter = nullptr;  // may be null
  const std::atomic<bool>* stop = nullptr;
  RunListener listener;  // gets phases, named with what is left to do, progress and notes
};

// Workloads that an engine cannot do are left out, with a note. An engine that fails (Unavailable) is left out from
// then on, with a note; the others go on, and its error is returned in the end. Other errors, those of check_sweep()
// and take_melt_sample(), end the sweep. Complete samples are kept.
Status run_sweep(const SweepPlan& plan, const RunConfig& base, const SweepTools& tools,
                 std::vector<SweepCurve>* curves);

// The samples of one configuration, of which those that are missing are taken. Errors: as take_melt_sample().
Status measure_melt(const MeltConfiguration& configuration, const RunConfig& base, unsigned samples,
                    const std::string& left, const SweepTools& tools, MeltPoint* point);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_MELT_SWEEP_H_
