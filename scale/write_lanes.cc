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
#include "base/probe.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kWriteBytesMax = uint64_t{1} << 20;  // of one WRITE
constexpr size_t kStoresMax = 64;
// A waiting fence checks its connections after this many rounds, when each of its naps takes a millisecond.
constexpr uint64_t kLookRounds = 2'048;

base::Probe looked{"link.looked_at_a_connection"};
base::Probe sent_again{"link.write_sent_again"};
base::Probe sent_in_parts{"link.write_sent_again_waits"};

}  // namespace

bool WriteLanes::Noted::all_posted() const {
  return std::all_of(queues.begin(), queues.end(), [](const Queue& queue) { return queue.ranges.empty(); });
}

bool WriteLanes::Noted::uses(size_t lane) const {
  const auto carries = [lane](const Queue& queue) { return queue.lane == lane && !queue.ranges.empty(); };
  return std::any_of(posted.begin(), posted.end(), [lane](const Posted& each) { return each.lane == lane; }) ||
         std::any_of(queues.begin(), queues.end(), carries);
}

WriteLanes::Noted& WriteLanes::mine() {
  Noted& mine = noted_.mine();
  if (mine.is_known) [[likely]]
    return mine;
  const std::lock_guard lock(all_mutex_);
  all_.push_back(&mine);
  mine.is_known = true;
  return mine;
}

void WriteLanes::note_store(Members members, uint64_t offset) {
  std::vector<Store>& stores = mine().stores;
  if (stores.size() == kStoresMax) stores.erase(stores.begin());
  stores.push_back({members.front(), offset});
}

void WriteLanes::note(Members members, uint64_t offset, uint64_t n) {
  if (n == 0) return;
  Noted& mine = this->mine();
  constexpr uint64_t kWord = sizeof(uint64_t);
  // All words except the last go before, one by one; the last goes with the range.
  const auto within = [&](const Store& store) {
    return store.target == members.front() && store.offset >= offset && store.offset + kWord <= offset + n;
  };
  const auto last = std::find_if(mine.stores.rbegin(), mine.stores.rend(), within);
  const bool apart = last != mine.stores.rend();
  if (apart) {
    const Store* const last_store = &*last;
    for (const Store& store : mine.stores) {
      if (&store == last_store || !within(store) || store.offset == last_store->offset) continue;
      note_range(&mine, members, {store.offset, kWord, true});
    }
    std::erase_if(mine.stores, within);
  }
  note_range(&mine, members, {offset, n, apart});
}

void WriteLanes::note_copy(Members members, uint64_t offset, const void* src, size_t n) {
  if (n == 0) return;
  std::shared_ptr<std::byte> copy = pool_->take(n);
  std::memcpy(copy.get(), src, n);
  note_range(&mine(), members, {offset, n, false, std::move(copy)});
}

// The members share the copy. That something is noted is stored before the members' states are read.
void WriteLanes::note_range(Noted* mine, Members members, const WriteRange& range) {
  const bool is_first = members.size() > 1 && !mine->noted.load(std::memory_order_relaxed);
  if (is_first) mine->noted.store(true, std::memory_order_seq_cst);
  for (LinkTarget* const member : members) {
    if (!member->state.is_out()) note_for(mine, member, range);
  }
}

void WriteLanes::note_for(Noted* mine, LinkTarget* target, WriteRange range) {
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

// Takes as many of the ranges as fit into one posting and into registered memory.
void WriteLanes::choose(const LinkTarget& target, size_t lane, std::span<const WriteRange> ranges, Batch* batch) {
  const rdma::RemoteRegion& region = target.connections[lane]->region();
  for (const WriteRange& range : ranges) {
    for (batch->begun = 0; batch->begun < range.bytes;) {
      if (batch->count == batch->writes.size()) return;
      const rdma::Slice from = source(target, range, batch);
      if (from.bytes() == 0) return;
      batch->writes[batch->count++] = {from, region.at(range.offset + batch->begun)};
      batch->begun += from.bytes();
    }
    ++batch->whole;
    batch->begun = 0;
  }
}

// Updates are noted before they are posted: whoever has read a byte of one finds it noted.
void WriteLanes::note_written(LinkTarget* target, std::span<const WriteRange> ranges, const Batch& batch) {
  const auto note = [target](uint64_t offset, uint64_t n) {
    target->scrubbed.add(offset, n);
    target->written.add(offset, n);
  };
  for (size_t i = 0; i < batch.whole; ++i) note(ranges[i].offset, ranges[i].bytes);
  if (batch.begun != 0) note(ranges[batch.whole].offset, batch.begun);
}

// Posts the first of the queue's ranges. False: no more can be in flight now.
bool WriteLanes::post_next(Noted* mine, Queue* queue, bool is_update) {
  LinkTarget& target = *queue->target;
  std::vector<WriteRange>& ranges = queue->ranges;
  Batch batch;
  choose(target, queue->lane, ranges, &batch);
  if (batch.count == 0) return false;
  if (is_update) note_written(&target, ranges, batch);
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

// Sends what an earlier connection has left unanswered. False: some of it is not sent yet. Requires: the lane's mutex;
// the target takes updates.
bool WriteLanes::send_again(LinkTarget* target, size_t lane) {
  Connection& connection = *target->connections[lane];
  for (Connection::Posting* next = nullptr; (next = connection.to_send_again()) != nullptr;) {
    if (!connection.is_open()) return false;
    Batch batch;
    choose(*target, lane, next->ranges, &batch);
    if (batch.whole < next->ranges.size()) return false;  // no memory now
    const Status status = connection.send_again(std::span(batch.writes.data(), batch.count));
    if (status.ok()) {
      sent_again.hit();
      next->bounced = std::move(batch.bounced);
      continue;
    }
    if (!status.IsBusy()) fail(target, lane, status);
    if (status.IsBusy()) sent_in_parts.hit();
    return false;
  }
  return connection.is_open();
}

// Requires: the lane's mutex. Lets no sibling run.
void WriteLanes::post(Noted* mine, size_t lane) {
  bool to_groups = false;
  for (Queue& queue : mine->queues) {
    queue.postings = 0;
    if (queue.lane != lane || queue.ranges.empty()) continue;
    const CopyPlaces& places = queue.target->places;
    std::erase_if(queue.ranges, [&places](const WriteRange& range) {
      return range.place != nullptr && places.given_up(*range.place);
    });
    const TargetState& state = queue.target->state;
    if (!state.awaits_updates()) queue.ranges.clear();
    if (!state.takes_updates()) continue;
    if (!queue.target->connections[lane]->is_whole() && !send_again(queue.target, lane)) continue;
    while (!queue.ranges.empty() && state.takes_updates() && post_next(mine, &queue)) ++queue.postings;
    to_groups = to_groups || (queue.postings != 0 && queue.target->is_member());
  }
  if (to_groups) lanes_[lane]->shared_postings += shared_postings(*mine, lane);
}

// How many of the postings to members of groups travel with one to another member, which has as many or more of them:
// they are no round trips of their own.
uint64_t WriteLanes::shared_postings(const Noted& mine, size_t lane) {
  uint64_t shared = 0;
  for (const Queue& queue : mine.queues) {
    if (queue.lane != lane || queue.postings == 0 || !queue.target->is_member()) continue;
    const auto leads = [&](const Queue& other) {
      const bool is_more = other.postings > queue.postings || (other.postings == queue.postings && &other < &queue);
      return other.lane == lane && other.target->group == queue.target->group && is_more;
    };
    if (std::any_of(mine.queues.begin(), mine.queues.end(), leads)) shared += queue.postings;
  }
  return shared;
}

// Forgets what is posted to targets that have failed: no thread is sending it again now, and none begins to. Requires:
// the lane's mutex. Lets no sibling run.
void WriteLanes::retire(Noted* mine, size_t lane) {
  static_cast<void>(lanes_[lane]->worker->poll());
  std::erase_if(mine->posted,
                [lane](const Posted& posted) { return posted.lane == lane && !posted.target->state.awaits_updates(); });
  for (const Posted& posted : mine->posted) {
    LinkTarget* const target = posted.target;
    if (posted.lane != lane || !target->state.takes_updates()) continue;
    Connection& connection = *target->connections[lane];
    if (!connection.is_open()) continue;
    const Status status = connection.retire();
    if (!status.ok()) [[unlikely]] {
      fail(target, lane, status);
    } else if (!connection.is_whole()) [[unlikely]] {
      static_cast<void>(send_again(target, lane));
    }
  }
}

// Forgets postings that are durable, including those that another thread's poll has found durable.
void WriteLanes::settle(Noted* mine) {
  std::erase_if(mine->posted,
                [](const Posted& posted) { return posted.target->connections[posted.lane]->answered(posted.number); });
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
    retire(mine, number);
  }
  settle(mine);
}

// The thread's targets that want new connections.
std::vector<LinkTarget*> WriteLanes::apart(const Noted& mine) {
  std::vector<LinkTarget*> apart;
  const auto add = [&apart](LinkTarget* target) {
    if (!target->state.is_apart() || std::find(apart.begin(), apart.end(), target) != apart.end()) return;
    apart.push_back(target);
  };
  for (const Posted& posted : mine.posted) add(posted.target);
  for (const Queue& queue : mine.queues) {
    if (!queue.ranges.empty()) add(queue.target);
  }
  return apart;
}

// An answer may be late for two reasons. The node is stopped or busy: then its memory answers all the same. Or its end
// of the connection is gone, without a word that has arrived here: then this end breaks.
void WriteLanes::look_for(Noted* mine) {
  for (const Posted& posted : std::vector<Posted>(mine->posted)) {  // siblings may change it
    const std::lock_guard lock(lanes_[posted.lane]->mutex);
    if (!posted.target->state.takes_updates() || !posted.target->connections[posted.lane]->is_open()) continue;
    std::shared_ptr<std::byte> to = pool_->take(sizeof(uint64_t));
    const rdma::Slice slice = pool_->slice(to.get(), sizeof(uint64_t));
    if (slice.region() == nullptr) continue;
    looked.hit();
    posted.target->connections[posted.lane]->look(slice, std::move(to), lanes_[posted.lane]->worker.get());
  }
}

// Requires: the lane's mutex.
bool WriteLanes::takes(const LinkTarget& member, size_t lane, Copying copying) {
  if (copying != Copying::kRepair) return member.state.is_joining();
  return member.state.state() == TargetState::State::kInSync && member.connections[lane]->is_whole();
}

WriteLanes::Copied WriteLanes::copy(LinkTarget* member, WriteRange all, Copying copying) {
  Noted& mine = this->mine();
  const uint64_t offset = all.offset, n = all.bytes;
  base::BoundedWait wait("link.copy", limit_ms_);
  bool is_full = false;  // no more can be in flight now
  while (all.bytes > 0) {
    uint64_t part = all.bytes;
    const size_t lane = member->spread.lane_of(all.offset, lanes_.size(), &part);
    Queue queue{member, lane, {all.take_first(part)}};
    for (; !queue.ranges.empty(); is_full ? wait.pause() : void()) {
      if (wait.expired()) return Copied::kNotTaken;
      const std::lock_guard lock(lanes_[lane]->mutex);
      if (!takes(*member, lane, copying)) return Copied::kNotTaken;
      const WriteRange& left = queue.ranges.front();
      const WrittenBlocks& written = copying == Copying::kRepair ? member->scrubbed : member->written;
      const bool is_there = copying == Copying::kResident
                                ? member->mirror->copy(left.offset, left.bytes, left.copy.get())
                                : !written.has(offset, n);
      if (!is_there) return Copied::kWritten;
      mine.lanes |= uint64_t{1} << lane;
      while (!queue.ranges.empty() && post_next(&mine, &queue, /*is_update=*/false)) {
      }
      is_full = !queue.ranges.empty();
      retire(&mine, lane);
    }
  }
  return Copied::kPosted;
}

bool WriteLanes::await_earlier(uint64_t limit_ms) {
  const uint64_t moment = moment_.fetch_add(1) + 1;
  std::vector<const Noted*> threads;
  {
    const std::lock_guard lock(all_mutex_);
    threads = all_;  // who comes later notes later
  }
  base::BoundedWait wait("link.earlier_updates", limit_ms);
  for (const Noted* const each : threads) {
    for (; each->noted.load(std::memory_order_seq_cst) && each->fenced_at.load() < moment; wait.pause()) {
      if (wait.expired()) return false;
    }
  }
  return true;
}

bool WriteLanes::await_member(LinkTarget* member, uint64_t limit_ms) {
  Noted& mine = this->mine();
  const uint64_t last = mine.orders;  // siblings go on
  const auto is_its = [member](const auto& work) { return work.target == member; };
  const auto is_done = [&] {
    const auto waits = [&](const Queue& queue) { return is_its(queue) && !queue.ranges.empty(); };
    const auto is_meant = [&](const Posted& posted) { return is_its(posted) && posted.order <= last; };
    return std::none_of(mine.posted.begin(), mine.posted.end(), is_meant) &&
           std::none_of(mine.queues.begin(), mine.queues.end(), waits);
  };
  base::BoundedWait wait("link.member", limit_ms);
  for (; !is_done() && member->state.takes_updates() && !wait.expired(); wait.pause()) advance(&mine);
  const bool holds_all = is_done() && member->state.takes_updates();
  if (!holds_all) {
    std::erase_if(mine.posted, is_its);
    for (Queue& queue : mine.queues) {
      if (is_its(queue)) queue.ranges.clear();
    }
  }
  settle(&mine);
  if (mine.lanes == 0) mine.noted.store(false);
  return holds_all;
}

bool WriteLanes::fence(Members members) {
  Noted& mine = this->mine();
  const uint64_t moment = moment_.load(std::memory_order_seq_cst);
  bool is_done = true;
  uint64_t rounds = 0;
  uint64_t last = 0;  // of this thread's postings that this fence answers for, + 1; 0: not all are posted yet
  for (base::BoundedWait wait("link.fence", limit_ms_); mine.lanes != 0; wait.pause()) {
    advance(&mine);
    if (last == 0 && mine.all_posted()) last = mine.orders + 1;
    if (last != 0 && (mine.posted.empty() || mine.posted.front().order >= last)) break;
    if (++rounds % kLookRounds == 0) look_for(&mine);
    for (LinkTarget* const silent : apart(mine)) {
      if (silent->is_member() && silent->leases != nullptr) continue;  // the keeper connects; it may be out before that
      connector_.reconnect(silent);
      static_cast<void>(wait.watch_ns());  // an attempt counts as a whole
    }
    if (wait.expired()) {
      fail_late(&mine, last, Status::Unavailable("no answer within " + std::to_string(limit_ms_) + " ms"));
      is_done = false;
      break;
    }
  }
  if (is_done && mine.fenced_at.load(std::memory_order_relaxed) < moment) mine.fenced_at.store(moment);
  if (mine.lanes == 0 && mine.noted.load(std::memory_order_relaxed)) mine.noted.store(false, std::memory_order_release);
  return std::all_of(members.begin(), members.end(),
                     [](const LinkTarget* member) { return member->state.awaits_updates() || member->state.is_out(); });
}

// Ends updates of each target that has not answered, within the bound, postings before `last` (0: all postings, or has
// not taken noted ranges).
void WriteLanes::fail_late(Noted* mine, uint64_t last, const Status& why) {
  for (const Posted& posted : mine->posted) {
    if (last == 0 || posted.order < last) posted.target->state.note(TargetState::Event::kGivenUp, why);
  }
  for (Queue& queue : mine->queues) {
    if (last != 0 || queue.ranges.empty()) continue;
    queue.target->state.note(TargetState::Event::kGivenUp, why);
    queue.ranges.clear();
  }
  for (uint64_t lanes = mine->lanes; lanes != 0; lanes &= lanes - 1) {
    const auto number = static_cast<size_t>(std::countr_zero(lanes));
    const std::lock_guard lock(lanes_[number]->mutex);
    retire(mine, number);
  }
  settle(mine);
}

// Notes a failed write. If its connection failed, it is sent again over the next one. It is not sent again if the
// medium has refused it, or the node has refused it twice: the first refusal may be about an earlier opening. Requires:
// the lane's mutex.
void WriteLanes::fail(LinkTarget* target, size_t lane, const Status& why) {
  const bool again = why.IsUnavailable() || (!why.IsIoError() && !target->connections[lane]->refused_again());
  target->state.note(again ? TargetState::Event::kBroken : TargetState::Event::kGivenUp, why);
}

}  // namespace bonsai::scale
