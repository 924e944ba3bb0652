// SPDX-License-Identifier: Apache-2.0
#include "bench/driver/driver.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "bench/driver/meeting.h"
#include "bench/driver/pace.h"
#include "bench/engines/scan_check.h"
#include "bench/ycsb/values.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kSleepNsMax = 100 * base::kNsPerMs;  // so that a stop is noticed
constexpr uint64_t kStopLookedAtEvery = 64;             // operations

double seconds_of(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

// One thread of a phase.
class alignas(64) Worker {
 public:
  Worker(Engine* engine, const RequestList& list, const PhaseOptions& options, Versions* versions, unsigned thread,
         unsigned threads)
      : engine_(engine),
        versions_(*versions),
        list_(list),
        options_(options),
        shape_(options.shape),
        verifies_(engine->capabilities().keeps_data),
        thread_(thread),
        threads_(threads),
        warmup_(part_of(options.warmup, threads, thread)),
        new_value_(shape_.value_bytes, '\0'),
        key_room_(shape_.key_bytes_max() * (options.depth + 1)),
        value_room_(size_t{shape_.value_bytes} * options.depth),
        places_(options.depth),
        keys_(options.depth),
        new_values_(options.depth),
        values_(options.depth),
        statuses_(options.depth),
        last_keys_(options.depth) {
    group_.reserve(options.depth);
    scans_seen_.reserve(options.depth);
  }

  void run(Gate* gate) {
    pinned_ = options_.pin && base::pin_thread(thread_).ok();
    // Drawing is this thread's own work, on its own copy.
    std::optional<Drawer> drawer = list_.live;
    gate->ready.arrive();
    run_part(warmup_, 0, &drawer);
    for (Histogram& histogram : result_.latency) histogram.clear();
    live_.clear();
    result_.operations_of = {};
    gate->warm.arrive();
    if (options_.target_ops_per_s > 0) base::wake_exactly();
    start_ns_ = options_.target_ops_per_s > 0 ? gate->start_ns : base::now_ns();
    if (options_.seconds_max > 0) deadline_ns_ = start_ns_ + static_cast<uint64_t>(options_.seconds_max * 1e9);
    const uint64_t start_cpu_ns = base::thread_cpu_ns();
    run_part(list_.operations, options_.target_ops_per_s, &drawer);
    cpu_ns_ = base::thread_cpu_ns() - start_cpu_ns;
    end_ns_ = base::now_ns();
  }

  [[nodiscard]] uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  [[nodiscard]] const LiveLatency& live() const { return live_; }
  [[nodiscard]] uint64_t start_ns() const { return start_ns_; }
  [[nodiscard]] uint64_t end_ns() const { return end_ns_; }

  // Adds this thread's part to *total. Requires: run() returned.
  void add_to(PhaseResult* total) const {
    total->operations += turn_ - std::min<uint64_t>(turn_, warmup_);
    for (size_t i = warmup_; i < std::min<size_t>(turn_, list_.requests.size()); ++i) {
      ++total->operations_of[static_cast<size_t>(list_.requests[i].kind)];
    }
    total->absent += result_.absent;
    total->failures += result_.failures;
    if (total->first_failure.empty()) total->first_failure = result_.first_failure;
    total->stopped |= turn_ < list_.operations && !out_of_time_;
    total->pinned &= pinned_;
    total->threads.push_back({turn_ - std::min<uint64_t>(turn_, warmup_), seconds_of(end_ns_ - start_ns_),
                              seconds_of(slept_ns_), seconds_of(cpu_ns_)});
    total->cpu_seconds += total->threads.back().cpu_seconds;
    total->inserted += result_.inserted;
    total->inserted_key_bytes += result_.inserted_key_bytes;
    total->removes += result_.removes;
    for (size_t kind = 0; kind < kOpKinds; ++kind) {
      total->latency[kind].merge(result_.latency[kind]);
      total->intended_latency[kind].merge(result_.intended_latency[kind]);
      total->operations_of[kind] += result_.operations_of[kind];
      total->failures_of[kind] += result_.failures_of[kind];
    }
  }

 private:
  // Carries out the requests up to `end`.
  void run_part(uint64_t end, double target_ops_per_s, std::optional<Drawer>* drawer) {
    const auto replayed = [this](size_t turn) -> const Request& { return list_.requests[turn]; };
    const auto drawn = [this, drawer](size_t) {
      const Request request = (*drawer)->next();
      ++result_.operations_of[static_cast<size_t>(request.kind)];
      return request;
    };
    if (target_ops_per_s > 0 && options_.interval_ms > 0) {
      *drawer ? run_in_intervals(end, target_ops_per_s, drawn) : run_in_intervals(end, target_ops_per_s, replayed);
    } else if (target_ops_per_s > 0) {
      *drawer ? run_at_pace(end, target_ops_per_s, drawn) : run_at_pace(end, target_ops_per_s, replayed);
    } else {
      *drawer ? run_at_once(end, drawn) : run_at_once(end, replayed);
    }
    submit_group();
    done_.store(turn_, std::memory_order_relaxed);
  }

  template <class NextRequest>
  void run_at_once(uint64_t end, const NextRequest& next) {
    const uint64_t mask = options_.latency_every - 1;
    for (; turn_ < end; ++turn_) {
      const bool at_mark = (turn_ & mask) == 0;
      if (at_mark && !go_on()) break;
      const Request& request = next(turn_);
      if (options_.depth > 1 && can_be_grouped(request.kind)) {
        add_to_group(request);
      } else if (at_mark) {
        perform_timed(request);
      } else {
        perform(request);
      }
    }
  }

  // As YCSB: a thread's operations are due one interval apart; one that is late starts at once. The threads take turns.
  template <class NextRequest>
  void run_at_pace(uint64_t end, double target_ops_per_s, const NextRequest& next) {
    const double interval_ns = 1e9 * threads_ / target_ops_per_s;
    const double first = static_cast<double>(turn_) - static_cast<double>(thread_) / threads_;
    for (; turn_ < end; ++turn_) {
      due_ns_ = start_ns_ + static_cast<uint64_t>((static_cast<double>(turn_) - first) * interval_ns);
      if (!wait_until(due_ns_)) break;
      const Request& request = next(turn_);
      if (options_.depth > 1 && can_be_grouped(request.kind)) {
        add_to_group(request);
      } else {
        perform_timed(request);
      }
    }
    due_ns_ = 0;
  }

  // As MELT (pace.h). All operations are carried out after the end of the last interval, or the phase's time is over.
  template <class NextRequest>
  void run_in_intervals(uint64_t end, double target_ops_per_s, const NextRequest& next) {
    const IntervalPace pace(target_ops_per_s, options_.interval_ms * base::kNsPerMs, thread_, threads_);
    const uint64_t first = turn_;
    const uint64_t last_ns = std::min(pace.time_of(end - first), deadline_ns_ - start_ns_);
    for (uint64_t interval = 0;; ++interval) {
      const uint64_t end_ns = std::min(pace.end_of(interval), last_ns);
      const uint64_t due = std::min(end, first + pace.due_by(end_ns));
      if (!run_interval(due, next) || !wait_until(start_ns_ + end_ns)) return;
      if (end_ns == last_ns) break;
    }
    if (turn_ < end) out_of_time_ = true;
  }

  template <class NextRequest>
  bool run_interval(uint64_t end, const NextRequest& next) {
    const uint64_t first = turn_;
    SampleChoice samples(end - std::min(end, first), options_.latency_per_interval);
    for (; turn_ < end; ++turn_) {
      if (turn_ % kStopLookedAtEvery == 0 && !go_on()) return false;
      const Request& request = next(turn_);
      if (options_.depth > 1 && can_be_grouped(request.kind)) {
        add_to_group(request);
      } else if (samples.takes(turn_ - first)) {
        perform_timed(request);
      } else {
        perform(request);
      }
    }
    submit_group();
    return true;
  }

  // False when the phase is to end. Sleeps and never spins, so that the processor's time and energy are the store's.
  bool wait_until(uint64_t due_ns) {
    for (;;) {
      if (!go_on()) return false;
      const uint64_t now = base::now_ns();
      if (now >= due_ns) return true;
      base::sleep_until(std::min({due_ns, now + kSleepNsMax, deadline_ns_}));
      slept_ns_ += base::now_ns() - now;
    }
  }

  bool go_on() {
    done_.store(turn_, std::memory_order_relaxed);
    const bool stop = options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
    if (deadline_ns_ != UINT64_MAX && base::now_ns() >= deadline_ns_) out_of_time_ = true;
    return !stop && !out_of_time_ && errors_ < kErrorsMax;
  }

  void perform_timed(const Request& request) {
    const auto kind = static_cast<size_t>(request.kind);
    const uint64_t before = base::now_ns();
    perform(request);
    const uint64_t after = base::now_ns();
    result_.latency[kind].record(after - before);
    if (due_ns_ != 0) result_.intended_latency[kind].record(after - due_ns_);
    live_.record(request.kind, after - (due_ns_ != 0 ? due_ns_ : before));
  }

  // The id of the record that `request` is for. Requires: not a new record.
  [[nodiscard]] uint64_t id_of(const Request& request) const {
    switch (request.source) {
      case KeySource::kBehindNewest: {
        const uint64_t newest = options_.counter->end() - 1;
        return shape_.id(newest - std::min(request.key, newest));
      }
      case KeySource::kIfInserted:
        return shape_.id(request.key < options_.counter->end() ? request.key : request.key % options_.loaded);
      default:
        return request.key;
    }
  }

  // The key of `id`: where it was spelt ahead, else spelt into place `slot` of this thread's room.
  std::string_view key_of(const Request& request, uint64_t id, size_t slot) {
    if (request.key_bytes > 0) return {list_.keys.data() + turn_ * list_.key_stride, request.key_bytes};
    return encode_key(shape_, id, key_room_.data() + slot * shape_.key_bytes_max());
  }

  void perform(const Request& request) {
    if (request.kind == OpKind::kInsert) return insert(request);
    const uint64_t id = id_of(request);
    const std::string_view key = key_of(request, id, options_.depth);
    switch (request.kind) {
      case OpKind::kRead: {
        const uint32_t least = least_of(id);
        const Status status = engine_->read(key, &value_);
        check_read(request.kind, status, id, least, value_);
        break;
      }
      case OpKind::kUpdate: {
        const Versions::Write write = renew_value(id);
        const Status status = engine_->update(key, new_value_);
        versions_.end(write, status.ok());
        check(request.kind, status);
        break;
      }
      case OpKind::kReadModifyWrite: {
        const uint32_t least = least_of(id);
        const Versions::Write write = renew_value(id);
        const Status status = engine_->read_modify_write(key, new_value_, &value_);
        versions_.end(write, status.ok());
        check_read(request.kind, status, id, least, value_);
        break;
      }
      case OpKind::kScan:
        scan(key, request.scan_length);
        break;
      case OpKind::kDelete:
        check(request.kind, engine_->remove(key));
        ++result_.removes;
        break;
      case OpKind::kInsert:
        break;
    }
  }

  struct Insert {
    uint64_t id;
    uint64_t number;  // of a new record, to be acknowledged
    bool is_new;
  };

  Insert begin_insert(const Request& request) {
    if (request.source != KeySource::kNew) return {request.key, 0, false};
    const uint64_t number = options_.counter->take();
    return {shape_.id(number), number, true};
  }

  void end_insert(const Insert& insert, std::string_view key, const Status& status) {
    check(OpKind::kInsert, status);
    if (insert.is_new) options_.counter->acknowledge(insert.number);
    if (!status.ok()) return;
    ++result_.inserted;
    result_.inserted_key_bytes += key.size();
  }

  void insert(const Request& request) {
    const Insert insert = begin_insert(request);
    const std::string_view key = key_of(request, insert.id, options_.depth);
    const Versions::Write write = renew_value(insert.id);
    const Status status = engine_->insert(key, new_value_);
    versions_.end(write, status.ok());
    end_insert(insert, key, status);
  }

  // The least stamp that a read may return, where reads are verified.
  [[nodiscard]] uint32_t least_of(uint64_t id) { return verifies_ ? versions_.least(id) : 0; }

  Versions::Write renew_value(uint64_t id) { return begin_write(id, new_value_.data()); }

  Versions::Write begin_write(uint64_t id, char* room) {
    const Versions::Write write = versions_.begin(id, static_cast<uint32_t>(turn_));
    fill_value(id, write.stamp, room, shape_.value_bytes);
    return write;
  }

  // Beyond what ScanCheck verifies: a scan may end early only after the last key.
  void scan(std::string_view from, uint32_t limit) {
    ScanCheck seen(shape_, from, options_.absent_is_fine || options_.scan_start_may_miss, &last_keys_.front());
    end_scan(from, limit, seen, engine_->scan(from, limit, visit_of(&seen)));
  }

  ScanVisit visit_of(ScanCheck* seen) {
    if (scans_++ % kScanChecksEvery == 0) {
      return [seen](auto key, auto value) { return seen->visit_thoroughly(key, value); };
    }
    return [seen](auto key, auto value) { return seen->visit_lightly(key, value); };
  }

  void end_scan(std::string_view from, uint32_t limit, const ScanCheck& seen, const Status& status) {
    if (!status.ok()) return note_error(OpKind::kScan, status);
    if (!verifies_) return;
    if (seen.wrong() || seen.count() > limit) {
      return note_failure(OpKind::kScan, "a scan returned a record out of order or with a wrong value");
    }
    const bool ended_early = seen.count() < limit && !options_.absent_is_fine;
    if (ended_early && (seen.count() == 0 ? from <= options_.key_max : seen.last_key() < options_.key_max)) {
      note_failure(OpKind::kScan,
                   "a scan ended after " + std::to_string(seen.count()) + " of " + std::to_string(limit) + " records");
    }
  }

  void check(OpKind kind, const Status& status) {
    if (status.ok()) [[likely]]
      return;
    if (status.IsNotFound() && options_.absent_is_fine) {
      ++result_.absent;
      return;
    }
    note_error(kind, status);
  }

  void check_read(OpKind kind, const Status& status, uint64_t id, uint32_t least, std::string_view value) {
    if (!status.ok()) [[unlikely]]
      return check(kind, status);
    if (!verifies_) return;
    if (value_is_of(id, value, shape_.value_bytes)) [[likely]] {
      if (least != 0 && value.size() >= 8 && value_stamp(value) < least)
        note_failure(kind, "a read returned a stale value");
      return;
    }
    note_failure(kind, "a read returned a value that is not its record's (" + std::to_string(value.size()) + " bytes)");
  }

  void note_error(OpKind kind, const Status& status) {
    if (status.IsNotFound()) return note_failure(kind, "a record that was stored is not found");
    ++errors_;
    note_failure(kind, status.ToString());
  }

  void note_failure(OpKind kind, const std::string& what) {
    done_.store(turn_, std::memory_order_relaxed);
    ++result_.failures_of[static_cast<size_t>(kind)];
    if (result_.failures++ == 0) result_.first_failure = what;
  }

  static bool can_be_grouped(OpKind kind) { return kind != OpKind::kDelete; }

  void add_to_group(const Request& request) {
    const size_t place = group_.size();
    Grouped operation{request.kind, {}, {}, due_ns_, request.scan_length, {}, 0};
    if (request.kind == OpKind::kInsert) {
      operation.insert = begin_insert(request);
    } else {
      operation.insert.id = id_of(request);
    }
    operation.key = key_of(request, operation.insert.id, place);
    if (request.kind == OpKind::kRead || request.kind == OpKind::kReadModifyWrite)
      operation.least = least_of(operation.insert.id);
    if (request.kind != OpKind::kRead && request.kind != OpKind::kScan)
      operation.write = begin_write(operation.insert.id, new_value_at(place));
    group_.push_back(operation);
    if (group_.size() == options_.depth) submit_group();
  }

  char* new_value_at(size_t place) { return value_room_.data() + place * shape_.value_bytes; }

  // Carries out the collected requests: writes, reads, scans, and for a read-modify-write its write after its read.
  void submit_group() {
    if (group_.empty()) return;
    const bool timed =
        group_[0].due_ns != 0 || batches_++ % std::max<uint64_t>(1, options_.latency_every / options_.depth) == 0;
    const uint64_t before = timed ? base::now_ns() : 0;
    write_group([](OpKind kind) { return kind == OpKind::kUpdate || kind == OpKind::kInsert; });
    read_group();
    scan_group();
    write_group([](OpKind kind) { return kind == OpKind::kReadModifyWrite; });
    if (timed) note_batch_time(before, base::now_ns());
    group_.clear();
  }

  // Finds the collected operations whose kind is wanted, and their keys.
  template <class Wanted>
  size_t choose(Wanted wanted) {
    size_t n = 0;
    for (size_t place = 0; place < group_.size(); ++place) {
      if (!wanted(group_[place].kind)) continue;
      keys_[n] = group_[place].key;
      places_[n++] = place;
    }
    return n;
  }

  template <class Wanted>
  void write_group(Wanted wanted) {
    const size_t n = choose(wanted);
    if (n == 0) return;
    for (size_t i = 0; i < n; ++i) new_values_[i] = {new_value_at(places_[i]), shape_.value_bytes};
    engine_->write_many(std::span(keys_).first(n), std::span(new_values_).first(n), std::span(statuses_).first(n));
    for (size_t i = 0; i < n; ++i) {
      const Grouped& operation = group_[places_[i]];
      versions_.end(operation.write, statuses_[i].ok());
      if (operation.kind == OpKind::kInsert) {
        end_insert(operation.insert, operation.key, statuses_[i]);
      } else {
        check(operation.kind, statuses_[i]);
      }
    }
  }

  void read_group() {
    const size_t n = choose([](OpKind kind) { return kind == OpKind::kRead || kind == OpKind::kReadModifyWrite; });
    if (n == 0) return;
    engine_->read_many(std::span(keys_).first(n), std::span(values_).first(n), std::span(statuses_).first(n));
    for (size_t i = 0; i < n; ++i) {
      const Grouped& operation = group_[places_[i]];
      check_read(operation.kind, statuses_[i], operation.insert.id, operation.least, values_[i]);
    }
  }

  void scan_group() {
    const size_t n = choose([](OpKind kind) { return kind == OpKind::kScan; });
    if (n == 0) return;
    scans_seen_.clear();
    scan_jobs_.clear();
    for (size_t i = 0; i < n; ++i) {
      const bool may_miss = options_.absent_is_fine || options_.scan_start_may_miss;
      scans_seen_.emplace_back(shape_, keys_[i], may_miss, &last_keys_[i]);
      const uint32_t limit = group_[places_[i]].scan_length;
      scan_jobs_.push_back({keys_[i], limit, visit_of(&scans_seen_.back()), &statuses_[i]});
    }
    engine_->scan_many(scan_jobs_);
    for (size_t i = 0; i < n; ++i) end_scan(keys_[i], scan_jobs_[i].limit, scans_seen_[i], statuses_[i]);
  }

  // One sample for each kind that the hand-over had.
  void note_batch_time(uint64_t before, uint64_t after) {
    std::array<bool, kOpKinds> noted{};
    for (const Grouped& operation : group_) {
      const auto kind = static_cast<size_t>(operation.kind);
      if (operation.due_ns != 0) result_.intended_latency[kind].record(after - operation.due_ns);
      if (std::exchange(noted[kind], true)) continue;
      result_.latency[kind].record(after - before);
      live_.record(operation.kind, after - (operation.due_ns != 0 ? operation.due_ns : before));
    }
  }

  Engine* engine_;
  Versions& versions_;
  const RequestList& list_;
  const PhaseOptions& options_;
  const RecordShape shape_;
  const bool verifies_;
  const unsigned thread_;
  const unsigned threads_;
  const uint64_t warmup_;  // this thread's part

  size_t turn_ = 0;
  uint64_t due_ns_ = 0;    // when the current operation ought to start; 0 = at once
  std::string new_value_;  // what this thread writes
  std::string value_;      // what it reads
  std::vector<char> key_room_;

  // Operations that wait to be submitted together (depth > 1).
  struct Grouped {
    OpKind kind;
    Insert insert;  // of others only the id
    std::string_view key;
    uint64_t due_ns;
    uint32_t scan_length;
    Versions::Write write;  // of those that write
    uint32_t least;         // stamp, of those that read
  };
  std::vector<Grouped> group_;
  uint64_t batches_ = 0;
  std::vector<char> value_room_;
  std::vector<size_t> places_;  // in group_, of the submitted operations
  std::vector<std::string_view> keys_, new_values_;
  std::vector<std::string> values_;
  std::vector<Status> statuses_;
  std::vector<ScanCheck> scans_seen_;
  std::vector<ScanJob> scan_jobs_;
  std::vector<std::string> last_keys_;  // of scans

  uint64_t scans_ = 0;
  uint64_t errors_ = 0;
  PhaseResult result_;
  LiveLatency live_;  // read by the watcher
  bool pinned_ = false;
  uint64_t start_ns_ = 0;
  uint64_t end_ns_ = 0;
  uint64_t cpu_ns_ = 0;
  uint64_t slept_ns_ = 0;              // waiting for the time at which something is due
  uint64_t deadline_ns_ = UINT64_MAX;  // of the phase
  bool out_of_time_ = false;
  alignas(64) std::atomic<uint64_t> done_{0};  // read by the watcher
};

// Reports until `event` is signalled. The caller decides how to treat a phase without progress.
void watch(const std::vector<std::unique_ptr<Worker>>& workers, const PhaseOptions& options, base::Event* event) {
  const uint64_t start_ns = base::now_ns();
  uint64_t moved_ns = start_ns;
  uint64_t done_before = 0;
  while (!event->wait_for(options.progress_every_ms)) {
    PhaseProgress progress;
    for (const auto& worker : workers) {
      progress.done += worker->done();
      worker->live().add_to(&progress.latency);
    }
    const uint64_t now = base::now_ns();
    if (progress.done != done_before) moved_ns = now;
    done_before = progress.done;
    progress.done -= std::min(progress.done, options.warmup);
    progress.seconds = seconds_of(now - start_ns);
    progress.seconds_idle = seconds_of(now - moved_ns);
    if (options.on_progress) options.on_progress(progress);
  }
}

}  // namespace

PhaseResult run_phase(Engine* engine, const RequestPlan& plan, const PhaseOptions& options) {
  BONSAI_CHECK(std::has_single_bit(options.latency_every) && options.warmup <= plan.operations);
  const auto count = static_cast<unsigned>(plan.threads.size());
  Gate gate(count);
  Versions of_this_phase;
  Versions* const versions = options.versions != nullptr ? options.versions : &of_this_phase;
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned i = 0; i < count; ++i) {
    workers.push_back(std::make_unique<Worker>(engine, plan.threads[i], options, versions, i, count));
  }
  PhaseResult result;
  {
    std::vector<base::Thread> threads(workers.size());
    for (base::Thread& thread : threads) {
      const Status status = base::Thread::reserve("bench.worker", &thread);
      if (status.ok()) continue;
      result.failures = 1;
      result.first_failure = status.ToString();
      return result;
    }
    for (size_t i = 0; i < threads.size(); ++i) {
      threads[i].begin([&gate, w = workers[i].get()] {
        w->run(&gate);
        if (gate.running.fetch_sub(1) == 1) gate.finished.signal();
      });
    }
    watch(workers, options, gate.ready.all_here());
    gate.ready.open();
    watch(workers, options, gate.warm.all_here());
    if (options.on_clock) options.on_clock();
    gate.start_ns = base::now_ns();
    gate.warm.open();
    watch(workers, options, &gate.finished);
  }
  result.pinned = true;
  uint64_t start_ns = UINT64_MAX;
  uint64_t end_ns = 0;
  for (const auto& worker : workers) {
    worker->add_to(&result);
    start_ns = std::min(start_ns, worker->start_ns());
    end_ns = std::max(end_ns, worker->end_ns());
  }
  result.seconds = seconds_of(std::max<uint64_t>(end_ns - start_ns, 1));
  return result;
}

}  // namespace bonsai::bench
