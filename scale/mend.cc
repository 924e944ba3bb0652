// SPDX-License-Identifier: Apache-2.0
#include "scale/mend.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "scale/remote_medium.h"

namespace bonsai::scale {
namespace {

struct Piece {
  RemoteMedium* medium;
  uint64_t offset, done, bytes;
};

// What the members of one number hold: a target has one of each.
struct Copy {
  base::FarReads::Memory bytes;
  bool is_read = false, is_sound = false;
};

// Its pieces; none if one is not of a group.
std::vector<Piece> pieces_of(const Volume& volume, Addr addr, uint64_t n) {
  std::vector<Piece> pieces;
  volume.layout().each_piece(addr, n, [&](Addr place, uint64_t done, uint64_t bytes) {
    pieces.push_back({dynamic_cast<RemoteMedium*>(volume.far(place.target())), place.offset(), done, bytes});
  });
  const auto is_alone = [](const Piece& piece) { return piece.medium == nullptr || piece.medium->members() < 2; };
  if (std::any_of(pieces.begin(), pieces.end(), is_alone)) pieces.clear();
  return pieces;
}

Copy read_copy(const std::vector<Piece>& pieces, size_t member, uint64_t n) {
  Copy copy;
  copy.bytes = pieces.front().medium->memory(n);
  copy.is_read = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return member < piece.medium->members() &&
           piece.medium->read_of(member, {piece.offset, copy.bytes.get() + piece.done, piece.bytes}, copy.bytes).ok();
  });
  return copy;
}

void repair(const std::vector<Piece>& pieces, size_t member, const std::byte* found, const std::byte* sound) {
  for (const Piece& piece : pieces) {
    if (std::memcmp(found + piece.done, sound + piece.done, piece.bytes) == 0) continue;
    piece.medium->repair(member, piece.offset, sound + piece.done, piece.bytes);
  }
}

}  // namespace

const std::byte* mended(const Volume& volume, Addr addr, uint64_t n,
                        const std::function<bool(const std::byte*)>& is_sound, ReadBatch* reads) {
  const std::vector<Piece> pieces = pieces_of(volume, addr, n);
  if (pieces.empty()) return nullptr;
  std::vector<Copy> copies;
  for (size_t member = 0; member < pieces.front().medium->members(); ++member) {
    Copy& copy = copies.emplace_back(read_copy(pieces, member, n));
    copy.is_sound = copy.is_read && is_sound(copy.bytes.get());
  }
  const auto sound = std::find_if(copies.begin(), copies.end(), [](const Copy& copy) { return copy.is_sound; });
  if (sound == copies.end()) return nullptr;
  for (size_t member = 0; member < copies.size(); ++member) {
    const Copy& copy = copies[member];
    if (copy.is_read && !copy.is_sound) repair(pieces, member, copy.bytes.get(), sound->bytes.get());
  }
  auto* const to = const_cast<std::byte*>(reads->place(addr, n));  // carried, and the batch's own
  std::memcpy(to, sound->bytes.get(), n);
  return to;
}

}  // namespace bonsai::scale
