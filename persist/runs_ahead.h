// SPDX-License-Identifier: Apache-2.0
// Runs on far targets that are read before they are needed, of many dnodes in one list.
#ifndef BONSAI_PERSIST_RUNS_AHEAD_H_
#define BONSAI_PERSIST_RUNS_AHEAD_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

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

// All entries of a run, verified. `ahead`: null, or far runs that are here already. Views stay as what a ReadBatch
// brings.
[[nodiscard]] inline Trouble read_entries(const scale::Volume& volume, const RunDesc& desc, const RunsAhead* ahead,
                                          std::vector<Entry>* entries) {
  scale::ReadBatch reads(volume);
  const std::byte* const here = ahead != nullptr ? ahead->find(desc) : nullptr;
  RunView run = here != nullptr ? RunView(here, desc, volume.identity()) : issue_run(volume, desc, &reads);
  if (!reads.wait().ok()) return Trouble::kUnavailable;
  run.trust();
  entries->resize(run.count());
  for (uint32_t i = 0; i < run.count(); ++i) {
    if (!run.entry(i, &(*entries)[i])) return Trouble::kDamaged;
  }
  return Trouble::kNone;
}

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_RUNS_AHEAD_H_
