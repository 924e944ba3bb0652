// SPDX-License-Identifier: Apache-2.0
#include "scale/mend.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/nvm/medium.h"
#include "scale/remote_medium.h"

namespace bonsai::scale {
namespace {

constexpr size_t kNotRead = SIZE_MAX;

// Bytes [begin, begin + bytes) of the whole, on one target, where its members differ.
struct Block {
  uint64_t begin, bytes;
  std::vector<const std::byte*> versions;  // what they hold, each once; what most of them hold comes first
  std::vector<size_t> of_member;           // the version of each, by number; kNotRead
};

// Bytes [done, done + bytes) of the whole, which are one piece of a target.
struct Piece {
  RemoteMedium* medium;
  uint64_t offset, done, bytes;
  std::vector<base::FarReads::Memory> copies = {};  // by member; null: it was not read
  std::vector<Block> differing = {};
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

Block block_at(const Piece& piece, uint64_t at, uint64_t n) {
  Block block{piece.done + at, n, {}, {}};
  std::vector<size_t> count;
  for (const auto& copy : piece.copies) {
    block.of_member.push_back(kNotRead);
    if (copy == nullptr) continue;
    const std::byte* const bytes = copy.get() + at;
    const auto same = std::find_if(block.versions.begin(), block.versions.end(),
                                   [&](const std::byte* other) { return std::memcmp(other, bytes, n) == 0; });
    const auto version = static_cast<size_t>(same - block.versions.begin());
    if (same == block.versions.end()) {
      block.versions.push_back(bytes);
      count.push_back(0);
    }
    ++count[version];
    block.of_member.back() = version;
  }
  const auto most = static_cast<size_t>(std::max_element(count.begin(), count.end()) - count.begin());
  if (most == 0) return block;
  std::swap(block.versions[0], block.versions[most]);
  for (size_t& version : block.of_member) {
    version = version == 0 ? most : version == most ? 0 : version;
  }
  return block;
}

// Neighbours in which the same members differ are one block.
void find_differing(Piece* piece) {
  std::vector<Block>& found = piece->differing;
  for (uint64_t at = 0; at < piece->bytes;) {
    constexpr uint64_t kBytes = base::kMediaBlockBytes;
    const uint64_t n = std::min(piece->bytes - at, kBytes - (piece->offset + at) % kBytes);
    Block block = block_at(*piece, at, n);
    at += n;
    if (block.versions.size() < 2) continue;
    const bool goes_on = !found.empty() && found.back().begin + found.back().bytes == block.begin &&
                         found.back().of_member == block.of_member;
    if (goes_on) {
      found.back().bytes += n;
    } else {
      found.push_back(std::move(block));
    }
  }
}

// False: no member could be read.
bool read(Piece* piece, std::byte* to) {
  piece->copies = piece->medium->read_each(piece->offset, piece->bytes);
  const auto first =
      std::find_if(piece->copies.begin(), piece->copies.end(), [](const auto& copy) { return copy != nullptr; });
  if (first == piece->copies.end()) return false;
  std::memcpy(to + piece->done, first->get(), piece->bytes);
  find_differing(piece);
  return true;
}

// Tries versions of the blocks at `to`, where the rest is there already.
class Trial {
 public:
  Trial(std::vector<const Block*> blocks, const std::function<bool(const std::byte*)>& is_sound, std::byte* to)
      : blocks_(std::move(blocks)), is_sound_(is_sound), to_(to), chosen_(blocks_.size()) {}

  bool find_sound(size_t members) {
    for (size_t i = 0; i < blocks_.size(); ++i) choose(i, 0);
    if (is_sound_(to_)) return true;
    for (size_t member = 0; member < members; ++member) {
      for (size_t i = 0; i < blocks_.size(); ++i) {
        const bool has_one = member < blocks_[i]->of_member.size() && blocks_[i]->of_member[member] != kNotRead;
        choose(i, has_one ? blocks_[i]->of_member[member] : 0);
      }
      if (is_sound_(to_)) return true;
    }
    for (size_t i = 0; i < blocks_.size(); ++i) choose(i, 0);
    for (uint64_t tries = 1 + members; tries < kMendTriesMax && next(); ++tries) {
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

  const std::vector<const Block*> blocks_;
  const std::function<bool(const std::byte*)>& is_sound_;
  std::byte* const to_;
  std::vector<size_t> chosen_;  // versions, by block
};

void repair(const Piece& piece, const std::byte* sound) {
  for (size_t member = 0; member < piece.copies.size(); ++member) {
    std::vector<RemoteMedium::Repair> repairs;
    for (const Block& block : piece.differing) {
      if (block.of_member[member] == kNotRead) continue;
      const std::byte* const held = block.versions[block.of_member[member]];
      const std::byte* const right = sound + block.begin;
      if (std::memcmp(held, right, block.bytes) == 0) continue;
      repairs.push_back({piece.offset + (block.begin - piece.done), right, block.bytes});
    }
    if (!repairs.empty()) piece.medium->repair(member, repairs);
  }
}

}  // namespace

const std::byte* mended(const Volume& volume, Addr addr, uint64_t n,
                        const std::function<bool(const std::byte*)>& is_sound, ReadBatch* reads) {
  std::vector<Piece> pieces = pieces_of(volume, addr, n);
  if (pieces.empty()) return nullptr;
  auto* const to = const_cast<std::byte*>(reads->place(addr, n));  // carried, and the batch's own
  size_t members = 0;
  std::vector<const Block*> differing;
  for (Piece& piece : pieces) {
    if (!read(&piece, to)) return nullptr;
    members = std::max(members, piece.copies.size());
    for (const Block& block : piece.differing) differing.push_back(&block);
  }
  if (!Trial(std::move(differing), is_sound, to).find_sound(members)) return nullptr;
  for (const Piece& piece : pieces) repair(piece, to);
  return to;
}

}  // namespace bonsai::scale
