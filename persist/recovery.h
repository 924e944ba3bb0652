// SPDX-License-Identifier: Apache-2.0
// Recovery of a pool: from the analysis to usable tiers.
//
// Idempotent, and safe to crash at any point: every step only writes what the next analysis would derive again.
//   1. torn header slots are cleared, damaged words of the extent table written anew
//   2. dnodes that are live nowhere are marked as retired
//   3. dnodes that are live on a part of their range are rewritten for it, under the same generation, and retired
//   4. open segments are sealed; records of epochs that were not closed are truncated
#ifndef BONSAI_PERSIST_RECOVERY_H_
#define BONSAI_PERSIST_RECOVERY_H_

#include <memory>
#include <vector>

#include "bonsai/status.h"
#include "persist/analysis.h"
#include "persist/dnode_store.h"
#include "persist/log.h"
#include "persist/pool.h"
#include "persist/space.h"

namespace bonsai::persist {

struct RecoveredRange {
  std::unique_ptr<Dnode> dnode;     // live on its whole range
  std::vector<LiveRecord> records;  // newer updates, sorted by key; views into the log or into Analysis::kept
};

// Claims the space of everything that was found, and verifies what recover() will read, so that recover() finds no
// damage after its first write. Changes no byte of the pool. Requires: `analysis` is of this pool and has no damages;
// the store's space holds the pool's targets, all free. Errors: Corruption (two owners of one block, a large value
// outside of the pool, a run that fails), Unavailable.
Status claim_space(const Analysis* analysis, const Pool& pool, DnodeStore* store);

// Requires: claim_space() succeeded; `log` was not started. Guarantees: *ranges tile the key space in order; space,
// store and log agree with them. Errors: NoSpace, IoError (the volume has failed), Unavailable; Corruption only of
// bytes that changed since they were verified.
Status recover(Analysis* analysis, const Pool& pool, DnodeStore* store, Log* log, std::vector<RecoveredRange>* ranges);

// The reason why a damaged pool is not opened.
Status damage_status(const std::vector<Damage>& damages);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_RECOVERY_H_
