// SPDX-License-Identifier: Apache-2.0
// Issues the numbers of new records, and knows the largest number up to which all of them are in the store. This is
// YCSB's acknowledged counter without its window: the number of inserts is known when requests are drawn, so each
// insert has a flag of its own.
//
// Thread-safety: all methods from any thread.
// Memory ordering: acknowledge() stores its flag and then reads the limit; a thread that moves the limit reads the next
// flag afterwards. Both are sequentially consistent, so of two neighbours that finish at once at least one reads both
// flags, and the limit always catches up. last() acquires, so that a key up to it is found by its reader.
#ifndef BONSAI_BENCH_ENGINES_ACKNOWLEDGED_COUNTER_H_
#define BONSAI_BENCH_ENGINES_ACKNOWLEDGED_COUNTER_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace bonsai::bench {

class AcknowledgedCounter {
 public:
  // Records [0, first) exist; at most `inserts_max` numbers will be taken.
  AcknowledgedCounter(uint64_t first, uint64_t inserts_max)
      : first_(first), next_(first), acknowledged_(first), done_(inserts_max) {}

  // The number of a record to insert. Requires: fewer than inserts_max were taken.
  uint64_t take() {
    const uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    BONSAI_DCHECK(number - first_ < done_.size());
    return number;
  }

  // Record `number` is in the store. Requires: taken, and not acknowledged before.
  void acknowledge(uint64_t number) {
    done_[number - first_].store(true);
    uint64_t limit = acknowledged_.load();
    // Each turn either ends the loop or moves the limit, ours or another's, which happens inserts_max times in all.
    while (limit - first_ < done_.size() && done_[limit - first_].load()) {
      if (acknowledged_.compare_exchange_weak(limit, limit + 1)) ++limit;
    }
  }

  // All records below this number exist.
  [[nodiscard]] uint64_t end() const { return acknowledged_.load(std::memory_order_acquire); }

 private:
  uint64_t first_;
  alignas(64) std::atomic<uint64_t> next_;
  alignas(64) std::atomic<uint64_t> acknowledged_;
  std::vector<std::atomic<bool>> done_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_ACKNOWLEDGED_COUNTER_H_
