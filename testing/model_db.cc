// SPDX-License-Identifier: Apache-2.0
#include "testing/model_db.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/status_macros.h"

namespace bonsai::testing {

class ModelDb::ModelSnapshot : public Snapshot {
 public:
  ModelSnapshot(ModelDb* db, uint64_t moment) : db_(db), moment_(moment) {}
  ~ModelSnapshot() override { db_->release(moment_); }
  [[nodiscard]] uint64_t moment() const { return moment_; }

 private:
  ModelDb* db_;
  uint64_t moment_;
};

// Holds a copy of all records of its moment.
class ModelDb::ModelIterator : public Iterator {
 public:
  explicit ModelIterator(Records records) : records_(std::move(records)), at_(records_.size()) {}

  [[nodiscard]] bool Valid() const override { return at_ < records_.size(); }
  void SeekToFirst() override { at_ = 0; }
  void SeekToLast() override { at_ = records_.empty() ? 0 : records_.size() - 1; }
  void Seek(std::string_view key) override { at_ = first_at_or_after(key); }
  void SeekForPrev(std::string_view key) override {
    at_ = first_at_or_after(key);
    if (!Valid() || records_[at_].first != key) Prev();
  }
  void SeekAfter(std::string_view key) override { at_ = first_at_or_after(std::string(key) + '\0'); }
  void SeekBefore(std::string_view key) override {
    at_ = first_at_or_after(key);
    Prev();
  }
  void Next() override { ++at_; }
  void Prev() override { at_ = at_ == 0 ? records_.size() : at_ - 1; }
  [[nodiscard]] std::string_view key() const override { return records_[at_].first; }
  [[nodiscard]] std::string_view value() const override { return records_[at_].second; }
  Status status() const override { return Status::OK(); }

 private:
  [[nodiscard]] size_t first_at_or_after(std::string_view key) const {
    const auto at = std::lower_bound(records_.begin(), records_.end(), key,
                                     [](const auto& record, std::string_view k) { return record.first < k; });
    return static_cast<size_t>(at - records_.begin());
  }

  Records records_;
  size_t at_;
};

ModelDb::~ModelDb() { BONSAI_CHECK(snapshots_.empty()); }

Status ModelDb::check_key(std::string_view key) const {
  if (key.size() < kKeyBytesMin || key.size() > kKeyBytesMax) return Status::InvalidArgument("key length");
  if (options_.key_format == KeyFormat::kFixed8 && key.size() != 8) return Status::InvalidArgument("key form");
  return Status::OK();
}

Status ModelDb::check_update(const WriteBatch::Update& update) const {
  BONSAI_RETURN_IF_ERROR(check_key(update.key));
  if (update.value.size() > kValueBytesMax) return Status::InvalidArgument("value length");
  return Status::OK();
}

const std::string* ModelDb::value_at(const Versions& versions, uint64_t moment) {
  auto after = versions.upper_bound(moment);
  if (after == versions.begin()) return nullptr;
  const std::optional<std::string>& value = (--after)->second;
  return value ? &*value : nullptr;
}

// Superseded versions that no snapshot sees go at once.
void ModelDb::apply(const WriteBatch::Update& update, uint64_t moment) {
  Versions& versions = versions_[update.key];
  versions[moment] = update.is_delete ? std::nullopt : std::optional(update.value);
  const uint64_t oldest = snapshots_.empty() ? moment : *snapshots_.begin();
  const auto needed = versions.upper_bound(oldest);
  if (needed != versions.begin()) versions.erase(versions.begin(), std::prev(needed));
}

Status ModelDb::Put(std::string_view key, std::string_view value) {
  WriteBatch batch;
  batch.Put(key, value);
  return ModelDb::Write(batch, nullptr);
}

void ModelDb::MultiPut(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                       std::span<Status> statuses) {
  for (size_t i = 0; i < keys.size(); ++i) statuses[i] = Put(keys[i], values[i]);
}

Status ModelDb::Delete(std::string_view key) {
  WriteBatch batch;
  batch.Delete(key);
  return ModelDb::Write(batch, nullptr);
}

// Requires: the lock.
bool ModelDb::holds(const WriteBatch::Requirement& requirement) const {
  const auto at = versions_.find(requirement.key);
  const std::string* value = at == versions_.end() ? nullptr : value_at(at->second, moment_);
  switch (requirement.kind) {
    case Condition::Kind::kAbsent:
      return value == nullptr;
    case Condition::Kind::kPresent:
      return value != nullptr;
    case Condition::Kind::kEquals:
      return value != nullptr && *value == requirement.value;
    case Condition::Kind::kUnchanged:
      break;
  }
  return at == versions_.end() || at->second.rbegin()->first <= moment_of(requirement.snapshot);
}

Status ModelDb::Write(const WriteBatch& batch, size_t* failed) {
  for (const auto& update : batch.updates()) BONSAI_RETURN_IF_ERROR(check_update(update));
  for (const auto& requirement : batch.requirements()) BONSAI_RETURN_IF_ERROR(check_key(requirement.key));
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < batch.requirements().size(); ++i) {
    if (holds(batch.requirements()[i])) continue;
    if (failed != nullptr) *failed = i;
    return Status::ConditionFailed();
  }
  ++moment_;
  for (const auto& update : batch.updates()) apply(update, moment_);
  return Status::OK();
}

Status ModelDb::PutIf(const Condition& condition, std::string_view key, std::string_view value) {
  WriteBatch batch;
  batch.Require(key, condition);
  batch.Put(key, value);
  return ModelDb::Write(batch, nullptr);
}

Status ModelDb::DeleteIf(const Condition& condition, std::string_view key) {
  WriteBatch batch;
  batch.Require(key, condition);
  batch.Delete(key);
  return ModelDb::Write(batch, nullptr);
}

Status ModelDb::Increment(std::string_view key, int64_t by, int64_t* result) {
  for (;;) {
    std::string text;
    const Status status = Get({}, key, &text);
    if (!status.ok() && !status.IsNotFound()) return status;
    int64_t sum = 0;
    if (status.ok()) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
      if (error != std::errc() || end != text.data() + text.size()) return Status::InvalidArgument("no number");
    }
    if (__builtin_add_overflow(sum, by, &sum)) return Status::InvalidArgument("too large a sum");
    const Condition same = status.ok() ? Condition::Equals(text) : Condition::Absent();
    const Status added = PutIf(same, key, std::to_string(sum));
    if (added.ok() && result != nullptr) *result = sum;
    if (!added.IsConditionFailed()) return added;
  }
}

uint64_t ModelDb::moment_of(const Snapshot* snapshot) const {
  return snapshot == nullptr ? moment_ : static_cast<const ModelSnapshot*>(snapshot)->moment();
}

Status ModelDb::Get(const ReadOptions& options, std::string_view key, std::string* value) {
  BONSAI_RETURN_IF_ERROR(check_key(key));
  const std::lock_guard lock(mutex_);
  const auto at = versions_.find(key);
  const std::string* found = at == versions_.end() ? nullptr : value_at(at->second, moment_of(options.snapshot));
  if (found == nullptr) return Status::NotFound();
  *value = *found;
  return Status::OK();
}

Status ModelDb::Exists(const ReadOptions& options, std::string_view key) {
  std::string ignored;
  return Get(options, key, &ignored);
}

void ModelDb::MultiGet(const ReadOptions& options, std::span<const std::string_view> keys,
                       std::span<std::string> values, std::span<Status> statuses) {
  for (size_t i = 0; i < keys.size(); ++i) statuses[i] = Get(options, keys[i], &values[i]);
}

std::unique_ptr<Session> ModelDb::NewSession(size_t) {
  class AtOnce final : public Session {
   public:
    explicit AtOnce(DB* db) : db_(db) {}
    void Get(std::string_view key, std::string* value, Status* status) override { *status = db_->Get(key, value); }
    void Put(std::string_view key, std::string_view value, Status* status) override { *status = db_->Put(key, value); }
    void Delete(std::string_view key, Status* status) override { *status = db_->Delete(key); }
    void PutIf(const Condition& condition, std::string_view key, std::string_view value, Status* status) override {
      *status = db_->PutIf(condition, key, value);
    }
    void DeleteIf(const Condition& condition, std::string_view key, Status* status) override {
      *status = db_->DeleteIf(condition, key);
    }
    void Increment(std::string_view key, int64_t by, int64_t* result, Status* status) override {
      *status = db_->Increment(key, by, result);
    }
    void Scan(const ScanOptions& options, std::string_view from, ScanVisitor visit, Status* status) override {
      *status = db_->Scan(options, from, visit);
    }
    void Wait() override {}
    [[nodiscard]] size_t InFlight() const override { return 0; }

   private:
    DB* db_;
  };
  return std::make_unique<AtOnce>(this);
}

ModelDb::Records ModelDb::records_at(const ReadOptions& options, std::string_view from, std::string_view end,
                                     uint64_t limit) const {
  const std::lock_guard lock(mutex_);
  const uint64_t moment = moment_of(options.snapshot);
  Records records;
  for (auto at = versions_.lower_bound(from); at != versions_.end() && records.size() < limit; ++at) {
    if (!end.empty() && at->first >= end) break;
    const std::string* value = value_at(at->second, moment);
    if (value != nullptr) records.emplace_back(at->first, *value);
  }
  return records;
}

Status ModelDb::Scan(const ScanOptions& options, std::string_view from, const ScanVisitor& visit) {
  const std::string first = std::string(from) + (options.from_exclusive ? std::string(1, '\0') : "");
  for (const auto& [key, value] : records_at({options.snapshot}, first, options.end, options.limit)) {
    if (!visit(key, value)) break;
  }
  return Status::OK();
}

Status ModelDb::ScanRows(const ScanOptions& options, std::string_view from, const RowsVisitor& visit) {
  return Scan(options, from, [&visit](std::string_view key, std::string_view value) {
    const auto bytes = [](std::string_view text) { return static_cast<uint32_t>(text.size()); };
    return visit({key.data(), value.data(), 1, 0, bytes(key), bytes(value)});
  });
}

Status ModelDb::Count(const ScanOptions& options, std::string_view from, uint64_t* count) {
  *count = 0;
  return Scan(options, from, [count](auto, auto) { return ++*count, true; });
}

Status ModelDb::DeleteRange(const ScanOptions& options, std::string_view from, uint64_t* deleted) {
  WriteBatch batch;
  BONSAI_RETURN_IF_ERROR(Scan(options, from, [&batch](std::string_view key, auto) { return batch.Delete(key), true; }));
  if (deleted != nullptr) *deleted = batch.Count();
  return ModelDb::Write(batch, nullptr);
}

Status ModelDb::GetSnapshot(std::shared_ptr<const Snapshot>* snapshot) {
  uint64_t moment = 0;
  {
    const std::lock_guard lock(mutex_);
    if (options_.snapshots_max != 0 && snapshots_.size() >= options_.snapshots_max)
      return Status::Unavailable("too many snapshots");
    moment = moment_;
    snapshots_.insert(moment);
  }
  *snapshot = std::make_shared<ModelSnapshot>(this, moment);  // outside the lock: the old one may be released by this
  return Status::OK();
}

void ModelDb::release(uint64_t moment) {
  const std::lock_guard lock(mutex_);
  snapshots_.erase(snapshots_.find(moment));
}

std::unique_ptr<Iterator> ModelDb::NewIterator(const ReadOptions& options) {
  return std::make_unique<ModelIterator>(records_at(options, {}, {}, UINT64_MAX));
}

Stats ModelDb::GetStats() const {
  Stats stats;
  stats.medium = "model (nothing is durable)";
  stats.key_format = options_.key_format;
  return stats;
}

}  // namespace bonsai::testing
