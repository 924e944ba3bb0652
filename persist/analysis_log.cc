// The analysis of the log: one segment at a time.
#include <algorithm>
#include <cstring>

#include "persist/analysis.h"

namespace bonsai::persist {

using base::Fence;
using scale::Addr;

namespace {

class SegmentReader {
 public:
  SegmentReader(const scale::Volume& volume, Addr at, uint32_t index, const LogTerms& terms, const TileTable& tiles,
                SegmentRead* out)
      : volume_(volume), at_(at), index_(index), terms_(terms), tiles_(tiles), out_(*out), state_(out->state) {}

  void run() {
    SegmentHeader header;
    std::memcpy(&header, volume_.local(at_), sizeof header);
    out_.sequence_max = header.sequence;  // of a torn header too: its records may be there
    if (header.magic == 0) return;
    if (header.magic != kSegmentMagic || header.crc != header.computed_crc() || header.pool_id != terms_.pool_id) {
      return damage("log segment header", at_, "it fails its checksum; its records are unknown");
    }
    state_.sequence = header.sequence;
    uint64_t limit = terms_.segment_bytes;
    if (header.end != 0) {
      const uint64_t end = header.end & kCheckedWordMax;
      if (!checked_word_ok(header.end, kSegmentEndSeed + header.sequence) || end > limit) {
        return damage("log segment end", at_, "it fails its check; which records count is unknown");
      }
      state_.sealed = true;
      limit = end;
    }
    read_records(limit);
  }

 private:
  [[nodiscard]] bool parse(uint64_t offset, uint64_t limit) {
    return record_.parse(volume_.local(at_ + offset), limit - offset, record_seed(state_.sequence, offset));
  }

  void read_records(uint64_t limit) {
    uint64_t epoch = 0;
    uint64_t offset = kSegmentHeaderBytes;
    state_.end = offset;
    while (offset < limit) {
      if (!parse(offset, limit)) {
        offset = judge_tail(offset, limit);
        continue;
      }
      if (record_.kind == RecordKind::kEpoch) {
        epoch = record_.epoch;
        out_.epoch_max = std::max(out_.epoch_max, epoch);
      }
      if (epoch > terms_.closed_epoch) {
        state_.truncate = true;
      } else {
        for (const Update& update : record_.updates) consider(update);
        state_.end = offset + record_.bytes;
      }
      offset += record_.bytes;
    }
  }

  // An invalid record: the end of an open segment, unless a valid record lies behind it or the segment has a sealed
  // end. Level buffered: records of the epochs behind the closed one may survive in any pieces, so only the mark of the
  // first of them, or an earlier mark, tells that what is missing before it had been durable.
  // Returns where to go on behind damage; `limit` where there is nothing more.
  uint64_t judge_tail(uint64_t offset, uint64_t limit) {
    if (state_.truncate) return limit;
    for (uint64_t probe = offset + 8; probe + kRecordBytesMin <= limit; probe += 8) {
      const bool good = parse(probe, limit);
      const bool mark = good && record_.kind == RecordKind::kEpoch;
      if (!(terms_.durable ? good : mark && record_.epoch <= terms_.closed_epoch + 1)) continue;
      damage_record(offset);
      return probe;
    }
    if (state_.sealed) damage_record(offset);
    return limit;
  }

  void damage_record(uint64_t offset) {
    damage("log record", at_ + offset, "it fails its checksum; its keys are unknown");
  }

  void consider(const Update& update) {
    ++out_.records;
    out_.gen_max = std::max(out_.gen_max, update.gen);
    const size_t tile = tiles_.find(base::Key::of(update.key));
    if (tile == tiles_.size()) return;  // in a gap, which is reported
    if (update.gen > tiles_.gen(tile)) out_.counted.push_back({tile, {update, index_}});
  }

  void damage(const char* what, Addr where, const char* why) {
    out_.damages.push_back({place_text(what, where), why, base::printable_range(Fence(), Fence::infinite())});
  }

  const scale::Volume& volume_;
  const Addr at_;
  const uint32_t index_;
  const LogTerms& terms_;
  const TileTable& tiles_;
  SegmentRead& out_;
  SegmentState& state_;
  RecordView record_;
};

}  // namespace

TileTable::TileTable(const std::vector<Tile>& tiles, const std::vector<std::unique_ptr<Dnode>>& dnodes)
    : tiles_(tiles) {
  places_.reserve(tiles.size());
  for (size_t i = 0; i < tiles.size(); ++i) {
    const bool gap = i + 1 < tiles.size() ? !(tiles[i].hi == tiles[i + 1].lo) : !tiles[i].hi.is_infinite();
    places_.push_back({tiles[i].lo.key().head, dnodes[tiles[i].dnode]->gen(), gap});
  }
}

size_t TileTable::find(const base::Key& key) const {
  const auto above = std::upper_bound(places_.begin(), places_.end(), key.head,
                                      [](uint64_t head, const Place& place) { return head < place.head; });
  auto tile = static_cast<size_t>(above - places_.begin());
  // Tiles of equal heads: the whole keys decide.
  while (tile > 0 && places_[tile - 1].head == key.head && key < tiles_[tile - 1].lo.key()) --tile;
  if (tile == 0) return size();
  return !places_[tile - 1].gap_behind || tiles_[tile - 1].hi.above(key) ? tile - 1 : size();
}

void read_segment(const scale::Volume& volume, Addr at, uint32_t index, const LogTerms& terms, const TileTable& tiles,
                  SegmentRead* read) {
  SegmentReader(volume, at, index, terms, tiles, read).run();
}

std::string place_text(const char* what, Addr addr) {
  char text[96];
  std::snprintf(text, sizeof text, "%s at target %zu offset 0x%llx", what, addr.target(),
                static_cast<unsigned long long>(addr.offset()));
  return text;
}

}  // namespace bonsai::persist
