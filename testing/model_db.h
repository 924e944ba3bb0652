// SPDX-License-Identifier: Apache-2.0
// A correct DB in a few lines: one lock around an ordered map of versions. It is the reference of randomised tests and
// the store that the test instruments are tried on. Nothing is durable: a reopened pool is an empty one.
#ifndef BONSAI_TESTING_MODEL_DB_H_
#define BONSAI_TESTING_MODEL_DB_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bonsai/db.h"

namespace bonsai::testing {

// Thread-safety: as DB. Snapshots and iterators must not outlive it.
class ModelDb : public DB {
 public:
  explicit ModelDb(const Options& options) : options_(options) {}
  ~ModelDb() override;

  using DB::Get;
  using DB::Write;
  Status Put(std::string_view key, std::string_view value) override;
  void MultiPut(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                std::span<Status> statuses) override;
  Status Delete(std::string_view key) override;
  Status Write(const WriteBatch& batch, size_t* failed) override;
  Status PutIf(const Condition& condition, std::string_view key, std::string_view value) override;
  Status DeleteIf(const Condition& condition, std::string_view key) override;
  Status Increment(std::string_view key, int64_t by, int64_t* result) override;
  [[nodiscard]] uint64_t BatchBytesMax() const override { return UINT64_MAX; }
  // For one thread, of any number of records.
  Status DeleteRange(const ScanOptions& options, std::string_view from, uint64_t* deleted) override;
  Status Get(const ReadOptions& options, std::string_view key, std::string* value) override;
  Status Exists(const ReadOptions& options, std::string_view key) override;
  void MultiGet(const ReadOptions& options, std::span<const std::string_view> keys, std::span<std::string> values,
                std::span<Status> statuses) override;
  std::unique_ptr<Session> NewSession(size_t depth) override;  // carries all out at once
  Status Scan(const ScanOptions& options, std::string_view from, const ScanVisitor& visit) override;
  Status ScanRows(const ScanOptions& options, std::string_view from, const RowsVisitor& visit) override;
  Status Count(const ScanOptions& options, std::string_view from, uint64_t* count) override;
  Status GetSnapshot(std::shared_ptr<const Snapshot>* snapshot) override;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override;
  Status Sync() override { return Status::OK(); }
  Status Drain() override { return Status::OK(); }
  [[nodiscard]] Stats GetStats() const override;
  Status Close() override { return Status::OK(); }

 private:
  class ModelSnapshot;
  class ModelIterator;
  using Versions = std::map<uint64_t, std::optional<std::string>>;  // by moment; nullopt = deleted
  using Records = std::vector<std::pair<std::string, std::string>>;

  [[nodiscard]] Status check_key(std::string_view key) const;
  [[nodiscard]] Status check_update(const WriteBatch::Update& update) const;
  void apply(const WriteBatch::Update& update, uint64_t moment);
  [[nodiscard]] bool holds(const WriteBatch::Requirement& requirement) const;
  [[nodiscard]] uint64_t moment_of(const Snapshot* snapshot) const;
  [[nodiscard]] static const std::string* value_at(const Versions& versions, uint64_t moment);
  [[nodiscard]] Records records_at(const ReadOptions& options, std::string_view from, std::string_view end,
                                   uint64_t limit) const;
  void release(uint64_t moment);

  const Options options_;
  mutable std::mutex mutex_;
  std::map<std::string, Versions, std::less<>> versions_;
  std::multiset<uint64_t> snapshots_;
  uint64_t moment_ = 1;
};

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_MODEL_DB_H_
