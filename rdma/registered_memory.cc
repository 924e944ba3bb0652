// SPDX-License-Identifier: Apache-2.0
#include "rdma/registered_memory.h"

#include "base/status_macros.h"

namespace bonsai::rdma {

Status RegisteredMemory::make(Fabric& fabric, size_t bytes, Rights rights, std::unique_ptr<RegisteredMemory>* memory) {
  std::unique_ptr<RegisteredMemory> made(new RegisteredMemory);
  BONSAI_RETURN_IF_ERROR(SharedMemory::make(bytes, &made->memory_));
  BONSAI_RETURN_IF_ERROR(fabric.register_region(made->memory_->bytes(), rights, &made->region_));
  *memory = std::move(made);
  return Status::OK();
}

}  // namespace bonsai::rdma
