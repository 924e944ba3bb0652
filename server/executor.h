// SPDX-License-Identifier: Apache-2.0
// Executes the requests of many clients on one thread. Reads and updates of single keys go into one session of the
// store, whichever client sent them, so that their cache misses overlap and their updates share fences. Updates of
// several keys at one moment (MSET) are joined to one batch, which follows the session's operations: at its moment they
// all take effect, as if one directly after the other.
//
// Guarantees
//  - a client gets its replies in the order of its requests;
//  - a reply that says so means that the update is durable (in mode buffered: that it was applied);
//  - requests of one client on one key take effect in their order. Its requests on different keys are in flight at
//    once if it sent them without waiting for replies, unless one of them is a command over the whole store or a range.
#ifndef BONSAI_SERVER_EXECUTOR_H_
#define BONSAI_SERVER_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bonsai/db.h"
#include "server/client.h"
#include "server/command_timer.h"
#include "server/expiry.h"
#include "server/reply.h"
#include "server/state.h"

namespace bonsai::server {

class Executor;
class Stage;
struct Command;

// One request. args[0] is the command's name. The views are valid until Executor::finish().
struct Call {
  Executor& executor;
  State& state;
  Client& client;
  std::span<const std::string_view> args;
};

// What becomes of the result of an operation in flight.
enum class Outcome : uint8_t {
  kText,     // no operation: the text stands in its place among the replies
  kArray,    // no operation: the head of an array of `from` elements
  kValue,    // the value, or null
  kElement,  // as kValue; an error where the array would be larger than Config::reply_bytes_max
  kOk,       // OK
  kLength,   // the length of the value; 0 without one
  kPart,     // a part of the value, by the rule of GETRANGE; empty without one
  kType,     // "string", or "none"
  kLife,     // the deadline in units of `from` ms, as of now if `to` is not 0; -1: it has none, -2: there is no value
  kFound,    // one more in Client::sum if there is a value
  kDone,     // nothing, but for an error
  kSum,      // no operation: Client::sum, or the first error since it was 0
  kJoined,   // OK; it is a part of the batch, of the updates from `from` to `to`
};

// Thread-safety: one thread.
class Executor {
 public:
  // A client whose replies reach this number of bytes is not served until they are sent.
  static constexpr size_t kUnsentMax = size_t{1} << 20;
  // Operations of a session in flight. 32 share a fence; each may hold a value of 16 MiB.
  static constexpr size_t kDepth = 64;
  // Bounds of what is joined to one batch. An update of more keys, or bytes, is a batch by itself.
  static constexpr size_t kJoinedMax = 256;
  static constexpr uint64_t kJoinedBytesMax = uint64_t{64} << 10;

  // Null: there is no memory for it. Requires: *state outlives it.
  static std::unique_ptr<Executor> make(State* state);

  // Begins what the client's complete requests ask for, until none is left, too many replies wait to be sent, or the
  // client ends. Returns whether it may have complete requests left. Requires: client->in does not change until
  // finish().
  bool run(Client* client);
  // Ends all that was begun, and writes the replies.
  void finish();
  // The number of requests since the last call.
  uint64_t take_requests() { return std::exchange(requests_, 0); }
  // After std::bad_alloc: ends all that was begun, without replies. Clients that waited for some are `lost`, because
  // what they get next would not be the reply to what they sent next.
  void abandon();

  // ---- for commands
  void get(Client* client, std::string_view key, Outcome outcome, int64_t from = 0, int64_t to = 0);
  void put(Client* client, std::string_view key, std::string_view value, uint64_t deadline_ms, Outcome outcome);
  void remove(Client* client, std::string_view key, Outcome outcome);
  // Puts all at one moment; the reply is OK. `pairs`: keys and values in turn.
  void put_joined(Client* client, std::span<const std::string_view> pairs);
  // The bytes for a value in the store, for those of a command that writes them itself.
  std::string to_store(std::string_view value, uint64_t deadline_ms);
  // As the store's methods, before they return. Requires: settle().
  Status get_now(std::string_view key, std::string* value);
  Status put_if_now(const Condition& condition, std::string_view key, std::string_view value);
  Status remove_if_now(const Condition& condition, std::string_view key);
  Status write_now(const WriteBatch& batch, size_t* failed);
  // From now on what commands do with keys is done on *stage; null: on the store. Ends what is in flight.
  void work_on(Stage* stage) {
    finish();
    stage_ = stage;
  }
  // The head of an array whose `count` elements are operations.
  void array(Client* client, size_t count) {
    wait_for(client, {.client = client, .outcome = Outcome::kArray, .from = static_cast<int64_t>(count)});
  }
  // The sum of what kFound has counted.
  void sum(Client* client) { wait_for(client, {.client = client, .outcome = Outcome::kSum}); }
  // Ends what is in flight for the client. What is done for it now is done alone.
  void settle(Client* client) {
    if (client->pending != 0) finish();
    timer_.begin_alone();
  }
  // A reply that is known. `write` is called with a Reply.
  template <class Write>
  void reply(Client* client, const Write& write) {
    if (client->pending == 0) {
      Reply direct(&client->out, client->protocol);
      return write(direct);
    }
    Waiting waiting{.client = client, .outcome = Outcome::kText};
    Reply later(&waiting.text, client->protocol);
    write(later);
    wait_for(client, std::move(waiting));
  }
  void error(Client* client, std::string_view text);
  // Requires: a status that is not OK.
  void error(Client* client, const Status& status);
  void end_broken(Client* client, std::string_view why);

 private:
  struct Waiting {
    Client* client = nullptr;
    Outcome outcome = Outcome::kText;
    uint32_t operation = 0;
    int64_t from = 0, to = 0;
    std::string text = {};  // of kJoined: the error, if there is one
  };

  explicit Executor(State* state);
  bool begin(Client* client);
  void execute(Client* client);
  void queue(Client* client, const Command& command);
  void refuse(Client* client, std::string_view text);
  [[nodiscard]] RequestLimits limits_of(const Client& client) const;
  uint32_t next_operation(const Client& client);
  void join_group(const Client& client);
  void write_joined();
  Status write_part(const Waiting& part);
  void wait_for(Client* client, Waiting waiting);
  void write(const Waiting& waiting);
  void write_error(Reply* out, const Status& status);
  void write_value(const Waiting& waiting, const Stored* stored);

  State& state_;
  Client* running_ = nullptr;  // whose requests are being begun
  Stage* stage_ = nullptr;     // of the transaction that is being carried out
  std::unique_ptr<Session> session_;
  CommandTimer timer_;
  std::vector<std::string_view> arguments_;
  size_t request_bytes_ = 0;  // of the command that is executed
  std::vector<Waiting> waiting_;
  // Of the operations in flight; in place as long as they are.
  std::vector<std::string> values_;
  std::vector<Status> statuses_;
  uint32_t operations_ = 0;
  WriteBatch joined_;
  uint64_t joined_bytes_ = 0;
  uint64_t requests_ = 0;
  uint64_t deadlines_ = 0;  // that were begun to be written
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_EXECUTOR_H_
