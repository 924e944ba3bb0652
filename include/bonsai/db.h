// The public store: an ordered, durable key-value store over tiered memory.
//
// Shape: that of RocksDB. Contract: docs/design.md, section 2, in short
//  - Put, Delete and Write return after the update is durable (Options::durability == kDurable), and no read ever
//    returns a value that a crash could still take back;
//  - Write(batch) is atomic for readers and for crashes;
//  - scans, iterators and snapshots are atomic, are never restarted and are never blocked by writers;
//  - a full store answers NoSpace and still takes deletes.
//
// Errors. An update that fails has changed nothing, now and after a crash, and may be tried again; with two exceptions,
// after which it may or may not have taken effect, which a read shows: Unavailable (a wait ended when its record was
// durable already, or a remote target did not confirm it) and IoError (the medium failed). After an IoError, and after
// an Unavailable that names a remote target, the store takes no updates any more, nor a Drain or Sync, until it is
// opened again; reads go on, and all that was acknowledged is kept (kBuffered: all that was synced). A read that fails
// says nothing of the key.
//
// Processes. A store belongs to the process that opened it. In a child that it forks every call answers NotSupported
// and the destructor writes nothing; iterators and sessions from before the fork must not be used there.
//
// Thread-safety: every method of DB may be called from any number of threads at once, except Close and the destructor,
// which require that no other call runs. Iterators, sessions and WriteBatches belong to one thread at a time.
#ifndef BONSAI_DB_H_
#define BONSAI_DB_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/damage.h"
#include "bonsai/options.h"
#include "bonsai/rows.h"
#include "bonsai/session.h"
#include "bonsai/status.h"

namespace bonsai {

// A set of updates that is applied whole or not at all. A later update of a key replaces an earlier one.
class WriteBatch {
 public:
  struct Update {
    std::string key;
    std::string value;
    bool is_delete = false;
  };

  void Put(std::string_view key, std::string_view value) { updates_.push_back({std::string(key), std::string(value)}); }
  void Delete(std::string_view key) { updates_.push_back({std::string(key), {}, true}); }
  void Clear() { updates_.clear(); }
  [[nodiscard]] size_t Count() const { return updates_.size(); }
  // It takes at most so many bytes of log: key, value and 32 bytes for each update.
  [[nodiscard]] uint64_t LogBytes() const {
    uint64_t bytes = 0;
    for (const Update& update : updates_) bytes += update.key.size() + update.value.size() + kUpdateLogBytes;
    return bytes;
  }
  [[nodiscard]] const std::vector<Update>& updates() const { return updates_; }

 private:
  static constexpr uint64_t kUpdateLogBytes = 32;
  std::vector<Update> updates_;
};

// A moment of the store's history. Reads through it see exactly the updates that took effect before it was taken.
// It keeps superseded versions in DRAM alive, and each update of a key that has a value looks at all snapshots that are
// alive (some ns each), so it should not be held for longer than needed. Released by its destructor, which must run
// before the DB is closed; iterators over it may live on. Thread-safety: may be shared by threads.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

 protected:
  Snapshot() = default;
};

// Walks the records of one moment in key order, both ways: of its snapshot, else of the moment at which NewIterator()
// was called; no seek moves it. What one seeks need not be a key: any bytes, as of ScanOptions. It has no position
// until a seek, and none past either end. Requires: key(), value(), Next() and Prev() only while Valid(); what key()
// and value() return is valid until the next call of a non-const method. A failure makes it !Valid() with status() not
// ok.
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
  void SeekAfter(std::string_view key) { Seek(std::string(key).append(1, '\0')); }  // the first record after `key`
  void SeekBefore(std::string_view key) {                                           // the last record before `key`
    const std::string bound(key);
    SeekForPrev(bound);
    if (Valid() && this->key() == bound) Prev();
  }
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
  //   rdma://HOST:PORT/POOL       served over RDMA; in programs that link it (bonsai, bonsai-bench)
  // When a pool is created, each may end in a role: `?role=log` keeps the log alone, and is made as large as it needs;
  // `?role=dnodes` keeps all else; without, or with `?role=both`, it is for both.
  // `/mnt/pmem/a?role=log,rdma://HOST:PORT/b?role=dnodes` makes puts durable here and keeps what they grow into there.
  // The pool knows the roles of its targets from then on.
  // Either all exist, or none does and they are created. What is stored on a remote target is durable on its node, in
  // the domain that bonsaid was given there; Options::persistence_domain is of this machine's files. Of a remote
  // target the log and the tables of what is free are fetched when it is opened; records are read when they are wanted.
  // Errors: IoError (missing, not writable), Corruption (damaged), NotSupported (foreign file, newer format version, a
  // scheme that this program does not know, another version of the fabric's protocol), Busy (open elsewhere),
  // InvalidArgument (options, names, roles, secret; targets that do not belong together: of two pools, a copy of
  // another, or one from before the pool was last opened), NoSpace (file system full), Unavailable (a node does not
  // answer within Options::fabric_wait_ms_max). On error no existing file is changed, here or on a node. A crashed pool
  // is recovered first; the time grows with the number of dnodes and the log tail.
  static Status Open(const Options& options, const std::string& path, std::unique_ptr<DB>* db);

  virtual ~DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;

  // Sets key to value. Errors: InvalidArgument (bounds, key form), NoSpace (after Options::stall_ms_max at most),
  // Unavailable, IoError.
  virtual Status Put(std::string_view key, std::string_view value) = 0;

  // Sets many keys, each as Put would, in this order where keys are equal; statuses[i] answers keys[i]. Requires equal
  // sizes. Not atomic as a whole (that is Write). Up to 32 at a time overlap their cache misses and share one fence: on
  // large stores much faster than one put after the other.
  virtual void MultiPut(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                        std::span<Status> statuses) = 0;

  // Removes key; OK also when it has no value. Takes space that is reserved for it, so that a full pool can be emptied.
  virtual Status Delete(std::string_view key) = 0;

  // Applies the batch whole. Errors as Put, plus InvalidArgument when it is too large for the log. One that takes
  // several log segments may wait for as many to be freed.
  virtual Status Write(const WriteBatch& batch) = 0;
  // Every batch of up to so many LogBytes() is small enough: a quarter of Options::log_bytes or more. Others may be,
  // too: values from 4 KiB on (in small pools, from a quarter of a segment on) are stored apart and take 16 bytes of
  // log.
  [[nodiscard]] virtual uint64_t BatchBytesMax() const = 0;

  // Copies the value of key into *value, whose capacity is reused. Errors: NotFound, InvalidArgument, Corruption.
  // Wait-free over DRAM and local NVM; allocates nothing but room in *value.
  virtual Status Get(const ReadOptions& options, std::string_view key, std::string* value) = 0;
  Status Get(std::string_view key, std::string* value) { return Get(ReadOptions(), key, value); }

  // OK when key has a value, else NotFound. Errors: as Get, but the bytes of a large value are not read.
  virtual Status Exists(const ReadOptions& options, std::string_view key) = 0;
  Status Exists(std::string_view key) { return Exists(ReadOptions(), key); }

  // Gets many keys; values[i] and statuses[i] answer keys[i]. Requires equal sizes. Each get is atomic by itself; pass
  // a snapshot for one moment over all. The cache misses of 32 keys at a time overlap: on large stores much faster than
  // one get after the other.
  virtual void MultiGet(const ReadOptions& options, std::span<const std::string_view> keys,
                        std::span<std::string> values, std::span<Status> statuses) = 0;

  // A session of up to `depth` operations in flight at once, for one thread. More than 32 bring little.
  // Requires: 1 <= depth <= kSessionDepthMax. It is to be destroyed before the DB is closed.
  virtual std::unique_ptr<Session> NewSession(size_t depth = 32) = 0;

  // Visits the records from `from` on (inclusive unless ScanOptions::from_exclusive; empty = the first) in ascending
  // order, as of one moment during the call or of the snapshot. Errors: InvalidArgument (no visitor), Corruption (after
  // the records before the damage were visited), Unavailable (more than Options::snapshots_max at once).
  virtual Status Scan(const ScanOptions& options, std::string_view from, const ScanVisitor& visit) = 0;
  // The same, with the records passed where they are stored: the fastest way through many of them.
  virtual Status ScanRows(const ScanOptions& options, std::string_view from, const RowsVisitor& visit) = 0;

  // How many records Scan would visit, as of one moment; reads no values. *count is set in every case: after an error,
  // to how many there are before it. Errors: as Scan.
  virtual Status Count(const ScanOptions& options, std::string_view from, uint64_t* count) = 0;

  // Takes a snapshot; any number may be alive. Errors: Unavailable (more than Options::snapshots_max at once).
  virtual Status GetSnapshot(std::shared_ptr<const Snapshot>* snapshot) = 0;

  // An iterator over `options.snapshot`, or over a moment during this call. Errors show in its status(). It is to be
  // destroyed before the DB is closed.
  virtual std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) = 0;

  // Returns when every update that returned before the call is durable. Only kBuffered has to wait for it.
  virtual Status Sync() = 0;

  // Moves all buffered updates into dnodes and frees the log. Updates may go on meanwhile.
  virtual Status Drain() = 0;

  [[nodiscard]] virtual Stats GetStats() const = 0;

  // Syncs and closes. Busy, and the store stays open and usable as before, while a snapshot, iterator or session of it
  // is alive: destroy those, then close again. After any other answer only the destructor may be called. The destructor
  // closes too if Close has not, ignoring errors; it requires that none of them is alive, and ends the process if one
  // is, because that one would go on to read freed memory.
  virtual Status Close() = 0;

 protected:
  DB() = default;
};

// What `Check` found. `ok()` means: nothing is damaged.
struct CheckReport {
  std::vector<Damage> damages;
  uint64_t dnodes = 0, records = 0, log_records = 0, large_values = 0;
  uint64_t data_bytes = 0, data_bytes_used = 0;
  uint64_t targets = 0;
  bool clean = false;  // closed in order, nothing to recover
  KeyFormat key_format = KeyFormat::kBytes;
  [[nodiscard]] bool ok() const { return damages.empty(); }
};

// Verifies a pool that is not open, without changing a byte (of remote targets, which are reached as `options`
// say, a copy is fetched): superblocks, checksums of every dnode, record and large
// value, tiling of the key space, overlaps and leaks of space. Errors: as Open (the pool cannot be read at all);
// damage inside is reported in *report with an OK status. `progress`, if set, is called with the share done, 0..1.
Status Check(const std::string& path, CheckReport* report, const std::function<void(double)>& progress = {},
             const Options& options = Options());

// Removes a pool that is not open: its files, here and on other nodes; of a DAX device the bytes stay. Whatever is not
// a pool, or not all of one, is left alone. Errors: as Check, and IoError.
Status Remove(const std::string& path, const Options& options = Options());

// Copies the records of an open store, as of `snapshot` or (null) of one moment during the call, into a new pool at
// `to`, made as `options` say but with the key format of `db`. Reads and updates go on meanwhile; what they replace
// stays in DRAM until the copy is done. The copy is durable when the call returns, and appears under its name only when
// it is complete; until then its files end in ".partial" (a DAX device has no second name and holds whatever was
// copied). *records, if not null: how many. Errors: as Scan of `db` and as Open and Put of the new pool; no pool is
// left then.
Status Checkpoint(DB* db, const Options& options, const std::string& to, const Snapshot* snapshot = nullptr,
                  uint64_t* records = nullptr);

// What `Salvage` could not save.
struct SalvageReport {
  uint64_t records = 0;      // that were copied
  std::vector<Damage> lost;  // each with the keys whose values are missing, or may be older ones
};

// Copies all that verifies of a damaged pool, which is not open and stays as it is, into a new one at `to`, made as
// `options` say but with the key format of the old. Of a damaged dnode every entry that passes its check is copied, but
// none that a lost one may have replaced. A damaged part of the log can hold updates of any keys: then those may have
// older values in the copy, which its entry in *report says. Errors: as Check of `from` (nothing can be read, e.g. both
// superblocks are damaged) and as Open and Put of the new pool (a copy needs room; then none is left).
Status Salvage(const std::string& from, const Options& options, const std::string& to, SalvageReport* report,
               const std::function<void(double)>& progress = {});

// Describes what storing at `path` would mean here, e.g. "tmpfs (emulated NVM), flush clwb, domain ADR".
// Works for targets that do not exist yet; of remote ones, which are reached as `options` say, it then shows the node.
// Errors: IoError; of a remote target as DB::Open.
Status DescribeMedium(const std::string& path, std::string* text, const Options& options = Options());

}  // namespace bonsai

#endif  // BONSAI_DB_H_
