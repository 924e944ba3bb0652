// SPDX-License-Identifier: Apache-2.0
// Judges bytes in which the members of a group differ, by the checks of what is live there (scale/scrubber.h).
//
// Thread-safety: as Scrubber::judge, from one thread per link.
#ifndef BONSAI_STORE_SCRUB_H_
#define BONSAI_STORE_SCRUB_H_

#include <cstddef>
#include <span>

#include "scale/scrub_state.h"
#include "store/tiers.h"

namespace bonsai::store {

// Mends the blocks of a target that live runs and large values have, and says which these are. Requires: the index is
// started; the tiers outlive the call. Takes an epoch guard.
void judge_differing(const Tiers& tiers, size_t target, std::span<scale::ScrubBlock> blocks);

}  // namespace bonsai::store

#endif  // BONSAI_STORE_SCRUB_H_
