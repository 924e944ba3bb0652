// SPDX-License-Identifier: Apache-2.0
// The locks of the RCuckoo-like engine, and the rows that an operation reads and writes under them.
//
// Locks are taken in ascending order, several in one list; the rows are read in the same lists. If a list
// is refused a lock, the locks that it got after that one are given back with the next list. So no client waits for a
// lower lock than it holds: no deadlock. The next list requests the refused lock alone: to take the others again at
// once would keep them from a client that waits for them and holds the refused one.
//
// A dead holder is found out by time (rcuckoo_repair.h). So no client holds locks for longer than suspect_ms while it
// waits for others.
// Requires: a list is carried out, if at all, within suspect_ms of its posting.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_LOCKS_H_
#define BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_LOCKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/studies/rivals/backoff.h"
#include "bench/studies/rivals/client.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/rcuckoo_layout.h"
#include "bench/studies/rivals/scratch.h"

namespace bonsai::bench::rivals::rcuckoo {

struct LockOptions {
  // The way to change a lock word: by masked CAS; or, where the fabric has none, by CAS from its last known value,
  // again whenever a neighbour's bit has changed meanwhile (LockCounters::emulation_retries).
  enum class Verb : uint8_t { kIfAble, kMaskedCas, kCas } verb = Verb::kIfAble;
  // The most locks that a message requests, the last of them less than 64 after the first. Locks of two words are two
  // requests, in one list.
  uint64_t locks_per_message = kLocksPerWord;
  size_t messages_per_list = 8;
  // One READ for a message: over all rows from its first lock's to its last one's, those in between for hints only.
  bool covering_reads = false;
  uint64_t suspect_ms = 100;
};

struct LockCounters {
  uint64_t messages = 0;           // that ask for locks
  uint64_t busy = 0;               // ... in vain
  uint64_t emulation_retries = 0;  // ... though the locks were free
  uint64_t lists = 0;              // of all kinds
  uint64_t releases_lost = 0;      // of a lock that was not held any more: somebody repaired too early
  uint64_t suspicions = 0;
};

// Bits of one word of locks.
struct LockGroup {
  uint64_t word, mask;
  size_t message = 0;                             // of the plan, that asks for them
  uint64_t free_expected = 0, held_expected = 0;  // kCas: what the word should hold when they are taken, released
};

// One client's way to change lock words. Thread-safety: one coroutine at a time.
class LockWords {
 public:
  LockWords(const rdma::Capabilities& fabric, LockOptions::Verb verb)
      : masked_(verb == LockOptions::Verb::kMaskedCas || (verb == LockOptions::Verb::kIfAble && fabric.masked_cas)) {}

  void add_take(Batch* batch, LockGroup* group, rdma::Slice old);
  void add_release(Batch* batch, LockGroup* group, rdma::Slice old);
  // Whether the change took place; `old` is the answer. Requires: called in the order of adding. *again: the bits had
  // the expected values, and only the emulation failed.
  bool changed(const LockGroup& group, bool took, uint64_t old, bool* again);

 private:
  const bool masked_;
  std::unordered_map<uint64_t, uint64_t> seen_;  // kCas: what words held
};

// Where the rows begin in the memory of LockedRows and of Repairer: after the words that compare-and-swaps return.
inline constexpr size_t kRowsAt = rdma::WorkList::kRequestsMax * sizeof(uint64_t);

// The locks and rows that one operation holds. Reused. Thread-safety: one coroutine at a time.
class LockedRows {
 public:
  // Takes a lock that another client holds for too long, while this one holds none.
  using Suspect = std::function<Status(uint64_t lock, const Limit& limit)>;

  // Requires: connection, table and backoff outlive it. Errors: those of Scratch::make.
  static Status make(Connection* connection, const Table& table, const LockOptions& options, size_t rows_max,
                     Backoff* backoff, Suspect suspect, std::unique_ptr<LockedRows>* made);

  // ---- the plan, ascending
  void clear();
  void add_block(uint64_t block);
  // Requires: the block of the last one was added last. Rows between them may be of no lock.
  void add_read(uint64_t row, uint64_t rows);

  // Takes the locks and reads the rows. Errors: Unavailable, and then nothing is held, unless the connection is closed.
  Status take(const Limit& limit);
  // A row that was read, to be changed and written; null: it was not.
  Row* row(uint64_t number);
  // row(); also null if its lock is not held, so that others may change it.
  Row* locked_row(uint64_t number) { return holds(table_.block(number)) ? row(number) : nullptr; }
  [[nodiscard]] const std::vector<std::pair<uint64_t, uint64_t>>& reads() const { return reads_; }
  // Seals the row and has it written by release(), in the order of these calls.
  void write(uint64_t number);
  // Writes, then releases. Errors: Unavailable (it may have happened, in part).
  Status release();

  [[nodiscard]] const LockCounters& counters() const { return counters_; }

 private:
  enum class Try : uint8_t { kTaken, kOverdue, kSuspect };

  LockedRows(Connection* connection, const Table& table, const LockOptions& options, Backoff* backoff, Suspect suspect)
      : table_(table),
        options_(options),
        words_(connection->fabric().capabilities(), options.verb),
        suspect_(std::move(suspect)),
        batch_(connection),
        backoff_(*backoff) {}

  [[nodiscard]] rdma::Slice answer(size_t i) const { return memory_->word(i * sizeof(uint64_t)); }
  [[nodiscard]] uint64_t answered(size_t i) const { return memory_->word_value(i * sizeof(uint64_t)); }
  Status run();
  Status try_take(const Limit& limit, Try* outcome);
  Status ask(size_t* read_end);
  size_t judge();
  void suspect(const LockGroup& group, uint64_t old);
  [[nodiscard]] bool holds(uint64_t block) const;
  void heal();

  const Table& table_;
  const LockOptions options_;
  LockWords words_;
  const Suspect suspect_;
  Batch batch_;
  Backoff& backoff_;
  std::unique_ptr<Scratch> memory_;  // answers, then rows
  size_t rows_max_ = 0;
  LockCounters counters_;

  std::vector<LockGroup> groups_;
  std::vector<std::pair<uint64_t, uint64_t>> reads_;  // first row, rows; in the order of groups
  std::vector<size_t> read_group_, read_at_;          // the group that covers it; where its rows are in the memory
  size_t rows_planned_ = 0;
  uint64_t message_first_ = 0, message_locks_ = 0, last_lock_ = 0;  // of the plan's last message; of the plan
  size_t taken_ = 0, asked_ = 0;  // groups that are held; up to which the last list asked
  bool alone_ = false;            // the next one asks for one group only
  size_t read_ = 0;               // reads that are done
  std::vector<size_t> spare_;     // groups held out of order
  uint64_t held_since_ns_ = 0;
  std::vector<uint64_t> writes_;
  uint64_t suspected_ = 0, suspected_since_ns_ = 0;
};

}  // namespace bonsai::bench::rivals::rcuckoo

#endif  // BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_LOCKS_H_
