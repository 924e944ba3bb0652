// SPDX-License-Identifier: Apache-2.0
// RCuckoo-like: a cuckoo hash table whose two rows of a key are close together, locked by masked CAS; class V (nothing
// is durable).
//
// After the public sources and paper sources of RCuckoo (wantonsolutions/RemoteDataStructres: its draft's simulation
// and the ATC'25 version).
//
//   operation                 lists/messages/bytes, rows of 72 bytes, 16 rows a lock
//   get, rows far apart       {READ 72, READ 72}                                                       1/2/144
//     within the threshold    one READ over both, d rows apart                                         1/1/72(d+1)
//   update, remove            {masked CAS, READ 72, READ 72}; {WRITE 72, masked CAS}                   2/5/232
//     within the threshold    {masked CAS, READ}; {WRITE 72, masked CAS}                               2/4/88 + 72(d+1)
//   insert, a free entry      {masked CAS, READ of all rows of the lock}; {WRITE 72, masked CAS}       2/4/1240
//     covering_reads          one READ for a message, over all rows from its first lock to its last
//     p entries move,         {w masked CAS, READs}; {p + 1 WRITEs from the free end backwards,
//     w messages for locks    w masked CAS}                                                            2/...
//   a lock is taken           the same again for that one, then what comes after it in another list    +1/2/8 + READ
//   the path does not hold    {masked CAS}, search, then again                                         +1 list, and all
//   a miss                    two looks that saw the same rows (ours)                                  +1/2/144
//
// An insert first searches in the rows that the client remembers (rcuckoo_search.h), where an unknown row
// counts as free; it locks the rows of the path and the key's two, reads all rows under these locks, and searches once
// more among them. Entries move from the free end backwards: each key is in one of its rows at any moment.
// The published figures show that a new key goes to its first row, though its second may have room.
// Simplified: records of 4 + 4 bytes only (no extents), neither of them zero-keyed; one memory node.
// Differences: rows of 72 bytes for 73, as the check and the version share a word, so that entries are aligned; lock
// words are aligned, so a message for locks of two words is two requests; a get believes a miss when two looks agree;
// how a repair chooses between the copies of a key (rcuckoo_repair.h); emulation of masked CAS (rcuckoo_locks.h);
// insert replaces an older record, unless keys_are_new. Linearizable per key.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_H_
#define BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/studies/rivals/client_base.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/memory_node.h"
#include "bench/studies/rivals/rcuckoo_layout.h"
#include "bench/studies/rivals/rcuckoo_locks.h"
#include "bench/studies/rivals/rcuckoo_repair.h"
#include "bench/studies/rivals/rcuckoo_search.h"

namespace bonsai::bench::rivals::rcuckoo {

// The bytes that the table takes at the start of the memory node.
[[nodiscard]] size_t fixed_bytes(const TableOptions& options);
// Makes an empty table. Requires: no client yet.
void make_table(const TableOptions& options, MemoryNode* node);

struct ClientOptions {
  TableOptions table = {};
  SearchOptions search = {};
  LockOptions locks = {};
  size_t threshold_bytes = 128;           // up to here one READ covers both rows of a key
  size_t cache_bytes = size_t{64} << 10;  // of the client's own cache, unless
  RowCache* cache = nullptr;              // it shares this one with others of its thread (as the simulation's do)
  // The caller inserts no key twice, as in the published evaluations: then only the rows of the path are locked.
  bool keys_are_new = false;
  uint64_t operation_ms_max = 10'000;
};

struct Counters {
  uint64_t inserts_full = 0;    // NoSpace
  uint64_t paths_outdated = 0;  // what was locked held no path
  uint64_t entries_moved = 0;
  uint64_t looks_repeated = 0;       // torn rows, and second looks after a miss
  uint64_t inserts_one_message = 0;  // whose locks were in one message
};

class CuckooClient final : public ClientBase<Counters> {
 public:
  // Requires: the connection outlives it. Errors: Unavailable, NoSpace.
  static Status make(Connection* connection, const ClientOptions& options, std::unique_ptr<CuckooClient>* client);

  Status get(std::string_view key, std::string* value) override;
  Status insert(std::string_view key, std::string_view value) override;
  Status update(std::string_view key, std::string_view value) override;
  Status remove(std::string_view key) override;

  [[nodiscard]] const LockCounters& lock_counters() const { return locks_->counters(); }
  [[nodiscard]] const RepairCounters& repair_counters() const { return repairer_->counters(); }

 private:
  CuckooClient(Connection* connection, const ClientOptions& options)
      : ClientBase(connection, options.operation_ms_max), options_(options), table_(options.table) {}

  [[nodiscard]] bool covered(const Place& place) const {
    return (place.distance() + 1) * kRowBytes <= options_.threshold_bytes;
  }
  Status look(const Place& place, std::array<Row, 2>* rows, bool* whole);
  // Takes the locks of blocks and reads the rows of the plan.
  Status lock_path(const Place& place, const Path& path, const Limit& limit);
  Status lock_place(const Place& place, const Limit& limit);
  void remember_rows();
  [[nodiscard]] bool holds(const Path& path);
  bool find_fresh(const Place& place, Path* path);
  void move_along(const Path& path, uint64_t entry);
  // Where the key is among the locked rows; false: nowhere.
  bool find_entry(const Place& place, uint32_t key, Step* at);
  Status insert_entry(uint32_t key, uint64_t entry, const Limit& limit);
  Status change(const char* name, uint32_t key, uint64_t entry);

  const ClientOptions options_;
  const Table table_;
  std::unique_ptr<RowCache> own_cache_;
  RowCache* cache_ = nullptr;
  std::unique_ptr<Repairer> repairer_;
  std::unique_ptr<LockedRows> locks_;
};

}  // namespace bonsai::bench::rivals::rcuckoo

#endif  // BONSAI_BENCH_STUDIES_RIVALS_RCUCKOO_H_
