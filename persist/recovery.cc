// SPDX-License-Identifier: Apache-2.0
#include "persist/recovery.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"
#include "base/status_macros.h"
#include "persist/dnode_cursor.h"
#include "persist/large.h"
#include "persist/runs_ahead.h"
#include "persist/sites.h"
#include "persist/words.h"

namespace bonsai::persist {

using scale::Addr;

namespace {

// Reads, and writes nothing.
class Claimer {
 public:
  Claimer(const Analysis& analysis, const Pool& pool, DnodeStore* store) : a_(analysis), pool_(pool), store_(*store) {}

  Status run() {
    BONSAI_INVARIANT(a_.damages.empty() && a_.segments.size() == pool_.segments().size());
    BONSAI_RETURN_IF_ERROR(claim_space());
    BONSAI_RETURN_IF_ERROR(claim_large_values());
    return verify_parts();
  }

 private:
  Status claim(Addr addr, uint64_t bytes, const char* what) {
    if (store_.space().reserve(addr, bytes)) return Status::OK();
    return Status::Corruption(std::string("two owners claim one block of the pool (") + what +
                              "); run `bonsai check` on it and restore it from a copy");
  }

  Status claim_large(const LargeRef& ref) {
    if (!store_.volume().contains(Addr::of_bits(ref.addr), ref.value_bytes)) {
      return Status::Corruption("a large value is outside the pool; run `bonsai check` on it");
    }
    return claim(Addr::of_bits(ref.addr), ref.value_bytes, "large value");
  }

  Status claim_space() {
    const uint64_t extent_bytes = pool_.superblocks[0].extent_bytes;
    for (const Analysis::HeaderExtent& extent : a_.header_extents) {
      BONSAI_RETURN_IF_ERROR(claim(extent.at, extent_bytes, "header extent"));
      store_.adopt_extent(extent.at, extent.writes);
    }
    for (size_t i = 0; i < a_.dnodes.size(); ++i) {
      if (!a_.dnode_live[i]) continue;
      const Dnode& dnode = *a_.dnodes[i];
      for (const RunDesc& run : dnode.runs()) BONSAI_RETURN_IF_ERROR(claim(Addr::of_bits(run.addr), run.bytes, "run"));
      if (!dnode.long_fences().is_nil()) {
        BONSAI_RETURN_IF_ERROR(claim(dnode.long_fences(), dnode.long_fence_bytes(), "fence keys"));
      }
    }
    return Status::OK();
  }

  // Claims the large values of dnodes that are live on a part of their range only, within that part.
  Status claim_large_values() {
    RunsAhead ahead(store_.volume(), a_, /*only_large=*/true);
    for (size_t i = 0; i < a_.tiles.size(); ++i) {
      const Tile& tile = a_.tiles[i];
      const Dnode& dnode = *a_.dnodes[tile.dnode];
      if (dnode.has_large()) {
        DnodeCursor cursor(&ahead.of(i), dnode);
        for (cursor.seek(tile.lo.key()); cursor.valid() && tile.hi.above(cursor.entry().key); cursor.next()) {
          if (cursor.entry().large) BONSAI_RETURN_IF_ERROR(claim_large(large_ref(cursor.entry().value)));
        }
        if (cursor.trouble() != Trouble::kNone) {
          return unreadable(store_.volume(), cursor.trouble(), tile.lo, tile.hi);
        }
      }
      for (const LiveRecord& record : tile.records) {
        if (record.update.large) BONSAI_RETURN_IF_ERROR(claim_large(large_ref(record.update.value)));
      }
    }
    return Status::OK();
  }

  // Verifies the entries of dnodes that are live on a part of their range only, within that part: they are rewritten.
  Status verify_parts() {
    for (const Tile& tile : a_.tiles) {
      if (a_.dnode_whole[tile.dnode]) continue;
      DnodeCursor cursor(store_.volume(), *a_.dnodes[tile.dnode]);
      cursor.seek(tile.lo.key());
      while (cursor.valid() && tile.hi.above(cursor.entry().key)) cursor.next();
      if (cursor.trouble() != Trouble::kNone) return unreadable(store_.volume(), cursor.trouble(), tile.lo, tile.hi);
    }
    return Status::OK();
  }

  const Analysis& a_;
  const Pool& pool_;
  DnodeStore& store_;
};

class Recovery {
 public:
  Recovery(Analysis* analysis, const Pool& pool, DnodeStore* store, Log* log, std::vector<RecoveredRange>* ranges)
      : a_(*analysis), pool_(pool), store_(*store), log_(*log), ranges_(*ranges) {}

  Status run() {
    clear_torn_slots();
    BONSAI_RETURN_IF_ERROR(repair_extent_entries());
    if (!a_.clean || !a_.torn_slots.empty()) BONSAI_RETURN_IF_ERROR(write_again());
    BONSAI_RETURN_IF_ERROR(retire_dead());
    BONSAI_RETURN_IF_ERROR(rewrite_parts());
    BONSAI_RETURN_IF_ERROR(seal_segments());
    store_.space().hold_relocation_reserve(pool_.recovery_bytes());
    pass_on();
    return Status::OK();
  }

 private:
  // A process that was killed, or whose fence failed, may have stored bytes that are not durable. The next process
  // reads them, but a power cut may lose them. So recovery makes all that it relies on durable before it builds on it.
  // It writes the bytes again, since a file's pages whose write-back failed are not written back otherwise. Runs and
  // large values were durable before a reference to them was stored.
  Status write_again() {
    for (const Superblock& sb : pool_.superblocks) {
      const uint64_t target = sb.target_index;
      for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) write_again({target, copy * kPageBytes}, sizeof sb);
      if (sb.extents > 0) write_again({target, sb.extent_table_offset}, 8 * sb.extents);
    }
    write_again(pool_.state(kStateEpochOffset), sizeof(uint64_t));
    write_again(pool_.epoch_copy(), sizeof(uint64_t));
    for (const Analysis::HeaderExtent& extent : a_.header_extents) {
      write_again(extent.at, pool_.superblocks[0].extent_bytes);
    }
    for (const Addr entry : pool_.entries()) write_entry_again(entry);
    BONSAI_RETURN_IF_ERROR(write_segments_again());
    return store_.volume().fence(kSiteRecoveredFence) ? Status::OK() : store_.volume().health();
  }

  // Their words are known; the records after a noted end are read again.
  Status write_segments_again() {
    constexpr uint64_t kTogetherBytes = uint64_t{1} << 20;
    scale::Volume& volume = store_.volume();
    const std::vector<Addr> segments = pool_.segments();
    for (size_t i = 0; i < segments.size();) {
      scale::ReadBatch reads(volume);
      std::vector<scale::Volume::Range> tails;
      std::vector<const std::byte*> read;
      for (uint64_t bytes = 0; i < segments.size() && bytes < kTogetherBytes; ++i) {
        const SegmentState& segment = a_.segments[i];
        if (segment.sequence == 0) continue;
        const uint64_t word = checked_word(segment.sequence, place_seed(volume, segments[i]));
        write_again(segments[i], reinterpret_cast<const std::byte*>(&word), sizeof word);
        if (segment.noted >= segment.end) continue;
        const uint64_t begin = segment.noted / 8 * 8, end = round_up(segment.end, 8);
        tails.push_back({segments[i] + begin, end - begin});
        read.push_back(reads.issue(tails.back().at, tails.back().bytes));
        bytes += tails.back().bytes;
      }
      BONSAI_RETURN_IF_ERROR(reads.wait());
      for (size_t j = 0; j < tails.size(); ++j) write_again(tails[j].at, read[j], tails[j].bytes);
    }
    return Status::OK();
  }

  // In the order of store_entry(): words that are copied past the cache could change places.
  void write_entry_again(Addr entry) {
    scale::Volume& volume = store_.volume();
    for (const uint64_t word : {offsetof(SegmentEntry, end), offsetof(SegmentEntry, sequence)}) {
      volume.store8(entry + word, load8(volume, entry + word));
    }
    volume.flush(entry, sizeof(SegmentEntry), kSiteRecoveredEntry);
  }

  void write_again(Addr at, uint64_t bytes) {
    const scale::Volume& volume = store_.volume();
    for (uint64_t piece = 0; bytes > 0; at = at + piece, bytes -= piece) {
      piece = volume.piece_bytes(at, bytes);
      write_again(at, volume.resident(at), piece);
    }
  }
  void write_again(Addr at, const std::byte* from, uint64_t bytes) {
    again_.assign(from, from + bytes);
    store_.volume().nt_copy(at, again_.data(), bytes, kSiteRecovered);
  }

  // A header that a crash has torn, or left under the mark of the slot's last owner, was never committed and may have
  // the highest generation. Were the slot written again and torn again, a single word could complete it. So it is
  // cleared before the slot is used, and durably so by write_again(). (The headers of later commits follow a fence of
  // their own.)
  void clear_torn_slots() {
    for (const Analysis::TornSlot& torn : a_.torn_slots) clear_slot(store_.volume(), torn.slot, torn.writes);
    for (const Addr slot : a_.free_slots) store_.add_free_slot(slot);
  }

  Status repair_extent_entries() {
    for (const auto& [entry, value] : a_.damaged_extent_entries) {
      store_word(store_.volume(), entry, value);
      store_.volume().flush(entry, sizeof(uint64_t), kSiteExtentRepair);
    }
    if (a_.damaged_extent_entries.empty() || store_.volume().fence(kSiteExtentRepairFence)) return Status::OK();
    return store_.volume().health();
  }

  // A crash between the halves of a split leaves the old dnode live on one half. One dnode at a time, so that no more
  // room is needed than one takes: Pool::recovery_bytes(), which the last recovery has set aside.
  Status rewrite_parts() {
    std::map<size_t, std::vector<Tile*>> parts_of;
    for (Tile& tile : a_.tiles) {
      if (!a_.dnode_whole[tile.dnode]) parts_of[tile.dnode].push_back(&tile);
    }
    for (const auto& [dnode, parts] : parts_of) BONSAI_RETURN_IF_ERROR(rewrite(*a_.dnodes[dnode], parts));
    return Status::OK();
  }

  Status rewrite(const Dnode& dnode, const std::vector<Tile*>& tiles) {
    DnodeWriter writer(store_);
    for (const Tile* tile : tiles) {
      std::vector<Entry> entries;
      DnodeCursor cursor(store_.volume(), dnode);
      for (cursor.seek(tile->lo.key()); cursor.valid() && tile->hi.above(cursor.entry().key); cursor.next()) {
        if (!cursor.entry().tombstone) entries.push_back(cursor.entry());
      }
      if (cursor.trouble() != Trouble::kNone) {
        return unreadable(store_.volume(), cursor.trouble(), dnode.lo(), dnode.hi());
      }
      Dnode* part = nullptr;
      BONSAI_RETURN_IF_ERROR(writer.add(tile->lo, tile->hi, dnode.gen(), nullptr, entries, &part));
    }
    std::vector<std::unique_ptr<Dnode>> parts;
    BONSAI_RETURN_IF_ERROR(writer.commit(&parts));
    BONSAI_RETURN_IF_ERROR(store_.retire({&dnode}));
    store_.free(dnode, {});
    BONSAI_INVARIANT(parts.size() == tiles.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      tiles[i]->dnode = a_.dnodes.size();
      a_.dnodes.push_back(std::move(parts[i]));
      a_.dnode_whole.push_back(true);
      a_.dnode_live.push_back(true);
    }
    return Status::OK();
  }

  // Dnodes that are live nowhere: nobody has claimed their runs, so their marks come before any block is written.
  Status retire_dead() {
    std::vector<const Dnode*> dead;
    for (size_t i = 0; i < a_.dnodes.size(); ++i) {
      if (!a_.dnode_live[i]) dead.push_back(a_.dnodes[i].get());
    }
    if (dead.empty()) return Status::OK();
    BONSAI_RETURN_IF_ERROR(store_.retire(dead));
    for (const Dnode* dnode : dead) store_.give_slot(dnode->header());
    return Status::OK();
  }

  Status seal_segments() {
    scale::Volume& volume = store_.volume();
    const std::vector<Addr> entries = pool_.entries();
    bool flushed = false;
    for (size_t i = 0; i < entries.size(); ++i) {
      const SegmentState& segment = a_.segments[i];
      if (segment.entered && segment.sealed && !segment.truncate) continue;
      store_entry(volume, entries[i], segment.sequence, segment.end, true);
      volume.flush(entries[i], sizeof(SegmentEntry), kSiteLogTruncate);
      flushed = true;
    }
    return !flushed || volume.fence(kSiteLogTruncateFence) ? Status::OK() : volume.health();
  }

  // The live dnodes tile the key space, each of them once.
  void check_tiles() const {
    base::Fence at;
    for (const Tile& tile : a_.tiles) {
      BONSAI_INVARIANT(tile.lo == at && tile.lo < tile.hi);
      BONSAI_INVARIANT(a_.dnode_live[tile.dnode] && a_.dnodes[tile.dnode] != nullptr);
      BONSAI_INVARIANT(a_.dnodes[tile.dnode]->lo() == tile.lo && a_.dnodes[tile.dnode]->hi() == tile.hi);
      for (const LiveRecord& record : tile.records) {
        BONSAI_INVARIANT(record.update.gen > a_.dnodes[tile.dnode]->gen() && record.segment < a_.segments.size());
      }
      at = tile.hi;
    }
    BONSAI_INVARIANT(at.is_infinite());
  }

  void pass_on() {
    std::vector<std::vector<uint32_t>> others(a_.segments.size());  // that are kept with a segment
    for (uint32_t i = 0; i < a_.segments.size(); ++i) {
      if (const uint32_t home = a_.segments[i].home; home != kNoSegment) {
        BONSAI_INVARIANT(home < others.size() && home != i);
        others[home].push_back(i);
      }
    }
    for (uint32_t i = 0; i < a_.segments.size(); ++i) {
      const SegmentState& segment = a_.segments[i];
      if (segment.live_records > 0) log_.adopt(i, segment.sequence, segment.live_records, std::move(others[i]));
    }
    check_tiles();
    log_.start(a_.sequence_max + 1, a_.epoch_max + 1);
    ranges_.clear();
    ranges_.reserve(a_.tiles.size());
    for (Tile& tile : a_.tiles) ranges_.push_back({std::move(a_.dnodes[tile.dnode]), std::move(tile.records)});
  }

  Analysis& a_;
  const Pool& pool_;
  DnodeStore& store_;
  Log& log_;
  std::vector<RecoveredRange>& ranges_;
  std::vector<std::byte> again_;
};

}  // namespace

Status claim_space(const Analysis* analysis, const Pool& pool, DnodeStore* store) {
  return Claimer(*analysis, pool, store).run();
}

Status recover(Analysis* analysis, const Pool& pool, DnodeStore* store, Log* log, std::vector<RecoveredRange>* ranges) {
  return Recovery(analysis, pool, store, log, ranges).run();
}

Status damage_status(const std::vector<Damage>& damages) {
  const Damage& first = damages.front();
  return Status::Corruption(first.where + ": " + first.what + "; keys affected: " + first.key_range +
                            (damages.size() > 1 ? " (and " + std::to_string(damages.size() - 1) + " more)" : "") +
                            "; run `bonsai check` for the whole list, and `bonsai salvage` to copy what is sound");
}

}  // namespace bonsai::persist
