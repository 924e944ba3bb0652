// SPDX-License-Identifier: Apache-2.0
#include "testing/snapshot_check.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "testing/graph.h"
#include "testing/linearizability.h"

namespace bonsai::testing {

namespace {

constexpr uint64_t kTimeLabel = UINT64_MAX;  // an edge of real time; other labels are keys
constexpr size_t kNoUpdate = SIZE_MAX;

struct Version {
  uint64_t value;
  size_t update;  // operation that wrote it; kNoUpdate for what was there at first
};

class Checker {
 public:
  Checker(const History& history, std::span<const Cell> initial)
      : history_(history), graph_(2 * history.operations.size()) {
    for (const Cell& cell : initial) versions_[cell.key] = {{cell.value, kNoUpdate}};
  }

  Verdict run() {
    add_versions();
    for (size_t i = 0; i < ops().size() && verdict_.ok; ++i) {
      if (!is_update(ops()[i].kind)) add_read(i);
    }
    if (!verdict_.ok) return verdict_;
    add_time();
    const std::vector<Graph::Edge> cycle = graph_.shortest_cycle();
    return cycle.empty() ? Verdict() : Verdict::wrong(text_of(cycle));
  }

 private:
  [[nodiscard]] const std::vector<Operation>& ops() const { return history_.operations; }

  std::vector<Version>& versions_of(uint64_t key) {
    std::vector<Version>& all = versions_[key];
    if (all.empty()) all.push_back({kAbsent, kNoUpdate});
    return all;
  }

  void add_versions() {
    std::vector<size_t> updates;
    for (size_t i = 0; i < ops().size(); ++i) {
      if (is_update(ops()[i].kind)) updates.push_back(i);
    }
    std::sort(updates.begin(), updates.end(), [&](size_t a, size_t b) { return ops()[a].invoke < ops()[b].invoke; });
    for (const size_t update : updates) {
      for (const Cell& cell : history_.cells_of(ops()[update])) add_version(cell, update);
    }
  }

  void add_version(const Cell& cell, size_t update) {
    std::vector<Version>& all = versions_of(cell.key);
    const size_t before = all.back().update;
    if (before != kNoUpdate) {
      if (ops()[before].ret >= ops()[update].invoke)
        fail("the test broke the checker's rule: key " + std::to_string(cell.key) + " was updated by two at one time",
             {before, update});
      graph_.add({before, update, cell.key});
    }
    if (cell.value != kAbsent) version_by_value_[{cell.key, cell.value}] = all.size();
    all.push_back({cell.value, update});
  }

  void add_read(size_t read) {
    for (const Cell& cell : history_.cells_of(ops()[read])) {
      const std::vector<Version>& all = versions_of(cell.key);
      const auto range = cell.value == kAbsent ? absent_versions(all, ops()[read]) : version_of(all, cell);
      if (!range) return fail_read(read, cell, all);
      const auto [lo, hi] = *range;
      if (all[lo].update != kNoUpdate) graph_.add({all[lo].update, read, cell.key});
      if (hi + 1 < all.size()) graph_.add({read, all[hi + 1].update, cell.key});
    }
  }

  using Range = std::optional<std::pair<size_t, size_t>>;

  Range version_of(const std::vector<Version>& all, const Cell& cell) const {
    if (all[0].value == cell.value) return {{0, 0}};
    const auto at = version_by_value_.find({cell.key, cell.value});
    if (at == version_by_value_.end()) return std::nullopt;
    return {{at->second, at->second}};
  }

  // The first and last version without a value that real time lets the read see.
  Range absent_versions(const std::vector<Version>& all, const Operation& read) const {
    const auto returned = [&](const Version& v) { return v.update == kNoUpdate || ops()[v.update].ret < read.invoke; };
    const auto invoked = [&](const Version& v) { return v.update == kNoUpdate || ops()[v.update].invoke < read.ret; };
    const auto first = std::partition_point(all.begin(), all.end(), returned) - 1;
    const auto last = std::partition_point(all.begin(), all.end(), invoked) - 1;
    Range range;
    for (auto v = first; v <= last; ++v) {
      if (v->value != kAbsent) continue;
      const size_t i = static_cast<size_t>(v - all.begin());
      range = range ? std::pair{range->first, i} : std::pair{i, i};
    }
    return range;
  }

  // Node n + i is the i-th return in time; an operation comes after the last return before its invocation.
  void add_time() {
    const size_t n = ops().size();
    std::vector<std::pair<uint64_t, size_t>> returns;
    for (size_t i = 0; i < n; ++i) {
      if (ops()[i].ret != kOpen) returns.emplace_back(ops()[i].ret, i);
    }
    std::sort(returns.begin(), returns.end());
    for (size_t i = 0; i < returns.size(); ++i) {
      graph_.add({returns[i].second, n + i, kTimeLabel});
      if (i + 1 < returns.size()) graph_.add({n + i, n + i + 1, kTimeLabel});
    }
    for (size_t i = 0; i < n; ++i) {
      const auto after = std::lower_bound(returns.begin(), returns.end(), std::pair{ops()[i].invoke, size_t{0}});
      if (after != returns.begin()) {
        graph_.add({n + static_cast<size_t>(after - returns.begin()) - 1, i, kTimeLabel});
      }
    }
  }

  void fail(std::string what, std::initializer_list<size_t> shown) {
    if (!verdict_.ok) return;
    for (const size_t op : shown) what += "\n  " + history_.text_of(ops()[op]);
    verdict_ = Verdict::wrong(std::move(what));
  }

  void fail_read(size_t read, const Cell& cell, const std::vector<Version>& all) {
    const std::string key = "key " + std::to_string(cell.key);
    if (cell.value == kAbsent) {
      const size_t last = all.back().update;
      fail(key + " was read as absent while it had a value:", {read, last == kNoUpdate ? read : last});
    } else {
      fail(key + " was read with value " + std::to_string(cell.value) + ", which nobody wrote:", {read});
    }
  }

  [[nodiscard]] std::string text_of(const std::vector<Graph::Edge>& cycle) const {
    std::string text = "no order explains these operations, each of which must come before the next:";
    for (size_t i = 0; i < cycle.size(); ++i) {
      const Graph::Edge& in = cycle[(i + cycle.size() - 1) % cycle.size()];
      const Graph::Edge& out = cycle[i];
      if (out.from >= ops().size()) continue;  // a point of the time line
      const Operation& op = ops()[out.from];
      History one;  // the operation with the two keys that matter here
      std::vector<Cell> cells;
      for (const Cell& cell : history_.cells_of(op)) {
        if (cell.key == in.label || cell.key == out.label) cells.push_back(cell);
      }
      one.add(op.kind, op.thread, op.invoke, op.ret, cells);
      text += "\n  " + one.text_of(one.operations[0]);
      text += out.label == kTimeLabel ? "  (returned before)" : "  (by key " + std::to_string(out.label) + ")";
    }
    return text;
  }

  struct KeyValueHash {
    size_t operator()(const std::pair<uint64_t, uint64_t>& kv) const {
      return std::hash<uint64_t>()(kv.first * 0x9E3779B97F4A7C15u ^ kv.second);
    }
  };

  const History& history_;
  Graph graph_;
  std::unordered_map<uint64_t, std::vector<Version>> versions_;
  std::unordered_map<std::pair<uint64_t, uint64_t>, size_t, KeyValueHash> version_by_value_;
  Verdict verdict_;
};

}  // namespace

Verdict check_snapshots(const History& history, std::span<const Cell> initial) {
  const History joined = with_snapshot_reads_joined(history);
  return Checker(joined, initial).run();
}

}  // namespace bonsai::testing
