// SPDX-License-Identifier: Apache-2.0
// Overwrites an entry of a dnode in place, which the design never does. Only for an experiment that compares
// (TestOptions::updates_in_place), on throw-away pools.
//
// Not safe for any other use: a crash while an entry is written leaves it damaged, a reader beside the writer may find
// it damaged, and the run's own checksum, which `bonsai check` verifies, becomes wrong.
#ifndef BONSAI_PERSIST_IN_PLACE_H_
#define BONSAI_PERSIST_IN_PLACE_H_

#include <string_view>

#include "persist/dnode.h"

namespace bonsai::persist {

// Writes `value` and a new check to the place of `entry`, which a search of `dnode` has found, and flushes both; the
// caller fences with kSiteInPlaceFence. False if `value` does not fit there: another size, or a variable run. Requires:
// nobody else reads or writes the dnode.
bool overwrite_in_place(scale::Volume& volume, const Dnode& dnode, const Entry& entry, std::string_view value);

inline constexpr base::Site kSiteInPlace{"experiment.in_place"};
inline constexpr base::Site kSiteInPlaceFence{"experiment.in_place.fence"};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_IN_PLACE_H_
