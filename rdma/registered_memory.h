// SPDX-License-Identifier: Apache-2.0
// Registered memory of a kind that every provider and device accepts (shared_memory.h). For other memory, such as a
// pool's, use Fabric::register_region, which explains a refusal.
#ifndef BONSAI_RDMA_REGISTERED_MEMORY_H_
#define BONSAI_RDMA_REGISTERED_MEMORY_H_

#include <cstddef>
#include <memory>
#include <span>

#include "bonsai/status.h"
#include "rdma/fabric.h"
#include "rdma/shared_memory.h"

namespace bonsai::rdma {

// Zeroed, page-aligned. Requires: destroyed before its fabric, and after all local work on it is complete.
// Thread-safety: const members from any thread.
class RegisteredMemory {
 public:
  // Errors: those of SharedMemory::make and Fabric::register_region.
  static Status make(Fabric& fabric, size_t bytes, Rights rights, std::unique_ptr<RegisteredMemory>* memory);

  [[nodiscard]] std::byte* data() const { return memory_->bytes().data(); }
  [[nodiscard]] RemoteRegion remote() const { return region_->remote(); }
  // Requires: [offset, offset + bytes) is in it.
  [[nodiscard]] Slice slice(size_t offset, size_t bytes) const { return region_->slice(offset, bytes); }

 private:
  RegisteredMemory() = default;

  std::unique_ptr<SharedMemory> memory_;
  std::unique_ptr<Region> region_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_REGISTERED_MEMORY_H_
