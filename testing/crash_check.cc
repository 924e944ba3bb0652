// SPDX-License-Identifier: Apache-2.0
#include "testing/crash_check.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "testing/linearizability.h"
#include "testing/snapshot_check.h"

namespace bonsai::testing {

namespace {

using KeyFilter = std::function<bool(uint64_t key)>;

std::vector<Cell> cells_where(std::span<const Cell> cells, const KeyFilter& wanted) {
  std::vector<Cell> kept;
  for (const Cell& cell : cells) {
    if (wanted(cell.key)) kept.push_back(cell);
  }
  return kept;
}

// The part of the history that concerns the wanted keys, with the recovered state as its last read.
History part_of(const History& history, const CrashCase& what, const KeyFilter& wanted) {
  History part;
  for (const Operation& op : history.operations) {
    const std::vector<Cell> cells = cells_where(history.cells_of(op), wanted);
    if (!cells.empty()) part.add(op.kind, op.thread, op.invoke, op.ret, cells);
  }
  const uint64_t end = std::max(history.last_ordinal(), what.synced_at) + 1;
  const uint64_t earliest = what.durability == Durability::kDurable ? end : what.synced_at;
  part.add(OpKind::kRecovered, 0, earliest, end + 1, cells_where(what.recovered, wanted));
  return part;
}

// The update that wrote the recovered value of each key; absent values and initial ones have no entry.
std::unordered_map<uint64_t, const Operation*> sources_of(const History& history, std::span<const Cell> recovered) {
  std::unordered_map<uint64_t, uint64_t> value_of;
  for (const Cell& cell : recovered) value_of[cell.key] = cell.value;
  std::unordered_map<uint64_t, const Operation*> sources;
  for (const Operation& op : history.operations) {
    if (!is_update(op.kind)) continue;
    for (const Cell& cell : history.cells_of(op)) {
      const auto at = value_of.find(cell.key);
      if (cell.value != kAbsent && at != value_of.end() && at->second == cell.value) sources[cell.key] = &op;
    }
  }
  return sources;
}

// In mode buffered a record has the epoch of its append, before its update has a place in the order that readers see
// (docs/put-protocol.md, section 6). If two updates are in flight together, either may survive alone, whatever order a
// reader saw. So while an update of a key is in flight that a read does not show, the read proves nothing about that
// key.
History without_unseen_updates(const History& history) {
  std::unordered_map<uint64_t, std::vector<std::pair<const Operation*, uint64_t>>> updates;
  for (const Operation& op : history.operations) {
    if (!is_update(op.kind)) continue;
    for (const Cell& cell : history.cells_of(op)) updates[cell.key].emplace_back(&op, cell.value);
  }
  History kept;
  for (const Operation& op : history.operations) {
    std::vector<Cell> cells;
    for (const Cell& cell : history.cells_of(op)) {
      const auto unseen = [&](const auto& update) {
        return update.first->invoke < op.ret && op.invoke < update.first->ret &&
               (update.second != cell.value || op.kind == OpKind::kRefused);
      };
      const auto& of_key = updates[cell.key];
      if (is_update(op.kind) || std::none_of(of_key.begin(), of_key.end(), unseen)) cells.push_back(cell);
    }
    if (!cells.empty()) kept.add(op.kind, op.thread, op.invoke, op.ret, cells);
  }
  return kept;
}

// A batch that survived on one key must not be older than what another of its keys holds.
Verdict check_batches(const History& history, const CrashCase& what) {
  const auto sources = sources_of(history, what.recovered);
  for (const auto& entry : sources) {
    const Operation* source = entry.second;  // clang 14 has no capture of structured bindings
    if (source->kind != OpKind::kBatch) continue;
    for (const Cell& cell : history.cells_of(*source)) {
      const auto other = sources.find(cell.key);
      if (cell.value == kAbsent || (other != sources.end() && other->second->ret >= source->invoke)) continue;
      if (other == sources.end()) {  // some delete may have come later
        const bool deleted_since =
            std::any_of(history.operations.begin(), history.operations.end(), [&](const auto& op) {
              if (!is_update(op.kind) || op.ret < source->invoke) return false;
              const auto cells = history.cells_of(op);
              return std::any_of(cells.begin(), cells.end(),
                                 [&](const Cell& c) { return c.key == cell.key && c.value == kAbsent; });
            });
        if (deleted_since) continue;
      }
      return Verdict::wrong("half a batch was recovered, on key " + std::to_string(entry.first) + " but not on key " +
                            std::to_string(cell.key) + ":\n  " + history.text_of(*source) +
                            (other == sources.end() ? "" : "\n  " + history.text_of(*other->second)));
    }
  }
  return {};
}

}  // namespace

Verdict check_crash(const History& recorded, const CrashCase& what, const KeyFilter& one_writer) {
  const History history = what.durability == Durability::kBuffered ? without_unseen_updates(recorded) : recorded;
  if (Verdict verdict = check_snapshots(part_of(history, what, one_writer), what.initial); !verdict.ok) return verdict;
  const History shared = part_of(history, what, std::not_fn(one_writer));
  if (Verdict verdict = check_registers(shared, what.initial); !verdict.ok) return verdict;
  return check_batches(shared, what);
}

}  // namespace bonsai::testing
