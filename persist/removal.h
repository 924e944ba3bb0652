// SPDX-License-Identifier: Apache-2.0
// Removal of a pool. A removed target holds no pool any more, under whatever name; so does a device, which is not
// deleted. An interrupted removal leaves some targets removed and the others whole, and can be repeated.
#ifndef BONSAI_PERSIST_REMOVAL_H_
#define BONSAI_PERSIST_REMOVAL_H_

#include <cstddef>
#include <span>
#include <string>

#include "bonsai/status.h"
#include "scale/volume.h"

namespace bonsai::persist {

// A target that the caller named: its name, and its number among the named ones. Others may not exist.
struct NamedTarget {
  std::string path;
  size_t number = 0;
};

// Whether the targets of the volume may be removed: each has its place in one pool of `named_count` targets, or holds
// no pool because a creation or a removal was interrupted. Errors: NotSupported (a foreign file), Corruption (no sound
// superblock), InvalidArgument (a target of another pool, or in another place), Unavailable.
Status check_removable(const scale::Volume& volume, std::span<const NamedTarget> targets, size_t named_count);

// Marks the target durably as one whose creation did not finish (is_unfinished()). A crash leaves it whole or marked.
// Requires: nobody uses the pool. Errors: IoError (the volume has failed).
Status wipe_target(scale::Volume& volume, size_t target);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_REMOVAL_H_
