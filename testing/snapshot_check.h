// SPDX-License-Identifier: Apache-2.0
// Strict serializability of batches, scans, snapshots and gets in large histories, when each key has one writer.
//
// One writer per key fixes the order of a key's versions, and then only one question is left: can the operations be
// ordered at all? The checker builds a graph and searches for a cycle, in O(n log n):
//   update -> read        that saw it, or a later version of the key
//   read   -> update      that wrote the next version of a key the read saw
//   update -> update      of the same key, in the order of its writer
//   a -> b                if a returned before b was invoked (through a time line, so that it costs one edge per end)
// A batch is one node, and so is a scan or a snapshot. So torn batches, scans that took long, long forks (one scan sees
// put A and not B, another B and not A), reads that go backwards and lost updates all are cycles.
//
// A read of "absent" may stand for any of a key's deletes; the checker takes the weakest meaning that real time allows,
// so that it never accuses wrongly but may miss a mix-up between two deletes of one key.
#ifndef BONSAI_TESTING_SNAPSHOT_CHECK_H_
#define BONSAI_TESTING_SNAPSHOT_CHECK_H_

#include <span>

#include "testing/history.h"

namespace bonsai::testing {

// Requires: the updates of one key are invoked one after the other (one writer, which leaves a key alone after an
// update of unknown outcome); each has its own value, deletes excepted. The text shows a shortest cycle: for a long
// fork the two scans that disagree and the updates between them.
Verdict check_snapshots(const History& history, std::span<const Cell> initial = {});

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_SNAPSHOT_CHECK_H_
