// SPDX-License-Identifier: Apache-2.0
// The index as the owner of the dnodes whose runs are moved (persist/defragmenter.h).
#include <algorithm>
#include <vector>

#include "index/replacer.h"

namespace bonsai::index {

using persist::Dnode;

namespace {

// Old versions that live scans need may be between a bnode and its dnode.
Bnode* holder_of(Bnode* bnode) {
  Bnode* residue = bnode->base().residue();
  return residue != nullptr ? residue : bnode;
}

}  // namespace

// Bnodes of the tree, held by their claims; and those of layers that wait to be offloaded, held by taking these out of
// the queue.
class Replacer::DnodeOwners final : public persist::Defragmenter::Owners {
 public:
  explicit DnodeOwners(Replacer& replacer) : replacer_(replacer) {}
  ~DnodeOwners() { replacer_.queue_.put_back_urgent(layers_); }

  void for_each(const Visit& visit) override {
    layers_ = replacer_.queue_.take_urgent();
    for (const Layer* layer : layers_) {
      for (Bnode* old : layer->olds) note(old, old, visit);
    }
    replacer_.tree_.for_each([&](Bnode* bnode) {
      if (bnode->layer() == nullptr) note(bnode, nullptr, visit);
    });
  }

  bool hold(size_t owner) override {
    Owner& each = owners_[owner];
    each.held = each.frozen;
    if (each.held != nullptr) return true;
    each.held = replacer_.tree_.find(each.lo.key());
    if (std::find(claimed_.begin(), claimed_.end(), each.held) == claimed_.end()) {
      if (!each.held->claim()) return false;
      claimed_.push_back(each.held);
    }
    return each.held->layer() == nullptr;
  }

  const Dnode* dnode(size_t owner) override { return holder_of(owners_[owner].held)->base().dnode(); }

  void exchange(size_t owner, const Dnode* moved) override {
    const auto& [lo, frozen, bnode] = owners_[owner];
    Bnode* holder = holder_of(bnode);
    holder->set_base(Base::of(moved));
    if (frozen == nullptr && holder == bnode) replacer_.tree_.replace({bnode}, {bnode});  // knows its new dnode now
    replacer_.work_.moves.fetch_add(1, std::memory_order_relaxed);
  }

  void release() override {
    for (Bnode* bnode : claimed_) bnode->unclaim();
    claimed_.clear();
  }

 private:
  struct Owner {
    base::Fence lo;  // of its range
    Bnode* frozen;   // the bnode, if it is one of a held layer
    Bnode* held;
  };

  void note(Bnode* bnode, Bnode* frozen, const Visit& visit) {
    const Dnode* dnode = holder_of(bnode)->base().dnode();
    if (dnode == nullptr) return;
    visit(owners_.size(), *dnode);
    owners_.push_back({bnode->lo(), frozen, nullptr});
  }

  Replacer& replacer_;
  std::deque<Layer*> layers_;  // nobody else works on them
  std::vector<Owner> owners_;
  std::vector<Bnode*> claimed_;
};

bool Replacer::defragment() {
  DnodeOwners owners(*this);
  return defragmenter_.run(&owners, kDnodesDefragmented * limits_.dnode_bytes_max);
}

Replacer::OffloadResult Replacer::offload_into_reserve(Which which) {
  OffloadResult result;
  defragmenter_.with_reserve_lent([&] { result = offload(1, which); });
  return result;
}

}  // namespace bonsai::index
