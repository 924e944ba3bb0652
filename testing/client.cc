// SPDX-License-Identifier: Apache-2.0
#include "testing/client.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/thread.h"
#include "testing/linearizability.h"
#include "testing/snapshot_check.h"

namespace bonsai::testing {

namespace {
constexpr size_t kOperationsMax = 12;  // that one step records: five reads of a snapshot and two groups of three puts
}  // namespace

Client::Client(DB* db, const ClientOptions& options, uint32_t number, uint64_t seed, Recorder* recorder)
    : db_(db),
      options_(options),
      number_(number),
      keys_(options.key_format),
      random_(base::splitmix64(seed) + number),
      lane_(recorder->lane(number)),
      next_value_(((options.generation << 8 | number) << 40) + 1) {
  BONSAI_CHECK(number < options.clients && options.clients < 256 && options.keys > options.clients);
}

bool Client::step() {
  const uint64_t cells_max = std::max<uint64_t>({options_.span_max, options_.batch_count_max, 8});
  if (!error_.empty() || !lane_.has_room(4 * cells_max, kOperationsMax)) return false;
  ++steps_;
  Mix mix = options_.mix;
  if (only_reads_) mix.put = mix.del = mix.batch = mix.conditional = mix.drain = mix.sync = 0;
  const std::array<std::pair<uint32_t, bool (Client::*)()>, 11> choices = {{{mix.put, &Client::put},
                                                                            {mix.get, &Client::get},
                                                                            {mix.del, &Client::del},
                                                                            {mix.batch, &Client::batch},
                                                                            {mix.conditional, &Client::conditional},
                                                                            {mix.multi_get, &Client::multi_get},
                                                                            {mix.scan, &Client::scan},
                                                                            {mix.snapshot, &Client::snapshot},
                                                                            {mix.iterator, &Client::iterator},
                                                                            {mix.drain, &Client::drain},
                                                                            {mix.sync, &Client::sync}}};
  uint64_t sum = 0;
  for (const auto& choice : choices) sum += choice.first;
  uint64_t at = random_.below(sum);
  for (const auto& [weight, operation] : choices) {
    if (at < weight) return (this->*operation)();
    at -= weight;
  }
  return false;
}

bool Client::fail(const std::string& what) {
  error_ = "client " + std::to_string(number_) + ": " + what;
  return false;
}

uint64_t Client::random_key(bool own) {
  const uint64_t place = own ? number_ : options_.clients;
  const uint64_t turn = options_.clients + 1;
  const uint64_t turns = (options_.keys - place + turn - 1) / turn;
  return random_.below(turns) * turn + place;
}

std::string Client::bytes_of(uint64_t value) {
  return encode_value(value, kValueBytesMin + random_.below(options_.value_bytes_max - kValueBytesMin + 1));
}

uint64_t Client::value_of(const Status& status, const std::string& bytes) {
  return status.IsNotFound() ? kAbsent : decode_value(bytes);
}

bool Client::is_unavailable(const Status& status) {
  if (!options_.may_be_unavailable || !(status.IsUnavailable() || status.IsIoError())) return false;
  only_reads_ = true;
  return true;
}

// Whether a read has an answer to record. After an error, or if it was unavailable and may be so, it has none.
bool Client::has_read(const Status& status, const char* what) {
  if (status.ok()) return true;
  if (!options_.may_be_unavailable || !status.IsUnavailable())
    return fail(std::string(what) + ": " + status.ToString());
  ++unread_;
  return false;
}

// ---- updates

bool Client::finish_update(const Status& status, uint64_t operation, const char* what) {
  if (status.IsNoSpace() && options_.may_be_full) {
    lane_.withdraw_update(operation);
    ++refused_;
    return true;
  }
  if (is_unavailable(status)) return true;
  if (!status.ok()) return fail(std::string(what) + ": " + status.ToString());
  lane_.end_update(operation);
  return true;
}

bool Client::put() {
  if (ebbing() && random_.chance(9, 10)) return del();
  if (random_.chance(1, 4)) return multi_put();
  const Cell cell{random_key(random_.chance(2, 3)), new_value()};
  const std::string key = keys_.key_of(cell.key);
  const std::string value = bytes_of(cell.value);
  const uint64_t operation = lane_.begin_update(OpKind::kPut, cell);
  return finish_update(db_->Put(key, value), operation, "put");
}

// Several puts at once, each an update of its own.
bool Client::multi_put() {
  constexpr size_t kPutsMax = 3;  // more updates in flight make the checker slow
  std::array<std::string, kPutsMax> keys, values;
  std::array<std::string_view, kPutsMax> key_views, value_views;
  std::array<uint64_t, kPutsMax> operations;
  std::array<Status, kPutsMax> statuses;
  cells_.clear();
  while (cells_.size() < kPutsMax) {
    const uint64_t key = random_key(random_.chance(2, 3));
    if (std::any_of(cells_.begin(), cells_.end(), [&](const Cell& cell) { return cell.key == key; })) break;
    const size_t i = cells_.size();
    cells_.push_back({key, new_value()});
    key_views[i] = keys[i] = keys_.key_of(key);
    value_views[i] = values[i] = bytes_of(cells_[i].value);
    operations[i] = lane_.begin_update(OpKind::kPut, cells_[i]);
  }
  const size_t n = cells_.size();
  db_->MultiPut({key_views.data(), n}, {value_views.data(), n}, {statuses.data(), n});
  for (size_t i = 0; i < n; ++i) {
    if (!finish_update(statuses[i], operations[i], "multi-put")) return false;
  }
  return true;
}

bool Client::del() {
  const Cell cell{random_key(random_.chance(2, 3)), kAbsent};
  const std::string key = keys_.key_of(cell.key);
  const uint64_t operation = lane_.begin_update(OpKind::kDelete, cell);
  const Status status = db_->Delete(key);
  if (status.IsNoSpace()) return fail("delete: " + status.ToString());  // a full store still takes deletes
  return finish_update(status, operation, "delete");
}

bool Client::batch() {
  const bool own = random_.chance(2, 3);
  const uint64_t count = 2 + random_.below(options_.batch_count_max - 1);
  WriteBatch batch;
  cells_.clear();
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t key = random_key(own);
    if (std::any_of(cells_.begin(), cells_.end(), [&](const Cell& cell) { return cell.key == key; })) continue;
    if (random_.chance(ebbing() ? 4 : 1, 5)) {
      cells_.push_back({key, kAbsent});
      batch.Delete(keys_.key_of(key));
    } else {
      cells_.push_back({key, new_value()});
      batch.Put(keys_.key_of(key), bytes_of(cells_.back().value));
    }
  }
  const uint64_t operation = lane_.begin_update(OpKind::kBatch, cells_);
  return finish_update(db_->Write(batch), operation, "batch");
}

// A get before a conditional update. False: it has no answer.
bool Client::look_at(uint64_t number, std::string* bytes, uint64_t* held) {
  const uint64_t invoke = lane_.begin_read();
  const Status status = db_->Get(keys_.key_of(number), bytes);
  if (!has_found(status, "get")) return false;
  *held = value_of(status, *bytes);
  lane_.end_read(OpKind::kGet, invoke, {number, *held});
  return true;
}

// A compare and set. On a key of its own it holds.
bool Client::update_if(uint64_t number, bool own) {
  std::string seen;
  uint64_t held = kAbsent;
  if (!look_at(number, &seen, &held)) return goes_on();
  if (own && random_.chance(1, 4)) return refused_update(number, held);
  const std::string key = keys_.key_of(number);
  const Condition condition = held == kAbsent ? Condition::Absent() : Condition::Equals(seen);
  const bool deletes = random_.chance(ebbing() ? 4 : 1, 5);
  cells_ = {{number, deletes ? kAbsent : new_value()}};
  if (!own) cells_.push_back({number, held, true});
  const OpKind kind = !own ? OpKind::kConditional : deletes ? OpKind::kDelete : OpKind::kPut;
  const uint64_t invoke = lane_.begin_read();
  const uint64_t operation = lane_.begin_update(kind, cells_);
  const Status status = deletes ? db_->DeleteIf(condition, key) : db_->PutIf(condition, key, bytes_of(cells_[0].value));
  if (!status.IsConditionFailed()) return finish_update(status, operation, "conditional update");
  lane_.withdraw_update(operation);
  if (own) return fail("a condition on a key of one writer was refused, though it holds");
  lane_.end_read(OpKind::kRefused, invoke, {number, held, true});
  return true;
}

// Nobody may ever read its value.
bool Client::refused_update(uint64_t number, uint64_t held) {
  const std::string key = keys_.key_of(number);
  const Condition wrong = held == kAbsent ? Condition::Present() : Condition::Absent();
  const uint64_t value = new_value();
  const Status status = random_.chance(1, 4) ? db_->DeleteIf(wrong, key) : db_->PutIf(wrong, key, bytes_of(value));
  if (status.IsConditionFailed() || (options_.may_be_full && status.IsNoSpace()) || is_unavailable(status)) return true;
  return fail("a condition that does not hold was answered with " + status.ToString());
}

// Puts some keys of its own if one has the value that it has; or if it has not, and then nothing.
bool Client::batch_if() {
  const uint64_t required = random_key(true);
  std::string seen;
  uint64_t held = kAbsent;
  if (!look_at(required, &seen, &held)) return goes_on();
  const bool holds = random_.chance(3, 4);
  WriteBatch batch;
  batch.Require(keys_.key_of(required), holds == (held == kAbsent) ? Condition::Absent() : Condition::Present());
  if (holds && held != kAbsent) batch.Require(keys_.key_of(required), Condition::Equals(seen));
  cells_.clear();
  for (uint64_t i = 0; i < options_.batch_count_max; ++i) {
    const uint64_t key = random_key(true);
    if (std::any_of(cells_.begin(), cells_.end(), [&](const Cell& cell) { return cell.key == key; })) continue;
    cells_.push_back({key, new_value()});
    batch.Put(keys_.key_of(key), bytes_of(cells_.back().value));
  }
  const uint64_t operation = lane_.begin_update(OpKind::kBatch, cells_);
  const Status status = db_->Write(batch);
  if (!holds && status.ok()) return fail("a batch was made, though a condition does not hold");
  if (!status.IsConditionFailed()) return finish_update(status, operation, "conditional batch");
  if (holds) return fail("a batch was refused, though its conditions hold");
  lane_.withdraw_update(operation);
  return true;
}

bool Client::conditional() {
  if (random_.chance(1, 3)) return batch_if();
  const bool own = random_.chance(2, 3);
  return update_if(random_key(own), own);
}

bool Client::drain() {
  const Status status = db_->Drain();
  return status.ok() || is_unavailable(status) || fail("drain: " + status.ToString());
}

bool Client::sync() {
  const uint64_t invoke = lane_.begin_read();
  const Status status = db_->Sync();
  if (is_unavailable(status)) return true;
  if (!status.ok()) return fail("sync: " + status.ToString());
  synced_at_ = invoke;
  return true;
}

// ---- reads

bool Client::get() {
  const uint64_t number = random_.below(options_.keys);
  const std::string key = keys_.key_of(number);
  std::string bytes;
  const uint64_t invoke = lane_.begin_read();
  const Status status = db_->Get(key, &bytes);
  if (!has_found(status, "get")) return goes_on();
  lane_.end_read(OpKind::kGet, invoke, {number, value_of(status, bytes)});
  return true;
}

bool Client::multi_get() {
  constexpr size_t kKeys = 6;
  std::array<uint64_t, kKeys> numbers;
  std::array<std::string, kKeys> keys;
  std::array<std::string_view, kKeys> views;
  std::array<std::string, kKeys> values;
  std::array<Status, kKeys> statuses;
  for (size_t i = 0; i < kKeys; ++i) {
    numbers[i] = random_.below(options_.keys);
    keys[i] = keys_.key_of(numbers[i]);
    views[i] = keys[i];
  }
  const uint64_t invoke = lane_.begin_read();
  db_->MultiGet(ReadOptions(), views, values, statuses);
  for (size_t i = 0; i < kKeys; ++i) {
    if (!has_found(statuses[i], "multi-get")) continue;
    lane_.end_read(OpKind::kGet, invoke, {numbers[i], value_of(statuses[i], values[i])});
  }
  return goes_on();
}

Client::Span Client::random_span() {
  const uint64_t from = random_.below(options_.keys);
  return {from, std::min(options_.keys, from + 1 + random_.below(options_.span_max))};
}

void Client::expect(Span span) {
  cells_.clear();
  for (uint64_t key = span.from; key < span.to; ++key) cells_.push_back({key, kAbsent});
}

bool Client::saw(Span span, std::string_view key, std::string_view value) {
  const auto number = keys_.number_of(key);
  if (!number || *number >= options_.keys) return fail("a key that nobody wrote was read");
  if (*number < span.from || *number >= span.to)
    return fail("key " + std::to_string(*number) + " is not in the range [" + std::to_string(span.from) + ", " +
                std::to_string(span.to) + ") of a " + reading_);
  Cell& cell = cells_[*number - span.from];
  if (cell.value != kAbsent) return fail("key " + std::to_string(*number) + " was visited twice by a " + reading_);
  cell.value = decode_value(value);
  return true;
}

bool Client::scan_span(const Snapshot* snapshot, Span span) {
  reading_ = snapshot == nullptr ? "scan" : "scan of a snapshot";
  expect(span);
  const std::string from = keys_.key_of(span.from);
  const std::string end = keys_.key_of(span.to);
  ScanOptions options;
  options.snapshot = snapshot;
  options.end = end;
  std::string last;
  const Status status = db_->Scan(options, from, [&](std::string_view key, std::string_view value) {
    if (!last.empty() && key <= last) return fail("scan is out of order");
    last = key;
    return saw(span, key, value);
  });
  return error_.empty() && has_read(status, "scan");
}

// By limit instead of end key: what it says about keys after the last record is nothing.
bool Client::scan_limited(const Snapshot* snapshot, Span span) {
  reading_ = "scan with a limit";
  const uint64_t limit = span.to - span.from;
  const Span rest{span.from, options_.keys};
  expect(rest);
  ScanOptions options;
  options.snapshot = snapshot;
  options.limit = limit;
  uint64_t count = 0;
  uint64_t last = span.from;
  const auto take = [&](std::string_view key, std::string_view value) {
    if (!saw(rest, key, value)) return false;
    const uint64_t number = *keys_.number_of(key);
    if (number < last) return fail("scan is out of order");
    last = number;
    return ++count <= limit || fail("scan ignores its limit");
  };
  const std::string first = keys_.key_of(0), from = keys_.key_of(span.from);
  Status status;
  if (random_.chance(1, 2)) {
    status = db_->Scan(options, from, take);
  } else {  // after another one of a session, so that what is known of its range may be out of date
    const std::unique_ptr<Session> session = db_->NewSession(2);
    Status other;
    session->Scan(
        options, first, [](std::string_view, std::string_view) { return true; }, &other);
    session->Scan(options, from, take, &status);
    session->Wait();
    if (status.ok()) status = other;
  }
  if (!error_.empty() || !has_read(status, "scan")) return false;
  const uint64_t covered = count == limit ? last + 1 - span.from : options_.keys - span.from;
  cells_.resize(std::min(covered, 4 * options_.span_max));
  return true;
}

bool Client::scan() {
  const Span span = random_span();
  const bool limited = random_.chance(1, 3);
  const uint64_t invoke = lane_.begin_read();
  if (!(limited ? scan_limited(nullptr, span) : scan_span(nullptr, span))) return goes_on();
  lane_.end_read(OpKind::kScan, invoke, cells_);
  return true;
}

bool Client::get_through(const Snapshot* snapshot, uint64_t number) {
  std::string bytes;
  const Status status = db_->Get({.snapshot = snapshot}, keys_.key_of(number), &bytes);
  if (!has_found(status, "get through a snapshot")) return false;
  cells_ = {{number, value_of(status, bytes)}};
  return true;
}

// Half the time, an update while the caller holds a snapshot. A snapshot that moves on is noticed by it however the
// clients are scheduled: they may well run one after the other.
bool Client::update_beside() { return only_reads_ || options_.mix.put == 0 || random_.chance(1, 2) || put(); }

// Takes a snapshot and reads through it in all ways, the first and the last time the same range.
bool Client::snapshot() {
  std::shared_ptr<const Snapshot> snapshot;
  const uint64_t invoke = lane_.begin_read();
  const Status status = db_->GetSnapshot(&snapshot);
  const uint64_t ret = lane_.begin_read();
  if (!has_read(status, "snapshot")) return goes_on();
  const Span span = random_span();
  const auto record = [&](bool ok) {
    if (ok && lane_.has_room(cells_.size())) lane_.add_read(OpKind::kSnapshotRead, invoke, ret, cells_);
    return goes_on();
  };
  if (!update_beside()) return false;
  for (uint64_t i = random_.below(4); i > 0; --i) {
    if (!record(get_through(snapshot.get(), random_.below(options_.keys)))) return false;
  }
  if (!record(scan_span(snapshot.get(), span)) || !update_beside()) return false;
  const std::unique_ptr<Iterator> iterator = db_->NewIterator({.snapshot = snapshot.get()});
  return record(random_.chance(1, 2) ? walk_backward(iterator.get(), span) : walk_forward(iterator.get(), span));
}

bool Client::walk_forward(Iterator* iterator, Span span) {
  reading_ = "walk forward";
  expect(span);
  const std::string end = keys_.key_of(span.to);
  for (iterator->Seek(keys_.key_of(span.from)); iterator->Valid() && iterator->key() < end; iterator->Next()) {
    if (!saw(span, iterator->key(), iterator->value())) return false;
  }
  return has_read(iterator->status(), "iterator");
}

bool Client::walk_backward(Iterator* iterator, Span span) {
  reading_ = "walk backward";
  expect(span);
  const std::string from = keys_.key_of(span.from);
  for (iterator->SeekForPrev(keys_.key_of(span.to - 1)); iterator->Valid() && iterator->key() >= from;
       iterator->Prev()) {
    if (!saw(span, iterator->key(), iterator->value())) return false;
  }
  return has_read(iterator->status(), "iterator backwards");
}

bool Client::iterator() {
  const uint64_t invoke = lane_.begin_read();
  const std::unique_ptr<Iterator> iterator = db_->NewIterator(ReadOptions());
  const uint64_t ret = lane_.begin_read();
  const Span span = random_span();
  if (!update_beside()) return false;
  if (!walk_forward(iterator.get(), span)) return goes_on();
  lane_.add_read(OpKind::kSnapshotRead, invoke, ret, cells_);
  if (!walk_backward(iterator.get(), span)) return goes_on();
  lane_.add_read(OpKind::kSnapshotRead, invoke, ret, cells_);
  return true;
}

// ---- whole workloads

WorkloadResult run_workload(DB* db, const ClientOptions& options, uint64_t seed, uint64_t steps) {
  const uint64_t cells_of_step = 4 * std::max<uint64_t>(options.span_max, 8);
  const auto recorder = Recorder::in_memory(
      {.lanes = options.clients, .operations_max = 8 * steps + 64, .cells_max = cells_of_step * (steps + 8)});
  WorkloadResult result;
  std::vector<std::string> errors(options.clients);
  {
    std::vector<base::Thread> threads;
    for (uint32_t number = 0; number < options.clients; ++number) {
      threads.emplace_back("client", [&, number] {
        Client client(db, options, number, seed, recorder.get());
        for (uint64_t i = 0; i < steps && client.step(); ++i) continue;
        errors[number] = client.error();
      });
    }
  }
  for (const std::string& error : errors) {
    if (result.error.empty()) result.error = error;
  }
  result.history = recorder->history();
  for (const Operation& op : result.history.operations) {
    if (op.kind == OpKind::kScan || op.kind == OpKind::kSnapshotRead) result.snapshot_reads += op.cells_count;
  }
  return result;
}

Verdict check_workload(const History& history, const ClientOptions& options) {
  if (Verdict verdict = check_registers(history); !verdict.ok) return verdict;
  History one_writer;
  std::vector<Cell> cells;
  for (const Operation& op : history.operations) {
    cells.clear();
    for (const Cell& cell : history.cells_of(op)) {
      if (options.one_writer(cell.key)) cells.push_back(cell);
    }
    if (!cells.empty()) one_writer.add(op.kind, op.thread, op.invoke, op.ret, cells);
  }
  return check_snapshots(one_writer);
}

}  // namespace bonsai::testing
