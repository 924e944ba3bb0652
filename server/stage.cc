// SPDX-License-Identifier: Apache-2.0
#include "server/stage.h"

#include "base/check.h"
#include "base/status_macros.h"

namespace bonsai::server {
namespace {

constexpr uint64_t kUpdateBytes = 64;  // what a staged update takes besides its bytes

}  // namespace

Status Stage::get(std::string_view key, std::string* value) {
  if (const auto own = staged_.find(key); own != staged_.end()) {
    if (!own->second) return Status::NotFound();
    *value = *own->second;
    return Status::OK();
  }
  ReadOptions options;
  options.snapshot = moment_.get();
  Status status = db_.Get(options, key, value);
  if (status.ok() || status.IsNotFound()) read_.emplace(key);
  return status;
}

// Whether the store takes the key.
Status Stage::check(std::string_view key) const {
  ReadOptions options;
  options.snapshot = moment_.get();
  Status status = db_.Exists(options, key);
  return status.IsInvalidArgument() ? status : Status::OK();
}

void Stage::stage(std::string_view key, std::optional<std::string_view> value) {
  auto [place, is_new] = staged_.try_emplace(std::string(key));
  if (is_new) bytes_ += key.size() + kUpdateBytes;
  if (place->second) bytes_ -= place->second->size();
  place->second.reset();
  if (!value) return;
  place->second.emplace(*value);
  bytes_ += value->size();
}

Status Stage::put(std::string_view key, std::string_view value) {
  BONSAI_RETURN_IF_ERROR(check(key));
  if (value.size() > kValueBytesMax) return Status::InvalidArgument("a value has 16 MiB at most");
  stage(key, value);
  return Status::OK();
}

Status Stage::remove(std::string_view key) {
  BONSAI_RETURN_IF_ERROR(check(key));
  stage(key, std::nullopt);
  return Status::OK();
}

Status Stage::judge(const Condition& condition, std::string_view key) {
  std::string value;
  const Status status = get(key, &value);
  if (!status.ok() && !status.IsNotFound()) return status;
  bool holds = false;
  switch (condition.kind()) {
    case Condition::Kind::kAbsent:
      holds = !status.ok();
      break;
    case Condition::Kind::kPresent:
      holds = status.ok();
      break;
    case Condition::Kind::kEquals:
      holds = status.ok() && value == condition.value();
      break;
    case Condition::Kind::kUnchanged:
      BONSAI_CHECK(false);  // no command has it
  }
  return holds ? Status::OK() : Status::ConditionFailed();
}

Status Stage::put_if(const Condition& condition, std::string_view key, std::string_view value) {
  BONSAI_RETURN_IF_ERROR(judge(condition, key));
  return put(key, value);
}

Status Stage::remove_if(const Condition& condition, std::string_view key) {
  BONSAI_RETURN_IF_ERROR(judge(condition, key));
  return remove(key);
}

Status Stage::write(const WriteBatch& batch, size_t* failed) {
  for (size_t i = 0; i < batch.requirements().size(); ++i) {
    const WriteBatch::Requirement& each = batch.requirements()[i];
    BONSAI_CHECK(each.kind != Condition::Kind::kUnchanged);
    const Condition condition = each.kind == Condition::Kind::kAbsent    ? Condition::Absent()
                                : each.kind == Condition::Kind::kPresent ? Condition::Present()
                                                                         : Condition::Equals(each.value);
    const Status status = judge(condition, each.key);
    if (status.IsConditionFailed() && failed != nullptr) *failed = i;
    BONSAI_RETURN_IF_ERROR(status);
  }
  for (const WriteBatch::Update& each : batch.updates()) BONSAI_RETURN_IF_ERROR(check(each.key));
  for (const WriteBatch::Update& each : batch.updates()) {
    stage(each.key, each.is_delete ? std::nullopt : std::optional<std::string_view>(each.value));
  }
  return Status::OK();
}

// Without updates the commands have taken effect at the moment itself, if the watched keys were unchanged then.
Stage::Outcome Stage::commit(const Watch& watch, Status* status) {
  BONSAI_CHECK(!is_too_large());
  WriteBatch batch;
  for (const std::string& each : watch.keys) batch.Require(each, Condition::Unchanged(*watch.since));
  if (!staged_.empty()) {
    for (const std::string& each : read_) batch.Require(each, Condition::Unchanged(*moment_));
  }
  for (const auto& [key, value] : staged_) value ? batch.Put(key, *value) : batch.Delete(key);
  size_t failed = 0;
  if (batch.requirements().empty() && staged_.empty()) return Outcome::kDone;
  *status = db_.Write(batch, &failed);
  if (status->ok()) return Outcome::kDone;
  if (!status->IsConditionFailed()) return Outcome::kFailed;
  return failed < watch.keys.size() ? Outcome::kOvertaken : Outcome::kConflict;
}

}  // namespace bonsai::server
