// SPDX-License-Identifier: Apache-2.0
// Background work: offloading, compaction, tidying, closing the epochs of mode buffered, reclamation.
//
// Throttling. Writers that outrun offloading are slowed down before the log is full, by x / (1 - x) times 4 us per
// update, at most 1 ms. x is the used share of the last sixteenth of the log before its reserve, without the quarter of
// it in which offloading begins. A throttled writer offloads for that time, some ranges at a time; if no range can be
// offloaded, it waits. An update that still finds no room stalls (stall.h).
// Waking. A thread without work looks for more for 20 ms, ever less often, before it sleeps. An update that finds it
// asleep wakes it, which costs the update some 10 us.
// Without memory. While memory is scarce (base/memory.h) the threads offload all that they can, and do no early work.
// If work runs out of memory in its middle all the same, it is not continued: the volume gives up.
// Without threads. Writers offload when the log is low. A get or a scan compacts what reads have requested, at most 16
// ranges, after it has its result and outside its guard; that takes locks, so the read may wait for another thread. An
// idle store does nothing early (early_work.h), nor does Drain.
#ifndef BONSAI_STORE_BACKGROUND_H_
#define BONSAI_STORE_BACKGROUND_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/thread.h"
#include "bonsai/options.h"
#include "bonsai/status.h"
#include "store/counters.h"
#include "store/early_work.h"
#include "store/tiers.h"

namespace bonsai::store {

// The threads of a store, which wait until Background::start() gives them their work: so a store is opened, or created,
// only if it has them.
struct BackgroundThreads {
  // Errors: NoSpace when the system gives no further thread.
  [[nodiscard]] static Status reserve(const Options& options, BackgroundThreads* threads);

  std::vector<base::Thread> workers;
  base::Thread closer;  // of epochs, in mode buffered
};

class Background {
 public:
  // Requires: tiers and counters outlive it.
  Background(const Options& options, Tiers& tiers, const Counters& counters)
      : options_(options), tiers_(tiers), counters_(counters) {}
  ~Background() { stop(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Without threads only the calls of users do the work, and in mode buffered only Sync closes epochs.
  void start(BackgroundThreads threads);
  void stop();  // idempotent
  // In a forked child, in place of stop(): the threads are the parent's, and are forgotten.
  void forget_threads();

  // To be called after `updates` updates. Cheap while the log is not low. When the log is low, it wakes the threads, or
  // works itself, and throttles the writer. So writers that outrun offloading slow down gradually instead of stalling
  // on a full log. Throttled writers offload together, or wait where no range can be offloaded. Returns the nanoseconds
  // for which the writer was throttled.
  [[nodiscard]] uint64_t after_updates(uint64_t updates) {
    if (!tiers_.log->low() && !tiers_.index->urgent()) [[likely]]
      return 0;
    relieve();
    const uint64_t ns = updates * pause_ns();
    return ns == 0 ? 0 : throttle(ns);
  }
  // To be called after a read, outside its guard.
  void after_read() {
    if (threads_.empty() && !options_.read_only) compact();
  }
  // A writer has been unable to continue for so long: makes some progress, or waits a little for it.
  void help_stalled(uint64_t stalled_ns);
  // The newest failure of offloading; OK when it last succeeded.
  Status last_failure() const;
  // Whether memory may come back by itself: from updates that are to be offloaded, or from what was replaced.
  [[nodiscard]] bool may_free_memory() const;
  // Memory ran out in the middle of an operation on the tiers: the store takes no more updates.
  void give_up();
  // The health of the volume: once it is not OK, updates and offloading have ended.
  [[nodiscard]] Status health() const { return tiers_.volume->health(); }
  // Failures of offloading in a row for lack of space, while no reader held back replaced space.
  [[nodiscard]] uint64_t refusals_in_a_row() const { return refusals_in_a_row_.load(std::memory_order_relaxed); }

  // Number of times that an update woke a thread.
  [[nodiscard]] uint64_t wake_ups() const { return wake_ups_.load(std::memory_order_relaxed); }
  // Ranges that writers offloaded while they were throttled.
  [[nodiscard]] uint64_t helped_ranges() const { return helped_ranges_.load(std::memory_order_relaxed); }
  // Media bytes of early offloading and compaction.
  [[nodiscard]] uint64_t early_bytes() const { return early_.bytes(); }

  // Offloads all present updates, then compacts the ranges that are in several runs, as far as early work may write.
  // Errors: of offloading; Unavailable when there is no progress for the stall bound, or when after that bound more
  // than twice the initial ranges have been offloaded and there are still some.
  Status drain();
  // Offloads until enough(), or until all updates are in dnodes and the space that they replaced is free. Errors: of
  // offloading; Unavailable when there is no progress for `limit_ms`; NoSpace, unless readers hold back replaced space.
  Status drain_until(const std::function<bool()>& enough, uint64_t limit_ms);
  // drain_until(), and then waits for readers until enough(), or they hold nothing back, or for `limit_ms`. It may call
  // enough() again after that was true.
  Status make_space(const std::function<bool()>& enough, uint64_t limit_ms);

 private:
  void relieve();
  [[nodiscard]] uint64_t pause_ns() const;
  uint64_t throttle(uint64_t ns);
  bool help(uint64_t ns);
  void wake();
  void run();
  void close_epochs();
  [[nodiscard]] bool wanted() const;
  void watch(uint64_t limit_ms);
  void rest(uint64_t limit_ms);
  bool work();
  size_t work_early();
  bool put_in_order();
  void tidy_up(uint64_t limit_ms);
  void await_readers(const std::function<bool()>& enough, uint64_t limit_ms);
  void compact() {
    if (tiers_.index->compaction_wanted()) compact_some();
  }
  void compact_some();
  EarlyWork::May look() const;
  index::Index::OffloadResult offload_early(index::Index::Which which);
  [[nodiscard]] index::Index::Which which() const;  // ranges are to be offloaded now
  index::Index::OffloadResult offload(size_t ranges_max, index::Index::Which which);
  index::Index::OffloadResult offload_ranges(size_t ranges_max, index::Index::Which which);
  index::Index::OffloadResult offload_where_space_is_scarce(size_t ranges_max, index::Index::Which which);
  void report(const Status& status);

  static constexpr size_t kRangesPerStep = 16;

  const Options& options_;
  Tiers& tiers_;
  const Counters& counters_;
  mutable EarlyWork early_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> signalled_{false};
  std::atomic<uint32_t> watching_{0};  // threads that look out for work
  std::atomic<uint32_t> sleeping_{0};  // ... that are to be woken
  std::atomic<uint64_t> wake_ups_{0};
  std::atomic<uint64_t> owed_ns_{0};  // for which a writer is to offload
  std::unique_ptr<base::Event> wake_ = std::make_unique<base::Event>();
  std::vector<base::Thread> threads_;
  base::Thread closer_;
  std::unique_ptr<base::Event> closing_ = std::make_unique<base::Event>();
  std::atomic<uint64_t> helped_ranges_{0};
  std::atomic<uint64_t> refusals_in_a_row_{0};
  std::atomic<bool> readers_hold_{false};             // space, as the last refusal found
  base::YieldingMutex scarce_mutex_{"scarce space"};  // for who makes room where there is none
  mutable std::mutex failure_mutex_;
  Status failure_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_BACKGROUND_H_
