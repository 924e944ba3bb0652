#include "scale/remote_link.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <set>

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
  rdma::Rights rights;
  rights.write = true;  // nodes write their answers there
  rights.read = true;   // and look whether this one is still there
  BONSAI_RETURN_IF_ERROR(rdma::RegisteredMemory::make(*fabric_, sizeof(Control), rights, &control_));
  for (size_t i = 0; i < options_.workers; ++i) {
    BONSAI_RETURN_IF_ERROR(fabric_->make_worker(&lanes_.emplace_back(std::make_unique<Lane>())->worker));
  }
  return Status::OK();
}

RemoteLink::~RemoteLink() {
  // A node that does not answer closes the pool when it finds this node gone.
  for (size_t target = 0; target < targets_.size(); ++target) static_cast<void>(release(target, PoolOp::kClose));
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

// The connections that carry the target's reads: those that another target of its node has, if there is one.
Status RemoteLink::connect_readers(Target* target) {
  for (const auto& other : targets_) {
    if (other->name.node != target->name.node || other->persist == nullptr) continue;
    target->reading = other->reading;
    return Status::OK();
  }
  for (size_t lane = 1; lane < lanes_.size(); ++lane) {
    std::unique_ptr<rdma::Peer> peer;
    BONSAI_RETURN_IF_ERROR(connect(lanes_[lane]->worker.get(), target->name, &peer));
    target->reading.push_back(std::move(peer));
  }
  return Status::OK();
}

// Requires: it was not given back.
rdma::Peer& RemoteLink::peer_of(const Target& target, size_t lane) {
  return lane == 0 ? target.persist->peer() : *target.reading[lane - 1];
}

// Empties the list for a request. Errors: Unavailable (one that was given up is still in flight).
Status RemoteLink::begin_list() {
  static_cast<void>(lanes_[0]->worker->poll());
  if (list_.pending()) return Status::Unavailable("an earlier request has not ended yet");
  list_.clear();
  return Status::OK();
}

// Waits for the answer with the latest token, for as long as the node gives signs of being at work on it.
Status RemoteLink::await_answer(rdma::Peer* peer) {
  const std::byte* const answer = control_->data() + offsetof(Control, answer);
  const auto token = base::word_at(answer + offsetof(PoolAnswer, token));
  const auto beats = base::word_at(answer + offsetof(PoolAnswer, beats));
  const auto answered = [&] { return token.load(std::memory_order_acquire) == tokens_; };
  base::BoundedWait request("link.request", kRequestMsMax);
  while (request.watch_ns() < kRequestMsMax * base::kNsPerMs) {
    const uint64_t seen = beats.load(std::memory_order_relaxed);
    BONSAI_RETURN_IF_ERROR(lanes_[0]->worker->await("link.answer", options_.limit_ms, [&] {
      return answered() || beats.load(std::memory_order_relaxed) != seen || !peer->usable();
    }));
    if (answered()) return Status::OK();
    if (!peer->usable()) return Status::Unavailable("the node left");
  }
  return request.status();
}

// Waits for room, too: when a target is given back reads that nobody waits for may still be in flight.
Status RemoteLink::run_request() {
  rdma::Worker& worker = *lanes_[0]->worker;
  Status posted;
  BONSAI_RETURN_IF_ERROR(worker.await("link.room", options_.limit_ms, [&] {
    posted = worker.post(&list_);
    return !posted.IsBusy();
  }));
  BONSAI_RETURN_IF_ERROR(posted);
  return worker.wait(list_, options_.limit_ms);
}

Status RemoteLink::ask(rdma::Peer* peer, const TargetName& name, PoolOp op, uint64_t bytes, uint64_t mark,
                       PoolAnswer* answer) {
  auto& control = *reinterpret_cast<Control*>(control_->data());
  control.request = {};
  control.request.token = ++tokens_;
  control.request.answer = control_->remote().at(offsetof(Control, answer));
  control.request.op = op;
  control.request.bytes = bytes;
  control.request.mark = mark;
  set_wire_text(&control.request.pool, name.pool);
  Status status = begin_list();
  if (status.ok()) {
    list_.send(*peer, control_->slice(0, sizeof control.request));
    status = run_request();
  }
  if (status.ok()) status = await_answer(peer);
  if (!status.ok()) {
    return Status::Unavailable(name.text + ": the node does not answer (" + std::string(status.message()) +
                               "); see whether bonsaid runs there, and retry");
  }
  base::racy_load(answer, reinterpret_cast<const std::byte*>(&control.answer), sizeof *answer);
  if (answer->code == 0) return Status::OK();
  return rdma::status_from_wire(static_cast<int32_t>(answer->code), name.text + ": " + wire_text(answer->text));
}

Status RemoteLink::open(const TargetName& name, PoolOp op, uint64_t bytes, uint64_t mark, size_t* target) {
  for (const auto& other : targets_) {
    if (other->name.node == name.node && other->name.pool == name.pool && other->persist != nullptr) {
      return Status::InvalidArgument(name.text + " is named twice; each target is named once");
    }
  }
  auto made = std::make_unique<Target>();
  made->name = name;
  std::unique_ptr<rdma::Peer> peer;
  rdma::Worker& worker = *lanes_[0]->worker;
  BONSAI_RETURN_IF_ERROR(connect(&worker, name, &peer));
  BONSAI_RETURN_IF_ERROR(connect_readers(made.get()));
  PoolAnswer answer;
  const Status asked = ask(peer.get(), name, op, bytes, mark, &answer);
  if (asked.IsUnavailable()) {
    // The connection ends before what it may still deliver is used again.
    peer.reset();
    static_cast<void>(worker.poll());
  }
  BONSAI_RETURN_IF_ERROR(asked);
  made->pool = pool_of(answer);
  BONSAI_RETURN_IF_ERROR(rdma::RemotePersist::make(fabric_.get(), &worker, std::move(peer),
                                                   static_cast<rdma::RemoteDomain>(answer.domain), &made->persist));
  *target = targets_.size();
  targets_.push_back(std::move(made));
  return Status::OK();
}

Status RemoteLink::release(size_t target, PoolOp op) {
  Target& left = *targets_[target];
  if (left.persist == nullptr) return Status::OK();
  PoolAnswer answer;
  const Status status = ask(&left.persist->peer(), left.name, op, 0, 0, &answer);
  left.persist.reset();
  left.reading.clear();
  return status;
}

Status RemoteLink::remove(size_t target) { return release(target, PoolOp::kRemove); }
Status RemoteLink::complete(size_t target) { return release(target, PoolOp::kComplete); }

RemoteLink::Pool RemoteLink::pool_of(const PoolAnswer& answer) const {
  return {answer.region, answer.emulated != 0, wire_text(answer.text) + ", over " + text()};
}

Status RemoteLink::resize(size_t target, uint64_t bytes) {
  Target& of = *targets_[target];
  of.drop_mirror();
  PoolAnswer answer;
  BONSAI_RETURN_IF_ERROR(ask(&of.persist->peer(), of.name, PoolOp::kResize, bytes, 0, &answer));
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
      if (&store != last_store && within(store) && store.offset != last_store->offset) mine.ranges.push_back(store);
    }
    std::erase_if(mine.stores, within);
  }
  note_range(&mine, {target, offset, n, apart});
}

void RemoteLink::note_copy(size_t target, uint64_t offset, const void* src, size_t n) {
  if (n == 0) return;
  std::shared_ptr<std::byte> copy = pool_->take(n);
  std::memcpy(copy.get(), src, n);
  noted_.mine().ranges.push_back({target, offset, n, false, std::move(copy)});
}

void RemoteLink::note_range(Noted* mine, const Range& range) {
  if (!mine->ranges.empty()) {
    Range& last = mine->ranges.back();
    const bool joins = !last.apart && !range.apart && last.copy == nullptr && last.target == range.target &&
                       range.offset <= last.offset + last.bytes &&
                       last.offset <= range.offset;  // goes on where it ends, or begins in it
    if (joins) {
      last.bytes = std::max(last.bytes, range.offset + range.bytes - last.offset);
      return;
    }
  }
  mine->ranges.push_back(range);
}

// Posts the first of the ranges, and those that follow it on the same target. False: no more can be in flight there.
bool RemoteLink::post_next(Noted* mine) {
  const size_t number = mine->ranges.front().target;
  Target& target = *targets_[number];
  std::array<rdma::RemotePersist::Write, rdma::RemotePersist::kWritesMax> writes;
  std::vector<std::shared_ptr<std::byte>> copies;
  size_t count = 0, whole = 0;
  uint64_t begun = 0;  // of the range that does not fit any more
  for (const Range& range : mine->ranges) {
    if (range.target != number) break;
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
  const Status status = target.persist->begin(std::span(writes.data(), count), &ticket);
  if (status.IsBusy()) return false;
  if (!status.ok()) {
    fail(number, status);
    return false;
  }
  mine->posted.push_back({number, ticket, ++mine->numbers, std::move(copies)});
  mine->ranges.erase(mine->ranges.begin(), mine->ranges.begin() + static_cast<std::ptrdiff_t>(whole));
  if (begun != 0) {
    Range& rest = mine->ranges.front();
    rest.offset += begun;
    rest.bytes -= begun;
    if (rest.copy != nullptr) rest.copy = {rest.copy, rest.copy.get() + begun};
  }
  return true;
}

// Requires: the first lane's mutex. Lets no sibling run.
void RemoteLink::post(Noted* mine) {
  while (!mine->ranges.empty() && !failed_.load(std::memory_order_relaxed) && post_next(mine)) {
  }
}

// Requires: the first lane's mutex. Lets no sibling run.
void RemoteLink::look(Noted* mine) {
  static_cast<void>(lanes_[0]->worker->poll());
  std::erase_if(mine->posted, [this](Posted& posted) {
    rdma::RemotePersist& persist = *targets_[posted.target]->persist;
    if (!persist.ended(posted.ticket)) return false;
    if (const Status status = persist.end(posted.ticket); !status.ok()) {
      lost_copies_.insert(lost_copies_.end(), posted.copies.begin(), posted.copies.end());
      fail(posted.target, status);
    }
    return true;
  });
}

bool RemoteLink::fence() {
  Noted& mine = noted_.mine();
  if (mine.ranges.empty() && mine.posted.empty()) return !failed_.load(std::memory_order_acquire);
  uint64_t last = 0;  // of this thread's posts that this fence answers for; 0: not all are posted yet
  for (base::BoundedWait wait("link.fence", options_.limit_ms);; wait.pause()) {
    if (failed_.load(std::memory_order_acquire)) break;
    if (lanes_[0]->mutex.try_lock()) {
      const std::lock_guard lock(lanes_[0]->mutex, std::adopt_lock);
      post(&mine);
      if (last == 0 && mine.ranges.empty()) last = mine.numbers + 1;
      look(&mine);
    }
    if (last != 0 && (mine.posted.empty() || mine.posted.front().number >= last)) break;
    if (wait.expired()) {
      const std::lock_guard lock(lanes_[0]->mutex);
      fail(mine.posted.empty() ? 0 : mine.posted.front().target, wait.status());
      break;
    }
  }
  return !failed_.load(std::memory_order_acquire);
}

// A write failed. Requires: the first lane's mutex.
void RemoteLink::fail(size_t target, const Status& status) {
  Target& of = *targets_[target];
  fail_as(of, "did not confirm a write", status);
  note_broken(&of, 0, status);
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
  if (target->persist == nullptr || peer_of(*target, lane).usable()) return;
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
  std::set<const rdma::Peer*> all;
  for (const auto& target : targets_) {
    if (target->persist == nullptr) continue;
    for (size_t lane = 0; lane < lanes_.size(); ++lane) all.insert(&peer_of(*target, lane));
  }
  return all.size();
}

}  // namespace bonsai::scale
