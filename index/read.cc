// Reads: the newest visible node of the topmost layer that has one, else the dnode.
#include <algorithm>
#include <array>
#include <bitset>

#include "index/index.h"

namespace bonsai::index {

using base::Key;
using base::mutant;
using base::step;

// The first node of a chain that a reader at `version` sees; null if there is none.
Node* Index::visible(Node* head, uint64_t version) {
  for (Node* node = head; node != nullptr;) {
    // Before the version: a batch node that is still invisible then has not been pruned under.
    step("load next");
    Node* next = node->next.load(std::memory_order_acquire);
    step("load version");
    const uint64_t own = mutant(kIgnoreUnversioned) ? node->version.load() : versions_.settle(node);
    if (own != kNoVersion && own <= version) return node;
    node = next;
  }
  return nullptr;
}

// Looks for the key among a bnode's own updates. False: it has none that the reader sees.
bool Index::find_update(const Bnode& bnode, const Key& key, uint64_t hash, uint64_t version, Lookup* lookup) {
  const Slots* slots = bnode.slots();
  const Node* node = slots != nullptr ? visible(slots->find(key, hash).head(), version) : nullptr;
  if (node == nullptr) return false;
  lookup->found = node->tombstone() ? Found::kAbsent : Found::kValue;
  lookup->value = {node->value(), node->large(), false};
  return true;
}

// Ends a lookup that has come to a dnode.
void Index::answer(persist::Find found, const persist::Entry& entry, Lookup* lookup) {
  lookup->value = {entry.value, entry.large, true};
  if (found == persist::Find::kDamaged) {
    lookup->found = Found::kDamaged;
  } else {
    lookup->found = found == persist::Find::kAbsent || entry.tombstone ? Found::kAbsent : Found::kValue;
  }
}

void Index::get_from(Bnode* bnode, uint64_t hash, uint64_t version, Lookup* lookup) {
  const Key& key = lookup->key;
  for (;;) {
    if (find_update(*bnode, key, hash, version, lookup)) return;
    step("load base");
    const Base base = bnode->base();
    if (const persist::Dnode* dnode = base.dnode()) {
      persist::Entry entry;
      const persist::Find found = dnode->find(dnodes_.volume(), key, hash, &entry);
      return answer(found, entry, lookup);
    }
    bnode = base.layer() != nullptr ? base.layer()->old_for(key) : base.residue();
  }
}

void Index::get(uint64_t version, Lookup* lookup) {
  step("load index");
  const Key& key = lookup->key;
  get_from(newest(tree_.find_to_read(key), key), key.hash(), version, lookup);
}

// Each step is taken for all keys before the next, so that they wait for memory together.
void Index::get_many(uint64_t version, std::span<Lookup> lookups) {
  constexpr size_t kMax = kGetManyMax;
  BONSAI_CHECK(lookups.size() <= kMax);
  std::array<Key, kMax> keys;
  std::array<uint64_t, kMax> hashes;
  std::array<Bnode*, kMax> bnodes;
  std::array<persist::DnodeSearch, kMax> searches;
  std::bitset<kMax> searching;
  const size_t n = lookups.size();
  for (size_t i = 0; i < n; ++i) keys[i] = lookups[i].key;
  live_many({keys.data(), n}, Fetch::kUpdatesAndDnode, hashes, bnodes);
  for (size_t i = 0; i < n; ++i) {
    if (find_update(*bnodes[i], keys[i], hashes[i], version, &lookups[i])) continue;
    step("load base");
    if (const persist::Dnode* dnode = bnodes[i]->base().dnode()) {
      searches[i].start(dnodes_.volume(), *dnode, keys[i], hashes[i]);
      searching.set(i);
    } else {
      get_from(bnodes[i], hashes[i], version, &lookups[i]);
    }
  }
  scale::Reads reads(dnodes_.volume());
  for (size_t i = 0; i < n; ++i) {
    if (!searching[i]) continue;
    searches[i].next();
    searches[i].expect(&reads);
  }
  reads.wait();
  for (size_t i = 0; i < n; ++i) {
    if (!searching[i]) continue;
    persist::Entry entry;
    const persist::Find found = searches[i].finish(&entry);
    answer(found, entry, &lookups[i]);
  }
}

namespace {

// A visible update of one key, and how deep its layer lies.
struct Layered {
  Key key;
  const Node* node;
  uint32_t depth;
};

struct Collected {
  std::vector<Layered> updates;
  std::vector<const persist::Dnode*> dnodes;  // in range order
};

}  // namespace

void Index::read_range(Bnode* bnode, const Key& from, uint64_t version, bool whole, uint64_t items_max,
                       Window* window) {
  window->lo = bnode->lo();
  window->hi = bnode->hi();
  window->items.clear();
  window->damaged = false;
  const auto wanted = [&](const Key& key) {
    return (whole || !(key < from)) && window->hi.above(key) && !(key < window->lo.key());
  };

  Collected all;
  const auto collect = [&](auto& self, const Bnode* layer, uint32_t depth) -> void {
    if (const Slots* slots = layer->slots()) {
      for (uint32_t i = 0; i < slots->capacity(); ++i) {
        step("scan: load head");
        Node* head = slots->head(i);
        if (head == nullptr || !wanted(head->key())) continue;
        if (const Node* node = visible(head, version)) all.updates.push_back({node->key(), node, depth});
      }
    }
    step("scan: load base");
    const Base base = layer->base();
    if (const persist::Dnode* dnode = base.dnode()) {
      all.dnodes.push_back(dnode);
    } else if (const Bnode* residue = base.residue()) {
      self(self, residue, depth + 1);
    } else {
      for (const Bnode* old : base.layer()->olds) {
        if (old->lo() < window->hi && window->lo < old->hi()) self(self, old, depth + 1);
      }
    }
  };
  collect(collect, bnode, 0);
  auto& updates = all.updates;
  std::sort(updates.begin(), updates.end(), [](const Layered& a, const Layered& b) {
    const auto order = compare(a.key, b.key);
    return order != 0 ? order < 0 : a.depth < b.depth;
  });
  updates.erase(
      std::unique(updates.begin(), updates.end(), [](const Layered& a, const Layered& b) { return a.key == b.key; }),
      updates.end());

  auto update = updates.begin();
  const auto emit_update = [&] {
    if (!update->node->tombstone())
      window->items.push_back({update->node->key_view(), update->node->value(), update->node->large()});
    ++update;
  };
  const Key start = whole || from < window->lo.key() ? window->lo.key() : from;
  for (const persist::Dnode* dnode : all.dnodes) {
    if (window->items.size() >= items_max) return;
    persist::DnodeCursor cursor(dnodes_.volume(), *dnode);
    const uint64_t wanted_max = items_max - window->items.size();
    for (cursor.seek(start, wanted_max); cursor.valid() && window->hi.above(cursor.entry().key); cursor.next()) {
      if (window->items.size() >= items_max) return;
      const persist::Entry& entry = cursor.entry();
      while (update != updates.end() && update->key < entry.key) emit_update();
      if (update != updates.end() && update->key == entry.key) {
        emit_update();
      } else if (!entry.tombstone) {
        window->items.push_back({entry.key.bytes, entry.value, entry.large});
      }
    }
    if (cursor.damaged()) {
      window->damaged = true;
      return;
    }
  }
  while (update != updates.end()) emit_update();
}

void Index::read_window(const Key& from, uint64_t version, bool whole, uint64_t items_max, Window* window) {
  read_range(live(from), from, version, whole, items_max, window);
}

void Index::read_window_below(const base::Fence& fence, uint64_t version, Window* window) {
  Bnode* bnode = tree_.find_below(fence);
  for (Layer* layer = bnode->layer(); layer != nullptr && layer->installed.load(std::memory_order_seq_cst);
       layer = bnode->layer()) {
    size_t i = layer->news.size() - 1;
    while (i > 0 && !(layer->news[i]->lo() < fence)) --i;
    bnode = layer->news[i];
  }
  read_range(bnode, bnode->lo().key(), version, true, UINT64_MAX, window);
}

}  // namespace bonsai::index
