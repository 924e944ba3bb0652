// SPDX-License-Identifier: Apache-2.0
// Rules of MELT's method that a test can switch off, one bit each; the lists in mutants/ have what that changes.
#ifndef BONSAI_BENCH_STUDIES_MELT_TESTING_MUTANTS_H_
#define BONSAI_BENCH_STUDIES_MELT_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"

namespace bonsai::bench {

using bonsai::testing::mutant;

enum MeltMutant : uint32_t {
  // Rules of the sweep
  kNeverStops = 1u << 0,      // a rate that was missed does not end its curve
  kMissedCounted = 1u << 1,   // ... and counts as held
  kMeasuredAgain = 1u << 2,   // samples that are there are taken once more
  kDriftUnnoticed = 1u << 3,  // nobody looks whether the idle machine uses what it used
  // Rules of a sample
  kFirstSampleCounts = 1u << 4,  // the first sample stands for all of its configuration
  kCountsDropped = 1u << 5,      // latencies that fell into one bucket are one
  kIdleCounted = 1u << 6,        // an operation is charged for what the idle machine uses, too
  kSampleNotWritten = 1u << 7,   // a sample is kept in memory alone
  kOtherTargetsMatch = 1u << 8,  // a sample at another rate is taken for one
  kForeignFileRead = 1u << 9,    // a file of another version is read all the same
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_MELT_TESTING_MUTANTS_H_
