// SPDX-License-Identifier: Apache-2.0
// Reads a pool without writers: finds which dnodes are live, which log records count, and what is damaged.
// Recovery and the offline check share it; it changes nothing.
//
// Rules (docs/design.md, section 4)
//  - for any key the valid, unretired dnode of the highest generation that covers it is the live one;
//  - a record counts if its generation is above that of the live dnode of its key; of those the highest
//    (generation, token) wins;
//  - mode buffered: records of epochs that were not closed do not count;
//  - a key range without a live dnode, and an invalid record with valid ones after it, are damage.
// Time grows with the number of dnode headers and the log, not with the bytes stored. Of far targets headers become
// resident. Of the log the segments' words and what was appended are carried, in windows, and of these only records
// that may count are kept. If the pool was closed, nothing is read of segments without records.
#ifndef BONSAI_PERSIST_ANALYSIS_H_
#define BONSAI_PERSIST_ANALYSIS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bonsai/damage.h"
#include "bonsai/options.h"
#include "persist/dnode.h"
#include "persist/log.h"
#include "persist/pool.h"
#include "persist/record.h"

namespace bonsai::persist {

// Copies of bytes, at addresses that stay, also when the object is moved.
class KeptBytes {
 public:
  std::string_view keep(std::string_view bytes);

 private:
  static constexpr size_t kChunkBytes = 16384;
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* free_ = nullptr;
  size_t room_ = 0;
};

struct LiveRecord {
  Update update;  // views into the log, or into Analysis::kept
  uint32_t segment = kNoSegment;
};

// A piece of the key space and the dnode that is live there. A dnode may be live on a part of its range only.
struct Tile {
  base::Fence lo, hi;
  size_t dnode = 0;                 // index into Analysis::dnodes
  std::vector<LiveRecord> records;  // winners, sorted by key
};

struct SegmentState {
  uint64_t sequence = 0;  // 0: never used
  bool sealed = false;
  bool entered = false;        // its entry in the log table is of this opening, not of an earlier one
  uint64_t noted = 0;          // all before it was durable
  uint64_t end = 0;            // after the last record that counts
  bool truncate = false;       // records after `end` belong to epochs that were not closed
  int64_t live_records = 0;    // winners; a batch in several segments is counted in its first
  uint32_t home = kNoSegment;  // the first segment of that batch, if it is not this one
};

struct Analysis {
  std::vector<std::unique_ptr<Dnode>> dnodes;  // valid and unretired, in no order
  std::vector<bool> dnode_whole;               // live on its whole range
  std::vector<bool> dnode_live;                // live anywhere
  std::vector<Tile> tiles;                     // tile the key space in order, but for gaps that are in `damages`
  std::vector<SegmentState> segments;
  struct HeaderExtent {
    scale::Addr at;
    uint64_t writes = 0;  // sum over its slots once torn ones are cleared
    bool operator==(const HeaderExtent&) const = default;
  };
  struct EntryRepair {
    scale::Addr entry;
    uint64_t value = 0;
  };
  struct TornSlot {
    scale::Addr slot;
    uint32_t writes = 0;  // to be written when it is cleared
  };
  std::vector<HeaderExtent> header_extents;
  std::vector<EntryRepair> damaged_extent_entries;  // their check fails; contents known from elsewhere
  std::vector<scale::Addr> free_slots;              // header slots that hold nothing live
  std::vector<TornSlot> torn_slots;                 // the free slots that hold nothing valid
  uint64_t gen_max = 0;
  uint64_t sequence_max = 0;
  uint64_t epoch_max = 0;
  uint64_t log_records = 0;
  std::vector<KeptBytes> kept;  // records of the log that were carried
  bool clean = false;
  std::vector<Damage> damages;

  // Damages that recovery repairs from other copies. No key is affected.
  [[nodiscard]] std::vector<Damage> repairs() const;
};

struct AnalysisOptions {
  unsigned threads = 1;
  std::function<void(double)> progress;  // called with the share that is done, 0..1, by the calling thread
};

// Requires: pool was read from this volume. Unsound data is damage, not an error. The outcome does not depend on
// the number of threads. Errors: Unavailable (of a far target), and then the analysis has no result.
[[nodiscard]] Status analyse(const scale::Volume& volume, const Pool& pool, Analysis* analysis,
                             const AnalysisOptions& options = {});

// Finds the tile of a key without touching the tiles: an array of the heads of their first keys and their generations.
class TileTable {
 public:
  // Requires: the tiles outlive the table and do not move.
  TileTable(const std::vector<Tile>& tiles, const std::vector<std::unique_ptr<Dnode>>& dnodes);

  // The tile of `key`, or tiles.size() if it falls into a gap.
  [[nodiscard]] size_t find(const base::Key& key) const;
  [[nodiscard]] uint64_t gen(size_t tile) const { return heads_[tile].gen; }
  [[nodiscard]] size_t size() const { return heads_.size(); }

 private:
  struct TileHead {
    uint64_t head, gen;
    bool gap_behind;
  };
  const std::vector<Tile>& tiles_;
  std::vector<TileHead> heads_;
};

// The contents of one log segment.
struct SegmentRead {
  struct Counted {
    size_t tile;
    LiveRecord record;
  };
  // One share of a batch that is cut into shares. It counts only if all other shares of the batch are found.
  struct OfShare {
    uint64_t first_sequence = 0;  // of the first share's segment; it and the count identify the batch
    Share share;
    uint64_t offset = 0;  // of its record
  };
  SegmentState state;
  std::vector<Counted> counted;  // records that are newer than the dnode of their tile
  std::optional<OfShare> share;  // if set, `counted` are all its updates
  std::vector<Damage> damages;
  uint64_t records = 0, gen_max = 0, sequence_max = 0, epoch_max = 0;
  KeptBytes kept;            // of `counted`, if the segment was carried
  bool unavailable = false;  // it could not be read, and nothing is known
};

// Options of reading the log.
struct LogTerms {
  uint64_t segment_bytes = 0;
  uint64_t closed_epoch = 0;  // mode buffered: records of later epochs do not count
  bool durable = true;        // the mode in which the log was last written
};

// The places of a segment and of its entry in the log table.
struct SegmentPlace {
  scale::Addr at, entry;
  uint32_t index = 0;
  uint64_t word = 0;  // the segment's first
};

// Reads one segment. Thread-safe.
void read_segment(const scale::Volume& volume, const SegmentPlace& place, const LogTerms& terms, const TileTable& tiles,
                  SegmentRead* read);

// "what at target 0 offset 0x1000"
std::string place_text(const char* what, scale::Addr addr);

// Calls visit(LargeRef) for each large value of a dnode. False if an entry is damaged or cannot be read.
bool for_each_large(const scale::Volume& volume, const Dnode& dnode, const std::function<void(const LargeRef&)>& visit);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_ANALYSIS_H_
