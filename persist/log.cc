#include "persist/log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/narrow.h"
#include "base/step.h"
#include "base/thread.h"
#include "persist/words.h"

namespace bonsai::persist {

using scale::Addr;

Log::Log(Config config) : config_(std::move(config)), table_(config_.segments.size()) {
  reserved_ = std::max<size_t>(2, config_.segments.size() / 16);
  BONSAI_CHECK(config_.segments.size() >= 4);
}

void Log::release(uint32_t segment, int64_t records) {
  const int64_t before = table_[segment].live.fetch_sub(records, std::memory_order_acq_rel);
  BONSAI_CHECK(before >= records);  // else some record was given up twice
  if (before == records) when_durable([this, segment] { give_free(segment); });
}

void Log::when_durable(std::function<void()> action) {
  if (!config_.buffered) return action();
  const std::lock_guard lock(waiting_mutex_);
  waiting_.push_back({epoch_.load(), std::move(action)});
}

void Log::adopt(uint32_t segment, uint64_t sequence, int64_t records) {
  table_[segment].sequence = sequence;
  table_[segment].live.store(records, std::memory_order_relaxed);
}

void Log::start(uint64_t sequence, uint64_t epoch) {
  next_sequence_ = sequence;
  epoch_ = epoch;
  for (uint32_t i = base::checked_narrow<uint32_t>(table_.size()); i-- > 0;) {
    if (table_[i].live.load() == 0) give_free(i);
  }
}

uint32_t Log::take_free(Use use) {
  const std::lock_guard lock(free_mutex_);
  const size_t kept = use == Use::kOrdinary ? reserved_ : use == Use::kReserve ? segments_for_batches() : 0;
  if (free_.size() <= kept) return kNoSegment;
  const uint32_t segment = free_.back();
  free_.pop_back();
  free_count_.store(free_.size(), std::memory_order_relaxed);
  return segment;
}

void Log::give_free(uint32_t segment) {
  const std::lock_guard lock(free_mutex_);
  free_.push_back(segment);
  free_count_.store(free_.size(), std::memory_order_relaxed);
}

void Log::epoch_closed(uint64_t epoch) {
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
    return append_record(bytes, 1, use, segment,
                         [&](uint32_t seed, std::byte* out) { encode_update(update, seed, out); });
  }

  Result append_batch(std::span<const Update> updates, Use use, uint32_t* segment) override {
    return append_record(batch_record_bytes(updates), static_cast<int64_t>(updates.size()), use, segment,
                         [&](uint32_t seed, std::byte* out) { encode_batch(updates, seed, out); });
  }

  bool close_epoch() override;
  void note_ends() override;
  void seal_all() override;

 private:
  struct alignas(2 * base::kLineBytes) Stream {
    std::atomic<bool> held{false};
    uint32_t segment = kNoSegment;
    uint64_t offset = 0;   // of the next record
    uint64_t flushed = 0;  // level buffered: durable up to here, but for the fence
    uint64_t noted = 0;    // end in the log table
    uint64_t seed = 0;     // of the segment's place
    uint64_t epoch = 0;    // of the last epoch record in this segment
    int64_t records = 0;   // appended to this segment
    std::vector<std::byte> scratch;
  };

  // Holds one stream; the thread's own if it is free.
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
          BONSAI_CHECK(!wait.expired());
          wait.pause();
        }
      }
    }
    ~Hold() { stream_->held.store(false, std::memory_order_release); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    Stream* operator->() { return stream_; }
    Stream& operator*() { return *stream_; }

   private:
    static constexpr uint64_t kHoldWaitMsMax = 60'000;
    Stream* stream_;
  };

  template <class Encode>
  Result append_record(uint64_t bytes, int64_t records, Use use, uint32_t* segment, Encode encode) {
    BONSAI_CHECK(bytes <= record_bytes_max());
    Hold stream(*this);
    const uint64_t mark_bytes = config_.buffered ? kEpochRecordBytes : 0;
    if (stream->segment == kNoSegment || stream->offset + bytes + mark_bytes > config_.segment_bytes) {
      if (roll(*stream, use) == Result::kFull) return Result::kFull;
    }
    if (config_.buffered) mark_epoch(*stream);
    if (stream->scratch.size() < bytes) stream->scratch.resize(bytes);
    encode(seed_of_next(*stream), stream->scratch.data());
    if (!config_.buffered && stream->offset - stream->noted >= note_bytes(config_.segment_bytes)) {
      note(*stream, stream->offset);
      volume_.flush(entry(*stream), sizeof(SegmentEntry), kSiteLogNote);
    }
    write(*stream, bytes);
    if (!config_.buffered) volume_.fence(kSiteLogAppendFence);
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
    if (stream.scratch.size() < kEpochRecordBytes) stream.scratch.resize(kEpochRecordBytes);
    encode_epoch(epoch, seed_of_next(stream), stream.scratch.data());
    write(stream, kEpochRecordBytes);
    stream.epoch = epoch;
  }

  Result roll(Stream& stream, Use use) {
    const uint32_t next = take_free(use);
    if (next == kNoSegment) return Result::kFull;
    const uint32_t last = stream.segment;
    const int64_t last_records = stream.records;
    if (last != kNoSegment) seal(stream);
    open(stream, next);
    volume_.fence(kSiteSegmentOpenFence);
    store_entry(volume_, entry(stream), table_[next].sequence, stream.offset, false);
    volume_.flush(entry(stream), sizeof(SegmentEntry), kSiteSegmentEntry);
    volume_.fence(kSiteSegmentEntryFence);
    if (last != kNoSegment) drop_bias(last, last_records);
    return Result::kOk;
  }

  // Starts to write the end of the stream's segment (and, buffered, what was not flushed yet). The caller fences.
  void seal(Stream& stream) {
    const Addr base = config_.segments[stream.segment];
    if (config_.buffered) {  // all of it: what close_epoch() has flushed it may not have fenced yet
      volume_.flush(base + kSegmentHeaderBytes, stream.offset - kSegmentHeaderBytes, kSiteSegmentFlush);
      volume_.fence(kSiteSegmentFlushFence);
    }
    store_word(volume_, entry(stream) + offsetof(SegmentEntry, end), segment_end(stream.offset, true),
               table_[stream.segment].sequence);
    volume_.flush(entry(stream), sizeof(SegmentEntry), kSiteSegmentSeal);
  }

  // Starts to write the segment's word. The caller fences, and then writes its entry: one that is ahead of the word is
  // damage, one that is behind it stands for a segment without records.
  void open(Stream& stream, uint32_t segment) {
    const uint64_t sequence = next_sequence_.fetch_add(1);
    BONSAI_CHECK(sequence <= kCheckedWordMax);
    table_[segment].sequence = sequence;
    table_[segment].live.store(kOpenBias, std::memory_order_relaxed);
    const Addr base = config_.segments[segment];
    store_word(volume_, base, sequence);
    volume_.flush(base, sizeof(uint64_t), kSiteSegmentOpen);
    stream.segment = segment;
    stream.offset = stream.flushed = stream.noted = kSegmentHeaderBytes;
    stream.seed = place_seed(volume_, base);
    stream.epoch = 0;
    stream.records = 0;
  }

  // Calls action(stream) for each, held. False if one was held by others for too long.
  template <class Action>
  [[nodiscard]] bool for_each_held(Action action);
  // Starts to write back what each stream has appended.
  [[nodiscard]] bool flush_streams(uint64_t epoch);
  // Starts to note what each stream has flushed, which is durable by now, of segments that are still open.
  [[nodiscard]] bool note_flushed();

  // The segment is sealed: from now on its count can reach zero.
  void drop_bias(uint32_t segment, int64_t records) { release(segment, kOpenBias - records); }

  scale::VolumeOf<Medium>& volume_;
  std::vector<Stream> streams_;
  base::YieldingMutex close_mutex_{"close epoch"};  // one closer at a time; never taken by an append
  uint64_t window_begin_ns_ = base::now_ns();       // of the oldest epoch that is not closed; under it, as the next
  bool window_has_updates_ = false;
};

// The ends are durable before the epoch is: a record of a closed epoch that lies behind the end is damage.
template <class Medium>
bool LogOf<Medium>::close_epoch() {
  if (!config_.buffered) return true;
  const std::lock_guard lock(close_mutex_);
  const uint64_t next_begin_ns = base::now_ns();
  const uint64_t closing = epoch_.fetch_add(1);
  const bool all_flushed = flush_streams(closing);
  volume_.fence(kSiteEpochFlushFence);  // if it gave up, too: for the next closer, perhaps another thread, it is done
  if (!all_flushed || !note_flushed()) return false;
  volume_.fence(kSiteEpochNoteFence);
  const Addr word(0, kStateEpochOffset);
  store_word(volume_, word, closing);
  store_word(volume_, config_.epoch_copy, closing);
  volume_.flush(word, sizeof(uint64_t), kSiteEpochClose);
  volume_.flush(config_.epoch_copy, sizeof(uint64_t), kSiteEpochCloseCopy);
  volume_.fence(kSiteEpochCloseFence);
  if (std::exchange(window_has_updates_, false)) note_window(base::now_ns() - window_begin_ns_);
  window_begin_ns_ = next_begin_ns;
  epoch_closed(closing);
  return true;
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
    volume_.flush(config_.segments[stream.segment] + stream.flushed, stream.offset - stream.flushed, kSiteEpochFlush);
    stream.flushed = stream.offset;
  });
}

template <class Medium>
bool LogOf<Medium>::note_flushed() {
  return for_each_held([this](Stream& stream) {
    if (stream.segment == kNoSegment || stream.noted == stream.flushed) return;
    note(stream, stream.flushed);
    volume_.flush(entry(stream), sizeof(SegmentEntry), kSiteEpochNote);
  });
}

template <class Medium>
void LogOf<Medium>::note_ends() {
  if (config_.buffered) return;
  bool noted = false;
  for (Stream& stream : streams_) {
    if (stream.held.exchange(true, std::memory_order_acquire)) continue;
    if (stream.segment != kNoSegment && stream.noted != stream.offset) {
      note(stream, stream.offset);
      volume_.flush(entry(stream), sizeof(SegmentEntry), kSiteLogNoteEnds);
      noted = true;
    }
    stream.held.store(false, std::memory_order_release);
  }
  if (noted) volume_.fence(kSiteLogNoteEndsFence);
}

template <class Medium>
void LogOf<Medium>::seal_all() {
  for (Stream& stream : streams_) {
    if (stream.segment != kNoSegment) seal(stream);
  }
  volume_.fence(kSiteSegmentSealFence);
  for (Stream& stream : streams_) {
    if (stream.segment == kNoSegment) continue;
    drop_bias(stream.segment, stream.records);
    stream.segment = kNoSegment;
  }
}

}  // namespace

namespace {

class NoLog final : public Log {
 public:
  explicit NoLog(Config config) : Log(std::move(config)) {
    // Free for everybody who asks how full the log is, and never counted down to nothing.
    for (uint32_t i = 0; i < table_.size(); ++i) {
      table_[i].live.store(kNeverDead, std::memory_order_relaxed);
      give_free(i);
    }
  }

  Result append(const Update&, Use, uint32_t* segment) override {
    *segment = mine();
    return Result::kOk;
  }
  Result append_batch(std::span<const Update>, Use, uint32_t* segment) override {
    *segment = mine();
    return Result::kOk;
  }
  bool close_epoch() override { return true; }
  void note_ends() override {}
  void seal_all() override {}

  static constexpr size_t kSegments = 64;

 private:
  static constexpr int64_t kNeverDead = INT64_MAX / 2;
  static constexpr uint32_t kSegmentsPerLine = base::kLineBytes / sizeof(Segment);

  // Threads count in lines of their own.
  static uint32_t mine() { return base::thread_ordinal() * kSegmentsPerLine % kSegments; }
};

}  // namespace

std::unique_ptr<Log> make_no_log(Log::Config config) {
  config.segments.assign(NoLog::kSegments, Addr());
  config.buffered = false;
  return std::make_unique<NoLog>(std::move(config));
}

template <class Medium>
std::unique_ptr<Log> make_log(scale::VolumeOf<Medium>& volume, Log::Config config) {
  return std::make_unique<LogOf<Medium>>(volume, std::move(config));
}
template std::unique_ptr<Log> make_log(scale::VolumeOf<base::ProductMedium>&, Log::Config);
template std::unique_ptr<Log> make_log(scale::VolumeOf<base::HookedMedium>&, Log::Config);

}  // namespace bonsai::persist
