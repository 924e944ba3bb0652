// SPDX-License-Identifier: Apache-2.0
#include "index/replacer.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "index/offload.h"

namespace bonsai::index {

using base::Fence;

Replacer::Replacer(const Tiers& tiers, const persist::Limits& limits, std::function<bool(Node*, uint64_t)> settle_head)
    : limits_(limits),
      settle_head_(std::move(settle_head)),
      log_(tiers.log),
      dnodes_(tiers.dnodes),
      large_(tiers.large),
      epochs_(tiers.epochs),
      versions_(tiers.versions),
      tree_(tiers.tree),
      queue_(tiers.queue),
      compactions_(tiers.compactions),
      defragmenter_(tiers.dnodes, tiers.epochs) {}

Replacer::~Replacer() = default;

// A put waits when its bnode's predecessor is not offloaded yet, so that layers do not pile up; so does a batch that
// has not begun. A begun one must not: its own nodes may be what that offload waits for.
bool Replacer::make_room(Bnode* bnode, const ToPublish* left) {
  Layer* layer = bnode->layer();
  if (layer == nullptr) {
    const uint64_t begin_ns = base::now_ns();
    // If the range cannot be read, the background meets the same error and reports it to waiting threads.
    persist::RunReader reader(dnodes_.volume());
    const bool planned = left == nullptr ? plan(bnode, false, &reader).ok() : plan_for_batch(bnode, *left);
    if (!planned) return bnode->layer() != nullptr;
    layer = bnode->layer();
    BONSAI_INVARIANT(layer != nullptr);
    install(layer);
    if (bnode->queue_installed()) queue_.enqueue_urgent(layer);
    work_.plans_by_writers.fetch_add(1, std::memory_order_relaxed);
    work_.plan_ns_of_writers.fetch_add(base::now_ns() - begin_ns, std::memory_order_relaxed);
    return true;
  }
  install(layer);
  return true;
}

// The replacements to be offloaded, one at a time, with successors installed.
class Replacer::Jobs {
 public:
  // `reader` reads in one list what planning needs for all the jobs that are wanted. Requires: a guard while this
  // object lives.
  Jobs(Replacer* replacer, Which which, persist::RunReader* reader)
      : replacer_(*replacer), which_(which), reader_(*reader) {}
  ~Jobs();

  // The next replacement; null if there is none. `wanted`: how many the caller wants, this one included.
  Layer* next(size_t wanted);
  // The reason if a replacement could not be planned because some range cannot be read now.
  [[nodiscard]] const Status& unread() const { return unread_; }

 private:
  // Bnodes that are next to be planned, taken from their queue.
  using Taken = std::deque<Bnode*>;

  template <class Next>
  Bnode* take(Taken* taken, size_t wanted, Next next);
  bool plan(Bnode* bnode, bool may_merge);
  Layer* waiting(ReplaceQueue::Kind kind, size_t wanted);
  Layer* asked_for_by_reads(size_t wanted);

  Replacer& replacer_;
  const Which which_;
  persist::RunReader& reader_;
  std::array<Taken, 2> taken_waiting_;  // by ReplaceQueue::Kind
  Taken taken_asked_for_;
  Status unread_;
};

// Returns the jobs that were not needed. A job that finds no memory for its place in the queue is not offloaded any
// more.
Replacer::Jobs::~Jobs() {
  try {
    for (const auto kind : {ReplaceQueue::Kind::kDirty, ReplaceQueue::Kind::kHighMark}) {
      for (Bnode* bnode : taken_waiting_[static_cast<size_t>(kind)]) replacer_.queue_.put_back(kind, bnode);
    }
  } catch (const std::bad_alloc&) {
    replacer_.dnodes_.volume().give_up(base::kOutOfMemory);
  }
  for (Bnode* bnode : taken_asked_for_) {
    replacer_.compactions_.ask(bnode);
    bnode->unref();
  }
}

// next(), but ranges that were taken before come first.
template <class Next>
Bnode* Replacer::Jobs::take(Taken* taken, size_t wanted, Next next) {
  if (taken->empty()) {
    for (Bnode* bnode = nullptr; taken->size() < wanted && (bnode = next()) != nullptr; taken->push_back(bnode)) {
      replacer_.expect_to_plan(*bnode, &reader_);
    }
    static_cast<void>(reader_.wait());  // planning asks again for what did not come, and reports it
  }
  if (taken->empty()) return nullptr;
  Bnode* const first = taken->front();
  taken->pop_front();
  return first;
}

// Bnodes above the high-water mark are replaced before a writer finds them full and must do so itself.
Layer* Replacer::Jobs::next(size_t wanted) {
  if (which_ == Which::kCompactions) return asked_for_by_reads(wanted);
  if (Layer* layer = replacer_.queue_.next_urgent()) return layer;
  Layer* const above = waiting(ReplaceQueue::Kind::kHighMark, wanted);
  return above != nullptr || which_ == Which::kUrgent ? above : waiting(ReplaceQueue::Kind::kDirty, wanted);
}

bool Replacer::Jobs::plan(Bnode* bnode, bool may_merge) {
  Status planned = replacer_.plan(bnode, may_merge, &reader_);
  if (planned.ok()) return true;
  if (!planned.IsBusy()) unread_ = std::move(planned);
  return false;
}

// A replacement of a bnode that waits. Looks at each at most once.
Layer* Replacer::Jobs::waiting(ReplaceQueue::Kind kind, size_t wanted) {
  ReplaceQueue& queue = replacer_.queue_;
  for (uint64_t tries = queue.waiting(kind); tries > 0; --tries) {
    Bnode* bnode = take(&taken_waiting_[static_cast<size_t>(kind)], wanted, [&] { return queue.next(kind); });
    if (bnode == nullptr) return nullptr;
    Layer* job = nullptr;
    if (bnode->layer() == nullptr) {
      if (!plan(bnode, true)) {  // its predecessor's replacement is not finished: later
        queue.put_back(kind, bnode);
        continue;
      }
      job = bnode->layer();
      replacer_.install(job);
    }
    BONSAI_INVARIANT(job == nullptr || job->installed.load());
    queue.finish(kind, bnode);
    if (job != nullptr) return job;
  }
  return nullptr;
}

// Returns a range that reads want compacted; none while space is short.
Layer* Replacer::Jobs::asked_for_by_reads(size_t wanted) {
  while (Bnode* bnode = take(&taken_asked_for_, wanted, [this] { return replacer_.compactions_.next(); })) {
    Layer* layer = nullptr;
    if (bnode->layer() == nullptr && !replacer_.space_is_short()) {
      const persist::Dnode* dnode = bnode->base().dnode();  // while there was no layer it is not freed under our guard
      const bool gains = dnode != nullptr && policy::is_compactable(dnode->runs().size(), bnode->slots() != nullptr);
      if (gains && plan(bnode, false)) {
        layer = bnode->layer();
        layer->compact = true;
        replacer_.install(layer);
      }
    }
    bnode->unref();
    if (layer != nullptr) return layer;
  }
  return nullptr;
}

bool Replacer::ask_for_compactions(size_t ranges_max) {
  const uint64_t offloads = work_.offloads.load(std::memory_order_relaxed);
  Fence at;
  {
    const std::lock_guard lock(background_mutex_);
    if (ask_at_ == Fence()) {
      if (asked_offloads_ == offloads + 1) return false;
      ask_offloads_ = offloads;
    }
    at = ask_at_;
  }
  const auto guard = epochs_.enter();
  for (size_t i = 0; i < ranges_max && !at.is_infinite(); ++i) {
    Bnode* bnode = tree_.find(at.key());
    at = bnode->hi();
    const persist::Dnode* dnode = bnode->base().dnode();
    if (bnode->slots() == nullptr && dnode != nullptr && policy::is_compactable(dnode->runs().size(), false))
      compactions_.ask(bnode);
  }
  const std::lock_guard lock(background_mutex_);
  if (at.is_infinite()) asked_offloads_ = ask_offloads_ + 1;
  ask_at_ = at.is_infinite() ? Fence() : at;
  return !at.is_infinite();
}

Replacer::OffloadResult Replacer::offload(size_t ranges_max, Which which) {
  const uint64_t begin_ns = base::now_ns();
  const OffloadResult result = offload_some(ranges_max, which);
  if (result.ranges > 0) work_.offload_ns.fetch_add(base::now_ns() - begin_ns, std::memory_order_relaxed);
  return result;
}

Replacer::OffloadResult Replacer::offload_some(size_t ranges_max, Which which) {
  OffloadResult result;
  if (dnodes_.volume().failed()) {
    result.status = dnodes_.volume().health();
    return result;
  }
  const auto guard = epochs_.enter();
  std::unique_ptr<Offload> offload = take_offload();
  Jobs waiting(this, which, &offload->fresh_reader());
  std::vector<Layer*> jobs, again;
  for (size_t left = ranges_max; left > 0 && again.empty(); left -= jobs.size()) {
    // If runs are carried, all that is planned is read together, and then the rest that is merged.
    const size_t together = offload->fresh_reader().carries() ? left : 1;
    jobs.clear();
    for (Layer* layer = nullptr; jobs.size() < together; jobs.push_back(layer)) {
      if ((layer = waiting.next(together - jobs.size())) == nullptr) break;
    }
    if (jobs.empty()) break;
    offload->expect(jobs);
    for (Layer* layer : jobs) {
      const Status status = again.empty() ? offload->add(layer) : Status::OK();
      if (!status.ok() && !status.IsBusy()) result.status = status;
      if (status.ok() && again.empty()) continue;
      again.push_back(layer);
    }
  }
  result.ranges = offload->size();
  if (const Status status = offload->commit(&again); !status.ok()) {
    result.status = status;
    result.ranges = 0;
  }
  if (result.ranges == 0 && result.status.ok()) result.status = waiting.unread();
  result.media_bytes = offload->media_bytes();
  keep_offload(std::move(offload));
  for (Layer* layer : again) queue_.enqueue_urgent(layer);
  return result;
}

// Memory of an earlier group, if there is one. New memory would grow with each group, and be returned to the system
// after it.
std::unique_ptr<Replacer::Offload> Replacer::take_offload() {
  const std::lock_guard lock(background_mutex_);
  if (idle_offloads_.empty()) return std::make_unique<Offload>(*this);
  std::unique_ptr<Offload> offload = std::move(idle_offloads_.back());
  idle_offloads_.pop_back();
  return offload;
}

void Replacer::keep_offload(std::unique_ptr<Offload> offload) {
  const std::lock_guard lock(background_mutex_);
  idle_offloads_.push_back(std::move(offload));
}

}  // namespace bonsai::index
