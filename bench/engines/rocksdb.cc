// SPDX-License-Identifier: Apache-2.0
// RocksDB with its default options: ordered, any number of threads, durable by a sync of its log per update; buffered
// leaves the sync out. Its files are where bonsai's pool would be. On tmpfs a sync reaches no device. Many reads are a
// MultiGet, many writes a WriteBatch, which shares one sync.
// Needs: package rocksdb
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "bench/engines/engine.h"
#include "bench/engines/pool_place.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kPlaceBytesBase = uint64_t{256} << 20;  // logs and memtables
constexpr uint64_t kPlaceFactor = 4;                       // versions that await compaction

Status status_of(const rocksdb::Status& status) {
  if (status.ok()) return Status::OK();
  if (status.IsNotFound()) return Status::NotFound();
  return Status::IoError("RocksDB: " + status.ToString());
}

class RocksdbEngine final : public Engine {
 public:
  ~RocksdbEngine() override { (void)close(); }

  [[nodiscard]] Capabilities capabilities() const override {
    return {.threads = true, .durability = true, .scan = true, .many = true};
  }

  Status open(const EngineOptions& options) override {
    const uint64_t record = options.shape.key_bytes_max() + options.shape.value_bytes;
    BONSAI_RETURN_IF_ERROR(
        place_.make(options.pool_dir, options.out_dir, kPlaceBytesBase + options.records_max * record * kPlaceFactor));
    rocksdb::Options store;
    store.create_if_missing = true;
    write_.sync = !options.buffered;
    rocksdb::DB* opened = nullptr;
    const Status status = status_of(rocksdb::DB::Open(store, place_.path(), &opened));
    db_.reset(opened);
    if (!status.ok()) place_.remove();
    return status;
  }

  Status close() override {
    const Status status = db_ != nullptr ? status_of(db_->Close()) : Status::OK();
    db_.reset();
    place_.remove();
    return status;
  }

  Status settle() override { return status_of(db_->Flush(rocksdb::FlushOptions())); }

  Status insert(std::string_view key, std::string_view value) override {
    return status_of(db_->Put(write_, slice(key), slice(value)));
  }
  Status read(std::string_view key, std::string* value) override {
    return status_of(db_->Get(rocksdb::ReadOptions(), slice(key), value));
  }
  void read_many(std::span<const std::string_view> keys, std::span<std::string> values,
                 std::span<Status> statuses) override {
    const size_t n = keys.size();
    thread_local std::vector<rocksdb::Slice> slices;
    thread_local std::vector<rocksdb::PinnableSlice> found;
    thread_local std::vector<rocksdb::Status> answers;
    slices.clear();
    for (const std::string_view key : keys) slices.push_back(slice(key));
    if (found.size() < n) found = std::vector<rocksdb::PinnableSlice>(n);
    answers.assign(n, rocksdb::Status());
    db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), n, slices.data(), found.data(), answers.data());
    for (size_t i = 0; i < n; ++i) {
      statuses[i] = status_of(answers[i]);
      if (answers[i].ok()) values[i].assign(found[i].data(), found[i].size());
      found[i].Reset();
    }
  }
  void write_many(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                  std::span<Status> statuses) override {
    rocksdb::WriteBatch batch;
    Status status;
    for (size_t i = 0; i < keys.size() && status.ok(); ++i)
      status = status_of(batch.Put(slice(keys[i]), slice(values[i])));
    if (status.ok()) status = status_of(db_->Write(write_, &batch));
    std::fill(statuses.begin(), statuses.end(), status);
  }
  Status remove(std::string_view key) override { return status_of(db_->Delete(write_, slice(key))); }
  Status scan(std::string_view from, uint32_t limit, const ScanVisit& visit) override {
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(rocksdb::ReadOptions()));
    at->Seek(slice(from));
    for (uint32_t n = 0; n < limit && at->Valid(); ++n, at->Next()) {
      if (!visit(at->key().ToStringView(), at->value().ToStringView())) break;
    }
    return status_of(at->status());
  }

  [[nodiscard]] MemoryUse memory() const override { return {.nvm_bytes = place_.bytes_of_files()}; }
  [[nodiscard]] std::optional<MediumUse> medium() const override { return place_.medium_of_files(); }

 private:
  static rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

  PoolPlace place_;
  rocksdb::WriteOptions write_;
  std::unique_ptr<rocksdb::DB> db_;  // set while open
};

}  // namespace

const Registered<EngineEntry> kRocksdbEngines("rocksdb", []() -> std::vector<EngineEntry> {
  return {{"rocksdb", "RocksDB: ordered, durable by sync, any number of threads",
           [] { return std::make_unique<RocksdbEngine>(); }, EngineGroup::kOrdered}};
});

}  // namespace bonsai::bench
