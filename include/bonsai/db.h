// SPDX-License-Identifier: Apache-2.0
// The public store: an ordered, durable key-value store over tiered memory.
//
// The interface resembles RocksDB's. Contract (docs/design.md, section 2), in short
//  - Put, Delete and Write return after the update is durable (Options::durability == kDurable), and no read ever
//    returns a value that a crash could still take back;
//  - Write(batch) is atomic for readers and for crashes;
//  - a conditional update (PutIf, DeleteIf, Increment, a batch with conditions) reads and writes at one moment; it is
//    atomic and durable as the others. If a condition does not hold, nothing is changed, now and after a crash;
//  - scans, iterators and snapshots are atomic, are never restarted and are never blocked by writers;
//  - a full store returns NoSpace and still accepts deletes. In pools of a few MiB the space set aside for them may be
//    short: there a delete may get NoSpace, too.
//  - a process that gets no more memory is not ended: calls return NoSpace ("out of memory"), deletes too, and work
//    again once there is memory. IoError, if it ran out in the middle of an update: then reopen the store.
//
// Errors. A failed update has changed nothing, now and after a crash, and may be retried. There are two exceptions,
// after which the outcome is open: Unavailable (a wait timed out when the record was already durable, or a remote
// target did not confirm it) and IoError (the medium failed). Reads of this store show the state without such an
// update; the next opening of the pool settles it. Then it is there as a whole or not at all, and no later crash
// changes that. Only a batch that ended as Unavailable may show before, when another operation has completed it. A
// later successful update of the key replaces it in any case. After an IoError, and after an Unavailable that names a
// remote target, the store rejects updates, Drain and Sync until it is reopened. Reads continue, and every acknowledged
// update is kept (kBuffered: every synced update). A failed read gives no information about the key.
//
// Codes. Besides those named at a function, any call may return: NotSupported (in a forked child); Corruption (it met
// damaged data); IoError and Unavailable (a target failed, or does not answer), from reads of remote targets too.
//
// Processes. A store belongs to the process that opened it. In a forked child every call returns NotSupported and
// the destructor writes nothing; iterators and sessions from before the fork must not be used there.
//
// Two of them are results and no errors: NotFound, and ConditionFailed of a conditional update.
//
// Thread-safety: any number of threads may call the methods of DB at once, except Close and the destructor, which
// require that no other call runs. Iterators, sessions and WriteBatches belong to one thread at a time.
#ifndef BONSAI_DB_H_
#define BONSAI_DB_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/condition.h"
#include "bonsai/damage.h"
#include "bonsai/options.h"
#include "bonsai/rows.h"
#include "bonsai/session.h"
#include "bonsai/status.h"

namespace bonsai {

// A set of updates that are applied atomically. A later update of a key replaces an earlier one. With conditions: if
// all of them hold, at the moment at which the updates are applied; else nothing is changed.
class WriteBatch {
 public:
  struct Update {
    std::string key;
    std::string value;
    bool is_delete = false;
  };
  struct Requirement {
    std::string key;
    Condition::Kind kind;
    std::string value;                   // kEquals
    const Snapshot* snapshot = nullptr;  // kUnchanged
  };

  void Put(std::string_view key, std::string_view value) { updates_.push_back({std::string(key), std::string(value)}); }
  void Delete(std::string_view key) { updates_.push_back({std::string(key), {}, true}); }
  // The condition must hold of the key, whether the batch updates the key or not: of its value before the batch. Copies
  // the condition's bytes. A key may have several conditions.
  void Require(std::string_view key, const Condition& condition) {
    requirements_.push_back({std::string(key), condition.kind(), std::string(condition.value()), condition.snapshot()});
  }
  void Clear() {
    updates_.clear();
    requirements_.clear();
  }
  [[nodiscard]] size_t Count() const { return updates_.size(); }
  // Upper bound on the log bytes of the batch: key, value and 32 bytes for each update.
  [[nodiscard]] uint64_t LogBytes() const {
    uint64_t bytes = 0;
    for (const Update& update : updates_) bytes += update.key.size() + update.value.size() + kUpdateLogBytes;
    return bytes;
  }
  [[nodiscard]] const std::vector<Update>& updates() const { return updates_; }
  [[nodiscard]] const std::vector<Requirement>& requirements() const { return requirements_; }

 private:
  static constexpr uint64_t kUpdateLogBytes = 32;
  std::vector<Update> updates_;
  std::vector<Requirement> requirements_;
};

// A point in the store's history. Reads through a snapshot see exactly the updates that took effect before it was
// taken. A snapshot keeps superseded versions in DRAM, and every update of an existing key checks all live snapshots
// (some ns each), so release it as soon as possible. The destructor releases it and must run before the DB is closed;
// iterators over the snapshot may outlive it. Thread-safety: threads may share a snapshot.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

 protected:
  Snapshot() = default;
};

// Walks the records in key order, both ways, as of one point in time: its snapshot, else the call of NewIterator().
// Seeks do not change that point. The seek target need not be a stored key: it may be any bytes, as in ScanOptions. An
// iterator has no position before the first seek and past either end. Requires: key(), value(), Next() and Prev() are
// called only while Valid(); the results of key() and value() are valid until the next call of a non-const method.
// After a failure the iterator is not Valid() and status() is not ok.
class Iterator {
 public:
  virtual ~Iterator() = default;
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

  [[nodiscard]] virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  virtual void Seek(std::string_view key) = 0;         // the first record at or after `key`
  virtual void SeekForPrev(std::string_view key) = 0;  // the last record at or before `key`
  virtual void SeekAfter(std::string_view key) = 0;    // the first record after `key`
  virtual void SeekBefore(std::string_view key) = 0;   // the last record before `key`
  virtual void Next() = 0;
  virtual void Prev() = 0;
  [[nodiscard]] virtual std::string_view key() const = 0;
  [[nodiscard]] virtual std::string_view value() const = 0;
  virtual Status status() const = 0;

 protected:
  Iterator() = default;
};

class DB {
 public:
  // Opens the pool at `path`: one target or a comma-separated list of them (none empty or named twice, always in the
  // same order). A target is a file or device of this machine, or a pool that bonsaid serves on another node:
  //   /mnt/pmem/my.pool           a file or DAX device
  //   shm://NAME/POOL             served under NAME on this machine
  //   rdma://HOST:PORT/POOL       served over RDMA; in a library that was built with RDMA's packages
  // When a pool is created, each target may end in a role. A target with `?role=log` stores only the log and is made as
  // large as the log needs; one with `?role=dnodes` stores everything else; one with `?role=both` or no role stores
  // both. With `/mnt/pmem/a?role=log,rdma://HOST:PORT/b?role=dnodes` puts become durable on this machine and are
  // offloaded to the other node. The pool stores the roles of its targets.
  // A remote target may end in `?lease=checked` (with a role: `?role=log&lease=checked`), at each opening: for guests
  // whose host may pause them while their clocks stand. Each read (a group, a window of a scan) then asks that target's
  // node whether the pool is still this process's, which is a message and its answer. Else reads rely on the clock. It
  // has no effect if another target is of this machine.
  // Either all targets exist, or none does and they are created. Data on a remote target is durable on its node, in the
  // persistence domain that its bonsaid was started with; Options::persistence_domain applies to local files only. The
  // tables of a remote target and what its log holds are fetched when it is opened; records are read on demand.
  // Errors: IoError (missing, not writable), Corruption (damaged), NotSupported (foreign file, newer format version, a
  // scheme that this program does not support, another version of the fabric's protocol), Busy (open elsewhere),
  // InvalidArgument (options, names, roles, secret; targets that do not belong together: from two pools, a copy of
  // another target, or an older copy from before the last open), NoSpace (file system full; no further thread or
  // memory), Unavailable (a node does not answer within Options::fabric_wait_ms_max). On error no existing file is
  // changed, here or on a node, unless a medium fails, or memory runs out, while recovery writes to it. (A node's
  // record of who had the pool last is no part of the pool.) Of several targets a copy of one from before such a
  // failure may then be rejected as older than the others: put back copies of all targets from one time. A crashed pool
  // is recovered first; recovery time grows with the number of dnodes and the log tail.
  static Status Open(const Options& options, const std::string& path, std::unique_ptr<DB>* db);

  virtual ~DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;

  // Sets key to value. Errors: InvalidArgument (bounds, key form), NoSpace (after Options::stall_ms_max at most),
  // Unavailable, IoError.
  virtual Status Put(std::string_view key, std::string_view value) = 0;

  // Puts many keys; puts of equal keys take effect in this order. statuses[i] is the result for keys[i]. Requires equal
  // sizes. Not atomic as a whole (Write is). Groups of up to 32 puts overlap their cache misses and share one fence,
  // which is much faster on large stores than one put after another.
  virtual void MultiPut(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                        std::span<Status> statuses) = 0;

  // Removes key; OK also when it has no value. Deletes have reserved space, so that a full pool can be emptied.
  virtual Status Delete(std::string_view key) = 0;

  // Put and Delete if the condition holds, at one moment. Costs about a get and an update; readers, and updates of
  // other keys, never wait for it. Errors: as Put and Delete, ConditionFailed, and Corruption (the present value is
  // damaged). After any of them but IoError and Unavailable nothing is changed.
  virtual Status PutIf(const Condition& condition, std::string_view key, std::string_view value) = 0;
  virtual Status DeleteIf(const Condition& condition, std::string_view key) = 0;

  // Adds `by` to the number that key has as its value, a decimal integer of 64 bits as text, such as "-12"; no value
  // counts as 0. *result, if not null, is the sum, which is the new value. Errors: as PutIf, but for ConditionFailed;
  // InvalidArgument (the value is no such number, or the sum does not fit), with which nothing is changed.
  virtual Status Increment(std::string_view key, int64_t by, int64_t* result) = 0;

  // Applies the batch atomically. Errors: as Put, and InvalidArgument when the batch is too large for the log. A batch
  // that needs several log segments may wait until that many are freed. ConditionFailed: a condition of the batch does
  // not hold; *failed, if not null, is its index in WriteBatch::requirements(). Several may fail; it is one of them.
  virtual Status Write(const WriteBatch& batch, size_t* failed) = 0;
  Status Write(const WriteBatch& batch) { return Write(batch, nullptr); }
  // The LogBytes() that always fit: a quarter of Options::log_bytes or more. A batch above this size may fit too,
  // because values from 4 KiB on (in small pools, from a quarter of a segment on) are stored apart and take 16 bytes of
  // log.
  [[nodiscard]] virtual uint64_t BatchBytesMax() const = 0;

  // Deletes the records that Scan would visit with these options, whose snapshot must be null. All go at one moment,
  // for readers and for crashes; their space comes back as that of single deletes, in a full pool, too.
  // A key that another caller puts into the range during the call, and that had no value before, may stay. *deleted, if
  // not null, is their number.
  // It takes the time of the scan and of a batch, and some 300 bytes of DRAM a record. Bound: as many records as fit
  // into one batch, whose LogBytes() are their keys and 32 bytes for each. Errors: as Scan and Write; InvalidArgument
  // beyond that bound, and nothing is deleted. The message has a limit that fits: repeat the call with it, each part at
  // one moment, until *deleted is 0.
  virtual Status DeleteRange(const ScanOptions& options, std::string_view from, uint64_t* deleted) = 0;

  // Copies the value of key into *value, whose capacity is reused. Errors: NotFound, InvalidArgument, Corruption.
  // Wait-free over DRAM and local NVM; allocates only the buffer of *value.
  virtual Status Get(const ReadOptions& options, std::string_view key, std::string* value) = 0;
  Status Get(std::string_view key, std::string* value) { return Get(ReadOptions(), key, value); }

  // OK when key has a value, else NotFound. Does not read the bytes of a large value. Errors: as Get.
  virtual Status Exists(const ReadOptions& options, std::string_view key) = 0;
  Status Exists(std::string_view key) { return Exists(ReadOptions(), key); }

  // Gets many keys; values[i] and statuses[i] are the results for keys[i]. Requires equal sizes. Each get is atomic on
  // its own; pass a snapshot to read all keys as of one point in time. Groups of up to 32 gets overlap their cache
  // misses, which is much faster on large stores than one get after another.
  virtual void MultiGet(const ReadOptions& options, std::span<const std::string_view> keys,
                        std::span<std::string> values, std::span<Status> statuses) = 0;

  // A session of up to `depth` operations in flight at once, for one thread. A depth above 32 gains little. Null when
  // there is no memory for it.
  // Requires: 1 <= depth <= kSessionDepthMax; the session is destroyed before the DB is closed.
  virtual std::unique_ptr<Session> NewSession(size_t depth = 32) = 0;

  // Visits the records from `from` on (inclusive unless ScanOptions::from_exclusive; empty = the first) in ascending
  // order, as of the snapshot or of one moment during the call. Errors: InvalidArgument (no visitor), Corruption (after
  // visiting the records before the damage), Unavailable (more than Options::snapshots_max at once).
  virtual Status Scan(const ScanOptions& options, std::string_view from, const ScanVisitor& visit) = 0;
  // As Scan, but passes many records at a time, in place: the fastest way to scan many records.
  virtual Status ScanRows(const ScanOptions& options, std::string_view from, const RowsVisitor& visit) = 0;

  // Counts the records that Scan would visit, as of one moment; reads no values. *count is always set: after an error,
  // to the number of records before it. Errors: as Scan.
  virtual Status Count(const ScanOptions& options, std::string_view from, uint64_t* count) = 0;

  // Takes a snapshot; any number may be open. Errors: Unavailable (more than Options::snapshots_max at once).
  virtual Status GetSnapshot(std::shared_ptr<const Snapshot>* snapshot) = 0;

  // An iterator over `options.snapshot`, or as of one moment during this call. Errors are in its status(). Null when
  // there is no memory for it. Requires: it is destroyed before the DB is closed.
  virtual std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) = 0;

  // Returns when every update that returned before the call is durable. Waits only in mode kBuffered. Errors: IoError,
  // Unavailable (not within Options::stall_ms_max).
  virtual Status Sync() = 0;

  // Moves all buffered updates into dnodes and frees the log; then compacts dnodes that have several runs, as far as
  // the bound on early writes allows. Updates may run meanwhile. Errors: Unavailable (no progress for
  // Options::stall_ms_max, or updates came in as fast as they were offloaded), NoSpace (no room for a dnode: delete
  // data), Corruption (a range is damaged), IoError. Updates that were offloaded before the error stay offloaded.
  virtual Status Drain() = 0;

  // When there is no memory for it, the medium has no name, and what is counted range by range is 0: bnodes, dnodes,
  // dnode_records, dram_bytes.
  [[nodiscard]] virtual Stats GetStats() const = 0;

  // Syncs and closes. While a snapshot, iterator or session is still open, Close returns Busy and the store stays
  // usable: destroy those, then close again. After any other result only the destructor may be called. If Close has not
  // closed the store, the destructor does so and ignores errors. It requires that no snapshot, iterator or session is
  // open. If one is, it ends the process, because that object would read freed memory.
  virtual Status Close() = 0;

 protected:
  DB() = default;
};

// The result of `Check`; ok() if no key is affected.
struct CheckReport {
  std::vector<Damage> damages;
  // Damaged bytes whose content is also stored elsewhere: a copy of a superblock, a word of a table, a header that a
  // crash has torn. No key is affected, and opening the pool writes them anew.
  std::vector<Damage> repairs;
  std::vector<RangeState> ranges;  // the whole key space, in the order of keys
  uint64_t missing = 0;            // targets that are not there (Options::allow_missing); each is among the damages
  uint64_t dnodes = 0, records = 0, log_records = 0, large_values = 0;
  uint64_t data_bytes = 0, data_bytes_used = 0;
  uint64_t targets = 0;
  bool clean = false;  // closed properly: nothing to recover
  KeyFormat key_format = KeyFormat::kBytes;
  [[nodiscard]] bool ok() const { return damages.empty(); }
};

// Verifies a pool that is not open: superblocks, the checksums of every dnode, record and large value, the tiling of
// the key space, and overlaps and leaks of space. Changes nothing; remote targets, which are reached through `options`,
// are copied first. Errors: as Open (the pool cannot be read at all); damage inside the pool is listed in *report, and
// the status is OK. `progress`, if set, is called with the share done, 0..1.
// With Options::allow_missing, and targets that are gone: what a missing target had of the log (every target has a part
// unless roles say otherwise) may have held newer updates of any key, so a range that counts as whole is whole as of
// the last time that it was offloaded. A missing target that stored dnodes alone takes nothing else with it.
Status Check(const std::string& path, CheckReport* report, const std::function<void(double)>& progress = {},
             const Options& options = Options());

// A pool, or a target of one, as `List` finds it.
struct PoolInfo {
  std::string name;     // with the place before it, as in "shm://NODE/name", it names a target
  uint64_t bytes = 0;   // its size
  std::string owner;    // who has it open, since when, and when its node saw that one last; empty: nobody
  uint64_t used_s = 0;  // when it was used last, as far as its files and its owner show: seconds since 1970
};

// Lists what is in a folder of this machine, or what a node serves ("shm://NODE", "rdma://HOST:PORT", reached through
// `options`), in the order of names. A node lists all files that could be pools, whatever they hold. Changes nothing.
// An owner that died without closing its store is listed until the next one comes. Errors: IoError (no such folder),
// InvalidArgument (no such form of a name, the secret), Unavailable (no node answers).
Status List(const std::string& place, std::vector<PoolInfo>* pools, const Options& options = Options());

// Removes a pool that is not open: its files, here and on other nodes. A DAX device stays, and holds no pool any more.
// A removal that was interrupted can be done again: targets that are gone count as removed. Leaves alone what is not a
// pool, or only part of one. Errors: as Check, and IoError.
Status Remove(const std::string& path, const Options& options = Options());

// Copies the records of an open store into a new pool at `to`, as of `snapshot` or (null) of one moment during the
// call. The pool is created with `options`, except that it has the key format of `db`. Reads and updates may run
// meanwhile; the values that updates replace stay in DRAM until the copy is done. The copy is durable when the call
// returns, and appears under its name only when it is complete; until then its files have no name, so that nothing is
// left of them if the process ends. (Where a file system cannot do that, such as hugetlbfs, they have one of their own,
// as `to`.PID.0.partial. A DAX device holds what has been copied so far.) No existing file is replaced, not even one
// that appears meanwhile. *records, if not null, is set to the number of records.
// Errors: as Scan of `db` and as Open and Put of the new pool, which is then removed; InvalidArgument (`to` exists),
// Busy (another process has made a file of that name meanwhile).
Status Checkpoint(DB* db, const Options& options, const std::string& to, const Snapshot* snapshot = nullptr,
                  uint64_t* records = nullptr);

// The result of `Salvage`.
struct SalvageReport {
  uint64_t records = 0;            // records copied
  std::vector<Damage> lost;        // each with the keys whose values are missing, or may be older ones
  std::vector<RangeState> ranges;  // as CheckReport::ranges: what was copied
  uint64_t missing = 0;            // as CheckReport::missing
};

// Copies everything in a damaged pool that passes its checks into a new pool at `to`. The damaged pool must not be open
// and is not changed. The new pool is created with `options`, except that it has the key format of the old one. From a
// damaged dnode every entry that passes its check is copied, unless a lost entry may have replaced it. A damaged part
// of the log may hold updates of any keys; those keys may have older values in the copy, and its entry in *report
// states this. Errors: as Check of `from` (nothing can be read, e.g. both superblocks are damaged) and as Open and Put
// of the new pool (e.g. too little space), which is then removed.
Status Salvage(const std::string& from, const Options& options, const std::string& to, SalvageReport* report,
               const std::function<void(double)>& progress = {});

// Describes the medium that a pool at `path` would have, e.g. "tmpfs (emulated NVM), flush clwb, domain ADR". Works for
// targets that do not exist yet; for a remote one, which is reached through `options`, it then describes the node.
// Errors: IoError; for a remote target as DB::Open.
Status DescribeMedium(const std::string& path, std::string* text, const Options& options = Options());

}  // namespace bonsai

#endif  // BONSAI_DB_H_
