// SPDX-License-Identifier: Apache-2.0
// Bnodes whose dnodes should be compacted for reads. Bounded and lossy: a request that finds no room is dropped.
//
// Thread-safety: ask() by any thread inside an epoch guard, wait-free; next() by any thread. Memory ordering: a bnode
// is passed on by its slot, released by ask() and acquired by next(). The count is only a hint whether next() will
// find one.
#ifndef BONSAI_INDEX_COMPACTION_QUEUE_H_
#define BONSAI_INDEX_COMPACTION_QUEUE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "index/bnode.h"

namespace bonsai::index {

class CompactionQueue {
 public:
  CompactionQueue() = default;
  ~CompactionQueue() {
    while (Bnode* bnode = next()) bnode->unref();
  }
  CompactionQueue(const CompactionQueue&) = delete;
  CompactionQueue& operator=(const CompactionQueue&) = delete;

  // Requires: the caller's guard protects the bnode.
  void ask(Bnode* bnode) {
    std::atomic<Bnode*>& slot = slots_[next_slot_.fetch_add(1, std::memory_order_relaxed) % kSlots];
    Bnode* expected = nullptr;
    bnode->ref();
    if (slot.compare_exchange_strong(expected, bnode, std::memory_order_release, std::memory_order_relaxed)) {
      count_.fetch_add(1, std::memory_order_relaxed);
    } else {
      bnode->unref();
    }
  }

  // A bnode whose compaction was requested; null if there is none. The caller gets a reference.
  Bnode* next() {
    for (size_t looked = 0; looked < kSlots && !empty(); ++looked) {
      std::atomic<Bnode*>& slot = slots_[next_taken_.fetch_add(1, std::memory_order_relaxed) % kSlots];
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      if (Bnode* bnode = slot.exchange(nullptr, std::memory_order_acquire)) {
        count_.fetch_sub(1, std::memory_order_relaxed);
        return bnode;
      }
    }
    return nullptr;
  }
  [[nodiscard]] bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  static constexpr size_t kSlots = 4096;

  std::array<std::atomic<Bnode*>, kSlots> slots_{};
  std::atomic<uint64_t> next_slot_{0};   // to be filled
  std::atomic<uint64_t> next_taken_{0};  // to be looked at
  std::atomic<int64_t> count_{0};
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_COMPACTION_QUEUE_H_
