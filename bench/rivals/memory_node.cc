#include "bench/rivals/memory_node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace bonsai::bench::rivals {

uint64_t ChunkAnswer::check_of(uint64_t token, uint64_t offset) {
  return base::splitmix64(base::splitmix64(token) ^ offset);
}

Status MemoryNode::make(rdma::Fabric* fabric, const std::string& address, size_t bytes, size_t fixed_bytes,
                        std::unique_ptr<MemoryNode>* node) {
  if (fixed_bytes > bytes) return Status::InvalidArgument("a memory node of fewer bytes than its engine's fixed part");
  std::unique_ptr<MemoryNode> made(new MemoryNode(address, bytes, std::max<size_t>(fixed_bytes, 64)));
  BONSAI_RETURN_IF_ERROR(rdma::RegisteredMemory::make(*fabric, bytes, rdma::Rights::all(), &made->memory_));
  BONSAI_RETURN_IF_ERROR(
      rdma::RegisteredMemory::make(*fabric, kCallsMax * kCallBytes, rdma::Rights::none(), &made->calls_));
  BONSAI_RETURN_IF_ERROR(
      rdma::RegisteredMemory::make(*fabric, kAnswersMax * sizeof(ChunkAnswer), rdma::Rights::none(), &made->answers_));
  BONSAI_RETURN_IF_ERROR(fabric->make_worker(&made->worker_));
  BONSAI_RETURN_IF_ERROR(made->worker_->set_receive_ring(made->calls_->slice(0, kCallsMax * kCallBytes), kCallBytes));
  BONSAI_RETURN_IF_ERROR(made->worker_->listen(address, {}, {}));
  *node = std::move(made);
  return Status::OK();
}

// Answers that nobody waits for are completed by closing their peers.
MemoryNode::~MemoryNode() {
  peers_.clear();
  if (worker_ != nullptr) static_cast<void>(worker_->poll());
}

Status MemoryNode::serve(uint64_t limit_ms) {
  std::unique_ptr<rdma::Peer> peer;
  while (worker_->accept(0, &peer).ok()) peers_.push_back(std::move(peer));
  std::erase_if(peers_, [](const auto& known) { return !known->usable(); });
  ChunkCall call;
  uint32_t caller = 0;
  {
    rdma::Message message;
    BONSAI_RETURN_IF_ERROR(worker_->receive(limit_ms, &message));
    if (message.bytes().size() != sizeof call) return Status::InvalidArgument("a call of a wrong size was dropped");
    std::memcpy(static_cast<void*>(&call), message.bytes().data(), sizeof call);
    caller = message.from();
  }
  while (worker_->accept(0, &peer).ok()) peers_.push_back(std::move(peer));
  return answer(call, caller);
}

rdma::Peer* MemoryNode::peer_of(uint32_t number) {
  for (size_t i = peers_.size(); i > 0; --i) {
    if (peers_[i - 1]->hello().node == number && peers_[i - 1]->usable()) return peers_[i - 1].get();
  }
  return nullptr;
}

Status MemoryNode::answer(const ChunkCall& call, uint32_t caller) {
  rdma::Peer* const peer = peer_of(caller);
  if (peer == nullptr) return Status::Unavailable("a caller left before its answer");
  const size_t index = answered_++ % kAnswersMax;
  rdma::WorkList& list = lists_[index];
  if (list.pending()) BONSAI_RETURN_IF_ERROR(worker_->wait(list, Connection::kWaitMs));
  list.clear();
  ChunkAnswer answer;
  if (call.bytes <= bytes_ - chunks_first_) {
    answer.offset = chunks_first_;
    chunks_first_ += (call.bytes + 63) / 64 * 64;
    chunks_first_ = std::min(chunks_first_, bytes_);
  }
  answer.check = ChunkAnswer::check_of(call.token, answer.offset);
  const rdma::Slice slice = answers_->slice(index * sizeof answer, sizeof answer);
  std::memcpy(slice.data(), &answer, sizeof answer);
  list.write(*peer, slice, call.answer);
  return worker_->post(&list);
}

Status ChunkCaller::make(Connection* connection, std::unique_ptr<ChunkCaller>* caller) {
  std::unique_ptr<ChunkCaller> made(new ChunkCaller(connection));
  BONSAI_RETURN_IF_ERROR(rdma::RegisteredMemory::make(connection->fabric(), kCallBytes + sizeof(ChunkAnswer),
                                                      {.write = true}, &made->memory_));
  *caller = std::move(made);
  return Status::OK();
}

Status ChunkCaller::call(uint16_t node, uint64_t bytes, Address* chunk) {
  ChunkCall call;
  call.bytes = bytes;
  call.token = ++tokens_;
  call.answer = memory_->remote().at(kCallBytes);
  std::memcpy(memory_->data(), &call, sizeof call);
  batch_.send(node, memory_->slice(0, kCallBytes));
  BONSAI_RETURN_IF_ERROR(batch_.run());
  ChunkAnswer answer;
  BONSAI_RETURN_IF_ERROR(connection_->worker().await("rival.chunk", Connection::kWaitMs, [&] {
    base::racy_load(&answer, memory_->data() + kCallBytes, sizeof answer);
    return answer.check == ChunkAnswer::check_of(call.token, answer.offset);
  }));
  if (answer.offset == 0) return Status::NoSpace("the memory node has no chunk left; give it more memory");
  *chunk = {node, answer.offset};
  return Status::OK();
}

}  // namespace bonsai::bench::rivals
