// SPDX-License-Identifier: Apache-2.0
#include "rdma/shm/backing.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/sizes.h"
#include "base/status_macros.h"

namespace bonsai::rdma {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
const std::string kOwnFiles = "/proc/self/fd/";

// One line of /proc/self/maps.
struct Mapped {
  uint64_t begin = 0, end = 0, offset = 0, inode = 0;
  bool shared = false;
  dev_t device = 0;
  std::string path;
};

bool parse(const std::string& line, Mapped* mapped) {
  std::istringstream in(line);
  char dash = 0, colon = 0;
  std::string rights;
  unsigned major_number = 0, minor_number = 0;
  in >> std::hex >> mapped->begin >> dash >> mapped->end >> rights >> mapped->offset >> major_number >> colon >>
      minor_number >> std::dec >> mapped->inode >> std::ws;
  if (in.fail() || rights.size() < 4) return false;
  std::getline(in, mapped->path);
  mapped->shared = rights[3] == 's';
  mapped->device = makedev(major_number, minor_number);
  return true;
}

bool is_file(const struct stat& found, const Mapped& mapped) {
  return found.st_ino == mapped.inode && (S_ISCHR(found.st_mode) || found.st_dev == mapped.device);
}

// Not open if the name is of another file, or of none.
base::OsFile open_if_mapped(const char* name, const Mapped& mapped, int flags) {
  struct stat found {};
  // Checks the file before opening it: opening a pipe or a device may block or have effects.
  if (::stat(name, &found) != 0 || !is_file(found, mapped)) return {};
  base::OsFile file = base::open_file(name, flags);
  if (!file.is_open() || ::fstat(file.fd(), &found) != 0 || !is_file(found, mapped)) return {};
  return file;
}

// Opens the mapped file: by its name, or, if it has none any more, through a descriptor that this process has open.
// Other threads may close such descriptors and reuse their numbers meanwhile, so they are only examined by name.
base::OsFile open_mapped(const Mapped& mapped, int flags) {
  base::OsFile file = open_if_mapped(mapped.path.c_str(), mapped, flags);
  for (const std::string& number : file.is_open() ? std::vector<std::string>() : base::names_in(kOwnFiles)) {
    file = open_if_mapped((kOwnFiles + number).c_str(), mapped, flags);
    if (file.is_open()) break;
  }
  return file;
}

uint64_t page_bytes(int fd) {
  struct stat found {};
  struct statfs system {};
  if (::fstat(fd, &found) == 0 && S_ISCHR(found.st_mode)) return kHugePageBytes;
  if (::fstatfs(fd, &system) == 0 && system.f_type == HUGETLBFS_MAGIC) return static_cast<uint64_t>(system.f_bsize);
  return 4096;
}

}  // namespace

Status find_backing(std::span<const std::byte> memory, bool writable, ShmBacking* backing) {
  BONSAI_CHECK(!memory.empty());
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t end = begin + memory.size();
  Mapped whole;
  std::string text_of_maps;
  if (!base::read_text("/proc/self/maps", SIZE_MAX, &text_of_maps)) {
    return base::os_error("read", "/proc/self/maps", errno);
  }
  std::istringstream maps(text_of_maps);
  for (std::string line; std::getline(maps, line);) {
    Mapped mapped;
    if (!parse(line, &mapped) || mapped.end <= begin || mapped.begin >= end) continue;
    if (!mapped.shared || mapped.inode == 0) break;
    if (whole.end == 0) {
      whole = mapped;
    } else if (mapped.begin == whole.end && mapped.inode == whole.inode && mapped.device == whole.device &&
               mapped.offset == whole.offset + (whole.end - whole.begin)) {
      whole.end = mapped.end;
    } else {
      break;
    }
  }
  if (whole.begin > begin || whole.end < end) {
    return Status::NotSupported(
        "this memory is not a shared mapping of one file, so no other process can reach it; register a pool's mapping "
        "or rdma::SharedMemory");
  }
  backing->file = open_mapped(whole, writable ? O_RDWR : O_RDONLY);
  if (!backing->file.is_open()) {
    return Status::IoError("no descriptor leads to the mapped file " + whole.path + " any more; keep one open");
  }
  backing->offset = whole.offset + (begin - whole.begin);
  return Status::OK();
}

Status share_backing(int file, ShmBacking* backing) {
  BONSAI_CHECK(file >= 0);
  backing->file = base::duplicate(file);
  backing->offset = 0;
  return backing->file.is_open() ? Status::OK() : base::os_error("share", "a pool's file", errno);
}

Status map_backing(const base::OsFile& file, uint64_t offset, uint64_t bytes, bool writable,
                   std::span<std::byte>* mapping, std::byte** memory) {
  const uint64_t page = page_bytes(file.fd());
  const uint64_t first = offset / page * page;
  const uint64_t length = base::round_up(base::add_sizes(offset % page, bytes), page);
  void* mapped = ::mmap(nullptr, length, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file.fd(),
                        static_cast<off_t>(first));
  if (mapped == MAP_FAILED) return base::os_error("mmap", "a peer's region", errno);
  static_cast<void>(::madvise(mapped, length, MADV_DONTFORK));
  *mapping = {static_cast<std::byte*>(mapped), length};
  *memory = static_cast<std::byte*>(mapped) + (offset - first);
  return Status::OK();
}

void unmap_backing(std::span<std::byte> mapping) {
  if (!mapping.empty()) ::munmap(mapping.data(), mapping.size());
}

}  // namespace bonsai::rdma
