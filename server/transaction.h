// SPDX-License-Identifier: Apache-2.0
// A client's transaction: the commands that it has queued since MULTI, and the keys that it watches.
#ifndef BONSAI_SERVER_TRANSACTION_H_
#define BONSAI_SERVER_TRANSACTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/db.h"

namespace bonsai::server {

struct Command;
struct State;

// Each watcher costs every update of the store some ns.
inline constexpr uint64_t kWatchersMax = 1'024;

// The keys that a client watches since a moment: a snapshot of the store, which keeps versions in DRAM.
struct Watch {
  std::shared_ptr<const Snapshot> since;  // null: it watches none
  std::vector<std::string> keys;
  uint64_t bytes = 0;
  uint64_t begun_ns = 0;
  bool overtaken = false;  // a key has been updated, or the watch was too old: EXEC does nothing
};

// Thread-safety: one owner, that of its client.
class Transaction {
 public:
  struct Queued {
    const Command* command;
    std::vector<std::string> args;
  };

  // ---- MULTI
  [[nodiscard]] bool is_open() const { return open_; }
  void open() { open_ = true; }
  // A command could not be queued, so EXEC must not carry out the others. Forgets these.
  void break_off();
  [[nodiscard]] bool is_broken() const { return broken_; }
  // Copies the command. False: with it they would take more than bytes_max bytes.
  bool queue(const Command& command, std::span<const std::string_view> args, uint64_t bytes_max);
  [[nodiscard]] const std::vector<Queued>& queued() const { return queued_; }

  // ---- WATCH
  // Watches these keys, too, from now on. Errors: Unavailable (kWatchersMax), InvalidArgument (a key, or too many bytes
  // of keys); then nothing has changed.
  Status watch(State* state, std::span<const std::string_view> keys);
  void unwatch() { watch_ = Watch(); }
  // Ends a watch that began before this time. It counts as overtaken.
  void end_watch_before(uint64_t ns);
  [[nodiscard]] const Watch& watched() const { return watch_; }

 private:
  void overtake();

  bool open_ = false, broken_ = false;
  std::vector<Queued> queued_;
  uint64_t bytes_ = 0;
  Watch watch_;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_TRANSACTION_H_
