// SPDX-License-Identifier: Apache-2.0
// A fabric whose device breaks a promise of fabric.h: it answers some atomics without carrying them out.
#ifndef BONSAI_RDMA_TESTING_LOSSY_FABRIC_H_
#define BONSAI_RDMA_TESTING_LOSSY_FABRIC_H_

#include <memory>
#include <utility>

#include "rdma/testing/fabric_around.h"

namespace bonsai::rdma {

class LossyWorker final : public WorkerAround {
 public:
  LossyWorker(std::unique_ptr<Worker> below, Verb lost) : WorkerAround(std::move(below)), lost_(lost) {}

 protected:
  // Every second atomic of the lost verb leaves the word unchanged.
  Status start(WorkList* list) override {
    for (size_t i = 0; i < list->size(); ++i) {
      WorkRequest& request = list->request(i);
      if (request.verb != lost_ || ++counted_ % 2 != 0) continue;
      request.operand = request.verb == Verb::kFaa ? 0 : request.expected;
    }
    return WorkerAround::start(list);
  }

 private:
  const Verb lost_;  // FAA or CAS; another: none
  uint64_t counted_ = 0;
};

inline std::unique_ptr<Fabric> make_lossy(std::unique_ptr<Fabric> below, Verb lost) {
  return std::make_unique<FabricAround>(std::move(below), [lost](std::unique_ptr<Worker> worker) {
    return std::make_unique<LossyWorker>(std::move(worker), lost);
  });
}

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_LOSSY_FABRIC_H_
