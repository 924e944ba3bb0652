// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/testing/failing_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string_view>

namespace bonsai::testing {
namespace {

std::atomic<bool> counting{false};
std::atomic<uint64_t> calls{0};
std::string folder_of_calls;  // set while nothing is counted
uint64_t call_to_fail = 0;    // set while nothing is counted
std::atomic<const char*> failed_call{nullptr};

// Whether this call is the one that fails; errno is set then.
bool fails(const char* name, int error = EIO) {
  if (!counting.load() || calls.fetch_add(1) + 1 != call_to_fail) return false;
  failed_call.store(name);
  errno = error;
  return true;
}
bool fails(const char* name, const char* path, int error = EIO) {
  return counting.load() && std::string_view(path).starts_with(folder_of_calls) && fails(name, error);
}
bool fails(const char* name, int fd, int error) {
  if (!counting.load() || fd < 0) return false;
  char path[512] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return ::readlink(link.c_str(), path, sizeof path - 1) > 0 && fails(name, path, error);
}

// The library's function of that name.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void fail_call(const std::string& folder, uint64_t n) {
  folder_of_calls = folder;
  calls.store(0);
  failed_call.store(nullptr);
  call_to_fail = n;
  counting.store(true);
}

uint64_t end_failing(std::string* failed) {
  counting.store(false);
  const char* const name = failed_call.load();
  if (failed != nullptr) *failed = name == nullptr ? "" : name;
  return calls.load();
}

}  // namespace bonsai::testing

using bonsai::testing::fails;
using bonsai::testing::next;

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static auto* const real = next<int(const char*, int, ...)>("open");
  return fails("open", path) ? -1 : real(path, flags, mode);
}
int stat(const char* path, struct stat* info) noexcept {
  static auto* const real = next<int(const char*, struct stat*)>("stat");
  return fails("stat", path) ? -1 : real(path, info);
}
int lstat(const char* path, struct stat* info) noexcept {
  static auto* const real = next<int(const char*, struct stat*)>("lstat");
  return fails("lstat", path) ? -1 : real(path, info);
}
int fstat(int fd, struct stat* info) noexcept {
  static auto* const real = next<int(int, struct stat*)>("fstat");
  return fails("fstat", fd, EIO) ? -1 : real(fd, info);
}
int ftruncate(int fd, off_t bytes) noexcept {
  static auto* const real = next<int(int, off_t)>("ftruncate");
  return fails("ftruncate", fd, EIO) ? -1 : real(fd, bytes);
}
int truncate(const char* path, off_t bytes) noexcept {
  static auto* const real = next<int(const char*, off_t)>("truncate");
  return fails("truncate", path) ? -1 : real(path, bytes);
}
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  static auto* const real = next<int(int, off_t, off_t)>("posix_fallocate");
  return fails("posix_fallocate", fd, ENOSPC) ? ENOSPC : real(fd, offset, bytes);
}
void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  static auto* const real = next<void*(void*, size_t, int, int, int, off_t)>("mmap");
  return fails("mmap", fd, ENOMEM) ? MAP_FAILED : real(address, bytes, protection, flags, fd, offset);
}
int msync(void* /*address*/, size_t /*bytes*/, int /*flags*/) { return fails("msync") ? -1 : 0; }
int fsync(int fd) { return fails("fsync", fd, EIO) ? -1 : 0; }
int flock(int fd, int operation) noexcept {
  static auto* const real = next<int(int, int)>("flock");
  return fails("flock", fd, EIO) ? -1 : real(fd, operation);
}
ssize_t pwrite(int fd, const void* bytes, size_t n, off_t offset) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return fails("pwrite", fd, ENOSPC) ? -1 : real(fd, bytes, n, offset);
}
int link(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("link");
  return fails("link", to) ? -1 : real(from, to);
}
int linkat(int from_fd, const char* from, int to_fd, const char* to, int flags) noexcept {
  static auto* const real = next<int(int, const char*, int, const char*, int)>("linkat");
  return fails("linkat", to) ? -1 : real(from_fd, from, to_fd, to, flags);
}
int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return fails("rename", to) ? -1 : real(from, to);
}
int renameat2(int from_fd, const char* from, int to_fd, const char* to, unsigned int flags) noexcept {
  static auto* const real = next<int(int, const char*, int, const char*, unsigned int)>("renameat2");
  return fails("renameat2", to) ? -1 : real(from_fd, from, to_fd, to, flags);
}
int unlink(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("unlink");
  return fails("unlink", path) ? -1 : real(path);
}
int remove(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("remove");
  return fails("remove", path) ? -1 : real(path);
}

}  // extern "C"
