// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/maps/kary_tree.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/step.h"

namespace bonsai::bench::maps {

using base::step;

KaryTree::KaryTree(const KaryTreeOptions& options) : k_(options.k), root_(make_leaf(nullptr, 0)) {
  BONSAI_CHECK(options.k >= 2);
}

KaryTree::~KaryTree() { free_tree(root_); }

size_t KaryTree::bytes_of(const Node* node) {
  if (node->is_leaf) return sizeof(Node) + node->size * sizeof(Record);
  return sizeof(Node) + node->size * sizeof(Place) + (node->size - 1) * sizeof(uint64_t);
}

KaryTree::Node* KaryTree::make_leaf(const Record* records, uint32_t size) {
  const Node shape{size, true};
  Node* const leaf = new (memory_.allocate(bytes_of(&shape))) Node(shape);
  std::copy(records, records + size, records_of(leaf));
  return leaf;
}

// With a leaf for each record.
KaryTree::Node* KaryTree::make_inner(const std::vector<Record>& records) {
  const Node shape{static_cast<uint32_t>(records.size()), false};
  Node* const inner = new (memory_.allocate(bytes_of(&shape))) Node(shape);
  for (uint32_t i = 0; i < shape.size; ++i) {
    new (&children_of(inner)[i]) Place(make_leaf(&records[i], 1));
    if (i > 0) keys_of(inner)[i - 1] = records[i].key;
  }
  return inner;
}

// Iterates: recursion would be as deep as the tree, which for rising keys is as deep as it is large.
void KaryTree::free_tree(Node* root) {
  std::vector<Node*> left = {root};
  while (!left.empty()) {
    Node* const node = left.back();
    left.pop_back();
    if (!node->is_leaf) left.insert(left.end(), children_of(node), children_of(node) + node->size);
    memory_.free(node, bytes_of(node));
  }
}

uint32_t KaryTree::child_of(Node* inner, uint64_t key) {
  const uint64_t* const keys = keys_of(inner);
  return static_cast<uint32_t>(std::upper_bound(keys, keys + inner->size - 1, key) - keys);
}

// Its record, or where it would be.
Record* KaryTree::find_in(Node* leaf, uint64_t key) {
  Record* const records = records_of(leaf);
  return std::lower_bound(records, records + leaf->size, key,
                          [](const Record& record, uint64_t wanted) { return record.key < wanted; });
}

KaryTree::Place* KaryTree::place_of(uint64_t key, Node** leaf) {
  Place* place = &root_;
  step("kary.find");
  for (*leaf = place->load(); !(*leaf)->is_leaf; *leaf = place->load()) {
    step("hop");
    place = &children_of(*leaf)[child_of(*leaf, key)];
  }
  return place;
}

bool KaryTree::get(uint64_t key, uint64_t* value) {
  const auto guard = memory_.enter();
  Node* leaf;
  place_of(key, &leaf);
  const Record* const record = find_in(leaf, key);
  if (record == records_of(leaf) + leaf->size || record->key != key) return false;
  *value = record->value;
  return true;
}

// Puts a new leaf, or subtree, in a leaf's place. False when another update was first; `fresh` is freed then.
bool KaryTree::swap_leaf(Place* place, Node* leaf, Node* fresh) {
  step("kary.swap");
  Node* expected = leaf;
  if (!place->compare_exchange_strong(expected, fresh)) {
    free_tree(fresh);
    return false;
  }
  memory_.retire(
      leaf,
      [](void* dead, void* memory) {
        static_cast<Memory*>(memory)->free(dead, bytes_of(static_cast<const Node*>(dead)));
      },
      &memory_, bytes_of(leaf));
  return true;
}

void KaryTree::put(uint64_t key, uint64_t value) {
  const auto guard = memory_.enter();
  std::vector<Record> records;
  records.reserve(k_);
  for (;;) {
    Node* leaf;
    Place* const place = place_of(key, &leaf);
    const Record* const at = find_in(leaf, key);
    const Record* const end = records_of(leaf) + leaf->size;
    records.assign(records_of(leaf), records_of(leaf) + leaf->size);
    if (at != end && at->key == key) {
      records[static_cast<size_t>(at - records_of(leaf))].value = value;
    } else {
      records.insert(records.begin() + (at - records_of(leaf)), {key, value});
    }
    Node* const fresh =
        records.size() < k_ ? make_leaf(records.data(), static_cast<uint32_t>(records.size())) : make_inner(records);
    if (swap_leaf(place, leaf, fresh)) return;
  }
}

void KaryTree::remove(uint64_t key) {
  const auto guard = memory_.enter();
  std::vector<Record> records;
  for (;;) {
    Node* leaf;
    Place* const place = place_of(key, &leaf);
    const Record* const at = find_in(leaf, key);
    if (at == records_of(leaf) + leaf->size || at->key != key) return;
    records.assign(records_of(leaf), records_of(leaf) + leaf->size);
    records.erase(records.begin() + (at - records_of(leaf)));
    if (swap_leaf(place, leaf, make_leaf(records.data(), static_cast<uint32_t>(records.size())))) return;
  }
}

void KaryTree::collect(uint64_t from, uint64_t to, size_t limit, std::vector<Seen>* seen,
                       std::vector<Record>* records) {
  std::vector<Way> way;
  Place* place = &root_;
  for (;;) {
    step("kary.collect");
    Node* const node = place->load();
    if (!node->is_leaf) {
      way.push_back({node, child_of(node, from)});
    } else {
      seen->push_back({place, node});
      const Record* const end = records_of(node) + node->size;
      for (const Record* at = find_in(node, from); at != end; ++at) {
        if (at->key > to || records->size() == limit) return;
        records->push_back(*at);
      }
    }
    while (!way.empty() && way.back().next == way.back().inner->size) way.pop_back();
    if (way.empty() || records->size() == limit) return;
    Way& last = way.back();
    if (last.next > 0 && keys_of(last.inner)[last.next - 1] > to) return;
    place = &children_of(last.inner)[last.next++];
  }
}

void KaryTree::scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) {
  const auto guard = memory_.enter();
  std::vector<Seen> seen;
  for (;;) {
    records->clear();
    seen.clear();
    collect(from, to, limit, &seen, records);
    // A leaf that is still in its place was there all the time: none comes back. So all were there when the last one
    // was collected.
    step("kary.check");
    const auto is_in_place = [](const Seen& one) { return one.place->load() == one.leaf; };
    if (std::all_of(seen.begin(), seen.end(), is_in_place)) return;
    scans_restarted_.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace bonsai::bench::maps
