// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/maps/skip_list.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/random.h"
#include "base/step.h"

namespace bonsai::bench::maps {

using base::step;

SkipList::SkipList(Memory* memory) : memory_(memory), head_(make_node(0, nullptr, kLevels)) {}

SkipList::~SkipList() {
  for (Node* node = node_of(head_->next(0)); node != nullptr;) {
    Node* const next = node_of(node->next(0));
    if (Box* box = node->value) memory_->destroy(box);
    free_node(memory_, node);
    node = next;
  }
  free_node(memory_, head_);
}

// Depends on the key alone: a key that comes back has the same height, and threads share no generator.
int SkipList::height_of(uint64_t key) {
  return 1 + std::min(kLevels - 1, std::countr_zero(base::splitmix64(key) | uint64_t{1} << 63) / 2);
}

SkipList::Node* SkipList::make_node(uint64_t key, Box* value, int height) {
  Node* const node = new (memory_->allocate(bytes_of(height))) Node{key, value, 2, static_cast<uint32_t>(height)};
  for (int level = 0; level < height; ++level) new (&node->next(level)) Link(0);
  return node;
}

void SkipList::free_node(Memory* memory, Node* node) { memory->free(node, bytes_of(static_cast<int>(node->height))); }

// Walks at one level from *at to the last node below the key; *after is the one that follows it. Unlinks marked nodes
// in between; false when that failed, or *at itself was removed.
bool SkipList::unlink_marked_from(Node** at, uint64_t key, int level, Node** after) {
  step("skip.walk");
  Node* node = node_of((*at)->next(level).load());
  while (node != nullptr) {
    const uintptr_t next = node->next(level).load();
    if (is_marked(next)) {
      step("skip.unlink");
      uintptr_t expected = link_to(node);
      if (!(*at)->next(level).compare_exchange_strong(expected, next & ~kMark)) return false;
      node = node_of(next);
      continue;
    }
    if (node->key >= key) break;
    step("hop");
    *at = node;
    node = node_of(next);
  }
  *after = node;
  return true;
}

// Where the key is or would be. True when `after` begins with a node of the key, which may have lost its value.
bool SkipList::find(uint64_t key, Path* before, Path* after) {
  for (;;) {
    Node* at = head_;
    int level = kLevels - 1;
    for (; level >= 0; --level) {
      if (!unlink_marked_from(&at, key, level, &(*after)[level])) break;
      (*before)[level] = at;
    }
    if (level < 0) return (*after)[0] != nullptr && (*after)[0]->key == key;
  }
}

// False when the record was removed.
bool SkipList::replace(Node* node, Box* box) {
  Box* old = node->value.load();
  do {
    step("skip.replace");
    if (old == nullptr) return false;
  } while (!node->value.compare_exchange_weak(old, box));
  memory_->retire_object(old);
  return true;
}

void SkipList::put(uint64_t key, uint64_t value) {
  const auto guard = memory_->enter();
  Box* const box = memory_->make<Box>(value);
  Node* fresh = nullptr;
  Path before, after;
  for (;;) {
    if (find(key, &before, &after)) {
      if (replace(after[0], box)) break;
      mark(after[0]);
      continue;
    }
    if (fresh == nullptr) fresh = make_node(key, box, height_of(key));
    for (uint32_t level = 0; level < fresh->height; ++level)
      fresh->next(static_cast<int>(level)) = link_to(after[level]);
    step("skip.insert");
    uintptr_t expected = link_to(after[0]);
    if (!before[0]->next(0).compare_exchange_strong(expected, link_to(fresh))) continue;
    link_upper_levels(fresh, &before, &after);
    return;
  }
  if (fresh != nullptr) free_node(memory_, fresh);
}

// Ends early when the node is removed meanwhile.
void SkipList::link_upper_levels(Node* node, Path* before, Path* after) {
  for (int level = 1; level < static_cast<int>(node->height);) {
    uintptr_t own = node->next(level).load();
    step("skip.raise");
    if (is_marked(own)) break;
    if (own != link_to((*after)[level]) && !node->next(level).compare_exchange_strong(own, link_to((*after)[level]))) {
      break;
    }
    uintptr_t expected = link_to((*after)[level]);
    if ((*before)[level]->next(level).compare_exchange_strong(expected, link_to(node))) {
      ++level;
      continue;
    }
    if (!find(node->key, before, after) || (*after)[0] != node) break;
  }
  let_go(node);
}

// From the top, so that who descends through an unmarked link finds the lower ones in place.
void SkipList::mark(Node* node) {
  for (int level = static_cast<int>(node->height) - 1; level >= 0; --level) {
    step("skip.mark");
    node->next(level).fetch_or(kMark);
  }
}

// True for the last of the two users of the node, its inserter and its remover: it retires the node.
bool SkipList::let_go(Node* node) {
  if (node->holders.fetch_sub(1) != 1) return false;
  Path before, after;
  find(node->key, &before, &after);
  memory_->retire(
      node, [](void* dead, void* memory) { free_node(static_cast<Memory*>(memory), static_cast<Node*>(dead)); },
      memory_, bytes_of(static_cast<int>(node->height)));
  return true;
}

void SkipList::remove(uint64_t key) {
  const auto guard = memory_->enter();
  Path before, after;
  if (!find(key, &before, &after)) return;
  Node* const node = after[0];
  step("skip.remove");
  Box* const box = node->value.exchange(nullptr);
  if (box == nullptr) return;
  memory_->retire_object(box);
  mark(node);
  if (!let_go(node)) find(key, &before, &after);
}

// The first node that is not below the key, at the lowest level; it may have no value.
SkipList::Node* SkipList::first_not_below(uint64_t key) {
  Node* at = head_;
  Node* node = nullptr;
  for (int level = kLevels - 1; level >= 0; --level) {
    node = node_of(at->next(level).load(std::memory_order_acquire));
    while (node != nullptr && node->key < key) {
      step("hop");
      at = node;
      node = node_of(node->next(level).load(std::memory_order_acquire));
    }
  }
  return node;
}

bool SkipList::get(uint64_t key, uint64_t* value) {
  const auto guard = memory_->enter();
  // A removed node may still stand before another one of its key.
  for (Node* node = first_not_below(key); node != nullptr && node->key == key; node = node_of(node->next(0))) {
    step("skip.get");
    if (const Box* box = node->value.load(std::memory_order_acquire)) {
      *value = box->value;
      return true;
    }
  }
  return false;
}

void SkipList::scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) {
  const auto guard = memory_->enter();
  records->clear();
  for (Node* node = first_not_below(from); node != nullptr && node->key <= to && records->size() < limit;
       node = node_of(node->next(0).load(std::memory_order_acquire))) {
    step("skip.scan");
    const Box* const box = node->value.load(std::memory_order_acquire);
    if (box != nullptr) records->push_back({node->key, box->value});
  }
}

std::optional<Record> SkipList::floor(uint64_t key) {
  const auto guard = memory_->enter();
  std::optional<Record> found;
  Node* at = head_;
  for (int level = kLevels - 1; level >= 0; --level) {
    Node* node = node_of(at->next(level).load(std::memory_order_acquire));
    while (node != nullptr && node->key <= key) {
      at = node;
      const Box* const box = node->value.load(std::memory_order_acquire);
      if (box != nullptr) found = {node->key, box->value};
      node = node_of(node->next(level).load(std::memory_order_acquire));
    }
  }
  return found;
}

}  // namespace bonsai::bench::maps
