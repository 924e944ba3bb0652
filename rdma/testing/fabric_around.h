// SPDX-License-Identifier: Apache-2.0
// A fabric around another one: it passes every call on, and a test's worker overrides the calls that it changes.
#ifndef BONSAI_RDMA_TESTING_FABRIC_AROUND_H_
#define BONSAI_RDMA_TESTING_FABRIC_AROUND_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "rdma/fabric.h"

namespace bonsai::rdma {

class WorkerAround : public Worker {
 public:
  explicit WorkerAround(std::unique_ptr<Worker> below) : below_(std::move(below)) {}

  Status listen(const std::string& address, const Hello& own, Admit admit) override {
    return below_->listen(address, own, std::move(admit));
  }
  Status greet(const std::string& address, const Hello& own, uint64_t limit_ms, std::unique_ptr<Peer>* peer,
               Challenge* challenge) override {
    return below_->greet(address, own, limit_ms, peer, challenge);
  }
  size_t poll() override { return below_->poll(); }
  Status set_receive_ring(Slice memory, size_t message_bytes_max) override {
    return below_->set_receive_ring(memory, message_bytes_max);
  }

 protected:
  Status start(WorkList* list) override { return below_->post(list); }
  bool try_accept(std::unique_ptr<Peer>* peer) override { return below_->accept(0, peer).ok(); }
  bool try_receive(Message* message) override { return below_->receive(0, message).ok(); }
  void release_buffer(size_t) override {}  // messages belong to the worker below

 private:
  const std::unique_ptr<Worker> below_;
};

class FabricAround final : public Fabric {
 public:
  using Around = std::function<std::unique_ptr<Worker>(std::unique_ptr<Worker> below)>;
  FabricAround(std::unique_ptr<Fabric> below, Around around) : below_(std::move(below)), around_(std::move(around)) {}

  [[nodiscard]] const Capabilities& capabilities() const override { return below_->capabilities(); }
  Status register_region(std::span<std::byte> memory, Rights rights, std::unique_ptr<Region>* region) override {
    return below_->register_region(memory, rights, region);
  }
  Status make_worker(std::unique_ptr<Worker>* worker) override {
    std::unique_ptr<Worker> made;
    const Status status = below_->make_worker(&made);
    if (status.ok()) *worker = around_(std::move(made));
    return status;
  }

 private:
  const std::unique_ptr<Fabric> below_;
  const Around around_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_FABRIC_AROUND_H_
