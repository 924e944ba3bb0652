// Runs on far targets that are read before they are needed, of many dnodes in one list.
#ifndef BONSAI_PERSIST_RUNS_AHEAD_H_
#define BONSAI_PERSIST_RUNS_AHEAD_H_

#include <cstdint>
#include <map>
#include <optional>

#include "persist/run.h"
#include "scale/read_batch.h"

namespace bonsai::persist {

// Thread-safety: one owner. What is found stays as what a ReadBatch brings (scale/read_batch.h).
class RunsAhead {
 public:
  // Issues the read of a run, if it is on a far target.
  void issue(const scale::Volume& volume, const RunDesc& run) {
    if (!reads_) reads_.emplace(volume);
    const scale::Addr addr = scale::Addr::of_bits(run.addr);
    if (reads_->mapped(addr) == nullptr) runs_.emplace(run.addr, reads_->issue(addr, run.bytes));
  }
  // Waits for all that was issued. What did not come is not found: who needs it reads it, and has the error.
  void wait() {
    if (reads_ && !reads_->wait().ok()) runs_.clear();
  }
  // The bytes of a run; null if they are not here.
  [[nodiscard]] const std::byte* find(uint64_t addr) const {
    const auto at = runs_.find(addr);
    return at != runs_.end() ? at->second : nullptr;
  }
  void clear() {
    runs_.clear();
    reads_.reset();
  }

 private:
  std::optional<scale::ReadBatch> reads_;
  std::map<uint64_t, const std::byte*> runs_;  // by address
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_RUNS_AHEAD_H_
