// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/call_server.h"

#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "bench/studies/rivals/connection.h"

namespace bonsai::bench::rivals {

Status CallServer::make(rdma::Fabric* fabric, const std::string& address, size_t call_bytes_max, size_t answer_bytes,
                        std::unique_ptr<CallServer>* server) {
  std::unique_ptr<CallServer> made(new CallServer(answer_bytes));
  BONSAI_RETURN_IF_ERROR(
      rdma::RegisteredMemory::make(*fabric, kCallsMax * call_bytes_max, rdma::Rights::none(), &made->calls_));
  BONSAI_RETURN_IF_ERROR(
      rdma::RegisteredMemory::make(*fabric, kAnswersMax * answer_bytes, rdma::Rights::none(), &made->answers_));
  BONSAI_RETURN_IF_ERROR(fabric->make_worker(&made->worker_));
  BONSAI_RETURN_IF_ERROR(
      made->worker_->set_receive_ring(made->calls_->slice(0, kCallsMax * call_bytes_max), call_bytes_max));
  BONSAI_RETURN_IF_ERROR(made->worker_->listen(address, {}, {}));
  *server = std::move(made);
  return Status::OK();
}

// Abandoned answers are completed by closing their peers.
CallServer::~CallServer() {
  peers_.clear();
  if (worker_ != nullptr) static_cast<void>(worker_->poll());
}

void CallServer::accept_all() {
  std::unique_ptr<rdma::Peer> peer;
  while (worker_->accept(0, &peer).ok()) peers_.push_back(std::move(peer));
}

Status CallServer::take(uint64_t limit_ms, std::byte* to, Call* call) {
  accept_all();
  std::erase_if(peers_, [](const auto& known) { return !known->usable(); });
  rdma::Message message;
  BONSAI_RETURN_IF_ERROR(worker_->receive(limit_ms, &message));
  *call = {message.bytes().size(), message.from()};
  std::memcpy(to, message.bytes().data(), message.bytes().size());
  accept_all();
  return Status::OK();
}

rdma::Peer* CallServer::peer_of(uint32_t caller) {
  for (size_t i = peers_.size(); i > 0; --i) {
    if (peers_[i - 1]->hello().node == caller && peers_[i - 1]->usable()) return peers_[i - 1].get();
  }
  return nullptr;
}

Status CallServer::answer(const void* bytes, rdma::Remote to, uint32_t caller) {
  rdma::Peer* const peer = peer_of(caller);
  if (peer == nullptr) return Status::Unavailable("a caller left before its answer");
  const size_t index = answered_++ % kAnswersMax;
  rdma::WorkList& list = lists_[index];
  if (list.pending()) BONSAI_RETURN_IF_ERROR(worker_->wait(list, Connection::kWaitMs));
  list.clear();
  const rdma::Slice slice = answers_->slice(index * answer_bytes_, answer_bytes_);
  std::memcpy(slice.data(), bytes, answer_bytes_);
  list.write(*peer, slice, to);
  return worker_->post(&list);
}

}  // namespace bonsai::bench::rivals
