// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/os_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
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

bool is_name_of(const std::string& path, int fd) {
  struct stat named = {}, open = {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(fd, &open) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

Status remove_name(const std::string& path, int fd) {
  struct stat info = {};
  const bool is_link = ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
  std::error_code ignored;
  const std::string file = is_link ? std::filesystem::canonical(path, ignored).string() : path;
  if (!is_name_of(file, fd)) {
    return Status::IoError("cannot remove " + path + ": it was renamed, replaced or removed meanwhile; see what is " +
                           "there now (ls -l), and repeat");
  }
  if (::unlink(file.c_str()) != 0) return os_error("remove", file, errno);
  return !is_link || ::unlink(path.c_str()) == 0 ? Status::OK() : os_error("remove", path, errno);
}

Status give_name(int fd, const std::string& from, const std::string& to) {
  int error = EINVAL;
  if (!from.empty()) {
    if (!is_name_of(from, fd)) return Status::IoError(from + " was renamed or removed meanwhile; repeat");
    error = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  }
  if (error == EINVAL || error == ENOSYS) {  // the file system cannot rename so, or there is nothing to rename
    const std::string self = "/proc/self/fd/" + std::to_string(fd);
    error = ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
    if (error == 0 && !from.empty()) static_cast<void>(remove_name(from, fd));
  }
  if (error == EEXIST) {
    return Status::Busy(to + " has been made by somebody else meanwhile, and stays as it is; open that one, or name " +
                        "another file");
  }
  return error == 0 ? Status::OK() : os_error("name the new file", to, error);
}

// While `judge` looks at the file its lock is held, so that no program of ours begins to use it.
bool remove_unused(const std::string& path, size_t n, const std::function<bool(std::span<const std::byte>)>& judge) {
  OsFile file = open_file(path, O_RDONLY | O_NONBLOCK);
  struct stat info = {};
  if (!file.is_open() || !file.try_lock(/*exclusive=*/true) || ::fstat(file.fd(), &info) != 0) return false;
  std::vector<std::byte> first(n);
  return S_ISREG(info.st_mode) && ::pread(file.fd(), first.data(), n, 0) > 0 && judge(first) &&
         is_name_of(path, file.fd()) && ::unlink(path.c_str()) == 0;
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
