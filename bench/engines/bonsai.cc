// SPDX-License-Identifier: Apache-2.0
// This project's store, through its public interface.
// Needs: target bonsai_library
#include "bench/engines/bonsai.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "admin/log_sink.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "bench/engines/pool_place.h"

namespace bonsai::bench {
namespace {

// Space that the pool reserves for a record beyond its key and value, and the factor for the whole, so that a run never
// waits for compaction because space is short. The whole pool is allocated when it is created, on tmpfs in memory; the
// results report the bytes that are really used.
constexpr uint64_t kRecordOverheadBytes = 48;
constexpr uint64_t kPoolFactor = 3;
constexpr uint64_t kPoolBytesBase = uint64_t{64} << 20;

uint64_t pool_bytes_for(const EngineOptions& options) {
  const uint64_t record = options.shape.key_bytes_max() + options.shape.value_bytes + kRecordOverheadBytes;
  const uint64_t bytes = kPoolBytesBase + options.records_max * record * kPoolFactor;
  return (bytes + 0x1fffff) & ~uint64_t{0x1fffff};
}

constexpr const char* kNameBase = "bonsai-bench-";

bool is_remote(const std::string& pool_dir) { return pool_dir.find("://") != std::string::npos; }

// Of "shm://a,shm://b/" shm://a and shm://b.
std::vector<std::string> addresses_of(const std::string& pool_dir) {
  std::vector<std::string> addresses;
  for (size_t begin = 0; begin <= pool_dir.size();) {
    const size_t comma = std::min(pool_dir.find(',', begin), pool_dir.size());
    std::string address = pool_dir.substr(begin, comma - begin);
    while (address.ends_with('/')) address.pop_back();
    addresses.push_back(std::move(address));
    begin = comma + 1;
  }
  return addresses;
}

// One target at each address, under a new name.
std::string remote_path(const std::string& pool_dir) {
  const std::string name = kNameBase + std::to_string(base::fresh_seed());
  std::string path;
  for (const std::string& address : addresses_of(pool_dir))
    path.append(path.empty() ? "" : ",").append(address).append("/" + name);
  return path;
}

class BonsaiEngine final : public Engine {
 public:
  explicit BonsaiEngine(const BonsaiVariant& variant) : variant_(variant), sessions_are_used_(variant.sessions) {}
  ~BonsaiEngine() override { (void)close(); }

  [[nodiscard]] Capabilities capabilities() const override {
    StoreOptions store;
    if (variant_.change != nullptr) variant_.change(&store);
    const bool buffered = store.durability == Durability::kBuffered;
    return {.threads = true, .durability = true, .always_buffered = buffered, .scan = true, .many = true};
  }

  Status open(const EngineOptions& options) override {
    StoreOptions store;
    store.create_if_missing = true;
    store.error_if_exists = true;
    store.key_format = options.shape.key_form == KeyForm::kFixed8 ? KeyFormat::kFixed8 : KeyFormat::kBytes;
    store.durability = options.buffered ? Durability::kBuffered : Durability::kDurable;
    store.pool_bytes = pool_bytes_for(options);
    if (options.wait_ms_max != 0) store.stall_ms_max = store.fabric_wait_ms_max = options.wait_ms_max;
    store.log_sink = admin::log_line;
    if (variant_.change != nullptr) variant_.change(&store);
    if (is_remote(options.pool_dir)) {
      path_ = remote_path(options.pool_dir);
      const Status status = variant_.open(store, store.test, path_, &db_);
      if (!status.ok()) path_.clear();
      return status;
    }
    BONSAI_RETURN_IF_ERROR(place_.make(options.pool_dir, options.out_dir, store.pool_bytes));
    Status status = variant_.open(store, store.test, place_.path() + "/pool", &db_);
    if (!status.ok()) place_.remove();
    return status;
  }

  Status close() override {
    Status status;
    for (auto& session : sessions_) session.reset();
    if (db_ != nullptr) status = db_->Close();
    db_.reset();
    if (!path_.empty()) {
      const Status removed = Remove(std::exchange(path_, ""));
      if (status.ok()) status = removed;
    }
    place_.remove();
    return status;
  }

  Status settle() override { return variant_.drains ? db_->Drain() : Status::OK(); }

  void use_sessions(bool use) override { sessions_are_used_ = use; }
  Status insert(std::string_view key, std::string_view value) override { return db_->Put(key, value); }
  Status read(std::string_view key, std::string* value) override { return db_->Get(key, value); }
  void read_many(std::span<const std::string_view> keys, std::span<std::string> values,
                 std::span<Status> statuses) override {
    if (!sessions_are_used_) return db_->MultiGet(ReadOptions(), keys, values, statuses);
    for (size_t i = 0; i < keys.size(); ++i) session().Get(keys[i], &values[i], &statuses[i]);
    session().Wait();
  }
  void write_many(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                  std::span<Status> statuses) override {
    if (!sessions_are_used_) return db_->MultiPut(keys, values, statuses);
    for (size_t i = 0; i < keys.size(); ++i) session().Put(keys[i], values[i], &statuses[i]);
    session().Wait();
  }
  Status remove(std::string_view key) override { return db_->Delete(key); }
  Status scan(std::string_view from, uint32_t limit, const ScanVisit& visit) override {
    const ScanOptions options = scan_options(limit);
    return db_->Scan(options, from, visit);
  }

  void scan_many(std::span<const ScanJob> jobs) override {
    if (!sessions_are_used_) return Engine::scan_many(jobs);
    for (const ScanJob& job : jobs) {
      const ScanOptions options = scan_options(job.limit);
      session().Scan(options, job.from, job.visit, job.status);
    }
    session().Wait();
  }

  Status scan_rows(std::string_view from, uint32_t limit, const RowsVisit& visit) override {
    const ScanOptions options = scan_options(limit);
    return db_->ScanRows(options, from, visit);
  }

  [[nodiscard]] MemoryUse memory() const override {
    const Stats stats = db_->GetStats();
    const uint64_t dram_bytes = stats.dram_bytes + stats.resident_bytes;
    return {.dram_bytes = dram_bytes,
            .nvm_bytes = stats.log_bytes_used + stats.data_bytes_used,
            .log_bytes = stats.log_bytes,
            .reserved_bytes = dram_bytes + stats.data_bytes_used + std::max(stats.log_bytes, stats.log_bytes_used)};
  }
  [[nodiscard]] std::optional<NvmUse> nvm() const override {
    const Stats stats = db_->GetStats();
    return NvmUse{.bytes_stored = stats.nvm_bytes_stored,
                  .media_bytes = stats.nvm_media_bytes,
                  .flushes = stats.nvm_lines_flushed,
                  .fences = stats.nvm_fences,
                  .gets = stats.gets,
                  .gets_answered = stats.gets_from_dnodes};
  }
  [[nodiscard]] std::optional<FabricUse> fabric() const override {
    if (path_.empty()) return std::nullopt;
    const Stats stats = db_->GetStats();
    return FabricUse{
        .round_trips = stats.fabric_round_trips, .messages = stats.fabric_messages, .bytes = stats.fabric_bytes};
  }
  [[nodiscard]] std::optional<MediumUse> medium() const override {
    Stats stats = db_->GetStats();
    return MediumUse{.text = std::move(stats.medium), .emulated = stats.emulated};
  }

 private:
  [[nodiscard]] ScanOptions scan_options(uint32_t limit) const {
    ScanOptions options;
    options.limit = limit;
    options.verify_checksums = !variant_.sampled_scans;
    return options;
  }

  // The calling thread's own: no other thread that lives has its number.
  Session& session() {
    std::unique_ptr<Session>& mine = sessions_.at(base::thread_ordinal());
    if (mine == nullptr) mine = db_->NewSession(kSessionDepthMax);
    if (mine == nullptr) throw std::bad_alloc();
    return *mine;
  }

  static constexpr size_t kThreadsMax = 4096;
  const BonsaiVariant variant_;
  bool sessions_are_used_;
  std::vector<std::unique_ptr<Session>> sessions_ = std::vector<std::unique_ptr<Session>>(kThreadsMax);
  PoolPlace place_;
  std::string path_;        // of a pool on other nodes; empty: it is in place_
  std::unique_ptr<DB> db_;  // set while open
};

}  // namespace

std::vector<PoolOnNodes> pools_on_nodes(const std::string& pool_dir) {
  std::map<std::string, PoolOnNodes> by_name;
  if (!is_remote(pool_dir)) return {};
  for (const std::string& address : addresses_of(pool_dir)) {
    std::vector<PoolInfo> pools;
    if (!List(address, &pools).ok()) continue;
    for (const PoolInfo& each : pools) {
      if (!each.name.starts_with(kNameBase)) continue;
      PoolOnNodes& pool = by_name[each.name];
      pool.path.append(pool.path.empty() ? "" : ",").append(address).append("/" + each.name);
      if (pool.owner.empty()) pool.owner = each.owner;
    }
  }
  std::vector<PoolOnNodes> found;
  for (auto& [name, pool] : by_name) found.push_back(std::move(pool));
  return found;
}

std::unique_ptr<Engine> make_bonsai_engine(const BonsaiVariant& variant) {
  return std::make_unique<BonsaiEngine>(variant);
}

const Registered<EngineEntry> kBonsaiEngines("bonsai", []() -> std::vector<EngineEntry> {
  const auto buffered = [](StoreOptions* options) { options->durability = Durability::kBuffered; };
  return {{"bonsai", "this project's store: ordered, durable, any number of threads",
           [] { return make_bonsai_engine({}); }, EngineGroup::kBonsai},
          {"bonsai_buffered", "the same in mode buffered, to stand beside it",
           [buffered] { return make_bonsai_engine({.change = buffered}); }, EngineGroup::kBonsai},
          {"bonsai_sampled", "the same, but scans verify a sample only (verify_checksums off)",
           [] { return make_bonsai_engine({.sampled_scans = true}); }, EngineGroup::kBonsai}};
});

}  // namespace bonsai::bench
