// SPDX-License-Identifier: Apache-2.0
#include "testing/broken_db.h"

#include "base/status_macros.h"
#include "base/thread.h"

namespace bonsai::testing {

const char* name_of(Defect defect) {
  switch (defect) {
    case Defect::kNone:
      return "none";
    case Defect::kLosesPuts:
      return "loses puts";
    case Defect::kReadsStale:
      return "reads stale";
    case Defect::kTearsBatches:
      return "tears batches";
    case Defect::kTearsScans:
      return "tears scans";
    case Defect::kForgetsSnapshots:
      return "forgets snapshots";
    case Defect::kAnswersEarly:
      return "answers early";
    case Defect::kGarblesValues:
      return "garbles values";
    case Defect::kRevivesDeleted:
      return "revives deleted";
    case Defect::kSkipsOnPrev:
      return "skips on prev";
    case Defect::kIgnoresConditions:
      return "ignores conditions";
    case Defect::kJudgesEarly:
      return "judges early";
  }
  return "?";
}

class BrokenDb::SkippingIterator : public Iterator {
 public:
  SkippingIterator(std::unique_ptr<Iterator> right, BrokenDb* db) : right_(std::move(right)), db_(db) {}
  [[nodiscard]] bool Valid() const override { return right_->Valid(); }
  void SeekToFirst() override { right_->SeekToFirst(); }
  void SeekToLast() override { right_->SeekToLast(); }
  void Seek(std::string_view key) override { right_->Seek(key); }
  void SeekForPrev(std::string_view key) override { right_->SeekForPrev(key); }
  void SeekAfter(std::string_view key) override { right_->SeekAfter(key); }
  void SeekBefore(std::string_view key) override { right_->SeekBefore(key); }
  void Next() override { right_->Next(); }
  void Prev() override {
    right_->Prev();
    if (right_->Valid() && db_->now_and_then(50)) right_->Prev();
  }
  [[nodiscard]] std::string_view key() const override { return right_->key(); }
  [[nodiscard]] std::string_view value() const override { return right_->value(); }
  Status status() const override { return right_->status(); }

 private:
  std::unique_ptr<Iterator> right_;
  BrokenDb* db_;
};

Status BrokenDb::Put(std::string_view key, std::string_view value) {
  if (defect_ == Defect::kLosesPuts && now_and_then(100)) return Status::OK();
  if (defect_ == Defect::kAnswersEarly) return put_late(key, value);
  if (defect_ == Defect::kReadsStale) {
    std::string before;
    if (ModelDb::Get(ReadOptions(), key, &before).ok()) {
      const std::lock_guard lock(mutex_);
      held_[std::string(key)] = before;
    }
  }
  if (defect_ == Defect::kGarblesValues && now_and_then(100) && !value.empty()) {
    std::string garbled(value);
    garbled.back() = static_cast<char>(garbled.back() ^ 1);
    return ModelDb::Put(key, garbled);
  }
  return ModelDb::Put(key, value);
}

// Two puts of different keys: the first returns without effect and takes effect with the second.
Status BrokenDb::put_late(std::string_view key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  for (const auto& [held_key, held_value] : held_) BONSAI_RETURN_IF_ERROR(ModelDb::Put(held_key, held_value));
  held_.clear();
  if (!now_and_then(20)) return ModelDb::Put(key, value);
  held_.emplace(key, value);
  return Status::OK();
}

Status BrokenDb::Delete(std::string_view key) {
  if (defect_ == Defect::kRevivesDeleted && now_and_then(5)) return Status::OK();
  return ModelDb::Delete(key);
}

Status BrokenDb::PutIf(const Condition& condition, std::string_view key, std::string_view value) {
  if (defect_ == Defect::kIgnoresConditions && now_and_then(10)) return ModelDb::Put(key, value);
  if (defect_ != Defect::kJudgesEarly) return ModelDb::PutIf(condition, key, value);
  WriteBatch judged;
  judged.Require(key, condition);
  BONSAI_RETURN_IF_ERROR(ModelDb::Write(judged, nullptr));
  base::yield_thread();
  return ModelDb::Put(key, value);
}

Status BrokenDb::Write(const WriteBatch& batch, size_t* failed) {
  if (defect_ != Defect::kTearsBatches || !batch.requirements().empty()) return ModelDb::Write(batch, failed);
  for (const auto& update : batch.updates()) {
    BONSAI_RETURN_IF_ERROR(update.is_delete ? ModelDb::Delete(update.key) : ModelDb::Put(update.key, update.value));
    base::yield_thread();
  }
  return Status::OK();
}

Status BrokenDb::Get(const ReadOptions& options, std::string_view key, std::string* value) {
  if (defect_ == Defect::kForgetsSnapshots) return ModelDb::Get(ReadOptions(), key, value);
  if (defect_ == Defect::kReadsStale && now_and_then(20)) {
    const std::lock_guard lock(mutex_);
    const auto at = held_.find(key);
    if (at != held_.end()) {
      *value = at->second;
      return Status::OK();
    }
  }
  return ModelDb::Get(options, key, value);
}

Status BrokenDb::Scan(const ScanOptions& options, std::string_view from, const ScanVisitor& visit) {
  ScanOptions wrong = options;
  if (defect_ == Defect::kForgetsSnapshots) wrong.snapshot = nullptr;
  if (defect_ != Defect::kTearsScans || options.limit < 2) return ModelDb::Scan(wrong, from, visit);
  std::string next(from);
  bool wanted = true;
  wrong.limit = 2;
  for (uint64_t left = options.limit; left > 0 && wanted; left -= std::min(left, wrong.limit)) {
    uint64_t count = 0;
    BONSAI_RETURN_IF_ERROR(ModelDb::Scan(wrong, next, [&](std::string_view key, std::string_view value) {
      ++count;
      next = std::string(key) + '\0';
      return wanted = visit(key, value);
    }));
    if (count < wrong.limit) break;
    base::yield_thread();
  }
  return Status::OK();
}

std::unique_ptr<Iterator> BrokenDb::NewIterator(const ReadOptions& options) {
  std::unique_ptr<Iterator> right =
      ModelDb::NewIterator(defect_ == Defect::kForgetsSnapshots ? ReadOptions() : options);
  if (defect_ == Defect::kSkipsOnPrev) return std::make_unique<SkippingIterator>(std::move(right), this);
  return right;
}

}  // namespace bonsai::testing
