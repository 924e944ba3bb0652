// SPDX-License-Identifier: Apache-2.0
#include "rdma/remote_persist.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"

namespace bonsai::rdma {
namespace {

constexpr size_t kRequestHeadBytes = offsetof(FlushRequest, range);

constexpr size_t kLookBytes = sizeof(uint64_t);  // after the answers; the value read is not used

size_t request_bytes(uint64_t ranges) { return kRequestHeadBytes + ranges * sizeof(FlushRequest::Range); }

}  // namespace

std::string_view strategy_name(PersistStrategy strategy) {
  switch (strategy) {
    case PersistStrategy::kFlushAgent:
      return "flush agent";
    case PersistStrategy::kReadAfterWrite:
      return "read after write";
    case PersistStrategy::kFlush:
      return "RDMA FLUSH";
  }
  return "unknown";
}

Status choose_strategy(RemoteDomain domain, const Capabilities& capabilities, PersistStrategy* strategy) {
  if (domain == RemoteDomain::kUnknown) {
    return Status::InvalidArgument(
        "the node's persistence domain is not declared, so a remote write could be lost after it was acknowledged; "
        "declare adr (device writes rest in the caches: always safe), adr-direct (DDIO is off) or eadr (the caches "
        "survive a power cut)");
  }
  if (capabilities.remote_flush) {
    *strategy = PersistStrategy::kFlush;
  } else if (domain == RemoteDomain::kAdr) {
    *strategy = PersistStrategy::kFlushAgent;
  } else {
    *strategy = PersistStrategy::kReadAfterWrite;
  }
  return Status::OK();
}

Status RemotePersist::make(Fabric* fabric, Worker* worker, std::unique_ptr<Peer> peer, RemoteDomain domain,
                           std::unique_ptr<RemotePersist>* persist) {
  PersistStrategy strategy{};
  BONSAI_RETURN_IF_ERROR(choose_strategy(domain, fabric->capabilities(), &strategy));
  BONSAI_INVARIANT(domain != RemoteDomain::kUnknown);  // (9)
  std::unique_ptr<RemotePersist> made(new RemotePersist(worker, std::move(peer), strategy));
  Rights rights;
  rights.write = strategy == PersistStrategy::kFlushAgent;  // the agent writes its answers there
  BONSAI_RETURN_IF_ERROR(RegisteredMemory::make(*fabric, kInFlightMax * sizeof(Slot), rights, &made->memory_));
  for (size_t slot = 0; slot < kInFlightMax; ++slot) made->free_slots_.push_back(slot);
  *persist = std::move(made);
  return Status::OK();
}

RemotePersist::~RemotePersist() {
  peer_.reset();  // pending requests are complete now, and poll() reports them
  static_cast<void>(worker_->poll());
}

Status RemotePersist::persist(std::span<const Write> writes, uint64_t limit_ms) {
  size_t ticket = 0;
  Status begun;
  BONSAI_RETURN_IF_ERROR(worker_->await("persist.slot", limit_ms, [&] {
    begun = begin(writes, &ticket);
    return !begun.IsBusy();
  }));
  BONSAI_RETURN_IF_ERROR(begun);
  const Status waited = worker_->await("persist.answer", limit_ms, [&] { return ended(ticket); });
  const Status status = end(ticket);
  return waited.ok() ? status : waited;
}

Status RemotePersist::begin(std::span<const Write> writes, size_t* ticket) {
  BONSAI_CHECK(!writes.empty() && writes.size() <= kWritesMax);
  if (failed_) return Status::Unavailable("remote persistence over this connection has failed; connect anew");
  if (free_slots_.empty()) return Status::Busy(std::to_string(kInFlightMax) + " persists are in flight; end one first");
  const size_t slot = free_slots_.back();
  BONSAI_CHECK(slot < kInFlightMax && !lists_[slot].pending());
  fill(writes, slot, &lists_[slot]);
  BONSAI_RETURN_IF_ERROR(worker_->post(&lists_[slot]));
  free_slots_.pop_back();
  *ticket = slot;
  return Status::OK();
}

bool RemotePersist::ended(size_t ticket) {
  BONSAI_CHECK(ticket < kInFlightMax);
  const WorkList& list = lists_[ticket];
  if (list.pending()) return false;
  if (strategy_ != PersistStrategy::kFlushAgent || !list.status().ok()) return true;
  return (answer_word(ticket) & FlushRequest::kTokenMax) == slot(ticket).request.token || !peer_->usable();
}

Status RemotePersist::end(size_t ticket) {
  BONSAI_SLOW_INVARIANT(std::find(free_slots_.begin(), free_slots_.end(), ticket) == free_slots_.end());
  Status status;
  if (!ended(ticket)) {
    status = Status::Unavailable("the answer was not waited for");
  } else if (status = lists_[ticket].status(); status.ok() && strategy_ == PersistStrategy::kFlushAgent) {
    status = answer_status(ticket);
  }
  // After an error the slot stays out of use: the node may still write an answer to it.
  if (status.ok()) {
    BONSAI_CHECK(free_slots_.size() < kInFlightMax);
    free_slots_.push_back(ticket);
  } else {
    failed_ = true;
  }
  return status;
}

void RemotePersist::fill(std::span<const Write> writes, size_t index, WorkList* list) {
  list->clear();
  for (const Write& write : writes) list->write(*peer_, write.from, write.to);
  if (strategy_ == PersistStrategy::kReadAfterWrite) {
    list->read(*peer_, writes.back().to, memory_->slice(offset(index, &slot(index).read), 1));
  } else {
    add_flush(writes, index, list);
  }
}

void RemotePersist::add_flush(std::span<const Write> writes, size_t index, WorkList* list) {
  if (strategy_ == PersistStrategy::kFlush) {
    for (const Write& write : writes) list->flush(*peer_, write.to, write.from.bytes());
    return;
  }
  BONSAI_CHECK(strategy_ == PersistStrategy::kFlushAgent && tokens_ < FlushRequest::kTokenMax);
  Slot& slot = this->slot(index);
  FlushRequest& request = slot.request;
  request.token = ++tokens_;
  request.answer = memory_->remote().at(offset(index, &slot.answer));
  request.ranges = writes.size();
  for (size_t i = 0; i < writes.size(); ++i) request.range[i] = {writes[i].to.address, writes[i].from.bytes()};
  list->send(*peer_, memory_->slice(offset(index, &request), request_bytes(request.ranges)));
}

uint64_t RemotePersist::answer_word(size_t ticket) {
  return base::word_at(reinterpret_cast<std::byte*>(&slot(ticket).answer)).load(std::memory_order_acquire);
}

Status RemotePersist::answer_status(size_t ticket) {
  BONSAI_CHECK(strategy_ == PersistStrategy::kFlushAgent);  // others have no answer but their completion
  const uint64_t token = slot(ticket).request.token;
  const uint64_t word = answer_word(ticket);
  if (word == token) return Status::OK();
  if ((word & FlushRequest::kTokenMax) != token) return status_of(Outcome::kUnreachable, Verb::kSend);
  if ((word & FlushRequest::kFailed) != 0) {
    return Status::IoError("the node's medium could not make the bytes durable; see the node's log");
  }
  return Status::InvalidArgument("the flush agent does not serve these bytes; ask the node for its regions");
}

Status FlushAgent::make(Fabric* fabric, Worker* worker, size_t requests_max, Flush flush,
                        std::unique_ptr<FlushAgent>* agent) {
  std::unique_ptr<FlushAgent> made(new FlushAgent(worker, std::move(flush)));
  constexpr size_t kAnswers = kAnswersMax * kAnswerBytesMax + kLookBytes;
  const size_t ring_bytes = requests_max * sizeof(FlushRequest);
  BONSAI_RETURN_IF_ERROR(RegisteredMemory::make(*fabric, kAnswers + ring_bytes, Rights::none(), &made->memory_));
  BONSAI_RETURN_IF_ERROR(worker->set_receive_ring(made->memory_->slice(kAnswers, ring_bytes), sizeof(FlushRequest)));
  *agent = std::move(made);
  return Status::OK();
}

FlushAgent::~FlushAgent() {
  peers_.clear();
  static_cast<void>(worker_->poll());
}

FlushAgent::Flush FlushAgent::within(std::span<const std::byte> served,
                                     std::function<void(std::span<const std::byte> bytes)> flush) {
  return [served, flush = std::move(flush)](std::span<const FlushRequest::Range> ranges, const Asked&) {
    const auto base = reinterpret_cast<uintptr_t>(served.data());
    for (const FlushRequest::Range& range : ranges) {
      const uint64_t offset = range.address - base;
      if (offset > served.size() || range.bytes > served.size() - offset) return FlushResult::kNotServed;
      flush(served.subspan(offset, range.bytes));
    }
    return FlushResult::kDone;
  };
}

Status FlushAgent::serve(uint64_t limit_ms) {
  accept_peers();
  send_waiting();
  FlushRequest request;
  uint32_t node = 0;
  {
    Message message;
    BONSAI_RETURN_IF_ERROR(worker_->receive(waiting_.empty() ? limit_ms : std::min<uint64_t>(limit_ms, 1), &message));
    const size_t bytes = message.bytes().size();
    if (bytes < kRequestHeadBytes || bytes > sizeof request) {
      return Status::InvalidArgument("a flush request of " + std::to_string(bytes) + " bytes was dropped");
    }
    std::memcpy(&request, message.bytes().data(), bytes);
    node = message.from();
    if (request.token > FlushRequest::kTokenMax && other_) {
      return other_(std::as_bytes(std::span(&request, 1)).first(bytes), node);
    }
    if (request.ranges > FlushRequest::kRangesMax || bytes != request_bytes(request.ranges)) {
      return Status::InvalidArgument("a malformed flush request was dropped");
    }
  }
  const Asked asked{node, request.token, request.answer};
  const FlushResult result = flush_(std::span(request.range.data(), request.ranges), asked);
  return result == FlushResult::kLater ? Status::OK() : answer_flush(asked, result);
}

Status FlushAgent::answer_flush(const Asked& asked, FlushResult result) {
  BONSAI_CHECK(result != FlushResult::kLater);
  uint64_t word = asked.token;
  if (result == FlushResult::kNotServed) word |= FlushRequest::kRefused;
  if (result == FlushResult::kFailed) word |= FlushRequest::kFailed;
  return answer(asked.node, std::as_bytes(std::span(&word, 1)), asked.to, kFlushAnswerMsMax);
}

void FlushAgent::accept_peers() {
  std::unique_ptr<Peer> peer;
  while (worker_->accept(0, &peer).ok()) peers_.push_back(std::move(peer));
  std::erase_if(peers_, [](const auto& known) { return !known->usable(); });
}

void FlushAgent::end(uint32_t node) {
  accept_peers();
  std::erase_if(peers_, [node](const auto& known) { return known->hello().node == node; });
  static_cast<void>(worker_->poll());
}

// The newest connection to `node`. Any would do: a key is valid on all connections of its node.
Peer* FlushAgent::peer_of(uint32_t node) {
  for (size_t i = peers_.size(); i > 0; --i) {
    if (peers_[i - 1]->hello().node == node && peers_[i - 1]->usable()) return peers_[i - 1].get();
  }
  return nullptr;
}

void FlushAgent::look_for(const std::map<uint32_t, Remote>& words) {
  accept_peers();
  static_cast<void>(worker_->poll());
  if (looks_.pending()) return;
  looks_.clear();
  for (size_t seen = 0; seen < peers_.size() && looks_.room(); ++seen) {
    Peer& peer = *peers_[next_look_++ % peers_.size()];
    const auto word = words.find(peer.hello().node);
    if (word == words.end()) continue;
    looks_.read(peer, word->second, memory_->slice(kAnswersMax * kAnswerBytesMax, kLookBytes));
  }
  if (looks_.size() != 0) static_cast<void>(worker_->post(&looks_));
}

bool FlushAgent::connected(uint32_t node) {
  accept_peers();
  return peer_of(node) != nullptr;
}

Status FlushAgent::answer(uint32_t node, std::span<const std::byte> bytes, Remote to, uint64_t limit_ms) {
  BONSAI_CHECK(bytes.size() % sizeof(uint64_t) == 0 && !bytes.empty() && bytes.size() <= kAnswerBytesMax);
  accept_peers();
  const Status sent = waiting_.empty() ? send(node, bytes, to) : Status::Busy("earlier answers wait");
  if (!sent.IsBusy() || limit_ms == 0 || waiting_.size() == kWaitingMax) return sent;
  waiting_.push_back({node, to, base::now_ns() + limit_ms * base::kNsPerMs, {bytes.begin(), bytes.end()}});
  BONSAI_CHECK(waiting_.size() <= kWaitingMax);
  return Status::OK();
}

// Errors: Unavailable (the node is gone), Busy (the answer cannot be sent now).
Status FlushAgent::send(uint32_t node, std::span<const std::byte> bytes, Remote to) {
  constexpr size_t kLast = sizeof(uint64_t);
  Peer* const peer = peer_of(node);
  if (peer == nullptr) return Status::Unavailable("node " + std::to_string(node) + " left before its answer");
  const size_t index = answered_ % kAnswersMax;
  WorkList& list = answers_[index];
  if (list.pending()) static_cast<void>(worker_->poll());
  if (list.pending()) return Status::Busy("earlier answers are still in flight");
  list.clear();
  const Slice slice = memory_->slice(index * kAnswerBytesMax, bytes.size());
  std::memcpy(slice.data(), bytes.data(), bytes.size());
  const size_t head = bytes.size() - kLast;
  if (head != 0) list.write(*peer, memory_->slice(index * kAnswerBytesMax, head), to);
  list.write(*peer, memory_->slice(index * kAnswerBytesMax + head, kLast), {to.key, to.address + head});
  Status posted = worker_->post(&list);
  if (posted.IsBusy()) {
    static_cast<void>(worker_->poll());
    posted = worker_->post(&list);
  }
  if (posted.ok()) ++answered_;
  return posted;
}

void FlushAgent::send_waiting() {
  for (; !waiting_.empty(); waiting_.pop_front()) {
    const Answer& next = waiting_.front();
    if (send(next.node, next.bytes, next.to).IsBusy() && base::now_ns() < next.until_ns) return;
  }
}

}  // namespace bonsai::rdma
