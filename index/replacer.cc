#include "index/replacer.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "index/offload.h"

namespace bonsai::index {

using base::Fence;

Replacer::Replacer(const Tiers& tiers, const persist::Limits& limits, std::function<bool(Node*)> settle_head)
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
    Status unread;  // the background will meet it, too, and say it to who waits
    const bool planned = left == nullptr ? plan(bnode, false, &unread) : plan_for_batch(bnode, *left);
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

// A replacement of a bnode that waits, with successors installed; null if there is none. Looks at each waiting bnode at
// most once. *unread as of plan().
Layer* Replacer::job_of(ReplaceQueue::Kind kind, Status* unread) {
  for (uint64_t tries = queue_.waiting(kind); tries > 0; --tries) {
    Bnode* bnode = queue_.next(kind);
    if (bnode == nullptr) return nullptr;
    Layer* job = nullptr;
    if (bnode->layer() == nullptr) {
      if (!plan(bnode, true, unread)) {  // its predecessor's replacement is not finished: later
        queue_.put_back(kind, bnode);
        continue;
      }
      job = bnode->layer();
      install(job);
    }
    BONSAI_INVARIANT(job == nullptr || job->installed.load());
    queue_.finish(kind, bnode);
    if (job != nullptr) return job;
  }
  return nullptr;
}

// A range that reads want compacted, with successors installed; not while space is short.
Layer* Replacer::job_of_reads(Status* unread) {
  const persist::Space& space = dnodes_.space();
  while (Bnode* bnode = compactions_.next()) {
    Layer* layer = nullptr;
    if (bnode->layer() == nullptr && space.ordinary_free_bytes() >= space.reserve_bytes()) {
      const persist::Dnode* dnode = bnode->base().dnode();  // while there was no layer it is not freed under our guard
      if (dnode != nullptr && dnode->runs().size() > 1 && plan(bnode, false, unread)) {
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

void Replacer::ask_for_compactions(size_t ranges_max) {
  const uint64_t offloads = work_.offloads.load(std::memory_order_relaxed);
  Fence at;
  {
    const std::lock_guard lock(background_mutex_);
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
  const std::lock_guard lock(background_mutex_);
  if (at.is_infinite()) asked_offloads_ = ask_offloads_ + 1;
  ask_at_ = at.is_infinite() ? Fence() : at;
}

// Something to offload, with successors installed. Bnodes above the high-water mark are replaced before a writer finds
// them full and must do so itself.
Layer* Replacer::next_job(Which which, Status* unread) {
  if (which == Which::kCompactions) return job_of_reads(unread);
  if (Layer* layer = queue_.next_urgent()) return layer;
  Layer* const above = job_of(ReplaceQueue::Kind::kHighMark, unread);
  return above != nullptr || which == Which::kUrgent ? above : job_of(ReplaceQueue::Kind::kDirty, unread);
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
  std::vector<Layer*> jobs, again;
  Status unread;  // why a replacement could not be planned
  // Where reads are far, all that is merged is read together.
  const size_t together = dnodes_.volume().has_far() ? ranges_max : 1;
  for (size_t left = ranges_max; left > 0 && again.empty(); left -= jobs.size()) {
    jobs.clear();
    for (Layer* layer = nullptr;
         jobs.size() < std::min(together, left) && (layer = next_job(which, &unread)) != nullptr;)
      jobs.push_back(layer);
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
  if (result.ranges == 0 && result.status.ok()) result.status = unread;
  result.media_bytes = offload->media_bytes();
  keep_offload(std::move(offload));
  for (Layer* layer : again) queue_.enqueue_urgent(layer);
  return result;
}

// Memory of a group that was offloaded before, if there is one: a fresh one would grow, and be given back to the
// system, with each group anew.
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
