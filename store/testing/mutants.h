// SPDX-License-Identifier: Apache-2.0
// Checks of leases that a test can leave out, one bit each, and none of another rule of testing/sim/rules.h. The lists
// in mutants/ have the changes of the sources. testing/sim/owner_test.cc must notice the loss of every one; lives of
// two owners, of those that testing/sim/rules.h names.
#ifndef BONSAI_STORE_TESTING_MUTANTS_H_
#define BONSAI_STORE_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"

namespace bonsai::store {

using bonsai::testing::mutant;

enum Mutant : uint32_t {
  kCheckNotConfirmed = 1u << 20,   // what Check() has read
  kGetNotChecked = 1u << 24,       // gets
  kMultiGetNotChecked = 1u << 25,  // groups of gets
  kScanNotChecked = 1u << 26,      // windows of scans and counts
  kIteratorNotChecked = 1u << 27,  // ranges of iterators
  kSnapshotNotChecked = 1u << 28,  // the moments of snapshots
  kBufferedNotChecked = 1u << 29,  // acknowledgements of buffered updates
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_TESTING_MUTANTS_H_
