// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/medium_kind.h"

#include <cpuid.h>
#include <libpmem.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/check.h"
#include "base/nvm/os_file.h"

namespace bonsai::base {
namespace {

bool is_dax_device(dev_t device) {
  const std::string link =
      "/sys/dev/char/" + std::to_string(major(device)) + ":" + std::to_string(minor(device)) + "/subsystem";
  char target[512];
  const ssize_t n = ::readlink(link.c_str(), target, sizeof target);
  if (n <= 0) return false;
  const std::string_view subsystem(target, static_cast<size_t>(n));
  return subsystem.substr(subsystem.find_last_of('/') + 1) == "dax";
}

// Tries to map the file. Mount options and device attributes are no proof that this works.
bool maps_with_sync(int fd) {
  void* const page = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
  if (page == MAP_FAILED) return false;
  ::munmap(page, 4096);
  return true;
}

MediumKind kind_of_file(int fd) {
  struct statfs system = {};
  if (::fstatfs(fd, &system) != 0) return MediumKind::kFile;
  const auto magic = static_cast<uint64_t>(system.f_type);
  if (magic == TMPFS_MAGIC) return MediumKind::kTmpfs;
  if (magic == HUGETLBFS_MAGIC) return MediumKind::kHugetlb;
  return maps_with_sync(fd) ? MediumKind::kFsdax : MediumKind::kFile;
}

bool environment_says(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

std::string_view medium_kind_name(MediumKind kind) {
  switch (kind) {
    case MediumKind::kDevdax:
      return "devdax";
    case MediumKind::kFsdax:
      return "fsdax";
    case MediumKind::kTmpfs:
      return "tmpfs";
    case MediumKind::kHugetlb:
      return "hugetlb";
    case MediumKind::kFile:
      return "plain file";
    case MediumKind::kMemory:
      return "DRAM";
  }
  return "unknown";
}

Status detect_medium_kind(int fd, const std::string& path, MediumKind* kind) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return os_error("examine", path, errno);
  if (S_ISDIR(info.st_mode)) return os_error("use", path, EISDIR);
  if (S_ISREG(info.st_mode)) {
    *kind = kind_of_file(fd);
    return Status::OK();
  }
  if (S_ISCHR(info.st_mode) && is_dax_device(info.st_rdev)) {
    *kind = MediumKind::kDevdax;
    return Status::OK();
  }
  if (S_ISBLK(info.st_mode)) {
    return Status::NotSupported(path +
                                " is a block device: mount a file system on it (ext4 or xfs, -o dax) and name a " +
                                "file there, or make it a DAX device (ndctl create-namespace --mode=devdax)");
  }
  return Status::NotSupported(path + " is neither a regular file nor a DAX device (/dev/daxX.Y)");
}

PersistenceDomain resolve_domain(MediumKind kind, PersistenceDomain declared) {
  if (declared != PersistenceDomain::kAuto) return declared;
  return !is_emulated(kind) && pmem_has_auto_flush() == 1 ? PersistenceDomain::kEadr : PersistenceDomain::kAdr;
}

std::string_view flush_instruction_name() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    constexpr unsigned kClwb = 1U << 24, kClflushopt = 1U << 23;
    if ((ebx & kClwb) != 0 && !environment_says("PMEM_NO_CLWB")) return "clwb";
    if ((ebx & kClflushopt) != 0 && !environment_says("PMEM_NO_CLFLUSHOPT")) return "clflushopt";
  }
  return "clflush";
}

std::string describe_medium(MediumKind kind, PersistenceDomain domain, bool by_msync) {
  BONSAI_CHECK(domain != PersistenceDomain::kAuto);
  std::string text(medium_kind_name(kind));
  if (kind == MediumKind::kMemory) return text + " (no NVM), volatile";
  text += is_emulated(kind) ? " (emulated NVM), " : " (NVM), ";
  if (kind == MediumKind::kFile) {
    text += by_msync ? "durable by msync (slow)" : "never synced";
  } else if (domain == PersistenceDomain::kEadr) {
    text += "no flush";
  } else {
    text.append("flush ").append(flush_instruction_name());
  }
  return text + (domain == PersistenceDomain::kEadr ? ", domain eADR" : ", domain ADR");
}

Status describe_medium(const std::string& path, PersistenceDomain declared, std::string* text) {
  if (path.empty()) return Status::InvalidArgument("the path is empty: name a file or a DAX device");
  MediumKind kind = MediumKind::kFile;
  OsFile file = open_file(path, O_RDONLY | O_NONBLOCK);
  if (file.is_open()) {
    if (Status status = detect_medium_kind(file.fd(), path, &kind); !status.ok()) return status;
  } else {
    if (errno != ENOENT) return os_error("open", path, errno);
    // A temporary file without a name shows the kind that a file here would have. If there can be none, the directory
    // is examined, which does not show whether files can be mapped with MAP_SYNC.
    const std::string directory = directory_of(path);
    file = open_file(directory, O_TMPFILE | O_RDWR, 0600);
    if (!file.is_open()) file = open_file(directory, O_RDONLY | O_DIRECTORY);
    if (!file.is_open()) {
      if (errno == ENOENT)
        return Status::IoError("there is no directory " + directory + ": create it (mkdir -p) first");
      return os_error("open the directory", directory, errno);
    }
    kind = kind_of_file(file.fd());
  }
  *text = describe_medium(kind, resolve_domain(kind, declared));
  return Status::OK();
}

}  // namespace bonsai::base
