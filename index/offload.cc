// SPDX-License-Identifier: Apache-2.0
#include "index/offload.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/container/small_vector.hpp>

#include "base/check.h"
#include "base/spread_sort.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "persist/dnode_cursor.h"
#include "persist/dnode_search.h"

namespace bonsai::index {

using base::Key;
using base::step;
using persist::Dnode;
using persist::Entry;
using policy::Weight;

namespace {

Entry entry_of(const Node& node) { return {node.key(), node.value(), node.tombstone(), node.large()}; }

Node* copy_of(const Node& node, uint64_t version, bool borrowed) {
  uint8_t flags = node.flags & (Node::kTombstone | Node::kLarge);
  if (borrowed && node.large()) flags |= Node::kBorrowed;
  Node* copy = Node::make(node.key_view(), node.value(), flags, nullptr);
  copy->version.store(version, std::memory_order_relaxed);
  return copy;
}

// Drops each element that `joined` has merged into the one before it.
template <class It, class Joined>
It unique_by(It begin, It end, Joined joined) {
  if (begin == end) return end;
  It last = begin;
  for (It at = std::next(begin); at != end; ++at) {
    if (!joined(*last, *at) && ++last != at) *last = std::move(*at);
  }
  return std::next(last);
}

uint64_t version_of(const Node& node) { return node.version.load(std::memory_order_acquire); }

}  // namespace

// Objects that are freed once no reader can use them.
struct Replacer::Offload::Garbage {
  boost::container::small_vector<Bnode*, 2> bnodes;
  boost::container::small_vector<std::unique_ptr<const Dnode>, 2> dnodes;
  persist::Runs kept;  // that the successor of the first, then the only one, has taken over
  scale::Addr kept_fences;
  std::vector<persist::LargeRef> large;
  std::unique_ptr<Layer> layer;
  Predecessors predecessors;
  persist::DnodeStore* dnode_store;
  persist::LargeStore* large_store;

  // Without nodes that are blocks of their own.
  [[nodiscard]] uint64_t dram_bytes() const {
    uint64_t bytes = sizeof *this;
    for (const Bnode* bnode : bnodes)
      bytes += sizeof *bnode + (bnode->slots() != nullptr ? bnode->slots()->dram_bytes() : 0);
    for (const auto& dnode : dnodes) bytes += dnode->dram_bytes();
    return bytes;
  }
  static void reclaim(void* object, void*) {
    const std::unique_ptr<Garbage> self(static_cast<Garbage*>(object));
    for (Bnode* bnode : self->bnodes) bnode->unref();
    if (self->predecessors == Predecessors::kKept) return;
    for (const auto& dnode : self->dnodes) self->dnode_store->free(*dnode, self->kept, self->kept_fences);
    for (const persist::LargeRef& ref : self->large) self->large_store->free(ref);
  }
};

void Replacer::Offload::expect(std::span<Layer* const> layers) {
  if (!reader_->carries()) return;
  replacer_.versions_.load(&live_);  // scans may need the dnode's value of each updated key
  for (const Layer* layer : layers) {
    const bool appends = live_.none() && likely_appends(*layer);
    for (const Bnode* old : layer->olds) {
      const Dnode& dnode = dnode_under(*old);
      if (!appends) {
        for (const persist::RunDesc& run : dnode.runs()) reader_->expect(run);
      } else if (policy::absorbs_newest(policy::Shape::of(dnode), old->slots()->used(), replacer_.limits_,
                                        layer->fresh)) {
        reader_->expect(dnode.runs().back());
      }
    }
  }
  static_cast<void>(reader_->wait());  // add() asks again for what did not come, and reports it
}

// As append_suffices() will say, unless versions are carried or large values come.
bool Replacer::Offload::likely_appends(const Layer& layer) const {
  Weight updates;
  if (const Slots* slots = layer.olds.front()->slots()) {
    slots->for_each_head([&](const Node* head) {
      updates = updates + Weight{1, persist::entry_bytes(entry_of(*head))};
    });
  }
  return may_append(layer, updates);
}

bool Replacer::Offload::may_append(const Layer& layer, const Weight& updates) const {
  if (layer.compact || layer.olds.size() != 1 || layer.news.size() != 1) return false;
  const auto dnode = policy::Shape::of(dnode_under(*layer.olds.front()));
  return policy::may_append(dnode, updates, replacer_.limits_, layer.fresh);
}

Status Replacer::Offload::add(Layer* layer) {
  for (const Bnode* old : layer->olds) BONSAI_CHECK(!old->pending());
  BONSAI_RETURN_IF_ERROR(settle(layer));
  BONSAI_RETURN_IF_ERROR(lock_chains(layer));
  replacer_.versions_.load(&live_);
  if (live_.none()) {  // they may occupy the very room that is missing
    for (Bnode* old : layer->olds) replacer_.release_residue(old);
  }
  Job job;
  job.layer = layer;
  chains_.clear();
  for (const Bnode* old : layer->olds) collect(*old, &job);
  const auto mark = writer_.mark();
  if (const Status status = build(&job); !status.ok()) {
    writer_.rollback(mark);
    return status;
  }
  jobs_.push_back(std::move(job));
  return Status::OK();
}

// Every head gets its version; batches on top are completed.
Status Replacer::Offload::settle(Layer* layer) {
  if (layer->settled.load(std::memory_order_seq_cst)) return Status::OK();
  bool settled = true;
  for (const Bnode* old : layer->olds) {
    old->slots()->for_each_head([&](Node* head) { settled = settled && replacer_.settle_head_(head, old->gen()); });
  }
  if (!settled) return Status::Busy("a batch on the range cannot be completed yet");
  layer->settled.store(true, std::memory_order_seq_cst);
  return Status::OK();
}

// Waits for pruners that are at work; none starts again on these chains, which now belong to the replacer. A chain of
// one node has nothing to be pruned, and never will have.
Status Replacer::Offload::lock_chains(Layer* layer) {
  size_t chain = 0;
  for (const Bnode* old : layer->olds) {
    Slots* slots = old->slots();
    if (slots == Layer::closed_slots()) continue;
    for (uint32_t i = 0; i < slots->capacity(); ++i) {
      if (chain++ < layer->locked) continue;
      const Node* head = slots->head(i);
      const bool prunable = head != nullptr && head->next.load(std::memory_order_acquire) != nullptr;
      for (base::BoundedWait wait("pruner of a chain", kPrunerWaitMsMax); prunable && !slots->try_lock(i);
           wait.pause()) {
        if (wait.expired()) return Status::Busy("a pruner of a chain was preempted");
      }
      ++layer->locked;
    }
  }
  return Status::OK();
}

// The chains of `old` in key order, each with the residue's chain of its key.
void Replacer::Offload::collect(const Bnode& old, Job* job) {
  const size_t first = chains_.size();
  const auto note = [&](const Node& node) {
    if (node.passed()) return;
    const uint32_t segment = node.record_segment();
    if (segment != persist::kNoSegment) job->records.push_back(segment);
  };
  if (const Slots* slots = old.slots()) {
    chains_.reserve(first + slots->used());
    job->records.reserve(job->records.size() + slots->used());
    slots->for_each_head([&](Node* head) {
      if (Node* newest = Node::newest_update(head)) chains_.push_back({newest->key(), newest, nullptr});
      for (const Node* node = head; node != nullptr; node = node->next.load(std::memory_order_acquire)) note(*node);
    });
  }
  if (const Bnode* residue = old.base().residue()) {
    residue->slots()->for_each_head([&](Node* head) { chains_.push_back({head->key(), nullptr, head}); });
  }
  const auto begin = chains_.begin() + static_cast<ptrdiff_t>(first);
  const auto head_of = [](const Chain& chain) { return chain.key.head; };
  base::spread_sort(begin, chains_.end(), head_of, [](const Chain& a, const Chain& b) {
    const auto order = compare(a.key, b.key);
    return order != 0 ? order < 0 : a.updates != nullptr && b.updates == nullptr;
  });
  const auto joined = [](Chain& into, const Chain& chain) {
    const bool same = chain.key == into.key;
    if (same) into.residue = chain.residue;
    return same;
  };
  chains_.erase(unique_by(begin, chains_.end(), joined), chains_.end());
}

Status Replacer::Offload::build(Job* job) {
  std::span<const Chain> left = chains_;
  for (Bnode* successor : job->layer->news) {
    const auto end = std::partition_point(left.begin(), left.end(),
                                          [&](const Chain& chain) { return successor->hi().above(chain.key); });
    const auto count = static_cast<size_t>(end - left.begin());
    BONSAI_RETURN_IF_ERROR(build_piece(job, successor, left.first(count)));
    left = left.subspan(count);
  }
  return Status::OK();
}

// Builds a piece from the chains in the successor's range.
Status Replacer::Offload::build_piece(Job* job, Bnode* successor, std::span<const Chain> chains) {
  std::vector<Entry>& updates = updates_;
  updates.clear();
  std::vector<std::vector<Node*>> carried;
  Status status;
  const auto& olds = job->layer->olds;
  const bool plain = live_.none() && std::none_of(olds.begin(), olds.end(),
                                                  [](const Bnode* each) { return dnode_under(*each).has_large(); });
  for (const Chain& chain : chains) {
    if (chain.updates != nullptr) updates.push_back(entry_of(*chain.updates));
    if (plain && chain.single()) continue;  // no version to be carried, no large value to be dropped
    status = carry(job, chain, &carried);
    if (!status.ok()) break;
  }
  Piece piece;
  piece.successor = successor;
  if (!carried.empty()) make_residue(&piece, carried);
  BONSAI_RETURN_IF_ERROR(status);

  uint64_t gen = 0;
  for (const Bnode* old : job->layer->olds) gen = std::max(gen, old->gen());
  const Dnode& old = dnode_under(*job->layer->olds.front());
  job->updates += updates.size();
  if (append_suffices(*job->layer, updates)) {
    piece.kept_runs = true;
    BONSAI_RETURN_IF_ERROR(append(*job, *successor, gen, old, updates, &piece.dnode));
  } else {
    std::vector<Entry>& merged = merged_;
    merged.clear();
    auto update = updates.cbegin();
    for (const Bnode* each : job->layer->olds) {
      BONSAI_RETURN_IF_ERROR(merge(dnode_under(*each), *successor, updates, &update, &merged));
    }
    BONSAI_RETURN_IF_ERROR(writer_.add(successor->lo(), successor->hi(), gen, nullptr, merged, &piece.dnode));
    ++job->compactions;
  }
  job->pieces.push_back(std::move(piece));
  return Status::OK();
}

// May the updates be appended, or is it time to compact?
bool Replacer::Offload::append_suffices(const Layer& layer, const std::vector<Entry>& updates) const {
  if (replacer_.space_is_short()) return false;  // squeeze
  Weight sum;
  for (const Entry& update : updates) {
    if (update.large) return false;
    sum = sum + Weight{1, persist::entry_bytes(update)};
  }
  return may_append(layer, sum);
}

Status Replacer::Offload::append(const Job& job, const Bnode& successor, uint64_t gen, const Dnode& old,
                                 const std::vector<Entry>& updates, Dnode** dnode) {
  if (!policy::absorbs_newest(policy::Shape::of(old), updates.size(), replacer_.limits_, job.layer->fresh))
    return writer_.add(successor.lo(), successor.hi(), gen, &old, updates, dnode);
  const scale::Volume& volume = replacer_.dnodes_.volume();
  const persist::Trouble trouble = persist::read_entries(&*reader_, old.runs().back(), &newest_);
  if (trouble != persist::Trouble::kNone) return persist::unreadable(volume, trouble, old.lo(), old.hi());
  merged_.clear();  // with tombstones: runs below may hold what they delete
  std::set_union(updates.begin(), updates.end(), newest_.begin(), newest_.end(), std::back_inserter(merged_),
                 [](const Entry& a, const Entry& b) { return a.key < b.key; });  // of the same key the update
  return writer_.add(successor.lo(), successor.hi(), gen, {old, old.runs().size() - 1}, merged_, dnode);
}

// Appends the dnode's entries in the successor's range, and the updates up to its end, which take precedence; *update
// is the first update that is not in *merged. Errors: Corruption, Unavailable.
Status Replacer::Offload::merge(const Dnode& dnode, const Bnode& successor, const std::vector<Entry>& updates,
                                std::vector<Entry>::const_iterator* update, std::vector<Entry>* merged) {
  if (!(dnode.lo() < successor.hi()) || !(successor.lo() < dnode.hi())) return Status::OK();
  const auto take = [&](const Entry& entry) {
    if (!entry.tombstone) merged->push_back(entry);
  };
  persist::DnodeCursor cursor(&*reader_, dnode);
  const base::Fence& end = std::min(successor.hi(), dnode.hi());
  const Key below = end.key();
  cursor.seek(successor.lo().key());
  auto last = updates.cend();
  if (!end.is_infinite())
    last = std::partition_point(*update, last, [&](const Entry& each) { return each.key < below; });
  cursor.visit_all(end.is_infinite() ? nullptr : &below, {*update, last}, &merge_, take);
  *update = last;
  if (cursor.trouble() == persist::Trouble::kNone) return Status::OK();
  return persist::unreadable(replacer_.dnodes_.volume(), cursor.trouble(), successor.lo(), successor.hi());
}

// Copies the part of a chain that registered scans need: the newest node, older nodes, and the dnode's value under
// them. Collects the large values that are no longer needed.
Status Replacer::Offload::carry(Job* job, const Chain& chain, std::vector<std::vector<Node*>>* carried) {
  const Node& newest = chain.newest();
  std::vector<Node*> kept{copy_of(newest, version_of(newest), true)};
  uint64_t version = version_of(newest);
  bool base_value_kept = chain.updates == nullptr;
  chain.for_each_older([&](const Node& node) {
    if (live_.need(version_of(node), version)) {
      kept.push_back(copy_of(node, version_of(node), false));
      version = version_of(node);
      base_value_kept = base_value_kept || node.borrowed();
    } else if (node.large() && !node.borrowed()) {
      job->dropped.push_back(persist::large_ref(node.value()));
    }
  });
  const bool updated = chain.updates != nullptr;
  const bool needs_base = updated && chain.residue == nullptr && live_.need(kNoVersion, version);
  Entry below;
  persist::Find found = persist::Find::kAbsent;
  const Dnode* dnode = nullptr;
  for (const Bnode* old : job->layer->olds) {
    if (!(chain.key < old->lo().key()) && old->hi().above(chain.key)) dnode = &dnode_under(*old);
  }
  if (needs_base || (updated && dnode->has_large())) {
    found = persist::DnodeSearch().run(&*reader_, *dnode, chain.key, chain.key.hash(), &below);
    if (found == persist::Find::kDamaged || found == persist::Find::kUnavailable) {
      for (Node* node : kept) Node::destroy(node);
      const bool damaged = found == persist::Find::kDamaged;
      return persist::unreadable(replacer_.dnodes_.volume(),
                                 damaged ? persist::Trouble::kDamaged : persist::Trouble::kUnavailable, dnode->lo(),
                                 dnode->hi());
    }
  }
  const bool value_below = found == persist::Find::kFound && !below.tombstone;
  if (needs_base) {
    uint8_t flags = value_below ? 0 : Node::kTombstone;
    if (value_below && below.large) flags |= Node::kLarge;
    kept.push_back(Node::make(chain.key.bytes, value_below ? below.value : std::string_view(), flags, nullptr));
    kept.back()->version.store(kVersionOfBase, std::memory_order_relaxed);
    base_value_kept = true;
  }
  if (value_below && below.large && !base_value_kept) job->dropped.push_back(persist::large_ref(below.value));
  if (kept.size() > 1) {
    carried->push_back(std::move(kept));
  } else {
    Node::destroy(kept.front());
  }
  return Status::OK();
}

void Replacer::Offload::make_residue(Piece* piece, const std::vector<std::vector<Node*>>& carried) {
  const auto capacity = static_cast<uint32_t>(std::bit_ceil(std::max<size_t>(2 * carried.size(), Slots::kCapacityMin)));
  const Bnode& successor = *piece->successor;
  piece->residue = std::make_unique<Bnode>(successor.lo(), successor.hi(), successor.gen(), Base(), capacity);
  bool made = false;
  Slots* slots = piece->residue->slots_or_make(0, &made);
  for (const std::vector<Node*>& chain : carried) {
    for (size_t i = 0; i + 1 < chain.size(); ++i) chain[i]->next.store(chain[i + 1], std::memory_order_relaxed);
    const Key key = chain.front()->key();
    const uint64_t hash = key.hash();
    bool reached_high_mark = false;
    BONSAI_CHECK(slots->push(slots->find(key, hash), chain.front(), hash, &reached_high_mark));
  }
  piece->residue->freeze();
}

Status Replacer::Offload::commit(std::vector<Layer*>* again) {
  media_bytes_ = 0;
  reader_.reset();
  if (jobs_.empty()) return Status::OK();
  // Mode buffered: no update may be durable in a dnode before its cause is in the log.
  if (Status status = replacer_.log_.close_epoch(); !status.ok()) {
    writer_.rollback({0, 0});
    put_back(again);
    return status;
  }
  step("persist dnodes");
  media_bytes_ = writer_.media_bytes();
  std::vector<std::unique_ptr<Dnode>> fresh;
  if (Status status = writer_.commit(&fresh); !status.ok()) {
    put_back(again);
    return status;
  }
  for (auto& dnode : fresh) static_cast<void>(dnode.release());  // the pieces' from now on
  std::vector<const Dnode*> retired;
  fetch_paths();
  for (Job& job : jobs_) {
    for (const Bnode* old : job.layer->olds) retired.push_back(&dnode_under(*old));
    switch_over(&job);
  }
  step("retire dnodes");
  media_bytes_ += retired.size() * persist::kBlockBytes;
  if (Status status = replacer_.dnodes_.retire(retired); !status.ok()) {
    for (Job& job : jobs_) release_layer(&job, Predecessors::kKept);
    jobs_.clear();
    return status;
  }
  std::vector<int64_t> dead(replacer_.log_.segments());  // records of each segment
  for (const Job& job : jobs_) {
    for (const uint32_t segment : job.records) ++dead[segment];
  }
  for (uint32_t segment = 0; segment < dead.size(); ++segment) {
    if (dead[segment] != 0) replacer_.log_.release(segment, dead[segment]);
  }
  for (Job& job : jobs_) release_layer(&job, Predecessors::kGivenBack);
  jobs_.clear();
  return Status::OK();
}

void Replacer::Offload::put_back(std::vector<Layer*>* again) {
  for (const Job& job : jobs_) again->push_back(job.layer);
  jobs_.clear();
}

// The tree is about to be searched for each old bnode: the cache misses of all these searches overlap.
void Replacer::Offload::fetch_paths() const {
  std::array<Key, Tree::kFindManyMax> keys;
  std::array<Bnode*, Tree::kFindManyMax> unused;
  for (size_t first = 0; first < jobs_.size(); first += keys.size()) {
    const size_t n = std::min(jobs_.size() - first, keys.size());
    for (size_t i = 0; i < n; ++i) keys[i] = jobs_[first + i].layer->olds.front()->lo().key();
    replacer_.tree_.find_many({keys.data(), n}, unused);
  }
}

void Replacer::Offload::switch_over(Job* job) {
  for (Piece& piece : job->pieces) {
    step("switch base");
    if (piece.residue != nullptr) {
      piece.residue->set_base(Base::of(piece.dnode));
      piece.successor->set_base(Base::of(piece.residue.release()));
      replacer_.untidy_.fetch_add(1);
    } else {
      piece.successor->set_base(Base::of(piece.dnode));
    }
  }
  step("update index");
  replacer_.tree_.replace(job->layer->olds, job->layer->news);
}

// Requires: everything is durable and reachable elsewhere. Retires the old parts until their readers have ended.
void Replacer::Offload::release_layer(Job* job, Predecessors predecessors) {
  auto garbage = std::make_unique<Garbage>();
  garbage->predecessors = predecessors;
  garbage->dnode_store = &replacer_.dnodes_;
  garbage->large_store = &replacer_.large_;
  garbage->layer.reset(job->layer);
  garbage->large = std::move(job->dropped);
  for (Bnode* old : job->layer->olds) {
    replacer_.queue_.forget_dirty(old);
    garbage->bnodes.push_back(old);
    if (Bnode* residue = old->base().residue()) garbage->bnodes.push_back(residue);
    garbage->dnodes.emplace_back(&dnode_under(*old));
  }
  if (const Piece& first = job->pieces.front(); first.kept_runs) {
    garbage->kept = first.dnode->runs();
    garbage->kept_fences = first.dnode->long_fences();
  }
  replacer_.work_.offloads.fetch_add(job->layer->olds.size(), std::memory_order_relaxed);
  replacer_.work_.updates_offloaded.fetch_add(job->updates, std::memory_order_relaxed);
  replacer_.work_.compactions.fetch_add(job->compactions, std::memory_order_relaxed);
  replacer_.queue_.finish_urgent();
  for (Bnode* fresh : job->layer->news) {
    if (fresh->settle()) replacer_.queue_.enqueue_urgent(fresh->layer());
  }
  const uint64_t bytes = garbage->dram_bytes();
  replacer_.epochs_.retire(garbage.release(), &Garbage::reclaim, nullptr, bytes);
}

}  // namespace bonsai::index
