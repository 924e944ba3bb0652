// SPDX-License-Identifier: Apache-2.0
// Linearizability: is there one order of all operations that respects real time and explains every result?
//
// check_registers judges each key alone (a store is linearizable per key iff each key is), so it is exact for puts,
// deletes and gets of any number of writers. It takes each cell of a batch or scan as an operation of its own, so it
// does not detect torn batches or scans. ~10^6 events/s. check_whole judges all cells of an operation at one moment,
// and so batches, scans and snapshots too, but is meant for histories of tens of operations. It also requires that
// updates of one key which a thread had in flight together (a group) take effect in the order of their calls.
//
// Updates with an unknown outcome (ret == kOpen) may have happened at any time since their invocation, or never.
// Requires: no two updates of a key write the same value number, deletes excepted.
#ifndef BONSAI_TESTING_LINEARIZABILITY_H_
#define BONSAI_TESTING_LINEARIZABILITY_H_

#include <span>

#include "testing/history.h"

namespace bonsai::testing {

// `initial`: the values of the keys at first; keys that are not named had none.
// The text names the key whose history is shortest when it breaks, cut down to the operations that matter.
Verdict check_registers(const History& history, std::span<const Cell> initial = {});
Verdict check_whole(const History& history, std::span<const Cell> initial = {});

// Reads through one snapshot (same thread, same invoke and ret) happened at one moment: joins them to one operation.
History with_snapshot_reads_joined(const History& history);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_LINEARIZABILITY_H_
