// SPDX-License-Identifier: Apache-2.0
// Credits for messages to one node: a sender without credits waits. A node grants each owner a share of its receive
// buffers, so that a message always finds one, however many owners write.
//
// Thread-safety: all methods.
#ifndef BONSAI_SCALE_CREDITS_H_
#define BONSAI_SCALE_CREDITS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/check.h"

namespace bonsai::scale {

class Credits {
 public:
  explicit Credits(uint64_t count) : all_(count), free_(count) {}

  [[nodiscard]] uint64_t free() const { return free_.load(std::memory_order_relaxed); }
  // Takes `count` credits, or none.
  [[nodiscard]] bool try_take(uint64_t count) {
    uint64_t free = free_.load(std::memory_order_relaxed);
    while (free >= count) {
      if (free_.compare_exchange_weak(free, free - count, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  // Takes a share for one of several owners: at most `share_max`, at most a quarter of the free credits, and at least
  // one if any is free. Returns its size.
  [[nodiscard]] uint64_t take_share(uint64_t share_max) {
    for (;;) {
      const uint64_t all = free();
      const uint64_t share = std::min({all, share_max, std::max<uint64_t>(all / 4, 1)});
      if (share == 0 || try_take(share)) return share;
    }
  }
  // Requires: they were taken.
  void give_back(uint64_t count) {
    const uint64_t before = free_.fetch_add(count, std::memory_order_relaxed);
    BONSAI_CHECK(before <= all_ && count <= all_ - before);
  }

 private:
  const uint64_t all_;
  std::atomic<uint64_t> free_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_CREDITS_H_
