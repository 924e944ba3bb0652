// SPDX-License-Identifier: Apache-2.0
#include "persist/analysis.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/narrow.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "persist/old_copy.h"
#include "persist/words.h"
#include "scale/read_batch.h"

namespace bonsai::persist {

using base::Fence;
using scale::Addr;

namespace {

class Analyst {
 public:
  Analyst(const scale::Volume& volume, const Pool& pool, Analysis* out, const AnalysisOptions& options)
      : volume_(volume), pool_(pool), out_(*out), options_(options), caller_(base::thread_ordinal()) {}

  Status run() {
    read_state();
    for (size_t target = 0; target < pool_.superblocks.size(); ++target) list_extents(target);
    const std::vector<Addr> segments = pool_.segments();
    BONSAI_RETURN_IF_ERROR(fetch_extents());
    bytes_all_ = extents_.size() * pool_.superblocks[0].extent_bytes + segments.size() * pool_.segment_bytes();
    read_extents();
    if (unavailable_.load()) return volume_.unavailable();
    paint();
    BONSAI_RETURN_IF_ERROR(read_log(segments));
    choose_winners();
    judge_orphans(segments);
    check_closed();
    if (options_.progress) options_.progress(1.0);
    return Status::OK();
  }

 private:
  void read_state() {
    const std::optional<uint64_t> state = load_word(volume_, pool_.state(kStateRunOffset));
    const uint64_t run = state.value_or(0) & 0xff;
    out_.clean = run == static_cast<uint64_t>(RunState::kClean);
    if (out_.clean) closed_with_ = base::low_bits<uint32_t>(*state >> 8);
    if (!state) {
      damage(place_text("run state", pool_.state(kStateRunOffset)), "the word fails its check", Fence(),
             Fence::infinite());
    }
    for (const Addr at : pool_.openings_damaged) {
      damage(place_text("opening", at), "the word fails its check", Fence(), Fence::infinite());
    }
    durable_ = run != static_cast<uint64_t>(RunState::kOpenBuffered);
    closed_epoch_ = out_.epoch_max = closed_epoch(volume_, pool_, [this](Addr at) {
      damage(place_text("closed epoch", at), "the word fails its check", Fence(), Fence::infinite());
    });
  }

  // Nothing that recovery depends on changes while a pool is closed, and no target is older than the others. Without
  // all targets that cannot be judged.
  void check_closed() {
    if (pool_.partial) return;
    FoundState found{0, out_.sequence_max, summary_.value(closed_epoch_)};
    for (const SegmentState& segment : out_.segments) {
      if (segment.entered) found.entered_max = std::max(found.entered_max, segment.sequence);
    }
    check_marks(volume_, pool_, found, [this](Addr at, std::string what) {
      damage(place_text("mark", at), std::move(what), Fence(), Fence::infinite());
    });
    if (!out_.clean || found.summary == closed_with_) return;
    damage("the pool's structure", "it is not what the pool was closed with; what is missing is unknown", Fence(),
           Fence::infinite());
  }

  struct Extent {
    Addr at, table_entry;
    std::optional<uint64_t> writes;  // of its slots, at least; none: the table's word is damaged
    std::vector<std::unique_ptr<Dnode>> dnodes;
    std::vector<Addr> free_slots, torn_slots;
    size_t headers = 0;      // valid ones, retired included
    uint64_t writes_of = 0;  // its slots
    uint64_t digest = 0;     // of the live ones
  };

  void list_extents(size_t target) {
    const Superblock& sb = pool_.superblocks[target];
    for (uint64_t i = 0; i < sb.extents; ++i) {
      const Addr entry(target, sb.extent_table_offset + 8 * i);
      std::optional<uint64_t> word = load_word(volume_, entry);
      if (word == kExtentData) continue;
      if (word) --*word;
      extents_.push_back({{target, sb.data_offset + i * sb.extent_bytes}, entry, word, {}, {}, {}, 0, 0, 0});
    }
  }

  Status fetch_extents() {
    std::vector<scale::Volume::Range> ranges;
    for (const Extent& extent : extents_) ranges.push_back({extent.at, pool_.superblocks[0].extent_bytes});
    return volume_.fetch(ranges);
  }

  void read_extents() {
    const uint64_t bytes = pool_.superblocks[0].extent_bytes;
    base::for_each_on(options_.threads, extents_.size(), [&](size_t i) {
      read_headers(&extents_[i], bytes);
      report_done(bytes);
    });
    for (Extent& extent : extents_) take(&extent);
  }

  // A damaged word of the extent table: the headers themselves show whether the extent is one of theirs.
  void take(Extent* extent) {
    if (!extent->writes && extent->headers == 0) {
      out_.damaged_extent_entries.push_back({extent->table_entry, kExtentData});
      return;
    }
    summary_.sum += extent->digest;
    settle_writes(extent);
    if (!extent->writes) out_.damaged_extent_entries.push_back({extent->table_entry, 1 + extent->writes_of});
    out_.header_extents.push_back({extent->at, extent->writes_of});
    out_.free_slots.insert(out_.free_slots.end(), extent->free_slots.begin(), extent->free_slots.end());
    for (auto& dnode : extent->dnodes) {
      out_.gen_max = std::max(out_.gen_max, dnode->gen());
      out_.dnodes.push_back(std::move(dnode));
    }
  }

  // A slot whose count of writes is lower than noted is in an earlier state. Only a torn header may have lost its
  // count: the count is restored when the slot is cleared.
  void settle_writes(Extent* extent) {
    const uint64_t missing = extent->writes.value_or(0) - std::min(extent->writes.value_or(0), extent->writes_of);
    if (missing != 0 && extent->torn_slots.empty()) {
      damage(place_text("dnode headers", extent->at), "some are of an earlier state; what is missing is unknown",
             Fence(), Fence::infinite());
    }
    for (size_t i = 0; i < extent->torn_slots.size(); ++i) {
      const uint64_t writes = i == 0 ? std::clamp<uint64_t>(missing, 1, UINT32_MAX) : 1;
      out_.torn_slots.push_back({extent->torn_slots[i], base::low_bits<uint32_t>(writes)});
      extent->writes_of += writes;
    }
  }

  void read_headers(Extent* extent, uint64_t bytes) {
    for (uint64_t offset = bytes; offset >= kDnodeHeaderBytes; offset -= kDnodeHeaderBytes) {
      const Addr slot = extent->at + (offset - kDnodeHeaderBytes);
      SlotRead read = read_slot(volume_, slot, pool_.versions[slot.target()]);
      if (read.state == SlotRead::State::kUnavailable) return unavailable_.store(true);
      extent->writes_of += read.writes;
      extent->digest += read.digest;
      extent->headers += read.state == SlotRead::State::kLive || read.state == SlotRead::State::kRetired ? 1 : 0;
      if (read.state == SlotRead::State::kLive) {
        extent->dnodes.push_back(std::move(read.dnode));
        continue;
      }
      extent->free_slots.push_back(slot);
      if (read.state == SlotRead::State::kTorn) extent->torn_slots.push_back(slot);
    }
  }

  // Paints the key space with dnodes, highest generation first; each keeps the pieces that are still bare.
  void paint() {
    std::vector<size_t> order(out_.dnodes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return out_.dnodes[a]->gen() > out_.dnodes[b]->gen(); });
    out_.dnode_whole.assign(order.size(), false);
    out_.dnode_live.assign(order.size(), false);
    std::map<Fence, std::pair<Fence, size_t>> painted;  // lo -> (hi, dnode)
    for (const size_t i : order) paint_one(i, &painted);
    Fence at;
    for (auto& [lo, piece] : painted) {
      BONSAI_INVARIANT(!(lo < at) && lo < piece.first && out_.dnode_live[piece.second]);
      if (at < lo) gap(at, lo);
      at = piece.first;
      out_.tiles.push_back({lo, piece.first, piece.second, {}});
    }
    if (!at.is_infinite()) gap(at, Fence::infinite());
  }

  void paint_one(size_t i, std::map<Fence, std::pair<Fence, size_t>>* painted) {
    const Dnode& dnode = *out_.dnodes[i];
    Fence at = dnode.lo();
    auto it = painted->upper_bound(at);
    if (it != painted->begin() && at < std::prev(it)->second.first) at = std::prev(it)->second.first;
    while (at < dnode.hi()) {
      const Fence end = it != painted->end() && it->first < dnode.hi() ? it->first : dnode.hi();
      if (at < end) {
        painted->emplace_hint(it, at, std::make_pair(end, i));
        out_.dnode_live[i] = true;
        out_.dnode_whole[i] = at == dnode.lo() && end == dnode.hi();
      }
      if (it == painted->end() || !(it->first < dnode.hi())) break;
      at = it->second.first;
      ++it;
    }
  }

  void gap(const Fence& lo, const Fence& hi) { damage("dnode headers", "no valid dnode covers the range", lo, hi); }

  // Of a pool that was closed, segments without records are not touched: no opening of them was under way, so their
  // entries say what their words do.
  Status read_words(const std::vector<Addr>& segments, const std::vector<Addr>& entries,
                    std::vector<uint64_t>* words) const {
    scale::ReadBatch reads(volume_);
    std::vector<const std::byte*> places(segments.size());
    words->resize(segments.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      const auto sequence = out_.clean ? sequence_of_empty(volume_, entries[i]) : std::nullopt;
      if (sequence) (*words)[i] = checked_word(*sequence, place_seed(volume_, segments[i]));
      if (!sequence) places[i] = reads.issue(segments[i], sizeof(uint64_t));
    }
    BONSAI_RETURN_IF_ERROR(reads.wait());
    for (size_t i = 0; i < segments.size(); ++i) {
      if (places[i] != nullptr) std::memcpy(&(*words)[i], places[i], sizeof(uint64_t));
    }
    return Status::OK();
  }

  Status read_log(const std::vector<Addr>& segments) {
    const TileTable tiles(out_.tiles, out_.dnodes);
    const LogTerms terms{pool_.segment_bytes(), closed_epoch_, durable_};
    const std::vector<Addr> entries = pool_.entries();
    std::vector<uint64_t> words;
    BONSAI_RETURN_IF_ERROR(read_words(segments, entries, &words));
    std::vector<SegmentRead> reads(segments.size());
    base::for_each_on(options_.threads, segments.size(), [&](size_t i) {
      const auto number = base::checked_narrow<uint32_t>(i);
      read_segment(volume_, {segments[i], entries[i], number, words[i]}, terms, tiles, &reads[i]);
      if (reads[i].unavailable) unavailable_.store(true);
      report_done(terms.segment_bytes);
    });
    if (unavailable_.load()) return volume_.unavailable();
    judge_shares(&reads);
    for (SegmentRead& read : reads) {
      const SegmentState& state = read.state;
      summary_.add_segment(volume_, segments[out_.segments.size()], state.sequence, state.noted, state.sealed);
      out_.segments.push_back(state);
      out_.log_records += read.records;
      out_.gen_max = std::max(out_.gen_max, read.gen_max);
      out_.sequence_max = std::max(out_.sequence_max, read.sequence_max);
      out_.epoch_max = std::max(out_.epoch_max, read.epoch_max);
      std::move(read.damages.begin(), read.damages.end(), std::back_inserter(out_.damages));
      for (SegmentRead::Counted& counted : read.counted) out_.tiles[counted.tile].records.push_back(counted.record);
      read.counted = {};
      out_.kept.push_back(std::move(read.kept));
    }
    return Status::OK();
  }

  // A batch in several segments counts if all of them are there. Otherwise a crash truncated it, and the rest of it is
  // truncated, too. Or it is dead and its segments are being used again; then newer updates of all its keys are stored.
  // Otherwise a share of a once durable batch is missing.
  void judge_shares(std::vector<SegmentRead>* reads) {
    std::map<std::pair<uint64_t, uint64_t>, std::vector<uint32_t>> batches;
    for (uint32_t i = 0; i < reads->size(); ++i) {
      if (const auto& share = (*reads)[i].share) batches[{share->first_sequence, share->share.count}].push_back(i);
    }
    for (const auto& [batch, segments] : batches) {
      const bool whole = segments.size() == batch.second;
      uint32_t home = kNoSegment;
      for (const uint32_t i : segments) {
        if ((*reads)[i].share->share.number == 0) home = i;
      }
      for (const uint32_t i : segments) {
        SegmentRead& read = (*reads)[i];
        if (whole) {
          if (i != home) read.state.home = home;
          for (SegmentRead::Counted& counted : read.counted) counted.record.segment = home;
          continue;
        }
        if (read.state.sealed) {
          std::move(read.counted.begin(), read.counted.end(), std::back_inserter(orphans_));
        } else {
          read.state.end = read.share->offset;
        }
        read.records = 0;
        read.counted.clear();
      }
    }
  }

  // Updates of a batch, a share of which is missing, that nothing newer replaces.
  void judge_orphans(const std::vector<Addr>& segments) {
    for (const SegmentRead::Counted& orphan : orphans_) {
      const Update& update = orphan.record.update;
      const std::vector<LiveRecord>& winners = out_.tiles[orphan.tile].records;
      const auto winner =
          std::lower_bound(winners.begin(), winners.end(), update.key,
                           [](const LiveRecord& record, std::string_view key) { return record.update.key < key; });
      const bool replaced = winner != winners.end() && winner->update.key == update.key &&
                            std::pair(update.gen, update.token) < std::pair(winner->update.gen, winner->update.token);
      if (replaced) continue;
      damage(place_text("log segment", segments[orphan.record.segment]),
             "a segment is missing that holds another part of its batch; the keys there are unknown", Fence(),
             Fence::infinite());
      return;
    }
  }

  void choose_winners() {
    constexpr size_t kTilesPerStep = 256;
    base::for_each_on(options_.threads, (out_.tiles.size() + kTilesPerStep - 1) / kTilesPerStep, [&](size_t step) {
      const size_t end = std::min(out_.tiles.size(), (step + 1) * kTilesPerStep);
      for (size_t i = step * kTilesPerStep; i < end; ++i) keep_winners(&out_.tiles[i].records);
    });
    for (const Tile& tile : out_.tiles) {
      for (const LiveRecord& record : tile.records) ++out_.segments[record.segment].live_records;
    }
  }

  static void keep_winners(std::vector<LiveRecord>* records) {
    std::sort(records->begin(), records->end(), [](const LiveRecord& a, const LiveRecord& b) {
      if (a.update.key != b.update.key) return a.update.key < b.update.key;
      if (a.update.gen != b.update.gen) return a.update.gen > b.update.gen;
      return a.update.token > b.update.token;
    });
    const auto same_key = [](const LiveRecord& a, const LiveRecord& b) { return a.update.key == b.update.key; };
    records->erase(std::unique(records->begin(), records->end(), same_key), records->end());
  }

  void report_done(uint64_t bytes) {
    const uint64_t done = bytes_done_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (options_.progress && base::thread_ordinal() == caller_) {
      options_.progress(static_cast<double>(done) / static_cast<double>(bytes_all_));
    }
  }

  void damage(std::string where, std::string what, const Fence& lo, const Fence& hi) {
    out_.damages.push_back({std::move(where), std::move(what), base::printable_range(lo, hi)});
  }

  const scale::Volume& volume_;
  const Pool& pool_;
  Analysis& out_;
  const AnalysisOptions& options_;
  const uint32_t caller_;
  std::atomic<bool> unavailable_{false};  // some of the headers, what they refer to, or the log
  std::vector<Extent> extents_;
  std::vector<SegmentRead::Counted> orphans_;
  uint64_t bytes_all_ = 0;
  std::atomic<uint64_t> bytes_done_{0};
  uint64_t closed_epoch_ = 0;
  Summary summary_;           // of what was found
  uint32_t closed_with_ = 0;  // that of a pool that was closed
  bool durable_ = true;
};

}  // namespace

Status analyse(const scale::Volume& volume, const Pool& pool, Analysis* analysis, const AnalysisOptions& options) {
  return Analyst(volume, pool, analysis, options).run();
}

std::vector<Damage> Analysis::repairs() const {
  std::vector<Damage> repairs;
  for (const EntryRepair& repair : damaged_extent_entries) {
    repairs.push_back({place_text("extent table", repair.entry),
                       "the word fails its check; the extent itself shows what it held", ""});
  }
  for (const TornSlot& torn : torn_slots) {
    repairs.push_back({place_text("dnode header", torn.slot),
                       "it is torn, as by a crash that took it back; no dnode depends on it", ""});
  }
  return repairs;
}

bool for_each_large(const scale::Volume& volume, const Dnode& dnode,
                    const std::function<void(const LargeRef&)>& visit) {
  if (!dnode.has_large()) return true;
  RunReader reader(volume);
  std::vector<RunView> runs;
  for (const RunDesc& desc : dnode.runs()) {
    if (desc.key_bytes == kVariableRun) runs.push_back(reader.run(desc));
  }
  if (!reader.wait().ok()) return false;
  for (const RunView& run : runs) {
    for (uint32_t i = 0; i < run.count(); ++i) {
      Entry entry;
      if (!run.entry(i, &entry)) return false;
      if (!entry.large) continue;
      LargeRef ref;
      std::memcpy(&ref, entry.value.data(), sizeof ref);
      visit(ref);
    }
  }
  return true;
}

}  // namespace bonsai::persist
