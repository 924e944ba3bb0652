// SPDX-License-Identifier: Apache-2.0
// Repairs the rows and locks of a client that died while it held locks of the RCuckoo-like engine.
//
// A lock that one client found taken for suspect_ms is watched for as long again. When neither it nor a row under it
// has changed, its holder counts as dead. The client that takes the lease of its word of locks brings the rows from any
// of four states to the first, one row at a time, and releases the lock:
//   - the row is sealed, and each of its keys is in one row only
//   - a key is in its first row as well, which a path was moving: it is taken out of its second row. The other row's
//     repair leaves its copy, so that two repairs at once take out one of them
//   - the seal is wrong: entries are whole words, so a new seal makes them count
//   - both
// Each step may be repeated: a lease whose holder died in turn is taken over after the same time.
// Requires: rdma lists are carried out, if at all, within suspect_ms; so a slow client is not taken for a dead one.
// (The published engine fences late WRITEs no better.)
#ifndef BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_REPAIR_H_
#define BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_REPAIR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/studies/rivals/client.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/rcuckoo_layout.h"
#include "bench/studies/rivals/rcuckoo_locks.h"
#include "bench/studies/rivals/scratch.h"

namespace bonsai::bench::rivals::rcuckoo {

struct RepairCounters {
  uint64_t false_alarms = 0;
  uint64_t locks_repaired = 0;
  uint64_t rows_sealed = 0;
  uint64_t entries_removed = 0;  // of keys that were in both rows
};

// One client's repairs. Thread-safety: one coroutine at a time.
class Repairer {
 public:
  static Status make(Connection* connection, const Table& table, const LockOptions& options,
                     std::unique_ptr<Repairer>* made);

  // Requires: this client holds no lock. Errors: Unavailable; the lease lapses.
  Status run(uint64_t lock, const Limit& limit);

  [[nodiscard]] const RepairCounters& counters() const { return counters_; }

 private:
  // The observed state of a watched lock.
  struct View {
    uint64_t lock_word = 0, lease = 0;
    std::vector<uint64_t> seals;
    bool operator==(const View&) const = default;
  };

  Repairer(Connection* connection, const Table& table, const LockOptions& options)
      : table_(table),
        options_(options),
        owner_(connection->number()),
        words_(connection->fabric().capabilities(), options.verb),
        batch_(connection) {}

  [[nodiscard]] rdma::Slice answer(size_t i) const { return memory_->word(i * sizeof(uint64_t)); }
  [[nodiscard]] uint64_t answered(size_t i) const { return memory_->word_value(i * sizeof(uint64_t)); }
  [[nodiscard]] Row* row(size_t i) const;
  [[nodiscard]] rdma::Slice row_slice(size_t first, size_t rows) const;
  Status look(uint64_t lock, View* view);
  Status watch(uint64_t lock, const Limit& limit, View* view, bool* dead);
  Status repair_block(uint64_t block);
  Status read_first_rows(const std::vector<uint64_t>& numbers);
  Status release(uint64_t lock, uint64_t lease);

  const Table& table_;
  const LockOptions options_;
  const uint64_t owner_;
  LockWords words_;
  Batch batch_;
  std::unique_ptr<Scratch> memory_;  // answers, rows of a block, rows beside them
  RepairCounters counters_;
};

}  // namespace bonsai::bench::rivals::rcuckoo

#endif  // BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_REPAIR_H_
