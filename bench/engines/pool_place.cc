// SPDX-License-Identifier: Apache-2.0
#include "bench/engines/pool_place.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace bonsai::bench {
namespace {

constexpr const char* kSharedMemory = "/dev/shm";
constexpr long kTmpfsMagic = 0x01021994;

// MemAvailable of the kernel, or no limit when it does not say.
uint64_t memory_available() {
  std::ifstream in("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  for (std::string rest; in >> name >> kib; std::getline(in, rest)) {
    if (name == "MemAvailable:") return kib << 10;
  }
  return UINT64_MAX;
}

// Bytes that a file in `directory` may take; tmpfs promises more than the machine has.
uint64_t room_in(const std::string& directory) {
  struct statfs fs;
  if (statfs(directory.c_str(), &fs) != 0) return 0;
  const uint64_t free_bytes = fs.f_bavail * static_cast<uint64_t>(fs.f_bsize);
  return fs.f_type == kTmpfsMagic ? std::min(free_bytes, memory_available()) : free_bytes;
}

std::string mib(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

Status PoolPlace::make(const std::string& chosen, const std::string& fallback, uint64_t bytes) {
  remove();
  if (chosen.find("://") != std::string::npos) {
    return Status::InvalidArgument("--pool-dir names another node, " + chosen +
                                   ", whose pools only bonsai's engines take; give --engines=bonsai, or a directory");
  }
  std::string parent = chosen;
  if (parent.empty()) {
    const bool fits = access(kSharedMemory, W_OK) == 0 && room_in(kSharedMemory) >= bytes;
    parent = fits ? kSharedMemory : fallback;
  }
  std::string made = parent + "/bonsai-bench-XXXXXX";
  if (mkdtemp(made.data()) == nullptr) {
    return Status::IoError("cannot make a directory in " + parent + ": " + std::strerror(errno) +
                           "; give a writable directory with --pool-dir");
  }
  path_ = made;
  if (const uint64_t room = room_in(parent); room < bytes) {
    remove();
    return Status::NoSpace(parent + " has room for " + mib(room) + ", and the pool wants " + mib(bytes) +
                           "; use fewer --records or another --pool-dir");
  }
  return Status::OK();
}

MediumUse PoolPlace::medium_of_files() const {
  struct statfs fs;
  if (statfs(path_.c_str(), &fs) == 0 && fs.f_type == kTmpfsMagic) {
    return {.text = "files on tmpfs (emulated disk: a sync reaches no device)", .emulated = true};
  }
  return {.text = "files on a disk, synced", .emulated = false};
}

uint64_t PoolPlace::bytes_of_files() const {
  constexpr uint64_t kStatBlockBytes = 512;
  uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path_, ignored)) {
    struct stat file;
    if (stat(entry.path().c_str(), &file) == 0) bytes += static_cast<uint64_t>(file.st_blocks) * kStatBlockBytes;
  }
  return bytes;
}

void PoolPlace::remove() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  path_.clear();
}

}  // namespace bonsai::bench
