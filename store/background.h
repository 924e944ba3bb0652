// Background work: offloading, tidying, epochs of level buffered, reclamation. With no threads, writers do the
// offloading themselves when the log runs low.
#ifndef BONSAI_STORE_BACKGROUND_H_
#define BONSAI_STORE_BACKGROUND_H_

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/thread.h"
#include "bonsai/options.h"
#include "bonsai/status.h"
#include "store/tiers.h"

namespace bonsai::store {

class Background {
 public:
  // Requires: tiers outlive it.
  Background(const Options& options, Tiers& tiers) : options_(options), tiers_(tiers) {}
  ~Background() { stop(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void start();
  void stop();  // idempotent

  // To be called after each update: wakes the threads, or works, when the log runs low. Cheap otherwise. Returns how
  // many nanoseconds the writer should pause, so that writers that are faster than offloading slow down little by
  // little instead of standing still once the log is full: nothing while the log is not low, then more the less is
  // left.
  [[nodiscard]] uint64_t after_update() {
    if (!tiers_.log->low() && !tiers_.index->urgent()) [[likely]]
      return 0;
    relieve();
    return pause_ns();
  }
  // A writer cannot go on, and has not been able to for so long: makes some progress, or waits a little for it.
  void help_stalled(uint64_t stalled_ns);
  // The newest failure of offloading; OK when it last succeeded.
  Status last_failure() const;
  // How often in a row offloading found no space.
  [[nodiscard]] uint64_t refusals_in_a_row() const { return refusals_in_a_row_.load(std::memory_order_relaxed); }

  // Offloads everything that is there now. Errors: of offloading, or Unavailable when nothing moves for the stall
  // bound.
  Status drain();

 private:
  void relieve();
  [[nodiscard]] uint64_t pause_ns() const;
  void run();
  void work();
  size_t offload(index::Index::Which which);
  index::Index::OffloadResult offload_ranges(index::Index::Which which);
  void report(const Status& status);

  static constexpr size_t kRangesPerStep = 16;

  const Options& options_;
  Tiers& tiers_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> signalled_{false};
  std::atomic<uint64_t> closed_at_ns_{0};
  base::Event wake_;
  std::vector<base::Thread> threads_;
  std::atomic<uint64_t> refusals_in_a_row_{0};
  mutable std::mutex failure_mutex_;
  Status failure_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_BACKGROUND_H_
