// SPDX-License-Identifier: Apache-2.0
// Read-repair: bytes whose check fails as one member of a group holds them come from another, and replace the damage.
//
// Invariant: what is written has passed its check, and goes only over bytes that have failed it.
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

// Asks all members in sync for [addr, addr + n). Returns bytes that are sound, which stay as those of `reads`. Members
// whose bytes are not sound get them; that is counted and told of (Group). A repair that fails is no error: the next
// reader finds the damage again. Null: no member has sound bytes or can be read now, or the target is no group.
// Requires: the bytes do not change, and their place gets no other use meanwhile, as inside a guard that keeps their
// owner; `reads` has issued nothing that was not waited for. Lets siblings run.
[[nodiscard]] const std::byte* mended(const Volume& volume, Addr addr, uint64_t n,
                                      const std::function<bool(const std::byte*)>& is_sound, ReadBatch* reads);

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_MEND_H_
