// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/connection.h"

#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace bonsai::bench::rivals {

Status Connection::make(rdma::Fabric* fabric, uint32_t number, const std::vector<MemoryNodeName>& nodes,
                        std::unique_ptr<Connection>* connection) {
  std::unique_ptr<Connection> made(new Connection(fabric, number, nodes));
  BONSAI_RETURN_IF_ERROR(fabric->make_worker(&made->worker_));
  rdma::Hello hello;
  hello.node = number;
  for (const MemoryNodeName& node : nodes) {
    std::unique_ptr<rdma::Peer> peer;
    BONSAI_RETURN_IF_ERROR(made->worker_->connect(node.address, hello, kWaitMs, &peer));
    made->peers_.push_back(std::move(peer));
  }
  *connection = std::move(made);
  return Status::OK();
}

// None once the connection is closed: then nothing is added, and run() says so.
rdma::Peer* Batch::peer(uint16_t node) const {
  if (connection_->peers_.empty()) return nullptr;
  BONSAI_CHECK(node < connection_->peers_.size());
  return connection_->peers_[node].get();
}

void Batch::read(Address from, rdma::Slice to) {
  if (rdma::Peer* to_node = peer(from.node)) {
    list_.read(*to_node, connection_->nodes_[from.node].memory.at(from.offset), to);
  }
}

void Batch::write(rdma::Slice from, Address to) {
  if (rdma::Peer* to_node = peer(to.node)) {
    list_.write(*to_node, from, connection_->nodes_[to.node].memory.at(to.offset));
  }
}

void Batch::cas(Address word, uint64_t expected, uint64_t desired, rdma::Slice old) {
  if (rdma::Peer* to_node = peer(word.node)) {
    list_.cas(*to_node, connection_->nodes_[word.node].memory.at(word.offset), expected, desired, old);
  }
}

void Batch::masked_cas(Address word, rdma::WorkList::Masked expected, rdma::WorkList::Masked desired, rdma::Slice old) {
  if (rdma::Peer* to_node = peer(word.node)) {
    list_.masked_cas(*to_node, connection_->nodes_[word.node].memory.at(word.offset), expected, desired, old);
  }
}

void Batch::send(uint16_t node, rdma::Slice message) {
  if (rdma::Peer* to_node = peer(node)) list_.send(*to_node, message);
}

Status Batch::run() {
  BONSAI_RETURN_IF_ERROR(post());
  return finish();
}

Status Batch::post() {
  if (connection_->peers_.empty()) {
    list_.clear();
    return Status::Unavailable("the connection to the memory nodes was closed after a wait expired; connect anew");
  }
  Status status = connection_->worker_->post(&list_);
  if (!status.ok()) list_.clear();
  return status;
}

Status Batch::finish() {
  if (list_.size() == 0) return Status::OK();
  Status status = connection_->worker_->wait(list_, Connection::kWaitMs);
  if (list_.pending()) {
    connection_->peers_.clear();
    static_cast<void>(connection_->worker_->poll());
  }
  list_.clear();
  return status;
}

}  // namespace bonsai::bench::rivals
