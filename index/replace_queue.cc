// SPDX-License-Identifier: Apache-2.0
#include "index/replace_queue.h"

#include <utility>

#include "base/check.h"
#include "index/prefetch.h"

namespace bonsai::index {

namespace {

Bnode*& link_of(ReplaceQueue::Kind kind, Bnode* bnode) {
  return kind == ReplaceQueue::Kind::kDirty ? bnode->queue().next : bnode->queue().next_above_high_mark;
}

}  // namespace

ReplaceQueue::~ReplaceQueue() {
  for (const Kind kind : {Kind::kDirty, Kind::kHighMark}) {
    collect(kind);
    for (Bnode* bnode : bnodes_of(kind).list) bnode->unref();
  }
}

void ReplaceQueue::enqueue(Kind kind, Bnode* bnode) {
  BONSAI_INVARIANT(kind != Kind::kDirty || bnode->slots() != nullptr);
  Bnodes& bnodes = bnodes_of(kind);
  bnode->ref();
  bnodes.count.fetch_add(1, std::memory_order_relaxed);
  Bnode* top = bnodes.stack.load(std::memory_order_relaxed);
  do {
    link_of(kind, bnode) = top;
  } while (!bnodes.stack.compare_exchange_weak(top, bnode, std::memory_order_release, std::memory_order_relaxed));
}

// Moves the stack, newest first, to the list's end. Requires: the mutex.
void ReplaceQueue::collect(Kind kind) {
  Bnodes& bnodes = bnodes_of(kind);
  auto before = bnodes.list.end();
  for (Bnode* bnode = bnodes.stack.exchange(nullptr, std::memory_order_acquire); bnode != nullptr;
       bnode = link_of(kind, bnode)) {
    before = bnodes.list.insert(before, bnode);
    if (kind == Kind::kDirty) note_place(bnode, before);
  }
}

// A dirty one is in the list from now on.
void ReplaceQueue::note_place(Bnode* bnode, std::list<Bnode*>::iterator place) {
  BONSAI_INVARIANT(!bnode->queue().queued);
  bnode->queue().place = place;
  bnode->queue().queued = true;
}

Bnode* ReplaceQueue::next(Kind kind) {
  const std::lock_guard lock(mutex_);
  collect(kind);
  std::list<Bnode*>& list = bnodes_of(kind).list;
  if (list.empty()) return nullptr;
  Bnode* bnode = list.front();
  if (kind == Kind::kDirty) {
    auto following = list.begin();
    for (size_t stage = Prefetch::kReplaceStages; stage-- > 0;) {
      if (++following == list.end()) break;
      Prefetch::to_replace(**following, stage);
    }
    BONSAI_INVARIANT(bnode->queue().queued);
    bnode->queue().queued = false;
  }
  list.pop_front();
  return bnode;
}

void ReplaceQueue::put_back(Kind kind, Bnode* bnode) {
  const std::lock_guard lock(mutex_);
  std::list<Bnode*>& list = bnodes_of(kind).list;
  const auto place = list.insert(list.end(), bnode);
  if (kind == Kind::kDirty) note_place(bnode, place);
}

void ReplaceQueue::finish(Kind kind, Bnode* bnode) {
  BONSAI_INVARIANT(bnodes_of(kind).count.fetch_sub(1, std::memory_order_relaxed) > 0);
  bnode->unref();
}

void ReplaceQueue::forget_dirty(Bnode* bnode) {
  const std::lock_guard lock(mutex_);
  collect(Kind::kDirty);
  if (!bnode->queue().queued) return;
  bnodes_of(Kind::kDirty).list.erase(bnode->queue().place);
  bnode->queue().queued = false;
  finish(Kind::kDirty, bnode);
}

void ReplaceQueue::enqueue_urgent(Layer* layer) {
  BONSAI_INVARIANT(layer->installed.load() && urgent_count_.load(std::memory_order_relaxed) > 0);
  const std::lock_guard lock(mutex_);
  urgent_.push_back(layer);
}

Layer* ReplaceQueue::next_urgent() {
  const std::lock_guard lock(mutex_);
  if (urgent_.empty()) return nullptr;
  Layer* layer = urgent_.front();
  urgent_.pop_front();
  return layer;
}

std::deque<Layer*> ReplaceQueue::take_urgent() {
  const std::lock_guard lock(mutex_);
  return std::exchange(urgent_, {});
}

void ReplaceQueue::put_back_urgent(const std::deque<Layer*>& layers) {
  const std::lock_guard lock(mutex_);
  urgent_.insert(urgent_.begin(), layers.begin(), layers.end());
}

}  // namespace bonsai::index
