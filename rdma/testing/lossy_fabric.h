// SPDX-License-Identifier: Apache-2.0
// A fabric whose device breaks a promise of fabric.h: it answers some atomics without carrying them out.
#ifndef BONSAI_RDMA_TESTING_LOSSY_FABRIC_H_
#define BONSAI_RDMA_TESTING_LOSSY_FABRIC_H_

#include <memory>
#include <string>
#include <utility>

#include "rdma/fabric.h"

namespace bonsai::rdma {

class LossyWorker final : public Worker {
 public:
  LossyWorker(std::unique_ptr<Worker> below, Verb lost) : below_(std::move(below)), lost_(lost) {}

  Status listen(const std::string& address, const Hello& own, Admit admit) override {
    return below_->listen(address, own, std::move(admit));
  }
  Status connect(const std::string& address, const Hello& own, uint64_t limit_ms,
                 std::unique_ptr<Peer>* peer) override {
    return below_->connect(address, own, limit_ms, peer);
  }
  size_t poll() override { return below_->poll(); }
  Status set_receive_ring(Slice memory, size_t message_bytes_max) override {
    return below_->set_receive_ring(memory, message_bytes_max);
  }

 protected:
  // Every second atomic of the lost verb leaves the word unchanged.
  Status start(WorkList* list) override {
    for (size_t i = 0; i < list->size(); ++i) {
      WorkRequest& request = list->request(i);
      if (request.verb != lost_ || ++counted_ % 2 != 0) continue;
      request.operand = request.verb == Verb::kFaa ? 0 : request.expected;
    }
    return below_->post(list);
  }
  bool try_accept(std::unique_ptr<Peer>* peer) override { return below_->accept(0, peer).ok(); }
  bool try_receive(Message* message) override { return below_->receive(0, message).ok(); }
  void release_buffer(size_t) override {}  // messages belong to the worker below

 private:
  const std::unique_ptr<Worker> below_;
  const Verb lost_;  // FAA or CAS; another: none
  uint64_t counted_ = 0;
};

class LossyFabric final : public Fabric {
 public:
  LossyFabric(std::unique_ptr<Fabric> below, Verb lost) : below_(std::move(below)), lost_(lost) {}
  [[nodiscard]] const Capabilities& capabilities() const override { return below_->capabilities(); }
  Status register_region(std::span<std::byte> memory, Rights rights, std::unique_ptr<Region>* region) override {
    return below_->register_region(memory, rights, region);
  }
  Status make_worker(std::unique_ptr<Worker>* worker) override {
    std::unique_ptr<Worker> made;
    const Status status = below_->make_worker(&made);
    if (status.ok()) *worker = std::make_unique<LossyWorker>(std::move(made), lost_);
    return status;
  }

 private:
  const std::unique_ptr<Fabric> below_;
  const Verb lost_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_LOSSY_FABRIC_H_
