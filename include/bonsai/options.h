// Options of a Bonsai store. Every field has a default that works on a laptop without NVM or RDMA.
#ifndef BONSAI_OPTIONS_H_
#define BONSAI_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai {

// Bounds of the contract; anything outside is InvalidArgument and changes nothing.
inline constexpr size_t kKeyBytesMin = 1;
inline constexpr size_t kKeyBytesMax = 1024;
inline constexpr size_t kValueBytesMax = size_t{16} << 20;
inline constexpr uint64_t kPoolBytesMin = uint64_t{64} << 10;  // of each target
inline constexpr uint64_t kPoolBytesMax = (uint64_t{1} << 62) - 1;

// Form of the keys; fixed when a pool is created.
enum class KeyFormat : uint8_t {
  kBytes = 0,   // byte strings of 1..1024 bytes, in bytewise order
  kFixed8 = 1,  // exactly 8 bytes: a big-endian integer, so that bytewise order is numeric order
};

// What a store is made of.
enum class MediumChoice : uint8_t {
  kAuto =
      0,  // what the path names: devdax, fsdax, tmpfs or hugetlb by flush instructions; a plain file by msync (slow)
  kDram = 1,  // memory of the process: a new, empty store. The path only names it, no file is read or made.
};

// How long updates last. Stores in DRAM are kVolatile and no others are, so that nobody loses updates by the choice of
// a medium alone: anything else is InvalidArgument.
enum class Durability : uint8_t {
  kDurable = 0,   // when an update returns it survives a crash of the medium's persistence domain
  kBuffered = 1,  // the updates of about the last `buffered_window_ms` may be lost; what survives is a prefix in
                  // real-time order
  kVolatile = 2,  // an update is gone when the store is closed or the process ends: no log, no flushes. Checkpoint
                  // keeps what the store holds. For caches, and for comparing.
};

// What a crash takes away. kAuto: eADR where the platform says so, else ADR; for a plain file, ADR by msync.
enum class PersistenceDomain : uint8_t {
  kAuto = 0,
  kAdr = 1,   // only lines that were flushed and fenced survive
  kEadr = 2,  // every store survives
};

struct Options {
  // ---- the pool
  bool create_if_missing = false;
  bool error_if_exists = false;
  KeyFormat key_format = KeyFormat::kBytes;  // on open it must be the pool's own unless `any_key_format`
  bool any_key_format = false;               // take whatever the existing pool has
  // Size of each target, when creating; kPoolBytesMin to kPoolBytesMax. One for the log alone (DB::Open) gets the size
  // of its share of the log.
  uint64_t pool_bytes = uint64_t{1} << 30;
  // On open: targets that are smaller are enlarged to this size, not their log. Those that the path names with role=log
  // stay as they are.
  uint64_t grow_bytes = 0;
  // Log budget over all targets, when creating; 0 = a tenth of the pool. A target's share is rounded down to whole log
  // segments, and raised to four segments of 4 KiB if it is less: Stats::log_bytes says what it came to.
  uint64_t log_bytes = 0;

  // ---- the medium
  MediumChoice medium = MediumChoice::kAuto;
  PersistenceDomain persistence_domain = PersistenceDomain::kAuto;
  Durability durability = Durability::kDurable;

  // ---- remote targets
  // The file with the deployment's secret, which proves this process to the nodes and them to it: 64 hexadecimal
  // digits, readable by its owner alone. Empty: the file that BONSAI_SECRET_FILE of the environment names, else none.
  std::string fabric_secret_file;
  // How long each wait for a node may take, for a connection, an answer or a fence: then Unavailable. A node that says
  // that it is at work, on a large pool that it makes, is waited for anew.
  uint32_t fabric_wait_ms_max = 5'000;
  // How many workers of the fabric post what is asked of the nodes, each over a connection of its own to each node: the
  // first one what is written, the others what is read, each thread always over the same one. 1: one for all. At most
  // 64, else InvalidArgument. More than one for each thread that reads, and one for what is written, bring nothing.
  uint32_t fabric_workers = 4;

  // ---- behaviour
  // Of kBuffered: an update is to be durable so long after it returned, and is where the machine lets the thread that
  // sees to it run in time. Where it does not, a crash may take older updates, too: Stats::window_excesses counts that,
  // and Stats::window_us_max is the longest window there was. Sync() is certain.
  uint32_t buffered_window_ms = 10;
  // 0 = writers offload when the log or a bnode is full, readers compact, and an idle store does not put itself in
  // order.
  uint32_t background_threads = 1;
  uint32_t recovery_threads = 0;   // that read the pool when it is opened; 0 = as many as there are processors
  uint32_t stall_ms_max = 10'000;  // how long back-pressure may hold an update before it fails with NoSpace
  uint32_t snapshots_max = 0;      // live snapshots, iterators and scans at one time; 0 = no limit
  bool metadata_upload = true;     // keep dnode fingerprints and key samples in DRAM

  // The library never prints. Messages (severity 'I', 'W' or 'E') go here when set; may be called from any thread, and
  // must not call the store.
  std::function<void(char severity, std::string_view message)> log_sink;

  // Given the share of the recovery that is done, 0..1, when set; by the thread that calls Open.
  std::function<void(double done)> open_progress;
};

class Snapshot;

struct ReadOptions {
  const Snapshot* snapshot = nullptr;  // read as of this snapshot, of the same store; null = now
  // Of iterators: every record is verified by its checksum before it is returned, so that damage is reported and never
  // returned. False: sampled, one range of records in 64, which is faster; damage may then be returned as if it were
  // sound. Gets verify always.
  bool verify_checksums = true;
};

// Where a scan begins, its `from`, is an argument of its own. `from` and `end` need not be keys: any bytes, of any
// length and in pools of either key format, mark a place in the bytewise order of keys.
struct ScanOptions {
  const Snapshot* snapshot = nullptr;  // as of this snapshot, of the same store; null = now
  uint64_t limit = UINT64_MAX;         // at most this many records
  std::string_view end = {};           // stop before this key; empty = no end
  bool from_exclusive = false;         // begin after `from`: to go on after the last key of an earlier scan
  bool verify_checksums = true;        // as ReadOptions::verify_checksums
};

// A point-in-time copy of the store's counters. Monotonic unless said otherwise; approximate while updates run.
struct Stats {
  std::string medium;  // e.g. "tmpfs (emulated NVM), flush clwb, domain ADR"
  bool emulated = true;
  uint64_t targets = 0;
  KeyFormat key_format = KeyFormat::kBytes;

  // space (gauges)
  uint64_t pool_bytes = 0;       // all targets
  uint64_t log_bytes = 0;        // log budget
  uint64_t log_bytes_used = 0;   // segments in use
  uint64_t data_bytes = 0;       // space for dnodes and large values
  uint64_t data_bytes_used = 0;  // of it allocated
  // Tree, bnodes, update nodes, uploaded metadata, what of them waits to be freed, and what rounding their sizes costs.
  uint64_t dram_bytes = 0;
  uint64_t bnodes = 0;
  uint64_t dnodes = 0;
  uint64_t dnode_records = 0;  // records in dnodes, superseded and deleted ones included

  // work (counters since open)
  uint64_t puts = 0, dels = 0, gets = 0, scans = 0, batches = 0;
  uint64_t gets_from_dnodes = 0;
  uint64_t offloads = 0, splits = 0, merges = 0, compactions = 0;
  uint64_t offload_us = 0;            // that threads spent offloading, writers included
  uint64_t updates_offloaded = 0;     // updates that reached dnodes; WRR = 1 - updates_offloaded / (puts + dels)
  uint64_t stalls = 0, stall_us = 0;  // updates that waited for room: log, data area or a bnode was full
  uint64_t replacements = 0, replacement_us = 0;  // updates that found a bnode full and put another in its place
  uint64_t pauses = 0, pause_us = 0;  // updates slowed down beforehand, because the log filled faster than it emptied
  uint64_t wake_ups = 0;              // updates that woke a background thread, which takes some 10 us
  uint64_t helped_ranges = 0;         // that writers offloaded in the time of such pauses
  uint64_t window_excesses = 0;       // times that updates waited longer for durability than buffered_window_ms
  uint64_t window_us_max = 0;         // the longest that updates have waited for durability in mode kBuffered
  uint64_t early_bytes = 0;           // media bytes of offloading and compaction for the sake of reads, before need
  uint64_t user_bytes_written = 0;    // keys and values of acknowledged updates

  // NVM writes (counters since open, all sites)
  uint64_t nvm_bytes_stored = 0, nvm_lines_flushed = 0, nvm_fences = 0, nvm_media_bytes = 0;

  // the fabric (counters since open; 0 without remote targets): lists of requests that were posted together, requests,
  // and their payload
  uint64_t fabric_round_trips = 0, fabric_messages = 0, fabric_bytes = 0;
};

}  // namespace bonsai

#endif  // BONSAI_OPTIONS_H_
