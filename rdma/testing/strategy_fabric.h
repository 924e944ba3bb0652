// SPDX-License-Identifier: Apache-2.0
// A fabric that reports whether its device has RDMA FLUSH as the test decides, independent of the fabric below.
#ifndef BONSAI_RDMA_TESTING_STRATEGY_FABRIC_H_
#define BONSAI_RDMA_TESTING_STRATEGY_FABRIC_H_

#include "rdma/fabric.h"

namespace bonsai::rdma {

class StrategyFabric final : public Fabric {
 public:
  StrategyFabric(Fabric& below, bool remote_flush) : below_(below), capabilities_(below.capabilities()) {
    capabilities_.remote_flush = remote_flush;
  }
  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  Status register_region(std::span<std::byte> memory, Rights rights, std::unique_ptr<Region>* region) override {
    return below_.register_region(memory, rights, region);
  }
  Status make_worker(std::unique_ptr<Worker>* worker) override { return below_.make_worker(worker); }

 private:
  Fabric& below_;
  Capabilities capabilities_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_STRATEGY_FABRIC_H_
