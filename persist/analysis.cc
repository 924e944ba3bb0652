#include "persist/analysis.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <numeric>

#include "base/thread.h"

namespace bonsai::persist {

using base::Fence;
using scale::Addr;

namespace {

uint64_t load8(const scale::Volume& volume, Addr addr) {
  uint64_t word;
  std::memcpy(&word, volume.local(addr), sizeof word);
  return word;
}

class Analyst {
 public:
  Analyst(const scale::Volume& volume, const Pool& pool, Analysis* out, const AnalysisOptions& options)
      : volume_(volume), pool_(pool), out_(*out), options_(options), caller_(base::thread_ordinal()) {}

  void run() {
    read_state();
    for (size_t target = 0; target < pool_.superblocks.size(); ++target) list_extents(target);
    const std::vector<Addr> segments = pool_.segments();
    bytes_all_ = extents_.size() * pool_.superblocks[0].extent_bytes + segments.size() * pool_.segment_bytes();
    read_extents();
    paint();
    read_log(segments);
    choose_winners();
    if (options_.progress) options_.progress(1.0);
  }

 private:
  void read_state() {
    const uint64_t state = load8(volume_, Addr(0, kStateRunOffset));
    const bool known = checked_word_ok(state, kStateRunSeed);
    out_.clean = known && (state & kCheckedWordMax) == static_cast<uint64_t>(RunState::kClean);
    durable_ = !known || (state & kCheckedWordMax) != static_cast<uint64_t>(RunState::kOpenBuffered);
    const uint64_t epoch = load8(volume_, Addr(0, kStateEpochOffset));
    if (epoch != 0 && !checked_word_ok(epoch, kStateEpochSeed)) {
      damage(place_text("closed epoch", Addr(0, kStateEpochOffset)), "the word fails its check", Fence(),
             Fence::infinite());
      return;
    }
    closed_epoch_ = out_.epoch_max = epoch & kCheckedWordMax;
  }

  // Header extents, and what the table cannot tell from one.
  struct Extent {
    Addr at, table_entry;
    bool good = false;  // the table's word is
    std::vector<std::unique_ptr<Dnode>> dnodes;
    std::vector<Addr> free_slots;
    size_t headers = 0;  // valid ones, retired included
  };

  void list_extents(size_t target) {
    const Superblock& sb = pool_.superblocks[target];
    for (uint64_t i = 0; i < sb.extents; ++i) {
      const Addr entry(target, sb.extent_table_offset + 8 * i);
      const uint64_t word = load8(volume_, entry);
      if (word == 0) continue;
      const bool good = checked_word_ok(word, kExtentSeed + (i << 8));
      if (good && (word & kCheckedWordMax) != static_cast<uint64_t>(ExtentKind::kHeaders)) continue;
      extents_.push_back({{target, sb.data_offset + i * sb.extent_bytes}, entry, good, {}, {}, 0});
    }
  }

  void read_extents() {
    const uint64_t bytes = pool_.superblocks[0].extent_bytes;
    base::for_each_on(options_.threads, extents_.size(), [&](size_t i) {
      read_headers(&extents_[i], bytes);
      tell_done(bytes);
    });
    for (Extent& extent : extents_) {
      // A damaged entry of the extent table: the headers themselves tell whether it is one of theirs.
      if (!extent.good && extent.headers == 0) {
        out_.damaged_extent_entries.push_back(extent.table_entry);
        continue;
      }
      out_.header_extents.push_back(extent.at);
      out_.free_slots.insert(out_.free_slots.end(), extent.free_slots.begin(), extent.free_slots.end());
      for (auto& dnode : extent.dnodes) {
        out_.gen_max = std::max(out_.gen_max, dnode->gen());
        out_.dnodes.push_back(std::move(dnode));
      }
    }
  }

  void read_headers(Extent* extent, uint64_t bytes) const {
    for (uint64_t offset = bytes; offset >= kDnodeHeaderBytes; offset -= kDnodeHeaderBytes) {
      const Addr slot = extent->at + (offset - kDnodeHeaderBytes);
      std::unique_ptr<Dnode> dnode;
      bool retired = false;
      const bool valid = read_dnode(volume_, slot, &dnode, &retired);
      extent->headers += valid ? 1 : 0;
      if (valid && !retired) {
        extent->dnodes.push_back(std::move(dnode));
      } else {
        extent->free_slots.push_back(slot);
      }
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

  void read_log(const std::vector<Addr>& segments) {
    const TileTable tiles(out_.tiles, out_.dnodes);
    const LogTerms terms{pool_.segment_bytes(), pool_.pool_id(), closed_epoch_, durable_};
    std::vector<SegmentRead> reads(segments.size());
    base::for_each_on(options_.threads, segments.size(), [&](size_t i) {
      read_segment(volume_, segments[i], static_cast<uint32_t>(i), terms, tiles, &reads[i]);
      tell_done(terms.segment_bytes);
    });
    for (SegmentRead& read : reads) {
      out_.segments.push_back(read.state);
      out_.log_records += read.records;
      out_.gen_max = std::max(out_.gen_max, read.gen_max);
      out_.sequence_max = std::max(out_.sequence_max, read.sequence_max);
      out_.epoch_max = std::max(out_.epoch_max, read.epoch_max);
      std::move(read.damages.begin(), read.damages.end(), std::back_inserter(out_.damages));
      for (SegmentRead::Counted& counted : read.counted) out_.tiles[counted.tile].records.push_back(counted.record);
      read.counted = {};
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

  void tell_done(uint64_t bytes) {
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
  std::vector<Extent> extents_;
  uint64_t bytes_all_ = 0;
  std::atomic<uint64_t> bytes_done_{0};
  uint64_t closed_epoch_ = 0;
  bool durable_ = true;
};

}  // namespace

void analyse(const scale::Volume& volume, const Pool& pool, Analysis* analysis, const AnalysisOptions& options) {
  Analyst(volume, pool, analysis, options).run();
}

bool for_each_large(const scale::Volume& volume, const Dnode& dnode,
                    const std::function<void(const LargeRef&)>& visit) {
  if (!dnode.has_large()) return true;
  for (const RunDesc& desc : dnode.runs()) {
    const RunView run(volume.local(Addr::of_bits(desc.addr)), desc);
    if (run.uniform()) continue;
    for (uint32_t i = 0; i < desc.count; ++i) {
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
