// SPDX-License-Identifier: Apache-2.0
// Put: reserve a token, persist the record, publish the node, give it a version.
#include <algorithm>
#include <array>
#include <bitset>
#include <utility>

#include "base/check.h"
#include "index/index.h"
#include "index/prefetch.h"

namespace bonsai::index {

using base::Key;
using base::step;

namespace {

// Finds, for each update of a group, the last one before it with the same key.
class EqualKeys {
 public:
  static constexpr size_t kNone = SIZE_MAX;
  // Index of the last equal key before keys[i]; kNone: none. Requires: called once for each i, from 0 on.
  size_t before(size_t i, std::span<const Key> keys, std::span<const uint64_t> hashes) {
    uint8_t& newest = newest_[hashes[i] % newest_.size()];
    below_[i] = std::exchange(newest, static_cast<uint8_t>(i + 1));
    for (size_t at = below_[i]; at != 0; at = below_[at - 1]) {
      if (hashes[at - 1] == hashes[i] && keys[at - 1] == keys[i]) return at - 1;
    }
    return kNone;
  }

 private:
  std::array<uint8_t, 256> newest_{};              // by a byte of the hash: one above the last index
  std::array<uint8_t, Index::kPutManyMax> below_;  // the one before it there
};

}  // namespace

// Updates that take the steps of the protocol together. A put alone is a group of one.
template <size_t kMax>
struct Index::Group {
  using Puts = std::span<Put, kMax == 1 ? 1 : std::dynamic_extent>;
  explicit Group(Puts all) : puts{all} {}

  const Puts puts;
  std::array<uint64_t, kMax> hashes;
  std::array<Bnode*, kMax> bnodes;  // null: it goes alone
  std::array<size_t, kMax> before;  // the one before it that has the same key, or kNone

  std::bitset<kMax> reserved;
  std::array<Reservation, kMax> reservations;
  Outcome durable = Outcome::kDone;  // whether the reserved ones are
};

// The newest installed successor of a bnode that the tree has named.
Bnode* Index::newest_successor(Bnode* bnode, const Key& key) {
  for (;;) {
    step("load layer");
    const Layer* layer = bnode->layer();
    if (layer == nullptr || !layer->installed.load(std::memory_order_seq_cst)) return bnode;
    bnode = layer->new_for(key);
  }
}

// The bnode that takes updates of `key` now.
Bnode* Index::current_bnode(const Key& key) const {
  step("load index");
  return newest_successor(tree_.find(key), key);
}

// current_bnode() for several keys, with their hashes; fetches what comes next, for all keys at a time.
void Index::current_bnodes(std::span<const Key> keys, Fetch fetch, std::span<uint64_t> hashes,
                           std::span<Bnode*> bnodes) const {
  for (size_t i = 0; i < keys.size(); ++i) hashes[i] = keys[i].hash();
  step("load index");
  tree_.find_many(keys, bnodes);
  for (size_t i = 0; i < keys.size(); ++i) {
    bnodes[i] = newest_successor(bnodes[i], keys[i]);
    if (fetch == Fetch::kUpdates) {
      Prefetch::to_update(*bnodes[i], hashes[i]);
    } else {
      Prefetch::to_get(*bnodes[i], hashes[i]);
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) Prefetch::first_node(*bnodes[i], hashes[i]);
}

Slots* Index::slots_of(Bnode* bnode, size_t node_bytes) {
  bool made = false;
  Slots* slots = bnode->slots_or_make(node_bytes, &made);
  if (made) {
    step("queue as dirty");
    queue_.enqueue(ReplaceQueue::Kind::kDirty, bnode);
  }
  return slots;
}

// Gives a head, in a bnode of generation `gen`, its version. Completes the batch that it belongs to if that is still
// being published; makes its record if it is pending.
Index::Outcome Index::settle_head(Node* head, uint64_t gen) {
  for (;;) {
    const uint64_t version = versions_.settle(head);
    if (is_settled(version)) [[likely]]
      return Outcome::kDone;
    const Outcome outcome =
        version == kPendingVersion ? make_durable(head, gen) : complete(head->batch(), persist::Log::Use::kReserve);
    if (outcome != Outcome::kDone) return outcome;
  }
}

// The newest head of the key's chains in frozen predecessors, while that may still be without a version. It suffices:
// it was pushed only after those below it had theirs.
Index::HeadBelow Index::unsettled_below(Bnode* bnode, const Key& key, uint64_t hash) const {
  const Bnode* old = bnode;
  for (const Layer* layer = old->base().layer(); layer != nullptr && !layer->settled.load(std::memory_order_seq_cst);
       layer = old->base().layer()) {
    old = layer->old_for(key);
    const Slots* slots = old->slots();
    Node* head = slots != nullptr ? slots->find(key, hash).head() : nullptr;
    if (head != nullptr) return {head, old->gen()};
  }
  return {};
}

// True if an update that belongs at `place` must go to a successor.
bool Index::no_room(const Bnode& bnode, const Slots& slots, const Slots::Place& place) const {
  return place.index == Slots::kNowhere || place.frozen() || (place.head() == nullptr && slots.full()) ||
         bnode.tokens_used() >= config_.tokens_max;
}

// Takes a place and a token in `bnode` for the update. False if there is no room (any more).
bool Index::reserve(Bnode* bnode, uint64_t hash, const Put& put, Reservation* reserved) {
  reserved->bnode = bnode;
  reserved->hash = hash;
  BONSAI_SLOW_INVARIANT(bnode->covers(put.key));
  const size_t node_bytes = Node::arena_bytes(put.key.bytes, put.value);
  reserved->slots = slots_of(bnode, node_bytes);
  reserved->place = reserved->slots->find(put.key, hash);
  if (no_room(*bnode, *reserved->slots, reserved->place)) return false;
  Prefetch::to_push(reserved->slots, reserved->place);
  const auto [token, cell] = take_token(bnode, reserved->slots, node_bytes);
  if (cell != nullptr) Prefetch::to_write(cell);
  reserved->cell = cell;
  reserved->token = token;
  return true;
}

// The update's record in `segment` is the one that counts from now on.
void Index::persisted(uint32_t segment, Put* put) {
  BONSAI_INVARIANT(segment != persist::kNoSegment);
  unpin(put);
  put->record_segment = segment;
  put->recorded = true;
}

// Lets the log reuse the segment of a record that is not published. Whether a crash brings it back is open, as of any
// update in flight; the next attempt writes another one, of a higher token.
void Index::unpin(Put* put) {
  const uint32_t segment = std::exchange(put->record_segment, persist::kNoSegment);
  if (segment != persist::kNoSegment) log_.release(segment);
}

// Publishes a reserved update. kFrozen, kFull: it needs another reservation, under a successor.
Index::Push Index::publish(const Reservation& reserved, const Put& put) {
  const uint8_t flags = static_cast<uint8_t>((put.tombstone ? Node::kTombstone : 0) | (put.large ? Node::kLarge : 0));
  Node* node = reserved.cell != nullptr ? Node::make_in(reserved.cell, put.key.bytes, put.value, flags)
                                        : Node::make(put.key.bytes, put.value, flags, nullptr);
  node->token = reserved.token;
  node->segment.store(put.record_segment, std::memory_order_relaxed);
  BONSAI_INVARIANT(put.record_segment != persist::kNoSegment);  // durable before visible
  const Push pushed = publish(reserved, put.key, node);
  if (pushed != Push::kPublished) Node::destroy(node);
  if (pushed == Push::kSuperseded) {
    if (put.record_segment != persist::kNoSegment) log_.release(put.record_segment);
    if (put.large) log_.when_durable([this, ref = persist::large_ref(put.value)] { large_.free(ref); });
  }
  return pushed;
}

// The protocol, for one update as for many: each step is taken for all before the next, so that their cache misses
// overlap, and one record and fence make all of them durable. Returns how many are done from the first on; *why: what
// became of the next one.
template <size_t kMax>
size_t Index::attempt(Group<kMax>* group, Push* why) {
  for (size_t i = 0; i < group->puts.size(); ++i) {
    Bnode*& bnode = group->bnodes[i];
    if (kMax > 1 && bnode != nullptr && group->before[i] != EqualKeys::kNone) {
      const size_t before = group->before[i];
      BONSAI_INVARIANT(before < i);
      bnode = group->reserved[before] ? group->bnodes[before] : nullptr;
    }
    group->reserved[i] = bnode != nullptr && reserve(bnode, group->hashes[i], group->puts[i], &group->reservations[i]);
  }
  group->durable = persist_record(*group);
  if (group->durable != Outcome::kDone) group->reserved.reset();
  return publish_in_turn(*group, 0, why);
}

// Makes one record for all reserved updates. It sets their members one by one: a copy of bytes that were just written
// would wait for them.
template <size_t kMax>
Index::Outcome Index::persist_record(const Group<kMax>& group) {
  std::array<persist::Update, kMax> updates;
  size_t count = 0;
  for (size_t i = 0; i < group.puts.size(); ++i) {
    if (!group.reserved[i]) continue;
    const Put& put = group.puts[i];
    persist::Update& update = updates[count++];
    update.key = put.key.bytes;
    update.value = put.value;
    update.gen = group.reservations[i].bnode->gen();
    update.token = group.reservations[i].token;
    update.tombstone = put.tombstone;
    update.large = put.large;
  }
  if (count == 0) return Outcome::kDone;
  step("persist record");
  uint32_t segment = persist::kNoSegment;
  Outcome outcome = Outcome::kDone;
  if constexpr (kMax == 1) {
    const auto use = group.puts[0].recorded ? persist::Log::Use::kReserve : group.puts[0].use;
    outcome = outcome_of(log_.append(updates[0], use, &segment));
  } else {
    const auto use = persist::Log::Use::kOrdinary;
    outcome = outcome_of(log_.append_batch({updates.data(), count}, use, &segment));
  }
  if (outcome != Outcome::kDone) return outcome;
  for (size_t i = 0; i < group.puts.size(); ++i) {
    if (group.reserved[i]) persisted(segment, &group.puts[i]);
  }
  return Outcome::kDone;
}

template <size_t kMax>
size_t Index::publish_in_turn(const Group<kMax>& group, size_t first, Push* why) {
  for (size_t i = first; i < group.puts.size(); ++i) {
    *why = group.reserved[i] ? publish(group.reservations[i], group.puts[i]) : Push::kFull;
    if (*why != Push::kPublished && *why != Push::kSuperseded) return i;
  }
  return group.puts.size();
}

// An attempt that did not finish waits for offloading, which frees whole segments, and so must not hold one back.
Index::Outcome Index::put(Put* put) {
  const uint64_t hash = put->key.hash();
  for (;;) {
    Group<1> group(std::span<Put, 1>(put, 1));
    group.hashes[0] = hash;
    group.bnodes[0] = current_bnode(put->key);
    Push why;
    if (attempt(&group, &why) == 1) return Outcome::kDone;
    Outcome outcome = group.durable;
    if (outcome == Outcome::kDone) {
      if (why == Push::kOvertaken) continue;
      BONSAI_INVARIANT(why == Push::kFrozen || why == Push::kFull || why == Push::kStalled);
      if (why != Push::kStalled && replacer_.make_room(group.bnodes[0], nullptr)) continue;
      outcome = Outcome::kStalled;
    }
    unpin(put);
    return outcome;
  }
}

Index::Outcome Index::outcome_of(persist::Log::Result result) {
  switch (result) {
    case persist::Log::Result::kOk:
      return Outcome::kDone;
    case persist::Log::Result::kFull:
      return Outcome::kLogFull;
    case persist::Log::Result::kHeld:
      return Outcome::kStalled;
    case persist::Log::Result::kFailed:
      break;
  }
  return Outcome::kFailed;
}

// Updates for which there is no room go alone, and so do all after an attempt that did not finish. Tokens of one key
// are taken in the order of its updates: it is looked for once, lest the bnode be replaced in between, and after an
// update that goes alone all others of its key do. Should the group's meet a frozen word, the first does, and those
// after it follow to the successor in their order: frozen words stay so.
size_t Index::put_many(std::span<Put> puts, Outcome* outcome) {
  BONSAI_CHECK(puts.size() <= kPutManyMax);
  const bool again = std::any_of(puts.begin(), puts.end(), [](const Put& put) { return put.recorded; });
  if (again || puts.size() == 1) return put_in_turn(puts, outcome);
  Group<kPutManyMax> group(puts);
  std::array<Key, kPutManyMax> keys;
  for (size_t i = 0; i < puts.size(); ++i) keys[i] = puts[i].key;
  current_bnodes({keys.data(), puts.size()}, Fetch::kUpdates, group.hashes, group.bnodes);
  EqualKeys equal;
  uint64_t bytes = persist::kBatchOverheadBytesMax;
  for (size_t i = 0; i < puts.size(); ++i) {
    group.before[i] = equal.before(i, keys, group.hashes);
    bytes += puts[i].key.bytes.size() + puts[i].value.size() + persist::kUpdateOverheadBytesMax;
    if (bytes > log_.record_bytes_max()) group.bnodes[i] = nullptr;
  }
  Push why;
  size_t done = attempt(&group, &why);
  while (done < puts.size()) {
    *outcome = why == Push::kStalled ? Outcome::kStalled : put(&puts[done]);
    if (*outcome != Outcome::kDone) {
      for (Put& unfinished : puts.subspan(done)) unpin(&unfinished);
      return done;
    }
    leave_equal_keys_alone(&group, done);
    done = publish_in_turn(group, done + 1, &why);
  }
  return done;
}

// The one at `done` has got a newer token than the later ones of its key, so those need newer ones, too.
template <size_t kMax>
void Index::leave_equal_keys_alone(Group<kMax>* group, size_t done) {
  size_t last = done;
  for (size_t i = done + 1; i < group->puts.size(); ++i) {
    if (group->before[i] != last) continue;
    group->reserved[i] = false;
    last = i;
  }
}

size_t Index::put_in_turn(std::span<Put> puts, Outcome* outcome) {
  for (size_t i = 0; i < puts.size(); ++i) {
    *outcome = put(&puts[i]);
    if (*outcome != Outcome::kDone) return i;
  }
  return puts.size();
}

// Pushes a node on top of the head that was read at `place`. False: the word has changed since.
bool Index::push(Bnode* bnode, Slots* slots, const Slots::Place& place, uint64_t hash, Node* node) {
  node->next.store(place.head(), std::memory_order_relaxed);
  step(node->in_batch() ? "publish batch node" : "publish");
  bool reached_high_mark = false;
  if (!slots->push(place, node, hash, &reached_high_mark)) return false;
  step(node->in_batch() ? "published batch node" : "published");
  if (reached_high_mark) queue_.enqueue(ReplaceQueue::Kind::kHighMark, bnode);
  return true;
}

// What becomes of a put whose token is below that of the settled head. It comes before the update that superseded it,
// unless that depends on what is below it: then it must come after it. kPublished: neither; what is above is no update.
Index::Push Index::fate_under(Node* head, uint32_t token) {
  const Node* newest = Node::newest_update(head);
  if (newest == nullptr || newest->token < token) return Push::kPublished;
  BONSAI_INVARIANT(newest->token > token);
  return newest->conditional() ? Push::kOvertaken : Push::kSuperseded;
}

// Requires: the node's record is durable.
Index::Push Index::publish(const Reservation& reserved, const Key& key, Node* node) {
  Slots* slots = reserved.slots;
  const uint64_t hash = reserved.hash;
  for (Slots::Place place = reserved.place;;) {
    place = slots->find_again(place, key, hash);
    if (place.index == Slots::kNowhere) return Push::kFull;
    Node* head = place.head();
    if (head != nullptr) {
      if (settle_head(head, reserved.bnode->gen()) != Outcome::kDone) return Push::kStalled;
      BONSAI_INVARIANT(is_settled(head->version.load(std::memory_order_relaxed)));
      if (head->token > node->token) [[unlikely]] {
        if (const Push fate = fate_under(head, node->token); fate != Push::kPublished) return fate;
      }
    }
    if (place.frozen()) return Push::kFrozen;
    if (head == nullptr) {
      const HeadBelow below = unsettled_below(reserved.bnode, key, hash);
      if (below.head != nullptr && settle_head(below.head, below.gen) != Outcome::kDone) return Push::kStalled;
    }
    if (!push(reserved.bnode, slots, place, hash, node)) continue;
    versions_.settle(node);
    prune(slots, place.index, node);
    return Push::kPublished;
  }
}

// Unlinks what no registered scan can pick. One pruner per chain; who finds it locked leaves the work to others.
void Index::prune(Slots* slots, uint32_t index, Node* own) {
  if (own->next.load(std::memory_order_acquire) == nullptr) return;
  step("prune: lock");
  if (!slots->try_lock(index)) return;
  Node* kept = slots->head(index);
  step("prune: load version");
  // Reads may be looking for what is below a head that is not visible.
  while (kept != nullptr && kept->version.load(std::memory_order_acquire) - kVersionOfBase >= kLatest) {
    kept = kept->next.load(std::memory_order_acquire);
  }
  LiveScans live;
  if (kept != nullptr) versions_.load(&live);
  while (kept != nullptr) {
    step("prune: load next");
    Node* below = kept->next.load(std::memory_order_acquire);
    if (below == nullptr) break;
    const uint64_t version_below = below->version.load(std::memory_order_acquire);
    const uint64_t version = kept->version.load(std::memory_order_acquire);
    BONSAI_INVARIANT(version_below != kNoVersion);
    if (version_below != kPassed && live.need(version_below, version)) {
      kept = below;
      continue;
    }
    step("prune: unlink");
    kept->next.store(below->next.load(std::memory_order_acquire), std::memory_order_release);
    drop(below);
  }
  slots->unlock(index);
}

// Gives up an unlinked node: a durable newer record of its key has superseded its own.
void Index::drop(Node* node) {
  BONSAI_INVARIANT(is_settled(node->version.load(std::memory_order_relaxed)));
  const bool passed = node->in_batch() && node->passed();  // then it has no record, and owns no large value
  const uint32_t segment = passed ? persist::kNoSegment : node->record_segment();
  if (segment != persist::kNoSegment) log_.release(segment);
  if (node->large() && !node->borrowed() && !passed) {
    log_.when_durable([this, ref = persist::large_ref(node->value())] { large_.retire(ref, epochs_); });
  }
  if (node->in_arena()) return;
  epochs_.retire(
      node, [](void* object, void*) { Node::destroy(static_cast<Node*>(object)); }, nullptr, node->dram_bytes());
}

}  // namespace bonsai::index
