// SPDX-License-Identifier: Apache-2.0
// Batches: publish every node invisibly, make one record of them durable, then become visible by one exchange.
//
// Items are published in key order, so that of two batches that wait for each other's keys one always precedes: helping
// goes to strictly greater keys and so ends. A node of a batch that is still publishing is the head of its chain,
// because no other node may be pushed on top of it. So a helper finds out from the head whether an item is in place
// already, and its own exchange fails if the head has changed since. The record names the tokens of the nodes in their
// chains; it is written when all nodes are in their chains.
//
// Conditions. An item's conditions are judged by the update on which its node is then pushed, so the exchange of the
// word confirms them, and from then on nobody can change the key. They all hold when every node is in place: that is
// decided by one exchange of the cell, before the record is written, as is a refusal. A key that is only checked has an
// item, and a node, too.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "index/index.h"

namespace bonsai::index {

using base::Key;
using base::step;

namespace {

[[maybe_unused]] bool keys_rise(const Batch& batch) {
  const auto fall = [](const Batch::Item& a, const Batch::Item& b) { return a.key >= b.key; };
  return std::adjacent_find(batch.items.begin(), batch.items.end(), fall) == batch.items.end();
}

}  // namespace

// A batch that was begun must be completed, since its nodes block other writers. So each owner first reserves log
// space: one segment of those that only owners take, or as many as a large record needs. Then its record fits, however
// full the log becomes.
bool Index::admit(Batch* batch) {
  if (batch->admitted) return true;
  BONSAI_INVARIANT(!batch->items.empty());
  BONSAI_SLOW_INVARIANT(keys_rise(*batch));
  persist::Log::Packing packing(log_);
  batch->pack(&packing);
  const uint32_t owners = batch_owners_.fetch_add(1) + 1;
  batch->admitted =
      owners <= kBatchesMax &&
      (packing.segments() > 1 ? log_.take(packing.segments(), &batch->log_segments) == persist::Log::Result::kOk
                              : owners <= log_.segments_for_batches() && owners <= log_.segments_free());
  if (!batch->admitted) batch_owners_.fetch_sub(1);
  return batch->admitted;
}

// Requires: of a batch that is not admitted, that it does not try again.
void Index::dismiss(Batch* batch) {
  if (std::exchange(batch->admitted, false)) {
    BONSAI_INVARIANT(batch_owners_.fetch_sub(1) > 0);
    if (!batch->begun() || Batch::is_refused(batch->cell.load())) log_.give_back(batch->log_segments);
  } else {
    log_.want_none();
  }
}

Index::Outcome Index::write(Batch* batch) {
  if (!admit(batch)) return Outcome::kLogFull;
  const Outcome outcome = complete(batch, persist::Log::Use::kBatch);
  if (outcome != Outcome::kDone) return outcome;
  versions_.settle(batch);
  BONSAI_INVARIANT(batch->cell.load() >= kVersionFirst);
  dismiss(batch);
  return Outcome::kDone;
}

// Brings a batch from publishing to ready. Any thread may do it, several at once too.
Index::Outcome Index::complete(Batch* batch, persist::Log::Use use) {
  for (size_t i = batch->placed.load(std::memory_order_relaxed); i < batch->items.size(); ++i) {
    const uint64_t cell = batch->cell.load(std::memory_order_seq_cst);
    if (cell == Batch::kHolds) break;
    if (cell != Batch::kPublishing) return Outcome::kDone;
    if (const Outcome outcome = publish_item(batch, i); outcome != Outcome::kDone) return outcome;
    batch->placed.store(i + 1, std::memory_order_relaxed);
  }
  if (batch->conditional()) {
    step("batch holds");
    uint64_t publishing = Batch::kPublishing;
    if (!batch->cell.compare_exchange_strong(publishing, Batch::kHolds) && publishing != Batch::kHolds)
      return Outcome::kDone;
  }
  return make_durable(batch, use);
}

bool Index::give_up(Batch* batch) {
  uint64_t publishing = Batch::kPublishing;
  return batch->conditional() && batch->cell.compare_exchange_strong(publishing, Batch::refused(Refusal::kGivenUp, 0));
}

Index::Outcome Index::publish_item(Batch* batch, size_t i) {
  Batch::Item& item = batch->items[i];
  bool done = false;
  while (!done) {
    if (item.node.load(std::memory_order_seq_cst) != nullptr) return Outcome::kDone;
    if (const Outcome outcome = push_item(batch, i, &done); outcome != Outcome::kDone) return outcome;
  }
  return Outcome::kDone;
}

// One attempt; *done when the item is in place or the batch complete.
Index::Outcome Index::push_item(Batch* batch, size_t i, bool* done) {
  Batch::Item* const item = &batch->items[i];
  const Key key = Key::of(item->key);
  const uint64_t hash = key.hash();
  Bnode* bnode = current_bnode(key);
  // A table that is wide for a batch's sake, whose nodes are elsewhere, has no arena.
  Slots* slots =
      slots_of(bnode, bnode->capacity() <= Slots::kCapacityMax ? Node::arena_bytes(item->key, item->value) : 0);
  const Slots::Place place = slots->find(key, hash);
  Node* head = place.head();
  uint64_t gen = bnode->gen();
  if (head == nullptr && !place.frozen()) {
    const HeadBelow below = unsettled_below(bnode, key, hash);
    head = below.head;
    gen = below.gen;
  }
  *done = true;
  if (head != nullptr && head->batch() == batch) {
    Node* unset = nullptr;
    item->node.compare_exchange_strong(unset, head);
    return Outcome::kDone;
  }
  // Read after the head: if the batch is still publishing now, its node is not below this head.
  if (batch->cell.load(std::memory_order_seq_cst) != Batch::kPublishing) return Outcome::kDone;
  *done = false;
  BONSAI_SLOW_INVARIANT(bnode->covers(key));
  if (head != nullptr) {
    if (const Outcome outcome = settle_head(head, gen); outcome != Outcome::kDone) return outcome;
  }
  if (item->conditions_count != 0 && refuse(batch, *item, bnode, place.head(), hash)) {
    *done = true;
    return Outcome::kDone;
  }
  // A batch begins only where it has room, because then it can wait for it.
  const Replacer::ToPublish left{std::span<const Batch::Item>(batch->items).subspan(i), batch->begun()};
  const bool tight = !left.begun && slots->room() < left.below(bnode->hi()).size();
  if (tight || no_room(*bnode, *slots, place))
    return replacer_.make_room(bnode, &left) ? Outcome::kDone : Outcome::kStalled;
  if (place.head() != nullptr) prune(slots, place.index, place.head());
  const auto flags = static_cast<uint8_t>(item->flags | (batch->conditional() ? Node::kConditional : 0));
  Node* node = Node::make(item->key, item->value, flags, batch, bnode->gen());
  node->token = take_token(bnode, slots, 0).token;
  if (!push(bnode, slots, place, hash, node)) {
    Node::destroy(node);
    return Outcome::kDone;
  }
  Node* unset = nullptr;
  item->node.compare_exchange_strong(unset, node);
  *done = true;
  return Outcome::kDone;
}

// Requires: every item is in place, so that all tokens are final. Several helpers may write a record each; one counts.
Index::Outcome Index::make_durable(Batch* batch, persist::Log::Use use) {
  if (batch->segment.load(std::memory_order_seq_cst) == persist::kNoSegment) {
    std::vector<persist::Update> updates;
    updates.reserve(batch->items.size());
    for (const Batch::Item& item : batch->items) {
      if ((item.flags & Node::kCheck) != 0) continue;
      const bool tombstone = (item.flags & Node::kTombstone) != 0;
      BONSAI_INVARIANT(item.node.load() != nullptr);
      const Node& node = *item.node.load();
      updates.push_back({item.key, item.value, node.gen(), node.token, tombstone, (item.flags & Node::kLarge) != 0});
    }
    step("persist batch record");
    if (!batch->log_segments.empty()) {
      if (const Outcome outcome = make_shares_durable(batch, updates); outcome != Outcome::kDone) return outcome;
    } else {
      uint32_t segment = persist::kNoSegment;
      const Outcome outcome = outcome_of(log_.append_batch(updates, use, &segment));
      if (outcome != Outcome::kDone) return outcome;
      uint32_t unset = persist::kNoSegment;
      if (!batch->segment.compare_exchange_strong(unset, segment)) {
        log_.release(segment, static_cast<int64_t>(updates.size()));
      }
    }
  }
  BONSAI_INVARIANT(batch->segment.load() != persist::kNoSegment);  // durable before visible
  step("batch ready");
  uint64_t before = batch->conditional() ? Batch::kHolds : Batch::kPublishing;
  batch->cell.compare_exchange_strong(before, Batch::kReady);
  return Outcome::kDone;
}

// Only one thread gets the space, so there is one record; its writer waits for no other thread.
Index::Outcome Index::make_shares_durable(Batch* batch, std::span<const persist::Update> updates) {
  if (batch->persisting.exchange(true)) return Outcome::kStalled;
  uint32_t segment = persist::kNoSegment;
  const Outcome outcome = outcome_of(log_.append_shares(updates, batch->log_segments, &segment));
  if (outcome == Outcome::kDone) {
    batch->segment.store(segment);
  } else {
    batch->persisting.store(false);
  }
  return outcome;
}

}  // namespace bonsai::index
