// SPDX-License-Identifier: Apache-2.0
// The log: makes updates durable before they are visible. Append-only streams, one per worker, cut into segments.
//
// Invariants
//  - a segment's records follow its header without gaps; a record is acknowledged only after it and all before it
//    in its segment are durable (mode durable), or once its epoch is closed (mode buffered);
//  - a segment is reused only after every record in it is dead: superseded by a durable newer record of the same key,
//    or covered by a persisted dnode of its generation;
//  - the log table on NVM names the sealed end of a segment, and for an open one a lower bound of its durable end, so
//    that a damaged record before that bound is distinguished from a torn tail. It covers, in mode durable, all
//    but at most the last note_bytes() and, after note_ends(), everything; in mode buffered, all closed epochs.
//  - of the segments on far targets those that a stream has open are resident, at most, but for the ones that it sealed
//    since the last epoch was closed.
// Not promised: any order between streams, except epochs.
//
// A stream is held by one thread for the time of one append; there are more streams than cores, and a thread whose
// stream is held uses the next one, so no thread waits for a preempted holder unless all streams are held.
#ifndef BONSAI_PERSIST_LOG_H_
#define BONSAI_PERSIST_LOG_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "persist/format.h"
#include "persist/record.h"
#include "scale/volume.h"

namespace bonsai::persist {

inline constexpr uint32_t kNoSegment = UINT32_MAX;
inline constexpr size_t kStreamsMax = 64;

class Log {
 public:
  enum class Use {
    kOrdinary,  // leaves the reserve alone
    kReserve,   // deletes, and second records of updates that were already persisted once
    kBatch,     // the record of a begun batch, by its owner: takes the last segments
  };
  enum class Result {
    kOk,
    kFull,    // nothing was written; offloading frees segments
    kFailed,  // the volume has failed: recovery may or may not find the record
    kHeld,    // all streams were held for longer than a bounded wait, so nothing was written; try again
  };

  struct Config {
    std::vector<scale::Addr> segments;  // all segments of the pool
    std::vector<scale::Addr> entries;   // of the log table, one for each
    scale::Addr epoch, epoch_copy;      // where the closed epoch is noted
    uint64_t segment_bytes = 0;
    bool buffered = false;
    uint64_t window_ms = 0;  // mode buffered: no update should wait longer for its epoch's end
  };

  // Where a target of the pool has its marks (old_copy.h).
  struct Marks {
    scale::Addr begun, opened;
    uint64_t tie = 0;
  };

  virtual ~Log() = default;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // From now on the marks are kept. Requires: no append yet.
  void set_marks(std::vector<Marks> marks) { marks_ = std::move(marks); }

  // Appends one record and makes it durable (mode durable) before it returns. *segment names the segment that the
  // record keeps alive until release(); only kOk sets it.
  // Requires: update.record_bytes() <= record_bytes_max().
  virtual Result append(const Update& update, Use use, uint32_t* segment) = 0;

  // Takes the place of an update in its order, at the last moment at which the log can still do without a record of it.
  class Placing {
   public:
    // False: the place is taken, and there is to be no record.
    virtual bool place() = 0;

   protected:
    ~Placing() = default;
  };
  // As append(), but first calls placing->place(), once nothing but a failure of the volume can prevent the record:
  // there is room, and the caller holds a stream. If that returns false nothing is written, and kOk leaves *segment.
  // So an update that has got its place always gets its record, however full the log is.
  virtual Result append_placed(const Update& update, Use use, Placing* placing, uint32_t* segment) = 0;

  // Appends a batch as one record, as append() does; it counts as updates.size() records of *segment.
  virtual Result append_batch(std::span<const Update> updates, Use use, uint32_t* segment) = 0;

  // Appends a batch that does not fit into a record, cut into shares. Each share goes to one of `segments`, which
  // take() returned for the batch; unused ones become free. Recovery counts all shares or none. All segments become
  // free together, when updates.size() records of *segment are released. Never kFull.
  virtual Result append_shares(std::span<const Update> updates, std::span<const uint32_t> segments,
                               uint32_t* segment) = 0;

  // Takes free segments for a batch. kFull: none was taken; until that many are free, ordinary appends leave the free
  // ones alone and the log is low(). A caller that gives up calls want_none(); one that has segments and does not
  // append gives them back.
  Result take(size_t count, std::vector<uint32_t>* segments);
  void give_back(const std::vector<uint32_t>& segments);
  void want_none() { wanted_.store(0, std::memory_order_relaxed); }

  // Counts the segments that a batch needs, from an upper bound of the bytes of each update.
  class Packing {
   public:
    explicit Packing(const Log& log) : bytes_max_(log.record_bytes_max() - kBatchOverheadBytesMax) {}
    // False: the update begins a new segment.
    bool add(uint64_t bytes) {
      BONSAI_CHECK(bytes <= bytes_max_);
      bytes_ += bytes;
      const bool fits = bytes_ <= bytes_max_;
      if (!fits) ++segments_, bytes_ = bytes;
      return fits;
    }
    [[nodiscard]] size_t segments() const { return segments_; }  // 1: it fits into a record

   private:
    const uint64_t bytes_max_;
    uint64_t bytes_ = 0;
    size_t segments_ = 1;
  };
  // The number of segments that a batch can get, by offloading if necessary.
  [[nodiscard]] size_t batch_segments_max() const;
  // A batch always fits if its updates, with kUpdateOverheadBytesMax for each, take at most this many bytes: at least a
  // quarter of the log.
  [[nodiscard]] uint64_t batch_bytes_max() const;

  // Mode buffered: closes the current epoch: everything appended before the call is durable when it returns OK.
  // Mode durable: does nothing. Errors: Unavailable (a stream was held for longer than a bounded wait; try again),
  // IoError (the volume has failed).
  [[nodiscard]] virtual Status close_epoch() = 0;

  // Mode durable: notes how far the open segments are durable. To be called when appends pause, because damage before a
  // noted end is distinguished from a torn tail. Leaves out streams that are in use. Errors: IoError (the volume has
  // failed).
  [[nodiscard]] virtual Status note_ends() = 0;

  // Mode buffered: the longest time so far between an update and the close of the epoch that made it durable, and how
  // often that time exceeded Config::window_ms. Both are upper bounds.
  [[nodiscard]] uint64_t window_us_max() const { return window_us_max_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t window_excesses() const { return window_excesses_.load(std::memory_order_relaxed); }

  // Seals every open segment, so that the next recovery knows all ends, and empties the free ones, so that it reads
  // none of their records. Requires: no append runs any more. Errors: IoError (the volume has failed).
  [[nodiscard]] virtual Status seal_all() = 0;

  // Runs `action` once everything appended before the call is durable: at once in mode durable, when the current epoch
  // is closed in mode buffered. Used to free data that is superfluous only once a newer record is durable. Thread-safe.
  void when_durable(std::function<void()> action);

  // Marks `records` records of a segment as dead. Thread-safe.
  void release(uint32_t segment, int64_t records = 1);

  // Recovery: the segment holds `records` live records and must be kept until they are released, and with it the others
  // that hold the rest of its batch. Requires: no append yet.
  void adopt(uint32_t segment, uint64_t sequence, int64_t records, std::vector<uint32_t> others = {});
  // Recovery ends: all segments that were not adopted are free. `sequence` and `epoch`: above all that were ever used.
  void start(uint64_t sequence, uint64_t epoch);

  [[nodiscard]] uint64_t record_bytes_max() const {
    return config_.segment_bytes - kSegmentHeaderBytes - kEpochRecordBytes;
  }
  [[nodiscard]] size_t segments() const { return config_.segments.size(); }
  [[nodiscard]] size_t segments_free() const { return free_count_.load(std::memory_order_relaxed); }
  [[nodiscard]] size_t segments_reserved() const { return reserved_; }
  [[nodiscard]] size_t segments_for_batches() const { return reserved_ / 2; }  // that only Use::kBatch takes
  [[nodiscard]] uint64_t segment_bytes() const { return config_.segment_bytes; }
  [[nodiscard]] bool buffered() const { return config_.buffered; }
  // True when an ordinary append may soon find the log full: time to offload. Not earlier: the longer a range collects
  // updates before it is offloaded, the fewer bytes are written per update.
  [[nodiscard]] bool low() const {
    return segments_free() < reserved_ + std::max(segments_low(), wanted_.load(std::memory_order_relaxed));
  }
  // Free segments, those in reserve not counted, at which the log begins to be low.
  [[nodiscard]] size_t segments_low() const { return std::max<size_t>(1, segments() / 16); }
  [[nodiscard]] bool full() const { return segments_free() <= reserved_; }

 protected:
  struct Segment {
    std::atomic<int64_t> live{0};  // records alive, plus kOpenBias while open
    uint64_t sequence = 0;
    std::vector<uint32_t> others;  // that become free with this one
  };
  static constexpr int64_t kOpenBias = int64_t{1} << 40;
  static constexpr int64_t kHeldByAnother = 1;  // of Segment::others

  explicit Log(Config config);

  // Takes a free segment; kNoSegment when only the reserve (or nothing) is left.
  uint32_t take_free(Use use);
  void give_free(uint32_t segment);
  // The free segments. Requires: no append runs.
  [[nodiscard]] const std::vector<uint32_t>& free_segments() const { return free_; }
  // Runs the actions that waited for `epoch` or an earlier one.
  void epoch_closed(uint64_t epoch);
  // Notes that the updates of the last `ns` have just become durable. By one thread at a time.
  void note_window(uint64_t ns);

  Config config_;
  std::vector<Segment> table_;
  std::vector<Marks> marks_;
  std::atomic<uint64_t> next_sequence_{1};
  std::atomic<uint64_t> epoch_{1};

 private:
  std::atomic<uint64_t> window_us_max_{0}, window_excesses_{0};
  struct Waiting {
    uint64_t epoch;
    std::function<void()> action;
  };
  std::mutex waiting_mutex_;
  std::vector<Waiting> waiting_;

  std::mutex free_mutex_;
  std::vector<uint32_t> free_;
  std::atomic<size_t> free_count_{0};
  std::atomic<size_t> wanted_{0};  // the number that a batch waits for
  size_t reserved_;
};

// No log, for a store that is not durable: an append only names a segment, so that callers release it as usual. It uses
// only the record bound of `config`.
std::unique_ptr<Log> make_no_log(Log::Config config);

// The log over a volume of one kind of medium.
template <class Medium>
std::unique_ptr<Log> make_log(scale::VolumeOf<Medium>& volume, Log::Config config);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_LOG_H_
