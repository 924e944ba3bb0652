// SPDX-License-Identifier: Apache-2.0
#include "store/background.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/status_macros.h"

namespace bonsai::store {

using index::Index;

namespace {
inline constexpr uint64_t kIdleMs = 20;
inline constexpr size_t kTidyRanges = 256;
inline constexpr uint64_t kReadersMs = 100;     // where others may wait for this thread
inline constexpr uint64_t kReadersStepMs = 10;  // between two looks whether there is enough
inline constexpr int kNoSpaceTries = 200;
inline constexpr uint64_t kDrainRangesMin = 1'000;
// A range is offloaded in less than this, so a sleep would be longer than the wait.
inline constexpr uint64_t kYieldNs = 500'000;
inline constexpr uint64_t kPauseNsUnit = 4'000;
inline constexpr uint64_t kPauseNsMax = 1'000'000;
inline constexpr uint64_t kNapUsMin = 20, kNapUsMax = 1'000;  // between two looks whether there is work
inline constexpr uint64_t kRangeNs = 12'000;                  // that offloading a range takes, about
inline constexpr uint64_t kHelpRangesMax = 8;
}  // namespace

Status BackgroundThreads::reserve(const Options& options, BackgroundThreads* threads) {
  for (uint32_t i = 0; i < options.background_threads; ++i) {
    base::Thread worker;
    BONSAI_RETURN_IF_ERROR(base::Thread::reserve("bonsai-bg-" + std::to_string(i), &worker));
    threads->workers.push_back(std::move(worker));
  }
  return options.durability == Durability::kBuffered ? base::Thread::reserve("bonsai-epochs", &threads->closer)
                                                     : Status::OK();
}

void Background::start(BackgroundThreads threads) {
  BONSAI_CHECK(threads_.empty() && !stop_.load());
  threads_ = std::move(threads.workers);
  closer_ = std::move(threads.closer);
  for (base::Thread& thread : threads_) thread.begin([this] { run(); });
  if (closer_.joinable()) closer_.begin([this] { close_epochs(); });
}

void Background::stop() {
  stop_.store(true);
  for (size_t i = 0; i < threads_.size(); ++i) wake_->signal();
  closing_->signal();
  threads_.clear();
  closer_.join();
}

// Closes an epoch twice per window, so that an update that came just after a closing still becomes durable inside it.
// On a thread of its own, because offloading takes longer.
void Background::close_epochs() {
  while (!stop_.load()) {
    static_cast<void>(closing_->wait_for(std::max<uint64_t>(1, options_.buffered_window_ms / 2)));
    try {
      static_cast<void>(tiers_.log->close_epoch());
    } catch (const std::bad_alloc&) {
      give_up();
    }
  }
}

// None of them runs here: to join one, or to destroy what one waits for, would take for ever.
void Background::forget_threads() {
  static_cast<void>(new std::vector<base::Thread>(std::move(threads_)));
  threads_.clear();
  static_cast<void>(new base::Thread(std::move(closer_)));
  for (std::unique_ptr<base::Event>* event : {&wake_, &closing_}) {
    static_cast<void>(event->release());
    *event = std::make_unique<base::Event>();
  }
}

void Background::run() {
  for (bool worked = false; !stop_.load();) {
    worked ? watch(kIdleMs) : rest(kIdleMs);
    try {
      if (!stop_.load()) worked = work();
    } catch (const std::bad_alloc&) {
      give_up();
    }
  }
}

void Background::give_up() {
  tiers_.volume->give_up(base::kOutOfMemory);
  base::memory_ran_out();
}

bool Background::may_free_memory() const { return tiers_.index->dirty() || tiers_.epochs->retired_objects() > 0; }

bool Background::wanted() const {
  return tiers_.log->low() || tiers_.index->urgent() || base::memory_is_scarce() || stop_.load();
}

// Waking a thread costs a writer 10 us and more, once for each segment that it fills. So a thread that has just worked
// looks out for more itself, ever less often, and sleeps only if there is none for some time.
void Background::watch(uint64_t limit_ms) {
  watching_.fetch_add(1);
  base::BoundedWait wait("more to offload", limit_ms);
  while (!wanted() && !wait.expired()) {
    base::sleep_us(std::clamp(wait.watch_ns() / base::kNsPerUs / 4, kNapUsMin, kNapUsMax));
  }
  watching_.fetch_sub(1);
}

void Background::rest(uint64_t limit_ms) {
  sleeping_.fetch_add(1);
  static_cast<void>(wake_->wait_for(limit_ms));
  sleeping_.fetch_sub(1);
  signalled_.store(false);
}

// False: there was nothing to be offloaded, or it could not be.
bool Background::work() {
  bool worked = false;
  while (!stop_.load() && !tiers_.volume->failed()) {
    if (offload(kRangesPerStep, which()).ranges + work_early() == 0) break;
    worked = true;
    tiers_.epochs->collect();  // gives the space of replaced dnodes back
  }
  if (!tiers_.index->urgent()) static_cast<void>(tiers_.index->tidy(kTidyRanges));
  tiers_.epochs->collect();
  static_cast<void>(tiers_.log->note_ends());
  if (!worked && look().idle) base::give_back_memory();
  return worked;
}

EarlyWork::May Background::look() const {
  return early_.look({.now_ns = base::now_ns(),
                      .updates = counters_.sum(Count::kPuts) + counters_.sum(Count::kDels),
                      .user_bytes = counters_.sum(Count::kUserBytes)});
}

// Does the compactions that reads have requested and, in an idle store, brings all ranges in order. Does nothing where
// space is short. Returns the number of ranges that were offloaded or compacted.
size_t Background::work_early() {
  const EarlyWork::May may = look();
  const bool roomy = tiers_.space.ordinary_free_bytes() >= tiers_.space.reserve_bytes();
  if (!may.write || !roomy || base::memory_is_scarce()) return 0;
  if (may.idle && tiers_.index->dirty()) return offload_early(Index::Which::kAll).ranges;
  if (may.idle && !tiers_.index->compaction_wanted()) {
    static_cast<void>(tiers_.index->ask_for_compactions(kTidyRanges));
  }
  return tiers_.index->compaction_wanted() ? offload_early(Index::Which::kCompactions).ranges : 0;
}

Index::OffloadResult Background::offload_early(Index::Which which) {
  const Index::OffloadResult result = offload(kRangesPerStep, which);
  early_.wrote(result.media_bytes);
  return result;
}

// Compacts ranges as reads would request it, in two passes over all ranges, because the first one may start in the
// middle. Ends when a compaction fails or the time is up: ranges in several runs are sound. Without threads reads do
// this work. False: there was nothing to do.
bool Background::put_in_order() {
  if (threads_.empty()) return false;
  const uint64_t end_ns = base::now_ns() + options_.stall_ms_max * base::kNsPerMs;
  bool worked = false;
  for (int passes = 0; passes < 2;) {
    if (!tiers_.index->ask_for_compactions(kTidyRanges)) ++passes;
    while (tiers_.index->compaction_wanted()) {
      if (!look().write || base::now_ns() > end_ns) return worked;
      const Index::OffloadResult result = offload_early(Index::Which::kCompactions);
      tiers_.epochs->collect();
      if (!result.status.ok()) return worked;
      if (result.ranges == 0) break;
      worked = true;
    }
  }
  return worked;
}

void Background::compact_some() {
  if (!look().write) return;
  static_cast<void>(offload_early(Index::Which::kCompactions));
  tiers_.epochs->collect();
}

Index::OffloadResult Background::offload_ranges(size_t ranges_max, Index::Which which) {
  Index::OffloadResult result;
  result.status = base::memory_for_work();
  if (!result.status.ok()) return result;
  try {
    return offload_where_space_is_scarce(ranges_max, which);
  } catch (const std::bad_alloc&) {
    give_up();
  }
  result.status = health();
  return result;
}

// Where space is short, one thread at a time makes room: several would take it from each other. It first reclaims the
// space of replaced dnodes, then defragments free space. Only a refusal of that thread is reported.
Index::OffloadResult Background::offload_where_space_is_scarce(size_t ranges_max, Index::Which which) {
  const Index::OffloadResult first = tiers_.index->offload(ranges_max, which);
  if (first.ranges > 0 || !first.status.IsNoSpace()) return first;
  const std::unique_lock lock(scarce_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return {};
  readers_hold_.store(!tiers_.epochs->drain(kReadersMs), std::memory_order_relaxed);
  const auto refused = [](const Index::OffloadResult& result) {
    return result.ranges == 0 && result.status.IsNoSpace();
  };
  Index::OffloadResult result = tiers_.index->offload(ranges_max, which);
  if (refused(result) && tiers_.index->defragment()) result = tiers_.index->offload(ranges_max, which);
  return refused(result) ? tiers_.index->offload_into_reserve(which) : result;
}

Index::OffloadResult Background::offload(size_t ranges_max, Index::Which which) {
  const Index::OffloadResult result = offload_ranges(ranges_max, which);
  if (result.ranges > 0 || !result.status.ok()) report(result.status);
  if (result.ranges > 0) {
    refusals_in_a_row_.store(0, std::memory_order_relaxed);
  } else if (result.status.IsNoSpace() && !readers_hold_.load(std::memory_order_relaxed)) {
    refusals_in_a_row_.fetch_add(1, std::memory_order_relaxed);
  }
  return result;
}

void Background::report(const Status& status) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_.code() != status.code() && !status.ok() && options_.log_sink) {
    options_.log_sink('W', "offloading: " + status.ToString());
  }
  failure_ = status;
}

Status Background::last_failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

Index::Which Background::which() const {
  return tiers_.log->low() || base::memory_is_scarce() ? Index::Which::kAll : Index::Which::kUrgent;
}

void Background::relieve() {
  if (threads_.empty()) {
    static_cast<void>(offload(kRangesPerStep, which()));
    tiers_.epochs->collect();
  } else {
    wake();
  }
}

void Background::wake() {
  if (sleeping_.load(std::memory_order_relaxed) == 0 || watching_.load(std::memory_order_relaxed) != 0) return;
  if (signalled_.load(std::memory_order_relaxed) || signalled_.exchange(true)) return;
  wake_ups_.fetch_add(1, std::memory_order_relaxed);
  wake_->signal();
}

// Once the log is low, the first quarter of the remaining room only triggers offloading. If the share x of the rest is
// used, the pause is x / (1 - x) times the unit. So the pause finds its level at any ratio of speeds, with the log
// neither full nor empty, and there is none if offloading keeps up.
uint64_t Background::pause_ns() const {
  if (threads_.empty()) return 0;  // the writer has just worked itself
  const persist::Log& log = *tiers_.log;
  const size_t room = log.segments_low() - log.segments_low() / 4;
  const size_t free = log.segments_free();
  const size_t left = free > log.segments_reserved() ? free - log.segments_reserved() : 0;
  return left >= room ? 0 : std::min(kPauseNsMax, kPauseNsUnit * (room - left) / (left + 1));
}

// Offloading lacks threads, so a writer pays by offloading. If it cannot, it waits on the processor, because a sleep
// would take far longer, but yields to others.
uint64_t Background::throttle(uint64_t ns) {
  const uint64_t begin_ns = base::now_ns();
  if (!help(ns)) base::yield_until(begin_ns + ns);
  return base::now_ns() - begin_ns;
}

// Offloads for as long as is owed, if that is worth it. False: there was nothing to be offloaded.
bool Background::help(uint64_t ns) {
  if (owed_ns_.fetch_add(ns, std::memory_order_relaxed) + ns < kHelpRangesMax * kRangeNs) return true;
  const uint64_t ranges = std::min(owed_ns_.exchange(0, std::memory_order_relaxed) / kRangeNs, kHelpRangesMax);
  if (ranges == 0) return true;  // another one works for it
  const size_t helped = offload(ranges, which()).ranges;
  helped_ranges_.fetch_add(helped, std::memory_order_relaxed);
  tiers_.epochs->collect();
  return helped != 0;
}

void Background::help_stalled(uint64_t stalled_ns) {
  if (threads_.empty()) {
    if (offload(kRangesPerStep, Index::Which::kAll).ranges == 0) base::yield_thread();
  } else if (stalled_ns < kYieldNs) {
    wake();
    base::yield_thread();
    return;
  } else {
    wake_->signal();
    base::sleep_ms(1);
  }
  tiers_.epochs->collect();
}

Status Background::drain() {
  const index::Work& work = tiers_.index->work();
  base::BoundedWait wait("drain", options_.stall_ms_max);
  const uint64_t offloads = work.offloads.load() + 2 * tiers_.index->ranges_to_offload() + kDrainRangesMin;
  const auto gained_on = [&] {
    return wait.watch_ns() > options_.stall_ms_max * base::kNsPerMs && work.offloads.load() > offloads;
  };
  BONSAI_RETURN_IF_ERROR(drain_until(gained_on, options_.stall_ms_max));
  if (gained_on() && tiers_.index->dirty()) {
    return Status::Unavailable("updates came in as fast as they were offloaded; drain again when fewer do");
  }
  if (put_in_order()) tidy_up(options_.stall_ms_max);
  return tiers_.volume->health();
}

// Replaced objects are freed once their readers have ended; the system gets back memory that is not needed.
void Background::tidy_up(uint64_t limit_ms) {
  static_cast<void>(tiers_.index->tidy(kTidyRanges));
  static_cast<void>(tiers_.epochs->drain(std::min(kReadersMs, limit_ms)));
  base::give_back_memory();
}

// Space comes back when the readers that may look at it have ended. A thread that reads may not run for a long time.
void Background::await_readers(const std::function<bool()>& enough, uint64_t limit_ms) {
  base::BoundedWait wait("readers", limit_ms);
  while (!tiers_.epochs->drain(std::min(kReadersStepMs, limit_ms)) && !enough() && !wait.expired()) {
    static_cast<void>(wait.watch_ns());
  }
}

Status Background::make_space(const std::function<bool()>& enough, uint64_t limit_ms) {
  const Status drained = drain_until(enough, limit_ms);
  if (drained.ok() && !enough()) await_readers(enough, limit_ms);
  return drained;
}

Status Background::drain_until(const std::function<bool()>& enough, uint64_t limit_ms) {
  base::BoundedWait wait("drain", limit_ms);
  for (int refused = 0; tiers_.index->dirty();) {
    if (tiers_.volume->failed()) return tiers_.volume->health();  // nothing is offloaded any more
    const Index::OffloadResult result = offload_ranges(kRangesPerStep, Index::Which::kAll);
    tiers_.epochs->collect();
    if (enough()) return Status::OK();
    if (result.ranges > 0) {
      refused = 0;
      wait = base::BoundedWait("drain", limit_ms);
      continue;
    }
    if (!result.status.ok() && !result.status.IsNoSpace() && !result.status.IsUnavailable()) return result.status;
    if (result.status.IsNoSpace()) {
      // Replaced dnodes may still wait for their readers; and another range may fit, or even give space back.
      // Or a background thread is just defragmenting.
      if (++refused > kNoSpaceTries) return result.status;
      if (refused == 1 || refused == kNoSpaceTries) await_readers(enough, limit_ms);
    }
    if (wait.expired()) return result.status.IsUnavailable() ? result.status : wait.status();
    wait.pause();
  }
  tidy_up(limit_ms);
  return tiers_.volume->health();
}

}  // namespace bonsai::store
