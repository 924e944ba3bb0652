// SPDX-License-Identifier: Apache-2.0
#include "rdma/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace bonsai::rdma {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

const char* remedy(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    case EFBIG:
      return "; raise the limit of file sizes (ulimit -f)";
    default:
      return "; ask for less, or give the process more memory (ulimit -v, the memory limit of the container)";
  }
}

}  // namespace

Status SharedMemory::make(size_t bytes, std::unique_ptr<SharedMemory>* memory) {
  if (bytes == 0) return Status::InvalidArgument("shared memory of no bytes; ask for at least one");
  std::unique_ptr<SharedMemory> made(new SharedMemory);
  made->file_ = base::make_memory_file("bonsai", MFD_ALLOW_SEALING);
  const auto refused = [&](const char* call) {
    const int error = errno;
    return Status::NoSpace(std::to_string(bytes) + " bytes of shared memory: " + call + ": " + std::strerror(error) +
                           remedy(error));
  };
  if (!made->file_.is_open()) return refused("memfd_create");
  errno = EFBIG;
  if (!base::fits_file_size_limit(bytes)) return refused("ulimit -f");
  if (::ftruncate(made->fd(), static_cast<off_t>(bytes)) != 0) return refused("ftruncate");
  // Every process that maps it can rely on its size.
  if (::fcntl(made->fd(), F_ADD_SEALS, kSeals) != 0) return refused("fcntl");
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made->fd(), 0);
  if (mapped == MAP_FAILED) return refused("mmap");
  made->bytes_ = {static_cast<std::byte*>(mapped), bytes};
  *memory = std::move(made);
  return Status::OK();
}

Status SharedMemory::adopt(base::OsFile file, size_t bytes, bool writable, std::unique_ptr<SharedMemory>* memory) {
  struct stat found {};
  if (::fstat(file.fd(), &found) != 0 || found.st_size != static_cast<off_t>(bytes) || bytes == 0 ||
      (::fcntl(file.fd(), F_GET_SEALS) & kSeals) != kSeals) {
    return Status::InvalidArgument("a peer sent invalid shared memory; run the same version on both nodes");
  }
  std::unique_ptr<SharedMemory> made(new SharedMemory);
  void* mapped = ::mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file.fd(), 0);
  if (mapped == MAP_FAILED) return base::os_error("mmap", "a peer's memory", errno);
  made->file_ = std::move(file);
  made->bytes_ = {static_cast<std::byte*>(mapped), bytes};
  *memory = std::move(made);
  return Status::OK();
}

base::OsFile SharedMemory::read_only_file() const {
  return base::open_file("/proc/self/fd/" + std::to_string(fd()), O_RDONLY);
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace bonsai::rdma
