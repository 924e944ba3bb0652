// Put: reserve a token, persist the record, publish the node, give it a version.
#include "base/check.h"
#include "index/index.h"

namespace bonsai::index {

using base::Key;
using base::mutant;
using base::step;

// The newest installed successor of a bnode that the tree has named.
Bnode* Index::newest(Bnode* bnode, const Key& key) {
  for (Layer* layer = bnode->layer(); layer != nullptr && layer->installed.load(std::memory_order_seq_cst);
       layer = bnode->layer()) {
    bnode = layer->new_for(key);
  }
  return bnode;
}

// The bnode that takes updates of `key` now.
Bnode* Index::live(const Key& key) const {
  step("load index");
  return newest(tree_.find(key), key);
}

Slots* Index::slots_of(Bnode* bnode) {
  bool made = false;
  Slots* slots = bnode->slots_or_make(&made);
  if (made) enqueue_dirty(bnode);
  return slots;
}

// Gives a head its version; completes the batch that it belongs to if that is still being published.
Index::Outcome Index::settle_head(Node* head) {
  while (versions_.settle(head) == kNoVersion) {
    if (const Outcome outcome = complete(head->batch(), persist::Log::Use::kReserve); outcome != Outcome::kDone)
      return outcome;
  }
  return Outcome::kDone;
}

// The newest head of the key's chains in frozen predecessors, while that may still be without a version.
Node* Index::unsettled_below(Bnode* bnode, const Key& key, uint64_t hash, uint64_t* gen) const {
  const Bnode* old = bnode;
  for (const Layer* layer = old->base().layer(); layer != nullptr && !layer->settled.load(std::memory_order_seq_cst);
       layer = old->base().layer()) {
    old = layer->old_for(key);
    const Slots* slots = old->slots();
    Node* head = slots != nullptr ? slots->find(key, hash).head() : nullptr;
    *gen = old->gen();
    if (head != nullptr) return head;
  }
  return nullptr;
}

// True if an update that belongs at `place` must go to a successor.
bool Index::no_room(const Bnode& bnode, const Slots& slots, const Slots::Place& place) const {
  return place.index == Slots::kNowhere || place.frozen() || (place.head() == nullptr && slots.crowded()) ||
         bnode.tokens_used() >= config_.tokens_max;
}

// A put waits when its bnode's predecessor is not offloaded yet, so that layers do not pile up. A begun
// batch must not: its own nodes may be what that offload waits for.
Index::Outcome Index::make_room(Bnode* bnode, For whom) {
  Layer* layer = bnode->layer();
  if (layer == nullptr) {
    if (!plan(bnode, false) && (whom == For::kPut || !plan_on_young(bnode))) {
      return bnode->layer() != nullptr ? Outcome::kDone : Outcome::kStalled;
    }
    layer = bnode->layer();
    install(layer);
    enqueue_urgent(layer);
    return Outcome::kDone;
  }
  install(layer);
  return Outcome::kDone;
}

Index::Outcome Index::put(Put* put) {
  const uint64_t hash = put->key.hash();
  for (;;) {
    Bnode* bnode = live(put->key);
    Slots* slots = slots_of(bnode);
    const Slots::Place place = slots->find(put->key, hash);
    if (no_room(*bnode, *slots, place)) {
      if (const Outcome outcome = make_room(bnode, For::kPut); outcome != Outcome::kDone) return outcome;
      continue;
    }
    step("reserve token");
    const uint32_t token = bnode->reserve_token();
    uint32_t segment = put->record_segment;
    const auto persist_record = [&] {
      step("persist record");
      persist::Update update{put->key.bytes, put->value, bnode->gen(), token, put->tombstone, put->large};
      const auto use = put->persisted() ? persist::Log::Use::kReserve : put->use;
      return log_.append(update, use, &segment) == persist::Log::Result::kOk;
    };
    const bool late = mutant(kPublishBeforePersist);
    const bool reuse = mutant(kRetryReusesRecord) && put->persisted();
    if (!late && !reuse) {
      if (!persist_record()) return Outcome::kLogFull;
      if (put->persisted()) log_.release(put->record_segment);
      put->record_segment = segment;
    }
    const uint8_t flags =
        static_cast<uint8_t>((put->tombstone ? Node::kTombstone : 0) | (put->large ? Node::kLarge : 0));
    Node* node = Node::make(put->key.bytes, put->value, flags, nullptr);
    node->token = token;
    node->segment = segment;
    const Push pushed = publish(bnode, slots, put->key, hash, node);
    if (late) static_cast<void>(persist_record());
    if (pushed == Push::kPublished) return Outcome::kDone;
    Node::destroy(node);
    if (pushed == Push::kStalled) return Outcome::kStalled;
    if (pushed == Push::kSuperseded) {
      if (segment != persist::kNoSegment) log_.release(segment);
      if (put->large) log_.when_durable([this, ref = persist::large_ref(put->value)] { large_.free(ref); });
      return Outcome::kDone;
    }
    if (const Outcome outcome = make_room(bnode, For::kPut); outcome != Outcome::kDone) return outcome;
  }
}

void Index::abandon(const Put& put) {
  if (put.persisted()) log_.release(put.record_segment);
}

// Requires: the node's record is durable.
Index::Push Index::publish(Bnode* bnode, Slots* slots, const Key& key, uint64_t hash, Node* node) {
  uint64_t early_version = kNoVersion;
  for (;;) {
    const Slots::Place place = slots->find(key, hash);
    if (place.index == Slots::kNowhere) return Push::kFull;
    Node* head = place.head();
    if (head != nullptr) {
      const bool superseded = head->token > node->token && !mutant(kNoSupersedeTest);
      const bool help = !mutant(superseded ? kSupersededNoHelp : kNoHelpBeforePush);
      const bool pending = head->in_batch() && head->batch()->cell.load() == Batch::kPublishing;
      if (pending ? !mutant(kBatchNotHelped) : help) {
        if (settle_head(head) != Outcome::kDone) return Push::kStalled;
      }
      if (superseded) return Push::kSuperseded;
    }
    if (place.frozen() && !mutant(kFreezeIgnored)) return Push::kFrozen;
    if (head == nullptr) {
      uint64_t gen = 0;
      Node* below = unsettled_below(bnode, key, hash, &gen);
      if (below != nullptr && settle_head(below) != Outcome::kDone) return Push::kStalled;
    }
    node->next.store(head, std::memory_order_relaxed);
    if (mutant(kVersionBeforePublish)) early_version = versions_.now();
    step("publish");
    if (!slots->push(place, node, hash)) continue;
    step("published");
    if (early_version != kNoVersion) {
      uint64_t unset = kNoVersion;
      node->version.compare_exchange_strong(unset, early_version);
    } else if (!mutant(kReturnBeforeVersion)) {
      versions_.settle(node);
    }
    prune(slots, place.index, node);
    return Push::kPublished;
  }
}

// Unlinks what no announced scan can pick. One pruner per chain; who finds it locked leaves the work to others.
void Index::prune(Slots* slots, uint32_t index, Node* own) {
  const bool reckless = mutant(kPruneFromOwnNode);
  if (own->next.load(std::memory_order_acquire) == nullptr) return;
  step("prune: lock");
  if (!reckless && !slots->try_lock(index)) return;
  Node* kept = reckless ? own : slots->head(index);
  step("prune: load version");
  if (kept->version.load(std::memory_order_acquire) == kNoVersion) kept = kept->next.load(std::memory_order_acquire);
  LiveScans live;
  if (kept != nullptr) versions_.load(&live);
  while (kept != nullptr) {
    step("prune: load next");
    Node* below = kept->next.load(std::memory_order_acquire);
    if (below == nullptr) break;
    if (live.need(below->version.load(std::memory_order_acquire), kept->version.load(std::memory_order_acquire))) {
      kept = below;
      continue;
    }
    step("prune: unlink");
    kept->next.store(below->next.load(std::memory_order_acquire), std::memory_order_release);
    drop(below);
  }
  if (!reckless) slots->unlock(index);
}

// Gives up an unlinked node: a durable newer record of its key has superseded its own.
void Index::drop(Node* node) {
  const uint32_t segment = node->in_batch() ? node->batch()->segment.load() : node->segment;
  if (segment != persist::kNoSegment) log_.release(segment);
  if (node->large() && !node->borrowed()) {
    log_.when_durable([this, ref = persist::large_ref(node->value())] { retire_large(ref); });
  }
  epochs_.retire(
      node, [](void* object, void*) { Node::destroy(static_cast<Node*>(object)); }, nullptr, node->dram_bytes());
}

}  // namespace bonsai::index
