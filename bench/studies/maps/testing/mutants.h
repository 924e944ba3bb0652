// SPDX-License-Identifier: Apache-2.0
// Rules of the maps that a test can switch off, one bit each; the lists in mutants/ have what that changes. The tests
// must notice each.
#ifndef BONSAI_BENCH_STUDIES_MAPS_TESTING_MUTANTS_H_
#define BONSAI_BENCH_STUDIES_MAPS_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"

namespace bonsai::bench::maps {

using bonsai::testing::mutant;

enum Mutant : uint32_t {
  // The skip list
  kRemovedReplaced = 1u << 0,         // an update of a node that was removed returns
  kLostInsertAcknowledged = 1u << 1,  // an insert whose swap was lost returns
  // KiWi
  kScanHelpsNobody = 1u << 2,  // a scan passes by puts without a version
  kGetHelpsNobody = 1u << 3,   // a get does
  kVersionTooEarly = 1u << 4,  // the version that a put is given was read before the put was seen
  kPutsNotFrozen = 1u << 5,    // a rebalance leaves the pending puts alone
  kRemovalsDropped = 1u << 6,  // as published: a removal ends the versions of a key that are kept
  kScansForgotten = 1u << 7,   // a rebalance keeps the newest versions only
  kLastLinkedWins = 1u << 8,   // of two puts of one version the one that comes later to the list wins
  kListReadFirst = 1u << 9,    // a rebalance reads the list before the pending puts
  // The k-ary tree
  kLeavesUnchecked = 1u << 10,       // a scan does not look whether its leaves are still in place
  kLostSwapAcknowledged = 1u << 11,  // an update whose swap was lost returns
  // The trie
  kRootNotExchanged = 1u << 12,        // a scan goes through what updates change
  kUnsettledScanned = 1u << 13,        // a scan takes swaps that may be put back
  kUnsettledRead = 1u << 14,           // a get does
  kLostUpdateAcknowledged = 1u << 15,  // an update whose swap was lost returns
  // The tree with snapshots
  kSharedWritten = 1u << 16,     // an update changes a snapshot's nodes
  kRootNotShared = 1u << 17,     // a scan goes through what updates change
  kShrinkingIgnored = 1u << 18,  // a get does not look whether its node has lost keys
  kRevivedTooEarly = 1u << 19,   // a get may see the value of a record that is not there again yet
};

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_TESTING_MUTANTS_H_
