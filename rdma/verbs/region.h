// SPDX-License-Identifier: Apache-2.0
// Memory registered with a device.
#ifndef BONSAI_RDMA_VERBS_REGION_H_
#define BONSAI_RDMA_VERBS_REGION_H_

#include <memory>
#include <span>
#include <string>

#include "rdma/region.h"
#include "rdma/verbs/device.h"

namespace bonsai::rdma::verbs {

// The destructor deregisters the memory: when it returns, the device has dropped the key and ended accesses by it.
class VerbsRegion final : public Region {
 public:
  // Errors: as Fabric::register_region.
  static Status make(const Device& device, std::span<std::byte> memory, Rights rights, std::unique_ptr<Region>* region);

  [[nodiscard]] bool is_of(const Device& device) const { return registered_->pd == device.domain(); }
  [[nodiscard]] uint32_t local_key() const { return registered_->lkey; }

 private:
  VerbsRegion(std::span<std::byte> memory, Rights rights, MemoryRegion registered);

  MemoryRegion registered_;
};

// Explains why memory was not registered and what to use instead. `error` is ibv_reg_mr's errno.
Status explain_refusal(const std::string& device, std::span<const std::byte> memory, int error);

}  // namespace bonsai::rdma::verbs

#endif  // BONSAI_RDMA_VERBS_REGION_H_
