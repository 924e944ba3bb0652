// SPDX-License-Identifier: Apache-2.0
// One store under the benchmark's eyes. An engine is one file that implements this interface and lists what it makes;
// README.md shows how.
//
// An engine's capabilities state what it cannot do; the harness then shows a dash. An engine never imitates.
#ifndef BONSAI_BENCH_ENGINES_ENGINE_H_
#define BONSAI_BENCH_ENGINES_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/registered.h"
#include "bench/ycsb/keys.h"
#include "bonsai/rows.h"
#include "bonsai/status.h"

namespace bonsai::bench {

struct Capabilities {
  bool threads = false;          // every operation may be called from any number of threads
  bool durability = false;       // honours EngineOptions::buffered
  bool always_buffered = false;  // with `durability`: buffered whatever is asked
  bool scan = false;             // ascending scans
  bool many = false;             // read_many and write_many overlap their operations
  bool words_only = false;       // takes records of 8 + 8 bytes only
  bool keeps_data = true;        // false: a harness check that stores nothing, so that nothing can be verified
};

// The hash of the hash maps. kCity is Google's CityHash64, which MELT uses for all of them.
enum class HashKind : uint8_t { kDefault, kCity };

// Options of a hash map. They have no effect on other engines, or on a map that lacks them.
struct MapTuning {
  HashKind hash = HashKind::kDefault;
  bool room_ahead = false;      // room for EngineOptions::records_max from the beginning; else it grows
  unsigned bucket_records = 4;  // of a cuckoo map: 2, 4 or 8
  bool system_memory = false;   // of malloc; else of operator new, which in bonsai-bench is a pool on huge pages

  bool operator==(const MapTuning&) const = default;
};

struct EngineOptions {
  RecordShape shape;
  uint64_t records_max = 0;  // at most this many records at one time
  bool buffered = false;     // else every update is durable when it returns
  // Where a persistent engine puts its files; empty = /dev/shm if they fit, else out_dir. This project's store takes
  // addresses of bonsaid, too, with commas between, and makes a target at each.
  std::string pool_dir;
  std::string out_dir;  // where the results go; exists
  MapTuning map = {};
  uint32_t wait_ms_max = 0;  // of a call of this project's store, for offloading or a node; 0 = the store's own bounds
};

// Bytes in use now; absent = the engine has none of it or does not know.
struct MemoryUse {
  std::optional<uint64_t> dram_bytes = {};
  std::optional<uint64_t> nvm_bytes = {};  // of a pool or of files
  std::optional<uint64_t> log_bytes = {};  // that the log may take, in use or not
  // Bytes set aside, in use or not, over all of the above: a log's whole size counts. Absent = the bytes in use.
  std::optional<uint64_t> reserved_bytes = {};
  // By how much this process's memory, mapped files aside, has grown since before the engine was opened, while it was
  // the engine's turn. Measured by the harness, whatever the engine reports.
  std::optional<uint64_t> process_bytes = {};
};

// Writes to NVM since open, and gets.
struct NvmUse {
  uint64_t bytes_stored = 0;
  uint64_t media_bytes = 0;
  uint64_t flushes = 0;
  uint64_t fences = 0;
  uint64_t gets = 0;
  uint64_t gets_answered = 0;  // of them by NVM: not by a buffer in DRAM
};

// Requests to other nodes since open.
struct FabricUse {
  uint64_t round_trips = 0;  // lists of requests that were posted together
  uint64_t messages = 0;
  uint64_t bytes = 0;  // payload
};

// The medium that stores the bytes of a persistent engine.
struct MediumUse {
  std::string text;  // e.g. "tmpfs (emulated NVM), flush clwb, domain ADR"
  bool emulated = false;
};

// Called with each record of a scan, ascending; returns false to stop.
using ScanVisit = std::function<bool(std::string_view key, std::string_view value)>;

// Visits many records at a time, as the store has them.
using RowsVisit = std::function<bool(const Rows& rows)>;

struct ScanJob {
  std::string_view from;
  uint32_t limit;
  ScanVisit visit;
  Status* status;
};

// Life: open, operations, close. After close it may be opened again, empty.
// Errors of operations: NotFound where said, anything else counts as a failure and its message is shown.
class Engine {
 public:
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  // Starts empty. Guarantees on error: nothing remains.
  virtual Status open(const EngineOptions& options) = 0;
  // Ends and removes everything that open made. Idempotent.
  virtual Status close() = 0;
  // Finishes work that was put off (draining a log, compaction), so that the next phase does not pay for this one.
  virtual Status settle() { return Status::OK(); }

  virtual Status insert(std::string_view key, std::string_view value) = 0;
  virtual Status update(std::string_view key, std::string_view value) { return insert(key, value); }
  // Errors: NotFound.
  virtual Status read(std::string_view key, std::string* value) = 0;
  // Selects how read_many, write_many and scan_many work from now on: by one call to the store, or by a session in
  // which each operation is begun and kept in flight. No effect on stores without sessions. Requires: no operation is
  // running.
  virtual void use_sessions(bool) {}
  // Reads many keys; values[i] and statuses[i] answer keys[i]. Requires equal sizes.
  virtual void read_many(std::span<const std::string_view> keys, std::span<std::string> values,
                         std::span<Status> statuses);
  // Inserts or updates many records. Each is an operation of its own; equal keys keep this order. Requires equal sizes.
  virtual void write_many(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                          std::span<Status> statuses);
  // Reads the record into *old, then writes `value`. Errors: NotFound.
  virtual Status read_modify_write(std::string_view key, std::string_view value, std::string* old);
  // OK also when the key is absent.
  virtual Status remove(std::string_view key) = 0;
  // Visits at most `limit` records from `from` (inclusive). Requires the capability.
  virtual Status scan(std::string_view from, uint32_t limit, const ScanVisit& visit);
  // Carries out many scans, each an operation of its own.
  virtual void scan_many(std::span<const ScanJob> jobs);
  // Scans by rows; one record at a time if the store has nothing better.
  virtual Status scan_rows(std::string_view from, uint32_t limit, const RowsVisit& visit);

  // From any thread, also while operations run.
  [[nodiscard]] virtual MemoryUse memory() const { return {}; }
  [[nodiscard]] virtual std::optional<NvmUse> nvm() const { return std::nullopt; }
  // Absent where everything is on this machine.
  [[nodiscard]] virtual std::optional<FabricUse> fabric() const { return std::nullopt; }
  [[nodiscard]] virtual std::optional<MediumUse> medium() const { return std::nullopt; }

 protected:
  Engine() = default;
};

// The order in which engines are listed: by group, then by name.
enum class EngineGroup { kBonsai, kYardstick, kOrdered, kHash, kHarness };

struct EngineEntry {
  std::string_view name;
  std::string_view what;  // one line for `bonsai-bench list`
  std::function<std::unique_ptr<Engine>()> make;
  EngineGroup group = EngineGroup::kHarness;
};

// Every engine of this build, in the order in which they are listed. A file adds its engines by a variable
// `const Registered<EngineEntry>`.
[[nodiscard]] const std::vector<EngineEntry>& engine_list();
// The entry called `name`, or null.
[[nodiscard]] const EngineEntry* find_engine(std::string_view name);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_ENGINE_H_
