// SPDX-License-Identifier: Apache-2.0
#include "persist/log.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/narrow.h"
#include "base/step.h"
#include "base/thread.h"
#include "bonsai/options.h"
#include "persist/pool.h"
#include "persist/sites.h"
#include "persist/words.h"

namespace bonsai::persist {

using scale::Addr;

Log::Log(Config config) : config_(std::move(config)), table_(config_.segments.size()) {
  reserved_ = std::max<size_t>(2, config_.segments.size() / 16);
  free_.reserve(config_.segments.size());  // so that giving back needs no memory
  BONSAI_CHECK(config_.segments.size() >= 4);
}

void Log::release(uint32_t segment, int64_t records) {
  BONSAI_INVARIANT(segment < table_.size() && records > 0);
  const int64_t before = table_[segment].live.fetch_sub(records, std::memory_order_acq_rel);
  BONSAI_CHECK(before >= records);  // else some record was given up twice
  if (before != records) return;
  when_durable([this, segment, others = std::exchange(table_[segment].others, {})] {
    give_free(segment);
    for (const uint32_t other : others) {
      BONSAI_INVARIANT(other != segment);
      give_free(other);
    }
  });
}

void Log::when_durable(std::function<void()> action) {
  if (!config_.buffered) return action();
  const std::lock_guard lock(waiting_mutex_);
  waiting_.push_back({epoch_.load(), std::move(action)});
}

void Log::adopt(uint32_t segment, uint64_t sequence, int64_t records, std::vector<uint32_t> others) {
  BONSAI_INVARIANT(segment < table_.size() && sequence > 0 && records > 0);
  table_[segment].sequence = sequence;
  table_[segment].live.store(records, std::memory_order_relaxed);
  for (const uint32_t other : others) table_[other].live.store(kHeldByAnother, std::memory_order_relaxed);
  table_[segment].others = std::move(others);
}

void Log::start(uint64_t sequence, uint64_t epoch) {
  for (const Segment& segment : table_) BONSAI_INVARIANT(segment.sequence < sequence);
  next_sequence_ = sequence;
  epoch_ = epoch;
  for (uint32_t i = base::checked_narrow<uint32_t>(table_.size()); i-- > 0;) {
    if (table_[i].live.load() == 0) give_free(i);
  }
}

uint32_t Log::take_free(Use use) {
  const std::lock_guard lock(free_mutex_);
  const size_t kept = use == Use::kOrdinary  ? reserved_ + wanted_.load(std::memory_order_relaxed)
                      : use == Use::kReserve ? segments_for_batches()
                                             : 0;
  if (free_.size() <= kept) return kNoSegment;
  const uint32_t segment = free_.back();
  free_.pop_back();
  free_count_.store(free_.size(), std::memory_order_relaxed);
  return segment;
}

Log::Result Log::take(size_t count, std::vector<uint32_t>* segments) {
  const std::lock_guard lock(free_mutex_);
  // A log of few segments keeps no more in reserve than was promised to other batches.
  const size_t kept = std::max(segments_for_batches(), std::min(reserved_, this->segments() / 8));
  const bool full = free_.size() < count + kept;
  wanted_.store(full ? count : 0, std::memory_order_relaxed);
  if (full) return Result::kFull;
  segments->assign(free_.end() - static_cast<ptrdiff_t>(count), free_.end());
  free_.resize(free_.size() - count);
  free_count_.store(free_.size(), std::memory_order_relaxed);
  return Result::kOk;
}

void Log::give_back(const std::vector<uint32_t>& segments) {
  for (const uint32_t segment : segments) give_free(segment);
}

// Leaves out the open segments (a quarter: LogOf's streams) and the segments that take() leaves.
size_t Log::batch_segments_max() const { return segments() * 9 / 16; }

// Each segment but the last is full except for less than one update, whatever their sizes.
uint64_t Log::batch_bytes_max() const {
  const uint64_t bytes = record_bytes_max() - kBatchOverheadBytesMax;
  const uint64_t update_max = kUpdateOverheadBytesMax + kKeyBytesMax + large_value_bytes_min(config_.segment_bytes);
  return bytes + (batch_segments_max() - 1) * (bytes - update_max);
}

void Log::give_free(uint32_t segment) {
  const std::lock_guard lock(free_mutex_);
  BONSAI_INVARIANT(segment < table_.size() && free_.size() < table_.size());
  BONSAI_SLOW_INVARIANT(std::find(free_.begin(), free_.end(), segment) == free_.end());
  free_.push_back(segment);
  free_count_.store(free_.size(), std::memory_order_relaxed);
}

void Log::epoch_closed(uint64_t epoch) {
  BONSAI_INVARIANT(epoch < epoch_.load());
  std::vector<Waiting> due;
  {
    const std::lock_guard lock(waiting_mutex_);
    const auto later = std::partition(waiting_.begin(), waiting_.end(), [&](auto& w) { return w.epoch > epoch; });
    due.assign(std::make_move_iterator(later), std::make_move_iterator(waiting_.end()));
    waiting_.erase(later, waiting_.end());
  }
  for (Waiting& waiting : due) waiting.action();
}

void Log::note_window(uint64_t ns) {
  const uint64_t us = ns / base::kNsPerUs;
  if (us > window_us_max()) window_us_max_.store(us, std::memory_order_relaxed);
  if (us > config_.window_ms * 1'000) window_excesses_.fetch_add(1, std::memory_order_relaxed);
}

namespace {

template <class Medium>
class LogOf final : public Log {
 public:
  LogOf(scale::VolumeOf<Medium>& volume, Config config)
      : Log(std::move(config)), volume_(volume), streams_(std::clamp<size_t>(segments() / 4, 1, kStreamsMax)) {}

  Result append(const Update& update, Use use, uint32_t* segment) override {
    const uint64_t bytes = update.record_bytes();
    return append_record(
        bytes, 1, use, segment, [] { return true; },
        [&](uint32_t seed, std::byte* out) { return encode_update(update, seed, out); });
  }

  Result append_placed(const Update& update, Use use, Placing* placing, uint32_t* segment) override {
    const uint64_t bytes = update.record_bytes();
    return append_record(
        bytes, 1, use, segment, [&] { return placing->place(); },
        [&](uint32_t seed, std::byte* out) { return encode_update(update, seed, out); });
  }

  Result append_batch(std::span<const Update> updates, Use use, uint32_t* segment) override {
    return append_record(
        batch_record_bytes(updates), static_cast<int64_t>(updates.size()), use, segment, [] { return true; },
        [&](uint32_t seed, std::byte* out) { return encode_batch(updates, seed, out); });
  }

  Result append_shares(std::span<const Update> updates, std::span<const uint32_t> segments, uint32_t* segment) override;
  Status close_epoch() override;
  Status note_ends() override;
  Status seal_all() override;

 private:
  struct alignas(2 * base::kLineBytes) Stream {
    std::atomic<bool> held{false};
    uint32_t segment = kNoSegment;
    uint64_t offset = 0;   // of the next record
    uint64_t flushed = 0;  // mode buffered: durable up to here, but for the fence
    uint64_t noted = 0;    // end in the log table
    uint64_t seed = 0;     // of the segment's place
    uint64_t epoch = 0;    // of the last epoch record in this segment
    int64_t records = 0;   // appended to this segment
    std::vector<std::byte> scratch;
  };

  // Holds one stream, the thread's own if it is free; none if all are held for too long.
  class Hold {
   public:
    explicit Hold(LogOf& log) {
      const size_t own = base::thread_ordinal() % log.streams_.size();
      base::BoundedWait wait("log stream", kHoldWaitMsMax);
      for (size_t i = own;; i = (i + 1) % log.streams_.size()) {
        if (!log.streams_[i].held.exchange(true, std::memory_order_acquire)) {
          stream_ = &log.streams_[i];
          return;
        }
        if ((i + 1) % log.streams_.size() == own) {
          if (wait.expired()) return;
          wait.pause();
        }
      }
    }
    ~Hold() {
      if (stream_ != nullptr) stream_->held.store(false, std::memory_order_release);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    Stream* operator->() { return stream_; }
    Stream& operator*() { return *stream_; }
    explicit operator bool() const { return stream_ != nullptr; }

   private:
    static constexpr uint64_t kHoldWaitMsMax = 1000;
    Stream* stream_ = nullptr;
  };

  template <class Place, class Encode>
  Result append_record(uint64_t bytes, int64_t records, Use use, uint32_t* segment, Place place, Encode encode) {
    BONSAI_CHECK(bytes <= record_bytes_max());
    Hold stream(*this);
    if (!stream) [[unlikely]]
      return Result::kHeld;
    // The stream's last record may be lost: nothing may follow it, nor a named end.
    if (volume_.fence_failed()) [[unlikely]]
      return Result::kFailed;
    const uint64_t mark_bytes = config_.buffered ? kEpochRecordBytes : 0;
    if (stream->segment == kNoSegment || stream->offset + bytes + mark_bytes > config_.segment_bytes) {
      if (const Result rolled = roll(*stream, use); rolled != Result::kOk) return rolled;
    }
    if (config_.buffered) mark_epoch(*stream);
    if (stream->scratch.size() < bytes) stream->scratch.resize(bytes);
    if (!place()) return Result::kOk;
    BONSAI_INVARIANT(encode(seed_of_next(*stream), stream->scratch.data()) == bytes);
    if (!config_.buffered && stream->offset - stream->noted >= note_bytes(config_.segment_bytes)) {
      note(*stream, stream->offset);
      volume_.flush(entry(*stream), sizeof(SegmentEntry), kSiteLogNote);
    }
    write(*stream, bytes);
    if (!config_.buffered && !volume_.fence(kSiteLogAppendFence)) return Result::kFailed;
    BONSAI_INVARIANT(stream->noted <= stream->offset && stream->offset <= config_.segment_bytes);
    stream->records += records;
    *segment = stream->segment;
    return Result::kOk;
  }

  [[nodiscard]] uint32_t seed_of_next(const Stream& stream) const {
    return record_seed(stream.seed, table_[stream.segment].sequence, stream.offset);
  }
  [[nodiscard]] Addr entry(const Stream& stream) const { return config_.entries[stream.segment]; }

  // Says in the log table that all before `end` is durable. Requires: it is. The caller flushes.
  void note(Stream& stream, uint64_t end) {
    BONSAI_INVARIANT(end > stream.noted && end <= stream.offset);
    store_word(volume_, entry(stream) + offsetof(SegmentEntry, end), segment_end(end, false),
               table_[stream.segment].sequence);
    stream.noted = end;
  }

  // Moves the scratch into the segment. Buffered records go through the cache, where close_epoch() flushes them.
  void write(Stream& stream, uint64_t bytes) {
    const Addr at = config_.segments[stream.segment] + stream.offset;
    if (config_.buffered) {
      volume_.copy(at, stream.scratch.data(), bytes);
    } else {
      volume_.nt_copy(at, stream.scratch.data(), bytes, kSiteLogAppend);
    }
    stream.offset += bytes;
  }

  void mark_epoch(Stream& stream) {
    const uint64_t epoch = epoch_.load();
    if (stream.epoch == epoch) return;
    BONSAI_INVARIANT(stream.epoch < epoch);
    if (stream.scratch.size() < kEpochRecordBytes) stream.scratch.resize(kEpochRecordBytes);
    encode_epoch(epoch, seed_of_next(stream), stream.scratch.data());
    write(stream, kEpochRecordBytes);
    stream.epoch = epoch;
  }

  Result roll(Stream& stream, Use use) {
    const uint32_t next = take_free(use);
    if (next == kNoSegment) return Result::kFull;
    // Mode durable does without, since its records do not wait in the segment for a flush.
    if (!volume_.open_blank(config_.segments[next], config_.segment_bytes).ok() && config_.buffered) {
      give_free(next);
      return Result::kFull;
    }
    const uint32_t last = stream.segment;
    BONSAI_INVARIANT(next != last && stream.records >= 0);
    const int64_t last_records = stream.records;
    if (last != kNoSegment && !seal(stream)) return Result::kFailed;
    open(stream, next);
    mark(&begun_, &Marks::begun, table_[next].sequence);
    if (!volume_.fence(kSiteSegmentOpenFence)) return Result::kFailed;
    enter(next);
    mark(&opened_, &Marks::opened, table_[next].sequence);
    if (!volume_.fence(kSiteSegmentEntryFence)) return Result::kFailed;
    if (last != kNoSegment) {
      let_go(last);
      drop_bias(last, last_records);
    }
    return Result::kOk;
  }

  // Ends the residence of a sealed segment, which this thread has fenced. Requires: it cannot become free yet. Mode
  // buffered: an epoch's closer may have begun to flush it, so it stays until one that begins later has fenced. That is
  // before the segment becomes free, which waits for the same closer.
  void let_go(uint32_t segment) {
    if (!config_.buffered) return volume_.close_blank(config_.segments[segment], config_.segment_bytes);
    const std::lock_guard lock(sealed_mutex_);
    sealed_.push_back(segment);
  }
  [[nodiscard]] std::vector<uint32_t> take_sealed() {
    const std::lock_guard lock(sealed_mutex_);
    return std::exchange(sealed_, {});
  }

  // Starts to note that a free segment has no records. They are dead, so that recovery need not read them. The caller
  // fences.
  void empty(uint32_t segment) {
    const Addr at = config_.entries[segment];
    const std::optional<uint64_t> sequence = load_word(volume_, at + offsetof(SegmentEntry, sequence));
    const std::optional<uint64_t> end = load_word(volume_, at + offsetof(SegmentEntry, end), sequence.value_or(0));
    if (!sequence || !end || *end == segment_end(kSegmentHeaderBytes, true)) return;
    seal_at(segment, *sequence, kSegmentHeaderBytes);
  }

  // Starts to write the end of the stream's segment (and, buffered, the bytes that were not flushed yet). The caller
  // fences. False: no write was begun, because the volume has failed.
  [[nodiscard]] bool seal(Stream& stream) {
    if (config_.buffered) {  // all of it: what close_epoch() has flushed it may not have fenced yet
      const Addr base = config_.segments[stream.segment];
      volume_.flush(base + kSegmentHeaderBytes, stream.offset - kSegmentHeaderBytes, kSiteSegmentFlush);
      if (!volume_.fence(kSiteSegmentFlushFence)) return false;
    }
    seal_at(stream.segment, table_[stream.segment].sequence, stream.offset);
    return true;
  }

  void seal_at(uint32_t segment, uint64_t sequence, uint64_t end) {
    const Addr entry = config_.entries[segment];
    store_word(volume_, entry + offsetof(SegmentEntry, end), segment_end(end, true), sequence);
    volume_.flush(entry, sizeof(SegmentEntry), kSiteSegmentSeal);
  }

  // Starts to write the segment's word. The caller fences, and then writes its entry: one that is ahead of the word is
  // damage, one that is older stands for a segment without records.
  void open(Stream& stream, uint32_t segment) {
    open_at(segment, next_sequence_.fetch_add(1));
    stream.segment = segment;
    stream.offset = stream.flushed = stream.noted = kSegmentHeaderBytes;
    stream.seed = place_seed(volume_, config_.segments[segment]);
    stream.epoch = 0;
    stream.records = 0;
  }

  void open_at(uint32_t segment, uint64_t sequence) {
    BONSAI_CHECK(sequence <= kCheckedWordMax);
    BONSAI_INVARIANT(sequence > table_[segment].sequence);
    table_[segment].sequence = sequence;
    table_[segment].live.store(kOpenBias, std::memory_order_relaxed);
    const uint64_t word = checked_word(sequence, place_seed(volume_, config_.segments[segment]));
    volume_.nt_copy(config_.segments[segment], &word, sizeof word, kSiteSegmentOpen);
  }

  // The second half of an opening. The caller fences, and then appends.
  void enter(uint32_t segment) {
    store_entry(volume_, config_.entries[segment], table_[segment].sequence, kSegmentHeaderBytes, false);
    volume_.flush(config_.entries[segment], sizeof(SegmentEntry), kSiteSegmentEntry);
  }

  // Starts to write a mark to all targets. It never falls, whichever thread comes first. The caller fences.
  void mark(uint64_t* last, Addr Marks::*word, uint64_t sequence) {
    if (marks_.empty()) return;
    const std::lock_guard lock(marks_mutex_);
    for (const Marks& marks : marks_) {
      if (sequence > *last) store_word(volume_, marks.*word, sequence, marks.tie);
      flush_state_word(volume_, marks.*word);
    }
    *last = std::max(*last, sequence);
  }

  // Writes a share into its open segment; returns its end. *buffer is used again for the next one.
  uint64_t write_share(std::span<const Update> updates, Share share, uint64_t epoch, uint32_t segment,
                       std::vector<std::byte>* buffer) {
    const Addr at = config_.segments[segment];
    const uint64_t offset = kSegmentHeaderBytes;
    buffer->resize(kEpochRecordBytes + share_record_bytes(updates, share));
    const auto seed = [&](uint64_t before) {
      return record_seed(place_seed(volume_, at), table_[segment].sequence, offset + before);
    };
    uint64_t encoded = 0;
    if (config_.buffered) encoded = encode_epoch(epoch, seed(0), buffer->data());
    encoded += encode_share(updates, share, seed(encoded), buffer->data() + encoded);
    BONSAI_INVARIANT(offset + encoded <= config_.segment_bytes);
    volume_.nt_copy(at + offset, buffer->data(), encoded, kSiteShare);
    return offset + encoded;
  }

  // Calls action(stream) for each, held. False if one was held by others for too long.
  template <class Action>
  [[nodiscard]] bool for_each_held(Action action);
  // Starts to write back what each stream has appended.
  [[nodiscard]] bool flush_streams(uint64_t epoch);
  // Starts to note what each stream has flushed, which is durable by now, of segments that are still open.
  [[nodiscard]] bool note_flushed();

  // The segment is sealed: from now on its count can reach zero.
  void drop_bias(uint32_t segment, int64_t records) {
    BONSAI_INVARIANT(records < kOpenBias);
    release(segment, kOpenBias - records);
  }

  scale::VolumeOf<Medium>& volume_;
  std::vector<Stream> streams_;
  base::YieldingMutex close_mutex_{"close epoch"};  // one closer at a time; never taken by an append
  base::YieldingMutex marks_mutex_{"log marks"};
  std::mutex sealed_mutex_;
  std::vector<uint32_t> sealed_;               // under it: segments that are resident until the next epoch is closed
  uint64_t begun_ = 0, opened_ = 0;            // under it: the marks
  uint64_t window_begin_ns_ = base::now_ns();  // of the oldest epoch that is not closed; under it, as the next
  bool window_has_updates_ = false;
};

// Mode buffered: the stream is held, so that the epoch in which all shares are is not closed before they are durable
// and sealed.
template <class Medium>
Log::Result LogOf<Medium>::append_shares(std::span<const Update> updates, std::span<const uint32_t> segments,
                                         uint32_t* segment) {
  std::optional<Hold> stream;
  if (config_.buffered) stream.emplace(*this);
  if (stream && !*stream) return Result::kHeld;
  if (volume_.fence_failed()) return Result::kFailed;
  std::vector<std::span<const Update>> shares;
  Packing packing(*this);
  size_t first = 0;
  for (size_t i = 0; i < updates.size(); ++i) {
    if (packing.add(updates[i].part_bytes())) continue;
    shares.push_back(updates.subspan(first, i - first));
    first = i;
  }
  shares.push_back(updates.subspan(first));
  BONSAI_CHECK(shares.size() <= segments.size());
  for (const uint32_t unneeded : segments.subspan(shares.size())) give_free(unneeded);
  segments = segments.first(shares.size());

  const uint64_t sequence = next_sequence_.fetch_add(shares.size());
  for (size_t i = 0; i < shares.size(); ++i) open_at(segments[i], sequence + i);
  mark(&begun_, &Marks::begun, sequence + shares.size() - 1);
  if (!volume_.fence(kSiteShareOpenFence)) return Result::kFailed;
  for (const uint32_t each : segments) enter(each);
  mark(&opened_, &Marks::opened, sequence + shares.size() - 1);
  if (!volume_.fence(kSiteShareEntryFence)) return Result::kFailed;
  const uint64_t epoch = epoch_.load();
  std::vector<std::byte> buffer;
  std::vector<uint64_t> ends;
  for (size_t i = 0; i < shares.size(); ++i) {
    table_[segments[i]].live.store(kHeldByAnother, std::memory_order_relaxed);
    ends.push_back(write_share(shares[i], {i, shares.size()}, epoch, segments[i], &buffer));
  }
  if (!volume_.fence(kSiteShareFence)) return Result::kFailed;
  // Only now: a sealed share states that all of them were durable.
  for (size_t i = 0; i < shares.size(); ++i) seal_at(segments[i], table_[segments[i]].sequence, ends[i]);
  if (!volume_.fence(kSiteShareSealFence)) return Result::kFailed;
  const uint32_t home = segments.front();
  table_[home].others.assign(segments.begin() + 1, segments.end());
  table_[home].live.store(static_cast<int64_t>(updates.size()), std::memory_order_release);
  *segment = home;
  return Result::kOk;
}

// The ends are durable before the epoch is, so a record of a closed epoch after the end is damage.
template <class Medium>
Status LogOf<Medium>::close_epoch() {
  if (!config_.buffered) return Status::OK();
  if (volume_.fence_failed()) return volume_.health();
  const std::lock_guard lock(close_mutex_);
  const uint64_t next_begin_ns = base::now_ns();
  const uint64_t closing = epoch_.fetch_add(1);
  const std::vector<uint32_t> sealed = take_sealed();
  const bool all_flushed = flush_streams(closing);
  // Also if a stream was held: the next closer, perhaps another thread, relies on the flushed bytes.
  if (!volume_.fence(kSiteEpochFlushFence)) return volume_.health();
  for (const uint32_t segment : sealed) volume_.close_blank(config_.segments[segment], config_.segment_bytes);
  if (!all_flushed || !note_flushed()) {
    return Status::Unavailable("the log's epoch could not be closed: a writer was preempted; try again");
  }
  if (!volume_.fence(kSiteEpochNoteFence)) return volume_.health();
  const Addr word = config_.epoch;
  store_word(volume_, word, closing);
  store_word(volume_, config_.epoch_copy, closing);
  volume_.flush(word, sizeof(uint64_t), kSiteEpochClose);
  volume_.flush(config_.epoch_copy, sizeof(uint64_t), kSiteEpochCloseCopy);
  if (!volume_.fence(kSiteEpochCloseFence)) return volume_.health();
  if (std::exchange(window_has_updates_, false)) note_window(base::now_ns() - window_begin_ns_);
  window_begin_ns_ = next_begin_ns;
  epoch_closed(closing);
  return Status::OK();
}

template <class Medium>
template <class Action>
bool LogOf<Medium>::for_each_held(Action action) {
  for (Stream& stream : streams_) {
    base::BoundedWait wait("close epoch", 1000);
    while (stream.held.exchange(true, std::memory_order_acquire)) {
      if (wait.expired()) return false;
      wait.pause();
    }
    action(stream);
    stream.held.store(false, std::memory_order_release);
  }
  return true;
}

template <class Medium>
bool LogOf<Medium>::flush_streams(uint64_t epoch) {
  return for_each_held([this, epoch](Stream& stream) {
    window_has_updates_ = window_has_updates_ || stream.epoch >= epoch;
    if (stream.segment == kNoSegment || stream.offset == stream.flushed) return;
    BONSAI_INVARIANT(stream.flushed < stream.offset);
    volume_.flush(config_.segments[stream.segment] + stream.flushed, stream.offset - stream.flushed, kSiteEpochFlush);
    stream.flushed = stream.offset;
  });
}

template <class Medium>
bool LogOf<Medium>::note_flushed() {
  return for_each_held([this](Stream& stream) {
    if (stream.segment == kNoSegment || stream.noted == stream.flushed) return;
    BONSAI_INVARIANT(stream.noted < stream.flushed);
    note(stream, stream.flushed);
    volume_.flush(entry(stream), sizeof(SegmentEntry), kSiteEpochNote);
  });
}

template <class Medium>
Status LogOf<Medium>::note_ends() {
  if (volume_.fence_failed()) return volume_.health();
  if (config_.buffered) return Status::OK();
  bool noted = false;
  for (Stream& stream : streams_) {
    if (stream.held.exchange(true, std::memory_order_acquire)) continue;
    // If the volume has failed, the last record may be lost.
    if (stream.segment != kNoSegment && stream.noted != stream.offset && !volume_.fence_failed()) {
      note(stream, stream.offset);
      volume_.flush(entry(stream), sizeof(SegmentEntry), kSiteLogNoteEnds);
      noted = true;
    }
    stream.held.store(false, std::memory_order_release);
  }
  return !noted || volume_.fence(kSiteLogNoteEndsFence) ? Status::OK() : volume_.health();
}

template <class Medium>
Status LogOf<Medium>::seal_all() {
  if (volume_.fence_failed()) return volume_.health();
  for (Stream& stream : streams_) {
    if (stream.segment != kNoSegment && !seal(stream)) return volume_.health();
  }
  for (const uint32_t segment : free_segments()) empty(segment);
  if (!volume_.fence(kSiteSegmentSealFence)) return volume_.health();
  for (Stream& stream : streams_) {
    if (stream.segment == kNoSegment) continue;
    drop_bias(stream.segment, stream.records);
    stream.segment = kNoSegment;
  }
  return Status::OK();
}

}  // namespace

template <class Medium>
std::unique_ptr<Log> make_log(scale::VolumeOf<Medium>& volume, Log::Config config) {
  return std::make_unique<LogOf<Medium>>(volume, std::move(config));
}
template std::unique_ptr<Log> make_log(scale::VolumeOf<base::ProductMedium>&, Log::Config);
template std::unique_ptr<Log> make_log(scale::VolumeOf<base::HookedMedium>&, Log::Config);

}  // namespace bonsai::persist
