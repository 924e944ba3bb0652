// SPDX-License-Identifier: Apache-2.0
#include "index/testing/explorer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace bonsai::index::model {

namespace {

uint64_t hash_of(const void* bytes, size_t n) {
  const char* at = static_cast<const char*>(bytes);
  uint64_t hash = n;
  for (; n > 0; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    const size_t taken = std::min(n, sizeof word);
    std::memcpy(&word, at, taken);
    n -= taken;
    hash = std::rotl((hash ^ word ^ hash >> 29) * 0xd6e8feb86659fd93, 31);
  }
  hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93;
  return hash ^ hash >> 29;
}

}  // namespace

Explorer::Result Explorer::explore(const Config& config, uint32_t left_out, uint64_t states_max) {
  Explorer explorer(config, left_out, states_max);
  const State first = explorer.lead(config);
  explorer.result_.whole = explorer.visit(first);
  explorer.result_.states = explorer.visited_.size();
  return explorer.result_;
}

State Explorer::lead(const Config& config) {
  State s = model_.first();
  for (const Lead& lead : config.lead) {
    const State before = s;
    const auto reached = [&] {
      if (lead.until == Lead::Until::kDone) return model_.ended(s, lead.thread);
      if (lead.until == Lead::Until::kNodeStands) return s.nodes != before.nodes;
      return std::memcmp(s.record, before.record, sizeof s.record) != 0;
    };
    while (!reached()) {
      BONSAI_CHECK(model_.step(&s, lead.thread));
      path_.push_back({lead.thread, model_.note()});
    }
  }
  return s;
}

// Depth first. False: something is wrong, or there are too many states.
bool Explorer::visit(const State& s) {
  if (!visited_.insert(hash_of(&s, sizeof s)).second) return true;
  if (visited_.size() > states_max_) return false;
  if (const char* broken = model_.broken(s)) return fail(broken);
  bool moved = false, ended = true;
  for (size_t thread = 0; thread < model_.threads(); ++thread) {
    if (model_.ended(s, thread)) continue;
    ended = false;
    State next = s;
    if (!model_.step(&next, thread)) continue;
    moved = true;
    path_.push_back({thread, model_.note()});
    if (!visit(next)) return false;
    path_.pop_back();
  }
  if (!moved && !ended) return fail("each thread waits for another");
  return judge(s, ended);
}

bool Explorer::judge(const State& s, bool final) {
  Byte values[kKeys];
  for (Byte key = 0; key < kKeys; ++key) values[key] = model_.recovered(s, key);
  if (!explains(s, values)) return fail("no order explains a crash here\n" + trace(s));
  if (!final) return true;
  for (Byte key = 0; key < kKeys; ++key) values[key] = model_.final_value(s, key);
  return explains(s, values) || fail("no order explains this end\n" + trace(s));
}

// Is there an order of the operations that ended, and of some that did not, that respects real time, explains every
// read and ends with these values?
bool Explorer::explains(const State& s, const Byte* end) {
  std::string history(reinterpret_cast<const char*>(s.status), sizeof s.status);
  history.append(reinterpret_cast<const char*>(s.before), sizeof s.before);
  for (size_t i = 0; i < kOperations; ++i) {
    if (s.status[i] == kDone) history.append(reinterpret_cast<const char*>(s.seen[i]), kKeys);
  }
  history.append(reinterpret_cast<const char*>(s.refused), sizeof s.refused);
  history.append(reinterpret_cast<const char*>(end), kKeys);
  if (!judged_.insert(hash_of(history.data(), history.size())).second) return true;
  searched_.clear();
  Byte values[kKeys] = {};
  return search(s, 0, values, end);
}

bool Explorer::search(const State& s, uint32_t done, Byte* values, const Byte* end) {
  uint64_t seen = done;
  for (size_t key = 0; key < kKeys; ++key) seen = seen << 8 | values[key];
  if (!searched_.insert(seen).second) return false;
  bool all = std::equal(values, values + kKeys, end);
  for (Byte i = 0; i < model_.operations(); ++i) {
    const Operation& operation = model_.operation(i);
    const bool counts = operation.keys != 0 && (is_update(operation.kind) || s.status[i] == kDone);
    if ((done >> i & 1) != 0 || !counts || s.status[i] == kIdle) continue;
    all = all && s.status[i] != kDone;
    bool next = true;  // all that ended before it began come first
    for (Byte j = 0; j < model_.operations(); ++j) {
      if ((s.before[i] >> j & 1) != 0 && model_.operation(j).keys != 0) next = next && (done >> j & 1) != 0;
    }
    if (!next) continue;
    Byte after[kKeys];
    std::copy_n(values, kKeys, after);
    bool holds = true;
    for (Byte key = 0; key < kKeys; ++key) {
      if ((operation.required >> key & 1) != 0) holds = holds && values[key] == operation.expected;
    }
    next = holds == (s.refused[i] == 0);
    for (Byte key = 0; key < kKeys; ++key) {
      if ((operation.keys >> key & 1) == 0 || s.refused[i] != 0) continue;
      if (is_update(operation.kind)) after[key] = value_of(i);
      next = next && (is_update(operation.kind) || s.seen[i][key] == values[key]);
    }
    if (next && search(s, done | 1u << i, after, end)) return true;
  }
  return all;
}

bool Explorer::fail(const std::string& what) {
  result_.wrong = what;
  for (const Step& step : path_) result_.wrong += "\n  thread " + std::to_string(step.thread) + ": " + step.note;
  return false;
}

std::string Explorer::trace(const State& s) const {
  constexpr const char* kNames[] = {"put", "conditional put", "batch", "get", "scan", "offload"};
  std::string text;
  for (Byte i = 0; i < model_.operations(); ++i) {
    const Operation& operation = model_.operation(i);
    text += std::string(" ") + kNames[static_cast<size_t>(operation.kind)];
    for (Byte key = 0; key < kKeys; ++key) {
      if ((operation.keys >> key & 1) == 0) continue;
      const Byte value = is_update(operation.kind) ? value_of(i) : s.seen[i][key];
      text += " k" + std::to_string(key) + "=" + std::to_string(value);
    }
    if (operation.required != 0) text += s.refused[i] != 0 ? " (refused)" : " (conditional)";
    text += s.status[i] == kDone ? ";" : s.status[i] == kRunning ? " (begun);" : " (not begun);";
  }
  text += "\n found:";
  for (Byte key = 0; key < kKeys; ++key) {
    text += " k" + std::to_string(key) + "=" + std::to_string(model_.recovered(s, key)) + "/" +
            std::to_string(model_.final_value(s, key));
  }
  return text;
}

}  // namespace bonsai::index::model
