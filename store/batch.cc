// SPDX-License-Identifier: Apache-2.0
// A WriteBatch on its way to the index: its size is checked, the index's batch is made from it and written.
#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "store/db_impl.h"
#include "store/stall.h"

namespace bonsai::store {

// The effective updates in key order: the last one of each key.
DbImpl::Ordered DbImpl::in_order(const WriteBatch& batch) {
  Ordered order;
  order.reserve(batch.Count());
  for (const WriteBatch::Update& update : batch.updates()) order.push_back(&update);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->key < b->key; });
  const auto shadowed = [](const auto* a, const auto* b) { return a->key == b->key; };
  order.erase(order.begin(), std::unique(order.rbegin(), order.rend(), shadowed).base());
  BONSAI_CHECK(order.empty() == (batch.Count() == 0));
  BONSAI_SLOW_INVARIANT(std::is_sorted(order.begin(), order.end(), [](auto* a, auto* b) { return a->key < b->key; }));
  return order;
}

// Whether the log can take the batch. `bytes`: as WriteBatch::LogBytes counts.
Status DbImpl::check_size(const Ordered& updates) const {
  persist::Log::Packing packing(*tiers_->log);
  uint64_t bytes = 0;
  for (const WriteBatch::Update* update : updates) {
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

// Writes large values, and copies the rest into the batch's own storage.
Status DbImpl::make_batch(const Ordered& updates, std::vector<persist::LargeRef>* large, index::Batch** made,
                          Stall* stall) {
  BONSAI_CHECK(!updates.empty());
  struct Part {
    size_t key_offset, key_bytes, value_bytes;
    uint8_t flags;
  };
  std::vector<Part> parts;
  std::string storage;
  parts.reserve(updates.size());
  for (const WriteBatch::Update* each : updates) {
    const WriteBatch::Update& update = *each;
    Part part{storage.size(), update.key.size(), update.value.size(),
              update.is_delete ? index::Node::kTombstone : uint8_t{0}};
    storage += update.key;
    if (!update.is_delete && update.value.size() >= large_value_bytes_min_) {
      persist::LargeRef ref;
      BONSAI_RETURN_IF_ERROR(store_large(update.value, &ref, stall));
      large->push_back(ref);
      part.flags |= index::Node::kLarge;
      part.value_bytes = sizeof ref;
      storage += persist::bytes_of(ref);
    } else if (!update.is_delete) {
      storage += update.value;
    } else {
      part.value_bytes = 0;
    }
    parts.push_back(part);
  }
  *made = new index::Batch(parts.size(), std::move(storage));
  const std::string_view bytes = (*made)->storage;
  for (size_t i = 0; i < parts.size(); ++i) {
    BONSAI_CHECK(parts[i].key_offset + parts[i].key_bytes + parts[i].value_bytes <= bytes.size());
    index::Batch::Item& item = (*made)->items[i];
    item.key = bytes.substr(parts[i].key_offset, parts[i].key_bytes);
    item.value = bytes.substr(parts[i].key_offset + parts[i].key_bytes, parts[i].value_bytes);
    item.flags = parts[i].flags;
  }
  return Status::OK();
}

// A batch that was begun is not given up at the stall bound: its log space is set aside, so it only waits for others.
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
    if (!begun) tiers_->index->dismiss(batch);
    return stall->why(begun);
  }
}

}  // namespace bonsai::store
