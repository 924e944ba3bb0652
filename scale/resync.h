// SPDX-License-Identifier: Apache-2.0
// Makes the bytes of members of a group equal: compares them piece by piece, and writes what differs.
#ifndef BONSAI_SCALE_RESYNC_H_
#define BONSAI_SCALE_RESYNC_H_

#include <cstdint>

#include "bonsai/status.h"
#include "scale/connection.h"
#include "scale/read_lanes.h"
#include "scale/write_lanes.h"

namespace bonsai::scale {

struct ResyncResult {
  uint64_t compared = 0, written = 0;  // bytes
};

// Gives the first member, durably, each line of `bytes` that more of the members hold than hold its own: damage that
// one member has is not what others are made equal to. Requires: as make_equal(); each line is one that a crash may
// have left on any of the members (docs/nodes.md). Errors: as make_equal().
Status outvote(ReadLanes* reads, WriteLanes* writes, Members members, uint64_t bytes, uint64_t limit_ms,
               ResyncResult* result);

// Makes the first `bytes` bytes of `to` equal to those of `from`, durably. It reads them of both. Requires: both are
// connected, and nobody writes to either meanwhile; the result of an earlier one may be continued by another call.
// `limit_ms`: of each piece. Errors: Unavailable (one of them does not answer, or refuses), whose pieces before are
// equal.
Status make_equal(ReadLanes* reads, WriteLanes* writes, LinkTarget* from, LinkTarget* to, uint64_t bytes,
                  uint64_t limit_ms, ResyncResult* result);

// The first bytes of a pool, of which some change whenever an owner closes it.
inline constexpr uint64_t kBeginBytes = uint64_t{16} << 10;

// Whether both have the same first bytes, kBeginBytes or all that they have. Requires and errors: as make_equal().
Status begin_equally(ReadLanes* reads, LinkTarget* first, LinkTarget* second, uint64_t bytes, uint64_t limit_ms,
                     bool* equally);

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_RESYNC_H_
