// SPDX-License-Identifier: Apache-2.0
// Rules of the measurements other than time, which a test can switch off, one bit each. The lists in mutants/ have the
// changes.
#ifndef BONSAI_BENCH_RESULTS_TESTING_MUTANTS_H_
#define BONSAI_BENCH_RESULTS_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"

namespace bonsai::bench {

using bonsai::testing::mutant;

enum ResultsMutant : uint32_t {
  // Energy
  kWrapIgnored = 1u << 16,        // what a counter counted until it began anew is lost
  kVanishedIsNone = 1u << 17,     // a counter that is gone counts as one that stands
  kSecondViewCounted = 1u << 18,  // a package is counted by both of its views
  // Memory
  kReservedIsUsed = 1u << 19,       // what is set aside and not in use is left out
  kEfficiencyOfLast = 1u << 20,     // the last sample stands for all
  kUnknownCountsAsNone = 1u << 21,  // an engine that does not report counts as one that takes nothing
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_TESTING_MUTANTS_H_
