// SPDX-License-Identifier: Apache-2.0
#include "testing/history.h"

#include <algorithm>

namespace bonsai::testing {

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kPut:
      return "put";
    case OpKind::kDelete:
      return "delete";
    case OpKind::kBatch:
      return "batch";
    case OpKind::kConditional:
      return "conditional update";
    case OpKind::kRefused:
      return "refused update";
    case OpKind::kGet:
      return "get";
    case OpKind::kScan:
      return "scan";
    case OpKind::kSnapshotRead:
      return "snapshot read";
    case OpKind::kRecovered:
      return "recovered state";
  }
  return "?";
}

void History::add(OpKind kind, uint32_t thread, uint64_t invoke, uint64_t ret, std::span<const Cell> cells_of_op) {
  operations.push_back({invoke, ret, kind, thread, cells.size(), cells_of_op.size()});
  cells.insert(cells.end(), cells_of_op.begin(), cells_of_op.end());
}

void History::append(const History& other) {
  const uint64_t shift = cells.size();
  cells.insert(cells.end(), other.cells.begin(), other.cells.end());
  for (Operation op : other.operations) {
    op.cells_first += shift;
    operations.push_back(op);
  }
}

uint64_t History::last_ordinal() const {
  uint64_t last = 0;
  for (const Operation& op : operations) last = std::max(last, op.ret == kOpen ? op.invoke : op.ret);
  return last;
}

std::string History::text_of(const Operation& op, size_t cells_max) const {
  std::string text = "[" + std::to_string(op.invoke) + ",";
  text += op.ret == kOpen ? "open" : std::to_string(op.ret);
  text += "] thread " + std::to_string(op.thread) + " " + name_of(op.kind);
  size_t shown = 0;
  for (const Cell& cell : cells_of(op)) {
    if (shown++ == cells_max) {
      text += " ... (" + std::to_string(op.cells_count) + " cells)";
      break;
    }
    text += (cell.required ? " if k" : " k") + std::to_string(cell.key) + "=";
    if (cell.value == kAbsent) {
      text += is_update(op.kind) && !cell.required ? "deleted" : "absent";
    } else if (cell.value == kAnyValue) {
      text += "any";
    } else {
      text += cell.value == kGarbled ? "garbled" : std::to_string(cell.value);
    }
  }
  return text;
}

}  // namespace bonsai::testing
