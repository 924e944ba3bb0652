// SPDX-License-Identifier: Apache-2.0
#include "bench/engines/pool_place.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
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

constexpr const char* kNameBase = "bonsai-bench-";
constexpr const char* kOwner = "/.owner";

// Whether the directory is one of ours whose owner has died; *owner then keeps others from it.
bool is_abandoned(const std::string& path, base::OsFile* owner) {
  struct stat directory, opened, named;
  if (lstat(path.c_str(), &directory) != 0 || !S_ISDIR(directory.st_mode) || directory.st_uid != geteuid())
    return false;
  *owner = base::OsFile(::open((path + kOwner).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!owner->is_open() || ::flock(owner->fd(), LOCK_EX | LOCK_NB) != 0) return false;
  // Another process may have removed it between these two calls.
  return fstat(owner->fd(), &opened) == 0 && S_ISREG(opened.st_mode) && opened.st_uid == geteuid() &&
         lstat((path + kOwner).c_str(), &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

// The owner's mark is removed last, so that the remains are found if the process is killed before that.
void remove_with_contents(const std::string& path) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    if (entry.path() != path + kOwner) std::filesystem::remove_all(entry.path(), ignored);
  }
  std::filesystem::remove_all(path, ignored);
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
  std::string made = parent + "/" + kNameBase + "XXXXXX";
  if (mkdtemp(made.data()) == nullptr) {
    return Status::IoError("cannot make a directory in " + parent + ": " + std::strerror(errno) +
                           "; give a writable directory with --pool-dir");
  }
  path_ = made;
  if (Status status = own(); !status.ok()) {
    remove();
    return status;
  }
  if (const uint64_t room = room_in(parent); room < bytes) {
    remove();
    return Status::NoSpace(parent + " has room for " + mib(room) + ", and the pool wants " + mib(bytes) +
                           "; use fewer --records or another --pool-dir");
  }
  return Status::OK();
}

// The file has its name only once it is locked.
Status PoolPlace::own() {
  const std::string name = path_ + kOwner, unlocked = name + ".new";
  owner_ = base::OsFile(::open(unlocked.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!owner_.is_open()) return base::os_error("make", unlocked, errno);
  if (::flock(owner_.fd(), LOCK_EX | LOCK_NB) != 0) return base::os_error("lock", unlocked, errno);
  if (::rename(unlocked.c_str(), name.c_str()) != 0) return base::os_error("make", name, errno);
  return Status::OK();
}

std::vector<std::string> PoolPlace::remove_abandoned(const std::string& chosen, const std::string& fallback) {
  std::vector<std::string> removed;
  if (chosen.find("://") != std::string::npos) return removed;
  const std::vector<std::string> parents =
      chosen.empty() ? std::vector<std::string>{kSharedMemory, fallback} : std::vector<std::string>{chosen};
  for (const std::string& parent : parents) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
      base::OsFile owner;
      if (!entry.path().filename().string().starts_with(kNameBase) || !is_abandoned(entry.path(), &owner)) continue;
      remove_with_contents(entry.path());
      if (!std::filesystem::exists(entry.path(), ignored)) removed.push_back(entry.path());
    }
  }
  return removed;
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
  remove_with_contents(path_);
  path_.clear();
  owner_ = base::OsFile();
}

}  // namespace bonsai::bench
