// SPDX-License-Identifier: Apache-2.0
// One client of a store under test: does random operations one after the other and records each in its lane.
//
// The key numbers 0..keys-1 are dealt out in turns. In a turn each client gets one key that it alone updates; the last
// key of the turn belongs to all clients. Keys of one writer feed check_snapshots; all keys feed check_registers.
// A conditional update of a key of its own is refused exactly if the client says so, and recorded as an update without
// conditions, of which both judges know.
#ifndef BONSAI_TESTING_CLIENT_H_
#define BONSAI_TESTING_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "bonsai/db.h"
#include "testing/codec.h"
#include "testing/recorder.h"

namespace bonsai::testing {

// The relative frequency of each operation.
struct Mix {
  uint32_t put = 40, del = 8, batch = 8, conditional = 0;
  uint32_t get = 20, multi_get = 4, scan = 8, snapshot = 4, iterator = 4;
  uint32_t drain = 0, sync = 0;
};

struct ClientOptions {
  uint32_t clients = 4;
  uint64_t keys = 256;
  KeyFormat key_format = KeyFormat::kBytes;
  size_t value_bytes_max = 100;
  uint64_t span_max = 48;        // keys that a scan covers at most
  uint32_t batch_count_max = 5;  // updates in a batch at most
  Mix mix;
  uint64_t tide = 0;         // > 0: growth for so many steps, then mostly deletes for as many, and so on
  bool may_be_full = false;  // an operation that adds data may answer NoSpace, and must then have changed nothing
  // Updates may answer Unavailable or IoError: their outcome is unknown, and the client only reads from then on.
  // Reads may answer Unavailable: they say nothing, and unread() counts them.
  bool may_be_unavailable = false;
  uint64_t generation = 0;  // makes value numbers unique over several runs on one pool; < 2^15

  // The client that alone updates `key`, or `clients` when all do.
  [[nodiscard]] uint32_t owner_of(uint64_t key) const { return static_cast<uint32_t>(key % (clients + 1)); }
  [[nodiscard]] bool one_writer(uint64_t key) const { return owner_of(key) < clients; }
};

class Client {
 public:
  // Requires: number < options.clients; `db` outlives it.
  Client(DB* db, const ClientOptions& options, uint32_t number, uint64_t seed, Recorder* recorder);

  // Does one operation. False when it should stop: no room to record more, or a failure, which error() describes.
  bool step();
  [[nodiscard]] const std::string& error() const { return error_; }
  // The invocation ordinal of the last Sync that returned.
  [[nodiscard]] uint64_t synced_at() const { return synced_at_; }
  // Whether an update of this client has an unknown outcome.
  [[nodiscard]] bool only_reads() const { return only_reads_; }
  // Updates that were answered with NoSpace.
  [[nodiscard]] uint64_t refused() const { return refused_; }
  // Reads that were answered with Unavailable.
  [[nodiscard]] uint64_t unread() const { return unread_; }

 private:
  uint64_t random_key(bool own);
  uint64_t new_value() { return next_value_++; }
  std::string bytes_of(uint64_t value);
  bool finish_update(const Status& status, uint64_t operation, const char* what);
  bool fail(const std::string& what);
  bool is_unavailable(const Status& status);
  bool has_read(const Status& status, const char* what);
  bool has_found(const Status& status, const char* what) { return status.IsNotFound() || has_read(status, what); }
  // The answer of step() after a read that is not recorded.
  [[nodiscard]] bool goes_on() const { return error_.empty(); }
  uint64_t value_of(const Status& status, const std::string& bytes);

  [[nodiscard]] bool ebbing() const { return options_.tide != 0 && steps_ / options_.tide % 2 == 1; }
  bool put();
  bool del();
  bool batch();
  bool look_at(uint64_t number, std::string* bytes, uint64_t* held);
  bool update_if(uint64_t number, bool own);
  bool refused_update(uint64_t number, uint64_t held);
  bool batch_if();
  bool conditional();
  bool get();
  bool multi_put();
  bool multi_get();
  bool scan();
  bool update_beside();
  bool snapshot();
  bool iterator();
  bool drain();
  bool sync();

  // Reads key numbers [from, to) in one operation; cells_ has one cell each, absent ones included.
  struct Span {
    uint64_t from;
    uint64_t to;
  };
  Span random_span();
  void expect(Span span);
  bool saw(Span span, std::string_view key, std::string_view value);
  bool scan_span(const Snapshot* snapshot, Span span);
  bool scan_limited(const Snapshot* snapshot, Span span);
  bool walk_forward(Iterator* iterator, Span span);
  bool walk_backward(Iterator* iterator, Span span);
  bool get_through(const Snapshot* snapshot, uint64_t key);

  DB* db_;
  const ClientOptions options_;
  const uint32_t number_;
  KeyCodec keys_;
  base::Random random_;
  Recorder::Lane lane_;
  uint64_t next_value_;
  uint64_t synced_at_ = 0;
  uint64_t refused_ = 0;
  uint64_t unread_ = 0;
  uint64_t steps_ = 0;
  bool only_reads_ = false;
  std::vector<Cell> cells_;
  const char* reading_ = "read";  // for messages
  std::string error_;
};

struct WorkloadResult {
  History history;
  std::string error;            // of the first client that failed; empty = none
  uint64_t snapshot_reads = 0;  // keys read by scans, iterators and through snapshots
};

// Runs `options.clients` threads of `steps` operations each on an empty store.
WorkloadResult run_workload(DB* db, const ClientOptions& options, uint64_t seed, uint64_t steps);

// Judges all keys by check_registers and those of one writer by check_snapshots.
Verdict check_workload(const History& history, const ClientOptions& options);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_CLIENT_H_
