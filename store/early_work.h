// SPDX-License-Identifier: Apache-2.0
// Schedules early offloading and compaction, so that reads find ranges in order, and limits their writes.
//
// Offloading a range takes whole media blocks, however few its updates are, and compacting it rewrites all of it. So
// early work has an allowance of media bytes: a share of the users' writes, and a rate per second. A store that was
// loaded is in order some seconds later; one that is updated now and then is not rewritten again and again; under fast
// updates, early work adds little to the write amplification.
#ifndef BONSAI_STORE_EARLY_WORK_H_
#define BONSAI_STORE_EARLY_WORK_H_

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace bonsai::store {

// Thread-safety: all methods.
class EarlyWork {
 public:
  static constexpr uint64_t kIdleNs = 40 * base::kNsPerMs;  // without updates
  static constexpr uint64_t kUserBytesPerByte = 1;          // written by users, per media byte
  // A hundredth of what wears a module out in five years, roughly.
  static constexpr uint64_t kBytesPerMs = (uint64_t{16} << 20) / 1'000;
  static constexpr int64_t kBytesSavedMax = int64_t{64} << 20;  // time allows no more while nothing is written

  struct Look {
    uint64_t now_ns;
    uint64_t updates, user_bytes;  // since the store was opened
  };
  // The early work that is allowed now.
  struct May {
    bool idle = false;   // no updates have come for some time
    bool write = false;  // some of the allowance is left
  };
  May look(const Look& look) {
    const std::lock_guard lock(mutex_);
    allowance_ += static_cast<int64_t>(look.user_bytes / kUserBytesPerByte - seen_.user_bytes / kUserBytesPerByte);
    // Another thread may have read the clock later and looked before.
    const uint64_t ms = look.now_ns > earned_ns_ ? (look.now_ns - earned_ns_) / base::kNsPerMs : 0;
    earned_ns_ += ms * base::kNsPerMs;
    if (allowance_ < kBytesSavedMax) {
      const uint64_t ms_max = static_cast<uint64_t>(kBytesSavedMax - allowance_) / kBytesPerMs + 1;
      allowance_ += static_cast<int64_t>(std::min(ms, ms_max) * kBytesPerMs);
    }
    if (look.updates != seen_.updates) idle_from_ns_ = look.now_ns + kIdleNs;
    seen_ = look;
    return {look.now_ns >= idle_from_ns_, allowance_ > 0};
  }
  // Reports the media bytes of early work.
  void wrote(uint64_t media_bytes) {
    const std::lock_guard lock(mutex_);
    allowance_ -= static_cast<int64_t>(media_bytes);
    bytes_ += media_bytes;
  }
  // By all early work.
  [[nodiscard]] uint64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  mutable std::mutex mutex_;
  Look seen_{};
  uint64_t idle_from_ns_ = 0;
  uint64_t earned_ns_ = 0;  // time up to here has been allowed for
  int64_t allowance_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_EARLY_WORK_H_
