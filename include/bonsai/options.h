// SPDX-License-Identifier: Apache-2.0
// Options of a Bonsai store. Every field has a default that works on a laptop without NVM or RDMA.
#ifndef BONSAI_OPTIONS_H_
#define BONSAI_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/cxx20.h"

namespace bonsai {

// Bounds of the contract; anything outside them is InvalidArgument and changes nothing.
inline constexpr size_t kKeyBytesMin = 1;
inline constexpr size_t kKeyBytesMax = 1024;
inline constexpr size_t kValueBytesMax = size_t{16} << 20;
inline constexpr uint64_t kPoolBytesMin = uint64_t{64} << 10;  // per target
inline constexpr uint64_t kPoolBytesMax = (uint64_t{1} << 62) - 1;
inline constexpr uint32_t kThreadsMax = 1024;  // background threads of a store, and recovery threads
inline constexpr uint32_t kFabricWorkersMax = 64;
inline constexpr uint64_t kPoolBytesDefault = uint64_t{1} << 30;  // of a DAX device: all that it has

// Form of the keys; fixed when a pool is created.
enum class KeyFormat : uint8_t {
  kBytes = 0,   // byte strings of 1..1024 bytes, in bytewise order
  kFixed8 = 1,  // exactly 8 bytes: a big-endian integer, so that bytewise order is numeric order
};

// The medium of a store.
enum class MediumChoice : uint8_t {
  kAuto =
      0,  // what the path names: devdax, fsdax, tmpfs or hugetlb by flush instructions; a plain file by msync (slow)
  kDram = 1,  // memory of the process: a new, empty store. The path is only a name; no file is read or created.
};

// The durability mode. kVolatile and MediumChoice::kDram require each other, else InvalidArgument, so that the choice
// of a medium alone never loses updates.
enum class Durability : uint8_t {
  kDurable = 0,   // an update that has returned survives every crash that the persistence domain covers
  kBuffered = 1,  // a crash may lose the updates of about the last `buffered_window_ms`. An update that had returned
                  // before a surviving one began survives, too
  kVolatile = 2,  // updates are lost when the store is closed or the process ends: no log, no flushes. Checkpoint can
                  // save them. For caches and comparisons.
};

// The stores that survive a crash. kAuto: eADR if the platform reports it, else ADR; for a plain file, ADR by msync.
enum class PersistenceDomain : uint8_t {
  kAuto = 0,
  kAdr = 1,   // only lines that were flushed and fenced survive
  kEadr = 2,  // every store survives
};

// Where the bytes of dnodes and large values are, on a pool of several targets. Log and tables stay on theirs.
enum class LayoutChoice : uint8_t {
  kNone = 0,      // an object is on one target
  kSoftware = 1,  // units of `stripe_unit_bytes` take turns among all targets with dnodes: a request for each unit
  kHardware = 2,  // the same bytes, translated below the store: one request spans targets. Of this machine only
};
inline constexpr uint64_t kStripeUnitMin = 256;
inline constexpr uint64_t kStripeUnitMax = uint64_t{1} << 20;
inline constexpr uint64_t kStripeUnitDefault = uint64_t{64} << 10;

// A value outside its bounds, or of an enumeration that has no such constant, is InvalidArgument wherever options are
// taken.
struct Options {
  // ---- the pool
  bool create_if_missing = false;
  bool error_if_exists = false;
  // Opens an existing pool to look at it: needs no permission to write, and never changes a byte of its files. Several
  // such stores may have it open at once, in any processes, and nobody may update it meanwhile. A crashed pool is
  // recovered in memory of this process (pages that recovery would have written: headers of dnodes and the end of the
  // log), each time. Updates and Drain are NotSupported, Sync has nothing to do; Checkpoint copies it. Of files of this
  // machine that are not striped; DAX devices, pools on nodes and striped ones are NotSupported. Durability and
  // background_threads have no effect. Not together with create_if_missing, error_if_exists, grow_bytes or
  // MediumChoice::kDram.
  bool read_only = false;
  // Of Check and Salvage: targets that cannot be read are left out, as long as another one can, and the reports say
  // what the others hold, range by range. Not of striped pools.
  bool allow_missing = false;
  KeyFormat key_format = KeyFormat::kBytes;  // on open it must be the pool's own unless `any_key_format`
  bool any_key_format = false;               // accept the key format of the existing pool
  // Size of each target, when creating; kPoolBytesMin to kPoolBytesMax. A target with role=log (DB::Open) instead gets
  // the size of its share of the log. A DAX device is taken whole, which the log sink reports where it was not asked
  // for; a smaller one than was asked for is refused, except for the default. Checkpoint and Salvage take 0, too: each
  // target of the copy then has twice the room that its records need, and is not smaller than the source's targets or
  // 64 MiB, whichever is less.
  uint64_t pool_bytes = kPoolBytesDefault;
  // On open: smaller targets are enlarged to this size, at most kPoolBytesMax, but their log is not. Targets with
  // role=log keep their size.
  uint64_t grow_bytes = 0;
  // Log budget over all targets, when creating; 0 = a tenth of the pool. A target's share is rounded down to whole log
  // segments, and is at least four segments of 4 KiB. Stats::log_bytes reports the result.
  uint64_t log_bytes = 0;

  // When creating; an existing pool keeps its own, and must have been created with this one unless it is kNone. A
  // striped pool has at least two targets with dnodes, all of this machine or all on nodes over one fabric; of targets
  // of different sizes the smallest counts.
  LayoutChoice layout = LayoutChoice::kNone;
  // Of a striped pool: a power of two, kStripeUnitMin to kStripeUnitMax. Targets of this machine need at least a page,
  // and a 32,000th of their size together; 0 = kStripeUnitDefault when creating, the pool's own when opening.
  uint64_t stripe_unit_bytes = 0;

  // ---- the medium
  MediumChoice medium = MediumChoice::kAuto;
  PersistenceDomain persistence_domain = PersistenceDomain::kAuto;
  Durability durability = Durability::kDurable;

  // ---- remote targets
  // The file with the deployment's secret, by which this process and the nodes authenticate each other: 64 hexadecimal
  // digits, readable only by its owner. Empty: the file that the environment variable BONSAI_SECRET_FILE names, else
  // no secret.
  std::string fabric_secret_file;
  // The longest wait for a node: for a connection, a response or a fence. A node that is restarted, stopped or out of
  // reach for less than that delays operations and fails none: the store connects to it again. After it, the call
  // returns Unavailable; updates of the store do so from then on, and reads succeed again when the node is back. If all
  // targets are remote, reads from DRAM wait, too, when no node has answered for 0.7 s: another process may own the
  // pool by then. The wait starts anew when a node reports that it is still working, for example creating a large pool.
  uint32_t fabric_wait_ms_max = 30'000;
  // Number of fabric workers, 1 to kFabricWorkersMax. Each has its own connection to each target. The first one
  // posts requests and writes to the data area. The others post reads, each thread always to the same one, and writes
  // to the log, each log segment by one of them. With 1, one worker posts everything. More than one per thread, plus
  // the first, gain nothing.
  uint32_t fabric_workers = 4;
  // Takes the pool from an owner that is alive: it gets no more grants, so that its lease runs out within a second;
  // from then on its reads and updates are Unavailable. Without this an owner is waited for only when it is silent, and
  // Busy names one that is alive. No effect on targets of this machine, whose owner holds a lock.
  bool take_over = false;
  // Of targets that several nodes hold: as many bytes a second of each member are compared with the others', all the
  // time, and damage is repaired (bonsai/groups.h). At the default a TiB takes three days. 0: only ScrubGroups()
  // compares.
  uint64_t scrub_bytes_per_s = uint64_t{4} << 20;

  // ---- behaviour
  // For kBuffered: the target delay between return and durability. It is missed if the flushing thread is not scheduled
  // in time; a crash may then lose older updates, too. Stats::window_excesses counts such misses, and
  // Stats::window_us_max is the longest delay so far. Sync() guarantees durability.
  uint32_t buffered_window_ms = 10;
  // 0 to kThreadsMax. 0 = writers offload when the log or a bnode is full, readers compact, and nothing is offloaded or
  // compacted while the store is idle.
  uint32_t background_threads = 1;
  // The most threads that read the pool when it is opened, up to kThreadsMax; 0 = one per processor. Where the system
  // gives fewer, those are used.
  uint32_t recovery_threads = 0;
  uint32_t stall_ms_max = 10'000;  // the longest that an update waits for room before it fails with NoSpace
  uint32_t snapshots_max = 0;      // most open snapshots, iterators and scans at one time; 0 = no limit
  bool metadata_upload = true;     // keep dnode fingerprints and key samples in DRAM

  // The library never prints. If set, this receives its messages (severity 'I', 'W' or 'E'). It may be called from any
  // thread and must not call the store.
  std::function<void(char severity, std::string_view message)> log_sink;

  // If set, the thread that calls Open calls it with the share of the recovery that is done, 0..1.
  std::function<void(double done)> open_progress;
};

class Snapshot;

struct ReadOptions {
  const Snapshot* snapshot = nullptr;  // read as of this snapshot, of the same store; null = now
  // For iterators. True: the checksum of every record is verified before the record is returned, so that damage is
  // reported and never returned. False: only one range of records in 64 is verified, which is faster; damaged records
  // may be returned as if they were sound. Gets always verify.
  bool verify_checksums = true;
};

// The start of a scan, `from`, is a separate argument. `from` and `end` need not be keys: any bytes, of any length and
// in pools of either key format, mark a place in the bytewise order of keys.
struct ScanOptions {
  const Snapshot* snapshot = nullptr;  // as of this snapshot, of the same store; null = now
  uint64_t limit = UINT64_MAX;         // at most this many records
  std::string_view end = {};           // stop before this key; empty = no end
  bool from_exclusive = false;         // begin after `from`: to continue after the last key of an earlier scan
  bool verify_checksums = true;        // see ReadOptions::verify_checksums
};

// A point-in-time copy of the store's counters. Counters only grow; gauges rise and fall. Approximate while updates
// run.
struct Stats {
  std::string medium;  // e.g. "tmpfs (emulated NVM), flush clwb, domain ADR"
  bool emulated = true;
  uint64_t targets = 0;
  KeyFormat key_format = KeyFormat::kBytes;
  LayoutChoice layout = LayoutChoice::kNone;
  uint64_t stripe_unit_bytes = 0;  // 0: not striped

  // space (gauges)
  uint64_t pool_bytes = 0;       // all targets
  uint64_t log_bytes = 0;        // log budget
  uint64_t log_bytes_used = 0;   // segments in use
  uint64_t data_bytes = 0;       // space for dnodes and large values
  uint64_t data_bytes_used = 0;  // allocated part of data_bytes
  // Tree, bnodes, update nodes and uploaded metadata, including what waits to be freed and what rounding sizes costs.
  uint64_t dram_bytes = 0;
  // Memory of this node for what it keeps of targets on other nodes: tables, headers, log segments that are in use.
  uint64_t resident_bytes = 0;
  uint64_t bnodes = 0;
  uint64_t dnodes = 0;
  uint64_t dnode_records = 0;  // records in dnodes, superseded and deleted ones included

  // work (counters since open)
  uint64_t puts = 0, dels = 0, gets = 0, scans = 0, batches = 0;
  uint64_t gets_from_dnodes = 0;
  uint64_t offloads = 0, splits = 0, merges = 0, compactions = 0;
  uint64_t offload_us = 0;            // time that threads spent offloading, writers included
  uint64_t updates_offloaded = 0;     // updates that reached dnodes; WRR = 1 - updates_offloaded / (puts + dels)
  uint64_t stalls = 0, stall_us = 0;  // updates that waited for room: log, data area or a bnode was full
  uint64_t replacements = 0, replacement_us = 0;  // updates that found a bnode full and replaced it
  uint64_t pauses = 0, pause_us = 0;              // throttled updates: the log filled faster than it was emptied
  uint64_t wake_ups = 0;                          // updates that woke a background thread, which takes some 10 us
  uint64_t helped_ranges = 0;                     // ranges that throttled writers offloaded meanwhile
  uint64_t window_excesses = 0;                   // times that durability took longer than buffered_window_ms
  uint64_t window_us_max = 0;                     // the longest time from return to durability in mode kBuffered
  uint64_t early_bytes = 0;                       // media bytes of early offloading and compaction, which serve reads
  uint64_t user_bytes_written = 0;                // keys and values of acknowledged updates

  // NVM writes of the process since open, all sites
  uint64_t nvm_bytes_stored = 0, nvm_lines_flushed = 0, nvm_fences = 0, nvm_media_bytes = 0;

  // the fabric (counters since open; 0 without remote targets): lists of requests posted together, requests, and
  // payload
  uint64_t fabric_round_trips = 0, fabric_messages = 0, fabric_bytes = 0;
};

}  // namespace bonsai

#endif  // BONSAI_OPTIONS_H_
