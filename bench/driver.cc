#include "bench/driver.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "bench/values.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kStartMsMax = 60'000;
constexpr uint64_t kProgressEveryMs = 200;
constexpr uint64_t kScanChecksEvery = 16;

// What the threads of a phase share.
struct Gate {
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false};
  std::atomic<unsigned> running{0};
  base::Event finished;
};

// Verifies a scan: it must begin with its start record, rise, and carry its records' values. Paid inside the
// measurement, so only one scan in kScanChecksEvery is verified record by record (for all it would cost
// absl::btree_map a quarter of its speed); of the others the first record, the number of records and the sum of the
// value sizes are checked.
class ScanCheck {
 public:
  // `room` keeps the last string key.
  ScanCheck(const RecordShape& shape, std::string_view from, bool start_may_miss, std::string* room)
      : shape_(shape),
        from_(from),
        start_may_miss_(start_may_miss),
        integer_keys_(shape.key_form == KeyForm::kFixed8),
        room_(room) {}

  bool visit_lightly(std::string_view key, std::string_view value) {
    if (count_ == 0) [[unlikely]]
      check_start(key);
    keep_last(key);
    value_bytes_ += value.size();
    ++count_;
    return true;
  }

  bool visit_thoroughly(std::string_view key, std::string_view value) {
    if (count_ > 0) wrong_ |= key <= last_key();
    visit_lightly(key, value);
    if (integer_keys_) wrong_ |= !value_is_of(__builtin_bswap64(last_), value, shape_.value_bytes);
    return true;
  }

  [[nodiscard]] bool wrong() const { return wrong_ || value_bytes_ != count_ * shape_.value_bytes; }
  [[nodiscard]] uint64_t count() const { return count_; }
  // Requires count() > 0.
  [[nodiscard]] std::string_view last_key() const {
    return integer_keys_ ? std::string_view(reinterpret_cast<const char*>(&last_), 8) : std::string_view(*room_);
  }

 private:
  void check_start(std::string_view key) { wrong_ |= start_may_miss_ ? key < from_ : key != from_; }

  void keep_last(std::string_view key) {
    if (integer_keys_ && key.size() == 8) [[likely]] {
      std::memcpy(&last_, key.data(), 8);
    } else {
      wrong_ |= integer_keys_;
      room_->assign(key);
    }
  }

  const RecordShape& shape_;
  std::string_view from_;
  const bool start_may_miss_;
  const bool integer_keys_;
  std::string* room_;
  uint64_t last_ = 0;  // the bytes of the last integer key
  uint64_t value_bytes_ = 0;
  uint64_t count_ = 0;
  bool wrong_ = false;
};

// One thread of a phase.
class alignas(64) Worker {
 public:
  Worker(Engine* engine, const RequestList& list, const PhaseOptions& options)
      : engine_(engine),
        list_(list),
        options_(options),
        shape_(options.shape),
        verifies_(engine->capabilities().keeps_data),
        new_value_(shape_.value_bytes, '\0'),
        key_room_(shape_.key_bytes_max() * (options.depth + 1)),
        ids_(options.depth),
        keys_(options.depth),
        values_(options.depth),
        statuses_(options.depth) {}

  void run() {
    start_ns_ = base::now_ns();
    const std::vector<Request>& requests = list_.requests;
    for (turn_ = 0; turn_ < requests.size(); ++turn_) {
      const Request& request = requests[turn_];
      const bool at_mark = turn_ % kLatencyEvery == 0;
      if (at_mark && !go_on()) break;
      if (options_.depth > 1 && request.kind == OpKind::kRead) {
        gather_read(request);
      } else if (at_mark) {
        perform_timed(request);
      } else {
        perform(request);
      }
    }
    read_gathered();
    done_.store(turn_, std::memory_order_relaxed);
    end_ns_ = base::now_ns();
  }

  [[nodiscard]] uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t start_ns() const { return start_ns_; }
  [[nodiscard]] uint64_t end_ns() const { return end_ns_; }

  // Adds this thread's part to *total. Requires: run() returned.
  void add_to(PhaseResult* total) const {
    total->operations += turn_;
    for (size_t i = 0; i < turn_; ++i) ++total->operations_of[static_cast<size_t>(list_.requests[i].kind)];
    total->failures += result_.failures;
    if (total->first_failure.empty()) total->first_failure = result_.first_failure;
    total->stopped |= turn_ < list_.requests.size();
    total->inserted += result_.inserted;
    total->inserted_key_bytes += result_.inserted_key_bytes;
    total->removes += result_.removes;
    for (size_t kind = 0; kind < kOpKinds; ++kind) {
      total->latency[kind].merge(result_.latency[kind]);
      total->failures_of[kind] += result_.failures_of[kind];
    }
  }

 private:
  bool go_on() {
    done_.store(turn_, std::memory_order_relaxed);
    const bool stop = options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
    return !stop && errors_ < kErrorsMax;
  }

  void perform_timed(const Request& request) {
    const uint64_t before = base::now_ns();
    perform(request);
    result_.latency[static_cast<size_t>(request.kind)].record(base::now_ns() - before);
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
        const Status status = engine_->read(key, &value_);
        check_read(status, id, value_);
        break;
      }
      case OpKind::kUpdate:
        renew_value(id);
        check(engine_->update(key, new_value_));
        break;
      case OpKind::kReadModifyWrite: {
        renew_value(id);
        const Status status = engine_->read_modify_write(key, new_value_, &value_);
        check_read(status, id, value_);
        break;
      }
      case OpKind::kScan:
        scan(key, request.scan_length);
        break;
      case OpKind::kDelete:
        check(engine_->remove(key));
        ++result_.removes;
        break;
      case OpKind::kInsert:
        break;
    }
  }

  void insert(const Request& request) {
    const bool is_new = request.source == KeySource::kNew;
    const uint64_t number = is_new ? options_.counter->take() : 0;
    const uint64_t id = is_new ? shape_.id(number) : request.key;
    const std::string_view key = key_of(request, id, options_.depth);
    renew_value(id);
    const Status status = engine_->insert(key, new_value_);
    check(status);
    if (is_new) options_.counter->acknowledge(number);
    if (!status.ok()) return;
    ++result_.inserted;
    result_.inserted_key_bytes += key.size();
  }

  void renew_value(uint64_t id) { fill_value(id, static_cast<uint32_t>(turn_), new_value_.data(), new_value_.size()); }

  // Beyond what ScanCheck verifies: a scan may end early only behind the last key.
  void scan(std::string_view from, uint32_t limit) {
    ScanCheck seen(shape_, from, options_.absent_is_fine, &last_key_);
    const Status status =
        scans_++ % kScanChecksEvery == 0
            ? engine_->scan(from, limit, [&seen](auto key, auto value) { return seen.visit_thoroughly(key, value); })
            : engine_->scan(from, limit, [&seen](auto key, auto value) { return seen.visit_lightly(key, value); });
    if (!status.ok()) return note_error(status);
    if (!verifies_) return;
    if (seen.wrong() || seen.count() > limit) {
      return note_failure("a scan returned a record out of order or with a wrong value");
    }
    const bool ended_early = seen.count() < limit && !options_.absent_is_fine;
    if (ended_early && (seen.count() == 0 || seen.last_key() < options_.key_max)) {
      note_failure("a scan ended after " + std::to_string(seen.count()) + " of " + std::to_string(limit) + " records");
    }
  }

  void check(const Status& status) {
    if (status.ok()) [[likely]]
      return;
    if (status.IsNotFound() && options_.absent_is_fine) return;
    note_error(status);
  }

  void check_read(const Status& status, uint64_t id, std::string_view value) {
    if (!status.ok()) [[unlikely]]
      return check(status);
    if (!verifies_ || value_is_of(id, value, shape_.value_bytes)) [[likely]]
      return;
    note_failure("a read returned a value that is not its record's (" + std::to_string(value.size()) + " bytes)");
  }

  void note_error(const Status& status) {
    if (status.IsNotFound()) return note_failure("a record that was stored is not found");
    ++errors_;
    note_failure(status.ToString());
  }

  void note_failure(const std::string& what) {
    done_.store(turn_, std::memory_order_relaxed);
    if (result_.failures++ == 0) result_.first_failure = what;
    // Reads that were gathered are handed over at a read or after the last request.
    const OpKind kind = turn_ < list_.requests.size() ? list_.requests[turn_].kind : OpKind::kRead;
    ++result_.failures_of[static_cast<size_t>(kind)];
  }

  void gather_read(const Request& request) {
    ids_[gathered_] = id_of(request);
    keys_[gathered_] = key_of(request, ids_[gathered_], gathered_);
    if (++gathered_ == options_.depth) read_gathered();
  }

  void read_gathered() {
    if (gathered_ == 0) return;
    const bool timed = batches_++ % std::max<uint64_t>(1, kLatencyEvery / options_.depth) == 0;
    const uint64_t before = timed ? base::now_ns() : 0;
    engine_->read_many(std::span(keys_).first(gathered_), std::span(values_).first(gathered_),
                       std::span(statuses_).first(gathered_));
    if (timed) result_.latency[static_cast<size_t>(OpKind::kRead)].record(base::now_ns() - before);
    for (size_t i = 0; i < gathered_; ++i) check_read(statuses_[i], ids_[i], values_[i]);
    gathered_ = 0;
  }

  Engine* engine_;
  const RequestList& list_;
  const PhaseOptions& options_;
  const RecordShape shape_;
  const bool verifies_;

  size_t turn_ = 0;
  std::string new_value_;  // what this thread writes
  std::string value_;      // what it reads
  std::string last_key_;   // of a scan
  std::vector<char> key_room_;

  // Reads that wait to be handed over together (depth > 1).
  size_t gathered_ = 0;
  uint64_t batches_ = 0;
  std::vector<uint64_t> ids_;
  std::vector<std::string_view> keys_;
  std::vector<std::string> values_;
  std::vector<Status> statuses_;

  uint64_t scans_ = 0;
  uint64_t errors_ = 0;
  PhaseResult result_;
  uint64_t start_ns_ = 0;
  uint64_t end_ns_ = 0;
  alignas(64) std::atomic<uint64_t> done_{0};  // read by the watcher
};

void run_worker(Worker* worker, Gate* gate) {
  gate->ready.fetch_add(1);
  for (base::BoundedWait wait("bench.start", kStartMsMax); !gate->go.load(); wait.pause())
    BONSAI_CHECK(!wait.expired());
  worker->run();
  if (gate->running.fetch_sub(1) == 1) gate->finished.signal();
}

// Reports until the last worker is done. The caller decides what a phase without progress means.
void watch(const std::vector<std::unique_ptr<Worker>>& workers, const PhaseOptions& options, Gate* gate) {
  const uint64_t start_ns = base::now_ns();
  uint64_t moved_ns = start_ns;
  uint64_t done_before = 0;
  while (!gate->finished.wait_for(kProgressEveryMs)) {
    PhaseProgress progress;
    for (const auto& worker : workers) progress.done += worker->done();
    const uint64_t now = base::now_ns();
    if (progress.done != done_before) moved_ns = now;
    done_before = progress.done;
    progress.seconds = static_cast<double>(now - start_ns) * 1e-9;
    progress.seconds_idle = static_cast<double>(now - moved_ns) * 1e-9;
    if (options.on_progress) options.on_progress(progress);
  }
}

}  // namespace

PhaseResult run_phase(Engine* engine, const RequestPlan& plan, const PhaseOptions& options) {
  Gate gate;
  gate.running = static_cast<unsigned>(plan.threads.size());
  std::vector<std::unique_ptr<Worker>> workers;
  for (const RequestList& list : plan.threads) workers.push_back(std::make_unique<Worker>(engine, list, options));
  {
    std::vector<base::Thread> threads;
    for (const auto& worker : workers) {
      threads.emplace_back("bench.worker", [&gate, w = worker.get()] { run_worker(w, &gate); });
    }
    for (base::BoundedWait wait("bench.ready", kStartMsMax); gate.ready.load() < workers.size(); wait.pause()) {
      BONSAI_CHECK(!wait.expired());
    }
    gate.go = true;
    watch(workers, options, &gate);
  }
  PhaseResult result;
  uint64_t start_ns = UINT64_MAX;
  uint64_t end_ns = 0;
  for (const auto& worker : workers) {
    worker->add_to(&result);
    start_ns = std::min(start_ns, worker->start_ns());
    end_ns = std::max(end_ns, worker->end_ns());
  }
  result.seconds = static_cast<double>(std::max<uint64_t>(end_ns - start_ns, 1)) * 1e-9;
  return result;
}

}  // namespace bonsai::bench
