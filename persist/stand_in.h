// SPDX-License-Identifier: Apache-2.0
// Stand-ins for targets that are missing, so that what the others hold can be read: each has what an empty target of
// its pool would have, and nothing of what was on the missing one.
//
// Of a pool whose targets are not striped an object is on one target. So of a missing one are lost: the dnodes whose
// header was there (their ranges have no dnode, or an older one that a crash left beside it), the runs and large values
// of other dnodes that were there, and its share of the log. The others' superblocks do not say how large it was or
// what it stored: it is taken for one like the others.
#ifndef BONSAI_PERSIST_STAND_IN_H_
#define BONSAI_PERSIST_STAND_IN_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bonsai/status.h"
#include "scale/volume.h"

namespace bonsai::persist {

// Enough bytes for a stand-in of a pool whose largest target that is there has so many.
constexpr uint64_t stand_in_bytes(uint64_t largest_bytes) { return 2 * largest_bytes + (uint64_t{64} << 20); }

// Writes superblocks, tables and an empty log to the targets of `missing`, which are zeros of this process's memory, of
// stand_in_bytes(). read_pool() then reads the pool. `roles`: a word for each target (kRole...), 0 where the user did
// not say. `paths` as for read_pool(). Sets *lost_log to whether a missing target may have had a share of the log.
// Requires: at least one target is there. Errors: those of read_superblock(), Unavailable, InvalidArgument (a pool of
// another number of targets), NotSupported (striped: each target has a part of almost every object; of an older
// version; no target with dnodes is there).
Status write_stand_ins(scale::Volume& volume, const std::vector<std::string>& paths, std::span<const size_t> missing,
                       std::span<const uint64_t> roles, bool* lost_log);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_STAND_IN_H_
