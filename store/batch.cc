// SPDX-License-Identifier: Apache-2.0
// A WriteBatch on its way to the index: its size is checked, the index's batch is made from it and written.
#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "store/db_impl.h"
#include "store/stall.h"

namespace bonsai::store {

using index::Index;

// The effective updates in key order: the last one of each key; between them the keys that are only checked.
DbImpl::Ordered DbImpl::in_order(const WriteBatch& batch) {
  Ordered order;
  order.reserve(batch.Count());
  for (const WriteBatch::Update& update : batch.updates()) order.push_back({update.key, &update});
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  const auto shadowed = [](const auto& a, const auto& b) { return a.key == b.key; };
  order.erase(order.begin(), std::unique(order.rbegin(), order.rend(), shadowed).base());
  BONSAI_CHECK(order.empty() == (batch.Count() == 0));
  if (!batch.requirements().empty()) add_requirements(batch, &order);
  BONSAI_SLOW_INVARIANT(std::is_sorted(order.begin(), order.end(), [](auto& a, auto& b) { return a.key < b.key; }));
  return order;
}

// The indices of the batch's conditions, in the order of their keys.
std::vector<uint32_t> DbImpl::requirements_in_order(const WriteBatch& batch) {
  const auto& all = batch.requirements();
  std::vector<uint32_t> order(all.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return all[a].key < all[b].key; });
  return order;
}

void DbImpl::add_requirements(const WriteBatch& batch, Ordered* order) {
  const std::vector<uint32_t> required = requirements_in_order(batch);
  Ordered merged;
  merged.reserve(order->size() + required.size());
  auto update = order->begin();
  for (uint32_t i = 0; i < required.size(); ++i) {
    const std::string_view key = batch.requirements()[required[i]].key;
    while (update != order->end() && update->key <= key) merged.push_back(*update++);
    if (merged.empty() || merged.back().key != key) merged.push_back({key, nullptr});
    if (merged.back().conditions_count++ == 0) merged.back().conditions_first = i;
  }
  merged.insert(merged.end(), update, order->end());
  *order = std::move(merged);
}

// Approximate DRAM that a batch takes: a copy, the nodes, and wider tables.
size_t DbImpl::dram_bytes_of(const WriteBatch& batch) {
  constexpr size_t kNodeBytes = 128;
  size_t bytes = 0;
  for (const WriteBatch::Update& update : batch.updates()) {
    bytes += kNodeBytes + 2 * (update.key.size() + std::min(update.value.size(), kNodeBytes * 32));
  }
  for (const WriteBatch::Requirement& each : batch.requirements()) {
    bytes += kNodeBytes + 2 * (each.key.size() + each.value.size());
  }
  return bytes;
}

// Whether the log can take the batch. `bytes`: as WriteBatch::LogBytes counts.
Status DbImpl::check_size(const Ordered& updates) const {
  persist::Log::Packing packing(*tiers_->log);
  uint64_t bytes = 0;
  for (const Planned& planned : updates) {
    const WriteBatch::Update* update = planned.update;
    if (update == nullptr) continue;
    const bool large = update->value.size() >= large_value_bytes_min_;
    const uint64_t value_bytes = update->is_delete ? 0 : large ? sizeof(persist::LargeRef) : update->value.size();
    packing.add(update->key.size() + value_bytes + persist::kUpdateOverheadBytesMax);
    bytes += update->key.size() + value_bytes + persist::kUpdateOverheadBytesMax;
  }
  if (packing.segments() <= std::max<size_t>(1, tiers_->log->batch_segments_max())) return Status::OK();
  return Status::InvalidArgument("the batch takes up to " + std::to_string(bytes) +
                                 " bytes of log; any batch of up to " + std::to_string(BatchBytesMax()) +
                                 " bytes fits; split it or create the pool with larger log_bytes");
}

uint64_t DbImpl::BatchBytesMax() const { return tiers_->log->batch_bytes_max(); }

// Writes large values, and copies the rest into the batch's own storage: keys and values, then the conditions' values.
Status DbImpl::make_batch(const Ordered& updates, const WriteBatch& batch, std::vector<persist::LargeRef>* large,
                          index::Batch** made, Stall* stall) {
  BONSAI_CHECK(!updates.empty());
  struct Part {
    size_t key_offset, key_bytes, value_bytes;
    uint8_t flags;
  };
  std::vector<Part> parts;
  std::string storage;
  parts.reserve(updates.size());
  for (const Planned& planned : updates) {
    Part part{storage.size(), planned.key.size(), 0, index::Node::kCheck};
    storage += planned.key;
    if (const WriteBatch::Update* update = planned.update) {
      part.flags = update->is_delete ? index::Node::kTombstone : uint8_t{0};
      if (!update->is_delete && update->value.size() >= large_value_bytes_min_) {
        persist::LargeRef ref;
        BONSAI_RETURN_IF_ERROR(store_large(update->value, &ref, stall));
        large->push_back(ref);
        part.flags |= index::Node::kLarge;
        part.value_bytes = sizeof ref;
        storage += persist::bytes_of(ref);
      } else if (!update->is_delete) {
        part.value_bytes = update->value.size();
        storage += update->value;
      }
    }
    parts.push_back(part);
  }
  std::vector<index::Condition> conditions;
  size_t value_offset = storage.size();
  if (!batch.requirements().empty()) {
    for (const uint32_t number : requirements_in_order(batch)) {
      conditions.push_back(condition_of(batch.requirements()[number], number));
      storage += conditions.back().value;
    }
  }
  *made = new index::Batch(parts.size(), std::move(storage));
  const std::string_view bytes = (*made)->storage;
  for (size_t i = 0; i < parts.size(); ++i) {
    BONSAI_CHECK(parts[i].key_offset + parts[i].key_bytes + parts[i].value_bytes <= bytes.size());
    index::Batch::Item& item = (*made)->items[i];
    item.key = bytes.substr(parts[i].key_offset, parts[i].key_bytes);
    item.value = bytes.substr(parts[i].key_offset + parts[i].key_bytes, parts[i].value_bytes);
    item.flags = parts[i].flags;
    item.conditions_first = updates[i].conditions_first;
    item.conditions_count = updates[i].conditions_count;
  }
  for (index::Condition& condition : conditions) {
    condition.value = bytes.substr(value_offset, condition.value.size());
    value_offset += condition.value.size();
  }
  (*made)->conditions = std::move(conditions);
  return Status::OK();
}

// A batch that was begun is not given up at the stall bound: its log space is set aside, so it only waits for others.
// With conditions it can be, until these are known to hold.
Status DbImpl::write_with_pressure(index::Batch* batch, Stall* stall) {
  BONSAI_CHECK(!batch->items.empty());
  constexpr int kBoundsMax = 10;
  int bounds = 0;
  for (;;) {
    bool begun = false;
    {
      const auto guard = tiers_->epochs->enter();
      if (tiers_->index->write(batch) == Index::Outcome::kDone) return Status::OK();
      begun = batch->items[0].node.load() != nullptr;
    }
    if (stall->wait(begun)) continue;
    if (begun && ++bounds < kBoundsMax) {
      stall->progress();
      continue;
    }
    begun = begun && !Index::give_up(batch);
    if (!begun) tiers_->index->dismiss(batch);
    return stall->why(begun);
  }
}

}  // namespace bonsai::store
