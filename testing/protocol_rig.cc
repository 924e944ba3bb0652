// SPDX-License-Identifier: Apache-2.0
#include "testing/protocol_rig.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/coro/scheduler.h"
#include "base/random.h"
#include "testing/codec.h"
#include "testing/conditional.h"
#include "testing/linearizability.h"
#include "testing/protocol_steps.h"
#include "testing/recorder.h"

namespace bonsai::testing {

namespace {

constexpr uint64_t kSpread = 1000;  // distance of key numbers when other records are between
constexpr uint64_t kFillers = 50;   // of them between two neighbours
constexpr size_t kFillerBytes = 400;
constexpr int kDrainsToCompact = 10;
constexpr uint64_t kNearlyFullKeys = 12;    // keys that leave room for few more in a table of 16
constexpr uint64_t kNearlyFullFirst = 100;  // number of the first of them, after a key
constexpr uint64_t kFilling = 32;           // two times: more than a table of 16 and then one of 32 have room for
constexpr uint64_t kLong = 300;             // updates of a batch that is long in flight
constexpr uint64_t kLate = 60;              // updates of a batch before the one that needs room
constexpr int kLooksMax = 10'000;           // for a batch to become visible
constexpr uint64_t kSwitchesMax = 2'000'000;
constexpr std::array<uint32_t, 3> kStays = {0, 160, 235};  // Scheduler::Options::stay_per_256, by turns

// The action without the number of its key.
std::string_view name_of(std::string_view action) {
  const bool has_key = !action.empty() && action.back() >= '0' && action.back() <= '9';
  return action.substr(0, action.size() - (has_key ? 1 : 0));
}

// One store and the runs on it.
class Rig {
 public:
  Rig(const ProtocolCase& what, const ProtocolStore& store, uint64_t seed)
      : what_(what),
        store_(store),
        random_(seed),
        codec_(KeyFormat::kBytes),
        before_(parse(what.before)[0]),
        programs_(parse(what.programs)) {
    db_ = store.open();
    if (what.spread) fill(true);
    for (uint64_t key = 0; key < what.keys; ++key) held_.push_back({key, kAbsent});
    for (size_t i = 0; i < kStays.size(); ++i) {
      base::Scheduler::Options options;
      options.pick = base::Scheduler::Pick::kSeeded;
      options.stay_per_256 = kStays[i];
      options.stack_bytes = size_t{256} << 10;
      options.switches_max = kSwitchesMax;
      schedulers_[i] = std::make_unique<base::Scheduler>(options);
    }
  }

  ~Rig() {
    snapshots_.clear();
    if (abandoned_) static_cast<void>(db_.release());  // coroutines still stand in it
  }

  [[nodiscard]] Stats stats() const { return db_->GetStats(); }
  [[nodiscard]] uint64_t refused() const { return refused_; }

  Verdict run_schedule(bool with_crash) {
    recorder_ = Recorder::in_memory(
        {.lanes = static_cast<uint32_t>(programs_.size() + 1), .operations_max = 256, .cells_max = 1024});
    StepWatch steps;
    uint64_t crash_tick = 0;
    if (with_crash) {
      steps.crash_at = 1 + random_.below(steps_last_ + steps_last_ / 8 + 1);
      steps.crash = [&] {
        store_.copy_durable();
        crash_tick = recorder_->tick();
      };
    }
    ++late_;
    const size_t last = programs_.size();
    snapshots_.assign(last + 1, nullptr);
    for (const std::string& action : before_) perform(action, last);
    if (Verdict verdict = run_programs(&steps); !verdict.ok) return verdict;
    hoard(false);
    perform("scan", last);
    for (uint64_t key = 0; key < what_.keys; ++key) perform("get" + std::to_string(key), last);
    snapshots_.clear();
    steps_last_ = steps.steps;
    if (!error_.empty()) return Verdict::wrong(error_);

    const History history = recorder_->history();
    if (Verdict verdict = check_whole(history, held_); !verdict.ok) return verdict;
    if (crash_tick != 0) {
      if (Verdict verdict = check_crash_at(history, crash_tick); !verdict.ok) return verdict;
    }
    held_ = final_;
    return {};
  }

 private:
  [[nodiscard]] std::string key_of(uint64_t key) const {
    return codec_.key_of(what_.spread ? (key + 1) * kSpread : key);
  }

  // Puts or deletes every n-th record between the keys, and drains. They are no part of the history.
  void fill(bool put, uint64_t n = 1) {
    for (uint64_t gap = 0; gap <= what_.keys; ++gap) {
      for (uint64_t i = 1; i <= kFillers; i += n) {
        const std::string key = codec_.key_of(gap * kSpread + i);
        expect_ok(put ? db_->Put(key, std::string(kFillerBytes, 'f')) : db_->Delete(key), "filling");
      }
    }
    expect_ok(db_->Drain(), "filling");
  }

  // Leaves ranges that are small also on the medium, where the deletes were first appended.
  void fill_and_empty() {
    fill(true);
    fill(false);
    for (int i = 0; i < kDrainsToCompact; ++i) fill(false, 8);
  }

  // Brings the tables of the keys' bnodes near their bound. They are at their smallest after a few drains with few
  // keys.
  void crowd() {
    for (uint64_t key = 0; key < (what_.spread ? what_.keys : 1); ++key) {
      for (uint64_t i = 0; i < kNearlyFullKeys; ++i) {
        const uint64_t number = (what_.spread ? (key + 1) * kSpread : 0) + kNearlyFullFirst + i;
        expect_ok(db_->Put(codec_.key_of(number), "c"), "crowding");
      }
    }
  }

  void hoard(bool take) {
    if (take == hoards_) return;
    hoards_ = take;
    store_.hoard(take);
    may_be_full_ = true;
  }

  // True for the answer of a store that has no space, in a case that takes it.
  bool refuses(const Status& status) {
    if (!may_be_full_ || !status.IsNoSpace()) return false;
    ++refused_;
    return true;
  }

  void drain() {
    const Status status = db_->Drain();
    if (!refuses(status)) expect_ok(status, "drain");
  }

  // Ends a put or a batch. A refused one has changed nothing.
  void finish_update(Recorder::Lane* lane, uint64_t operation, const Status& status, const char* what) {
    if (refuses(status)) return lane->withdraw_update(operation);
    expect_ok(status, what);
    lane->end_update(operation);
  }

  Verdict run_programs(StepWatch* steps) {
    base::Scheduler& scheduler = *schedulers_[random_.below(kStays.size())];
    scheduler.reset(random_.next());
    for (size_t i = 0; i < programs_.size(); ++i) {
      scheduler.spawn([this, i] {
        for (const std::string& action : programs_[i]) perform(action, i);
      });
    }
    watch = steps;
    set_hook(true);
    const Status status = scheduler.run();
    set_hook(false);
    watch = nullptr;
    abandoned_ = !status.ok();
    return status.ok() ? Verdict() : Verdict::wrong("the programs do not end: " + status.ToString());
  }

  void expect_ok(const Status& status, const std::string& what) {
    if (!status.ok() && error_.empty()) error_ = what + ": " + status.ToString();
  }

  // One action of a program in flight.
  struct Turn {
    Recorder::Lane* lane;
    size_t lane_number;
    uint64_t key;
  };
  using Performer = void (*)(Rig* rig, const Turn& turn);

  // Null: there is no such action.
  static Performer performer_of(std::string_view action) {
    static constexpr std::pair<std::string_view, Performer> kActions[] = {
        {"put",
         [](Rig* rig, const Turn& turn) {
           rig->update(turn.lane, OpKind::kPut, {{turn.key, ++rig->value_}});
         }},
        {"delete",
         [](Rig* rig, const Turn& turn) {
           rig->update(turn.lane, OpKind::kDelete, {{turn.key, kAbsent}});
         }},
        {"get", [](Rig* rig, const Turn& turn) { rig->get(turn.lane, turn.key); }},
        {"multi-get", [](Rig* rig, const Turn& turn) { rig->multi_get(turn.lane); }},
        {"multi-put", [](Rig* rig, const Turn& turn) { rig->multi_put(turn.lane, rig->batch_of_all()); }},
        {"multi-put-equal", [](Rig* rig, const Turn& turn) { rig->multi_put(turn.lane, rig->equal_keys()); }},
        {"session", [](Rig* rig, const Turn& turn) { rig->session(turn.lane); }},
        {"batch", [](Rig* rig, const Turn& turn) { rig->update(turn.lane, OpKind::kBatch, rig->batch_of_all()); }},
        {"batch-delete", [](Rig* rig, const Turn& turn) { rig->batch_delete(turn.lane); }},
        {"put-if",
         [](Rig* rig, const Turn& turn) {
           rig->update_if(turn.lane, {{turn.key, ++rig->value_}, rig->required(turn.key, Look::kHeld)});
         }},
        {"delete-if",
         [](Rig* rig, const Turn& turn) {
           rig->update_if(turn.lane, {{turn.key, kAbsent}, {turn.key, kAnyValue, true}});
         }},
        {"put-if-seen",
         [](Rig* rig, const Turn& turn) {
           rig->update_if(turn.lane, {{turn.key, ++rig->value_}, rig->required(turn.key, Look::kSeen)});
         }},
        {"put-unchanged", [](Rig* rig, const Turn& turn) { rig->put_unchanged(turn.lane, turn.key); }},
        {"batch-if", [](Rig* rig, const Turn& turn) { rig->batch_if(turn.lane, rig->batch_of_all(), Look::kHeld); }},
        {"batch-if-seen",
         [](Rig* rig, const Turn& turn) {
           rig->batch_if(turn.lane, {{0, ++rig->value_}, {rig->what_.keys - 1, kAbsent}}, Look::kSeen);
         }},
        {"check-if",
         [](Rig* rig, const Turn& turn) {
           const uint64_t next = (turn.key + 1) % rig->what_.keys;
           rig->update_if(turn.lane, {{turn.key, ++rig->value_}, rig->required(next, Look::kSeen)});
         }},
        {"scan", [](Rig* rig, const Turn& turn) { rig->scan(turn.lane); }},
        {"iterate", [](Rig* rig, const Turn& turn) { rig->iterate(turn.lane); }},
        {"snapshot", [](Rig* rig, const Turn& turn) { rig->take_snapshot(turn.lane, turn.lane_number); }},
        {"read-snapshot", [](Rig* rig, const Turn& turn) { rig->read_snapshot(turn.lane, turn.lane_number); }},
        {"drain", [](Rig* rig, const Turn&) { rig->drain(); }},
        {"fill-near", [](Rig* rig, const Turn& turn) { rig->fill_near(turn.lane_number, turn.key); }},
        {"long-batch", [](Rig* rig, const Turn& turn) { rig->long_batch(turn.lane, turn.lane_number, turn.key); }},
        {"late-batch", [](Rig* rig, const Turn& turn) { rig->late_batch(turn.lane_number, turn.key); }},
        {"await-late", [](Rig* rig, const Turn& turn) { rig->await_late_batch(turn.key); }},
        {"fill-and-empty", [](Rig* rig, const Turn&) { rig->fill_and_empty(); }},
        {"crowd", [](Rig* rig, const Turn&) { rig->crowd(); }},
        {"take-space", [](Rig* rig, const Turn&) { rig->hoard(true); }},
        {"give-space", [](Rig* rig, const Turn&) { rig->hoard(false); }},
    };
    for (const auto& [name, performer] : kActions) {
      if (name == action) return performer;
    }
    return nullptr;
  }

  void perform(std::string_view action, size_t lane_number) {
    const std::string_view name = name_of(action);
    const uint64_t key = name.size() < action.size() ? static_cast<uint64_t>(action.back() - '0') : 0;
    BONSAI_CHECK(key < what_.keys);
    const Performer performer = performer_of(name);
    BONSAI_CHECK(performer != nullptr && "an action of protocol_rig.h");
    Recorder::Lane lane = recorder_->lane(static_cast<uint32_t>(lane_number));
    performer(this, {&lane, lane_number, key});
  }

  std::vector<Cell> equal_keys() { return {{0, ++value_}, {what_.keys - 1, ++value_}, {0, ++value_}}; }

  void batch_delete(Recorder::Lane* lane) { update(lane, OpKind::kBatch, {{0, ++value_}, {what_.keys - 1, kAbsent}}); }

  // The value of a key that a condition requires: that of the run's beginning, or of a get.
  enum class Look { kHeld, kSeen };
  Cell required(uint64_t key, Look look) {
    std::string bytes;
    return {key, look == Look::kHeld ? held_[key].value : value_of(db_->Get(key_of(key), &bytes), bytes), true};
  }

  void update_if(Recorder::Lane* lane, std::vector<Cell> cells, const Snapshot* since = nullptr) {
    const Status status = perform_recorded(
        db_.get(), {std::move(cells), since}, [this](uint64_t key) { return key_of(key); }, lane);
    if (!refuses(status)) expect_ok(status, "conditional update");
  }

  void put_unchanged(Recorder::Lane* lane, uint64_t key) {
    std::shared_ptr<const Snapshot> snapshot;
    expect_ok(db_->GetSnapshot(&snapshot), "snapshot");
    std::string bytes;
    const Status status = db_->Get({.snapshot = snapshot.get()}, key_of(key), &bytes);
    update_if(lane, {{key, ++value_}, {key, value_of(status, bytes), true}}, snapshot.get());
  }

  void batch_if(Recorder::Lane* lane, std::vector<Cell> cells, Look look) {
    for (const uint64_t key : {uint64_t{0}, what_.keys - 1}) cells.push_back(required(key, look));
    update_if(lane, std::move(cells));
  }

  std::vector<Cell> batch_of_all() {
    std::vector<Cell> cells;
    for (uint64_t key = 0; key < what_.keys; ++key) cells.push_back({key, ++value_});
    return cells;
  }

  void update(Recorder::Lane* lane, OpKind kind, const std::vector<Cell>& cells) {
    const uint64_t operation = lane->begin_update(kind, cells);
    if (kind == OpKind::kBatch) {
      WriteBatch batch;
      for (const Cell& cell : cells) {
        if (cell.value == kAbsent) {
          batch.Delete(key_of(cell.key));
        } else {
          batch.Put(key_of(cell.key), encode_value(cell.value, kValueBytesMin));
        }
      }
      finish_update(lane, operation, db_->Write(batch), "batch");
    } else if (kind == OpKind::kPut) {
      const Status status = db_->Put(key_of(cells[0].key), encode_value(cells[0].value, kValueBytesMin));
      finish_update(lane, operation, status, "put");
    } else {
      expect_ok(db_->Delete(key_of(cells[0].key)), "delete");
      lane->end_update(operation);
    }
  }

  // A neighbour of a key, for one program. Neighbours are no part of the history.
  [[nodiscard]] std::string key_beside(uint64_t key, size_t lane_number, uint64_t i) const {
    return key_of(key) + '.' + std::to_string(lane_number) + '.' + std::to_string(100 + i);
  }

  void fill_near(size_t lane_number, uint64_t key) {
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < kFilling; ++i) keys.push_back(key_beside(key, lane_number, i));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<Status> statuses(keys.size());
    db_->MultiPut(views, views, statuses);
    for (const Status& status : statuses) expect_ok(status, "filling near");
  }

  void long_batch(Recorder::Lane* lane, size_t lane_number, uint64_t key) {
    BONSAI_CHECK(what_.spread && key > 0 && key + 1 < what_.keys);
    const Cell cells[] = {{key - 1, ++value_}, {key + 1, ++value_}};
    WriteBatch batch;
    for (const Cell& cell : cells) batch.Put(key_of(cell.key), encode_value(cell.value, kValueBytesMin));
    for (uint64_t i = 0; i < kLong; ++i) batch.Put(key_beside(key, lane_number, i), "w");
    const uint64_t operation = lane->begin_update(OpKind::kBatch, cells);
    finish_update(lane, operation, db_->Write(batch), "long batch");
  }

  void late_batch(size_t lane_number, uint64_t key) {
    BONSAI_CHECK(what_.spread && key > 0);
    WriteBatch batch;
    for (uint64_t i = 0; i < kLate; ++i) batch.Put(key_beside(key - 1, lane_number, i), "W");
    batch.Put(key_of(key) + ".late", std::to_string(late_));
    expect_ok(db_->Write(batch), "late batch");
  }

  void await_late_batch(uint64_t key) {
    std::string value;
    for (int i = 0; i < kLooksMax && value != std::to_string(late_); ++i) {
      const Status status = db_->Get(key_of(key) + ".late", &value);
      if (!status.IsNotFound()) expect_ok(status, "looking for a late batch");
      base::Scheduler::yield();
    }
  }

  // Puts in one call; each is an update of its own.
  void multi_put(Recorder::Lane* lane, const std::vector<Cell>& cells) {
    std::vector<std::string> keys, values;
    std::vector<uint64_t> operations;
    for (const Cell& cell : cells) {
      keys.push_back(key_of(cell.key));
      values.push_back(encode_value(cell.value, kValueBytesMin));
      operations.push_back(lane->begin_update(OpKind::kPut, cell));
    }
    const std::vector<std::string_view> key_views(keys.begin(), keys.end()), value_views(values.begin(), values.end());
    std::vector<Status> statuses(keys.size());
    db_->MultiPut(key_views, value_views, statuses);
    for (size_t i = 0; i < cells.size(); ++i) {
      finish_update(lane, operations[i], statuses[i], "multi-put");
    }
  }

  void session(Recorder::Lane* lane) {
    const uint64_t last = what_.keys - 1;
    const Cell cells[] = {{0, ++value_}, {0, kAbsent}, {last, kAbsent}, {last, ++value_}};
    Status statuses[std::size(cells)];
    std::string keys[std::size(cells)], values[std::size(cells)];
    uint64_t operations[std::size(cells)];
    const std::unique_ptr<Session> session = db_->NewSession(std::size(cells));
    for (size_t i = 0; i < std::size(cells); ++i) {
      const bool deletes = cells[i].value == kAbsent;
      operations[i] = lane->begin_update(deletes ? OpKind::kDelete : OpKind::kPut, cells[i]);
      keys[i] = key_of(cells[i].key);
      if (deletes) {
        session->Delete(keys[i], &statuses[i]);
      } else {
        values[i] = encode_value(cells[i].value, kValueBytesMin);
        session->Put(keys[i], values[i], &statuses[i]);
      }
    }
    session->Wait();
    for (size_t i = 0; i < std::size(cells); ++i) finish_update(lane, operations[i], statuses[i], "session");
  }

  uint64_t value_of(const Status& status, const std::string& bytes) {
    if (!status.IsNotFound()) expect_ok(status, "get");
    return status.ok() ? decode_value(bytes) : kAbsent;
  }

  void get(Recorder::Lane* lane, uint64_t key) {
    const uint64_t invoke = lane->begin_read();
    std::string bytes;
    const Status status = db_->Get(key_of(key), &bytes);
    lane->end_read(OpKind::kGet, invoke, {key, value_of(status, bytes)});
  }

  void multi_get(Recorder::Lane* lane) {
    std::vector<std::string> keys;
    for (uint64_t key = 0; key < what_.keys; ++key) keys.push_back(key_of(key));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<std::string> values(keys.size());
    std::vector<Status> statuses(keys.size());
    const uint64_t invoke = lane->begin_read();
    db_->MultiGet(ReadOptions(), views, values, statuses);
    for (uint64_t key = 0; key < what_.keys; ++key) {
      lane->end_read(OpKind::kGet, invoke, {key, value_of(statuses[key], values[key])});
    }
  }

  // The number of a case's key, or `keys` for the records between.
  [[nodiscard]] uint64_t number_of(std::string_view key) const {
    const auto number = codec_.number_of(key);
    if (!number) return what_.keys;
    if (!what_.spread) return *number;
    return *number % kSpread == 0 ? *number / kSpread - 1 : what_.keys;
  }

  std::vector<Cell> scan_of(DB* db, const Snapshot* snapshot) {
    std::vector<Cell> cells;
    for (uint64_t key = 0; key < what_.keys; ++key) cells.push_back({key, kAbsent});
    ScanOptions options;
    options.snapshot = snapshot;
    const std::string first = key_of(0);
    const std::string end = key_of(what_.keys);
    options.end = end;
    std::string last;
    const Status status = db->Scan(options, first, [&](std::string_view key, std::string_view value) {
      if (!last.empty() && key <= last) error_ = "a scan is out of order";
      last = key;
      const uint64_t number = number_of(key);
      if (number < what_.keys) cells[number].value = decode_value(value);
      return true;
    });
    expect_ok(status, "scan");
    return cells;
  }

  void scan(Recorder::Lane* lane) {
    const uint64_t invoke = lane->begin_read();
    final_ = scan_of(db_.get(), nullptr);
    lane->end_read(OpKind::kScan, invoke, final_);
  }

  void iterate(Recorder::Lane* lane) {
    const uint64_t invoke = lane->begin_read();
    const std::unique_ptr<Iterator> iterator = db_->NewIterator(ReadOptions());
    const uint64_t ret = lane->begin_read();
    std::vector<Cell> forward = held_;
    std::vector<Cell> back = held_;
    for (Cell& cell : forward) cell.value = kAbsent;
    for (Cell& cell : back) cell.value = kAbsent;
    std::string last;
    const auto take = [&](std::vector<Cell>* cells) {
      const bool ordered = cells == &forward ? iterator->key() > last : iterator->key() < last;
      if (!last.empty() && !ordered) error_ = "an iterator is out of order";
      last = iterator->key();
      const uint64_t number = number_of(iterator->key());
      if (number < what_.keys) (*cells)[number].value = decode_value(iterator->value());
    };
    const std::string end = key_of(what_.keys);
    for (iterator->Seek(key_of(0)); iterator->Valid() && iterator->key() < end; iterator->Next()) take(&forward);
    const std::string first = key_of(0);
    last.clear();
    for (iterator->SeekForPrev(end); iterator->Valid() && iterator->key() >= first; iterator->Prev()) take(&back);
    expect_ok(iterator->status(), "iterator");
    lane->add_read(OpKind::kSnapshotRead, invoke, ret, forward);
    lane->add_read(OpKind::kSnapshotRead, invoke, ret, back);
  }

  struct Held {
    uint64_t invoke;
    uint64_t ret;
    std::shared_ptr<const Snapshot> snapshot;
  };

  void take_snapshot(Recorder::Lane* lane, size_t lane_number) {
    auto held = std::make_shared<Held>();
    held->invoke = lane->begin_read();
    expect_ok(db_->GetSnapshot(&held->snapshot), "snapshot");
    held->ret = lane->begin_read();
    snapshots_[lane_number] = held;
  }

  void read_snapshot(Recorder::Lane* lane, size_t lane_number) {
    const Held& held = *snapshots_[lane_number];
    for (uint64_t key = 0; key < what_.keys; ++key) {
      std::string bytes;
      const Status status = db_->Get({.snapshot = held.snapshot.get()}, key_of(key), &bytes);
      const Cell cell{key, value_of(status, bytes)};
      lane->add_read(OpKind::kSnapshotRead, held.invoke, held.ret, {&cell, 1});
    }
    lane->add_read(OpKind::kSnapshotRead, held.invoke, held.ret, scan_of(db_.get(), held.snapshot.get()));
  }

  // Compares the history until the crash with the state that the copy of that moment recovers to.
  Verdict check_crash_at(const History& history, uint64_t tick) {
    std::unique_ptr<DB> recovered;
    if (Status status = store_.open_copy(&recovered); !status.ok()) {
      return Verdict::wrong("recovery at ordinal " + std::to_string(tick) + ": " + status.ToString());
    }
    History until;
    for (const Operation& op : history.operations) {
      if (op.invoke > tick) continue;
      const uint64_t ret = op.ret > tick ? kOpen : op.ret;
      // A snapshot taken before the crash may have been read after it, which is no evidence.
      if (op.kind == OpKind::kSnapshotRead || (ret == kOpen && !is_update(op.kind))) continue;
      until.add(op.kind, op.thread, op.invoke, ret, history.cells_of(op));
    }
    until.add(OpKind::kRecovered, 0, tick + 1, tick + 2, scan_of(recovered.get(), nullptr));
    for (const Cell& cell : held_) {
      std::string bytes;
      const Status status = recovered->Get(key_of(cell.key), &bytes);
      until.add(OpKind::kGet, 0, tick + 3, tick + 4, {{cell.key, value_of(status, bytes)}});
    }
    if (!error_.empty()) return Verdict::wrong("after recovery: " + error_);
    Verdict verdict = check_whole(until, held_);
    if (!verdict.ok) verdict.text = "crash at ordinal " + std::to_string(tick) + ": " + verdict.text;
    return verdict;
  }

  const ProtocolCase& what_;
  const ProtocolStore& store_;
  base::Random random_;
  KeyCodec codec_;
  std::vector<std::string> before_;
  std::vector<std::vector<std::string>> programs_;
  std::unique_ptr<DB> db_;
  std::array<std::unique_ptr<base::Scheduler>, kStays.size()> schedulers_;
  std::unique_ptr<Recorder> recorder_;
  std::vector<std::shared_ptr<Held>> snapshots_;
  std::vector<Cell> held_;   // the state when a run starts
  std::vector<Cell> final_;  // what the last scan saw
  uint64_t value_ = 0;
  uint64_t late_ = 0;  // what late batches of this schedule put
  uint64_t steps_last_ = 50;
  bool abandoned_ = false;
  bool hoards_ = false;
  bool may_be_full_ = false;  // some schedule has taken the space
  uint64_t refused_ = 0;
  std::string error_;
};

}  // namespace

bool performs(const ProtocolCase& what, std::string_view action) {
  for (const char* text : {what.before, what.programs}) {
    for (const std::vector<std::string>& program : parse(text)) {
      if (std::any_of(program.begin(), program.end(), [&](const auto& each) { return name_of(each) == action; })) {
        return true;
      }
    }
  }
  return false;
}

ProtocolResult run_case(const ProtocolCase& what, const ProtocolStore& store, uint64_t seed, uint64_t schedules) {
  ProtocolResult result;
  for (uint64_t store_seed = seed; result.verdict.ok && result.schedules < schedules; ++store_seed) {
    Rig rig(what, store, store_seed);
    for (uint64_t i = 0; result.verdict.ok && i < store.schedules_per_store && result.schedules < schedules; ++i) {
      const bool with_crash = store.copy_durable != nullptr && i % 2 == 1;
      ++result.schedules;
      result.crashes += with_crash ? 1 : 0;
      result.verdict = rig.run_schedule(with_crash);
      if (result.verdict.ok) continue;
      result.seed = store_seed;
      result.verdict.text = std::string("case \"") + what.name + "\", BONSAI_SEED=" + std::to_string(store_seed) +
                            ", schedule " + std::to_string(i) + ": " + result.verdict.text;
    }
    const Stats stats = rig.stats();
    result.splits += stats.splits;
    result.merges += stats.merges;
    result.replacements += stats.replacements;
    result.refused += rig.refused();
  }
  return result;
}

}  // namespace bonsai::testing
