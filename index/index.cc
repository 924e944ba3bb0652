// SPDX-License-Identifier: Apache-2.0
// Start-up from the recovered ranges, and shutdown.
#include "index/index.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "base/thread.h"

namespace bonsai::index {

using base::Fence;

// The bnode of a range that recovery found, with the records that count.
Bnode* Index::recovered(persist::RecoveredRange range, uint64_t gen) {
  persist::Dnode* dnode = range.dnode.release();
  const auto capacity = std::max<uint64_t>(Slots::kCapacityMin, std::bit_ceil(2 * range.records.size()));
  BONSAI_CHECK(capacity <= Slots::kCapacityLimit);
  auto* bnode = new Bnode(dnode->lo(), dnode->hi(), gen, Base::of(dnode), static_cast<uint32_t>(capacity));
  for (const persist::LiveRecord& record : range.records) {
    const auto& update = record.update;
    const auto flags =
        static_cast<uint8_t>((update.tombstone ? Node::kTombstone : 0) | (update.large ? Node::kLarge : 0));
    Node* node = Node::make(update.key, update.value, flags, nullptr);
    node->version.store(kVersionOfBase, std::memory_order_relaxed);
    node->segment.store(record.segment, std::memory_order_relaxed);
    Slots* slots = slots_of(bnode, Node::arena_bytes(update.key, update.value));
    const uint64_t hash = node->key().hash();
    BONSAI_SLOW_INVARIANT(bnode->covers(node->key()));
    bool reached_high_mark = false;
    BONSAI_CHECK(slots->push(slots->find(node->key(), hash), node, hash, &reached_high_mark) && !reached_high_mark);
  }
  return bnode;
}

Index::Index(Config config, persist::Log& log, persist::DnodeStore& dnodes, persist::LargeStore& large,
             base::EpochDomain& epochs)
    : config_(config),
      log_(log),
      dnodes_(dnodes),
      large_(large),
      epochs_(epochs),
      versions_(config.snapshots_max),
      tree_(epochs),
      replacer_({log, dnodes, large, epochs, versions_, tree_, queue_, compactions_}, config.limits,
                [this](Node* head, uint64_t gen) { return settle_head(head, gen) == Outcome::kDone; }) {
  static_cast<void>(Layer::closed_slots());  // now, so that no freeze needs memory
}

void Index::start(std::vector<persist::RecoveredRange> ranges, uint64_t gen, unsigned threads) {
  constexpr size_t kRangesPerStep = 256;
  std::vector<Bnode*> bnodes(ranges.size());
  base::for_each_on(threads, (ranges.size() + kRangesPerStep - 1) / kRangesPerStep, [&](size_t step) {
    const size_t end = std::min(ranges.size(), (step + 1) * kRangesPerStep);
    for (size_t i = step * kRangesPerStep; i < end; ++i) bnodes[i] = recovered(std::move(ranges[i]), gen);
  });
  BONSAI_INVARIANT(bnodes.front()->lo() == Fence() && bnodes.back()->hi().is_infinite() && tile(bnodes));
  tree_.build(bnodes);
}

Index::~Index() {
  const auto discard = [](Base base) {
    if (Bnode* residue = base.residue()) {
      delete residue->base().dnode();
      residue->unref();
    } else {
      delete base.dnode();
    }
  };
  tree_.for_each([&](Bnode* bnode) {
    if (bnode->layer() == nullptr || !bnode->layer()->installed.load()) discard(bnode->base());
  });
  // Allocates nothing, as a destructor must not. Layers that stand on a layer go before it.
  const auto destroy = [&](const auto& again, Layer* layer) -> void {
    for (const Bnode* bnode : layer->news) {
      Layer* const above = bnode->layer();
      if (above != nullptr && above->olds.front() == bnode) again(again, above);
    }
    for (Bnode* old : layer->olds) discard(old->base());
    for (Bnode* bnode : layer->news) bnode->unref();
    delete layer;
  };
  queue_.for_each_urgent([&](Layer* layer) { destroy(destroy, layer); });
}

uint64_t Index::dram_bytes(const Bnode& bnode) {
  uint64_t bytes = bnode.dram_bytes();
  const Layer* layer = bnode.layer();
  if (layer == nullptr || layer->olds.front() != &bnode) return bytes;  // of two that merge one counts the layer
  for (const Bnode* each : layer->news) bytes += dram_bytes(*each);
  return bytes;
}

base::Fence Index::visit_dnodes(const base::Fence& from,
                                const std::function<void(const persist::Dnode&)>& visit) const {
  const Bnode* const first = tree_.find(from.key());
  for (std::vector<const Bnode*> left{first}; !left.empty();) {
    const Base base = left.back()->base();
    left.pop_back();
    if (const persist::Dnode* dnode = base.dnode()) {
      visit(*dnode);
    } else if (const Bnode* residue = base.residue()) {
      left.push_back(residue);
    } else if (const Layer* layer = base.layer()) {
      left.insert(left.end(), layer->olds.begin(), layer->olds.end());
    }
  }
  return first->hi();
}

}  // namespace bonsai::index
