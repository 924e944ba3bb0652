// SPDX-License-Identifier: Apache-2.0
#include "testing/linearizability.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "testing/jit_search.h"

namespace bonsai::testing {

namespace {

constexpr size_t kCutDownMax = 1000;  // operations that are still tried one by one for the report
constexpr size_t kReportMax = 40;     // operations that a report shows

struct RegisterModel {
  using State = uint64_t;
  struct Payload {
    uint64_t value;
    size_t source;  // index of the operation in the history, for the report
  };
  static bool matches(const Payload& read, State state) { return read.value == state; }
  static void apply(const Payload& update, State* state) { *state = update.value; }
};
using RegisterSearch = JitSearch<RegisterModel>;
using RegisterOps = std::vector<RegisterSearch::Op>;

struct MapModel {
  using State = std::vector<uint64_t>;  // value by dense key number
  using Payload = std::vector<std::pair<size_t, uint64_t>>;
  static bool matches(const Payload& read, const State& state) {
    return std::all_of(read.begin(), read.end(), [&](const auto& cell) { return state[cell.first] == cell.second; });
  }
  static void apply(const Payload& update, State* state) {
    for (const auto& [key, value] : update) (*state)[key] = value;
  }
};
using MapSearch = JitSearch<MapModel>;

// An update of unknown outcome that no read saw explains nothing; leaving it out changes no answer and saves search.
RegisterOps without_unseen_open_puts(const RegisterOps& ops) {
  std::unordered_set<uint64_t> seen;
  for (const auto& op : ops) {
    if (!op.update) seen.insert(op.payload.value);
  }
  RegisterOps kept;
  for (const auto& op : ops) {
    if (op.update && op.ret == kOpen && !seen.contains(op.payload.value)) continue;
    kept.push_back(op);
  }
  return kept;
}

RegisterSearch::Result search(const RegisterOps& ops, uint64_t initial) {
  const RegisterOps kept = without_unseen_open_puts(ops);
  RegisterSearch::Result result = RegisterSearch(kept).run(initial);
  if (result.end != RegisterSearch::End::kExplained) result.op = kept[result.op].payload.source;
  return result;
}

bool stuck(const RegisterOps& ops, uint64_t initial) { return search(ops, initial).end == RegisterSearch::End::kStuck; }

// A read of a value that no update wrote is a fault on its own, whatever the order.
std::optional<size_t> read_of_nothing(const RegisterOps& ops, uint64_t initial) {
  std::unordered_set<uint64_t> written = {initial, kAbsent};
  for (const auto& op : ops) {
    if (op.update) written.insert(op.payload.value);
  }
  for (const auto& op : ops) {
    if (!op.update && !written.contains(op.payload.value)) return op.payload.source;
  }
  return std::nullopt;
}

// The values that the operations wrote or read, the latest used first.
std::vector<uint64_t> values_by_last_use(const RegisterOps& ops) {
  std::vector<std::pair<uint64_t, uint64_t>> uses;
  for (const auto& op : ops) uses.emplace_back(op.ret == kOpen ? op.invoke : op.ret, op.payload.value);
  std::sort(uses.begin(), uses.end(), std::greater());
  std::vector<uint64_t> values;
  std::unordered_set<uint64_t> seen;
  for (const auto& [ordinal, value] : uses) {
    if (seen.insert(value).second) values.push_back(value);
  }
  return values;
}

RegisterOps only(const RegisterOps& ops, const std::vector<uint64_t>& values) {
  const std::unordered_set<uint64_t> wanted(values.begin(), values.end());
  RegisterOps kept;
  std::copy_if(ops.begin(), ops.end(), std::back_inserter(kept),
               [&](const auto& op) { return wanted.contains(op.payload.value); });
  return kept;
}

// Leaves out operations while the rest still breaks. The updates and the reads of one value are left out together. So
// the rest is evidence on its own: if the whole history could be explained, the rest could be.
RegisterOps cut_down(const RegisterOps& all, uint64_t initial) {
  std::vector<uint64_t> values = values_by_last_use(all);
  for (size_t n = 2; n < values.size(); n *= 2) {
    const std::vector<uint64_t> latest(values.begin(), values.begin() + static_cast<ptrdiff_t>(n));
    if (stuck(only(all, latest), initial)) values = latest;
  }
  RegisterOps ops = only(all, values);
  if (ops.size() > kCutDownMax) return ops;
  for (size_t i = values.size(); i-- > 0;) {
    std::vector<uint64_t> fewer = values;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
    if (stuck(only(ops, fewer), initial)) values = std::move(fewer);
  }
  ops = only(ops, values);
  for (size_t i = ops.size(); i-- > 0;) {
    if (ops[i].update) continue;
    RegisterOps fewer = ops;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
    if (stuck(fewer, initial)) ops = std::move(fewer);
  }
  return ops;
}

// All operations of the key up to the return that nothing explains.
RegisterOps up_to(const RegisterOps& ops, uint64_t ret) {
  RegisterOps prefix;
  for (auto op : ops) {
    if (op.invoke > ret) continue;
    if (op.ret != kOpen && op.ret > ret) {
      if (!op.update) continue;
      op.ret = kOpen;
    }
    prefix.push_back(op);
  }
  return prefix;
}

struct Broken {
  uint64_t key;
  RegisterOps ops;
  uint64_t initial;
  RegisterSearch::Result result;
};

std::string report(const History& history, const Broken& broken) {
  std::string text = "key " + std::to_string(broken.key);
  if (broken.result.end == RegisterSearch::End::kGaveUp) return text + ": too many updates at one time to decide";
  const auto invented = read_of_nothing(broken.ops, broken.initial);
  if (invented) return text + ": a value that nobody wrote:\n  " + history.text_of(history.operations[*invented], 4);
  const uint64_t ret = history.operations[broken.result.op].ret;
  RegisterOps ops = cut_down(up_to(broken.ops, ret), broken.initial);
  std::sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.invoke < b.invoke; });
  text += " (at first " + (broken.initial == kAbsent ? "absent" : std::to_string(broken.initial)) +
          "): no order explains these " + std::to_string(ops.size()) + " operations:";
  if (ops.size() > kReportMax) {
    text += " (the last " + std::to_string(kReportMax) + " are shown)";
    ops.erase(ops.begin(), ops.end() - static_cast<ptrdiff_t>(kReportMax));
  }
  for (const auto& op : ops) {
    const Operation& source = history.operations[op.payload.source];
    History one;
    one.add(source.kind, source.thread, op.invoke, op.ret, {{broken.key, op.payload.value}});
    text += "\n  " + one.text_of(one.operations[0]);
  }
  return text;
}

std::map<uint64_t, RegisterOps> by_key(const History& history) {
  std::map<uint64_t, RegisterOps> all;
  for (size_t i = 0; i < history.operations.size(); ++i) {
    const Operation& op = history.operations[i];
    for (const Cell& cell : history.cells_of(op)) {
      all[cell.key].push_back({op.invoke, op.ret, is_update(op.kind), {cell.value, i}, RegisterSearch::kNone});
    }
  }
  return all;
}

// Updates of one key that a thread had in flight together take effect in the order of their calls: for each operation
// the last one that must precede it.
std::vector<size_t> orders_of_callers(const History& history) {
  std::vector<size_t> after(history.operations.size(), MapSearch::kNone);
  const auto share_a_key = [&](const Operation& a, const Operation& b) {
    const auto left = history.cells_of(a), right = history.cells_of(b);
    return std::find_first_of(left.begin(), left.end(), right.begin(), right.end(),
                              [](const Cell& x, const Cell& y) { return x.key == y.key; }) != left.end();
  };
  for (size_t i = 0; i < after.size(); ++i) {
    const Operation& op = history.operations[i];
    for (size_t j = 0; is_update(op.kind) && j < after.size(); ++j) {
      const Operation& other = history.operations[j];
      if (!is_update(other.kind) || other.thread != op.thread || other.invoke >= op.invoke || other.ret < op.invoke)
        continue;
      const bool latest = after[i] == MapSearch::kNone || history.operations[after[i]].invoke < other.invoke;
      if (latest && share_a_key(op, other)) after[i] = j;
    }
  }
  return after;
}

}  // namespace

Verdict check_registers(const History& history, std::span<const Cell> initial) {
  std::unordered_map<uint64_t, uint64_t> initial_of;
  for (const Cell& cell : initial) initial_of[cell.key] = cell.value;

  std::optional<Broken> shortest;
  for (auto& [key, ops] : by_key(history)) {
    const auto at = initial_of.find(key);
    const uint64_t first = at == initial_of.end() ? kAbsent : at->second;
    const RegisterSearch::Result result = search(ops, first);
    if (result.end == RegisterSearch::End::kExplained) continue;
    if (!shortest || ops.size() < shortest->ops.size()) shortest = Broken{key, std::move(ops), first, result};
  }
  return shortest ? Verdict::wrong(report(history, *shortest)) : Verdict();
}

Verdict check_whole(const History& original, std::span<const Cell> initial) {
  const History history = with_snapshot_reads_joined(original);
  std::unordered_map<uint64_t, size_t> dense;
  MapModel::State state;
  const auto number_of = [&](uint64_t key) {
    const auto [at, is_new] = dense.emplace(key, state.size());
    if (is_new) state.push_back(kAbsent);
    return at->second;
  };
  for (const Cell& cell : initial) {
    const size_t number = number_of(cell.key);
    state[number] = cell.value;
  }
  const std::vector<size_t> after = orders_of_callers(history);
  std::vector<MapSearch::Op> ops;
  for (const Operation& op : history.operations) {
    MapModel::Payload payload;
    for (const Cell& cell : history.cells_of(op)) payload.emplace_back(number_of(cell.key), cell.value);
    ops.push_back({op.invoke, op.ret, is_update(op.kind), std::move(payload), after[ops.size()]});
  }
  const MapSearch::Result result = MapSearch(ops).run(state);
  if (result.end == MapSearch::End::kExplained) return {};
  std::string text = result.end == MapSearch::End::kGaveUp ? "too many updates at one time to decide:"
                                                           : "no order explains these operations:";
  std::vector<Operation> sorted = history.operations;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.invoke < b.invoke; });
  for (const Operation& op : sorted) text += "\n  " + history.text_of(op);
  return Verdict::wrong(text + "\n  stuck at: " + history.text_of(history.operations[result.op]));
}

History with_snapshot_reads_joined(const History& history) {
  History joined;
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, std::vector<Cell>> reads;
  for (const Operation& op : history.operations) {
    const auto cells = history.cells_of(op);
    if (op.kind == OpKind::kSnapshotRead) {
      auto& all = reads[{op.thread, op.invoke, op.ret}];
      all.insert(all.end(), cells.begin(), cells.end());
    } else {
      joined.add(op.kind, op.thread, op.invoke, op.ret, cells);
    }
  }
  for (const auto& [moment, cells] : reads) {
    joined.add(OpKind::kSnapshotRead, std::get<0>(moment), std::get<1>(moment), std::get<2>(moment), cells);
  }
  return joined;
}

}  // namespace bonsai::testing
