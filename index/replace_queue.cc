// Replacement: the queues of what is to be offloaded, and offloading a group of it.
#include "base/check.h"
#include "base/clock.h"
#include "index/index.h"
#include "index/offload.h"

namespace bonsai::index {

using base::Fence;

void Index::enqueue_dirty(Bnode* bnode) {
  BONSAI_INVARIANT(bnode->slots() != nullptr);
  bnode->ref();
  dirty_ranges_.fetch_add(1, std::memory_order_relaxed);
  Bnode* top = dirty_stack_.load(std::memory_order_relaxed);
  do {
    bnode->queue().next = top;
  } while (!dirty_stack_.compare_exchange_weak(top, bnode, std::memory_order_release, std::memory_order_relaxed));
}

// Called once for a bnode, by the writer whose key raised it above the high-water mark.
void Index::enqueue_crowded(Bnode* bnode) {
  bnode->ref();
  crowded_ranges_.fetch_add(1, std::memory_order_relaxed);
  Bnode* top = crowded_stack_.load(std::memory_order_relaxed);
  do {
    bnode->queue().next_crowded = top;
  } while (!crowded_stack_.compare_exchange_weak(top, bnode, std::memory_order_release, std::memory_order_relaxed));
}

// Requires: the layer was counted in urgent_ranges_ when it was planned.
void Index::enqueue_urgent(Layer* layer) {
  BONSAI_INVARIANT(layer->installed.load() && urgent_ranges_.load(std::memory_order_relaxed) > 0);
  const std::lock_guard lock(queue_mutex_);
  urgent_.push_back(layer);
}

// Moves the stack, newest first, to the queue's end. Requires: queue_mutex_.
void Index::collect_dirty() {
  auto before = dirty_.end();
  for (Bnode* bnode = dirty_stack_.exchange(nullptr, std::memory_order_acquire); bnode != nullptr;
       bnode = bnode->queue().next) {
    BONSAI_INVARIANT(!bnode->queue().queued);
    before = bnode->queue().place = dirty_.insert(before, bnode);
    bnode->queue().queued = true;
  }
}

// Fetches what a replacement of the bnode reads, in stages: each reads what the one before has fetched. Requires: a
// guard. A bnode that others replaced before its writer queued it is looked at, too, so that its dnode may be freed.
void Index::prefetch_to_replace(const Bnode& bnode, size_t stage) {
  if (stage == 0) {
    bnode.prefetch();
  } else if (stage == 1) {
    bnode.prefetch_range();
    if (const Slots* slots = bnode.slots()) Slots::prefetch_all(slots, bnode.capacity());
    if (const persist::Dnode* dnode = bnode.base().dnode()) dnode->prefetch();
  } else {
    if (const Slots* slots = bnode.slots()) slots->prefetch_heads();
    if (bnode.layer() != nullptr) return;
    if (const persist::Dnode* dnode = bnode.base().dnode()) dnode->prefetch_parts();
  }
}

// The longest dirty bnode; null if there is none. The caller gets the queue's reference. Those after it are likely to
// be the next, and are fetched meanwhile.
Bnode* Index::next_dirty() {
  const std::lock_guard lock(queue_mutex_);
  collect_dirty();
  if (dirty_.empty()) return nullptr;
  auto behind = dirty_.begin();
  for (size_t stage = kReplaceStages; stage-- > 0;) {
    if (++behind == dirty_.end()) break;
    prefetch_to_replace(**behind, stage);
  }
  Bnode* bnode = dirty_.front();
  dirty_.pop_front();
  BONSAI_INVARIANT(bnode->queue().queued);
  bnode->queue().queued = false;
  return bnode;
}

void Index::put_back_dirty(Bnode* bnode) {
  const std::lock_guard lock(queue_mutex_);
  BONSAI_INVARIANT(!bnode->queue().queued);
  bnode->queue().place = dirty_.insert(dirty_.end(), bnode);
  bnode->queue().queued = true;
}

// The bnode's updates are in dnodes: the queue must not keep its memory, since under kUrgent alone nobody would look.
void Index::forget_dirty(Bnode* bnode) {
  const std::lock_guard lock(queue_mutex_);
  collect_dirty();
  if (!bnode->queue().queued) return;
  dirty_.erase(bnode->queue().place);
  bnode->queue().queued = false;
  BONSAI_INVARIANT(dirty_ranges_.fetch_sub(1, std::memory_order_relaxed) > 0);
  bnode->unref();
}

// A bnode above the high-water mark; null if there is none. The caller gets the queue's reference.
Bnode* Index::next_crowded() {
  const std::lock_guard lock(queue_mutex_);
  for (Bnode* bnode = crowded_stack_.exchange(nullptr, std::memory_order_acquire); bnode != nullptr;
       bnode = bnode->queue().next_crowded) {
    crowded_.push_back(bnode);
  }
  if (crowded_.empty()) return nullptr;
  Bnode* bnode = crowded_.front();
  crowded_.pop_front();
  return bnode;
}

// A replacement of a bnode that waits in a queue, with successors installed; null if there is none. Looks at each
// waiting bnode at most once. `ranges` counts those that wait; next() and put_back() take and give the queue's
// reference.
template <class Next, class PutBack>
Layer* Index::job_of(std::atomic<uint64_t>* ranges, Next next, PutBack put_back) {
  for (uint64_t tries = ranges->load(std::memory_order_relaxed); tries > 0; --tries) {
    Bnode* bnode = next();
    if (bnode == nullptr) return nullptr;
    Layer* job = nullptr;
    if (bnode->layer() == nullptr) {
      if (!plan(bnode, true)) {  // its predecessor's replacement is not finished: later
        put_back(bnode);
        continue;
      }
      job = bnode->layer();
      install(job);
    }
    BONSAI_INVARIANT(ranges->fetch_sub(1, std::memory_order_relaxed) > 0);
    BONSAI_INVARIANT(job == nullptr || job->installed.load());
    bnode->unref();
    if (job != nullptr) return job;
  }
  return nullptr;
}

// Replaces a bnode above the high-water mark before a writer finds it full and must do so itself.
Layer* Index::job_of_crowded() {
  return job_of(
      &crowded_ranges_, [this] { return next_crowded(); },
      [this](Bnode* bnode) {
        const std::lock_guard lock(queue_mutex_);
        crowded_.push_back(bnode);
      });
}

// A range that reads want compacted, with successors installed; not while space is short.
Layer* Index::job_of_reads() {
  const persist::Space& space = dnodes_.space();
  while (Bnode* bnode = compactions_.next()) {
    Layer* layer = nullptr;
    if (bnode->layer() == nullptr && space.ordinary_free_bytes() >= space.reserve_bytes()) {
      const persist::Dnode* dnode = bnode->base().dnode();  // while there was no layer it is not freed under our guard
      if (dnode != nullptr && dnode->runs().size() > 1 && plan(bnode, false)) {
        layer = bnode->layer();
        layer->compact = true;
        install(layer);
      }
    }
    bnode->unref();
    if (layer != nullptr) return layer;
  }
  return nullptr;
}

void Index::ask_for_compactions(size_t ranges_max) {
  const uint64_t offloads = work_.offloads.load(std::memory_order_relaxed);
  Fence at;
  {
    const std::lock_guard lock(queue_mutex_);
    if (ask_at_ == Fence()) {
      if (asked_offloads_ == offloads + 1) return;
      ask_offloads_ = offloads;
    }
    at = ask_at_;
  }
  const auto guard = epochs_.enter();
  for (size_t i = 0; i < ranges_max && !at.is_infinite(); ++i) {
    Bnode* bnode = tree_.find(at.key());
    at = bnode->hi();
    const persist::Dnode* dnode = bnode->base().dnode();
    if (bnode->slots() == nullptr && dnode != nullptr && dnode->runs().size() > 1) compactions_.ask(bnode);
  }
  const std::lock_guard lock(queue_mutex_);
  if (at.is_infinite()) asked_offloads_ = ask_offloads_ + 1;
  ask_at_ = at.is_infinite() ? Fence() : at;
}

// Something to offload, with successors installed.
Layer* Index::next_job(Which which) {
  if (which == Which::kCompactions) return job_of_reads();
  {
    const std::lock_guard lock(queue_mutex_);
    if (!urgent_.empty()) {
      Layer* layer = urgent_.front();
      urgent_.pop_front();
      return layer;
    }
  }
  if (Layer* job = job_of_crowded(); job != nullptr || which == Which::kUrgent) return job;
  return job_of(
      &dirty_ranges_, [this] { return next_dirty(); }, [this](Bnode* bnode) { put_back_dirty(bnode); });
}

Index::OffloadResult Index::offload(size_t ranges_max, Which which) {
  const uint64_t begin_ns = base::now_ns();
  const OffloadResult result = offload_some(ranges_max, which);
  if (result.ranges > 0) work_.offload_ns.fetch_add(base::now_ns() - begin_ns, std::memory_order_relaxed);
  return result;
}

Index::OffloadResult Index::offload_some(size_t ranges_max, Which which) {
  OffloadResult result;
  if (dnodes_.volume().failed()) {
    result.status = dnodes_.volume().health();
    return result;
  }
  const auto guard = epochs_.enter();
  std::unique_ptr<Offload> offload = take_offload();
  std::vector<Layer*> jobs, again;
  // Where reads are far, all that is merged is read together.
  const size_t together = dnodes_.volume().has_far() ? ranges_max : 1;
  for (size_t left = ranges_max; left > 0 && again.empty(); left -= jobs.size()) {
    jobs.clear();
    for (Layer* layer = nullptr; jobs.size() < std::min(together, left) && (layer = next_job(which)) != nullptr;)
      jobs.push_back(layer);
    if (jobs.empty()) break;
    offload->expect(jobs);
    for (Layer* layer : jobs) {
      const Status status = again.empty() ? offload->add(layer) : Status::OK();
      if (!status.ok() && !status.IsUnavailable()) result.status = status;
      if (status.ok() && again.empty()) continue;
      again.push_back(layer);
    }
  }
  result.ranges = offload->size();
  if (const Status status = offload->commit(&again); !status.ok()) {
    result.status = status;
    result.ranges = 0;
  }
  result.media_bytes = offload->media_bytes();
  keep_offload(std::move(offload));
  for (Layer* layer : again) enqueue_urgent(layer);
  return result;
}

// Memory of a group that was offloaded before, if there is one: a fresh one would grow, and be given back to the
// system, with each group anew.
std::unique_ptr<Offload> Index::take_offload() {
  const std::lock_guard lock(queue_mutex_);
  if (idle_offloads_.empty()) return std::make_unique<Offload>(*this);
  std::unique_ptr<Offload> offload = std::move(idle_offloads_.back());
  idle_offloads_.pop_back();
  return offload;
}

void Index::keep_offload(std::unique_ptr<Offload> offload) {
  const std::lock_guard lock(queue_mutex_);
  idle_offloads_.push_back(std::move(offload));
}

}  // namespace bonsai::index
