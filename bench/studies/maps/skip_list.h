// SPDX-License-Identifier: Apache-2.0
// A lock-free skip list, after Harris, Fraser, Herlihy and Lea: the list that KiWi's authors measured as Java's.
//
// A record exists while its node is linked at the lowest level and holds a value. An update swaps the value (each in a
// box of its own, as in Java); a removal takes it out, marks the node's links and unlinks it. A thread that meets a
// marked node while it searches a place unlinks it. Gets and scans do not help. Scans are not atomic.
//
// A node is retired by the last of two threads: the inserter, when done with its upper levels, and the remover. It
// first walks to the node's key once more, which unlinks the node at every level; after that no thread links it again.
#ifndef BONSAI_BENCH_STUDIES_MAPS_SKIP_LIST_H_
#define BONSAI_BENCH_STUDIES_MAPS_SKIP_LIST_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "bench/studies/maps/map.h"
#include "bench/studies/maps/memory.h"

namespace bonsai::bench::maps {

class SkipList final : public Map {
 public:
  // Requires: `memory` outlives it; no call runs when it ends.
  explicit SkipList(Memory* memory);
  ~SkipList() override;

  [[nodiscard]] bool get(uint64_t key, uint64_t* value) override;
  void put(uint64_t key, uint64_t value) override;
  void remove(uint64_t key) override;
  void scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) override;
  [[nodiscard]] bool scans_are_atomic() const override { return false; }
  [[nodiscard]] uint64_t bytes() const override { return memory_->bytes(); }

  // A record whose key is not above `key`: the greatest one, but for removals in flight.
  [[nodiscard]] std::optional<Record> floor(uint64_t key);

 private:
  static constexpr int kLevels = 14;  // of a quarter of the nodes below each
  static constexpr uintptr_t kMark = 1;

  struct Box {
    const uint64_t value;
  };
  struct Node;
  using Link = std::atomic<uintptr_t>;
  struct Node {
    uint64_t key;
    std::atomic<Box*> value;
    std::atomic<uint32_t> holders;
    uint32_t height;
    // `height` links follow.
    [[nodiscard]] Link& next(int level) { return reinterpret_cast<Link*>(this + 1)[level]; }
  };
  using Path = std::array<Node*, kLevels>;

  static Node* node_of(uintptr_t link) { return reinterpret_cast<Node*>(link & ~kMark); }
  static uintptr_t link_to(Node* node) { return reinterpret_cast<uintptr_t>(node); }
  static bool is_marked(uintptr_t link) { return (link & kMark) != 0; }
  static size_t bytes_of(int height) { return sizeof(Node) + static_cast<size_t>(height) * sizeof(Link); }
  static int height_of(uint64_t key);

  Node* make_node(uint64_t key, Box* value, int height);
  static void free_node(Memory* memory, Node* node);
  bool find(uint64_t key, Path* before, Path* after);
  bool unlink_marked_from(Node** at, uint64_t key, int level, Node** after);
  bool replace(Node* node, Box* box);
  void link_upper_levels(Node* node, Path* before, Path* after);
  static void mark(Node* node);
  bool let_go(Node* node);
  Node* first_not_below(uint64_t key);

  Memory* const memory_;
  Node* const head_;
};

// With memory of its own.
class SkipListMap final : public Map {
 public:
  [[nodiscard]] bool get(uint64_t key, uint64_t* value) override { return list_.get(key, value); }
  void put(uint64_t key, uint64_t value) override { list_.put(key, value); }
  void remove(uint64_t key) override { list_.remove(key); }
  void scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) override {
    list_.scan(from, to, limit, records);
  }
  [[nodiscard]] bool scans_are_atomic() const override { return list_.scans_are_atomic(); }
  [[nodiscard]] uint64_t bytes() const override { return list_.bytes(); }

 private:
  Memory memory_;
  SkipList list_{&memory_};
};

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_SKIP_LIST_H_
