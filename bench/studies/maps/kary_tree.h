// SPDX-License-Identifier: Apache-2.0
// A lock-free k-ary search tree with range queries, after Brown and Helga (2011) and Brown and Avni (2012); k = 64, as
// KiWi's authors measured it.
//
// Records are in leaves of at most k - 1, which never change: an update copies the leaf and swaps the pointer to it. A
// full leaf becomes an inner node with k leaves of one record each. Nothing balances the tree: keys in rising order
// make a path that grows by one node every k - 1 inserts. A scan collects the leaves of its range and then checks that
// all are still in place; if not, it begins again. So scans are atomic, and concurrent updates may starve them.
//
// Simplified: inner nodes are never removed (in the paper they are "pruned" when all but one of their leaves are
// empty). So one compare-and-swap on a leaf's place is a whole update, without flags and helping.
#ifndef BONSAI_BENCH_STUDIES_MAPS_KARY_TREE_H_
#define BONSAI_BENCH_STUDIES_MAPS_KARY_TREE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "bench/studies/maps/map.h"
#include "bench/studies/maps/memory.h"

namespace bonsai::bench::maps {

struct KaryTreeOptions {
  uint32_t k = 64;  // at least 2
};

class KaryTree final : public Map {
 public:
  explicit KaryTree(const KaryTreeOptions& options = {});
  ~KaryTree() override;

  [[nodiscard]] bool get(uint64_t key, uint64_t* value) override;
  void put(uint64_t key, uint64_t value) override;
  void remove(uint64_t key) override;
  void scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) override;
  [[nodiscard]] bool scans_are_atomic() const override { return true; }
  [[nodiscard]] uint64_t bytes() const override { return memory_.bytes(); }
  [[nodiscard]] Counters counters() const override {
    return {.scans_restarted = scans_restarted_.load(std::memory_order_relaxed)};
  }

 private:
  // A leaf of `size` records, or an inner node of `size` children whose keys are the least of all but the first.
  struct Node {
    uint32_t size;
    bool is_leaf;
  };
  using Place = std::atomic<Node*>;
  struct Seen {
    Place* place;
    Node* leaf;
  };
  struct Way {
    Node* inner;
    uint32_t next;  // child
  };

  static Record* records_of(Node* leaf) { return reinterpret_cast<Record*>(leaf + 1); }
  static Place* children_of(Node* inner) { return reinterpret_cast<Place*>(inner + 1); }
  static uint64_t* keys_of(Node* inner) { return reinterpret_cast<uint64_t*>(children_of(inner) + inner->size); }
  static size_t bytes_of(const Node* node);
  static uint32_t child_of(Node* inner, uint64_t key);
  static Record* find_in(Node* leaf, uint64_t key);

  Node* make_leaf(const Record* records, uint32_t size);
  Node* make_inner(const std::vector<Record>& records);
  void free_tree(Node* root);
  Place* place_of(uint64_t key, Node** leaf);
  bool swap_leaf(Place* place, Node* leaf, Node* fresh);
  void collect(uint64_t from, uint64_t to, size_t limit, std::vector<Seen>* seen, std::vector<Record>* records);

  const uint32_t k_;
  Memory memory_;
  Place root_;
  alignas(64) std::atomic<uint64_t> scans_restarted_{0};
};

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_KARY_TREE_H_
