// SPDX-License-Identifier: Apache-2.0
// LMDB: ordered, durable by a sync per update; buffered leaves out the sync of its meta page (MDB_NOMETASYNC), after
// which a crash may take back the last updates. Its file is where bonsai's pool would be. On tmpfs a sync reaches no
// device, so its price there is that of the system call. Any number of threads: readers do not wait, writers take
// turns. Many reads share a transaction, and so do many writes, with its sync.
// Needs: package lmdb
#include <lmdb.h>

#include <algorithm>

#include "base/huge_range.h"
#include "base/status_macros.h"
#include "bench/engines/engine.h"
#include "bench/engines/pool_place.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kMapBytesBase = uint64_t{64} << 20;
constexpr uint64_t kLmdbRecordOverheadBytes = 64;
constexpr unsigned kReadersMax = 4096;
constexpr uint64_t kMapFactor = 4;  // half-full pages, and pages that await reuse

Status status_of(int code) {
  if (code == MDB_SUCCESS) return Status::OK();
  if (code == MDB_NOTFOUND) return Status::NotFound();
  const std::string what = std::string("LMDB: ") + mdb_strerror(code);
  return code == MDB_MAP_FULL ? Status::NoSpace(what + "; use fewer --records") : Status::IoError(what);
}

MDB_val view(std::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }
std::string_view view(const MDB_val& value) { return {static_cast<const char*>(value.mv_data), value.mv_size}; }

class LmdbEngine final : public Engine {
 public:
  ~LmdbEngine() override { (void)close(); }

  [[nodiscard]] Capabilities capabilities() const override {
    return {.threads = true, .durability = true, .scan = true, .many = true};
  }

  Status open(const EngineOptions& options) override {
    const uint64_t record = options.shape.key_bytes_max() + options.shape.value_bytes + kLmdbRecordOverheadBytes;
    const uint64_t bytes = (kMapBytesBase + options.records_max * record * kMapFactor) & ~uint64_t{0xfff};
    BONSAI_RETURN_IF_ERROR(place_.make(options.pool_dir, options.out_dir, bytes));
    const Status status = status_of(open_at(bytes, options.buffered ? MDB_NOMETASYNC : 0));
    if (!status.ok()) (void)close();
    return status;
  }

  Status close() override {
    if (environment_ != nullptr) mdb_env_close(environment_);
    environment_ = nullptr;
    place_.remove();
    return Status::OK();
  }

  // The file's pages become huge ones, as a pool's are, as far as the kernel makes them so.
  Status settle() override {
    MDB_envinfo info;
    if (const int code = mdb_env_info(environment_, &info); code != MDB_SUCCESS) return status_of(code);
    const auto begin = reinterpret_cast<uintptr_t>(info.me_mapaddr);
    const uintptr_t end = begin + place_.bytes_of_files();
    constexpr size_t kHuge = base::kHugePageBytes;
    for (uintptr_t at = (begin + kHuge - 1) / kHuge * kHuge; at + kHuge <= end; at += kHuge) {
      if (::madvise(reinterpret_cast<void*>(at), kHuge, MADV_COLLAPSE) != 0) break;
    }
    return Status::OK();
  }

  Status insert(std::string_view key, std::string_view value) override {
    return within(0, [&](MDB_txn* transaction) { return put(transaction, key, value); });
  }
  Status read(std::string_view key, std::string* value) override {
    return within(MDB_RDONLY, [&](MDB_txn* transaction) { return get(transaction, key, value); });
  }
  void read_many(std::span<const std::string_view> keys, std::span<std::string> values,
                 std::span<Status> statuses) override {
    const Status status = within(MDB_RDONLY, [&](MDB_txn* transaction) {
      for (size_t i = 0; i < keys.size(); ++i) statuses[i] = status_of(get(transaction, keys[i], &values[i]));
      return MDB_SUCCESS;
    });
    if (!status.ok()) std::fill(statuses.begin(), statuses.end(), status);
  }
  void write_many(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                  std::span<Status> statuses) override {
    const Status status = within(0, [&](MDB_txn* transaction) {
      int code = MDB_SUCCESS;
      for (size_t i = 0; i < keys.size() && code == MDB_SUCCESS; ++i) code = put(transaction, keys[i], values[i]);
      return code;
    });
    std::fill(statuses.begin(), statuses.end(), status);
  }
  Status remove(std::string_view key) override {
    const Status status = within(0, [&](MDB_txn* transaction) {
      MDB_val k = view(key);
      return mdb_del(transaction, table_, &k, nullptr);
    });
    return status.IsNotFound() ? Status::OK() : status;
  }
  Status scan(std::string_view from, uint32_t limit, const ScanVisit& visit) override {
    return within(MDB_RDONLY, [&](MDB_txn* transaction) {
      MDB_cursor* cursor = nullptr;
      if (const int code = mdb_cursor_open(transaction, table_, &cursor); code != MDB_SUCCESS) return code;
      MDB_val k = view(from);
      MDB_val v;
      int code = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
      for (uint32_t n = 0; n < limit && code == MDB_SUCCESS && visit(view(k), view(v)); ++n) {
        code = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
      }
      mdb_cursor_close(cursor);
      return code == MDB_NOTFOUND ? MDB_SUCCESS : code;
    });
  }

  [[nodiscard]] MemoryUse memory() const override { return {.nvm_bytes = place_.bytes_of_files()}; }
  [[nodiscard]] std::optional<MediumUse> medium() const override { return place_.medium_of_files(); }

 private:
  int put(MDB_txn* transaction, std::string_view key, std::string_view value) const {
    MDB_val k = view(key);
    MDB_val v = view(value);
    return mdb_put(transaction, table_, &k, &v, 0);
  }
  int get(MDB_txn* transaction, std::string_view key, std::string* value) const {
    MDB_val k = view(key);
    MDB_val v;
    const int code = mdb_get(transaction, table_, &k, &v);
    if (code == MDB_SUCCESS) value->assign(view(v));
    return code;
  }

  int open_at(uint64_t bytes, unsigned flags) {
    if (const int code = mdb_env_create(&environment_); code != MDB_SUCCESS) return code;
    if (const int code = mdb_env_set_mapsize(environment_, bytes); code != MDB_SUCCESS) return code;
    if (const int code = mdb_env_set_maxreaders(environment_, kReadersMax); code != MDB_SUCCESS) return code;
    if (const int code = mdb_env_open(environment_, place_.path().c_str(), flags, 0600); code != MDB_SUCCESS)
      return code;
    const Status status =
        within(0, [this](MDB_txn* transaction) { return mdb_dbi_open(transaction, nullptr, 0, &table_); });
    return status.ok() ? MDB_SUCCESS : MDB_PANIC;
  }

  template <class Work>
  Status within(unsigned flags, const Work& work) {
    MDB_txn* transaction = nullptr;
    if (const int code = mdb_txn_begin(environment_, nullptr, flags, &transaction); code != MDB_SUCCESS) {
      return status_of(code);
    }
    const int code = work(transaction);
    if (code == MDB_SUCCESS && flags == 0) return status_of(mdb_txn_commit(transaction));
    mdb_txn_abort(transaction);
    return status_of(code);
  }

  PoolPlace place_;
  MDB_env* environment_ = nullptr;  // set while open
  MDB_dbi table_ = 0;
};

}  // namespace

const Registered<EngineEntry> kLmdbEngines("lmdb", []() -> std::vector<EngineEntry> {
  return {{"lmdb", "LMDB: ordered, durable by sync, any number of threads, of which one writes at a time",
           [] { return std::make_unique<LmdbEngine>(); }, EngineGroup::kOrdered}};
});

}  // namespace bonsai::bench
