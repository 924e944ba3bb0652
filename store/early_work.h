// When the background does early what nobody needs yet, so that reads find ranges in order, and how much that writes.
//
// Offloading a range takes whole media blocks, however few its updates are, and compacting it writes all of it anew. So
// early work has an allowance of media bytes:
//  - what all writing, of log and dnodes, leaves of kTenthsPerUserByte / 10 times the bytes that users write. So a load
//  that
//    writes less than that is put in order when it ends, and the whole stays within the bound;
//  - as much as the pool held when it was opened: an opening may put in order once what an earlier one has left;
//  - a little for each second, for where updates themselves take more than that.
// A store that is updated now and then is not written for it again and again.
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
  // Of media bytes per user byte. A little below the bound on write amplification (docs/design.md, section 6), for what
  // time allows, and what is counted as whole segments and blocks.
  static constexpr uint64_t kTenthsPerUserByte = 48;
  static constexpr uint64_t kBytesPerMs = (uint64_t{1} << 20) / 1'000;
  static constexpr int64_t kBytesSavedMax = int64_t{4} << 20;  // time allows no more while nothing is written
  static constexpr int64_t kBytesOwedMax = int64_t{4} << 20;   // what updates have taken too much counts up to here

  struct Look {
    uint64_t now_ns;
    uint64_t updates, user_bytes;  // since the store was opened
    uint64_t media_bytes;          // the same, of all writing
  };
  // What early work may be done now.
  struct May {
    bool idle = false;   // no updates have come for some time
    bool write = false;  // some of the allowance is left
  };

  // `held_bytes`: by the pool, when it was opened.
  explicit EarlyWork(uint64_t held_bytes = 0) : allowance_(static_cast<int64_t>(held_bytes)) {}

  May look(const Look& look) {
    const std::lock_guard lock(mutex_);
    const auto granted = [](const Look& at) { return at.user_bytes * kTenthsPerUserByte / 10; };
    allowance_ += static_cast<int64_t>(granted(look) - granted(seen_));
    allowance_ -= static_cast<int64_t>(look.media_bytes - seen_.media_bytes);
    allowance_ = std::max(allowance_, -kBytesOwedMax);
    const uint64_t ms = (look.now_ns - earned_ns_) / base::kNsPerMs;
    earned_ns_ += ms * base::kNsPerMs;
    if (allowance_ < kBytesSavedMax) {
      const uint64_t ms_max = static_cast<uint64_t>(kBytesSavedMax - allowance_) / kBytesPerMs + 1;
      allowance_ += static_cast<int64_t>(std::min(ms, ms_max) * kBytesPerMs);
    }
    if (look.updates != seen_.updates) idle_from_ns_ = look.now_ns + kIdleNs;
    seen_ = look;
    return {look.now_ns >= idle_from_ns_, allowance_ > 0};
  }
  // Early work has written so much; it is also in Look::media_bytes.
  void wrote(uint64_t media_bytes) {
    const std::lock_guard lock(mutex_);
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
  int64_t allowance_;
  uint64_t bytes_ = 0;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_EARLY_WORK_H_
