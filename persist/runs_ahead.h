// SPDX-License-Identifier: Apache-2.0
// Runs on far targets that are read before they are needed, of many dnodes in one list.
#ifndef BONSAI_PERSIST_RUNS_AHEAD_H_
#define BONSAI_PERSIST_RUNS_AHEAD_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "persist/run.h"
#include "scale/read_batch.h"

namespace bonsai::persist {

// Runs never change, and a place is not used twice for the same: what was read stays right, also for another guard.
//
// Thread-safety: one owner. What is found stays as what a ReadBatch brings (scale/read_batch.h).
class RunsAhead {
 public:
  // Issues the read of a run, if it is on a far target and not here.
  void issue(const scale::Volume& volume, const RunDesc& run) {
    if (!reads_) reads_.emplace(volume);
    const scale::Addr addr = scale::Addr::of_bits(run.addr);
    if (reads_->mapped(addr) != nullptr || find(run) != nullptr) return;
    runs_.emplace(std::pair(run.addr, run.birth), reads_->issue(addr, run.bytes));
  }
  // Waits for all that was issued. False: some did not come. It is not found, and whoever needs it reads it and gets
  // the error; what other targets sent is here.
  bool wait() {
    if (!reads_ || reads_->wait().ok()) return true;
    std::erase_if(runs_, [this](const auto& run) { return reads_->lost(scale::Addr::of_bits(run.first.first)); });
    return false;
  }
  // The bytes of a run; null if they are not here.
  [[nodiscard]] const std::byte* find(const RunDesc& run) const {
    const auto at = runs_.find({run.addr, run.birth});
    return at != runs_.end() ? at->second : nullptr;
  }
  // Whether those of a dnode are, or are mapped; not if it has none, or nothing was issued.
  template <class Runs>
  [[nodiscard]] bool has(const Runs& runs) const {
    return reads_ && !runs.empty() && std::all_of(runs.begin(), runs.end(), [this](const RunDesc& run) {
             return find(run) != nullptr || reads_->mapped(scale::Addr::of_bits(run.addr)) != nullptr;
           });
  }
  void clear() {
    runs_.clear();
    reads_.reset();
  }

 private:
  std::optional<scale::ReadBatch> reads_;
  std::map<std::pair<uint64_t, uint32_t>, const std::byte*> runs_;  // by address and birth
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_RUNS_AHEAD_H_
