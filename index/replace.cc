// SPDX-License-Identifier: Apache-2.0
// Replacement, first half: planning successors, freezing, installing; tidying. Choosing the next range: replacer.cc.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/spread_sort.h"
#include "index/offload.h"
#include "index/policy.h"
#include "index/prefetch.h"
#include "index/replacer.h"
#include "persist/dnode_cursor.h"

namespace bonsai::index {

using base::Fence;
using base::Key;
using base::step;
using policy::Sized;
using policy::Weight;

namespace {

// Gives a claim back, also when memory runs out.
class Claimed {
 public:
  explicit Claimed(Bnode* bnode) : bnode_(*bnode) {}
  ~Claimed() { bnode_.unclaim(); }
  Claimed(const Claimed&) = delete;
  Claimed& operator=(const Claimed&) = delete;

 private:
  Bnode& bnode_;
};

uint64_t entry_bytes(const Node& node) { return persist::entry_bytes(node.key_bytes, node.value_bytes); }

// Visits the entries that the successors of a bnode will hold, in order, up to `below` (null: all). The entries of the
// dnode come from the cursor, which is at the first one. Views are valid as long as the guard.
template <class Visit>
void visit_entries(persist::DnodeCursor* cursor, const Slots* slots, const base::Key* below, Visit visit) {
  std::vector<persist::Entry> updates;
  if (slots != nullptr) {
    slots->for_each_head([&](const Node* head) {
      if (below != nullptr && !(head->key() < *below)) return;
      updates.push_back({head->key(), head->value(), head->tombstone(), head->large()});
    });
  }
  base::spread_sort(
      updates.begin(), updates.end(), [](const persist::Entry& each) { return each.key.head; },
      [](const persist::Entry& a, const persist::Entry& b) { return a.key < b.key; });
  persist::Merge merge;
  cursor->visit_all(below, updates, &merge, [&](const persist::Entry& entry) {
    if (!entry.tombstone) visit(entry);
  });
}

// Visits the entries of a bnode's range in no order: those in the tables of the bnode and of its pending predecessors,
// and those in the dnodes. Some may be outside the range, and some keys come more than once. Views are valid as long as
// the guard.
template <class VisitSlots, class VisitDnode>
void visit_stack(const Bnode& top, VisitSlots visit_slots, VisitDnode visit_dnode) {
  boost::container::small_vector<const Bnode*, 8> left{&top};
  while (!left.empty()) {
    const Bnode& bnode = *left.back();
    left.pop_back();
    if (const Slots* slots = bnode.slots()) visit_slots(*slots);
    const Base base = bnode.base();
    if (const Layer* layer = base.layer()) {
      for (const Bnode* old : layer->olds) {
        if (old->lo() < top.hi() && top.lo() < old->hi()) left.push_back(old);
      }
    } else {
      visit_dnode(base.dnode() != nullptr ? *base.dnode() : *base.residue()->base().dnode());
    }
  }
}

// The keys of these entries and of a batch's items, with their bytes in a dnode, in order, each once. *trouble: whether
// some may be missing.
std::vector<Sized> keys_of_stack(persist::RunReader* reader, const Bnode& top, std::span<const Batch::Item> items,
                                 persist::Trouble* trouble) {
  std::vector<Sized> keys;
  visit_stack(
      top,
      [&](const Slots& slots) {
        slots.for_each_head([&](const Node* head) {
          const base::Key key = head->key();
          if (!(key < top.lo().key()) && top.hi().above(key)) keys.push_back({key, entry_bytes(*head)});
        });
      },
      [&](const persist::Dnode& dnode) {
        persist::DnodeCursor cursor(reader, dnode);
        for (cursor.seek(top.lo().key()); cursor.valid() && top.hi().above(cursor.key()); cursor.next()) {
          keys.push_back({cursor.key(), persist::entry_bytes(cursor.entry())});
        }
        *trouble = std::max(*trouble, cursor.trouble());
      });
  for (const Batch::Item& item : items) {
    const persist::Entry entry{base::Key::of(item.key), item.value};
    keys.push_back({entry.key, persist::entry_bytes(entry)});
  }
  base::spread_sort(
      keys.begin(), keys.end(), [](const Sized& each) { return each.key.head; },
      [](const Sized& a, const Sized& b) { return a.key != b.key ? a.key < b.key : a.bytes > b.bytes; });
  keys.erase(std::unique(keys.begin(), keys.end(), [](const Sized& a, const Sized& b) { return a.key == b.key; }),
             keys.end());
  return keys;
}

// The keys of a dnode and of a table of updates, with their bytes in a dnode. *trouble as above.
std::vector<Sized> keys_of(persist::RunReader* reader, const persist::Dnode& dnode, const Slots* slots,
                           persist::Trouble* trouble) {
  std::vector<Sized> keys;
  persist::DnodeCursor cursor(reader, dnode);
  cursor.seek({});
  visit_entries(&cursor, slots, nullptr, [&](const persist::Entry& entry) {
    keys.push_back({entry.key, persist::entry_bytes(entry)});
  });
  *trouble = cursor.trouble();
  return keys;
}

// Whether keys come in rising order, so that the next one will be after all others: hardly any key is below the oldest
// update, and hardly any above the newest. Only for a table that fills up.
bool is_rising(const Slots* slots) {
  constexpr uint32_t kOutOfOrder = 32;  // one of so many
  if (slots == nullptr || !slots->above_high_mark()) return false;
  const Node* oldest = nullptr;
  const Node* newest = nullptr;
  Prefetch::heads(*slots);
  slots->for_each_head([&](const Node* head) {
    if (oldest == nullptr || head->token < oldest->token) oldest = head;
    if (newest == nullptr || head->token > newest->token) newest = head;
  });
  if (oldest == nullptr) return false;
  const base::Key lowest = oldest->key(), highest = newest->key();
  uint32_t below = 0, above = 0;
  slots->for_each_head([&](const Node* head) {
    below += head->key() < lowest ? 1 : 0;
    above += highest < head->key() ? 1 : 0;
  });
  return std::max(below, above) <= std::max(1U, slots->used() / kOutOfOrder);
}

// The weight of a table's updates in a dnode.
Weight weigh(const Slots* slots) {
  Weight sum;
  if (slots == nullptr) return sum;
  Prefetch::heads(*slots);
  slots->for_each_head([&](const Node* head) {
    ++sum.entries;
    sum.bytes += entry_bytes(*head);
  });
  return sum;
}

// Estimates the rest of `all`, the whole of a bnode, once each key has one entry, from the first part of the range. If
// that part is no fair sample, the dnode is too large or keeps more hidden entries until it is compacted. `all` if it
// cannot be read now.
Weight without_hidden(persist::RunReader* reader, const persist::Dnode& dnode, const Slots* slots, const Weight& all) {
  constexpr uint32_t kSample = 64;
  persist::DnodeCursor cursor(reader, dnode);
  cursor.seek({}, 2 * kSample);
  const persist::RunView* body = cursor.body();
  persist::Entry end;
  if (body == nullptr) return all;
  const bool part = body->count() > 2 * kSample && body->entry(kSample, &end);
  uint64_t entries = 0;
  visit_entries(&cursor, slots, part ? &end.key : nullptr, [&](const persist::Entry&) { ++entries; });
  if (cursor.trouble() != persist::Trouble::kNone) return all;
  if (part) entries = std::min(all.entries, entries * body->count() / kSample);
  return {entries, all.bytes * entries / all.entries};
}

policy::Table table_of(const Bnode& bnode) {
  const Slots* slots = bnode.slots();
  if (slots == nullptr) return {.capacity = bnode.capacity()};
  return {true, bnode.capacity(), slots->used(), slots->above_high_mark()};
}

}  // namespace

bool Replacer::space_is_short() const {
  const persist::Space& space = dnodes_.space();
  return space.ordinary_free_bytes() < space.reserve_bytes();
}

policy::Facts Replacer::facts_of(const Bnode& bnode, bool carries) const {
  return {.updates = weigh(bnode.slots()),
          .dnode = policy::Shape::of(dnode_under(bnode)),
          .table = table_of(bnode),
          .rising = is_rising(bnode.slots()),
          .log_low = log_.low(),
          .carries = carries};
}

// Asks for what planning a bnode is likely to need of carried runs: whole ones, which compacting it will merge. Before
// its claim: what it finds may change.
void Replacer::expect_to_plan(const Bnode& bnode, persist::RunReader* reader) const {
  if (!reader->carries() || bnode.layer() != nullptr || bnode.base().layer() != nullptr) return;
  if (!policy::wants_a_look(facts_of(bnode, true), policy::limits_now(limits_, space_is_short()))) return;
  for (const persist::RunDesc& run : dnode_under(bnode).runs()) reader->expect(run);
}

// Chooses the successors of a bnode, and names them. Errors: Busy (another thread is replacing it, or its predecessor
// is not offloaded yet), Unavailable (the keys at which to split its range cannot be read now).
Status Replacer::plan(Bnode* bnode, bool may_merge, persist::RunReader* reader) {
  if (!bnode->claim()) return Status::Busy("the range is being replaced");
  BONSAI_CHECK(bnode->layer() == nullptr);
  auto* layer = new Layer();
  layer->olds = {bnode};
  const persist::Limits limits = policy::limits_now(limits_, space_is_short());
  const policy::Facts facts = facts_of(*bnode, reader->carries());
  const persist::Dnode& dnode = dnode_under(*bnode);
  std::optional<Weight> left;
  if (policy::wants_a_look(facts, limits)) left = without_hidden(reader, dnode, bnode->slots(), facts.all());
  const policy::Plan plan = policy::plan(facts, limits, left);
  layer->fresh = plan.fresh;
  std::vector<std::string> cuts;
  const auto capacity_of = [&](const Fence&, const Fence& hi) {
    return policy::capacity_of_part(plan, facts.rising, cuts.size() + 1, hi == layer->olds.back()->hi());
  };
  if (plan.splits) {
    persist::Trouble trouble = persist::Trouble::kNone;
    const std::vector<Sized> keys = keys_of(reader, dnode, bnode->slots(), &trouble);
    if (trouble == persist::Trouble::kUnavailable) {
      delete layer;
      bnode->unclaim();
      return persist::unreadable(dnodes_.volume(), trouble, bnode->lo(), bnode->hi());
    }
    cuts = policy::cuts_of(keys, facts.rising, limits);
    make_successors(layer, cuts, capacity_of);
    if (!cuts.empty()) work_.splits.fetch_add(1, std::memory_order_relaxed);
  } else if (may_merge && plan.merges) {
    Bnode* right = nullptr;
    tree_.with_right_sibling(*bnode, [&](Bnode* sibling) { right = sibling->claim() ? sibling : nullptr; });
    if (right != nullptr) {
      const Weight other = weigh(right->slots()) + policy::Shape::of(dnode_under(*right)).all;
      // Looked up again: an inner node may have been split between the two meanwhile.
      if (policy::fit_together(facts.all(), other, limits)) {
        tree_.with_right_sibling(*bnode, [&](Bnode* sibling) {
          BONSAI_INVARIANT(sibling == right);
          layer->olds.push_back(right);
          make_successors(layer, {}, capacity_of);
          bnode->set_layer(layer);
          right->set_layer(layer);
          work_.merges.fetch_add(1, std::memory_order_relaxed);
        });
      }
      if (layer->news.empty()) right->unclaim();
    }
  }
  if (layer->news.empty()) make_successors(layer, {}, capacity_of);
  queue_.count_urgent();
  bnode->set_layer(layer);
  return Status::OK();
}

std::span<const Batch::Item> Replacer::ToPublish::below(const base::Fence& hi) const {
  const auto end = std::partition_point(items.begin() + 1, items.end(),
                                        [&](const Batch::Item& item) { return hi.above(Key::of(item.key)); });
  return items.first(static_cast<size_t>(end - items.begin()));
}

// Plans for a bnode in which a batch finds no room. The successors have room for all that the batch has left to publish
// there. The range is cut by what it will hold: all that it has collected, also in layers not offloaded yet, goes to
// dnodes of usual size. It is not cut if the cuts cannot be read now: a batch that was begun does not wait for
bool Replacer::plan_for_batch(Bnode* bnode, const ToPublish& left) {
  if (!bnode->claim() && !(left.begun && bnode->claim_pending())) return false;
  BONSAI_INVARIANT(bnode->layer() == nullptr);
  const persist::Limits& limits = limits_;
  const std::span<const Batch::Item> items = left.below(bnode->hi());
  Weight size;
  for (const Batch::Item& item : items) {
    size = size + Weight{1, persist::entry_bytes(item.key.size(), item.value.size())};
  }
  visit_stack(
      *bnode, [&](const Slots& slots) { size = size + weigh(&slots); },
      [&](const persist::Dnode& dnode) { size = size + policy::Shape::of(dnode).all; });
  std::vector<std::string> cuts;
  if (policy::exceeds(size, limits)) {
    persist::Trouble trouble = persist::Trouble::kNone;
    persist::RunReader reader(dnodes_.volume());
    const std::vector<Sized> keys = keys_of_stack(&reader, *bnode, items, &trouble);
    const bool rising = keys[keys.size() - items.size()].key == Key::of(items.front().key);  // all others are below
    if (trouble != persist::Trouble::kUnavailable) cuts = policy::cuts_of(keys, rising, limits);
    if (!cuts.empty()) work_.splits.fetch_add(1, std::memory_order_relaxed);
  }
  const policy::Table table = table_of(*bnode);
  auto* layer = new Layer();
  layer->olds = {bnode};
  make_successors(layer, cuts, [&](const Fence& lo, const Fence& hi) {
    const auto before = [&](const Fence& end) {
      return std::partition_point(items.begin(), items.end(),
                                  [&](const Batch::Item& item) { return end.above(Key::of(item.key)); });
    };
    return policy::capacity_for_batch(table, !cuts.empty(), static_cast<uint64_t>(before(hi) - before(lo)));
  });
  queue_.count_urgent();
  bnode->set_layer(layer);
  return true;
}

// Successors of the olds' whole range, cut at `cuts`. They are pending until the replacement is finished.
// capacity_of(lo, hi): of the table of one.
template <class CapacityOf>
void Replacer::make_successors(Layer* layer, const std::vector<std::string>& cuts, CapacityOf capacity_of) {
  BONSAI_INVARIANT(layer->news.empty() && !layer->olds.empty());
  BONSAI_INVARIANT(tile(layer->olds));
  uint64_t gen = 0;
  for (const Bnode* old : layer->olds) gen = std::max(gen, old->gen());
  ++gen;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const Fence lo = i == 0 ? layer->olds.front()->lo() : Fence(cuts[i - 1]);
    const Fence hi = i == cuts.size() ? layer->olds.back()->hi() : Fence(cuts[i]);
    BONSAI_INVARIANT(lo < hi);
    layer->news.push_back(new Bnode(lo, hi, gen, Base::of(layer), capacity_of(lo, hi)));
    layer->news.back()->set_pending();
  }
  BONSAI_INVARIANT(tile(layer->news));
}

// Freezes the old bnodes and lets the successors take over. Any thread, any number of times. The layer is settled if no
// head is without a version, neither here nor further down: the batch that an older successor waits for may be below.
void Replacer::install(Layer* layer) {
  if (layer->installed.load(std::memory_order_seq_cst)) return;
  for (Bnode* old : layer->olds) old->freeze();
  bool settled = true;
  for (Bnode* old : layer->olds) {
    BONSAI_SLOW_INVARIANT(old->frozen());
    const Layer* below = old->base().layer();
    if (below != nullptr && !below->settled.load(std::memory_order_seq_cst)) settled = false;
    const Slots* slots = old->slots();
    Prefetch::heads(*slots);
    slots->for_each_head([&](Node* head) { settled = is_settled(versions_.settle(head)) && settled; });
  }
  if (settled) layer->settled.store(true, std::memory_order_seq_cst);
  BONSAI_INVARIANT(!layer->news.empty());
  step("install successors");
  layer->installed.store(true, std::memory_order_seq_cst);
}

// Releases old versions that no scan needs any more.
void Replacer::drop_residue(Bnode* bnode) {
  if (bnode->base().residue() == nullptr || !bnode->claim()) return;
  const Claimed claimed(bnode);
  LiveScans live;
  versions_.load(&live);
  if (bnode->layer() == nullptr && live.none()) release_residue(bnode);
}

// Requires: the bnode's claim, or its layer in hand; no scan is registered.
void Replacer::release_residue(Bnode* bnode) {
  Bnode* residue = bnode->base().residue();
  if (residue == nullptr) return;
  BONSAI_INVARIANT(residue->slots() != nullptr && residue->base().dnode() != nullptr);
  bnode->set_base(residue->base());
  Slots* slots = residue->slots();
  for (uint32_t i = 0; i < slots->capacity(); ++i) {
    for (const Node* node = slots->head(i); node != nullptr; node = node->next.load(std::memory_order_relaxed)) {
      if (node->large() && !node->borrowed()) large_.retire(persist::large_ref(node->value()), epochs_);
    }
  }
  epochs_.retire(
      residue, [](void* object, void*) { static_cast<Bnode*>(object)->unref(); }, nullptr, residue->dram_bytes());
}

bool Replacer::upload_metadata(Bnode* bnode, const persist::Dnode* plain, persist::RunReader* reader) {
  if (!bnode->claim()) return false;
  const Claimed claimed(bnode);
  std::unique_ptr<persist::Dnode> dnode;
  persist::Trouble trouble = persist::Trouble::kNone;
  if (bnode->layer() == nullptr && bnode->base().dnode() == plain) dnode = plain->uploaded_copy(reader, &trouble);
  const bool done = dnode != nullptr;
  BONSAI_INVARIANT(!done || (dnode->lo() == bnode->lo() && dnode->hi() == bnode->hi()));
  if (done) {
    bnode->set_base(Base::of(dnode.release()));
    tree_.replace({bnode}, {bnode});  // knows its new dnode now
    epochs_.retire_delete(const_cast<persist::Dnode*>(plain));
  }
  return done || trouble == persist::Trouble::kUnavailable;
}

bool Replacer::tidy(size_t ranges_max) {
  const uint64_t untidy = untidy_.load();
  Fence at;
  {
    const std::lock_guard lock(background_mutex_);
    if (tidied_ == untidy) return true;
    at = tidy_at_;
    if (at == Fence()) tidy_pass_ = {untidy, true};
  }
  const auto guard = epochs_.enter();
  bool idle = true;
  for (size_t i = 0; i < ranges_max && !at.is_infinite(); ++i) {
    Bnode* bnode = tree_.find(at.key());
    at = bnode->hi();
    const Base base = bnode->base();
    if (base.residue() != nullptr) {
      drop_residue(bnode);
      idle = false;
    } else if (const persist::Dnode* dnode = base.dnode();
               dnodes_.metadata() && dnode != nullptr && !dnode->uploaded()) {
      persist::RunReader reader(dnodes_.volume());
      idle = !upload_metadata(bnode, dnode, &reader) && idle;
    }
  }
  const bool wrapped = at.is_infinite();
  const std::lock_guard lock(background_mutex_);
  // Should another call have begun the same pass later, what this one has looked at is older.
  tidy_pass_ = {std::min(tidy_pass_.untidy, untidy), tidy_pass_.idle && idle};
  tidy_at_ = wrapped ? Fence() : at;
  if (wrapped && tidy_pass_.idle) tidied_ = tidy_pass_.untidy;
  return wrapped && tidy_pass_.idle;
}

}  // namespace bonsai::index
