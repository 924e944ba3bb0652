// SPDX-License-Identifier: Apache-2.0
// The analysis of the log: one segment at a time.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "persist/analysis.h"
#include "persist/words.h"
#include "scale/read_batch.h"

namespace bonsai::persist {

using base::Fence;
using scale::Addr;

namespace {

// The bytes of one segment: where they are mapped, else the window of them that was carried last.
class SegmentBytes {
 public:
  SegmentBytes(const scale::Volume& volume, Addr at)
      : volume_(volume), at_(at), mapped_(scale::ReadBatch(volume).mapped(at)) {}

  [[nodiscard]] bool carries() const { return mapped_ == nullptr; }
  // From here on nothing is likely to be needed.
  void expect_end(uint64_t offset) { expected_end_ = offset; }

  // At least [offset, offset + n), and what is there of the bytes up to `limit`; empty: it cannot be read. The last
  // span is no longer valid. Requires: offset + n <= limit, and n > 0.
  std::span<const std::byte> from(uint64_t offset, uint64_t n, uint64_t limit) {
    BONSAI_INVARIANT(n > 0 && offset < limit && n <= limit - offset);
    if (!carries()) return {mapped_ + offset, limit - offset};
    const bool here = offset >= begin_ && offset + n <= begin_ + bytes_;
    if (!here && !read(offset, n, limit)) return {};
    return {window_ + (offset - begin_), std::min(begin_ + bytes_, limit) - offset};
  }

 private:
  static constexpr uint64_t kWindowBytesMin = 4096, kWindowBytesMax = uint64_t{128} << 10;

  bool read(uint64_t offset, uint64_t n, uint64_t limit) {
    const uint64_t expected = expected_end_ - std::min(expected_end_, offset);
    const uint64_t wanted = std::max(n, std::clamp(expected, kWindowBytesMin, kWindowBytesMax));
    begin_ = offset;
    bytes_ = std::min(wanted, limit - offset);
    window_ = reads_.emplace(volume_).issue(at_ + offset, bytes_);
    if (reads_->wait().ok()) return true;
    bytes_ = 0;
    return false;
  }

  const scale::Volume& volume_;
  const Addr at_;
  const std::byte* const mapped_;  // null: it is carried
  uint64_t expected_end_ = 0;
  std::optional<scale::ReadBatch> reads_;  // of the window
  const std::byte* window_ = nullptr;
  uint64_t begin_ = 0, bytes_ = 0;  // of the window
};

class SegmentReader {
 public:
  SegmentReader(const scale::Volume& volume, const SegmentPlace& place, const LogTerms& terms, const TileTable& tiles,
                SegmentRead* out)
      : volume_(volume),
        at_(place.at),
        entry_(place.entry),
        index_(place.index),
        word_(place.word),
        seed_(place_seed(volume, place.at)),
        bytes_(volume, place.at),
        terms_(terms),
        tiles_(tiles),
        out_(*out),
        state_(out->state) {}

  void run() {
    const std::optional<uint64_t> sequence = value_of_word(volume_, at_, word_);
    if (!sequence) return damage("log segment", at_, "its word fails its check; its records are unknown");
    out_.sequence_max = state_.sequence = *sequence;
    state_.end = kSegmentHeaderBytes;
    const std::optional<uint64_t> entered = load_word(volume_, entry_ + offsetof(SegmentEntry, sequence));
    if (!entered) return damage_entry("it fails its check; which records count is unknown");
    if (*entered > *sequence) {
      return damage("log segment", at_, "it is of an earlier opening than the log table; its records are unknown");
    }
    if (*entered < *sequence) return read_opening();
    state_.entered = true;
    const std::optional<uint64_t> end = load_word(volume_, entry_ + offsetof(SegmentEntry, end), *sequence);
    if (!end || *end >> 1 > terms_.segment_bytes)
      return damage_entry("it fails its check; which records count is unknown");
    state_.noted = noted_ = *end >> 1;
    state_.sealed = (*end & 1) != 0;
    bytes_.expect_end(state_.sealed ? noted_ : noted_ + note_bytes_);
    read_records(state_.sealed ? noted_ : terms_.segment_bytes);
  }

 private:
  // Requires: offset < limit.
  [[nodiscard]] bool parse(uint64_t offset, uint64_t limit) {
    const uint32_t seed = record_seed(seed_, state_.sequence, offset);
    const uint64_t room = limit - offset;
    for (uint64_t wanted = std::min(kRecordBytesMin, room); !out_.unavailable;) {
      const std::span<const std::byte> bytes = bytes_.from(offset, wanted, limit);
      if (bytes.empty()) break;
      if (record_.parse(bytes.data(), bytes.size(), seed)) return true;
      if (record_.bytes <= bytes.size() || record_.bytes > room) return false;
      wanted = record_.bytes;
    }
    out_.unavailable = true;
    return false;
  }

  // The segment was being opened. Its records come after its entry.
  void read_opening() {
    if (parse(kSegmentHeaderBytes, terms_.segment_bytes)) damage_entry("it is of an earlier opening than the segment");
  }

  void read_records(uint64_t limit) {
    uint64_t epoch = 0;
    uint64_t offset = kSegmentHeaderBytes;
    while (offset < limit) {
      if (!parse(offset, limit)) {
        offset = judge_tail(offset, limit);
        continue;
      }
      if (record_.kind == RecordKind::kEpoch) {
        epoch = record_.epoch;
        out_.epoch_max = std::max(out_.epoch_max, epoch);
      }
      check_noted(offset, epoch);
      if (epoch > terms_.closed_epoch) {
        state_.truncate = true;
      } else {
        if (record_.kind == RecordKind::kShare) note_share(offset);
        for (const Update& update : record_.updates) consider(update);
        state_.end = offset + record_.bytes;
      }
      offset += record_.bytes;
    }
  }

  void note_share(uint64_t offset) { out_.share = {state_.sequence - record_.share.number, record_.share, offset}; }

  // The entry must have kept pace. Mode durable: with every record but the last, which may be in flight. Mode buffered:
  // with every record of a closed epoch.
  void check_noted(uint64_t offset, uint64_t epoch) {
    const bool behind = terms_.durable ? std::exchange(last_is_ahead_, offset >= noted_ + note_bytes_)
                                       : epoch <= terms_.closed_epoch && offset >= noted_;
    if (behind && !state_.sealed && !std::exchange(reported_behind_, true)) {
      damage_entry("it is of an earlier state than the segment");
    }
  }

  // An invalid record: the end of an open segment, unless it is before the noted end. Mode durable: or unless a valid
  // record follows it, before any that is not noted can begin. Mode buffered: records of epochs after the closed one
  // may survive in any pieces. Returns where to go on after damage; `limit` where there is nothing more.
  uint64_t judge_tail(uint64_t offset, uint64_t limit) {
    if (state_.truncate) return limit;
    const bool damaged = offset < noted_;
    if (damaged) damage_record(offset);
    const uint64_t probes_end = damaged ? limit : terms_.durable ? std::min(limit, noted_ + note_bytes_) : 0;
    for (uint64_t probe = offset + 8; probe < probes_end && probe + kRecordBytesMin <= limit; probe += 8) {
      if (!parse(probe, limit)) continue;
      if (!damaged) damage_record(offset);
      return probe;
    }
    return limit;
  }

  void damage_record(uint64_t offset) {
    damage("log record", at_ + offset, "it fails its checksum; its keys are unknown");
  }

  void damage_entry(const char* why) { damage("log table", entry_, why); }

  void consider(const Update& update) {
    ++out_.records;
    out_.gen_max = std::max(out_.gen_max, update.gen);
    const size_t tile = tiles_.find(base::Key::of(update.key));
    if (tile == tiles_.size()) return;  // in a gap, which is reported
    if (update.gen <= tiles_.gen(tile)) return;
    out_.counted.push_back({tile, {update, index_}});
    if (!bytes_.carries()) return;
    Update& kept = out_.counted.back().record.update;
    kept.key = out_.kept.keep(update.key);
    kept.value = out_.kept.keep(update.value);
  }

  void damage(const char* what, Addr where, const char* why) {
    out_.damages.push_back({place_text(what, where), why, base::printable_range(Fence(), Fence::infinite())});
  }

  const scale::Volume& volume_;
  const Addr at_, entry_;
  const uint32_t index_;
  const uint64_t word_;
  const uint64_t seed_;
  SegmentBytes bytes_;
  const LogTerms& terms_;
  const TileTable& tiles_;
  SegmentRead& out_;
  SegmentState& state_;
  RecordView record_;
  uint64_t noted_ = 0;  // all before it is durable
  const uint64_t note_bytes_ = note_bytes(terms_.segment_bytes);
  bool last_is_ahead_ = false, reported_behind_ = false;
};

}  // namespace

std::string_view KeptBytes::keep(std::string_view bytes) {
  if (bytes.empty()) return {};
  if (bytes.size() > room_) {
    room_ = std::max(bytes.size(), kChunkBytes);
    free_ = chunks_.emplace_back(new char[room_]).get();
  }
  std::memcpy(free_, bytes.data(), bytes.size());
  const std::string_view kept(free_, bytes.size());
  free_ += bytes.size();
  room_ -= bytes.size();
  return kept;
}

TileTable::TileTable(const std::vector<Tile>& tiles, const std::vector<std::unique_ptr<Dnode>>& dnodes)
    : tiles_(tiles) {
  heads_.reserve(tiles.size());
  for (size_t i = 0; i < tiles.size(); ++i) {
    const bool gap = i + 1 < tiles.size() ? !(tiles[i].hi == tiles[i + 1].lo) : !tiles[i].hi.is_infinite();
    heads_.push_back({tiles[i].lo.key().head, dnodes[tiles[i].dnode]->gen(), gap});
  }
}

size_t TileTable::find(const base::Key& key) const {
  const auto above = std::upper_bound(heads_.begin(), heads_.end(), key.head,
                                      [](uint64_t head, const TileHead& tile) { return head < tile.head; });
  auto tile = static_cast<size_t>(above - heads_.begin());
  // Tiles of equal heads: the whole keys decide.
  while (tile > 0 && heads_[tile - 1].head == key.head && key < tiles_[tile - 1].lo.key()) --tile;
  if (tile == 0) return size();
  return !heads_[tile - 1].gap_behind || tiles_[tile - 1].hi.above(key) ? tile - 1 : size();
}

void read_segment(const scale::Volume& volume, const SegmentPlace& place, const LogTerms& terms, const TileTable& tiles,
                  SegmentRead* read) {
  SegmentReader(volume, place, terms, tiles, read).run();
}

std::string place_text(const char* what, Addr addr) {
  char text[96];
  std::snprintf(text, sizeof text, "%s at target %zu offset 0x%llx", what, addr.target(),
                static_cast<unsigned long long>(addr.offset()));
  return text;
}

}  // namespace bonsai::persist
