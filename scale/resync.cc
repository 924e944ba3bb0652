// SPDX-License-Identifier: Apache-2.0
#include "scale/resync.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/nvm/medium.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "scale/await_read.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{256} << 10;  // of each member, in flight
constexpr uint64_t kWrittenBytes = 4096;               // the least that is written

// The same bytes of several members, read together.
struct Piece {
  std::vector<base::FarReads::Memory> memory = {};
  uint64_t bytes = 0;
};

Status read_all(ReadLanes* reads, Members members, uint64_t offset, uint64_t limit_ms, Piece* piece) {
  std::vector<uint64_t> tickets;
  for (LinkTarget* const member : members) {
    const base::FarReads::Memory& to = piece->memory.emplace_back(reads->memory(piece->bytes));
    const base::FarReads::Piece wanted{offset, to.get(), piece->bytes};
    tickets.push_back(reads->begin(member, {&wanted, 1}, to));
  }
  Status first;
  base::BoundedWait wait("a member that is brought up to date", limit_ms);
  for (const uint64_t ticket : tickets) {
    const Status status = await_read(reads, ticket, &wait);
    if (first.ok()) first = status;
  }
  return first;
}

// What more members hold there than hold what the first does; null: nothing.
const std::byte* outvotes_first(const Piece& piece, uint64_t at, uint64_t n) {
  const auto votes = [&](const std::byte* bytes) {
    return std::count_if(piece.memory.begin(), piece.memory.end(),
                         [&](const auto& copy) { return std::memcmp(copy.get() + at, bytes, n) == 0; });
  };
  const auto first = votes(piece.memory.front().get() + at);
  if (2 * static_cast<size_t>(first) >= piece.memory.size()) return nullptr;
  for (const auto& copy : piece.memory) {
    if (votes(copy.get() + at) > first) return copy.get() + at;
  }
  return nullptr;
}

}  // namespace

Status outvote(ReadLanes* reads, WriteLanes* writes, Members members, uint64_t bytes, uint64_t limit_ms,
               ResyncResult* result) {
  LinkTarget* const first = members.front();
  for (uint64_t offset = 0; offset < bytes; offset += kPieceBytes) {
    Piece piece;
    piece.bytes = std::min(kPieceBytes, bytes - offset);
    BONSAI_RETURN_IF_ERROR(read_all(reads, members, offset, limit_ms, &piece));
    const uint64_t before = result->written;
    for (uint64_t at = 0; at < piece.bytes; at += base::kLineBytes) {
      const uint64_t n = std::min<uint64_t>(base::kLineBytes, piece.bytes - at);
      const std::byte* const most = outvotes_first(piece, at, n);
      if (most == nullptr) continue;
      writes->note_copy(first->alone(), offset + at, most, n);
      result->written += n;
    }
    if (result->written != before && !writes->fence(first->alone())) return first->state.status();
    result->compared += piece.bytes;
  }
  return Status::OK();
}

Status make_equal(ReadLanes* reads, WriteLanes* writes, LinkTarget* from, LinkTarget* to, uint64_t bytes,
                  uint64_t limit_ms, ResyncResult* result) {
  BONSAI_CHECK(from != to);
  for (uint64_t offset = 0; offset < bytes; offset += kPieceBytes) {
    Piece piece;
    piece.bytes = std::min(kPieceBytes, bytes - offset);
    BONSAI_RETURN_IF_ERROR(read_all(reads, std::array{from, to}, offset, limit_ms, &piece));
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
  BONSAI_RETURN_IF_ERROR(read_all(reads, std::array{first, second}, 0, limit_ms, &piece));
  *equally = std::memcmp(piece.memory[0].get(), piece.memory[1].get(), piece.bytes) == 0;
  return Status::OK();
}

}  // namespace bonsai::scale
