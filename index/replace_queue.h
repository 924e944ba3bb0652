// SPDX-License-Identifier: Apache-2.0
// The queue of work that waits to be offloaded: bnodes with updates, the longest dirty first; bnodes above the
// high-water mark, of which most are in that queue as well; and installed layers, which writers may be waiting for.
//
// Invariants
//  1. A bnode is enqueued once as dirty, by the creator of its table, and at most once as above the mark, by the thread
//     that raised it.
//  2. Each queue holds a reference to a bnode, which next() passes on: finish() or put_back() follows.
//  3. A bnode counts as waiting from enqueue() to finish(); a layer from count_urgent() to finish_urgent(), whether it
//     is in the queue or in a replacer's hands.
//
// Thread-safety: all methods but the destructor. enqueue() is lock-free, since writers call it; all others take one
// mutex for a few steps, in the background, or where a writer has replaced a bnode itself.
//
// Memory ordering: writers push onto a stack and release the bnode's links with it; the thread that takes the whole
// stack, by exchange, acquires them, so links are never read during a push. Counts are relaxed: they are hints whether
// a search will succeed, and each is changed before what it counts can be found, or after it was taken. So is a bnode's
// Queued::dirty, by which forget_dirty() sees without the mutex that there is nothing to forget.
#ifndef BONSAI_INDEX_REPLACE_QUEUE_H_
#define BONSAI_INDEX_REPLACE_QUEUE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "index/bnode.h"

namespace bonsai::index {

class ReplaceQueue {
 public:
  enum class Kind {
    kDirty,     // it got its first update
    kHighMark,  // it rose above the high-water mark
  };

  ReplaceQueue() = default;
  // Drops the references. Requires: no other call runs; layers are the caller's.
  ~ReplaceQueue();
  ReplaceQueue(const ReplaceQueue&) = delete;
  ReplaceQueue& operator=(const ReplaceQueue&) = delete;

  // ---- bnodes
  // Requires: the caller's guard protects the bnode; a dirty one has a table.
  void enqueue(Kind kind, Bnode* bnode);
  // The bnode that has waited longest; null if there is none. For dirty bnodes it also prefetches for the replacement
  // of the following ones, which are likely to be next. Requires: a guard.
  Bnode* next(Kind kind);
  // Moves a bnode that cannot be replaced now to the queue's end.
  void put_back(Kind kind, Bnode* bnode);
  // Drops the reference of a bnode that was replaced, or no longer needs it.
  void finish(Kind kind, Bnode* bnode);
  // Removes a bnode whose updates are in dnodes from the dirty ones, if it is there, so that its memory is not kept
  // needlessly. If its writer enqueues it later, next() returns it, with a layer.
  void forget_dirty(Bnode* bnode);
  [[nodiscard]] uint64_t waiting(Kind kind) const { return bnodes_of(kind).count.load(std::memory_order_relaxed); }

  // ---- layers
  // Counts a layer that was planned, even before it is installed.
  void count_urgent() { urgent_count_.fetch_add(1, std::memory_order_relaxed); }
  // Requires: it is installed, and counted.
  void enqueue_urgent(Layer* layer);
  // The one that waits longest; null if there is none.
  Layer* next_urgent();
  // It is offloaded.
  void finish_urgent() { urgent_count_.fetch_sub(1, std::memory_order_relaxed); }
  // Takes all of them, so that no other thread works on them, and puts them back at the front.
  std::deque<Layer*> take_urgent();
  void put_back_urgent(const std::deque<Layer*>& layers);
  // Visits all of them, oldest first. Requires: no other call runs.
  template <class Visit>
  void for_each_urgent(Visit visit) const {
    for (Layer* layer : urgent_) visit(layer);
  }

  // ---- how much there is
  // Something has updates that are not in dnodes yet.
  [[nodiscard]] bool dirty() const {
    return waiting(Kind::kDirty) != 0 || urgent_count_.load(std::memory_order_relaxed) != 0;
  }
  // All ranges with updates, about.
  [[nodiscard]] uint64_t ranges() const {
    return waiting(Kind::kDirty) + urgent_count_.load(std::memory_order_relaxed);
  }
  // Writers wait, or there are bnodes above the high-water mark enough for a group, which writers will otherwise have
  // to replace themselves.
  [[nodiscard]] bool urgent() const {
    return urgent_count_.load(std::memory_order_relaxed) != 0 || waiting(Kind::kHighMark) >= kHighMarkGroup;
  }
  static constexpr uint64_t kHighMarkGroup = 8;

 private:
  // Under the mutex, except the atomics. The queue is an array, so that the next entries are found without reading
  // those before them.
  struct Bnodes {
    std::atomic<Bnode*> stack{nullptr};  // newest first
    std::atomic<uint64_t> count{0};      // waiting
    std::deque<Bnode*> line;             // in order; null: forgotten
    uint64_t left = 0;                   // places that have left the line
  };
  [[nodiscard]] Bnodes& bnodes_of(Kind kind) { return bnodes_[static_cast<size_t>(kind)]; }
  [[nodiscard]] const Bnodes& bnodes_of(Kind kind) const { return bnodes_[static_cast<size_t>(kind)]; }
  void collect(Kind kind);
  void append(Kind kind, Bnode* bnode);
  static void drop_forgotten(Bnodes* bnodes);

  std::array<Bnodes, 2> bnodes_;
  std::atomic<uint64_t> urgent_count_{0};
  std::mutex mutex_;
  std::deque<Layer*> urgent_;  // under it
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_REPLACE_QUEUE_H_
