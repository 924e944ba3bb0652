// SPDX-License-Identifier: Apache-2.0
// Rules of the server that a test can leave out, one bit each. The lists in mutants/ have the changes of the sources;
// server/linearizability_test.cc must notice the loss of every one.
#ifndef BONSAI_SERVER_TESTING_MUTANTS_H_
#define BONSAI_SERVER_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"
#include "base/thread.h"

namespace bonsai::server {

using bonsai::testing::mutant;

enum Mutant : uint32_t {
  kReadsNotChecked = 1u << 0,   // EXEC writes though a key that it has read was updated
  kWatchNotChecked = 1u << 1,   // EXEC writes though a watched key was updated
  kConflictIsDone = 1u << 2,    // an EXEC that was refused replies as one that was done
  kConditionIgnored = 1u << 3,  // an update by what was there is made whatever is there
  kJoinedPassed = 1u << 4,      // an update passes those of its client that wait for the batch
  kJoinedLate = 1u << 5,        // MSET replies before the batch is written
  kSnapshotIsNow = 1u << 6,     // what is read through a snapshot is as of now
};

// For others to come between, also on a machine whose threads take turns.
inline void pause() { base::sleep_us(50); }

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_TESTING_MUTANTS_H_
