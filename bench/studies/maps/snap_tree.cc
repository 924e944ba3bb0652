// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/maps/snap_tree.h"

#include <algorithm>
#include <mutex>

#include "base/step.h"

namespace bonsai::bench::maps {

using base::step;

// ---- the gate

UpdateGate::Pass::Pass(UpdateGate* gate)
    : inside_(&gate->stripes_[base::thread_ordinal() % gate->stripes_.size()].inside) {
  for (;;) {
    inside_->fetch_add(1);
    if (!gate->closed_.load()) return;
    inside_->fetch_sub(1);
    for (base::BoundedWait wait("snaptree.gate", base::kUnboundedMs); gate->closed_.load(); wait.pause()) {
    }
  }
}

void UpdateGate::close() {
  closed_.store(true);
  for (const Stripe& stripe : stripes_) {
    for (base::BoundedWait wait("snaptree.updates", base::kUnboundedMs); stripe.inside.load() != 0; wait.pause()) {
    }
  }
}

// ---- nodes

SnapTree::SnapTree() : holder_(make_node(0, 0, nullptr)) { holder_->presence.store(0); }

SnapTree::~SnapTree() {
  std::vector<Node*> left = {holder_};
  while (!left.empty()) {
    Node* const node = left.back();
    left.pop_back();
    for (const auto& child : node->child) {
      if (child.load() != nullptr) left.push_back(child.load());
    }
    memory_.destroy(node);
  }
}

SnapTree::Node* SnapTree::make_node(uint64_t key, uint64_t value, Node* parent) {
  return memory_.make<Node>(key, value, kThere, parent);
}

SnapTree::Locked::Locked(Node* node) : node_(node) {
  for (base::BoundedWait wait("snaptree.node", base::kUnboundedMs);; wait.pause()) {
    step("snap.lock");
    if (!node->locked.load(std::memory_order_relaxed) && !node->locked.exchange(true)) return;
  }
}

void SnapTree::wait_until_shrunk(const Node* node) {
  for (base::BoundedWait wait("snaptree.shrink", base::kUnboundedMs); (node->version.load() & kShrinks) != 0;
       wait.pause()) {
  }
}

// The child, which is no snapshot's.
SnapTree::Node* SnapTree::own_child(Node* node, Side side) {
  Node* const child = node->child[side].load();
  if (child == nullptr || !child->shared.load()) return child;
  const Locked lock(node);
  return own_child_locked(node, side);
}

SnapTree::Node* SnapTree::own_child_locked(Node* node, Side side) {
  Node* const child = node->child[side].load();
  if (child == nullptr || !child->shared.load()) return child;
  Node* const copy = make_node(child->key, child->value.load(), node);
  copy->presence.store(child->presence.load());
  copy->height.store(child->height.load());
  for (const Side each : {kLeft, kRight}) {
    Node* const below = child->child[each].load();
    if (below != nullptr) below->shared.store(true);
    copy->child[each].store(below);
  }
  step("snap.copy");
  node->child[side].store(copy);
  memory_.retire_object(child);
  nodes_copied_.fetch_add(1, std::memory_order_relaxed);
  return copy;
}

// ---- gets

// A removed record that comes back must not be seen before it is there.
SnapTree::Outcome SnapTree::value_of(const Node* node, uint64_t* value) {
  for (;;) {
    const uint64_t presence = node->presence.load();
    step("snap.value");
    *value = node->value.load();
    if (node->presence.load() == presence) return (presence & kThere) != 0 ? Outcome::kDone : Outcome::kAbsent;
  }
}

// In the subtree at that side of the node, as long as the node has this version.
SnapTree::Outcome SnapTree::get_below(uint64_t key, Node* node, Side side, uint64_t version, uint64_t* value) {
  for (;;) {
    step("hop");
    Node* const child = node->child[side].load();
    step("snap.child");
    const uint64_t version_below = child == nullptr ? 0 : child->version.load();
    if (child != nullptr && child->key == key) return value_of(child, value);
    if ((version_below & (kShrinks | kUnlinked)) != 0) {
      wait_until_shrunk(child);
      if (node->version.load() != version) return Outcome::kAgain;
      continue;
    }
    if (child != node->child[side].load()) continue;
    step("snap.validate");
    if (node->version.load() != version) return Outcome::kAgain;
    if (child == nullptr) return Outcome::kAbsent;
    const Outcome outcome = get_below(key, child, child->side_of(key), version_below, value);
    if (outcome != Outcome::kAgain) return outcome;
  }
}

bool SnapTree::get(uint64_t key, uint64_t* value) {
  const auto guard = memory_.enter();
  return get_below(key, holder_, kRight, 0, value) == Outcome::kDone;
}

// ---- updates

void SnapTree::update(const Update& update) {
  const auto guard = memory_.enter();
  const UpdateGate::Pass pass(&gate_);
  while (update_below(update, holder_, kRight, 0) == Outcome::kAgain) {
  }
}

SnapTree::Outcome SnapTree::update_below(const Update& update, Node* node, Side side, uint64_t version) {
  for (;;) {
    step("snap.update");
    Node* const child = own_child(node, side);
    if (node->version.load() != version) return Outcome::kAgain;
    if (child == nullptr) {
      if (update.removes) return Outcome::kAbsent;
      const Outcome outcome = insert_at(update, node, side, version);
      if (outcome != Outcome::kAbsent) return outcome;
      continue;
    }
    const uint64_t version_below = child->version.load();
    if ((version_below & (kShrinks | kUnlinked)) != 0) {
      wait_until_shrunk(child);
      continue;
    }
    if (child != node->child[side].load()) continue;
    if (node->version.load() != version) return Outcome::kAgain;
    const Outcome outcome = child->key == update.key
                                ? update_node(update, node, child)
                                : update_below(update, child, child->side_of(update.key), version_below);
    if (outcome != Outcome::kAgain) return outcome;
  }
}

// kAbsent: another thread has inserted there.
SnapTree::Outcome SnapTree::insert_at(const Update& update, Node* node, Side side, uint64_t version) {
  Node* damaged;
  {
    const Locked lock(node);
    if (node->version.load() != version) return Outcome::kAgain;
    if (node->child[side].load() != nullptr) return Outcome::kAbsent;
    node->child[side].store(make_node(update.key, update.value, node));
    damaged = fix_height_locked(node);
  }
  repair(damaged);
  return Outcome::kDone;
}

SnapTree::Outcome SnapTree::update_node(const Update& update, Node* parent, Node* node) {
  const auto has_place = [&] { return node->child[kLeft].load() == nullptr || node->child[kRight].load() == nullptr; };
  if (update.removes && has_place()) return remove_leaf(parent, node);
  const Locked lock(node);
  if (node->is_unlinked()) return Outcome::kAgain;
  if (!update.removes) {
    node->value.store(update.value);
    step("snap.store");
    if (!node->is_there()) node->presence.fetch_add(1);
    return Outcome::kDone;
  }
  if (!node->is_there()) return Outcome::kAbsent;
  if (has_place()) return Outcome::kAgain;
  node->presence.fetch_add(1);
  return Outcome::kDone;
}

// Removes a record whose node has at most one child; the node goes with it.
SnapTree::Outcome SnapTree::remove_leaf(Node* parent, Node* node) {
  Node* damaged;
  {
    const Locked lock(parent);
    if (parent->is_unlinked() || node->parent.load() != parent) return Outcome::kAgain;
    const Locked below(node);
    if (!node->is_there()) return Outcome::kAbsent;
    if (!unlink_locked(parent, node)) return Outcome::kAgain;
    damaged = fix_height_locked(parent);
  }
  repair(damaged);
  return Outcome::kDone;
}

// False when it has two children.
bool SnapTree::unlink_locked(Node* parent, Node* node) {
  const Side side = parent->child[kLeft].load() == node ? kLeft : kRight;
  if (parent->child[side].load() != node) return false;
  Node* const left = own_child_locked(node, kLeft);
  Node* const right = own_child_locked(node, kRight);
  if (left != nullptr && right != nullptr) return false;
  Node* const below = left != nullptr ? left : right;
  step("snap.unlink");
  parent->child[side].store(below);
  if (below != nullptr) below->parent.store(parent);
  node->version.store(kUnlinked);
  if (node->is_there()) node->presence.fetch_add(1);
  memory_.retire_object(node);
  return true;
}

// ---- repair

// The repair that the node needs: a new height, or one of the constants.
int32_t SnapTree::condition_of(const Node* node) {
  const Node* const left = node->child[kLeft].load();
  const Node* const right = node->child[kRight].load();
  if ((left == nullptr || right == nullptr) && !node->is_there()) return kToUnlink;
  const int32_t high = height_of(left), low = height_of(right);
  if (!is_level(high - low)) return kToBalance;
  const int32_t height = 1 + std::max(high, low);
  return height == node->height.load() ? kFine : height;
}

SnapTree::Node* SnapTree::fix_height_locked(Node* node) {
  const int32_t condition = condition_of(node);
  if (condition == kFine) return nullptr;
  if (condition == kToUnlink || condition == kToBalance) return node;
  node->height.store(condition);
  return node->parent.load();
}

void SnapTree::repair(Node* node) {
  while (node != nullptr && node != holder_) {
    step("snap.repair");
    const int32_t condition = condition_of(node);
    if (condition == kFine || node->is_unlinked()) return;
    if (condition != kToUnlink && condition != kToBalance) {
      const Locked lock(node);
      node = fix_height_locked(node);
      continue;
    }
    Node* const parent = node->parent.load();
    const Locked lock(parent);
    if (parent->is_unlinked() || node->parent.load() != parent) continue;
    const Locked below(node);
    node = balance_locked(parent, node);
  }
}

SnapTree::Node* SnapTree::balance_locked(Node* parent, Node* node) {
  if (node->is_unlinked()) return nullptr;
  Node* const left = own_child_locked(node, kLeft);
  Node* const right = own_child_locked(node, kRight);
  if ((left == nullptr || right == nullptr) && !node->is_there()) {
    return unlink_locked(parent, node) ? fix_height_locked(parent) : node;
  }
  const int32_t balance = height_of(left) - height_of(right);
  if (balance > 1) return lower_locked(parent, node, left, kLeft);
  if (balance < -1) return lower_locked(parent, node, right, kRight);
  const int32_t height = 1 + std::max(height_of(left), height_of(right));
  if (height == node->height.load()) return nullptr;
  node->height.store(height);
  return fix_height_locked(parent);
}

// Lowers the side of the node that is too high; `child` is there.
SnapTree::Node* SnapTree::lower_locked(Node* parent, Node* node, Node* child, Side high) {
  const Side low = other(high);
  const Locked lock(child);
  if (child->height.load() - height_of(node->child[low].load()) <= 1) return node;
  Node* const inner = own_child_locked(child, low);
  const int32_t outer_height = height_of(child->child[high].load());
  if (outer_height >= height_of(inner)) {
    rotate_locked(parent, node, child, high);
    return damaged_after(parent, node, child, high);
  }
  const Locked lock_inner(inner);
  if (outer_height >= inner->height.load()) {
    rotate_locked(parent, node, child, high);
    return damaged_after(parent, node, child, high);
  }
  // The inner grandchild comes to the top, if that leaves the child level; else the child is seen to first.
  const int32_t left_to_child = height_of(own_child_locked(inner, high));
  const bool is_routing = !child->is_there() && (outer_height == 0 || left_to_child == 0);
  rotate_locked(node, child, inner, low);
  if (!is_level(outer_height - left_to_child) || is_routing) return child;
  rotate_locked(parent, node, inner, high);
  return damaged_after(parent, node, inner, high);
}

// `child`, at the high side, takes the place of the node and has it at its other side.
void SnapTree::rotate_locked(Node* parent, Node* node, Node* child, Side high) {
  const Side low = other(high);
  const uint64_t version = node->version.load();
  const Side place = parent->child[kLeft].load() == node ? kLeft : kRight;
  Node* const inner = child->child[low].load();
  node->version.store(version | kShrinks);
  step("snap.rotate");
  node->child[high].store(inner);
  if (inner != nullptr) inner->parent.store(node);
  step("snap.rotate");
  child->child[low].store(node);
  node->parent.store(child);
  step("snap.rotate");
  parent->child[place].store(child);
  child->parent.store(parent);
  const int32_t height = 1 + std::max(height_of(inner), height_of(node->child[low].load()));
  node->height.store(height);
  child->height.store(1 + std::max(height_of(child->child[high].load()), height));
  step("snap.rotate");
  node->version.store(version + kShrunk);
}

// After rotations that brought `child` into the place of the node.
SnapTree::Node* SnapTree::damaged_after(Node* parent, Node* node, Node* child, Side high) {
  const Node* const inner = node->child[high].load();
  const Node* const outer = node->child[other(high)].load();
  if (!is_level(height_of(inner) - height_of(outer))) return node;
  if ((inner == nullptr || outer == nullptr) && !node->is_there()) return node;
  const int32_t balance = height_of(child->child[high].load()) - height_of(node);
  if (!is_level(balance)) return child;
  if (child->child[high].load() == nullptr && !child->is_there()) return child;
  return fix_height_locked(parent);
}

// ---- scans

// The root of the map's state at one moment, valid as long as the caller's guard. There is no step inside, because a
// test may make this thread update at each step.
SnapTree::Node* SnapTree::snapshot() {
  step("snap.snapshot");
  const auto is_shared = [](const Node* root) { return root == nullptr || root->shared.load(); };
  if (Node* const root = holder_->child[kRight].load(); is_shared(root)) return root;
  const std::lock_guard lock(snapshot_lock_);
  Node* root = holder_->child[kRight].load();
  if (is_shared(root)) return root;
  gate_.close();
  root = holder_->child[kRight].load();
  if (root != nullptr) root->shared.store(true);
  gate_.open();
  return root;
}

void SnapTree::scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) {
  const auto guard = memory_.enter();
  records->clear();
  std::vector<const Node*> way;
  const auto descend = [&](const Node* node) {
    while (node != nullptr) {
      step("snap.scan");
      const bool is_wanted = node->key >= from;
      if (is_wanted) way.push_back(node);
      node = node->child[is_wanted ? kLeft : kRight].load(std::memory_order_relaxed);
    }
  };
  for (descend(snapshot()); !way.empty() && records->size() < limit;) {
    const Node* const node = way.back();
    way.pop_back();
    if (node->key > to) return;
    if (node->is_there()) records->push_back({node->key, node->value.load(std::memory_order_relaxed)});
    descend(node->child[kRight].load(std::memory_order_relaxed));
  }
}

}  // namespace bonsai::bench::maps
