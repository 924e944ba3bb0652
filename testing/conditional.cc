// SPDX-License-Identifier: Apache-2.0
#include "testing/conditional.h"

#include "testing/codec.h"

namespace bonsai::testing {

Status perform(DB* db, const ConditionalUpdate& update, const std::function<std::string(uint64_t)>& key_of) {
  const std::vector<Cell>& cells = update.cells;
  const auto bytes_of = [](const Cell& cell) {
    return cell.value == kAbsent || cell.value == kAnyValue ? "" : encode_value(cell.value, kValueBytesMin);
  };
  const auto condition_of = [&](const Cell& cell, const std::string& value) {
    if (update.since != nullptr) return Condition::Unchanged(*update.since);
    if (cell.value == kAnyValue) return Condition::Present();
    return cell.value == kAbsent ? Condition::Absent() : Condition::Equals(value);
  };
  if (cells.size() == 2 && cells[0].key == cells[1].key && cells[1].required) {
    const std::string key = key_of(cells[0].key), value = bytes_of(cells[0]), seen = bytes_of(cells[1]);
    const Condition condition = condition_of(cells[1], seen);
    return cells[0].value == kAbsent ? db->DeleteIf(condition, key) : db->PutIf(condition, key, value);
  }
  WriteBatch batch;
  for (const Cell& cell : cells) {
    const std::string value = bytes_of(cell);
    if (cell.required) {
      batch.Require(key_of(cell.key), condition_of(cell, value));
    } else if (cell.value == kAbsent) {
      batch.Delete(key_of(cell.key));
    } else {
      batch.Put(key_of(cell.key), value);
    }
  }
  return db->Write(batch);
}

Status perform_recorded(DB* db, const ConditionalUpdate& update, const std::function<std::string(uint64_t)>& key_of,
                        Recorder::Lane* lane) {
  const uint64_t invoke = lane->begin_read();
  const uint64_t operation = lane->begin_update(OpKind::kConditional, update.cells);
  Status status = perform(db, update, key_of);
  if (status.ok()) {
    lane->end_update(operation);
  } else if (status.IsConditionFailed()) {
    lane->withdraw_update(operation);
    std::vector<Cell> required = update.cells;
    std::erase_if(required, [](const Cell& cell) { return !cell.required; });
    lane->end_read(OpKind::kRefused, invoke, required);
    status = Status::OK();
  } else if (!status.IsUnavailable() && !status.IsIoError()) {
    lane->withdraw_update(operation);
  }
  return status;
}

}  // namespace bonsai::testing
