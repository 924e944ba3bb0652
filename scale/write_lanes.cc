// SPDX-License-Identifier: Apache-2.0
#include "scale/write_lanes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kWriteBytesMax = uint64_t{1} << 20;  // of one WRITE
constexpr size_t kStoresMax = 64;

}  // namespace

bool WriteLanes::Noted::all_posted() const {
  return std::all_of(queues.begin(), queues.end(), [](const Queue& queue) { return queue.ranges.empty(); });
}

bool WriteLanes::Noted::uses(size_t lane) const {
  const auto carries = [lane](const Queue& queue) { return queue.lane == lane && !queue.ranges.empty(); };
  return std::any_of(posted.begin(), posted.end(), [lane](const Posted& each) { return each.lane == lane; }) ||
         std::any_of(queues.begin(), queues.end(), carries);
}

void WriteLanes::note_store(LinkTarget* target, uint64_t offset) {
  std::vector<Store>& stores = noted_.mine().stores;
  if (stores.size() == kStoresMax) stores.erase(stores.begin());
  stores.push_back({target, offset});
}

void WriteLanes::note(LinkTarget* target, uint64_t offset, uint64_t n) {
  if (n == 0) return;
  Noted& mine = noted_.mine();
  constexpr uint64_t kWord = sizeof(uint64_t);
  // All words but the last go before, each by itself; the last goes with the range.
  const auto within = [&](const Store& store) {
    return store.target == target && store.offset >= offset && store.offset + kWord <= offset + n;
  };
  const auto last = std::find_if(mine.stores.rbegin(), mine.stores.rend(), within);
  const bool apart = last != mine.stores.rend();
  if (apart) {
    const Store* const last_store = &*last;
    for (const Store& store : mine.stores) {
      if (&store == last_store || !within(store) || store.offset == last_store->offset) continue;
      note_range(&mine, target, {store.offset, kWord, true});
    }
    std::erase_if(mine.stores, within);
  }
  note_range(&mine, target, {offset, n, apart});
}

void WriteLanes::note_copy(LinkTarget* target, uint64_t offset, const void* src, size_t n) {
  if (n == 0) return;
  std::shared_ptr<std::byte> copy = pool_->take(n);
  std::memcpy(copy.get(), src, n);
  note_range(&noted_.mine(), target, {offset, n, false, std::move(copy)});
}

void WriteLanes::note_range(Noted* mine, LinkTarget* target, WriteRange range) {
  while (range.bytes > 0) {
    uint64_t n = range.bytes;
    const size_t lane = target->spread.lane_of(range.offset, lanes_.size(), &n);
    WriteRange next = range.take_first(n);
    if (next.copy != nullptr) next.place = target->places.claim(next.offset, n);
    mine->lanes |= uint64_t{1} << lane;
    const auto queue = std::find_if(mine->queues.begin(), mine->queues.end(),
                                    [&](const Queue& each) { return each.target == target && each.lane == lane; });
    add_to(queue != mine->queues.end() ? &*queue : &mine->queues.emplace_back(Queue{target, lane, {}}),
           std::move(next));
  }
}

void WriteLanes::add_to(Queue* queue, WriteRange range) {
  if (!queue->ranges.empty()) {
    WriteRange& last = queue->ranges.back();
    const bool joins = !last.apart && !range.apart && last.copy == nullptr && range.copy == nullptr &&
                       range.offset <= last.offset + last.bytes &&
                       last.offset <= range.offset;  // goes on where it ends, or begins in it
    if (joins) {
      last.bytes = std::max(last.bytes, range.offset + range.bytes - last.offset);
      return;
    }
  }
  queue->ranges.push_back(std::move(range));
}

// The registered memory from which the next bytes of the batch's current range are written. Empty: none is available
// now.
rdma::Slice WriteLanes::source(const LinkTarget& target, const WriteRange& range, Batch* batch) {
  const uint64_t n = std::min(range.bytes - batch->begun, kWriteBytesMax);
  if (range.copy == nullptr) {
    const rdma::Slice resident = target.mirror->slice(range.offset + batch->begun, n);
    BONSAI_INVARIANT(resident.bytes() != 0);  // only what is resident is flushed
    return resident;
  }
  const std::byte* const from = range.copy.get() + batch->begun;
  if (const rdma::Slice copy = pool_->slice(from, n); copy.region() != nullptr) return copy;
  std::shared_ptr<std::byte> bounce = pool_->take_reserve();
  if (bounce == nullptr) return {};
  const uint64_t part = std::min<uint64_t>(n, RegisteredPool::kReserveBytes);
  std::memcpy(bounce.get(), from, part);
  return pool_->slice(batch->bounced.emplace_back(std::move(bounce)).get(), part);
}

void WriteLanes::choose(const Queue& queue, Batch* batch) {
  for (const WriteRange& range : queue.ranges) {
    for (batch->begun = 0; batch->begun < range.bytes;) {
      if (batch->count == batch->writes.size()) return;
      const rdma::Slice from = source(*queue.target, range, batch);
      if (from.bytes() == 0) return;
      batch->writes[batch->count++] = {from, queue.target->pool.region.at(range.offset + batch->begun)};
      batch->begun += from.bytes();
    }
    ++batch->whole;
    batch->begun = 0;
  }
}

// Posts the first of the queue's ranges. False: no more can be in flight now.
bool WriteLanes::post_next(Noted* mine, Queue* queue) {
  LinkTarget& target = *queue->target;
  std::vector<WriteRange>& ranges = queue->ranges;
  Batch batch;
  choose(*queue, &batch);
  if (batch.count == 0) return false;
  Connection& connection = *target.connections[queue->lane];
  Connection::Posting* posting = nullptr;
  const Status status = connection.post(std::span(batch.writes.data(), batch.count), &posting);
  if (!status.ok()) {
    if (!status.IsBusy()) fail(&target, queue->lane, status);
    return false;
  }
  mine->posted.push_back({&target, queue->lane, connection.posted(), ++mine->orders});
  for (size_t i = 0; i < batch.whole; ++i) {
    if (ranges[i].place != nullptr) target.places.forget(*ranges[i].place);
    posting->ranges.push_back(std::move(ranges[i]));
  }
  ranges.erase(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(batch.whole));
  if (batch.begun != 0) posting->ranges.push_back(ranges.front().take_first(batch.begun));
  if (!batch.bounced.empty()) posting->bounced = std::move(batch.bounced);
  return true;
}

// Requires: the lane's mutex. Lets no sibling run.
void WriteLanes::post(Noted* mine, size_t lane) {
  for (Queue& queue : mine->queues) {
    if (queue.lane != lane || queue.ranges.empty()) continue;
    const CopyPlaces& places = queue.target->places;
    std::erase_if(queue.ranges, [&places](const WriteRange& range) {
      return range.place != nullptr && places.given_up(*range.place);
    });
    while (!queue.ranges.empty() && queue.target->state.takes_writes() && post_next(mine, &queue)) {
    }
    if (!queue.target->state.takes_writes()) queue.ranges.clear();
  }
}

// Requires: the lane's mutex. Lets no sibling run.
void WriteLanes::retire(const Noted& mine, size_t lane) {
  static_cast<void>(lanes_[lane]->worker->poll());
  for (const Posted& posted : mine.posted) {
    if (posted.lane != lane || !posted.target->state.takes_writes()) continue;
    if (const Status status = posted.target->connections[lane]->retire(); !status.ok()) {
      fail(posted.target, lane, status);
    }
  }
}

// Forgets what is durable, also what other threads' polls have seen, and what has failed.
void WriteLanes::settle(Noted* mine) {
  std::erase_if(mine->posted, [](const Posted& posted) {
    return !posted.target->state.takes_writes() || posted.target->connections[posted.lane]->answered(posted.number);
  });
  for (uint64_t lanes = mine->lanes; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(lanes));
    if (!mine->uses(lane)) mine->lanes &= ~(uint64_t{1} << lane);
  }
}

// Takes each lane that the thread uses, unless another thread has it.
void WriteLanes::advance(Noted* mine) {
  for (uint64_t lanes = mine->lanes; lanes != 0; lanes &= lanes - 1) {
    const auto number = static_cast<size_t>(std::countr_zero(lanes));
    if (!lanes_[number]->mutex.try_lock()) continue;
    const std::lock_guard lock(lanes_[number]->mutex, std::adopt_lock);
    post(mine, number);
    retire(*mine, number);
  }
  settle(mine);
}

bool WriteLanes::fence(const LinkTarget& target) {
  Noted& mine = noted_.mine();
  uint64_t last = 0;  // of this thread's postings that this fence answers for, + 1; 0: not all are posted yet
  for (base::BoundedWait wait("link.fence", limit_ms_); mine.lanes != 0; wait.pause()) {
    advance(&mine);
    if (last == 0 && mine.all_posted()) last = mine.orders + 1;
    if (last != 0 && (mine.posted.empty() || mine.posted.front().order >= last)) break;
    if (wait.expired()) {
      fail_late(&mine, last, Status::Unavailable("no answer within " + std::to_string(limit_ms_) + " ms"));
      break;
    }
  }
  return target.state.takes_writes();
}

// The targets that have not answered in time what was posted before `last` (0: or have not taken what was noted) take
// no more writes.
void WriteLanes::fail_late(Noted* mine, uint64_t last, const Status& why) {
  for (const Posted& posted : mine->posted) {
    if (last == 0 || posted.order < last) posted.target->state.fail_write(why);
  }
  for (Queue& queue : mine->queues) {
    if (last != 0 || queue.ranges.empty()) continue;
    queue.target->state.fail_write(why);
    queue.ranges.clear();
  }
  settle(mine);
}

// A write failed. Requires: the lane's mutex.
void WriteLanes::fail(LinkTarget* target, size_t lane, const Status& why) {
  target->state.fail_write(why);
  static_cast<void>(target->note_lost(lane, why));
}

}  // namespace bonsai::scale
