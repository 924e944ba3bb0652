// SPDX-License-Identifier: Apache-2.0
// Updates that overwrite their entries in dnodes: the alternative to offloading, which the design never takes. They
// bypass log and bnodes.
//
// Only for throw-away pools: a crash while an entry is written leaves it damaged, a reader beside the writer may find
// it damaged, and the run's own checksum, which `bonsai check` verifies, becomes wrong.
#ifndef BONSAI_BENCH_STUDIES_PATCHED_IN_PLACE_H_
#define BONSAI_BENCH_STUDIES_PATCHED_IN_PLACE_H_

#include <cstddef>
#include <span>

#include "index/index.h"
#include "store/tiers.h"

namespace bonsai::bench::patched {

// Overwrites records in their dnodes, durably, without a log; all share one fence. Returns the number of leading
// updates that are done; the next one cannot be: its record is not in a dnode or has another size. Requires: at most
// Index::kPutManyMax; the caller is inside a guard; no other thread uses the store, and nothing is being offloaded.
size_t overwrite(const store::Tiers& tiers, std::span<const index::Index::Put> puts);

}  // namespace bonsai::bench::patched

#endif  // BONSAI_BENCH_STUDIES_PATCHED_IN_PLACE_H_
