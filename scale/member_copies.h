// SPDX-License-Identifier: Apache-2.0
// What the members of a group hold in one place, and where they differ.
//
// Thread-safety: any thread.
#ifndef BONSAI_SCALE_MEMBER_COPIES_H_
#define BONSAI_SCALE_MEMBER_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/nvm/far_reads.h"
#include "scale/connection.h"
#include "scale/read_lanes.h"

namespace bonsai::scale {

// By number of the member; null: it was not read.
using MemberCopies = std::vector<base::FarReads::Memory>;

// Reads [offset, offset + n) of all members that take reads. Null: it does not, or the read failed, or has not ended
// within the bound. Lets siblings run.
[[nodiscard]] MemberCopies read_copies(ReadLanes* reads, Members members, uint64_t offset, uint64_t n,
                                       uint64_t limit_ms);

// Bytes [begin, begin + bytes) of such copies, in which members differ.
struct DifferingBlock {
  static constexpr size_t kNotRead = SIZE_MAX;

  uint64_t begin, bytes;
  std::vector<const std::byte*> versions;  // what they hold, each once; what most of them hold comes first
  std::vector<size_t> of_member;           // the version of each, by number; kNotRead

  [[nodiscard]] size_t holders(size_t version) const;
};

// The media blocks of the copies of [offset, offset + n) in which members differ. With `together` neighbours in which
// the same members differ are one.
[[nodiscard]] std::vector<DifferingBlock> differing_blocks(const MemberCopies& copies, uint64_t offset, uint64_t n,
                                                           bool together);

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_MEMBER_COPIES_H_
