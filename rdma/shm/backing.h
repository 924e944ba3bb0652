// SPDX-License-Identifier: Apache-2.0
// Finds the file that backs a piece of memory, so that another process can map the same bytes. Internal to rdma/shm/.
#ifndef BONSAI_RDMA_SHM_BACKING_H_
#define BONSAI_RDMA_SHM_BACKING_H_

#include <cstdint>
#include <span>

#include "base/nvm/os_file.h"
#include "bonsai/status.h"

namespace bonsai::rdma {

struct ShmBacking {
  base::OsFile file;
  uint64_t offset = 0;  // of the first byte in the file
};

// Finds the file of which `memory` is a shared mapping, and opens it again: for reading, or for writing, too. Errors:
// NotSupported (private memory, or several files; says what to use instead), IoError.
Status find_backing(std::span<const std::byte> memory, bool writable, ShmBacking* backing);

// Duplicates the descriptor `file`, whose beginning is mapped, so that both share one open file description. Errors:
// IoError.
Status share_backing(int file, ShmBacking* backing);

// Maps `bytes` at `offset` of a file. *memory is their first byte; the mapping ends with unmap_backing().
// Children that this process forks do not have it.
Status map_backing(const base::OsFile& file, uint64_t offset, uint64_t bytes, bool writable,
                   std::span<std::byte>* mapping, std::byte** memory);
void unmap_backing(std::span<std::byte> mapping);

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SHM_BACKING_H_
