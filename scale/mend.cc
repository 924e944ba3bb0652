// SPDX-License-Identifier: Apache-2.0
#include "scale/mend.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "scale/member_copies.h"
#include "scale/remote_medium.h"

namespace bonsai::scale {
namespace {

// Bytes [done, done + bytes) of the whole, which are one piece of a target.
struct Piece {
  size_t target;
  RemoteMedium* medium;
  uint64_t offset, done, bytes;
  MemberCopies copies = {};
  std::vector<DifferingBlock> differing = {};  // of the whole
};

// Its pieces; none if one is not of a group.
std::vector<Piece> pieces_of(const Volume& volume, Addr addr, uint64_t n) {
  std::vector<Piece> pieces;
  volume.layout().each_piece(addr, n, [&](Addr place, uint64_t done, uint64_t bytes) {
    pieces.push_back(
        {place.target(), dynamic_cast<RemoteMedium*>(volume.far(place.target())), place.offset(), done, bytes});
  });
  const auto is_alone = [](const Piece& piece) { return piece.medium == nullptr || piece.medium->members() < 2; };
  if (std::any_of(pieces.begin(), pieces.end(), is_alone)) pieces.clear();
  return pieces;
}

// False: no member could be read.
bool read(Piece* piece, std::byte* to) {
  piece->copies = piece->medium->read_each(piece->offset, piece->bytes);
  const auto first =
      std::find_if(piece->copies.begin(), piece->copies.end(), [](const auto& copy) { return copy != nullptr; });
  if (first == piece->copies.end()) return false;
  std::memcpy(to + piece->done, first->get(), piece->bytes);
  return true;
}

// Notes where members differ. Returns these blocks. `together`: neighbours in which the same members differ are one.
std::vector<const DifferingBlock*> find_differing(std::vector<Piece>* pieces, bool together) {
  std::vector<const DifferingBlock*> all;
  for (Piece& piece : *pieces) {
    piece.differing = differing_blocks(piece.copies, piece.offset, piece.bytes, together);
    for (DifferingBlock& block : piece.differing) {
      block.begin += piece.done;
      all.push_back(&block);
    }
  }
  return all;
}

// Tries versions of the blocks at `to`, where the rest is there already.
class Trial {
 public:
  Trial(std::vector<const DifferingBlock*> blocks, const std::function<bool(const std::byte*)>& is_sound, std::byte* to)
      : blocks_(std::move(blocks)), is_sound_(is_sound), to_(to), chosen_(blocks_.size()) {}

  // *tries: how many there may be yet.
  bool find_sound(size_t members, uint64_t* tries) {
    for (size_t i = 0; i < blocks_.size(); ++i) choose(i, 0);
    if (is_sound_(to_)) return true;
    for (size_t member = 0; member < members; ++member) {
      for (size_t i = 0; i < blocks_.size(); ++i) {
        const bool has_one =
            member < blocks_[i]->of_member.size() && blocks_[i]->of_member[member] != DifferingBlock::kNotRead;
        choose(i, has_one ? blocks_[i]->of_member[member] : 0);
      }
      if (is_sound_(to_)) return true;
    }
    for (size_t i = 0; i < blocks_.size(); ++i) choose(i, 0);
    for (*tries -= std::min(*tries, 1 + members); *tries > 0 && next(); --*tries) {
      if (is_sound_(to_)) return true;
    }
    return false;
  }

 private:
  void choose(size_t block, size_t version) {
    chosen_[block] = version;
    std::memcpy(to_ + blocks_[block]->begin, blocks_[block]->versions[version], blocks_[block]->bytes);
  }
  // False: all combinations have been there.
  bool next() {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      choose(i, (chosen_[i] + 1) % blocks_[i]->versions.size());
      if (chosen_[i] != 0) return true;
    }
    return false;
  }

  const std::vector<const DifferingBlock*> blocks_;
  const std::function<bool(const std::byte*)>& is_sound_;
  std::byte* const to_;
  std::vector<size_t> chosen_;  // versions, by block
};

void repair(const Piece& piece, const std::byte* sound) {
  for (size_t member = 0; member < piece.copies.size(); ++member) {
    std::vector<RemoteMedium::Repair> repairs;
    for (const DifferingBlock& block : piece.differing) {
      if (block.of_member[member] == DifferingBlock::kNotRead) continue;
      const std::byte* const held = block.versions[block.of_member[member]];
      const std::byte* const right = sound + block.begin;
      if (std::memcmp(held, right, block.bytes) == 0) continue;
      repairs.push_back({piece.offset + (block.begin - piece.done), right, block.bytes});
    }
    if (!repairs.empty()) piece.medium->repair(member, repairs);
  }
}

// Puts them together. Damage may be long, so neighbours are tried as one first. But it may also end on one member where
// it begins on another, and of two members both differ in both places.
bool find_sound(std::vector<Piece>* pieces, const std::function<bool(const std::byte*)>& is_sound, std::byte* to) {
  size_t members = 0;
  bool were_read = true;
  for (Piece& piece : *pieces) {
    were_read = read(&piece, to) && were_read;
    members = std::max(members, piece.copies.size());
  }
  if (!were_read) return false;
  uint64_t tries = kMendTriesMax;
  const std::vector<const DifferingBlock*> together = find_differing(pieces, /*together=*/true);
  const size_t count = together.size();
  if (Trial(together, is_sound, to).find_sound(members, &tries)) return true;
  std::vector<const DifferingBlock*> apart = find_differing(pieces, /*together=*/false);
  return apart.size() != count && Trial(std::move(apart), is_sound, to).find_sound(members, &tries);
}

// Whether a member was not read that may have the bytes. Keeps the reason as the volume's.
bool some_are_away(const Volume& volume, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    for (size_t member = 0; member < piece.copies.size(); ++member) {
      if (piece.copies[member] != nullptr || !piece.medium->is_in_sync(member)) continue;
      static_cast<void>(volume.note_lost(
          piece.target, Status::Unavailable("the members that answer have damaged bytes there, and another does not")));
      return true;
    }
  }
  return false;
}

}  // namespace

const std::byte* mended(const Volume& volume, Addr addr, uint64_t n,
                        const std::function<bool(const std::byte*)>& is_sound, ReadBatch* reads, bool* is_known) {
  std::vector<Piece> pieces = pieces_of(volume, addr, n);
  auto* const to = const_cast<std::byte*>(reads->place(addr, n));  // carried, and the batch's own
  const bool is_found = !pieces.empty() && find_sound(&pieces, is_sound, to);
  for (const Piece& piece : pieces) {
    if (is_found) repair(piece, to);
  }
  *is_known = is_found || !some_are_away(volume, pieces);
  return is_found ? to : nullptr;
}

}  // namespace bonsai::scale
