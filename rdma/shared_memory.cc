#include "rdma/shared_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace bonsai::rdma {

Status SharedMemory::make(size_t bytes, std::unique_ptr<SharedMemory>* memory) {
  if (bytes == 0) return Status::InvalidArgument("shared memory of no bytes; ask for at least one");
  std::unique_ptr<SharedMemory> made(new SharedMemory);
  made->file_ = base::OsFile(::memfd_create("bonsai", MFD_CLOEXEC));
  const auto refused = [&](const char* call) {
    return Status::NoSpace(std::to_string(bytes) + " bytes of shared memory: " + call + ": " + std::strerror(errno) +
                           "; ask for less or raise the limit");
  };
  if (!made->file_.is_open()) return refused("memfd_create");
  if (::ftruncate(made->fd(), static_cast<off_t>(bytes)) != 0) return refused("ftruncate");
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made->fd(), 0);
  if (mapped == MAP_FAILED) return refused("mmap");
  made->bytes_ = {static_cast<std::byte*>(mapped), bytes};
  *memory = std::move(made);
  return Status::OK();
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace bonsai::rdma
