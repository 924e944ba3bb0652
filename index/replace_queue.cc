// SPDX-License-Identifier: Apache-2.0
#include "index/replace_queue.h"

#include <algorithm>
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
    for (Bnode* bnode : bnodes_of(kind).line) {
      if (bnode != nullptr) bnode->unref();
    }
  }
}

void ReplaceQueue::enqueue(Kind kind, Bnode* bnode) {
  BONSAI_INVARIANT(kind != Kind::kDirty || bnode->slots() != nullptr);
  Bnodes& bnodes = bnodes_of(kind);
  bnode->ref();
  if (kind == Kind::kDirty) bnode->queue().dirty.store(true, std::memory_order_relaxed);
  bnodes.count.fetch_add(1, std::memory_order_relaxed);
  Bnode* top = bnodes.stack.load(std::memory_order_relaxed);
  do {
    link_of(kind, bnode) = top;
  } while (!bnodes.stack.compare_exchange_weak(top, bnode, std::memory_order_release, std::memory_order_relaxed));
}

// Moves the stack, newest first, to the line's end. Requires: the mutex.
void ReplaceQueue::collect(Kind kind) {
  Bnode* newest = bnodes_of(kind).stack.exchange(nullptr, std::memory_order_acquire);
  Bnode* oldest = nullptr;
  while (newest != nullptr) {  // turns the links round
    Bnode* const older = std::exchange(link_of(kind, newest), oldest);
    oldest = std::exchange(newest, older);
  }
  for (; oldest != nullptr; oldest = link_of(kind, oldest)) append(kind, oldest);
}

void ReplaceQueue::append(Kind kind, Bnode* bnode) {
  Bnodes& bnodes = bnodes_of(kind);
  if (kind == Kind::kDirty) {
    BONSAI_INVARIANT(bnode->queue().place == Bnode::Queued::kNowhere);
    bnode->queue().place = bnodes.left + bnodes.line.size();
  }
  bnodes.line.push_back(bnode);
}

// At the front.
void ReplaceQueue::drop_forgotten(Bnodes* bnodes) {
  for (; !bnodes->line.empty() && bnodes->line.front() == nullptr; ++bnodes->left) bnodes->line.pop_front();
}

Bnode* ReplaceQueue::next(Kind kind) {
  const std::lock_guard lock(mutex_);
  collect(kind);
  Bnodes& bnodes = bnodes_of(kind);
  drop_forgotten(&bnodes);
  if (bnodes.line.empty()) return nullptr;
  Bnode* bnode = bnodes.line.front();
  bnodes.line.pop_front();
  ++bnodes.left;
  if (kind != Kind::kDirty) return bnode;
  for (size_t i = 0; i < std::min(Prefetch::kReplaceStages, bnodes.line.size()); ++i) {
    if (const Bnode* following = bnodes.line[i]) Prefetch::to_replace(*following, Prefetch::kReplaceStages - 1 - i);
  }
  bnode->queue().place = Bnode::Queued::kNowhere;
  bnode->queue().dirty.store(false, std::memory_order_relaxed);
  return bnode;
}

void ReplaceQueue::put_back(Kind kind, Bnode* bnode) {
  const std::lock_guard lock(mutex_);
  if (kind == Kind::kDirty) bnode->queue().dirty.store(true, std::memory_order_relaxed);
  append(kind, bnode);
}

void ReplaceQueue::finish(Kind kind, Bnode* bnode) {
  BONSAI_INVARIANT(bnodes_of(kind).count.fetch_sub(1, std::memory_order_relaxed) > 0);
  bnode->unref();
}

void ReplaceQueue::forget_dirty(Bnode* bnode) {
  Bnode::Queued& queued = bnode->queue();
  if (!queued.dirty.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  collect(Kind::kDirty);
  if (queued.place == Bnode::Queued::kNowhere) return;  // its writer is about to push it
  Bnodes& bnodes = bnodes_of(Kind::kDirty);
  bnodes.line[queued.place - bnodes.left] = nullptr;
  queued.place = Bnode::Queued::kNowhere;
  queued.dirty.store(false, std::memory_order_relaxed);
  drop_forgotten(&bnodes);
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
