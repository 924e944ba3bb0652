// SPDX-License-Identifier: Apache-2.0
#include "testing/model_run.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "testing/codec.h"
#include "testing/model_db.h"

namespace bonsai::testing {

namespace {

std::string shown(std::string_view bytes) {
  std::string text = std::to_string(bytes.size()) + " bytes \"";
  for (const char c : bytes.substr(0, 24)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (bytes.size() > 24 ? "...\"" : "\"");
}

Options model_options(const ModelRun& run) {
  Options options;
  options.key_format = run.key_format;
  return options;
}

class Runner {
 public:
  Runner(const ModelRun& run, const StoreOpener& open)
      : run_(run), open_(open), random_(run.seed), model_(model_options(run)) {
    while (keys_.size() < run.keys) keys_.push_back(new_key());
  }

  Verdict run() {
    same(Status::OK(), open_(&db_), "open");
    for (; step_ < run_.steps && verdict_.ok; ++step_) act();
    if (verdict_.ok) compare_all(nullptr, nullptr);
    release_all();
    if (verdict_.ok) same(Status::OK(), db_->Close(), "close");
    return verdict_;
  }

 private:
  struct Moment {
    std::shared_ptr<const Snapshot> expected;
    std::shared_ptr<const Snapshot> actual;
  };
  struct Walk {
    std::unique_ptr<Iterator> expected;
    std::unique_ptr<Iterator> actual;
  };

  // ---- arguments

  std::string random_bytes(size_t n) {
    static constexpr char kAlphabet[] = {'\0', '\1', 'a', 'b', '\x7f', '\x80', '\xff'};
    std::string bytes(n, '\0');
    for (char& c : bytes) c = kAlphabet[random_.below(sizeof kAlphabet)];
    return bytes;
  }

  // Keys that are hard to distinguish: prefixes and extensions of others, equal first eight bytes, all lengths.
  std::string new_key() {
    if (run_.key_format == KeyFormat::kFixed8) {
      return KeyCodec(KeyFormat::kFixed8).key_of(random_.chance(1, 2) ? random_.below(1000) : random_.next());
    }
    const std::string other = keys_.empty() ? "a" : keys_[random_.below(keys_.size())];
    std::string key;
    switch (random_.below(8)) {
      case 0:
        key = other + random_bytes(1);
        break;
      case 1:
        key = other.substr(0, 1 + random_.below(other.size()));
        break;
      case 2:
        key = other.substr(0, 8) + random_bytes(random_.below(12));
        break;
      case 3:
        key = random_bytes(1 + random_.below(kKeyBytesMax));
        break;
      case 4:
        key = random_bytes(8);
        break;
      default:
        key = random_bytes(1 + random_.below(20));
    }
    return key.substr(0, kKeyBytesMax);
  }

  std::string some_key() { return random_.chance(1, 10) ? new_key() : keys_[random_.below(keys_.size())]; }

  // Where a scan may begin or end: also between keys, and after the longest.
  std::string some_bound() {
    if (random_.chance(1, 10)) return std::string(kKeyBytesMax, '\xff') + some_key();
    return some_key() + std::string(random_.below(4) / 3, '\0');
  }

  std::string some_value(bool may_be_large) {
    const uint64_t kind = random_.below(1000);
    size_t n = 0;
    if (kind < 3 && may_be_large && run_.large_bytes_max != 0) {
      n = random_.below(run_.large_bytes_max + 1);
    } else if (kind < 60) {
      n = random_.below(run_.value_bytes_max + 1);
    } else if (kind < 200) {
      n = random_.below(std::min<size_t>(4096, run_.value_bytes_max) + 1);
    } else if (kind < 900) {
      n = random_.below(std::min<size_t>(100, run_.value_bytes_max) + 1);
    }
    return n < kValueBytesMin ? std::string(n, 'v') : encode_value(++values_, n);
  }

  // ---- comparisons

  void differ(const std::string& what) {
    if (!verdict_.ok) return;
    verdict_ =
        Verdict::wrong("step " + std::to_string(step_) + ", BONSAI_SEED=" + std::to_string(run_.seed) + ": " + what);
  }
  void same(const Status& expected, const Status& actual, const std::string& what) {
    if (expected.code() != actual.code()) {
      differ(what + ": expected " + expected.ToString() + ", got " + actual.ToString());
    }
  }
  void same(std::string_view expected, std::string_view actual, const std::string& what) {
    if (expected != actual) differ(what + ": expected " + shown(expected) + ", got " + shown(actual));
  }

  void compare_get(const Snapshot* expected_at, const Snapshot* actual_at, const std::string& key) {
    std::string expected, actual;
    const Status status = model_.Get({.snapshot = expected_at}, key, &expected);
    same(status, db_->Get({.snapshot = actual_at}, key, &actual), "get " + shown(key));
    if (status.ok()) same(expected, actual, "get " + shown(key));
    same(status, db_->Exists({.snapshot = actual_at}, key), "exists " + shown(key));
  }

  using Records = std::vector<std::pair<std::string, std::string>>;

  void compare_scan(ScanOptions options, const Snapshot* expected_at, const Snapshot* actual_at,
                    const std::string& from, uint64_t stop_after) {
    const auto collect = [&](DB* db, const Snapshot* at, Records* records) {
      options.snapshot = at;
      return db->Scan(options, from, [&](std::string_view key, std::string_view value) {
        records->emplace_back(key, value);
        return records->size() < stop_after;
      });
    };
    Records expected, actual;
    same(collect(&model_, expected_at, &expected), collect(db_.get(), actual_at, &actual), "scan");
    for (size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
      same(expected[i].first, actual[i].first, "key of record " + std::to_string(i) + " of a scan");
      same(expected[i].second, actual[i].second, "value of record " + std::to_string(i) + " of a scan");
    }
    if (expected.size() != actual.size()) {
      differ("scan: expected " + std::to_string(expected.size()) + " records, got " + std::to_string(actual.size()));
    }
    uint64_t count = 0;
    options.snapshot = actual_at;
    same(Status::OK(), db_->Count(options, from, &count), "count");
    if (expected.size() < stop_after && count != expected.size()) {
      differ("count: expected " + std::to_string(expected.size()) + ", got " + std::to_string(count));
    }
  }

  void compare_all(const Snapshot* expected_at, const Snapshot* actual_at) {
    compare_scan(ScanOptions(), expected_at, actual_at, {}, UINT64_MAX);
  }

  // ---- operations

  void act() {
    using Action = void (Runner::*)();
    static constexpr std::array<std::pair<uint32_t, Action>, 19> kActions = {{{300, &Runner::put},
                                                                              {40, &Runner::multi_put},
                                                                              {30, &Runner::session},
                                                                              {80, &Runner::del},
                                                                              {60, &Runner::batch},
                                                                              {10, &Runner::delete_range},
                                                                              {200, &Runner::get},
                                                                              {40, &Runner::multi_get},
                                                                              {60, &Runner::scan},
                                                                              {20, &Runner::hold_snapshot},
                                                                              {40, &Runner::read_snapshot},
                                                                              {12, &Runner::drop_snapshot},
                                                                              {20, &Runner::hold_iterator},
                                                                              {60, &Runner::walk_iterator},
                                                                              {12, &Runner::drop_iterator},
                                                                              {10, &Runner::out_of_bounds},
                                                                              {4, &Runner::drain},
                                                                              {4, &Runner::sync},
                                                                              {3, &Runner::reopen}}};
    uint64_t sum = 0;
    for (const auto& action : kActions) sum += action.first;
    uint64_t at = random_.below(sum);
    for (const auto& [weight, action] : kActions) {
      if (at < weight) return (this->*action)();
      at -= weight;
    }
  }

  void put() {
    const std::string key = some_key();
    const std::string value = some_value(true);
    same(model_.Put(key, value), db_->Put(key, value), "put " + shown(key));
  }

  // Some keys come twice, which shows the order.
  void multi_put() {
    std::vector<std::string> keys(1 + random_.below(40)), values(keys.size());
    for (std::string& key : keys) key = random_.chance(1, 4) ? keys[random_.below(keys.size())] : some_key();
    for (std::string& value : values) value = some_value(random_.chance(1, 8));
    for (std::string& key : keys) {
      if (key.empty()) key = some_key();
    }
    const std::vector<std::string_view> key_views(keys.begin(), keys.end()), value_views(values.begin(), values.end());
    std::vector<Status> expected(keys.size()), actual(keys.size());
    model_.MultiPut(key_views, value_views, expected);
    db_->MultiPut(key_views, value_views, actual);
    for (size_t i = 0; i < keys.size(); ++i) same(expected[i], actual[i], "multi-put " + shown(keys[i]));
  }

  // The model does at once what the session defers. Any mix of reads and updates, many of equal keys: each read returns
  // the updates before it, and none of those after it.
  void session() {
    const size_t depth = 1 + random_.below(24);
    const size_t scans_in_100 = random_.below(20);
    const auto session = db_->NewSession(depth);
    std::vector<Begun> begun(1 + random_.below(3 * depth));
    for (size_t i = 0; i < begun.size(); ++i) {
      begun[i].key = i > 0 && random_.chance(2, 3) ? begun[random_.below(i)].key : some_key();
      if (random_.chance(scans_in_100, 100)) {
        begin_scan(session.get(), &begun[i]);
      } else {
        begin_point(session.get(), &begun[i]);
      }
    }
    session->Wait();
    if (session->InFlight() != 0) differ("a session has operations in flight after Wait()");
    for (const Begun& each : begun) {
      same(each.expected_status, each.status, "session's " + each.what + " " + shown(each.key));
      if (each.expected_value && each.expected_status.ok()) {
        same(*each.expected_value, each.value, "session get " + shown(each.key));
      }
      if (each.expected_records != each.records) {
        differ("a session's scan from " + shown(each.key) + " has other records");
      }
    }
  }

  // An operation of a session; what it refers to stays in place.
  struct Begun {
    std::string what, key, end, value;
    std::optional<std::string> expected_value;
    Records records, expected_records;
    Status status, expected_status;
  };

  void begin_point(Session* session, Begun* op) {
    const uint64_t what = random_.below(8);
    if (what < 4) {
      op->what = "get";
      session->Get(op->key, &op->value, &op->status);
      op->expected_status = model_.Get(op->key, &op->expected_value.emplace());
    } else if (what == 4) {
      op->what = "delete";
      session->Delete(op->key, &op->status);
      op->expected_status = model_.Delete(op->key);
    } else {
      op->what = "put";
      op->value = some_value(random_.chance(1, 8));
      session->Put(op->key, op->value, &op->status);
      op->expected_status = model_.Put(op->key, op->value);
    }
  }

  void begin_scan(Session* session, Begun* op) {
    op->what = "scan";
    ScanOptions options;
    options.limit = random_.chance(1, 8) ? UINT64_MAX : 1 + random_.below(30);
    options.from_exclusive = random_.chance(1, 3);
    if (random_.chance(1, 4)) op->end = some_bound();
    options.end = op->end;
    if (random_.chance(1, 2)) op->key = some_bound();
    const auto into = [](Records* records) {
      return [records](std::string_view key, std::string_view value) {
        records->emplace_back(key, value);
        return true;
      };
    };
    session->Scan(options, op->key, into(&op->records), &op->status);
    op->expected_status = model_.Scan(options, op->key, into(&op->expected_records));
  }

  void del() {
    const std::string key = some_key();
    same(model_.Delete(key), db_->Delete(key), "delete " + shown(key));
  }

  void batch() {
    constexpr size_t kBatchBytes = 1500;  // with one update more it still fits into the smallest log segment
    WriteBatch batch;
    size_t bytes = 0;
    for (uint64_t i = random_.below(10); i > 0 && bytes < kBatchBytes; --i) {
      if (random_.chance(1, 4)) {
        batch.Delete(some_key());
      } else {
        batch.Put(some_key(), some_value(false));
      }
      const WriteBatch::Update& last = batch.updates().back();
      bytes += 32 + last.key.size() + std::min<size_t>(last.value.size(), 1024);
    }
    same(model_.Write(batch), db_->Write(batch), "batch of " + std::to_string(batch.Count()));
  }

  // Refused where the log is small: then nothing is changed.
  void delete_range() {
    ScanOptions options;
    const std::string from = random_.chance(1, 8) ? "" : some_bound(), end = random_.chance(1, 4) ? some_bound() : "";
    options.end = end;
    options.limit = 1 + random_.below(8);
    options.from_exclusive = random_.chance(1, 3);
    uint64_t expected = 0, actual = 0;
    const Status status = db_->DeleteRange(options, from, &actual);
    if (status.IsInvalidArgument()) {
      if (status.message().find("delete it in parts") == std::string_view::npos) differ(status.ToString());
      return;
    }
    same(model_.DeleteRange(options, from, &expected), status, "delete of a range");
    if (actual != expected) {
      differ("delete of a range: expected " + std::to_string(expected) + ", got " + std::to_string(actual));
    }
  }

  void get() { compare_get(nullptr, nullptr, some_key()); }

  void multi_get() {
    std::vector<std::string> keys(1 + random_.below(20));
    for (std::string& key : keys) key = some_key();
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<std::string> expected(keys.size()), actual(keys.size());
    std::vector<Status> expected_status(keys.size()), actual_status(keys.size());
    const bool held = !moments_.empty() && random_.chance(1, 3);
    model_.MultiGet({.snapshot = held ? moments_[0].expected.get() : nullptr}, views, expected, expected_status);
    db_->MultiGet({.snapshot = held ? moments_[0].actual.get() : nullptr}, views, actual, actual_status);
    for (size_t i = 0; i < keys.size(); ++i) {
      same(expected_status[i], actual_status[i], "multi-get " + shown(keys[i]));
      if (expected_status[i].ok()) same(expected[i], actual[i], "multi-get " + shown(keys[i]));
    }
  }

  void scan() {
    const bool held = !moments_.empty() && random_.chance(1, 3);
    ScanOptions options;
    const std::string end = random_.chance(1, 2) ? some_bound() : "";
    options.end = end;
    options.from_exclusive = random_.chance(1, 3);
    if (random_.chance(1, 2)) options.limit = random_.below(50);
    compare_scan(options, held ? moments_[0].expected.get() : nullptr, held ? moments_[0].actual.get() : nullptr,
                 random_.chance(1, 5) ? "" : some_bound(), random_.chance(1, 4) ? 1 + random_.below(10) : UINT64_MAX);
  }

  void hold_snapshot() {
    if (moments_.size() >= run_.held_max) return drop_snapshot();
    Moment moment;
    same(model_.GetSnapshot(&moment.expected), db_->GetSnapshot(&moment.actual), "snapshot");
    if (verdict_.ok) moments_.push_back(std::move(moment));
  }

  void read_snapshot() {
    if (moments_.empty()) return;
    const Moment& moment = moments_[random_.below(moments_.size())];
    if (random_.chance(1, 8)) return compare_all(moment.expected.get(), moment.actual.get());
    compare_get(moment.expected.get(), moment.actual.get(), some_key());
  }

  void drop_snapshot() {
    if (!moments_.empty()) moments_.erase(moments_.begin() + static_cast<ptrdiff_t>(random_.below(moments_.size())));
  }

  void hold_iterator() {
    if (walks_.size() >= run_.held_max) return drop_iterator();
    const bool held = !moments_.empty() && random_.chance(1, 2);
    walks_.push_back({model_.NewIterator({.snapshot = held ? moments_[0].expected.get() : nullptr}),
                      db_->NewIterator({.snapshot = held ? moments_[0].actual.get() : nullptr})});
  }

  void walk_iterator() {
    if (walks_.empty()) return;
    const Walk& walk = walks_[random_.below(walks_.size())];
    const std::string key = some_bound();
    const uint64_t seek = random_.below(6);
    for (Iterator* iterator : {walk.expected.get(), walk.actual.get()}) {
      if (seek == 0) iterator->SeekToFirst();
      if (seek == 1) iterator->SeekToLast();
      if (seek == 2) iterator->Seek(key);
      if (seek == 3) iterator->SeekForPrev(key);
      if (seek == 4) iterator->SeekAfter(key);
      if (seek == 5) iterator->SeekBefore(key);
    }
    same_place(walk, "seek " + std::to_string(seek) + " " + shown(key));
    for (uint64_t i = random_.below(30); i > 0 && walk.expected->Valid() && verdict_.ok; --i) {
      const bool next = random_.chance(1, 2) != (seek % 2 == 1);  // mostly away from where it started, with turns
      for (Iterator* iterator : {walk.expected.get(), walk.actual.get()}) {
        if (next) {
          iterator->Next();
        } else {
          iterator->Prev();
        }
      }
      same_place(walk, next ? "next" : "prev");
    }
  }

  void same_place(const Walk& walk, const std::string& what) {
    same(walk.expected->status(), walk.actual->status(), "iterator after " + what);
    if (walk.expected->Valid() != walk.actual->Valid()) {
      return differ("iterator after " + what + ": expected " + (walk.expected->Valid() ? "a record" : "the end"));
    }
    if (!walk.expected->Valid() || !verdict_.ok) return;
    same(walk.expected->key(), walk.actual->key(), "iterator's key after " + what);
    same(walk.expected->value(), walk.actual->value(), "iterator's value after " + what);
  }

  void drop_iterator() {
    if (!walks_.empty()) walks_.erase(walks_.begin() + static_cast<ptrdiff_t>(random_.below(walks_.size())));
  }

  // A bad argument is an error and changes nothing.
  void out_of_bounds() {
    const std::string good = some_key();
    const std::string bad = random_.chance(1, 2) ? "" : std::string(kKeyBytesMax + 1, 'k');
    std::string value;
    WriteBatch batch;
    batch.Put(good, "of a batch that must not be applied");
    batch.Put(bad, "x");
    const Status wrong = Status::InvalidArgument("expected");
    same(wrong, db_->Put(bad, "x"), "put of a bad key");
    same(wrong, db_->Delete(bad), "delete of a bad key");
    same(wrong, db_->Get(bad, &value), "get of a bad key");
    same(wrong, db_->Write(batch), "batch with a bad key");
    if (run_.key_format == KeyFormat::kFixed8) same(wrong, db_->Put("seven b", "x"), "put of a key of seven bytes");
    if (random_.chance(1, 10)) {
      same(wrong, db_->Put(good, std::string(kValueBytesMax + 1, 'v')), "put of a value that is too large");
    }
    compare_get(nullptr, nullptr, good);
  }

  void drain() { same(Status::OK(), db_->Drain(), "drain"); }
  void sync() { same(Status::OK(), db_->Sync(), "sync"); }

  void release_all() {
    walks_.clear();
    moments_.clear();
  }

  void reopen() {
    release_all();
    same(Status::OK(), db_->Close(), "close");
    db_.reset();
    same(Status::OK(), open_(&db_), "reopen");
    if (verdict_.ok) compare_all(nullptr, nullptr);
  }

  const ModelRun& run_;
  const StoreOpener& open_;
  base::Random random_;
  std::vector<std::string> keys_;
  ModelDb model_;
  std::unique_ptr<DB> db_;
  std::vector<Moment> moments_;
  std::vector<Walk> walks_;
  uint64_t step_ = 0;
  uint64_t values_ = 0;
  Verdict verdict_;
};

}  // namespace

Verdict run_against_model(const ModelRun& run, const StoreOpener& open) { return Runner(run, open).run(); }

}  // namespace bonsai::testing
