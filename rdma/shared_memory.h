// SPDX-License-Identifier: Apache-2.0
// Memory that every provider can register with all rights: zeroed and page-aligned. It is a mapped file without a name,
// so that providers between processes can pass it to their peers.
#ifndef BONSAI_RDMA_SHARED_MEMORY_H_
#define BONSAI_RDMA_SHARED_MEMORY_H_

#include <cstddef>
#include <memory>
#include <span>

#include "base/nvm/os_file.h"
#include "bonsai/status.h"

namespace bonsai::rdma {

// Mapped while the object lives. Thread-safety: const members from any thread.
class SharedMemory {
 public:
  // Errors: InvalidArgument (no bytes), NoSpace (no memory, or a limit on it).
  static Status make(size_t bytes, std::unique_ptr<SharedMemory>* memory);
  // Maps memory that another process made and sent as a descriptor. Errors: InvalidArgument (it has another size, or
  // its maker could still shorten it), IoError.
  static Status adopt(base::OsFile file, size_t bytes, bool writable, std::unique_ptr<SharedMemory>* memory);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] int fd() const { return file_.fd(); }
  // A read-only descriptor for other processes. Not open if the limit of open files is reached.
  [[nodiscard]] base::OsFile read_only_file() const;

 private:
  SharedMemory() = default;

  base::OsFile file_;
  std::span<std::byte> bytes_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SHARED_MEMORY_H_
