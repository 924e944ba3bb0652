// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/testing/devices.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace bonsai::testing {
namespace {

constexpr unsigned kMajor = 240;  // of no driver: for experiments
constexpr std::string_view kSysfs = "/sys/dev/char/240:";

struct Device {
  dev_t dev;
  ino_t ino;
  off_t bytes;
};
std::mutex mutex;
std::vector<Device> devices;  // by minor number

// The library's function of that name.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void disguise(struct stat* info) {
  const std::lock_guard lock(mutex);
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].dev != info->st_dev || devices[i].ino != info->st_ino) continue;
    info->st_mode = S_IFCHR | 0600;
    info->st_rdev = makedev(kMajor, i);
    info->st_size = 0;
  }
}

// The file of sysfs about a device: its size in bytes.
int open_size(std::string_view path) {
  const size_t number = std::strtoul(path.data() + kSysfs.size(), nullptr, 10);
  const std::lock_guard lock(mutex);
  const std::string text = std::to_string(devices.at(number).bytes) + "\n";
  const int fd = ::memfd_create("size", 0);
  BONSAI_CHECK(::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  return fd;
}

}  // namespace

void make_device(const std::string& path) {
  struct stat info = {};
  BONSAI_CHECK(::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode));
  const std::lock_guard lock(mutex);
  devices.push_back({info.st_dev, info.st_ino, info.st_size});
}

}  // namespace bonsai::testing

using bonsai::testing::disguise;
using bonsai::testing::kSysfs;
using bonsai::testing::next;
using bonsai::testing::open_size;

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  static auto* const real = next<int(const char*, int, ...)>("open");
  const std::string_view asked(path);
  return asked.starts_with(kSysfs) && asked.ends_with("/size") ? open_size(asked) : real(path, flags, mode);
}
int stat(const char* path, struct stat* info) noexcept {
  static auto* const real = next<int(const char*, struct stat*)>("stat");
  const int result = real(path, info);
  if (result == 0) disguise(info);
  return result;
}
int fstat(int fd, struct stat* info) noexcept {
  static auto* const real = next<int(int, struct stat*)>("fstat");
  const int result = real(fd, info);
  if (result == 0) disguise(info);
  return result;
}
ssize_t readlink(const char* path, char* to, size_t n) noexcept {
  static auto* const real = next<ssize_t(const char*, char*, size_t)>("readlink");
  const std::string_view asked(path), subsystem = "../../bus/dax";
  if (!asked.starts_with(kSysfs) || !asked.ends_with("/subsystem")) return real(path, to, n);
  const size_t copied = std::min(n, subsystem.size());
  std::memcpy(to, subsystem.data(), copied);
  return static_cast<ssize_t>(copied);
}

}  // extern "C"
