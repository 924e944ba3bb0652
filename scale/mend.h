// SPDX-License-Identifier: Apache-2.0
// Read-repair: bytes whose check fails as one member of a group holds them are put together from what all members hold,
// and replace the damage.
//
// Invariant: what is written has passed its check, and goes only where a member holds something else.
//
// Thread-safety: any thread.
#ifndef BONSAI_SCALE_MEND_H_
#define BONSAI_SCALE_MEND_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "scale/read_batch.h"
#include "scale/volume.h"

namespace bonsai::scale {

// Asks all members in sync for [addr, addr + n), and returns bytes that are sound, which stay as those of `reads`.
// Where members differ it tries what most of them hold, each member's bytes, and then combinations of theirs, of long
// pieces and of blocks, as many as kMendTriesMax: so members that are damaged in different places are all repaired.
// Members that hold something else get the sound bytes; that is counted and told of (Group). A repair that fails is no
// error: the next reader finds the damage again. Null: no combination is sound, or some of the bytes cannot be read of
// any member now, or the target is no group. *is_known is false then if a member that the page in force names was not
// read: it may have them, so they are not known to be damaged. Requires: the bytes do not change, and their place gets
// no other use meanwhile, as inside a guard that keeps their owner; they were durable on all members; `reads` has
// issued nothing that was not waited for. Lets siblings run.
[[nodiscard]] const std::byte* mended(const Volume& volume, Addr addr, uint64_t n,
                                      const std::function<bool(const std::byte*)>& is_sound, ReadBatch* reads,
                                      bool* is_known);

// So many bytes strings are checked at most: a check of 32 bits takes one of 2^24 damages for sound then.
inline constexpr uint64_t kMendTriesMax = 256;

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_MEND_H_
