// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/os_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

namespace bonsai::base {
namespace {

// The remedy for `error`; empty when the reason suffices.
std::string remedy(const std::string& path, int error) {
  switch (error) {
    case ENOENT:
      return "; check the path, or create the pool (--create, Options::create_if_missing)";
    case ENOTDIR:
      return "; a part of the path is a file, not a directory";
    case EACCES:
    case EPERM:
      return "; change its permissions (chmod, chown) or run as a user who may read and write it";
    case EROFS:
      return "; the file system is mounted read-only";
    case EISDIR:
      return "; name a file in that directory, e.g. " + path + "/pool";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    case ENOMEM:
      return "; too little address space or memory, or too many mappings (ulimit -v, sysctl vm.max_map_count)";
    case EFBIG:
      return "; the file system or ulimit -f forbids files of this size";
    case ENOLCK:
    case EOPNOTSUPP:
      return "; this file system lacks a feature that a pool needs, use a local one (ext4, xfs, tmpfs)";
    default:
      return "";
  }
}

std::string free_space(const std::string& path) {
  struct statvfs room = {};
  if (::statvfs(directory_of(path).c_str(), &room) != 0) return "";
  return " (" + std::to_string(uint64_t{room.f_bavail} * room.f_frsize) + " bytes are free there)";
}

}  // namespace

Status os_error(const std::string& what, const std::string& path, int error) {
  const std::string text = "cannot " + what + " " + path + ": " + std::generic_category().message(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return Status::NoSpace(text + free_space(path) + "; choose a smaller size or another file system");
    case EFBIG:
      return Status::NoSpace(text + remedy(path, error));
    default:
      return Status::IoError(text + remedy(path, error));
  }
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

namespace {
// Who removes a file has its lock, so while `judge` looks at it the name stays that of this file.
bool remove_if(const std::string& path, const std::function<bool(int fd, uint64_t bytes)>& judge) {
  OsFile file = open_file(path, O_RDONLY | O_NONBLOCK);
  struct stat info = {};
  return file.is_open() && file.try_lock(/*exclusive=*/true) && ::fstat(file.fd(), &info) == 0 &&
         S_ISREG(info.st_mode) && info.st_nlink != 0 && judge(file.fd(), static_cast<uint64_t>(info.st_size)) &&
         ::unlink(path.c_str()) == 0;
}
}  // namespace

bool remove_unused(const std::string& path, size_t n, const std::function<bool(std::span<const std::byte>)>& judge) {
  return remove_if(path, [&](int fd, uint64_t) {
    std::vector<std::byte> first(n);
    return ::pread(fd, first.data(), n, 0) > 0 && judge(first);
  });
}

bool remove_shorter(const std::string& path, uint64_t bytes) {
  return remove_if(path, [bytes](int, uint64_t has) { return has < bytes; });
}

bool fits_file_size_limit(uint64_t bytes) {
  rlimit limit = {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

Status sync_directory_of(const std::string& path) {
  const std::string directory = directory_of(path);
  const OsFile opened = open_file(directory, O_RDONLY | O_DIRECTORY);
  // EINVAL: a file system without directories to sync, such as hugetlbfs.
  if (opened.is_open() && (::fsync(opened.fd()) == 0 || errno == EINVAL)) return Status::OK();
  return os_error("write back the directory", directory, errno);
}

}  // namespace bonsai::base
