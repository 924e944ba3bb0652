// SPDX-License-Identifier: Apache-2.0
// The tree: finds the bnode of a key. A B+-tree over the bnodes' lower fences.
//
// Readers are wait-free: they follow one pointer per level and compare. Inner nodes never change in place, except for
// their child pointers; a node whose separators change is replaced by a copy, and the old one retired by epoch. The
// tree may lag: a bnode that it names may have successors already (bnode.h, layers); a caller that finds a bnode here
// follows them. So puts never touch the tree; only the background does, one structure change at a time, under a mutex
// that no foreground operation takes.
//
// Invariants
//  - separators of a node rise strictly; the first of each level stands for the beginning of the parent's range;
//  - the bnodes of the last level, in order, tile the key space.
// Not promised: that thin inner nodes are merged; their number is bounded by the largest tree so far.
//
// Thread-safety: find* by any thread inside an epoch guard; replace* serialised inside.
#ifndef BONSAI_INDEX_TREE_H_
#define BONSAI_INDEX_TREE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/epoch.h"
#include "base/key.h"
#include "index/bnode.h"
#include "index/scan_ahead.h"

namespace bonsai::index {

// Whether each bnode begins where the one before it ends.
template <class Bnodes>
bool tile(const Bnodes& bnodes) {
  const auto apart = [](const Bnode* a, const Bnode* b) { return a->hi() != b->lo(); };
  return std::adjacent_find(bnodes.begin(), bnodes.end(), apart) == bnodes.end();
}

class Tree {
 public:
  explicit Tree(base::EpochDomain& epochs) : epochs_(epochs) {}
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // Builds the tree over bnodes that tile the key space, in order; takes over one reference of each. Called once.
  void build(const std::vector<Bnode*>& bnodes);

  // The bnode whose range has `key`.
  [[nodiscard]] Bnode* find(const base::Key& key) const;
  // find() for a read that goes on to the dnode below. Fetches the dnode meanwhile.
  [[nodiscard]] Bnode* find_to_read(const base::Key& key) const;
  // find() for a read that goes on to the next bnodes. Returns and prefetches those of them that are in the same inner
  // node.
  [[nodiscard]] Bnode* find_to_scan(const base::Key& key, ScanAhead* ahead) const;
  // The bnodes of several keys: bnodes[i] for keys[i], fetched from memory. Their cache misses overlap.
  // Requires: keys.size() <= kFindManyMax.
  static constexpr size_t kFindManyMax = 32;
  void find_many(std::span<const base::Key> keys, std::span<Bnode*> bnodes) const { find_many(keys, bnodes, {}); }
  // find_many() that also returns the bnode after each, or null if it is in another inner node. Requires: followers has
  // as many elements as keys, or none.
  void find_many(std::span<const base::Key> keys, std::span<Bnode*> bnodes, std::span<Bnode*> followers) const;
  // The bnode whose range has the last key below `fence`. Requires: `fence` is not the empty key.
  [[nodiscard]] Bnode* find_below(const base::Fence& fence) const;

  // Calls offer(right neighbour of `bnode`) if both are in one inner node. If `offer` sets a layer on both, they stay
  // in one inner node as long as they have it, so that replace() can put one bnode in the place of the two. `offer`
  // runs under the lock of the tree's changes: it takes no step of a protocol (base/step.h), reads no NVM, and calls no
  // replace().
  void with_right_sibling(const Bnode& bnode, const std::function<void(Bnode*)>& offer);

  // Puts `news` in the place of `olds`: one bnode, or neighbours that came from with_right_sibling().
  // Takes over one reference of each new bnode; the caller gets the olds'.
  void replace(const Layer::Bnodes& olds, const Layer::Bnodes& news);

  // Calls visit for every bnode, in order; for none before build(). For statistics; bnodes replaced meanwhile may be
  // seen or missed.
  void for_each(const std::function<void(Bnode*)>& visit) const;

  [[nodiscard]] uint64_t dram_bytes() const { return dram_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kFanout = 64;
  static constexpr size_t kFillMax = kFanout - 2;  // a cut may move by one to keep two bnodes together

  struct Inner;
  union Child {
    Inner* inner;
    Bnode* bnode;
  };
  struct Slot {
    base::Fence separator;
    Child child;
  };
  struct Step {
    Inner* inner;
    size_t index;
  };
  using Path = boost::container::small_vector<Step, 8>;  // from the root to a lowest node
  using Inners = std::vector<Inner*>;

  Inner* make(const std::vector<Slot>& slots, size_t from, size_t to, uint16_t height);
  void retire(const Inners& inners);
  [[nodiscard]] Path path_to(const base::Key& key) const;
  Inners exchange(const Layer::Bnodes& olds, const Layer::Bnodes& news);
  void substitute(Path path, size_t first, size_t count, const std::vector<Slot>& slots, Inners* replaced);
  void destroy(Inner* inner);
  void visit(const Inner* inner, const std::function<void(Bnode*)>& call) const;

  base::EpochDomain& epochs_;
  std::atomic<Inner*> root_{nullptr};
  std::mutex change_mutex_;
  std::atomic<uint64_t> dram_bytes_{0};
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_TREE_H_
