// Reads: the newest visible node of the topmost layer that has one, else the dnode.
#include <algorithm>

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

Index::Found Index::get(const Key& key, uint64_t version, Value* value) {
  const uint64_t hash = key.hash();
  for (Bnode* bnode = live(key); bnode != nullptr;) {
    if (const Slots* slots = bnode->slots()) {
      if (const Node* node = visible(slots->find(key, hash).head(), version)) {
        if (node->tombstone()) return Found::kAbsent;
        *value = {node->value(), node->large(), false};
        return Found::kValue;
      }
    }
    step("load base");
    const Base base = bnode->base();
    if (const persist::Dnode* dnode = base.dnode()) {
      persist::Entry entry;
      value->from_dnode = true;
      switch (dnode->find(dnodes_.volume(), key, &entry)) {
        case persist::Find::kAbsent:
          return Found::kAbsent;
        case persist::Find::kDamaged:
          return Found::kDamaged;
        case persist::Find::kFound:
          break;
      }
      if (entry.tombstone) return Found::kAbsent;
      *value = {entry.value, entry.large, true};
      return Found::kValue;
    }
    bnode = base.layer() != nullptr ? base.layer()->old_for(key) : base.residue();
  }
  return Found::kAbsent;
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
    for (cursor.seek(start); cursor.valid() && window->hi.above(cursor.entry().key); cursor.next()) {
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
