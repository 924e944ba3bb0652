// SPDX-License-Identifier: Apache-2.0
#include "scale/remote_link.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>

#include "base/check.h"
#include "base/clock.h"
#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "rdma/provider.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kWriteBytesMax = uint64_t{1} << 20;  // of one WRITE
constexpr size_t kStoresMax = 64;
constexpr uint64_t kRequestMsMax = 3'600'000;  // for a node that reports that it is at work

rdma::Rights control_rights() {
  rdma::Rights rights;
  rights.write = true;  // nodes write their answers there
  rights.read = true;   // and look whether this one is still there
  return rights;
}

}  // namespace

Status RemoteLink::make(std::shared_ptr<rdma::Fabric> fabric, const LinkOptions& options,
                        std::unique_ptr<RemoteLink>* link) {
  std::unique_ptr<RemoteLink> made(new RemoteLink(std::move(fabric), options));
  BONSAI_RETURN_IF_ERROR(made->start());
  *link = std::move(made);
  return Status::OK();
}

Status RemoteLink::start() {
  if (options_.workers == 0 || options_.workers > LinkOptions::kWorkersMax) {
    return Status::InvalidArgument("fabric_workers is " + std::to_string(options_.workers) + "; give 1 to " +
                                   std::to_string(LinkOptions::kWorkersMax));
  }
  node_ = static_cast<uint32_t>(base::fresh_seed() | 1);
  pool_ = RegisteredPool::make(fabric_);
  for (size_t i = 0; i < options_.workers; ++i) {
    BONSAI_RETURN_IF_ERROR(fabric_->make_worker(&lanes_.emplace_back(std::make_unique<Lane>())->worker));
  }
  return Status::OK();
}

RemoteLink::~RemoteLink() {
  close_all();
  for (const auto& lane : lanes_) {
    if (lane->worker != nullptr) static_cast<void>(lane->worker->poll());  // what was in flight ended with its peer
    lane->readings.clear();
  }
  targets_.clear();
}

Status RemoteLink::connect(rdma::Worker* worker, const TargetName& name, std::unique_ptr<rdma::Peer>* peer) {
  rdma::Hello own;
  std::unique_ptr<rdma::Peer> made;
  Status status;
  // A node that is just being started is waited for.
  const uint64_t limit_ns = options_.limit_ms * base::kNsPerMs;
  base::BoundedWait wait("link.connect", options_.limit_ms);
  for (uint64_t passed_ns = wait.watch_ns();; wait.pause()) {
    own = {};
    own.node = node_;
    if (options_.secret != nullptr) options_.secret->sign(&own);
    status = worker->connect(name.node, own, (limit_ns - passed_ns) / base::kNsPerMs, &made);
    passed_ns = wait.watch_ns();
    if (!status.IsUnavailable() || passed_ns >= limit_ns) break;
  }
  if (!status.ok()) {
    if (!status.IsUnavailable()) return status;
    return Status::Unavailable(name.text + ": no node answers at " + name.node + " (" + std::string(status.message()) +
                               "); start bonsaid there, and see that both use the same folder or network");
  }
  if (options_.secret != nullptr) BONSAI_RETURN_IF_ERROR(options_.secret->check_answer(own, made->hello()));
  *peer = std::move(made);
  return Status::OK();
}

// Writes the target's next request, which await_answers() sends to the peer.
// Errors: Unavailable (an earlier one is still in flight).
Status RemoteLink::write_request(Target* of, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark) {
  static_cast<void>(lanes_[0]->worker->poll());
  if (of->request.pending()) return Status::Unavailable("an earlier request has not ended yet");
  PoolRequest& written = of->control().request;
  written = {};
  written.op = op;
  written.bytes = bytes;
  written.mark = mark;
  written.token = ++tokens_;
  written.answer = of->control_memory->remote().at(offsetof(Control, answer));
  set_wire_text(&written.pool, of->name.pool);
  of->request.clear();
  of->request.send(*peer, of->control_memory->slice(0, sizeof written));
  of->asked = peer;
  return Status::OK();
}

// Sends the requests of all targets before it waits for any, so that many silent nodes take as long as one. Returns
// when each has answered or left; it waits for as long as one gives signs of being at work. Waits for room, too: when a
// target is given back reads that nobody waits for may still be in flight.
Status RemoteLink::await_answers(std::span<Target* const> targets) {
  rdma::Worker& worker = *lanes_[0]->worker;
  size_t posted = 0;
  uint64_t beats = 0;
  bool all = false;
  base::BoundedWait request("link.request", kRequestMsMax);
  while (request.watch_ns() < kRequestMsMax * base::kNsPerMs) {
    const uint64_t seen = beats;
    BONSAI_RETURN_IF_ERROR(worker.await("link.answer", options_.limit_ms, [&] {
      while (posted < targets.size() && !worker.post(&targets[posted]->request).IsBusy()) ++posted;
      all = posted == targets.size();
      beats = 0;
      for (Target* const target : targets) {
        beats += target->answer_word(offsetof(PoolAnswer, beats));
        all = (target->answered() || !target->asked->usable()) && all;
      }
      return all || beats != seen;
    }));
    if (all) return Status::OK();
  }
  return request.status();
}

uint64_t RemoteLink::Target::answer_word(size_t offset) const {
  const std::byte* const word = control_memory->data() + offsetof(Control, answer) + offset;
  return base::word_at(word).load(std::memory_order_acquire);
}

bool RemoteLink::Target::answered() const {
  return answer_word(offsetof(PoolAnswer, token)) == control().request.token && !request.pending();
}

Status RemoteLink::ask(Target* of, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark, PoolAnswer* answer) {
  Status status = write_request(of, peer, op, bytes, mark);
  if (status.ok()) status = await_answers({&of, 1});
  if (status.ok() && !of->answered()) {
    status = of->request.pending() || of->request.status().ok() ? Status::Unavailable("the node left")
                                                                : of->request.status();
  }
  if (!status.ok()) {
    return Status::Unavailable(of->name.text + ": the node does not answer (" + std::string(status.message()) +
                               "); see whether bonsaid runs there, and retry");
  }
  base::racy_load(answer, reinterpret_cast<const std::byte*>(&of->control().answer), sizeof *answer);
  if (answer->code == 0) return Status::OK();
  return rdma::status_from_wire(static_cast<int32_t>(answer->code), of->name.text + ": " + wire_text(answer->text));
}

// A node that does not answer closes the pool when it finds this node gone.
void RemoteLink::close_all() {
  std::vector<Target*> asked;
  for (const auto& target : targets_) {
    if (target->connections.empty()) continue;
    if (write_request(target.get(), &target->connections[0]->peer(), PoolOp::kClose, 0, 0).ok()) {
      asked.push_back(target.get());
    }
  }
  if (!asked.empty()) static_cast<void>(await_answers(asked));
  for (const auto& target : targets_) target->connections.clear();
}

Status RemoteLink::open(const TargetName& name, PoolOp op, uint64_t bytes, uint64_t mark, size_t* target) {
  for (const auto& other : targets_) {
    if (other->name.node == name.node && other->name.pool == name.pool && !other->connections.empty()) {
      return Status::InvalidArgument(name.text + " is named twice; each target is named once");
    }
  }
  auto made = std::make_unique<Target>();
  made->name = name;
  BONSAI_RETURN_IF_ERROR(
      rdma::RegisteredMemory::make(*fabric_, sizeof(Control), control_rights(), &made->control_memory));
  std::vector<std::unique_ptr<rdma::Peer>> peers(lanes_.size());
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    BONSAI_RETURN_IF_ERROR(connect(lanes_[lane]->worker.get(), name, &peers[lane]));
  }
  PoolAnswer answer;
  const Status asked = ask(made.get(), peers[0].get(), op, bytes, mark, &answer);
  if (asked.IsUnavailable()) {
    // The connection ends before what it may still deliver is used again.
    peers[0].reset();
    static_cast<void>(lanes_[0]->worker->poll());
    given_up_.push_back(std::move(made));
  }
  BONSAI_RETURN_IF_ERROR(asked);
  made->pool = pool_of(answer);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    BONSAI_RETURN_IF_ERROR(rdma::RemotePersist::make(fabric_.get(), lanes_[lane]->worker.get(), std::move(peers[lane]),
                                                     static_cast<rdma::RemoteDomain>(answer.domain),
                                                     &made->connections.emplace_back()));
  }
  *target = targets_.size();
  targets_.push_back(std::move(made));
  return Status::OK();
}

Status RemoteLink::release(size_t target, PoolOp op) {
  Target& left = *targets_[target];
  if (left.connections.empty()) return Status::OK();
  PoolAnswer answer;
  const Status status = ask(&left, &left.connections[0]->peer(), op, 0, 0, &answer);
  left.connections.clear();
  return status;
}

Status RemoteLink::remove(size_t target) { return release(target, PoolOp::kRemove); }

Status RemoteLink::complete(size_t target) {
  Target& of = *targets_[target];
  PoolAnswer answer;
  return ask(&of, &of.connections[0]->peer(), PoolOp::kComplete, 0, 0, &answer);
}

RemoteLink::Pool RemoteLink::pool_of(const PoolAnswer& answer) const {
  return {answer.region, answer.emulated != 0, wire_text(answer.text) + ", over " + text()};
}

Status RemoteLink::resize(size_t target, uint64_t bytes) {
  Target& of = *targets_[target];
  of.drop_mirror();
  PoolAnswer answer;
  BONSAI_RETURN_IF_ERROR(ask(&of, &of.connections[0]->peer(), PoolOp::kResize, bytes, 0, &answer));
  of.pool = pool_of(answer);
  return Status::OK();
}

void RemoteLink::note_store(size_t target, uint64_t offset) {
  std::vector<Range>& stores = noted_.mine().stores;
  if (stores.size() == kStoresMax) stores.erase(stores.begin());
  stores.push_back({target, offset, sizeof(uint64_t), true});
}

void RemoteLink::note(size_t target, uint64_t offset, uint64_t n) {
  if (n == 0) return;
  Noted& mine = noted_.mine();
  // All words but the last go before, each by itself; the last goes with the range.
  const auto within = [&](const Range& store) {
    return store.target == target && store.offset >= offset && store.offset + store.bytes <= offset + n;
  };
  const auto last = std::find_if(mine.stores.rbegin(), mine.stores.rend(), within);
  const bool apart = last != mine.stores.rend();
  if (apart) {
    const Range* const last_store = &*last;
    for (const Range& store : mine.stores) {
      if (&store != last_store && within(store) && store.offset != last_store->offset) note_range(&mine, store);
    }
    std::erase_if(mine.stores, within);
  }
  note_range(&mine, {target, offset, n, apart});
}

void RemoteLink::note_copy(size_t target, uint64_t offset, const void* src, size_t n) {
  if (n == 0) return;
  std::shared_ptr<std::byte> copy = pool_->take(n);
  std::memcpy(copy.get(), src, n);
  note_range(&noted_.mine(), {target, offset, n, false, std::move(copy)});
}

// From now on the bytes are this copy's, and those of no other that is not posted yet.
std::shared_ptr<RemoteLink::Place> RemoteLink::claim_place(size_t target, uint64_t offset, uint64_t n) {
  auto place = std::make_shared<Place>(Place{offset, offset + n});
  Target& of = *targets_[target];
  const std::lock_guard lock(of.copies_mutex);
  give_up_copies(&of, offset, n);
  of.copies.emplace(offset, place);
  return place;
}

// Requires: the target's copies_mutex.
void RemoteLink::give_up_copies(Target* target, uint64_t offset, uint64_t n) {
  auto at = target->copies.upper_bound(offset);
  if (at != target->copies.begin() && std::prev(at)->second->end > offset) --at;
  for (; at != target->copies.end() && at->first < offset + n; at = target->copies.erase(at)) {
    at->second->given_up = true;
  }
}

void RemoteLink::drop_given_up(Queue* queue) {
  const std::lock_guard lock(targets_[queue->target]->copies_mutex);
  std::erase_if(queue->ranges, [](const Range& range) { return range.place != nullptr && range.place->given_up; });
}

// Its copy is posted, so that whatever is noted from now on arrives after it.
void RemoteLink::forget_place(size_t target, const Range& range) {
  if (range.place == nullptr) return;
  Target& of = *targets_[target];
  const std::lock_guard lock(of.copies_mutex);
  if (!range.place->given_up) of.copies.erase(range.place->begin);
}

void RemoteLink::spread(size_t target, uint64_t offset, uint64_t n, uint64_t unit_bytes) {
  std::vector<SpreadRange>& ranges = targets_[target]->spread_ranges;
  BONSAI_CHECK(unit_bytes != 0 && (ranges.empty() || ranges.back().offset + ranges.back().bytes <= offset));
  ranges.push_back({offset, n, unit_bytes});
}

// The worker that carries writes to the byte. *n becomes smaller if it carries fewer bytes from there on.
size_t RemoteLink::lane_of(const Target& target, uint64_t offset, uint64_t* n) const {
  if (lanes_.size() == 1) return 0;
  for (const SpreadRange& range : target.spread_ranges) {
    if (offset < range.offset) {
      *n = std::min(*n, range.offset - offset);
      return 0;
    }
    const uint64_t at = offset - range.offset;
    if (at >= range.bytes) continue;
    *n = std::min({*n, range.unit_bytes - at % range.unit_bytes, range.bytes - at});
    return 1 + at / range.unit_bytes % (lanes_.size() - 1);
  }
  return 0;
}

void RemoteLink::note_range(Noted* mine, Range range) {
  while (range.bytes > 0) {
    Range next = range;
    const size_t lane = lane_of(*targets_[range.target], range.offset, &next.bytes);
    range.offset += next.bytes;
    range.bytes -= next.bytes;
    if (range.copy != nullptr) {
      next.place = claim_place(next.target, next.offset, next.bytes);
      range.copy = {range.copy, range.copy.get() + next.bytes};
    }
    mine->lanes |= uint64_t{1} << lane;
    const auto queue = std::find_if(mine->queues.begin(), mine->queues.end(),
                                    [&](const Queue& each) { return each.target == next.target && each.lane == lane; });
    add_to(queue != mine->queues.end() ? &*queue : &mine->queues.emplace_back(Queue{next.target, lane, {}}),
           std::move(next));
  }
}

void RemoteLink::add_to(Queue* queue, Range range) {
  if (!queue->ranges.empty()) {
    Range& last = queue->ranges.back();
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

// Posts the first of the queue's ranges. False: no more can be in flight there.
bool RemoteLink::post_next(Noted* mine, Queue* queue) {
  Target& target = *targets_[queue->target];
  std::vector<Range>& ranges = queue->ranges;
  std::array<rdma::RemotePersist::Write, rdma::RemotePersist::kWritesMax> writes;
  std::vector<std::shared_ptr<std::byte>> copies;
  size_t count = 0, whole = 0;
  uint64_t begun = 0;  // of the range that does not fit any more
  for (const Range& range : ranges) {
    begun = 0;
    while (begun < range.bytes && count < writes.size()) {
      const uint64_t wanted = std::min(range.bytes - begun, kWriteBytesMax);
      const uint64_t at = range.offset + begun;
      const rdma::Slice from =
          range.copy == nullptr ? resident_slice(target, at, wanted) : pool_->slice(range.copy.get() + begun, wanted);
      BONSAI_INVARIANT(from.bytes() != 0 || range.copy != nullptr);  // only what is resident is flushed
      writes[count++] = {from, target.pool.region.at(at)};
      begun += from.bytes() != 0 ? from.bytes() : wanted;  // unregistered: the write fails
    }
    if (range.copy != nullptr) copies.push_back(range.copy);
    if (begun < range.bytes) break;
    ++whole;
    begun = 0;
    if (count == writes.size()) break;
  }
  size_t ticket = 0;
  const Status status = target.connections[queue->lane]->begin(std::span(writes.data(), count), &ticket);
  if (status.IsBusy()) return false;
  if (!status.ok()) {
    fail(queue->target, queue->lane, status);
    return false;
  }
  mine->posted.push_back({queue->target, queue->lane, ticket, ++mine->numbers, std::move(copies)});
  for (size_t i = 0; i < whole; ++i) forget_place(queue->target, ranges[i]);
  ranges.erase(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(whole));
  if (begun != 0) {
    Range& rest = ranges.front();
    rest.offset += begun;
    rest.bytes -= begun;
    if (rest.copy != nullptr) rest.copy = {rest.copy, rest.copy.get() + begun};
  }
  return true;
}

// Requires: the lane's mutex. Lets no sibling run.
void RemoteLink::post(Noted* mine, size_t lane) {
  for (Queue& queue : mine->queues) {
    if (queue.lane != lane || queue.ranges.empty()) continue;
    drop_given_up(&queue);
    while (!queue.ranges.empty() && !failed_.load(std::memory_order_relaxed) && post_next(mine, &queue)) {
    }
  }
}

// Requires: the lane's mutex. Lets no sibling run.
void RemoteLink::look(Noted* mine, size_t lane) {
  static_cast<void>(lanes_[lane]->worker->poll());
  std::erase_if(mine->posted, [&](Posted& posted) {
    if (posted.lane != lane) return false;
    rdma::RemotePersist& persist = *targets_[posted.target]->connections[lane];
    if (!persist.ended(posted.ticket)) return false;
    if (const Status status = persist.end(posted.ticket); !status.ok()) {
      std::vector<std::shared_ptr<std::byte>>& lost = lanes_[lane]->lost_copies;
      lost.insert(lost.end(), posted.copies.begin(), posted.copies.end());
      fail(posted.target, lane, status);
    }
    return true;
  });
  if (!target_of(*mine, lane)) mine->lanes &= ~(uint64_t{1} << lane);
}

bool RemoteLink::fence() {
  Noted& mine = noted_.mine();
  if (mine.lanes == 0) return !failed_.load(std::memory_order_acquire);
  uint64_t last = 0;  // of this thread's posts that this fence answers for; 0: not all are posted yet
  const auto is_empty = [](const Queue& queue) { return queue.ranges.empty(); };
  for (base::BoundedWait wait("link.fence", options_.limit_ms); mine.lanes != 0; wait.pause()) {
    if (failed_.load(std::memory_order_acquire)) break;
    for (uint64_t lanes = mine.lanes; lanes != 0; lanes &= lanes - 1) {
      const auto number = static_cast<size_t>(std::countr_zero(lanes));
      if (!lanes_[number]->mutex.try_lock()) continue;
      const std::lock_guard lock(lanes_[number]->mutex, std::adopt_lock);
      post(&mine, number);
      look(&mine, number);
    }
    if (last == 0 && std::all_of(mine.queues.begin(), mine.queues.end(), is_empty)) last = mine.numbers + 1;
    if (last != 0 && (mine.posted.empty() || mine.posted.front().number >= last)) break;
    if (wait.expired()) {
      const auto number = static_cast<size_t>(std::countr_zero(mine.lanes));
      const std::lock_guard lock(lanes_[number]->mutex);
      const std::optional<size_t> target = target_of(mine, number);
      if (!target) continue;  // a sibling has ended it meanwhile
      fail(*target, number, wait.status());
      break;
    }
  }
  return !failed_.load(std::memory_order_acquire);
}

// A target for which the lane has something in a queue or posted.
std::optional<size_t> RemoteLink::target_of(const Noted& mine, size_t lane) {
  for (const Posted& posted : mine.posted) {
    if (posted.lane == lane) return posted.target;
  }
  for (const Queue& queue : mine.queues) {
    if (queue.lane == lane && !queue.ranges.empty()) return queue.target;
  }
  return std::nullopt;
}

// A write failed. Requires: the lane's mutex.
void RemoteLink::fail(size_t target, size_t lane, const Status& status) {
  Target& of = *targets_[target];
  fail_as(of, "did not confirm a write", status);
  note_broken(&of, lane, status);
}

// The first failure stays.
void RemoteLink::fail_as(const Target& target, std::string_view what, const Status& status) {
  const std::lock_guard lock(status_mutex_);
  if (!failed_.load(std::memory_order_relaxed)) {
    status_ = Status::Unavailable(target.name.text + " " + std::string(what) + " (" + std::string(status.message()) +
                                  "); what was acknowledged is kept there: see that its node runs, close the store and "
                                  "open it again");
  }
  failed_.store(true, std::memory_order_release);
}

// After a failure of the lane's connection to the target, which may have ended it. Requires: the lane's mutex.
void RemoteLink::note_broken(Target* target, size_t lane, const Status& status) {
  if (target->connections.empty() || target->connections[lane]->peer().usable()) return;
  fail_as(*target, "has lost a connection", status);
  target->broken.store(true, std::memory_order_release);
}

Status RemoteLink::status() const {
  const std::lock_guard lock(status_mutex_);
  return status_;
}

rdma::Traffic RemoteLink::traffic() const {
  rdma::Traffic all;
  for (const auto& lane : lanes_) {
    const std::lock_guard lock(lane->mutex);
    all += lane->worker->traffic();
  }
  return all;
}

size_t RemoteLink::connections() const {
  size_t all = 0;
  for (const auto& target : targets_) all += target->connections.size();
  return all;
}

}  // namespace bonsai::scale
