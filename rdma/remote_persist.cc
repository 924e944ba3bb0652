#include "rdma/remote_persist.h"

#include <cstddef>
#include <cstring>

#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"
#include "base/step.h"
#include "rdma/mutants.h"

namespace bonsai::rdma {
namespace {

constexpr size_t kRequestHeadBytes = offsetof(FlushRequest, range);

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
  } else if (domain == RemoteDomain::kAdr && !base::mutant(kReadForAdr)) {
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
  std::unique_ptr<RemotePersist> made(new RemotePersist(worker, std::move(peer), strategy));
  Rights rights;
  rights.write = strategy == PersistStrategy::kFlushAgent;  // the agent writes its answers there
  BONSAI_RETURN_IF_ERROR(RegisteredMemory::make(*fabric, kInFlightMax * sizeof(Slot), rights, &made->memory_));
  for (size_t slot = 0; slot < kInFlightMax; ++slot) made->free_slots_.push_back(slot);
  *persist = std::move(made);
  return Status::OK();
}

RemotePersist::~RemotePersist() {
  peer_.reset();  // what is pending is complete now, and poll() notices
  static_cast<void>(worker_->poll());
}

Status RemotePersist::persist(std::span<const Write> writes, uint64_t limit_ms) {
  BONSAI_CHECK(!writes.empty() && writes.size() <= kWritesMax);
  if (failed_) return Status::Unavailable("remote persistence over this connection has failed; connect anew");
  BONSAI_RETURN_IF_ERROR(worker_->await("persist.slot", limit_ms, [this] { return !free_slots_.empty(); }));
  const size_t slot = free_slots_.back();
  free_slots_.pop_back();
  const Status status = run(writes, slot, limit_ms);
  // After an error the slot stays out of use: the node may still write an answer to it.
  if (status.ok()) {
    free_slots_.push_back(slot);
  } else {
    failed_ = true;
  }
  return status;
}

void RemotePersist::fill(std::span<const Write> writes, size_t index, WorkList* list) {
  list->clear();
  const bool read = strategy_ == PersistStrategy::kReadAfterWrite && !base::mutant(kNoRead);
  const auto add_read = [&] {
    list->read(*peer_, writes.back().to, memory_->slice(offset(index, &slot(index).read), 1));
  };
  if (read && base::mutant(kReadBefore)) add_read();
  for (const Write& write : writes) list->write(*peer_, write.from, write.to);
  if (read && !base::mutant(kReadBefore)) add_read();
  if (strategy_ != PersistStrategy::kReadAfterWrite) add_flush(writes, index, list);
}

Status RemotePersist::run(std::span<const Write> writes, size_t index, uint64_t limit_ms) {
  fill(writes, index, &lists_[index]);
  BONSAI_RETURN_IF_ERROR(worker_->run(&lists_[index], limit_ms));
  if (strategy_ != PersistStrategy::kFlushAgent || base::mutant(kAnswerNotAwaited)) return Status::OK();
  return await_answer(index, limit_ms);
}

void RemotePersist::add_flush(std::span<const Write> writes, size_t index, WorkList* list) {
  if (strategy_ == PersistStrategy::kFlush && !base::mutant(kNoFlush)) {
    const size_t skipped = base::mutant(kFlushSkipsLast) ? 1 : 0;
    for (size_t i = 0; i + skipped < writes.size(); ++i) {
      list->flush(*peer_, writes[i].to, writes[i].from.bytes());
    }
  }
  if (strategy_ != PersistStrategy::kFlushAgent) return;
  Slot& slot = this->slot(index);
  FlushRequest& request = slot.request;
  request.token = ++tokens_;
  request.answer = memory_->remote().at(offset(index, &slot.answer));
  request.ranges = writes.size();
  for (size_t i = 0; i < writes.size(); ++i) request.range[i] = {writes[i].to.address, writes[i].from.bytes()};
  list->send(*peer_, memory_->slice(offset(index, &request), request_bytes(request.ranges)));
}

Status RemotePersist::await_answer(size_t index, uint64_t limit_ms) {
  const uint64_t token = slot(index).request.token;
  const auto word = base::word_at(reinterpret_cast<std::byte*>(&slot(index).answer));
  uint64_t answer = 0;
  bool gone = false;
  BONSAI_RETURN_IF_ERROR(worker_->await("persist.answer", limit_ms, [&] {
    gone = !peer_->usable();
    answer = word.load(std::memory_order_acquire);
    return gone || (answer & ~FlushRequest::kRefused) == token;
  }));
  if (answer == token) return Status::OK();
  if (gone) return status_of(Outcome::kUnreachable, Verb::kSend);
  return Status::InvalidArgument("the flush agent does not serve these bytes; ask the node for its regions");
}

Status FlushAgent::make(Fabric* fabric, Worker* worker, std::span<const std::byte> served, size_t requests_max,
                        Flush flush, std::unique_ptr<FlushAgent>* agent) {
  std::unique_ptr<FlushAgent> made(new FlushAgent(worker, served, std::move(flush)));
  const size_t ring_bytes = requests_max * sizeof(FlushRequest);
  const size_t bytes = ring_bytes + kAnswersMax * sizeof(uint64_t);
  BONSAI_RETURN_IF_ERROR(RegisteredMemory::make(*fabric, bytes, Rights::none(), &made->memory_));
  BONSAI_RETURN_IF_ERROR(
      worker->set_receive_ring(made->memory_->slice(kAnswersMax * sizeof(uint64_t), ring_bytes), sizeof(FlushRequest)));
  *agent = std::move(made);
  return Status::OK();
}

FlushAgent::~FlushAgent() {
  peers_.clear();
  static_cast<void>(worker_->poll());
}

Status FlushAgent::serve(uint64_t limit_ms) {
  accept_peers();
  FlushRequest request;
  uint32_t node = 0;
  {
    Message message;
    BONSAI_RETURN_IF_ERROR(worker_->receive(limit_ms, &message));
    const size_t bytes = message.bytes().size();
    if (bytes < kRequestHeadBytes || bytes > sizeof request) {
      return Status::InvalidArgument("a flush request of " + std::to_string(bytes) + " bytes was dropped");
    }
    std::memcpy(&request, message.bytes().data(), bytes);
    if (request.ranges > FlushRequest::kRangesMax || bytes != request_bytes(request.ranges)) {
      return Status::InvalidArgument("a malformed flush request was dropped");
    }
    node = message.from();
  }
  if (base::mutant(kAgentAnswersFirst)) std::swap(request.range, held_.range);
  const uint64_t word = flush_ranges(request) ? request.token : request.token | FlushRequest::kRefused;
  return answer(request, node, word, limit_ms);
}

bool FlushAgent::flush_ranges(const FlushRequest& request) {
  const auto base = reinterpret_cast<uintptr_t>(served_.data());
  for (uint64_t i = 0; i < request.ranges; ++i) {
    const uint64_t offset = request.range[i].address - base;
    if (offset > served_.size() || request.range[i].bytes > served_.size() - offset) {
      if (base::mutant(kAgentAnswersFirst)) continue;
      return false;
    }
    if (base::mutant(kAgentNeverFlushes) || (base::mutant(kAgentSkipsLast) && i + 1 == request.ranges)) continue;
    flush_(served_.subspan(offset, request.range[i].bytes));
  }
  return true;
}

void FlushAgent::accept_peers() {
  std::unique_ptr<Peer> peer;
  while (worker_->accept(0, &peer).ok()) peers_.push_back(std::move(peer));
  std::erase_if(peers_, [](const auto& known) { return !known->usable(); });
}

// A connection to `node`, the newest one. Any does: a key is good for all connections of its node.
Peer* FlushAgent::peer_of(uint32_t node) {
  for (size_t i = peers_.size(); i > 0; --i) {
    if (peers_[i - 1]->hello().node == node && peers_[i - 1]->usable()) return peers_[i - 1].get();
  }
  return nullptr;
}

Status FlushAgent::answer(const FlushRequest& request, uint32_t node, uint64_t word, uint64_t limit_ms) {
  accept_peers();
  Peer* const peer = peer_of(node);
  if (peer == nullptr)
    return Status::Unavailable("node " + std::to_string(node) + " left before its flush was answered");
  const size_t index = answered_++ % kAnswersMax;
  WorkList& list = answers_[index];
  if (list.pending())
    static_cast<void>(worker_->wait(list, limit_ms));  // an answer that failed: its peer will ask again
  if (list.pending()) return Status::Unavailable("earlier answers to flush requests are still on their way");
  list.clear();
  const Slice slice = memory_->slice(index * sizeof word, sizeof word);
  std::memcpy(slice.data(), &word, sizeof word);
  list.write(*peer, slice, request.answer);
  return worker_->post(&list);
}

}  // namespace bonsai::rdma
