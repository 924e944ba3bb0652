// SPDX-License-Identifier: Apache-2.0
// The steady cost of overwriting the records of a Bonsai store: time, media bytes, space. The experiments about
// offloading and writes are tables of such studies.
#ifndef BONSAI_BENCH_STUDIES_EXPERIMENTS_UPDATE_STUDY_H_
#define BONSAI_BENCH_STUDIES_EXPERIMENTS_UPDATE_STUDY_H_

#include <cstddef>
#include <cstdint>

#include "bench/engines/bonsai.h"
#include "bench/results/histogram.h"
#include "bench/studies/experiments/experiment.h"

namespace bonsai::bench {

struct UpdateStudy {
  uint64_t records = 0;  // of fixed8 keys, loaded and drained before
  size_t value_bytes = 8;
  double alpha = 0;     // of a plain Zipf over the records; 0 = uniform
  unsigned depth = 1;   // updates submitted at once, by MultiPut; 1 = Put
  bool timed = false;   // each submission
  bool atomic = false;  // ... as a write batch, which is one log record whatever its size
  OpenStore open = OpenForTest;
  StoreOptions options;  // of the store; the study sets creation, key format and pool_bytes

  [[nodiscard]] uint64_t user_bytes() const { return records * (sizeof(uint64_t) + value_bytes); }
};

// Costs of the measured updates, twice as many as there are records; `medium` describes the medium. As many updates as
// there are records go before, so that log, runs and compaction reach their steady state. Nothing is drained in between
// or at the end.
struct UpdateCosts {
  MediumUse medium;
  double mops = 0;                    // millions of updates per second
  double offload_mops = 0;            // the same in the time that threads spent offloading
  double wrr_percent = 0;             // updates that never reached a dnode
  double media_bytes_per_update = 0;  // of the media, everything included
  double write_amplification = 0;     // the same per byte of keys and values
  double fences_per_update = 0;
  double data_bytes_per_record = 0;  // the most at any of several moments: dnodes and large values
  double log_bytes_per_record = 0;   // all of the log, used or not
  double dram_bytes_per_record = 0;  // tree, bnodes, updates, uploaded metadata
  double log_percent_of_data = 0;
  Histogram latency;  // of submissions, if they were timed
  uint64_t stalls = 0, pauses = 0, wake_ups = 0, replacements = 0;

  [[nodiscard]] double nvm_bytes_per_record() const { return data_bytes_per_record + log_bytes_per_record; }
};

// Errors: those of the store; Unavailable when the user interrupted.
Status run_updates(const ExperimentPlan& plan, const UpdateStudy& study, UpdateCosts* costs);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_UPDATE_STUDY_H_
