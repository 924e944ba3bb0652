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
    uint64_t value;                     // written or read
    size_t source;                      // index of the operation in the history, for the report
    std::optional<Cell> required = {};  // before an update
    std::optional<Cell> denied = {};    // of a refused update, instead of a value: what did not hold
  };
  static bool matches(const Payload& read, State state) {
    if (read.denied) return !read.denied->holds_in(state);
    return read.required ? read.required->holds_in(state) : read.value == state;
  }
  static bool allows(const Payload& update, State state) {
    return !update.required || update.required->holds_in(state);
  }
  static void apply(const Payload& update, State* state) { *state = update.value; }
};
using RegisterSearch = JitSearch<RegisterModel>;
using RegisterOps = std::vector<RegisterSearch::Op>;

struct MapModel {
  using State = std::vector<uint64_t>;  // value by dense key number
  struct Payload {
    std::vector<Cell> cells;  // with dense key numbers
    bool refused = false;
  };
  static bool matches(const Payload& read, const State& state) {
    const bool all = std::all_of(read.cells.begin(), read.cells.end(),
                                 [&](const Cell& cell) { return cell.holds_in(state[cell.key]); });
    return all != read.refused;
  }
  static bool allows(const Payload& update, const State& state) {
    return std::all_of(update.cells.begin(), update.cells.end(),
                       [&](const Cell& cell) { return !cell.required || cell.holds_in(state[cell.key]); });
  }
  static void apply(const Payload& update, State* state) {
    for (const Cell& cell : update.cells) {
      if (!cell.required) (*state)[cell.key] = cell.value;
    }
  }
};
using MapSearch = JitSearch<MapModel>;

// An update of unknown outcome that no read saw explains nothing; leaving it out changes no answer and saves search.
RegisterOps without_unseen_open_puts(const RegisterOps& ops) {
  std::unordered_set<uint64_t> seen;
  for (const auto& op : ops) {
    if (!op.update) seen.insert(op.payload.value);
    if (op.payload.required) seen.insert(op.payload.required->value);
    if (op.payload.denied || (op.payload.required && op.payload.required->value == kAnyValue)) return ops;
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
    if (!op.update && !op.payload.denied && !op.payload.required && !written.contains(op.payload.value))
      return op.payload.source;
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
  // A condition ties values to each other.
  if (std::any_of(all.begin(), all.end(), [](const auto& op) { return op.payload.required || op.payload.denied; }))
    return all;
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
    for (const Cell& cell : history.cells_of(source)) {
      if (cell.key == broken.key) one.cells.push_back(cell);
    }
    one.operations.push_back({op.invoke, op.ret, source.kind, source.thread, 0, one.cells.size()});
    text += "\n  " + one.text_of(one.operations[0]);
  }
  return text;
}

// A conditional update adds to each key of its own what it did and required there. A refused one says something of a
// key alone only if it has one condition.
void add_conditional(const History& history, size_t i, std::map<uint64_t, RegisterOps>* all) {
  const Operation& op = history.operations[i];
  const auto cells = history.cells_of(op);
  if (op.kind == OpKind::kRefused) {
    if (cells.size() != 1) return;
    RegisterModel::Payload payload{cells[0].value, i};
    payload.denied = cells[0];
    (*all)[cells[0].key].push_back({op.invoke, op.ret, false, payload, RegisterSearch::kNone});
    return;
  }
  std::map<uint64_t, RegisterSearch::Op> of_key;
  for (const Cell& cell : cells) {
    RegisterSearch::Op& own =
        of_key.try_emplace(cell.key, RegisterSearch::Op{op.invoke, op.ret, false, {kAbsent, i}}).first->second;
    if (cell.required) {
      own.payload.required = cell;
    } else {
      own.update = true;
      own.payload.value = cell.value;
    }
  }
  for (const auto& [key, own] : of_key) (*all)[key].push_back(own);
}

std::map<uint64_t, RegisterOps> by_key(const History& history) {
  std::map<uint64_t, RegisterOps> all;
  for (size_t i = 0; i < history.operations.size(); ++i) {
    const Operation& op = history.operations[i];
    if (op.kind == OpKind::kConditional || op.kind == OpKind::kRefused) {
      add_conditional(history, i, &all);
      continue;
    }
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
    payload.refused = op.kind == OpKind::kRefused;
    for (const Cell& cell : history.cells_of(op)) {
      payload.cells.push_back({number_of(cell.key), cell.value, cell.required});
    }
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
