#include "persist/analysis.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

namespace bonsai::persist {

using base::Fence;
using scale::Addr;

namespace {

std::string place(const char* what, Addr addr) {
  char text[96];
  std::snprintf(text, sizeof text, "%s at target %zu offset 0x%llx", what, addr.target(),
                static_cast<unsigned long long>(addr.offset()));
  return text;
}

uint64_t load8(const scale::Volume& volume, Addr addr) {
  uint64_t word;
  std::memcpy(&word, volume.local(addr), sizeof word);
  return word;
}

class Analyst {
 public:
  Analyst(const scale::Volume& volume, const Pool& pool, Analysis* out) : volume_(volume), pool_(pool), out_(*out) {}

  void run() {
    read_state();
    for (size_t target = 0; target < pool_.superblocks.size(); ++target) read_extents(target);
    paint();
    read_log();
    choose_winners();
  }

 private:
  void read_state() {
    const uint64_t state = load8(volume_, Addr(0, kStateRunOffset));
    const bool known = checked_word_ok(state, kStateRunSeed);
    out_.clean = known && (state & kCheckedWordMax) == static_cast<uint64_t>(RunState::kClean);
    durable_ = !known || (state & kCheckedWordMax) != static_cast<uint64_t>(RunState::kOpenBuffered);
    const uint64_t epoch = load8(volume_, Addr(0, kStateEpochOffset));
    if (epoch != 0 && !checked_word_ok(epoch, kStateEpochSeed)) {
      damage(place("closed epoch", Addr(0, kStateEpochOffset)), "the word fails its check", Fence(), Fence::infinite());
      return;
    }
    closed_epoch_ = out_.epoch_max = epoch & kCheckedWordMax;
  }

  void read_extents(size_t target) {
    const Superblock& sb = pool_.superblocks[target];
    for (uint64_t i = 0; i < sb.extents; ++i) {
      const Addr at(target, sb.extent_table_offset + 8 * i);
      const uint64_t word = load8(volume_, at);
      if (word == 0) continue;
      const Addr extent(target, sb.data_offset + i * sb.extent_bytes);
      const bool good = checked_word_ok(word, kExtentSeed + (i << 8));
      if (good && (word & kCheckedWordMax) != static_cast<uint64_t>(ExtentKind::kHeaders)) continue;
      if (!good && !has_valid_header(extent, sb.extent_bytes)) {
        out_.damaged_extent_entries.push_back(at);
        continue;
      }
      read_headers(extent, sb.extent_bytes);
    }
  }

  // A damaged entry of the extent table: the headers themselves tell whether it is one of theirs.
  [[nodiscard]] bool has_valid_header(Addr extent, uint64_t bytes) const {
    for (uint64_t offset = 0; offset < bytes; offset += kDnodeHeaderBytes) {
      std::unique_ptr<Dnode> dnode;
      bool retired = false;
      if (read_dnode(volume_, extent + offset, &dnode, &retired)) return true;
    }
    return false;
  }

  void read_headers(Addr extent, uint64_t bytes) {
    out_.header_extents.push_back(extent);
    for (uint64_t offset = bytes; offset >= kDnodeHeaderBytes; offset -= kDnodeHeaderBytes) {
      const Addr slot = extent + (offset - kDnodeHeaderBytes);
      std::unique_ptr<Dnode> dnode;
      bool retired = false;
      if (!read_dnode(volume_, slot, &dnode, &retired) || retired) {
        out_.free_slots.push_back(slot);
        continue;
      }
      out_.gen_max = std::max(out_.gen_max, dnode->gen());
      out_.dnodes.push_back(std::move(dnode));
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

  void read_log() {
    const std::vector<Addr> places = pool_.segments();
    out_.segments.resize(places.size());
    for (uint32_t i = 0; i < places.size(); ++i) read_segment(i, places[i]);
  }

  void read_segment(uint32_t index, Addr at) {
    SegmentHeader header;
    std::memcpy(&header, volume_.local(at), sizeof header);
    out_.sequence_max = std::max(out_.sequence_max, header.sequence);  // of a torn header too: its records may be there
    if (header.magic == 0) return;
    SegmentState& state = out_.segments[index];
    if (header.magic != kSegmentMagic || header.crc != header.computed_crc() || header.pool_id != pool_.pool_id()) {
      damage(place("log segment header", at), "it fails its checksum; its records are unknown", Fence(),
             Fence::infinite());
      return;
    }
    state.sequence = header.sequence;
    uint64_t limit = pool_.segment_bytes();
    if (header.end != 0) {
      const uint64_t end = header.end & kCheckedWordMax;
      if (!checked_word_ok(header.end, kSegmentEndSeed + header.sequence) || end > limit) {
        damage(place("log segment end", at), "it fails its check; which records count is unknown", Fence(),
               Fence::infinite());
        return;
      }
      state.sealed = true;
      limit = end;
    }
    read_records(index, at, limit);
  }

  void read_records(uint32_t index, Addr at, uint64_t limit) {
    SegmentState& state = out_.segments[index];
    uint64_t epoch = 0;
    uint64_t offset = kSegmentHeaderBytes;
    state.end = offset;
    RecordView record;
    while (offset < limit) {
      const bool good = record.parse(volume_.local(at + offset), limit - offset, record_seed(state.sequence, offset));
      if (!good) {
        judge_tail(index, at, offset, limit);
        return;
      }
      if (record.kind == RecordKind::kEpoch) {
        epoch = record.epoch;
        out_.epoch_max = std::max(out_.epoch_max, epoch);
      }
      if (epoch > closed_epoch_) {
        state.truncate = true;
      } else {
        for (const Update& update : record.updates) consider(update, index);
        state.end = offset + record.bytes;
      }
      offset += record.bytes;
    }
  }

  // An invalid record: the end of an open segment, unless a valid record lies behind it or the segment has a sealed
  // end. Level buffered: records of the epochs behind the closed one may survive in any pieces, so only the mark of the
  // first of them, or an earlier mark, tells that what is missing before it had been durable.
  void judge_tail(uint32_t index, Addr at, uint64_t offset, uint64_t limit) {
    SegmentState& state = out_.segments[index];
    bool damaged = state.sealed && !state.truncate;
    RecordView record;
    for (uint64_t probe = offset + 8; !state.truncate && !damaged && probe + kRecordBytesMin <= limit; probe += 8) {
      const bool good = record.parse(volume_.local(at + probe), limit - probe, record_seed(state.sequence, probe));
      const bool mark = good && record.kind == RecordKind::kEpoch;
      damaged = durable_ ? good : mark && record.epoch <= closed_epoch_ + 1;
    }
    if (damaged) {
      damage(place("log record", at + offset), "it fails its checksum; its keys are unknown", Fence(),
             Fence::infinite());
    }
  }

  void consider(const Update& update, uint32_t segment) {
    ++out_.log_records;
    out_.gen_max = std::max(out_.gen_max, update.gen);
    const size_t tile = find_tile(out_.tiles, base::Key::of(update.key));
    if (tile == out_.tiles.size()) return;  // in a gap, which is reported
    if (update.gen > out_.dnodes[out_.tiles[tile].dnode]->gen()) out_.tiles[tile].records.push_back({update, segment});
  }

  void choose_winners() {
    for (Tile& tile : out_.tiles) {
      auto& records = tile.records;
      std::sort(records.begin(), records.end(), [](const LiveRecord& a, const LiveRecord& b) {
        if (a.update.key != b.update.key) return a.update.key < b.update.key;
        if (a.update.gen != b.update.gen) return a.update.gen > b.update.gen;
        return a.update.token > b.update.token;
      });
      records.erase(std::unique(records.begin(), records.end(),
                                [](const LiveRecord& a, const LiveRecord& b) { return a.update.key == b.update.key; }),
                    records.end());
      for (const LiveRecord& record : records) ++out_.segments[record.segment].live_records;
    }
  }

  void damage(std::string where, std::string what, const Fence& lo, const Fence& hi) {
    out_.damages.push_back({std::move(where), std::move(what), base::printable_range(lo, hi)});
  }

  const scale::Volume& volume_;
  const Pool& pool_;
  Analysis& out_;
  uint64_t closed_epoch_ = 0;
  bool durable_ = true;
};

}  // namespace

void analyse(const scale::Volume& volume, const Pool& pool, Analysis* analysis) {
  Analyst(volume, pool, analysis).run();
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

size_t find_tile(const std::vector<Tile>& tiles, const base::Key& key) {
  const auto above = std::upper_bound(tiles.begin(), tiles.end(), key,
                                      [](const base::Key& k, const Tile& tile) { return k < tile.lo.key(); });
  if (above == tiles.begin()) return tiles.size();
  const auto tile = std::prev(above);
  return tile->hi.above(key) ? static_cast<size_t>(tile - tiles.begin()) : tiles.size();
}

}  // namespace bonsai::persist
