// SPDX-License-Identifier: Apache-2.0
// The statuses of reads of stored bytes that fail their checksum, or that could not be fetched.
#ifndef BONSAI_STORE_DAMAGE_H_
#define BONSAI_STORE_DAMAGE_H_

#include <string_view>

#include "base/check.h"
#include "base/key.h"
#include "bonsai/status.h"
#include "persist/run.h"
#include "scale/volume.h"

namespace bonsai::store {

// Requires, as below: trouble is not kNone.
inline Status no_value(const scale::Volume& volume, persist::Trouble trouble, std::string_view key) {
  BONSAI_CHECK(trouble != persist::Trouble::kNone);
  if (trouble == persist::Trouble::kUnavailable) return volume.unavailable();
  return Status::Corruption(
      "the stored bytes of key " + base::printable(key) +
      " fail their checksum; run `bonsai check` on the pool, and `bonsai salvage` to copy what is sound");
}

inline Status no_range(const scale::Volume& volume, persist::Trouble trouble, const base::Fence& lo,
                       const base::Fence& hi) {
  BONSAI_CHECK(trouble != persist::Trouble::kNone);
  if (trouble == persist::Trouble::kUnavailable) return volume.unavailable();
  return Status::Corruption(
      "a dnode of keys " + base::printable_range(lo, hi) +
      " fails its checksum; run `bonsai check` on the pool, and `bonsai salvage` to copy what is sound");
}

}  // namespace bonsai::store

#endif  // BONSAI_STORE_DAMAGE_H_
