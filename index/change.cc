// SPDX-License-Identifier: Apache-2.0
// Conditional updates: judge, push as pending, persist, publish, version (docs/put-protocol.md, section 9).
//
// The update is judged by what it is then pushed on, so the exchange of the word confirms the judgement, and its place
// in the order of the key is final. Until its record is durable the node is pending: no read sees it, and who would
// push on top makes a record first. So there is no record of an update whose condition does not hold.
#include <string>

#include "base/check.h"
#include "index/index.h"
#include "index/prefetch.h"

namespace bonsai::index {

using base::Key;
using base::step;

namespace {

Refusal refusal_of(persist::Trouble trouble) {
  switch (trouble) {
    case persist::Trouble::kNone:
      return Refusal::kNone;
    case persist::Trouble::kDamaged:
      return Refusal::kDamaged;
    case persist::Trouble::kUnavailable:
      break;
  }
  return Refusal::kUnavailable;
}

}  // namespace

// Pushes a node once its record has room.
class Index::Pushing final : public persist::Log::Placing {
 public:
  Pushing(Index& index, Bnode* bnode, Slots* slots, const Slots::Place& at, uint64_t hash, Node* node)
      : index_(index), bnode_(bnode), slots_(slots), at_(at), hash_(hash), node_(node) {}
  bool place() override {
    placed_ = index_.push(bnode_, slots_, at_, hash_, node_);
    if (placed_) step("persist record");
    return placed_;
  }
  [[nodiscard]] bool placed() const { return placed_; }

 private:
  Index& index_;
  Bnode* const bnode_;
  Slots* const slots_;
  const Slots::Place& at_;
  const uint64_t hash_;
  Node* const node_;
  bool placed_ = false;
};

Index::Outcome Index::change(Change* change, Refusal* why) {
  const uint64_t hash = change->key.hash();
  for (;;) {
    Bnode* bnode = current_bnode(change->key);
    Outcome durable = Outcome::kDone;
    const Push pushed = attempt(bnode, hash, change, why, &durable);
    if (durable != Outcome::kDone) return durable;
    if (pushed == Push::kPublished) return Outcome::kDone;
    if (pushed == Push::kStalled || !replacer_.make_room(bnode, nullptr)) return Outcome::kStalled;
  }
}

// kPublished: made or refused, or *durable has what became of the record. kFull: it must go to a successor.
Index::Push Index::attempt(Bnode* bnode, uint64_t hash, Change* change, Refusal* why, Outcome* durable) {
  const Key& key = change->key;
  Slots* slots = bnode->slots();
  *why = Refusal::kGivenUp;  // until it is judged
  for (;;) {
    Slots::Place place = slots != nullptr ? slots->find(key, hash) : Slots::Place();
    if (settle_newest(bnode, place.head(), key, hash) != Outcome::kDone) return Push::kStalled;
    Lookup now{.key = key};
    uint64_t version = kNoVersion;
    read_from(bnode, place.head(), hash, kLatest, &now, &version);
    *why = change->decide(now, version);
    if (*why != Refusal::kNone) return Push::kPublished;
    const size_t node_bytes = Node::arena_bytes(key.bytes, change->value);
    if (slots == nullptr) {
      slots = slots_of(bnode, node_bytes);
      place = slots->find(key, hash);
      if (place.head() != nullptr) continue;
    }
    if (no_room(*bnode, *slots, place)) return Push::kFull;
    const auto [token, cell] = take_token(bnode, slots, node_bytes);
    const auto flags = static_cast<uint8_t>(Node::kConditional | (change->tombstone ? Node::kTombstone : 0) |
                                            (change->large ? Node::kLarge : 0));
    Node* node = cell != nullptr ? Node::make_in(cell, key.bytes, change->value, flags)
                                 : Node::make(key.bytes, change->value, flags, nullptr);
    node->token = token;
    node->version.store(kPendingVersion, std::memory_order_relaxed);
    Pushing pushing(*this, bnode, slots, place, hash, node);
    uint32_t segment = persist::kNoSegment;
    *durable =
        outcome_of(log_.append_placed({key.bytes, change->value, bnode->gen(), token, change->tombstone, change->large},
                                      change->use, &pushing, &segment));
    if (!pushing.placed()) Node::destroy(node);
    if (*durable != Outcome::kDone) return Push::kPublished;
    if (!pushing.placed()) continue;
    recorded(node, segment);
    versions_.settle(node);
    prune(slots, place.index, node);
    return Push::kPublished;
  }
}

// Makes a record for a pending node of a bnode of generation `gen`. Any thread may do it, several at once too.
Index::Outcome Index::make_durable(Node* node, uint64_t gen) {
  step("persist pending node");
  uint32_t segment = persist::kNoSegment;
  const Outcome outcome =
      outcome_of(log_.append({node->key_view(), node->value(), gen, node->token, node->tombstone(), node->large()},
                             persist::Log::Use::kReserve, &segment));
  if (outcome == Outcome::kDone) recorded(node, segment);
  return outcome;
}

// The pending node has a durable record in `segment`. Of several records one counts; all say the same.
void Index::recorded(Node* node, uint32_t segment) {
  BONSAI_INVARIANT(segment != persist::kNoSegment);
  step("pending node is durable");
  uint32_t unset = persist::kNoSegment;
  if (!node->segment.compare_exchange_strong(unset, segment)) log_.release(segment);
  step("publish pending node");
  uint64_t pending = kPendingVersion;
  node->version.compare_exchange_strong(pending, kNoVersion);
}

// Gives the key's newest head its version: `head`, which is in `bnode`, else one below.
Index::Outcome Index::settle_newest(Bnode* bnode, Node* head, const Key& key, uint64_t hash) {
  if (head != nullptr) return settle_head(head, bnode->gen());
  const HeadBelow below = unsettled_below(bnode, key, hash);
  return below.head != nullptr ? settle_head(below.head, below.gen) : Outcome::kDone;
}

// The key's value as of `at` from `head`, in `bnode`, downwards, and its version.
void Index::read_from(Bnode* bnode, Node* head, uint64_t hash, uint64_t at, Lookup* now, uint64_t* version) {
  for (;;) {
    if (const Node* node = visible(head, at)) {
      *version = node->version.load(std::memory_order_acquire);
      now->found = node->tombstone() ? Found::kAbsent : Found::kValue;
      now->value.set(node->value(), node->large(), false);
      return;
    }
    step("load base");
    const Base base = bnode->base();
    if (const persist::Dnode* dnode = base.dnode()) {
      *version = kNoVersion;
      get_from_dnode(*dnode, hash, now);
      return;
    }
    bnode = base.layer() != nullptr ? base.layer()->old_for(now->key) : base.residue();
    const Slots* slots = bnode->slots();
    head = slots != nullptr ? slots->find(now->key, hash).head() : nullptr;
  }
}

void Index::read_versioned(uint64_t at, Lookup* now, uint64_t* version) {
  const uint64_t hash = now->key.hash();
  Bnode* bnode = current_bnode(now->key);
  const Slots* slots = bnode->slots();
  read_from(bnode, slots != nullptr ? slots->find(now->key, hash).head() : nullptr, hash, at, now, version);
}

Refusal Index::judge(const Condition& condition, const Lookup& now, uint64_t version) const {
  if (now.found == Found::kDamaged) return Refusal::kDamaged;
  if (now.found == Found::kUnavailable) return Refusal::kUnavailable;
  const bool present = now.found == Found::kValue;
  const auto refuse_unless = [](bool holds) { return holds ? Refusal::kNone : Refusal::kFails; };
  switch (condition.kind) {
    case Condition::Kind::kAbsent:
      return refuse_unless(!present);
    case Condition::Kind::kPresent:
      return refuse_unless(present);
    case Condition::Kind::kUnchanged:
      return refuse_unless(version <= condition.version);
    case Condition::Kind::kEquals:
      break;
  }
  if (!present || !now.value.large) return refuse_unless(present && now.value.bytes == condition.value);
  const persist::LargeRef ref = persist::large_ref(now.value.bytes);
  if (ref.value_bytes != condition.value.size()) return Refusal::kFails;
  std::string value;
  const Refusal unreadable = refusal_of(large_.read(ref, &value));
  return unreadable != Refusal::kNone ? unreadable : refuse_unless(value == condition.value);
}

// Refuses the batch if a condition of the item does not say yes to what is below `head`; null: to what is below the
// bnode. True: the batch is decided.
bool Index::refuse(Batch* batch, const Batch::Item& item, Bnode* bnode, Node* head, uint64_t hash) {
  Lookup now{.key = Key::of(item.key)};
  uint64_t version = kNoVersion;
  read_from(bnode, head, hash, kLatest, &now, &version);
  for (const Condition& condition : batch->conditions_of(item)) {
    const Refusal why = judge(condition, now, version);
    if (why == Refusal::kNone) continue;
    step("refuse batch");
    uint64_t publishing = Batch::kPublishing;
    batch->cell.compare_exchange_strong(publishing, Batch::refused(why, condition.number));
    return true;
  }
  return false;
}

}  // namespace bonsai::index
