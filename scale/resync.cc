// SPDX-License-Identifier: Apache-2.0
#include "scale/resync.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "scale/await_read.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{256} << 10;  // of each member, in flight
constexpr uint64_t kWrittenBytes = 4096;               // the least that is written

// The same bytes of both members, read together.
struct Piece {
  std::array<base::FarReads::Memory, 2> memory;
  uint64_t bytes = 0;
};

Status read_both(ReadLanes* reads, const std::array<LinkTarget*, 2>& members, uint64_t offset, uint64_t limit_ms,
                 Piece* piece) {
  std::array<uint64_t, 2> tickets{};
  for (size_t i = 0; i < members.size(); ++i) {
    piece->memory[i] = reads->memory(piece->bytes);
    const base::FarReads::Piece wanted{offset, piece->memory[i].get(), piece->bytes};
    tickets[i] = reads->begin(members[i], {&wanted, 1}, piece->memory[i]);
  }
  Status first;
  base::BoundedWait wait("a member that is brought up to date", limit_ms);
  for (const uint64_t ticket : tickets) {
    const Status status = await_read(reads, ticket, &wait);
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace

Status make_equal(ReadLanes* reads, WriteLanes* writes, LinkTarget* from, LinkTarget* to, uint64_t bytes,
                  uint64_t limit_ms, ResyncResult* result) {
  BONSAI_CHECK(from != to);
  for (uint64_t offset = 0; offset < bytes; offset += kPieceBytes) {
    Piece piece;
    piece.bytes = std::min(kPieceBytes, bytes - offset);
    BONSAI_RETURN_IF_ERROR(read_both(reads, {from, to}, offset, limit_ms, &piece));
    const std::byte* const wanted = piece.memory[0].get();
    const std::byte* const found = piece.memory[1].get();
    bool differs = false;
    for (uint64_t at = 0; at < piece.bytes; at += kWrittenBytes) {
      const uint64_t n = std::min(kWrittenBytes, piece.bytes - at);
      if (std::memcmp(wanted + at, found + at, n) == 0) continue;
      writes->note_copy(to->alone(), offset + at, wanted + at, n);
      result->written += n;
      differs = true;
    }
    if (differs && !writes->fence(to->alone())) return to->state.status();
    result->compared += piece.bytes;
  }
  return Status::OK();
}

Status begin_equally(ReadLanes* reads, LinkTarget* first, LinkTarget* second, uint64_t bytes, uint64_t limit_ms,
                     bool* equally) {
  Piece piece;
  piece.bytes = std::min(kBeginBytes, bytes);
  BONSAI_RETURN_IF_ERROR(read_both(reads, {first, second}, 0, limit_ms, &piece));
  *equally = std::memcmp(piece.memory[0].get(), piece.memory[1].get(), piece.bytes) == 0;
  return Status::OK();
}

}  // namespace bonsai::scale
