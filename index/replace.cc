// SPDX-License-Identifier: Apache-2.0
// Replacement, first half: planning successors, freezing, installing; tidying. What is replaced next: replacer.cc.
#include <algorithm>
#include <bit>
#include <boost/container/small_vector.hpp>
#include <span>

#include "base/check.h"
#include "base/narrow.h"
#include "base/spread_sort.h"
#include "index/offload.h"
#include "index/prefetch.h"
#include "index/replacer.h"
#include "persist/dnode_cursor.h"
#include "persist/fences.h"

namespace bonsai::index {

using base::Fence;
using base::Key;
using base::step;

namespace {

struct Sized {
  base::Key key;
  uint64_t bytes;
};

uint64_t entry_bytes(const Node& node) { return persist::entry_bytes(node.key_bytes, node.value_bytes); }

// Visits the entries that the successors of a bnode will hold, in order, up to `below` (null: all); views as long as
// the guard. Of the cursor, which stands at the dnode's first entry.
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

// Visits what a bnode's range holds, in no order, some of it perhaps outside and some keys more than once: the tables
// of the bnode and of those that it stands on, and the dnodes. Views as long as the guard.
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

// The keys of that, and of what a batch brings, with what they take in a dnode; in order, each once. *trouble: whether
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

// Their keys, with what they take in a dnode. *trouble as above.
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

// Whether keys come in rising order, so that the next will be after all others: hardly one is below the oldest update,
// and hardly one above the newest. Of a table that fills up only.
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

// Cuts the keys into pieces that are nearly full and a last one; returns the pieces' first keys but the first's.
std::vector<std::string> cut_rising(const std::vector<Sized>& keys, const persist::Limits& limits) {
  const uint64_t entries_wanted = limits.dnode_entries_max * 9 / 10;
  const uint64_t bytes_wanted = limits.dnode_bytes_max * 9 / 10;
  std::vector<std::string> cuts;
  uint64_t entries = 0, bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (entries > 0 && (entries == entries_wanted || bytes + keys[i].bytes > bytes_wanted)) {
      cuts.push_back(persist::fence_between(keys[i - 1].key.bytes, keys[i].key.bytes));
      entries = bytes = 0;
    }
    ++entries;
    bytes += keys[i].bytes;
  }
  return cuts;
}

// The same into pieces of about equal weight.
std::vector<std::string> cut(const std::vector<Sized>& keys, const persist::Limits& limits) {
  uint64_t bytes = 0;
  for (const Sized& key : keys) bytes += key.bytes;
  if (keys.size() <= limits.dnode_entries_max && bytes <= limits.dnode_bytes_max) return {};
  const uint64_t entries_wanted = limits.dnode_entries_max * 2 / 3;
  const uint64_t bytes_wanted = limits.dnode_bytes_max * 2 / 3;
  const uint64_t pieces =
      std::max((keys.size() + entries_wanted - 1) / entries_wanted, (bytes + bytes_wanted - 1) / bytes_wanted);
  std::vector<std::string> cuts;
  uint64_t weight = 0;  // of the keys so far, in units of 1/(2 * size * bytes)
  for (size_t i = 0; i < keys.size() && cuts.size() + 1 < pieces; ++i) {
    if (i > 0 && weight * pieces >= 2 * keys.size() * bytes * (cuts.size() + 1)) {
      cuts.push_back(persist::fence_between(keys[i - 1].key.bytes, keys[i].key.bytes));
    }
    weight += bytes + keys.size() * keys[i].bytes;
  }
  return cuts;
}

const persist::Dnode& dnode_under(const Bnode& bnode) {
  const Base base = bnode.base();
  if (const persist::Dnode* dnode = base.dnode()) return *dnode;
  BONSAI_CHECK(base.residue() != nullptr);
  return *base.residue()->base().dnode();
}

// What the bnode's updates take in a dnode.
struct Estimate {
  uint64_t entries = 0, bytes = 0;
};

Estimate estimate(const Slots* slots) {
  Estimate sum;
  if (slots == nullptr) return sum;
  Prefetch::heads(*slots);
  slots->for_each_head([&](const Node* head) {
    ++sum.entries;
    sum.bytes += entry_bytes(*head);
  });
  return sum;
}

// The same, and the entries of the dnode under it.
Estimate whole(const Bnode& bnode, const Estimate& updates) {
  const persist::Dnode& dnode = dnode_under(bnode);
  return {updates.entries + dnode.entries(), updates.bytes + dnode.run_bytes()};
}

// Whether it is more than `dnodes` of them may hold.
bool exceeds(const Estimate& size, const persist::Limits& limits, uint64_t dnodes = 1) {
  return size.entries > dnodes * limits.dnode_entries_max || size.bytes > dnodes * limits.dnode_bytes_max;
}

// What is left of `all`, the whole of a bnode, once each key has one entry: as in the first part of the range. If that
// is no sample of it, a dnode is larger than it should be, or has more that is hidden, until it is compacted. `all` if
// it cannot be read now.
Estimate without_hidden(persist::RunReader* reader, const persist::Dnode& dnode, const Slots* slots,
                        const Estimate& all) {
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

// Whether planning looks at what a dnode holds that is to be compacted. A look reads NVM; where that is a round trip,
// what is small, or hardly larger than it should be, is compacted without one.
bool is_worth_a_look(const Estimate& size, const persist::Limits& limits, bool carries) {
  const auto most = [](uint64_t n) { return n - n / 9; };
  return size.entries > 0 && (!carries || exceeds({most(size.entries), most(size.bytes)}, limits));
}

// Of what was appended to the body of a bnode's dnode, updates included, the share that hides nothing.
double fresh_share(const persist::Dnode& dnode, const Estimate& all, const Estimate& left) {
  const uint64_t body = dnode.runs().empty() ? 0 : dnode.runs().front().count;
  if (all.entries <= body || left.entries <= body) return 0;
  return static_cast<double>(left.entries - body) / static_cast<double>(all.entries - body);
}

// A table doubles when it fills up, and may become wide as long as its updates fit into a dnode: space is set aside for
// a few of those, so that a full pool can still be offloaded. It stays wide while the log is what ranges wait for; with
// no such need it becomes a usual one, in which a scan finds few updates close together.
uint32_t capacity_after(const Bnode& bnode, const Estimate& updates, bool rising, bool log_low,
                        const persist::Limits& limits) {
  const Slots* slots = bnode.slots();
  const bool above_high_mark = slots != nullptr && slots->above_high_mark();
  const bool wide = updates.bytes <= limits.dnode_bytes_max && (above_high_mark || log_low);
  const uint32_t wide_max = rising ? Slots::kRisingCapacityMax : Slots::kWideCapacityMax;
  const uint32_t capacity_max = wide ? wide_max : Slots::kCapacityMax;
  const uint32_t capacity = std::min(bnode.capacity(), capacity_max);
  if (slots == nullptr) return capacity;
  if (above_high_mark) {
    const bool widens = capacity < Slots::kCapacityMax || 2 * updates.bytes <= limits.dnode_bytes_max;
    return std::min(widens ? capacity * 2 : capacity, capacity_max);
  }
  return slots->used() < capacity / 8 * 3 ? std::max(capacity / 2, Slots::kCapacityMin) : capacity;
}

}  // namespace

// A split takes a header and what is left over of two blocks. While space is short, so that deletes live on what is set
// aside for them, a range is split for its bytes alone, and neighbours are merged sooner.
persist::Limits Replacer::limits_now() const {
  constexpr uint64_t kEntriesTimes = 4;
  persist::Limits limits = limits_;
  const persist::Space& space = dnodes_.space();
  if (space.ordinary_free_bytes() < space.reserve_bytes()) limits.dnode_entries_max *= kEntriesTimes;
  return limits;
}

// Asks for what planning a bnode is likely to need of carried runs: whole ones, which compacting it will merge. Before
// its claim: what it finds may change.
void Replacer::expect_to_plan(const Bnode& bnode, persist::RunReader* reader) const {
  if (!reader->carries() || bnode.layer() != nullptr || bnode.base().layer() != nullptr) return;
  const persist::Limits limits = limits_now();
  const Estimate updates = estimate(bnode.slots());
  const persist::Dnode& dnode = dnode_under(bnode);
  if (may_append(dnode, updates.entries, updates.bytes, limits, 0)) return;
  if (!is_worth_a_look(whole(bnode, updates), limits, true)) return;
  for (const persist::RunDesc& run : dnode.runs()) reader->expect(run);
}

// Chooses the successors of a bnode, and names them. Errors: Busy: somebody else is replacing it, or its predecessor is
// not offloaded yet. Unavailable: where to split its range cannot be read now.
Status Replacer::plan(Bnode* bnode, bool may_merge, persist::RunReader* reader) {
  if (!bnode->claim()) return Status::Busy("the range is being replaced");
  BONSAI_CHECK(bnode->layer() == nullptr);
  auto* layer = new Layer();
  layer->olds = {bnode};
  const persist::Limits limits = limits_now();
  const Estimate updates = estimate(bnode->slots());
  const Estimate size = whole(*bnode, updates);
  const persist::Dnode& dnode = dnode_under(*bnode);
  // Overwritten entries count twice until the dnode is compacted, so then is the time to see whether it is too large,
  // and whether there is anything that compaction would give back.
  bool compacts = !may_append(dnode, updates.entries, updates.bytes, limits, 0);
  const bool looks = compacts && is_worth_a_look(size, limits, reader->carries());
  Estimate left = size;
  if (looks) {
    left = without_hidden(reader, dnode, bnode->slots(), size);
    layer->fresh = fresh_share(dnode, size, left);
    compacts = !may_append(dnode, updates.entries, updates.bytes, limits, layer->fresh);
  }
  const bool rising = is_rising(bnode->slots());
  const uint32_t capacity = capacity_after(*bnode, updates, rising, log_.low(), limits);
  // Where keys come in rising order, the wide table is for the last one: the others may get keys of slower writers, but
  // not as many. Else each part of a range gets its share of the keys.
  std::vector<std::string> cuts;
  const auto capacity_of = [&](const Fence&, const Fence& hi) {
    if (rising && hi == layer->olds.back()->hi()) return capacity;
    const uint32_t share = rising ? 0 : std::bit_ceil(capacity / base::checked_narrow<uint32_t>(cuts.size() + 1));
    return std::max(std::min(capacity, Slots::kCapacityMax), share);
  };
  const auto too_large = [&] {
    const auto more = [](uint64_t n) { return n + n / 8; };  // lest a part that is no sample mislead
    return exceeds(size, limits) &&
           (rising || exceeds(size, limits, 2) || (looks && exceeds({more(left.entries), more(left.bytes)}, limits)));
  };
  if (compacts && too_large()) {
    persist::Trouble trouble = persist::Trouble::kNone;
    const std::vector<Sized> keys = keys_of(reader, dnode, bnode->slots(), &trouble);
    if (trouble == persist::Trouble::kUnavailable) {
      delete layer;
      bnode->unclaim();
      return persist::unreadable(dnodes_.volume(), trouble, bnode->lo(), bnode->hi());
    }
    cuts = rising ? cut_rising(keys, limits) : cut(keys, limits);
    make_successors(layer, cuts, capacity_of);
    if (!cuts.empty()) work_.splits.fetch_add(1, std::memory_order_relaxed);
  } else if (may_merge && size.entries < limits.dnode_entries_max / 4 && size.bytes < limits.dnode_bytes_max / 4) {
    Bnode* right = nullptr;
    tree_.with_right_sibling(*bnode, [&](Bnode* sibling) { right = sibling->claim() ? sibling : nullptr; });
    if (right != nullptr) {
      const Estimate other = whole(*right, estimate(right->slots()));
      // Looked up again: an inner node may have been split between the two meanwhile.
      if (size.entries + other.entries <= limits.dnode_entries_max / 2 &&
          size.bytes + other.bytes <= limits.dnode_bytes_max / 2) {
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

// The same for a bnode in which a batch finds no room, with room for all that the batch has left to publish there, and
// cut by what will be there: whatever the range has collected, in layers that are not offloaded yet as well, goes to
// dnodes of usual size, and a range that is filled by batches again and again gets few layers, because tables double.
// It is not cut if where to do so cannot be read now: a batch that was begun does not wait for that.
// False if somebody else is replacing it; of a pending one also if the batch may wait.
bool Replacer::plan_for_batch(Bnode* bnode, const ToPublish& left) {
  if (!bnode->claim() && !(left.begun && bnode->claim_pending())) return false;
  BONSAI_INVARIANT(bnode->layer() == nullptr);
  const persist::Limits& limits = limits_;
  const std::span<const Batch::Item> items = left.below(bnode->hi());
  Estimate size;
  const auto add = [&](uint64_t entries, uint64_t bytes) { size = {size.entries + entries, size.bytes + bytes}; };
  for (const Batch::Item& item : items) {
    add(1, persist::entry_bytes({Key::of(item.key), item.value}));
  }
  visit_stack(
      *bnode,
      [&](const Slots& slots) {
        const Estimate updates = estimate(&slots);
        add(updates.entries, updates.bytes);
      },
      [&](const persist::Dnode& dnode) { add(dnode.entries(), dnode.run_bytes()); });
  std::vector<std::string> cuts;
  if (exceeds(size, limits)) {
    persist::Trouble trouble = persist::Trouble::kNone;
    persist::RunReader reader(dnodes_.volume());
    const std::vector<Sized> keys = keys_of_stack(&reader, *bnode, items, &trouble);
    const bool rising = keys[keys.size() - items.size()].key == Key::of(items.front().key);  // all others are below
    if (trouble != persist::Trouble::kUnavailable) cuts = rising ? cut_rising(keys, limits) : cut(keys, limits);
    if (!cuts.empty()) work_.splits.fetch_add(1, std::memory_order_relaxed);
  }
  const Slots* slots = bnode->slots();
  const bool doubles = slots != nullptr && slots->above_high_mark();
  const uint32_t capacity_min = std::min(doubles ? 2 * bnode->capacity() : bnode->capacity(),
                                         cuts.empty() ? Slots::kBatchCapacityMax : Slots::kCapacityMax);
  auto* layer = new Layer();
  layer->olds = {bnode};
  make_successors(layer, cuts, [&](const Fence& lo, const Fence& hi) {
    const auto before = [&](const Fence& end) {
      return std::partition_point(items.begin(), items.end(),
                                  [&](const Batch::Item& item) { return end.above(Key::of(item.key)); });
    };
    const auto count = static_cast<uint64_t>(before(hi) - before(lo));
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(std::bit_ceil(count + count / 2), capacity_min, Slots::kBatchCapacityMax));
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
    slots->for_each_head([&](Node* head) { settled = versions_.settle(head) != kNoVersion && settled; });
  }
  if (settled) layer->settled.store(true, std::memory_order_seq_cst);
  BONSAI_INVARIANT(!layer->news.empty());
  step("install successors");
  layer->installed.store(true, std::memory_order_seq_cst);
}

// Lets go of old versions that no scan needs any more.
void Replacer::drop_residue(Bnode* bnode) {
  if (bnode->base().residue() == nullptr || !bnode->claim()) return;
  LiveScans live;
  versions_.load(&live);
  if (bnode->layer() == nullptr && live.none()) release_residue(bnode);
  bnode->unclaim();
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
  bnode->unclaim();
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
