// SPDX-License-Identifier: Apache-2.0
// Operation counters, one line per thread, so that counting costs an addition to a line that no other thread writes.
//
// Memory ordering: relaxed throughout. Threads with ordinals beyond the table share its last slot by fetch-and-add.
#ifndef BONSAI_STORE_COUNTERS_H_
#define BONSAI_STORE_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/thread.h"

namespace bonsai::store {

enum class Count : uint32_t {
  kPuts,
  kDels,
  kGets,
  kGetsFromDnodes,
  kScans,
  kBatches,
  kUserBytes,
  kStalls,
  kStallUs,
  kPauses,
  kPauseNs,
  kCounts
};

class Counters {
 public:
  void add(Count count, uint64_t n = 1) {
    BONSAI_DCHECK(count < Count::kCounts);
    const uint32_t ordinal = base::thread_ordinal();
    if (ordinal < kSlots - 1) {
      auto& counter = slots_[ordinal].counts[static_cast<size_t>(count)];
      counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    } else {
      slots_[kSlots - 1].counts[static_cast<size_t>(count)].fetch_add(n, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] uint64_t sum(Count count) const {
    uint64_t sum = 0;
    for (const Slot& slot : slots_) sum += slot.counts[static_cast<size_t>(count)].load(std::memory_order_relaxed);
    return sum;
  }

 private:
  static constexpr size_t kSlots = 128;
  struct alignas(128) Slot {
    std::array<std::atomic<uint64_t>, static_cast<size_t>(Count::kCounts)> counts{};
  };
  std::array<Slot, kSlots> slots_{};
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_COUNTERS_H_
