// SPDX-License-Identifier: Apache-2.0
#include "server/testing/history_client.h"

#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace bonsai::server {
namespace {

constexpr int kValuesOfClientBits = 40;

std::string key_of(uint64_t number) { return "key" + std::to_string(number); }

}  // namespace

HistoryClient::HistoryClient(const std::string& address, const HistoryOptions& options, uint32_t number, uint64_t seed,
                             std::atomic<uint64_t>* clock)
    : options_(options),
      number_(number),
      connection_(address),
      random_(seed),
      clock_(*clock),
      next_value_(uint64_t{number + 1} << kValuesOfClientBits) {
  BONSAI_CHECK(options.counters >= 2 && options.strings >= 2);
}

void HistoryClient::begin(std::initializer_list<Words> requests, std::function<void(const Value&)> record) {
  std::string bytes;
  for (const Words& each : requests) bytes += request(each);
  begun_.push_back({++clock_, requests.size(), std::move(record)});
  if (!connection_.send(bytes)) error_ = "the server has closed the connection";
}

// Takes the replies to all that was begun, and records what they say.
bool HistoryClient::finish() {
  for (; !begun_.empty() && error_.empty(); begun_.pop_front()) {
    std::optional<Value> last;
    for (size_t i = 0; i < begun_.front().replies; ++i) {
      last = connection_.receive();
      if (!last) return error_ = "a reply did not come", false;
    }
    invoke_ = begun_.front().invoke;
    ret_ = ++clock_;
    begun_.front().record(*last);
  }
  return error_.empty();
}

void HistoryClient::fail(const Value& reply) {
  if (error_.empty()) error_ = "a reply is wrong: " + reply.show();
}

void HistoryClient::add(OpKind kind, const std::vector<Cell>& cells) {
  history_.add(kind, number_, invoke_, ret_, cells);
}

uint64_t HistoryClient::number_of(const Value& value) {
  if (value.null) return testing::kAbsent;
  const uint64_t number = std::strtoull(value.text.c_str(), nullptr, 10);
  return std::to_string(number) == value.text && number != testing::kAbsent ? number : testing::kGarbled;
}

bool HistoryClient::is_ok(const Value& reply) {
  if (reply.show() != "+OK") fail(reply);
  return error_.empty();
}

testing::History HistoryClient::take() { return std::exchange(history_, testing::History()); }

uint64_t HistoryClient::other_string(uint64_t than) {
  const uint64_t next = than + 1 + random_.below(options_.strings - 1);
  return next < options_.keys() ? next : next - options_.strings;
}

// ---- one key

void HistoryClient::get(uint64_t key) {
  begin({{"GET", key_of(key)}}, [this, key](const Value& reply) {
    if (reply.type != '$') fail(reply);
    add(OpKind::kGet, {{key, number_of(reply)}});
  });
}

void HistoryClient::set() {
  const Cell cell{any_string(), new_value()};
  begin({{"SET", key_of(cell.key), std::to_string(cell.value)}}, [this, cell](const Value& reply) {
    if (is_ok(reply)) add(OpKind::kPut, {cell});
  });
}

void HistoryClient::set_if(bool present) {
  const Cell cell{any_string(), new_value()};
  const Cell required{cell.key, present ? testing::kAnyValue : testing::kAbsent, true};
  begin({{"SET", key_of(cell.key), std::to_string(cell.value), present ? "XX" : "NX"}},
        [this, cell, required](const Value& reply) {
          if (reply.null) return add(OpKind::kRefused, {required});
          if (is_ok(reply)) add(OpKind::kConditional, {required, cell});
        });
}

// GETSET, or GETDEL.
void HistoryClient::getset() {
  const bool removes = random_.chance(1, 3);
  const Cell cell{any_string(), removes ? testing::kAbsent : new_value()};
  const std::string key = key_of(cell.key), value = std::to_string(cell.value);
  begin({removes ? Words{"GETDEL", key} : Words{"GETSET", key, value}}, [this, cell](const Value& reply) {
    if (reply.type != '$') fail(reply);
    add(OpKind::kConditional, {{cell.key, number_of(reply), true}, cell});
  });
}

// DEL, or DELRANGE of one key. The count is not checked: nothing is promised about it when two clients remove one key
// at the same moment.
void HistoryClient::remove() {
  const uint64_t key = any_string();
  const bool is_range = random_.chance(1, 3);
  const std::string end = "[" + key_of(key);
  begin({is_range ? Words{"DELRANGE", end, end} : Words{"DEL", key_of(key)}}, [this, key](const Value& reply) {
    if (reply.show() != ":0" && reply.show() != ":1") fail(reply);
    add(OpKind::kDelete, {{key, testing::kAbsent}});
  });
}

void HistoryClient::incr() {
  const uint64_t key = any_counter();
  begin({{"INCR", key_of(key)}}, [this, key](const Value& reply) {
    const uint64_t sum = number_of(reply);
    if (reply.type != ':' || sum == testing::kGarbled) return fail(reply);
    add(OpKind::kConditional, {{key, sum - 1, true}, {key, sum}});
  });
}

// ---- several keys

void HistoryClient::mset() {
  const Cell left{any_string(), new_value()}, right{other_string(left.key), new_value()};
  begin({{"MSET", key_of(left.key), std::to_string(left.value), key_of(right.key), std::to_string(right.value)}},
        [this, left, right](const Value& reply) {
          if (is_ok(reply)) add(OpKind::kBatch, {left, right});
        });
}

void HistoryClient::msetnx() {
  const Cell left{any_string(), new_value()}, right{other_string(left.key), new_value()};
  const Cell no_left{left.key, testing::kAbsent, true}, no_right{right.key, testing::kAbsent, true};
  begin({{"MSETNX", key_of(left.key), std::to_string(left.value), key_of(right.key), std::to_string(right.value)}},
        [=, this](const Value& reply) {
          if (reply.show() == ":0") return add(OpKind::kRefused, {no_left, no_right});
          if (reply.show() != ":1") return fail(reply);
          add(OpKind::kConditional, {no_left, no_right, left, right});
        });
}

std::vector<testing::Cell> HistoryClient::cells_of(const Value& reply) {
  std::vector<Cell> cells;
  for (uint64_t key = 0; key < options_.keys(); ++key) cells.push_back({key, testing::kAbsent});
  if (reply.type != '*' && reply.type != '%') fail(reply);
  for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    const uint64_t key = std::strtoull(reply.elements[i].text.c_str() + key_of(0).size() - 1, nullptr, 10);
    if (key >= cells.size() || reply.elements[i].text != key_of(key)) return fail(reply), cells;
    cells[key].value = number_of(reply.elements[i + 1]);
  }
  return cells;
}

void HistoryClient::range() {
  begin({{"RANGE", "-", "+"}}, [this](const Value& reply) { add(OpKind::kScan, cells_of(reply)); });
}

// Takes a snapshot, does something else, and then reads all through the snapshot: it must be as when that was taken.
bool HistoryClient::snapshot() {
  const std::string name = "of client " + std::to_string(number_);
  uint64_t invoke = 0, ret = 0;
  begin({{"SNAPSHOT", "CREATE", name, "EX", "1000"}}, [this, &invoke, &ret](const Value& reply) {
    invoke = invoke_;
    ret = ret_;
    static_cast<void>(is_ok(reply));
  });
  if (!finish()) return false;
  set();
  remove();
  if (!finish()) return false;
  begin({{"RANGE", "-", "+", "SNAPSHOT", name}}, [this, &invoke, &ret](const Value& reply) {
    history_.add(OpKind::kScan, number_, invoke, ret, cells_of(reply));
  });
  begin({{"SNAPSHOT", "DROP", name}}, [this](const Value& reply) {
    if (reply.show() != ":1") fail(reply);
  });
  return finish();
}

// ---- transactions

// Reads only: all as of one moment.
void HistoryClient::look_in_transaction() {
  const uint64_t left = any_string(), right = other_string(left), counter = any_counter();
  begin({{"MULTI"}, {"GET", key_of(left)}, {"GET", key_of(right)}, {"GET", key_of(counter)}, {"EXEC"}},
        [=, this](const Value& reply) {
          if (reply.elements.size() != 3) return fail(reply);
          add(OpKind::kScan, {{left, number_of(reply.elements[0])},
                              {right, number_of(reply.elements[1])},
                              {counter, number_of(reply.elements[2])}});
        });
}

// Reads one key, counts one up, sets one, and reads that again.
void HistoryClient::change_in_transaction() {
  const uint64_t seen = any_string(), counter = any_counter();
  const Cell cell{other_string(seen), new_value()};
  const std::string value = std::to_string(cell.value);
  begin({{"MULTI"},
         {"GET", key_of(seen)},
         {"INCR", key_of(counter)},
         {"SET", key_of(cell.key), value},
         {"GET", key_of(cell.key)},
         {"EXEC"}},
        [=, this](const Value& reply) {
          if (reply.text.starts_with("ERR other clients updated")) return;  // nothing was changed
          if (reply.elements.size() != 4 || reply.elements[3].text != value) return fail(reply);
          const uint64_t sum = number_of(reply.elements[1]);
          add(OpKind::kConditional,
              {{seen, number_of(reply.elements[0]), true}, {counter, sum - 1, true}, {counter, sum}, cell});
        });
}

// Sets a key to something new if it still has what was read after WATCH.
bool HistoryClient::watch() {
  const Cell cell{any_string(), new_value()};
  Cell seen{cell.key, testing::kAbsent, true};
  begin({{"WATCH", key_of(cell.key)}, {"GET", key_of(cell.key)}}, [this, &seen](const Value& reply) {
    seen.value = number_of(reply);
    add(OpKind::kGet, {{seen.key, seen.value}});
  });
  if (!finish()) return false;
  begin({{"MULTI"}, {"SET", key_of(cell.key), std::to_string(cell.value)}, {"EXEC"}},
        [this, &seen, cell](const Value& reply) {
          if (reply.null) return;  // somebody has updated the key, perhaps to what it was
          if (reply.elements.size() != 1) return fail(reply);
          add(OpKind::kConditional, {seen, cell});
        });
  return finish();
}

// ---- what it does

void HistoryClient::begin_one() {
  switch (random_.below(16)) {
    case 0:
    case 1:
      return set();
    case 2:
    case 3:
      return incr();
    case 4:
      return set_if(random_.chance(1, 2));
    case 5:
      return set_if(false);
    case 6:
      return getset();
    case 7:
      return remove();
    case 8:
      return mset();
    case 9:
      return msetnx();
    case 10:
      return look_in_transaction();
    case 11:
      return change_in_transaction();
    case 12:
      return options_.reads_many_at_once ? range() : get(any_key());
    default:
      return get(any_key());
  }
}

bool HistoryClient::step() {
  if (random_.chance(1, 12)) return watch();
  if (options_.reads_many_at_once && random_.chance(1, 12)) return snapshot();
  for (uint64_t left = 1 + random_.below(options_.at_once_max); left > 0; --left) begin_one();
  return finish();
}

bool HistoryClient::read_all() {
  for (uint64_t key = 0; key < options_.keys(); ++key) get(key);
  return finish();
}

}  // namespace bonsai::server
