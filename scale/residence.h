// SPDX-License-Identifier: Apache-2.0
// Makes bytes of far media resident (base/nvm/far_reads.h): data that the owner uses constantly.
//
// All ranges that a caller passes are read together. For each medium up to 1 MiB is in flight or waits for its turn, on
// all media at the same time; the next 1 MiB begins when that has ended. The bytes are read into their final place, so
// that no other memory is needed.
#ifndef BONSAI_SCALE_RESIDENCE_H_
#define BONSAI_SCALE_RESIDENCE_H_

#include <cstdint>
#include <span>

#include "base/nvm/far_reads.h"
#include "bonsai/status.h"

namespace bonsai::scale {

struct FarRange {
  base::FarReads* far;
  uint64_t offset, bytes;
};

// Makes the ranges resident, and leaves those alone that are resident already. Adjacent ranges are joined. *failed, if
// not null: the medium of an error. Requires: no other thread makes bytes of these media resident meanwhile. Each 1 MiB
// has the bound of a read of the first medium. Errors: Unavailable, NoSpace.
[[nodiscard]] Status make_resident(std::span<const FarRange> ranges, const base::FarReads** failed = nullptr);

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_RESIDENCE_H_
