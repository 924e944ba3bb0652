// SPDX-License-Identifier: Apache-2.0
// Openings: ids by which the targets of a pool prove that all were present when it was last opened. So an older copy of
// one target is rejected, and never read beside newer targets.
//
// Each opening of a pool of several targets for writing has a unique id, and writes it to every target before anything
// else. First it notes the next id on the log's home (Pool::log_home), then it writes that id to all other targets,
// then to the home; each step is durable before the next begins. So after a crash every other target has the home's id
// or its noted next id. If a target has another id, it or the home was absent at the last opening.
//
// A copy that was made after the last opening is found by other marks (old_copy.h). A pool of one target has nothing to
// compare.
//
// Limit: an opening that the medium fails amid its notes counts as an opening for the targets that have them. A copy of
// one target from before is then rejected; copies of all targets from before are accepted.
//
// An id (40 bits) is a count of openings over 16 random bits, which distinguish openings of two copies of a pool.
#ifndef BONSAI_PERSIST_OPENING_H_
#define BONSAI_PERSIST_OPENING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bonsai/status.h"
#include "persist/pool.h"
#include "scale/volume.h"

namespace bonsai::persist {

inline constexpr int kOpeningRandomBits = 16;
constexpr uint64_t opening_count(uint64_t id) { return id >> kOpeningRandomBits; }

// Compares the targets' opening words; damaged ones are added to Pool::openings_damaged. Requires: superblocks and
// versions are known, the state pages resident. Errors: InvalidArgument (a target is of another time).
Status check_openings(const scale::Volume& volume, const std::vector<std::string>& paths, Pool* pool);

// Gives targets of an older version, which have no opening words, those of a pool that was not opened yet. Errors:
// IoError (the volume has failed).
Status declare_openings(scale::Volume& volume, const Pool& pool);

// Writes the id of this opening to all targets. Requires: the openings were checked and have no damage; all targets are
// of the newest version; nobody else uses the pool. Errors: IoError (the volume has failed).
Status note_opening(scale::Volume& volume, const Pool& pool);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_OPENING_H_
