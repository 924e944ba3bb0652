// SPDX-License-Identifier: Apache-2.0
// Rules of fences and of recovery that a test can switch off, one bit each, apart from those of scale/. The lists in
// mutants/ have the changes of the sources. The simulation of the whole store must notice the loss of every one
// (testing/sim/mutant_test.cc). persist/crash_test.cc shows that no flush or fence can be left out.
#ifndef BONSAI_PERSIST_TESTING_MUTANTS_H_
#define BONSAI_PERSIST_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"

namespace bonsai::persist {

using bonsai::testing::mutant;

enum Mutant : uint32_t {
  kAppendFailureIgnored = 1u << 8,   // an append whose fence failed is taken for durable
  kHeaderWithRuns = 1u << 9,         // headers go with their runs, before a fence
  kCommitFailureIgnored = 1u << 10,  // a commit whose fence failed is taken for durable
  kLargeNotFenced = 1u << 12,        // a large value is referred to before it is durable
  kEpochClosedEarly = 1u << 13,      // mode buffered: an epoch is closed before its records are durable
  kRecoveredNotWritten = 1u << 14,   // recovery builds on what is there, and may not be durable
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_TESTING_MUTANTS_H_
