// SPDX-License-Identifier: Apache-2.0
// How long one call has waited, and may wait. Admission, large values, a full log and full bnodes share one bound,
// Options::stall_ms_max. It starts with the first wait, and anew with each completed update of the call. Of the time
// between two readings of the clock at most a quarter of the bound counts, or 250 ms if that is more. So a process that
// was stopped resumes its stalls where they were. No update gives up before it has tried once more after the bound.
//
// Thread-safety: one owner.
#ifndef BONSAI_STORE_STALL_H_
#define BONSAI_STORE_STALL_H_

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/memory.h"
#include "bonsai/options.h"
#include "bonsai/status.h"
#include "store/background.h"
#include "store/counters.h"

namespace bonsai::store {

class Stall {
 public:
  // Requires: all outlive it.
  Stall(const Options& options, Background& background, Counters& counters)
      : limit_ms_(options.stall_ms_max), background_(background), counters_(counters) {}
  ~Stall() { progress(); }
  Stall(const Stall&) = delete;
  Stall& operator=(const Stall&) = delete;

  // The stalled update is done, or rejected for other reasons.
  void progress() {
    if (began_ns_ != 0) counters_.add(Count::kStallUs, (base::now_ns() - began_ns_) / base::kNsPerUs);
    began_ns_ = 0;
    last_try_ = false;
  }

  // The log or a bnode is full: helps, or waits a little. False when the bound was exceeded before the last try, the
  // volume has failed, or offloading finds no space again and again. The latter not for an update that was begun: to
  // give that up leaves its outcome unknown.
  [[nodiscard]] bool wait(bool begun) {
    if (last_try_ || !background_.health().ok()) return false;
    begin();
    background_.help_stalled(base::now_ns() - began_ns_);
    const uint64_t left = left_ms();
    const bool hopeless = !begun && limit_ms_ - left > kRefusedMsMax && background_.refusals_in_a_row() > kRefusalsMax;
    last_try_ = left == 0 || hopeless;
    return true;
  }

  // The data area has no room: offloads until enough() returns true. Errors: NoSpace or Unavailable, why it has
  // not; OK also if all is in dnodes and it has not.
  Status make_space(const std::function<bool()>& enough) {
    begin();
    return background_.make_space([&] { return enough() || left_ms() == 0; }, left_ms());
  }

  // Memory is scarce: offloads until it is not, and there is enough for `bytes`. Errors: NoSpace, after the bound or
  // when nothing is left that could free memory; IoError or Unavailable when the volume has failed. Nothing was
  // changed.
  Status await_memory(size_t bytes = 0) {
    while (!base::refill_memory() || !base::memory_has(bytes)) {
      const bool hopeless = began_ns_ != 0 && limit_ms_ - left_ms() > kRefusedMsMax && !background_.may_free_memory();
      if (hopeless || !wait(false)) {
        Status health = background_.health();
        return health.ok() ? base::out_of_memory() : health;
      }
    }
    return Status::OK();
  }

  // After wait() has returned false.
  [[nodiscard]] Status why(bool unknown) const {
    if (const Status health = background_.health(); !health.ok()) {
      const std::string text = std::string(health.message()) + "; this update may or may not have taken effect";
      return health.IsUnavailable() ? Status::Unavailable(text) : Status::IoError(text);
    }
    if (unknown) {
      return Status::Unavailable("offloading did not finish in time; the update may or may not have taken effect");
    }
    const Status failure = background_.last_failure();
    if (failure.IsUnavailable()) {
      return Status::Unavailable("the log is full and cannot be offloaded now (" + std::string(failure.message()) +
                                 "); this update changed nothing: retry it");
    }
    if (!failure.ok()) {
      return Status::NoSpace("the log is full and cannot be offloaded (" + failure.ToString() +
                             "); delete data or use a larger pool");
    }
    return Status::NoSpace("the log is full and offloading cannot free it within " + std::to_string(limit_ms_) +
                           " ms; raise log_bytes or background_threads");
  }

 private:
  static constexpr uint64_t kStepMsMax = 250;
  static constexpr uint64_t kRefusedMsMax = 200;
  static constexpr uint64_t kRefusalsMax = 64;

  void begin() {
    if (began_ns_ != 0) return;
    began_ns_ = counted_to_ns_ = base::now_ns();
    counted_ns_ = 0;
    counters_.add(Count::kStalls);
  }
  [[nodiscard]] uint64_t left_ms() {
    const uint64_t now_ns = base::now_ns();
    const uint64_t counted_max_ns = std::max(limit_ms_ / 4, kStepMsMax) * base::kNsPerMs + 1;
    counted_ns_ += std::min(now_ns - std::exchange(counted_to_ns_, now_ns), counted_max_ns);
    return limit_ms_ - std::min(counted_ns_ / base::kNsPerMs, limit_ms_);
  }

  const uint64_t limit_ms_;
  Background& background_;
  Counters& counters_;
  uint64_t began_ns_ = 0;  // 0: nothing is stalled
  uint64_t counted_to_ns_ = 0, counted_ns_ = 0;
  bool last_try_ = false;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_STALL_H_
