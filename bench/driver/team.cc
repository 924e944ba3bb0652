// SPDX-License-Identifier: Apache-2.0
#include "bench/driver/team.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>

#include "base/clock.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "bench/engines/scan_check.h"
#include "bench/ycsb/generators.h"
#include "bench/ycsb/values.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kSamplesMax = 50;  // of the memory in use
constexpr size_t kLoadMany = 32;
constexpr uint64_t kDrawnMax = uint64_t{1} << 22;
constexpr uint64_t kLoadChunk = 4096;
constexpr uint64_t kPutsTogether = 16;  // at a pace that is kept, between two sleeps

// The state that all members share.
struct Stage {
  Engine* engine;
  const TeamPlan& plan;
  std::vector<uint64_t> unrelated;  // of kStream
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false};
  std::atomic<bool> end{false};
  std::atomic<unsigned> begun{0};  // members that have done something
};

// One thread of the team. Aligned, so that counters of neighbours do not share a line.
class alignas(128) Actor {
 public:
  Actor(Stage* stage, size_t index)
      : stage_(*stage),
        member_(stage->plan.members[index]),
        shape_(stage->plan.shape),
        random_(base::splitmix64(stage->plan.seed) + index),
        key_room_(shape_.key_bytes_max(), '\0'),
        value_room_(shape_.value_bytes, '\0'),
        room_(member_.depth * (shape_.key_bytes_max() + shape_.value_bytes), '\0'),
        ids_(member_.depth),
        keys_(member_.depth),
        new_values_(member_.depth),
        values_(member_.depth),
        statuses_(member_.depth) {
    if (!stage->plan.zipfian) return;
    const ScrambledZipfian zipfian(stage->plan.records);
    drawn_.resize(std::min<uint64_t>(kDrawnMax, 2 * stage->plan.records));
    for (uint64_t& number : drawn_) number = zipfian.draw(random_.unit());
  }

  void run() {
    stage_.ready.fetch_add(1);
    while (!stage_.go.load(std::memory_order_acquire)) base::yield_thread();
    const uint64_t begin_ns = base::now_ns();
    while (!stage_.end.load(std::memory_order_relaxed) && failure_.ok()) {
      switch (member_.role) {
        case Role::kGet:
          member_.depth == 1 ? get() : get_many(0, member_.depth);
          break;
        case Role::kMix:
          mix();
          break;
        case Role::kPut:
          put(begin_ns);
          break;
        case Role::kScan:
          scan();
          break;
        case Role::kStream:
          stream(begin_ns);
          break;
      }
      if (++rounds_ == 1) stage_.begun.fetch_add(1);
    }
    stage_.end.store(stage_.end.load() || !failure_.ok());
  }

  [[nodiscard]] uint64_t operations() const { return rounds_ * member_.depth; }
  [[nodiscard]] uint64_t records() const { return records_; }
  [[nodiscard]] const Status& failure() const { return failure_; }

 private:
  // The number of a loaded record, drawn from the distribution of the plan.
  uint64_t loaded_number() {
    if (drawn_.empty()) return random_.below(stage_.plan.records);
    if (next_drawn_ == drawn_.size()) next_drawn_ = 0;
    return drawn_[next_drawn_++];
  }

  // Fills in the keys, and new values, of `count` operations from the i-th on.
  void draw(size_t i, size_t count) {
    char* room = room_.data() + i * (shape_.key_bytes_max() + shape_.value_bytes);
    for (; count > 0; ++i, --count) {
      ids_[i] = shape_.id(loaded_number());
      keys_[i] = encode_key(shape_, ids_[i], room);
      room += shape_.key_bytes_max();
      fill_value(ids_[i], static_cast<uint32_t>(rounds_), room, shape_.value_bytes);
      new_values_[i] = {room, shape_.value_bytes};
      room += shape_.value_bytes;
    }
  }

  void get_many(size_t first, size_t count) {
    if (count == 0) return;
    draw(first, count);
    stage_.engine->read_many(std::span(keys_).subspan(first, count), std::span(values_).subspan(first, count),
                             std::span(statuses_).subspan(first, count));
    for (size_t i = first; i < first + count; ++i) {
      if (!statuses_[i].ok() || !value_is_of(ids_[i], values_[i], shape_.value_bytes)) fail("a get", statuses_[i]);
    }
    records_ += count;
  }

  void mix() {
    size_t updates = 0;
    for (unsigned i = 0; i < member_.depth; ++i) updates += random_.next() & 1;
    draw(0, updates);
    if (updates > 0) {
      stage_.engine->write_many(std::span(keys_).first(updates), std::span(new_values_).first(updates),
                                std::span(statuses_).first(updates));
    }
    for (size_t i = 0; i < updates; ++i) {
      if (!statuses_[i].ok()) fail("an update", statuses_[i]);
    }
    records_ += updates;
    get_many(updates, member_.depth - updates);
  }

  std::string_view random_key(uint64_t numbers, uint64_t* id) {
    *id = shape_.id(random_.below(numbers));
    return encode_key(shape_, *id, key_room_.data());
  }

  void fail(const char* what, const Status& status) {
    failure_ = Status::Unavailable(std::string(what) + (status.ok() ? " answered wrongly" : ": " + status.ToString()));
  }

  void get() {
    uint64_t id;
    id = shape_.id(loaded_number());
    const std::string_view key = encode_key(shape_, id, key_room_.data());
    const Status status = stage_.engine->read(key, &value_);
    const bool absent = status.IsNotFound() && !stage_.plan.all_loaded;
    if (!absent && (!status.ok() || !value_is_of(id, value_, shape_.value_bytes))) fail("a get", status);
    ++records_;
  }

  void put(uint64_t begin_ns) {
    uint64_t id;
    const std::string_view key = random_key(2 * stage_.plan.records, &id);
    Status status;
    if (random_.chance(1, 2)) {
      fill_value(id, static_cast<uint32_t>(rounds_), value_room_.data(), value_room_.size());
      status = stage_.engine->insert(key, value_room_);
    } else {
      status = stage_.engine->remove(key);
    }
    if (!status.ok()) fail("an update", status);
    ++records_;
    if (member_.records_per_s_max > 0 && records_ % kPutsTogether == 0) base::sleep_until(due_ns(begin_ns));
  }

  void scan() {
    uint64_t id;
    const std::string from(random_key(stage_.plan.records, &id));
    if (rounds_ % kScanChecksEvery == 0) return scan_thoroughly(from);
    uint64_t count = 0, sum = 0, last = 0;
    const Status status = stage_.engine->scan_rows(from, member_.scan_records, [&](const Rows& rows) {
      count += rows.count;
      uint64_t part = 0;  // in a register, unlike what the lambda refers to
      for (size_t i = 0; i < rows.count; ++i) part += word_of(rows.key(i)) + word_of(rows.value(i));
      sum += part;
      const uint64_t first = __builtin_bswap64(word_of(rows.key(0)));
      disorder_ = disorder_ || first < last;
      last = __builtin_bswap64(word_of(rows.key(rows.count - 1)));
      return true;
    });
    sum_ = sum;
    if (!status.ok() || disorder_) fail("a scan", status);
    records_ += count;
  }

  // Record by record.
  void scan_thoroughly(std::string_view from) {
    ScanCheck check(shape_, from, true, &last_key_);
    const Status status = stage_.engine->scan_rows(from, member_.scan_records, [&](const Rows& rows) {
      check.visit_thoroughly(rows);
      return true;
    });
    if (!status.ok() || check.wrong()) fail("a scan", status);
    records_ += check.count();
  }

  static uint64_t word_of(std::string_view bytes) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    return word;
  }

  void stream(uint64_t begin_ns) {
    const std::vector<uint64_t>& words = stage_.unrelated;
    const uint64_t words_per_record = (shape_.key_bytes_max() + shape_.value_bytes) / 8;
    const uint64_t n = std::min<uint64_t>(member_.scan_records * words_per_record, words.size());
    const uint64_t first = random_.below(words.size() - n + 1);
    uint64_t sum = 0;
    for (uint64_t i = first; i < first + n; ++i) sum += words[i];
    sum_ = sum;
    records_ += n / words_per_record;
    if (member_.records_per_s_max <= 0) return;
    const uint64_t due = due_ns(begin_ns);
    while (base::now_ns() < due && !stage_.end.load(std::memory_order_relaxed)) {
    }
  }

  // When the records so far are due at the member's pace.
  [[nodiscard]] uint64_t due_ns(uint64_t begin_ns) const {
    return begin_ns + static_cast<uint64_t>(static_cast<double>(records_) / member_.records_per_s_max *
                                            static_cast<double>(base::kNsPerSecond));
  }

  Stage& stage_;
  const Member member_;
  const RecordShape& shape_;
  base::Random random_;
  std::string key_room_, value_room_, value_, last_key_;
  std::string room_;                   // of keys and new values that are submitted together
  std::vector<uint64_t> ids_, drawn_;  // of them; numbers drawn beforehand
  std::vector<std::string_view> keys_, new_values_;
  std::vector<std::string> values_;
  std::vector<Status> statuses_;
  size_t next_drawn_ = 0;
  uint64_t rounds_ = 0;
  uint64_t records_ = 0;
  bool disorder_ = false;
  volatile uint64_t sum_ = 0;  // so that reading is not optimised away
  Status failure_;
};

// A measurement in which some member did nothing, since the machine had no processor for it, is invalid: it is
// extended, at most by this much.
constexpr uint64_t kBeginMsMax = 10'000;

double mean(std::span<const double> samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) /
         std::max<double>(1, static_cast<double>(samples.size()));
}

// Lets the time pass, sampling the memory in use.
void watch(const Stage& stage, TeamResult* result) {
  const uint64_t begin_ns = base::now_ns();
  const uint64_t end_ns = begin_ns + stage.plan.ms * base::kNsPerMs;
  const uint64_t pause_ms = std::max<uint64_t>(1, stage.plan.ms / kSamplesMax);
  std::vector<double> dram, nvm;
  const auto is_over = [&] {
    const uint64_t now_ns = base::now_ns();
    return now_ns >= end_ns &&
           (stage.begun.load() == stage.plan.members.size() || now_ns >= end_ns + kBeginMsMax * base::kNsPerMs);
  };
  while (!is_over() && !stage.end.load() && !*stage.plan.stop) {
    base::sleep_ms(pause_ms);
    if (!stage.plan.samples_memory) continue;
    const MemoryUse memory = stage.engine->memory();
    dram.push_back(static_cast<double>(memory.dram_bytes.value_or(0)));
    nvm.push_back(static_cast<double>(memory.nvm_bytes.value_or(0)));
  }
  result->seconds = static_cast<double>(base::now_ns() - begin_ns) / static_cast<double>(base::kNsPerSecond);
  result->dram_bytes = mean(dram);
  result->nvm_bytes = mean(nvm);
  if (dram.empty()) return;
  result->dram_bytes_max = *std::max_element(dram.begin(), dram.end());
  const std::span<const double> all(dram);
  const double first = mean(all.first((dram.size() + 1) / 2));
  if (first > 0) result->dram_growth = mean(all.last((dram.size() + 1) / 2)) / first;
}

Status load_chunk(Engine* engine, const RecordShape& shape, uint64_t first, uint64_t count) {
  std::vector<char> rooms(kLoadMany * (shape.key_bytes_max() + shape.value_bytes));
  std::array<std::string_view, kLoadMany> keys, values;
  std::array<Status, kLoadMany> statuses;
  for (uint64_t done = 0; done < count;) {
    size_t n = 0;
    char* room = rooms.data();
    for (; n < kLoadMany && done < count; ++n, ++done) {
      const uint64_t id = shape.id(first + done);
      keys[n] = encode_key(shape, id, room);
      room += shape.key_bytes_max();
      fill_value(id, 0, room, shape.value_bytes);
      values[n] = {room, shape.value_bytes};
      room += shape.value_bytes;
    }
    engine->write_many({keys.data(), n}, {values.data(), n}, {statuses.data(), n});
    for (size_t i = 0; i < n; ++i) {
      if (!statuses[i].ok()) return statuses[i];
    }
  }
  return Status::OK();
}

}  // namespace

double TeamResult::records_m_per_s(const TeamPlan& plan, Role role) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < records.size(); ++i) sum += plan.members[i].role == role ? records[i] : 0;
  return static_cast<double>(sum) / seconds / 1e6;
}

Status insert_for_team(Engine* engine, const RecordShape& shape, uint64_t records, unsigned threads,
                       const std::atomic<bool>& stop) {
  const uint64_t chunks = (records + kLoadChunk - 1) / kLoadChunk;
  std::vector<Status> statuses(chunks);
  base::for_each_on(engine->capabilities().threads ? threads : 1, chunks, [&](size_t i) {
    if (stop) return;
    const uint64_t first = i * kLoadChunk;
    statuses[i] = load_chunk(engine, shape, first, std::min(kLoadChunk, records - first));
  });
  if (stop) return Status::Unavailable("interrupted");
  for (const Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return Status::OK();
}

Status load_for_team(Engine* engine, const RecordShape& shape, uint64_t records, unsigned threads,
                     const std::atomic<bool>& stop) {
  BONSAI_RETURN_IF_ERROR(insert_for_team(engine, shape, records, threads, stop));
  return engine->settle();
}

Status run_team(Engine* engine, const TeamPlan& plan, TeamResult* result) {
  *result = TeamResult();
  Stage stage{.engine = engine, .plan = plan, .unrelated = {}};
  const auto streams = [](const Member& member) { return member.role == Role::kStream; };
  if (std::any_of(plan.members.begin(), plan.members.end(), streams)) {
    stage.unrelated.assign(plan.records * (plan.shape.key_bytes_max() + plan.shape.value_bytes) / 8 + 1, 1);
  }
  std::vector<std::unique_ptr<Actor>> actors;
  for (size_t i = 0; i < plan.members.size(); ++i) actors.push_back(std::make_unique<Actor>(&stage, i));
  {
    std::vector<base::Thread> threads(actors.size());
    for (base::Thread& thread : threads) BONSAI_RETURN_IF_ERROR(base::Thread::reserve("team", &thread));
    for (size_t i = 0; i < threads.size(); ++i) threads[i].begin([actor = actors[i].get()] { actor->run(); });
    while (stage.ready.load() < actors.size()) base::yield_thread();
    stage.go.store(true, std::memory_order_release);
    watch(stage, result);
    stage.end.store(true);
  }
  if (*plan.stop) return Status::Unavailable("interrupted");
  for (const auto& actor : actors) {
    if (!actor->failure().ok()) return actor->failure();
    result->operations.push_back(actor->operations());
    result->records.push_back(actor->records());
  }
  return Status::OK();
}

}  // namespace bonsai::bench
