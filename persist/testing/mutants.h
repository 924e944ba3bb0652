// SPDX-License-Identifier: Apache-2.0
// Rules of fences, of recovery and of far pools that a test can switch off, one bit each, and none of another rule of
// testing/sim/rules.h. The lists in mutants/ have the changes of the sources. persist/crash_test.cc shows that no flush
// or fence can be left out.
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
  // Of these the log of a far pool must notice the loss (far_log_test.cc).
  kBlankClosedEarly = 1u << 20,  // mode buffered: a sealed segment's pages are given back while a closer flushes them
  kWindowNotWidened = 1u << 28,  // a record that is longer than the window counts as the end of the log
  kSealedNotSummed = 1u << 29,   // what a pool is closed with leaves out sealed segments
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_TESTING_MUTANTS_H_
