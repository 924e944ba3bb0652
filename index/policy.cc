// SPDX-License-Identifier: Apache-2.0
#include "index/policy.h"

#include <algorithm>
#include <bit>

#include "base/narrow.h"
#include "index/bnode.h"
#include "persist/fences.h"

namespace bonsai::index::policy {

Shape Shape::of(const persist::Dnode& dnode) {
  Shape shape;
  const persist::Runs& runs = dnode.runs();
  shape.has_large = dnode.has_large();
  shape.runs = runs.size();
  if (runs.empty()) return shape;
  for (const persist::RunDesc& run : runs) shape.all = shape.all + Weight{run.count, run.bytes};
  shape.body = {runs.front().count, runs.front().bytes};
  shape.newest_entries = runs.back().count;
  return shape;
}

Limits limits_now(const Limits& limits, bool space_short) {
  constexpr uint64_t kEntriesTimes = 4;
  Limits now = limits;
  if (space_short) now.dnode_entries_max *= kEntriesTimes;
  return now;
}

bool exceeds(const Weight& weight, const Limits& limits, uint64_t dnodes) {
  return weight.entries > dnodes * limits.dnode_entries_max || weight.bytes > dnodes * limits.dnode_bytes_max;
}

namespace {

// The most that may be appended to a body, in bytes or entries: until hidden entries come to three quarters of the
// others. A higher bound would take more space, a lower one would write more. If most appended entries are fresh, there
// is no bound.
uint64_t appended_max(uint64_t body, double fresh) {
  constexpr double kHiddenMax = 0.75;
  const double hides = 1 - fresh * (1 + kHiddenMax);
  if (hides <= 0) return UINT64_MAX;
  return static_cast<uint64_t>(static_cast<double>(body) * kHiddenMax / hides);
}

// The share of the entries appended to a body, updates included, that hide nothing.
double fresh_share(uint64_t body, const Weight& all, const Weight& left) {
  if (all.entries <= body || left.entries <= body) return 0;
  return static_cast<double>(left.entries - body) / static_cast<double>(all.entries - body);
}

// A table doubles when it fills up, and may become wide as long as its updates fit into a dnode: space is set aside for
// a few of those, so that a full pool can still be offloaded. It stays wide while the log is what ranges wait for; with
// no such need it becomes a usual one, in which a scan finds few updates close together.
uint32_t capacity_after(const Facts& facts, const Limits& limits) {
  const Table& table = facts.table;
  const bool wide = facts.updates.bytes <= limits.dnode_bytes_max && (table.above_high_mark || facts.log_low);
  const uint32_t wide_max = facts.rising ? Slots::kRisingCapacityMax : Slots::kWideCapacityMax;
  const uint32_t capacity_max = wide ? wide_max : Slots::kCapacityMax;
  const uint32_t capacity = std::min(table.capacity, capacity_max);
  if (!table.exists) return capacity;
  if (table.above_high_mark) {
    const bool widens = capacity < Slots::kCapacityMax || 2 * facts.updates.bytes <= limits.dnode_bytes_max;
    return std::min(widens ? capacity * 2 : capacity, capacity_max);
  }
  return table.used < capacity / 8 * 3 ? std::max(capacity / 2, Slots::kCapacityMin) : capacity;
}

}  // namespace

bool absorbs_newest(const Shape& dnode, uint64_t updates, const Limits& limits, double fresh) {
  if (dnode.runs < 2 || 2 * dnode.newest_entries > 3 * updates) return false;
  const uint64_t body = dnode.body.entries;
  const uint64_t appended = dnode.all.entries - body + updates;
  const uint64_t room = limits.entries_appended_max() - std::min<uint64_t>(limits.entries_appended_max(), body);
  const uint64_t most = std::min(room, appended_max(body, fresh));
  const uint64_t to_come = appended < most ? (most - appended) / updates : 0;
  return dnode.runs + 1 + to_come > persist::kRunsMax;
}

// Dnodes with large values are always compacted, so that no run names a value whose space was given back.
bool may_append(const Shape& dnode, const Weight& updates, const Limits& limits, double fresh) {
  if (dnode.runs == 0 || dnode.has_large || updates.entries == 0) return false;
  const Weight all = dnode.all + updates;
  return all.bytes <= limits.dnode_bytes_max &&  // what a compaction needs at once has a bound
         all.entries <= limits.entries_appended_max() &&
         all.bytes - dnode.body.bytes <= appended_max(dnode.body.bytes, fresh) &&
         all.entries - dnode.body.entries <= appended_max(dnode.body.entries, fresh) &&
         (dnode.runs < persist::kRunsMax || absorbs_newest(dnode, updates.entries, limits, fresh));
}

bool is_compactable(size_t runs, bool has_updates) { return runs > 1 || has_updates; }

// Overwritten entries count twice until the dnode is compacted. So this is the time to find out whether it is too
// large, and whether compaction would give space back. An estimate reads NVM. Where that is a round trip, dnodes that
// are small, or hardly larger than they should be, are compacted without one.
bool wants_a_look(const Facts& facts, const Limits& limits) {
  const auto most = [](uint64_t n) { return n - n / 9; };
  const Weight all = facts.all();
  return all.entries > 0 && (!facts.carries || exceeds({most(all.entries), most(all.bytes)}, limits)) &&
         !may_append(facts.dnode, facts.updates, limits, 0);
}

Plan plan(const Facts& facts, const Limits& limits, const std::optional<Weight>& left) {
  const auto more = [](uint64_t n) { return n + n / 8; };  // lest a part that is no sample mislead
  const Weight all = facts.all();
  Plan plan;
  if (left) plan.fresh = fresh_share(facts.dnode.body.entries, all, *left);
  const bool compacts = !may_append(facts.dnode, facts.updates, limits, plan.fresh);
  plan.splits =
      compacts && exceeds(all, limits) &&
      (facts.rising || exceeds(all, limits, 2) || (left && exceeds({more(left->entries), more(left->bytes)}, limits)));
  plan.merges = !plan.splits && all.entries < limits.dnode_entries_max / 4 && all.bytes < limits.dnode_bytes_max / 4;
  plan.capacity = capacity_after(facts, limits);
  return plan;
}

bool fit_together(const Weight& a, const Weight& b, const Limits& limits) {
  const Weight both = a + b;
  return both.entries <= limits.dnode_entries_max / 2 && both.bytes <= limits.dnode_bytes_max / 2;
}

// If keys come in rising order, the last part gets the wide table: the others may get keys of slower writers, but
// fewer. Else each part gets its share of the keys.
uint32_t capacity_of_part(const Plan& plan, bool rising, size_t parts, bool last) {
  if (rising && last) return plan.capacity;
  const uint32_t share = rising ? 0 : std::bit_ceil(plan.capacity / base::checked_narrow<uint32_t>(parts));
  return std::max(std::min(plan.capacity, Slots::kCapacityMax), share);
}

// Tables double, so that a range that is filled by batches again and again gets few layers.
uint32_t capacity_for_batch(const Table& table, bool is_cut, uint64_t items) {
  const uint32_t capacity_min = std::min(table.above_high_mark ? 2 * table.capacity : table.capacity,
                                         is_cut ? Slots::kCapacityMax : Slots::kBatchCapacityMax);
  const uint64_t wanted = std::bit_ceil(items + items / 2);
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, capacity_min, Slots::kBatchCapacityMax));
}

namespace {

std::vector<std::string> cuts_when_full(std::span<const Sized> keys, const Limits& limits) {
  const uint64_t entries_wanted = limits.dnode_entries_max * 9 / 10;
  const uint64_t bytes_wanted = limits.dnode_bytes_max * 9 / 10;
  std::vector<std::string> cuts;
  Weight part;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (part.entries > 0 && (part.entries == entries_wanted || part.bytes + keys[i].bytes > bytes_wanted)) {
      cuts.push_back(persist::fence_between(keys[i - 1].key.bytes, keys[i].key.bytes));
      part = {};
    }
    part = part + Weight{1, keys[i].bytes};
  }
  return cuts;
}

std::vector<std::string> cuts_by_weight(std::span<const Sized> keys, const Limits& limits) {
  Weight all{keys.size(), 0};
  for (const Sized& key : keys) all.bytes += key.bytes;
  if (!exceeds(all, limits)) return {};
  const uint64_t entries_wanted = limits.dnode_entries_max * 2 / 3;
  const uint64_t bytes_wanted = limits.dnode_bytes_max * 2 / 3;
  const uint64_t parts =
      std::max((all.entries + entries_wanted - 1) / entries_wanted, (all.bytes + bytes_wanted - 1) / bytes_wanted);
  std::vector<std::string> cuts;
  uint64_t weight = 0;  // of the keys so far, in units of 1/(2 * entries * bytes)
  for (size_t i = 0; i < keys.size() && cuts.size() + 1 < parts; ++i) {
    if (i > 0 && weight * parts >= 2 * all.entries * all.bytes * (cuts.size() + 1)) {
      cuts.push_back(persist::fence_between(keys[i - 1].key.bytes, keys[i].key.bytes));
    }
    weight += all.bytes + all.entries * keys[i].bytes;
  }
  return cuts;
}

}  // namespace

std::vector<std::string> cuts_of(std::span<const Sized> keys, bool rising, const Limits& limits) {
  return rising ? cuts_when_full(keys, limits) : cuts_by_weight(keys, limits);
}

}  // namespace bonsai::index::policy
