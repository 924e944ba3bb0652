// SPDX-License-Identifier: Apache-2.0
// A client of a server under test that does random commands, several at once, and writes down what they did, so that
// the judges of testing/linearizability.h can say whether one order explains the replies to all clients.
//
// Keys are numbers: those below `counters` are counters, which are only read and counted up; the others are set to
// numbers that nobody else sets, and removed.
#ifndef BONSAI_SERVER_TESTING_HISTORY_CLIENT_H_
#define BONSAI_SERVER_TESTING_HISTORY_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "server/testing/connection.h"
#include "testing/history.h"

namespace bonsai::server {

struct HistoryOptions {
  uint64_t counters = 2, strings = 4;
  uint64_t at_once_max = 2;         // requests that a client sends before it waits
  bool reads_many_at_once = false;  // RANGE, also of a snapshot, whose history has a cell for every key

  [[nodiscard]] uint64_t keys() const { return counters + strings; }
};

// Thread-safety: one thread.
class HistoryClient {
 public:
  // `clock`: of all clients, for the ordinals of the history.
  HistoryClient(const std::string& address, const HistoryOptions& options, uint32_t number, uint64_t seed,
                std::atomic<uint64_t>* clock);

  // Sends some requests, and takes all replies. False: it should stop, because a reply was wrong by itself, or did not
  // come; error() says which.
  bool step();
  // Reads every key by itself.
  bool read_all();
  [[nodiscard]] const std::string& error() const { return error_; }
  // What it has done since the last call.
  testing::History take();

 private:
  using Cell = testing::Cell;
  using OpKind = testing::OpKind;
  using Words = std::vector<std::string>;
  // Requests that were sent together, whose last reply says what they did.
  struct Begun {
    uint64_t invoke;
    size_t replies;
    std::function<void(const Value&)> record;
  };

  void begin(std::initializer_list<Words> requests, std::function<void(const Value&)> record);
  bool finish();
  void fail(const Value& reply);
  void add(OpKind kind, std::initializer_list<Cell> cells) { add(kind, std::vector<Cell>(cells)); }
  void add(OpKind kind, const std::vector<Cell>& cells);
  // The number that a value is; none is kAbsent, and what is no number is kGarbled.
  static uint64_t number_of(const Value& value);
  bool is_ok(const Value& reply);

  uint64_t any_key() { return random_.below(options_.keys()); }
  uint64_t any_counter() { return random_.below(options_.counters); }
  uint64_t any_string() { return options_.counters + random_.below(options_.strings); }
  uint64_t other_string(uint64_t than);
  uint64_t new_value() { return next_value_ += 1; }

  void get(uint64_t key);
  void set();
  void set_if(bool present);
  void getset();
  void remove();
  void mset();
  void msetnx();
  void incr();
  // The cells of all keys, of a reply of RANGE.
  std::vector<Cell> cells_of(const Value& reply);
  void range();
  bool snapshot();
  void look_in_transaction();
  void change_in_transaction();
  bool watch();
  void begin_one();

  const HistoryOptions options_;
  const uint32_t number_;
  TestConnection connection_;
  base::Random random_;
  std::atomic<uint64_t>& clock_;
  uint64_t next_value_;
  std::deque<Begun> begun_;
  uint64_t invoke_ = 0, ret_ = 0;  // of the requests that are being recorded
  testing::History history_;
  std::string error_;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_TESTING_HISTORY_CLIENT_H_
