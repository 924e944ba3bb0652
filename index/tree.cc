#include "index/tree.h"

#include <algorithm>

#include "base/check.h"

namespace bonsai::index {

using base::Fence;
using base::Key;

// Heads lie apart from the full separators: most comparisons touch only them.
struct Tree::Inner {
  uint16_t height = 0;  // 0: children are bnodes
  uint16_t count = 0;
  uint64_t heads[kFanout];
  std::atomic<uintptr_t> children[kFanout];
  Fence separators[kFanout];

  [[nodiscard]] Inner* inner(size_t i) const {
    return reinterpret_cast<Inner*>(children[i].load(std::memory_order_acquire));
  }
  [[nodiscard]] Bnode* bnode(size_t i) const {
    return reinterpret_cast<Bnode*>(children[i].load(std::memory_order_seq_cst));
  }

  // Index of the child whose range has `key`: the last separator that is not above it. The first always matches.
  [[nodiscard]] size_t index_of(const Key& key) const {
    const uint64_t* begin = heads + 1;
    const uint64_t* end = heads + count;
    size_t i = static_cast<size_t>(std::upper_bound(begin, end, key.head) - begin);
    while (i > 0 && heads[i] == key.head && key < separators[i].key()) --i;
    return i;
  }
  // The same for the last key below `key`.
  [[nodiscard]] size_t index_below(const Key& key) const {
    const uint64_t* begin = heads + 1;
    const uint64_t* end = heads + count;
    size_t i = static_cast<size_t>(std::upper_bound(begin, end, key.head) - begin);
    while (i > 0 && !(separators[i].key() < key)) --i;
    return i;
  }
};

Tree::~Tree() {
  if (Inner* root = root_.load()) destroy(root);
}

void Tree::destroy(Inner* inner) {
  for (size_t i = 0; i < inner->count; ++i) {
    if (inner->height > 0) {
      destroy(inner->inner(i));
    } else {
      inner->bnode(i)->unref();
    }
  }
  delete inner;
}

Tree::Inner* Tree::make(const std::vector<Slot>& slots, size_t from, size_t to, uint16_t height) {
  BONSAI_CHECK(from < to && to - from <= kFanout);
  auto* inner = new Inner();
  inner->height = height;
  inner->count = static_cast<uint16_t>(to - from);
  for (size_t i = from; i < to; ++i) {
    const Slot& slot = slots[i];
    inner->heads[i - from] = slot.separator.key().head;
    inner->separators[i - from] = slot.separator;
    const uintptr_t child =
        height > 0 ? reinterpret_cast<uintptr_t>(slot.child.inner) : reinterpret_cast<uintptr_t>(slot.child.bnode);
    inner->children[i - from].store(child, std::memory_order_relaxed);
  }
  dram_bytes_.fetch_add(sizeof(Inner), std::memory_order_relaxed);
  return inner;
}

void Tree::retire(Inner* inner) {
  dram_bytes_.fetch_sub(sizeof(Inner), std::memory_order_relaxed);
  epochs_.retire_delete(inner);
}

void Tree::build(const std::vector<Bnode*>& bnodes) {
  constexpr size_t kFill = kFanout * 3 / 4;
  std::vector<Slot> level;
  level.reserve(bnodes.size());
  for (Bnode* bnode : bnodes) level.push_back({bnode->lo(), {.bnode = bnode}});
  for (uint16_t height = 0;; ++height) {
    std::vector<Slot> above;
    for (size_t i = 0; i < level.size(); i += kFill) {
      Inner* inner = make(level, i, std::min(i + kFill, level.size()), height);
      above.push_back({level[i].separator, {.inner = inner}});
    }
    if (above.size() == 1) {
      root_.store(above[0].child.inner, std::memory_order_release);
      return;
    }
    level = std::move(above);
  }
}

Bnode* Tree::find(const Key& key) const {
  const Inner* inner = root_.load(std::memory_order_acquire);
  while (inner->height > 0) inner = inner->inner(inner->index_of(key));
  return inner->bnode(inner->index_of(key));
}

Bnode* Tree::find_below(const Fence& fence) const {
  const Inner* inner = root_.load(std::memory_order_acquire);
  for (;;) {
    const size_t i = fence.is_infinite() ? inner->count - size_t{1} : inner->index_below(fence.key());
    if (inner->height == 0) return inner->bnode(i);
    inner = inner->inner(i);
  }
}

void Tree::with_right_sibling(const Bnode& bnode, const std::function<void(Bnode*)>& offer) {
  const std::lock_guard lock(change_mutex_);
  const auto [inner, i] = path_to(bnode.lo().key()).back();
  if (inner->bnode(i) == &bnode && i + 1 < inner->count) offer(inner->bnode(i + 1));
}

std::vector<Tree::Step> Tree::path_to(const Key& key) const {
  std::vector<Step> path;
  for (Inner* inner = root_.load(std::memory_order_acquire);;) {
    const size_t i = inner->index_of(key);
    path.push_back({inner, i});
    if (inner->height == 0) return path;
    inner = inner->inner(i);
  }
}

void Tree::replace(const std::vector<Bnode*>& olds, const std::vector<Bnode*>& news) {
  const std::lock_guard lock(change_mutex_);
  const std::vector<Step> path = path_to(olds.front()->lo().key());
  const auto [inner, first] = path.back();
  BONSAI_CHECK(first + olds.size() <= inner->count);
  for (size_t i = 0; i < olds.size(); ++i) BONSAI_CHECK(inner->bnode(first + i) == olds[i]);
  if (olds.size() == 1 && news.size() == 1) {
    inner->children[first].store(reinterpret_cast<uintptr_t>(news[0]), std::memory_order_seq_cst);
    return;
  }
  std::vector<Slot> slots;
  for (Bnode* bnode : news) slots.push_back({bnode->lo(), {.bnode = bnode}});
  slots.front().separator = inner->separators[first];
  substitute(path, first, olds.size(), slots);
}

// Replaces `count` children of the path's last node from `first` on by `slots`: copies the node, or splits it and
// goes on one level up.
void Tree::substitute(std::vector<Step> path, size_t first, size_t count, const std::vector<Slot>& slots) {
  Inner* inner = path.back().inner;
  path.pop_back();
  std::vector<Slot> all;
  const auto keep = [&](size_t i) {
    Slot slot{inner->separators[i], {}};
    if (inner->height > 0) {
      slot.child.inner = inner->inner(i);
    } else {
      slot.child.bnode = inner->bnode(i);
    }
    all.push_back(std::move(slot));
  };
  for (size_t i = 0; i < first; ++i) keep(i);
  all.insert(all.end(), slots.begin(), slots.end());
  for (size_t i = first + count; i < inner->count; ++i) keep(i);

  const size_t parts = all.size() <= kFanout ? 1 : (all.size() + kFillMax - 1) / kFillMax;
  const auto cut = [&](size_t p) {
    const size_t at = all.size() * p / parts;
    if (p == 0 || p == parts || inner->height > 0) return at;
    const Layer* layer = all[at].child.bnode->layer();
    return layer != nullptr && layer == all[at - 1].child.bnode->layer() ? at + 1 : at;
  };
  std::vector<Slot> made;
  for (size_t p = 0; p < parts; ++p) {
    const size_t from = cut(p);
    const size_t to = cut(p + 1);
    made.push_back({all[from].separator, {.inner = make(all, from, to, inner->height)}});
  }
  if (!path.empty()) {
    const auto [parent, index] = path.back();
    if (parts == 1) {
      parent->children[index].store(reinterpret_cast<uintptr_t>(made[0].child.inner), std::memory_order_release);
    } else {
      made.front().separator = parent->separators[index];
      substitute(std::move(path), index, 1, made);
    }
  } else if (parts == 1) {
    root_.store(made[0].child.inner, std::memory_order_release);
  } else {
    root_.store(make(made, 0, made.size(), static_cast<uint16_t>(inner->height + 1)), std::memory_order_release);
  }
  retire(inner);
}

void Tree::visit(const Inner* inner, const std::function<void(Bnode*)>& call) const {
  for (size_t i = 0; i < inner->count; ++i) {
    if (inner->height > 0) {
      visit(inner->inner(i), call);
    } else {
      call(inner->bnode(i));
    }
  }
}

void Tree::for_each(const std::function<void(Bnode*)>& call) const {
  if (const Inner* root = root_.load(std::memory_order_acquire)) visit(root, call);
}

}  // namespace bonsai::index
