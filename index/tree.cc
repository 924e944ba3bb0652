// SPDX-License-Identifier: Apache-2.0
#include "index/tree.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "index/prefetch.h"

namespace bonsai::index {

using base::Fence;
using base::Key;
using base::step;

// A search reads the pivots (the first head of each block), one block's heads and its children, which are side by side,
// and no full separator unless a head ties. Where separators share a long prefix, heads begin after it, so that they
// differ, too.
struct Tree::Inner {
  static constexpr size_t kBlock = 8;  // heads in a line
  static constexpr size_t kLine = kBlock * sizeof(uint64_t);
  static constexpr size_t kPrefixBytesMax = 40;
  static constexpr size_t kPrefixBytesMin = 4;  // shorter ones are left in the heads: to compare them costs more

  struct Block {
    uint64_t heads[kBlock];
    std::atomic<uintptr_t> children[kBlock];
    std::atomic<uintptr_t> below[kBlock];  // what will be read after the child: to be fetched only, it may be gone
  };

  alignas(kLine) uint64_t pivots[kFanout / kBlock - 1];  // of blocks 1, 2, ...
  uint16_t height = 0;                                   // 0: children are bnodes
  uint16_t count = 0;
  uint16_t prefix_bytes = 0;
  char prefix[kPrefixBytesMax];
  alignas(kLine) Block blocks[kFanout / kBlock];
  std::vector<Fence> separators;  // `count`; apart, since they are hardly ever read

  static void* operator new(size_t bytes) { return base::allocate_block<kLine>(bytes, base::Lifetime::kRanges); }
  static void operator delete(void* block) { base::free_block<kLine>(block); }

  [[nodiscard]] const std::atomic<uintptr_t>& child(size_t i) const { return blocks[i / kBlock].children[i % kBlock]; }
  [[nodiscard]] Inner* inner(size_t i) const {
    return reinterpret_cast<Inner*>(child(i).load(std::memory_order_acquire));
  }
  [[nodiscard]] Bnode* bnode(size_t i) const {
    return reinterpret_cast<Bnode*>(child(i).load(std::memory_order_seq_cst));
  }
  void set_inner(size_t i, Inner* inner) {
    blocks[i / kBlock].children[i % kBlock].store(reinterpret_cast<uintptr_t>(inner), std::memory_order_release);
  }
  void set_bnode(size_t i, Bnode* bnode) {
    const auto below = reinterpret_cast<uintptr_t>(bnode->base().dnode());
    blocks[i / kBlock].below[i % kBlock].store(below, std::memory_order_relaxed);
    blocks[i / kBlock].children[i % kBlock].store(reinterpret_cast<uintptr_t>(bnode), std::memory_order_seq_cst);
  }
  [[nodiscard]] uint64_t dram_bytes() const { return sizeof *this + separators.capacity() * sizeof(Fence); }
  void prefetch_block(size_t i) const {
    __builtin_prefetch(blocks[i / kBlock].heads);
    __builtin_prefetch(blocks[i / kBlock].children);
  }
  void prefetch_below(size_t i) const {
    const uintptr_t below = blocks[i / kBlock].below[i % kBlock].load(std::memory_order_relaxed);
    persist::Dnode::prefetch_block(reinterpret_cast<const void*>(below));
  }

  void set_prefix() {
    bool long_ones = false;  // others are all in their heads
    for (size_t i = 1; i < count; ++i) long_ones = long_ones || separators[i].bytes().size() > sizeof(uint64_t);
    if (!long_ones) return;
    const std::string& first = separators[1].bytes();  // of separators[0] nothing is compared
    const size_t common = base::common_prefix_bytes(first, separators[count - size_t{1}].bytes());
    if (common < kPrefixBytesMin) return;
    prefix_bytes = static_cast<uint16_t>(std::min(common, kPrefixBytesMax));
    std::copy_n(first.begin(), prefix_bytes, prefix);
  }
  void set_heads() {
    set_prefix();
    for (size_t i = 0; i < kFanout; ++i) {
      uint64_t& head = blocks[i / kBlock].heads[i % kBlock];
      head = i == 0 ? 0 : UINT64_MAX;  // minus infinity, and infinity after the last
      if (i > 0 && i < count) head = base::key_head(std::string_view(separators[i].bytes()).substr(prefix_bytes));
      if (i > 0 && i % kBlock == 0) pivots[i / kBlock - 1] = head;
    }
  }

  // The value that a search compares with the heads. False: the key is before or after all separators; *edge is the
  // answer.
  bool head_of(const Key& key, uint64_t* head, size_t* edge) const {
    *head = key.head;
    if (prefix_bytes == 0) return true;
    const int order = key.bytes.substr(0, prefix_bytes).compare({prefix, prefix_bytes});
    *edge = order < 0 ? 0 : count - size_t{1};
    *head = order == 0 ? base::key_head(key.bytes.substr(prefix_bytes)) : 0;
    return order == 0;
  }
  // The block, as index of its first child, where a search for `key` goes on.
  [[nodiscard]] size_t block_of(const Key& key) const {
    uint64_t head;
    size_t edge;
    return head_of(key, &head, &edge) ? rank(pivots, head) * kBlock : edge;
  }
  // Index of the child whose range has `key`: the last separator that is not above it. The first always matches.
  [[nodiscard]] size_t index_of(const Key& key) const { return index_of(key, block_of(key)); }
  // index_of() if block_of(key) is known.
  [[nodiscard]] size_t index_of(const Key& key, size_t block) const {
    return last_that(key, block, [&](size_t i) { return !(key < separators[i].key()); });
  }
  // Index of the child whose range has the last key below `key`.
  [[nodiscard]] size_t index_below(const Key& key) const {
    return last_that(key, block_of(key), [&](size_t i) { return separators[i].key() < key; });
  }

 private:
  // The last separator that fits. Requires: those that fit come first; `block` is block_of(key).
  template <class Fits>
  size_t last_that(const Key& key, size_t block, Fits fits) const {
    uint64_t head;
    size_t i;
    if (!head_of(key, &head, &i)) return i;
    i = std::min<size_t>(block + rank(blocks[block / kBlock].heads + 1, head), count - size_t{1});
    while (i > 0 && blocks[i / kBlock].heads[i % kBlock] == head && !fits(i)) --i;
    return i;
  }
  // The last of eight rising heads, given from the second on, that is not above `head`; the first if there is none.
  static size_t rank(const uint64_t* risen, uint64_t head) {
    size_t not_above = 0;
    for (size_t i = 0; i < kBlock - 1; ++i) not_above += risen[i] <= head ? 1 : 0;
    return not_above;
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
  inner->separators.reserve(to - from);
  for (size_t i = from; i < to; ++i) {
    const Slot& slot = slots[i];
    BONSAI_INVARIANT(i == from || slots[i - 1].separator < slot.separator);
    inner->separators.push_back(slot.separator);
    if (height > 0) {
      inner->set_inner(i - from, slot.child.inner);
    } else {
      inner->set_bnode(i - from, slot.child.bnode);
    }
  }
  inner->set_heads();
  dram_bytes_.fetch_add(inner->dram_bytes(), std::memory_order_relaxed);
  return inner;
}

void Tree::retire(const Inners& inners) {
  for (Inner* inner : inners) {
    dram_bytes_.fetch_sub(inner->dram_bytes(), std::memory_order_relaxed);
    epochs_.retire_delete(inner);
  }
}

void Tree::build(const std::vector<Bnode*>& bnodes) {
  constexpr size_t kFill = kFanout * 3 / 4;
  BONSAI_INVARIANT(!bnodes.empty() && root_.load() == nullptr);
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
  for (step("descend"); inner->height > 0; step("descend")) inner = inner->inner(inner->index_of(key));
  Bnode* bnode = inner->bnode(inner->index_of(key));
  BONSAI_SLOW_INVARIANT(bnode->covers(key));
  return bnode;
}

Bnode* Tree::find_to_read(const Key& key) const {
  const Inner* inner = root_.load(std::memory_order_acquire);
  for (step("descend"); inner->height > 0; step("descend")) {
    inner = inner->inner(inner->index_of(key));
    __builtin_prefetch(inner);
  }
  const size_t i = inner->index_of(key);
  inner->prefetch_below(i);
  BONSAI_SLOW_INVARIANT(inner->bnode(i)->covers(key));
  return inner->bnode(i);
}

Bnode* Tree::find_to_scan(const Key& key, ScanAhead* ahead) const {
  const Inner* inner = root_.load(std::memory_order_acquire);
  for (step("descend"); inner->height > 0; step("descend")) inner = inner->inner(inner->index_of(key));
  const size_t first = inner->index_of(key);
  ahead->forget_bnodes();
  for (size_t i = first + 1; i < inner->count && !ahead->full(); ++i) {
    ahead->add(inner->bnode(i));
    Prefetch::bnode(*inner->bnode(i));
  }
  return inner->bnode(first);
}

void Tree::find_many(std::span<const Key> keys, std::span<Bnode*> bnodes, std::span<Bnode*> followers) const {
  BONSAI_DCHECK(keys.size() <= kFindManyMax && bnodes.size() >= keys.size());
  std::array<const Inner*, kFindManyMax> at;
  std::array<size_t, kFindManyMax> blocks;
  std::fill_n(at.begin(), keys.size(), root_.load(std::memory_order_acquire));
  const auto prefetch_blocks = [&] {
    for (size_t k = 0; k < keys.size(); ++k) {
      blocks[k] = at[k]->block_of(keys[k]);
      at[k]->prefetch_block(blocks[k]);
    }
  };
  for (uint16_t height = at[0]->height; height > 0; --height) {
    prefetch_blocks();
    for (size_t k = 0; k < keys.size(); ++k) {
      step("descend");
      at[k] = at[k]->inner(at[k]->index_of(keys[k], blocks[k]));
      __builtin_prefetch(at[k]);
    }
  }
  prefetch_blocks();
  for (size_t k = 0; k < keys.size(); ++k) {
    step("descend");
    const size_t i = at[k]->index_of(keys[k], blocks[k]);
    bnodes[k] = at[k]->bnode(i);
    BONSAI_SLOW_INVARIANT(bnodes[k]->covers(keys[k]));
    Prefetch::bnode(*bnodes[k]);
    if (!followers.empty()) followers[k] = i + 1 < at[k]->count ? at[k]->bnode(i + 1) : nullptr;
  }
}

Bnode* Tree::find_below(const Fence& fence) const {
  const Inner* inner = root_.load(std::memory_order_acquire);
  for (;;) {
    step("descend");
    const size_t i = fence.is_infinite() ? inner->count - size_t{1} : inner->index_below(fence.key());
    if (inner->height == 0) return inner->bnode(i);
    inner = inner->inner(i);
  }
}

void Tree::with_right_sibling(const Bnode& bnode, const std::function<void(Bnode*)>& offer) {
  const std::lock_guard lock(change_mutex_);
  const base::StepFree step_free;
  const auto [inner, i] = path_to(bnode.lo().key()).back();
  if (inner->bnode(i) == &bnode && i + 1 < inner->count) offer(inner->bnode(i + 1));
}

Tree::Path Tree::path_to(const Key& key) const {
  Path path;
  for (Inner* inner = root_.load(std::memory_order_acquire);;) {
    const size_t i = inner->index_of(key);
    path.push_back({inner, i});
    if (inner->height == 0) return path;
    inner = inner->inner(i);
  }
}

void Tree::replace(const Layer::Bnodes& olds, const Layer::Bnodes& news) { retire(exchange(olds, news)); }

// replace(), but for the retiring of the inner nodes that it returns, which may reclaim others: not under the lock.
Tree::Inners Tree::exchange(const Layer::Bnodes& olds, const Layer::Bnodes& news) {
  const std::lock_guard lock(change_mutex_);
  const base::StepFree step_free;
  const Path path = path_to(olds.front()->lo().key());
  const auto [inner, first] = path.back();
  BONSAI_CHECK(first + olds.size() <= inner->count);
  BONSAI_INVARIANT(news.front()->lo() == olds.front()->lo() && news.back()->hi() == olds.back()->hi());
  for (size_t i = 1; i < news.size(); ++i) BONSAI_INVARIANT(news[i - 1]->hi() == news[i]->lo());
  for (size_t i = 0; i < olds.size(); ++i) BONSAI_CHECK(inner->bnode(first + i) == olds[i]);
  if (olds.size() == 1 && news.size() == 1) {
    inner->set_bnode(first, news[0]);
    return {};
  }
  std::vector<Slot> slots;
  for (Bnode* bnode : news) slots.push_back({bnode->lo(), {.bnode = bnode}});
  slots.front().separator = inner->separators[first];
  Inners replaced;
  substitute(path, first, olds.size(), slots, &replaced);
  return replaced;
}

namespace {

bool share_a_layer(const Bnode& a, const Bnode& b) { return a.layer() != nullptr && a.layer() == b.layer(); }

}  // namespace

// Replaces `count` children of the path's last node from `first` on by `slots`: copies the node, or splits it and
// goes on one level up. Adds the nodes that are replaced to `replaced`.
void Tree::substitute(Path path, size_t first, size_t count, const std::vector<Slot>& slots, Inners* replaced) {
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
    return share_a_layer(*all[at - 1].child.bnode, *all[at].child.bnode) ? at + 1 : at;
  };
  std::vector<Slot> made;
  for (size_t p = 0; p < parts; ++p) {
    const size_t from = cut(p);
    const size_t to = cut(p + 1);
    BONSAI_INVARIANT(inner->height > 0 || from == 0 ||
                     !share_a_layer(*all[from - 1].child.bnode, *all[from].child.bnode));
    made.push_back({all[from].separator, {.inner = make(all, from, to, inner->height)}});
  }
  if (!path.empty()) {
    const auto [parent, index] = path.back();
    if (parts == 1) {
      parent->set_inner(index, made[0].child.inner);
    } else {
      made.front().separator = parent->separators[index];
      substitute(std::move(path), index, 1, made, replaced);
    }
  } else if (parts == 1) {
    root_.store(made[0].child.inner, std::memory_order_release);
  } else {
    root_.store(make(made, 0, made.size(), static_cast<uint16_t>(inner->height + 1)), std::memory_order_release);
  }
  replaced->push_back(inner);
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
