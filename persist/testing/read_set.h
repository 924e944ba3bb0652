// SPDX-License-Identifier: Apache-2.0
// The bytes of a pool that recovery reads, and a read of every record after it. Images of a crash that differ only in
// other bytes are one image to the product.
//
// The set follows from an analysis of the pool. Explorer::judge_rest() proves that it is large enough: with random
// bytes everywhere else the content stays the same.
#ifndef BONSAI_PERSIST_TESTING_READ_SET_H_
#define BONSAI_PERSIST_TESTING_READ_SET_H_

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/crc.h"
#include "base/random.h"
#include "persist/testing.h"
#include "persist/words.h"

namespace bonsai::persist::testing {

class ReadSet {
 public:
  // The read set of a target without a pool: superblocks that do not verify.
  ReadSet() { add_superblocks(0); }

  // The read set of a pool that was analysed and has no damage. Its targets, all of one size, follow each other.
  explicit ReadSet(const Rig& rig) : layout_(rig.volume.layout()), target_bytes_(rig.volume.target_bytes(0)) {
    for (const Superblock& sb : rig.pool.superblocks) {
      const size_t target = sb.target_index;
      add_superblocks(target);
      add({target, kStateRunOffset}, sizeof(uint64_t));
      add({target, kStateEpochOffset}, sizeof(uint64_t));
      if (rig.pool.superblocks.size() > 1) {  // whose openings and marks are compared (opening.h, old_copy.h)
        for (const uint64_t offset :
             {kStateOpeningOffset, kStateNextOpeningOffset, kStateBegunOffset, kStateOpenedOffset}) {
          add({target, offset}, sizeof(uint64_t));
        }
      }
      add({target, sb.extent_table_offset}, 8 * sb.extents);
      add({target, sb.log_table_offset}, sizeof(uint64_t));
    }
    for (const Analysis::HeaderExtent& extent : rig.analysis.header_extents) {
      add(extent.at, rig.pool.superblocks[0].extent_bytes);
    }
    for (size_t i = 0; i < rig.analysis.segments.size(); ++i) add_segment(rig, i);
    for (const Tile& tile : rig.analysis.tiles) add_tile(rig, tile);
    std::sort(ranges_.begin(), ranges_.end());
  }

  [[nodiscard]] uint64_t hash(const std::byte* pool) const {
    uint32_t crc = 0;
    for (const auto& [begin, end] : ranges_) crc = base::crc32c(pool + begin, end - begin, crc);
    return crc;
  }

  // A byte whose damage must be reported or do no harm: any but of the records of an open segment after its noted end,
  // whose last one looks torn when it is damaged (README.md).
  [[nodiscard]] uint64_t random_firm_byte(base::Random& random) const {
    uint64_t at = random.below(std::max<uint64_t>(firm_bytes_, 1));
    for (const auto& [begin, bytes] : firm_) {
      if (at < bytes) return begin + at;
      at -= bytes;
    }
    return 0;
  }

  // Writes random bytes everywhere else.
  void scramble_rest(std::byte* pool, uint64_t bytes, base::Random& random) const {
    uint64_t at = 0;
    const auto scramble_to = [&](uint64_t end) {
      while (at < end) {
        const uint64_t word = random.next();
        const uint64_t step = std::min<uint64_t>(sizeof word, end - at);
        std::memcpy(pool + at, &word, step);
        at += step;
      }
    };
    for (const auto& [begin, end] : ranges_) {
      scramble_to(begin);
      at = std::max(at, end);
    }
    scramble_to(bytes);
  }

 private:
  void add(scale::Addr at, uint64_t bytes) {
    add_range(at, bytes);
    layout_.each_piece(at, bytes,
                       [this](scale::Addr place, uint64_t, uint64_t n) { firm_.emplace_back(byte_of(place), n); });
    firm_bytes_ += bytes;
  }
  void add_range(scale::Addr at, uint64_t bytes) {
    layout_.each_piece(at, bytes, [this](scale::Addr place, uint64_t, uint64_t n) {
      ranges_.emplace_back(byte_of(place), byte_of(place) + n);
    });
  }
  [[nodiscard]] uint64_t byte_of(scale::Addr place) const { return place.target() * target_bytes_ + place.offset(); }
  void add_superblocks(size_t target) {
    for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) add({target, copy * kPageBytes}, sizeof(Superblock));
  }

  // A segment in use is read up to its sealed end, or as a whole in search of what may follow a torn record. One
  // without records is not touched if the pool was closed.
  void add_segment(const Rig& rig, size_t i) {
    const scale::Addr at = rig.pool.segments()[i];
    const SegmentState& state = rig.analysis.segments[i];
    const scale::Addr entry = rig.pool.entries()[i];
    if (!rig.analysis.clean || !sequence_of_empty(rig.volume, entry)) add(at, sizeof(uint64_t));
    add(entry, sizeof(SegmentEntry));
    const scale::Addr records = at + kSegmentHeaderBytes;
    add(records, state.noted - std::min(state.noted, kSegmentHeaderBytes));
    if (!state.sealed) add_range(records, rig.pool.segment_bytes() - kSegmentHeaderBytes);
  }

  void add_tile(const Rig& rig, const Tile& tile) {
    const Dnode& dnode = *rig.analysis.dnodes[tile.dnode];
    for (const RunDesc& run : dnode.runs()) add(scale::Addr::of_bits(run.addr), run.bytes);
    if (!dnode.long_fences().is_nil()) add(dnode.long_fences(), dnode.long_fence_bytes());
    for (const LiveRecord& record : tile.records) {
      if (record.update.large) add_large(large_ref(record.update.value));
    }
    if (!dnode.has_large()) return;
    DnodeCursor cursor(rig.volume, dnode);
    for (cursor.seek(tile.lo.key()); cursor.valid() && tile.hi.above(cursor.entry().key); cursor.next()) {
      if (cursor.entry().large) add_large(large_ref(cursor.entry().value));
    }
  }
  void add_large(const LargeRef& ref) { add(scale::Addr::of_bits(ref.addr), ref.value_bytes); }

  scale::Layout layout_;
  uint64_t target_bytes_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;  // begin, end
  std::vector<std::pair<uint64_t, uint64_t>> firm_;    // begin, bytes
  uint64_t firm_bytes_ = 0;
};

// The bytes, in whole blocks, of all that has an owner in the data area of a pool; nullopt if two owners claim a block.
// Requires: analysed, no damage, every live dnode live on its whole range.
inline std::optional<uint64_t> owned_bytes(const Rig& rig) {
  std::vector<std::pair<uint64_t, uint64_t>> owned;  // first block, blocks
  const auto own = [&](scale::Addr at, uint64_t bytes) {
    owned.emplace_back(at.bits() / kBlockBytes, (bytes + kBlockBytes - 1) / kBlockBytes);
  };
  for (const Analysis::HeaderExtent& extent : rig.analysis.header_extents)
    own(extent.at, rig.pool.superblocks[0].extent_bytes);
  for (const Tile& tile : rig.analysis.tiles) {
    const Dnode& dnode = *rig.analysis.dnodes[tile.dnode];
    for (const RunDesc& run : dnode.runs()) own(scale::Addr::of_bits(run.addr), run.bytes);
    if (!dnode.long_fences().is_nil()) own(dnode.long_fences(), dnode.long_fence_bytes());
    const auto own_large = [&](const LargeRef& ref) { own(scale::Addr::of_bits(ref.addr), ref.value_bytes); };
    DnodeCursor cursor(rig.volume, dnode);
    for (cursor.seek(tile.lo.key()); cursor.valid(); cursor.next()) {
      if (cursor.entry().large) own_large(large_ref(cursor.entry().value));
    }
    for (const LiveRecord& record : tile.records) {
      if (record.update.large) own_large(large_ref(record.update.value));
    }
  }
  std::sort(owned.begin(), owned.end());
  uint64_t blocks = 0;
  for (size_t i = 0; i < owned.size(); ++i) {
    if (i > 0 && owned[i - 1].first + owned[i - 1].second > owned[i].first) return std::nullopt;
    blocks += owned[i].second;
  }
  return blocks * kBlockBytes;
}

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_READ_SET_H_
