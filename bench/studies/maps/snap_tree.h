// SPDX-License-Identifier: Apache-2.0
// A concurrent AVL tree with snapshots by lazy copy-on-write, after Bronson, Casper, Chafi and Olukotun (2010):
// SnapTree.
//
// Gets descend without locks. After each step they check whether the node before has shrunk, which means that a
// rotation has taken keys out of its subtree (its version says so); if it has, they go back one node. Updates descend
// likewise, lock the nodes that they change, and then repair heights and balance upwards, a few locked nodes at a time.
// A removed record leaves its node in place while the node has two children.
//
// A snapshot is the root at a moment at which no update is in flight: a scan waits for the updates in flight, and new
// updates wait meanwhile. The root is then marked as shared. An update that comes to a shared node copies it first,
// which makes the children shared; the snapshot keeps the originals. So scans are atomic and meet no updates, and
// concurrent puts wait for the moment of the snapshot and copy.
//
// Simplified: a double rotation is two single ones under the same locks.
//
// Memory order: versions, links and values are sequentially consistent, as Java's volatile fields.
#ifndef BONSAI_BENCH_STUDIES_MAPS_SNAP_TREE_H_
#define BONSAI_BENCH_STUDIES_MAPS_SNAP_TREE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/thread.h"
#include "bench/studies/maps/map.h"
#include "bench/studies/maps/memory.h"

namespace bonsai::bench::maps {

// Lets updates in, but for moments at which there are none.
class UpdateGate {
 public:
  class [[nodiscard]] Pass {
   public:
    explicit Pass(UpdateGate* gate);
    ~Pass() { inside_->fetch_sub(1); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    std::atomic<uint64_t>* inside_;
  };

  // Keeps new updates out and returns when no update is left inside. One caller at a time.
  void close();
  void open() { closed_.store(false); }

 private:
  struct alignas(64) Stripe {
    std::atomic<uint64_t> inside{0};
  };
  std::array<Stripe, 16> stripes_;
  alignas(64) std::atomic<bool> closed_{false};
};

class SnapTree final : public Map {
 public:
  SnapTree();
  ~SnapTree() override;

  [[nodiscard]] bool get(uint64_t key, uint64_t* value) override;
  void put(uint64_t key, uint64_t value) override { update({key, value, false}); }
  void remove(uint64_t key) override { update({key, 0, true}); }
  void scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) override;
  [[nodiscard]] bool scans_are_atomic() const override { return true; }
  [[nodiscard]] uint64_t bytes() const override { return memory_.bytes(); }
  [[nodiscard]] Counters counters() const override { return {.nodes_copied = nodes_copied_.load()}; }

 private:
  enum Side : uint32_t { kLeft, kRight };
  static Side other(Side side) { return side == kLeft ? kRight : kLeft; }

  // Versions: a node that shrinks now, one that is no longer in the tree, and the unit that counts what has been.
  static constexpr uint64_t kShrinks = 1, kUnlinked = 2, kShrunk = 4;
  // Node::presence: its lowest bit says whether there is a record; the rest counts changes.
  static constexpr uint64_t kThere = 1;

  struct Node {
    const uint64_t key;
    std::atomic<uint64_t> value;
    std::atomic<uint64_t> presence;
    std::atomic<Node*> parent;
    std::atomic<Node*> child[2] = {nullptr, nullptr};
    std::atomic<uint64_t> version{0};
    std::atomic<int32_t> height{1};
    std::atomic<bool> locked{false};
    std::atomic<bool> shared{false};  // with a snapshot: it will not change any more

    [[nodiscard]] bool is_there() const { return (presence.load() & kThere) != 0; }
    [[nodiscard]] bool is_unlinked() const { return (version.load() & kUnlinked) != 0; }
    [[nodiscard]] Side side_of(uint64_t wanted) const { return wanted < key ? kLeft : kRight; }
  };
  class Locked {
   public:
    explicit Locked(Node* node);
    ~Locked() { node_->locked.store(false); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

   private:
    Node* const node_;
  };
  struct Update {
    uint64_t key, value;
    bool removes;
  };
  enum class Outcome { kDone, kAbsent, kAgain };  // kAgain: from the parent

  static int32_t height_of(const Node* node) { return node == nullptr ? 0 : node->height.load(); }
  static bool is_level(int32_t balance) { return balance >= -1 && balance <= 1; }
  static void wait_until_shrunk(const Node* node);

  Node* make_node(uint64_t key, uint64_t value, Node* parent);
  Outcome get_below(uint64_t key, Node* node, Side side, uint64_t version, uint64_t* value);
  static Outcome value_of(const Node* node, uint64_t* value);

  void update(const Update& update);
  Outcome update_below(const Update& update, Node* node, Side side, uint64_t version);
  Outcome insert_at(const Update& update, Node* node, Side side, uint64_t version);
  Outcome update_node(const Update& update, Node* parent, Node* node);
  Outcome remove_leaf(Node* parent, Node* node);

  Node* own_child(Node* node, Side side);
  Node* own_child_locked(Node* node, Side side);

  // All take and return the lowest node that is still damaged, or null; *_locked: the nodes given are locked.
  static constexpr int32_t kFine = -1, kToUnlink = -2, kToBalance = -3;
  static int32_t condition_of(const Node* node);
  void repair(Node* node);
  static Node* fix_height_locked(Node* node);
  Node* balance_locked(Node* parent, Node* node);
  Node* lower_locked(Node* parent, Node* node, Node* child, Side high);
  bool unlink_locked(Node* parent, Node* node);
  static void rotate_locked(Node* parent, Node* node, Node* child, Side high);
  static Node* damaged_after(Node* parent, Node* node, Node* child, Side high);

  Node* snapshot();

  Memory memory_;
  UpdateGate gate_;
  base::YieldingMutex snapshot_lock_{"snaptree.snapshot"};
  Node* const holder_;  // of the root, its right child
  alignas(64) std::atomic<uint64_t> nodes_copied_{0};
};

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_SNAP_TREE_H_
