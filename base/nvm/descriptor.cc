// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/descriptor.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace bonsai::base {
namespace {

constexpr int kStandardMax = 2;
constexpr int kInterruptionsMax = 1000;

}  // namespace

// The open descriptors of this process. The mutex is held from the call that makes a descriptor until the descriptor is
// in the list, and fork() takes it: so every descriptor that a child inherits is in its copy of the list.
struct Descriptors {
  // Never destroyed, because descriptors may be closed after static destruction.
  static Descriptors& instance() {
    static auto* const all = new Descriptors;
    return *all;
  }

  // Makes a descriptor above 2. `make` returns it, or -1 with errno.
  template <class Make>
  OsFile open(Make make) {
    OsFile file;
    {
      const std::lock_guard lock(mutex_);
      occupy();
      int fd = -1;
      for (int i = 0; fd < 0 && i < kInterruptionsMax && (i == 0 || errno == EINTR); ++i) fd = make();
      keep(fd, &file);
      release();
    }
    return file;
  }

  // Requires: mutex_. Leaves errno as it is.
  void keep(int fd, OsFile* file) {
    file->fd_ = above_standard(fd);
    if (file->fd_ >= 0) link(file);
  }

  // Requires: mutex_.
  void link(OsFile* file) {
    file->next_ = first_;
    file->at_ = &first_;
    if (first_ != nullptr) first_->at_ = &file->next_;
    first_ = file;
  }

  // Requires: mutex_.
  static void unlink(OsFile* file) {
    *file->at_ = file->next_;
    if (file->next_ != nullptr) file->next_->at_ = file->at_;
    file->at_ = nullptr;
    file->next_ = nullptr;
  }

  // Requires: mutex_. Uses O_PATH: such a descriptor can be neither read nor written, and needs no file of its own.
  void occupy() {
    if (++occupants_ > 1) return;
    for (int fd = 0; fd <= kStandardMax;) {
      fd = ::open("/", O_PATH | O_CLOEXEC);
      if (fd < 0) return;
      if (fd > kStandardMax) {
        ::close(fd);
        return;
      }
      places_[static_cast<size_t>(fd)] = true;
    }
  }

  // Requires: mutex_. Leaves errno as it is.
  void release() {
    if (--occupants_ == 0) vacate();
  }

  void vacate() {
    const int error = errno;
    for (int fd = 0; fd <= kStandardMax; ++fd) {
      if (std::exchange(places_[static_cast<size_t>(fd)], false)) ::close(fd);
    }
    errno = error;
  }

  // Runs in a new child, whose only thread holds the mutex.
  void forget() {
    while (first_ != nullptr) {
      ::close(first_->fd_);
      first_->fd_ = -1;
      unlink(first_);
    }
    occupants_ = 0;
    vacate();
  }

  std::mutex mutex_;

 private:
  Descriptors() {
    ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     [] {
                       instance().forget();
                       instance().mutex_.unlock();
                     });
  }

  static int above_standard(int fd) {
    if (fd < 0 || fd > kStandardMax) return fd;
    const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, kStandardMax + 1);
    const int error = errno;
    ::close(fd);
    errno = error;
    return moved;
  }

  OsFile* first_ = nullptr;
  unsigned occupants_ = 0;
  std::array<bool, kStandardMax + 1> places_{};  // which standard places this class occupies
};

StandardPlaces::StandardPlaces() {
  Descriptors& all = Descriptors::instance();
  const std::lock_guard lock(all.mutex_);
  all.occupy();
}

StandardPlaces::~StandardPlaces() {
  Descriptors& all = Descriptors::instance();
  const std::lock_guard lock(all.mutex_);
  all.release();
}

OsFile::OsFile(int fd) {
  if (fd < 0) return;
  Descriptors& all = Descriptors::instance();
  const std::lock_guard lock(all.mutex_);
  all.keep(fd, this);
}

OsFile::OsFile(OsFile&& other) noexcept { *this = std::move(other); }

OsFile& OsFile::operator=(OsFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  if (other.fd_ < 0) return *this;
  Descriptors& all = Descriptors::instance();
  const std::lock_guard lock(all.mutex_);
  Descriptors::unlink(&other);
  fd_ = std::exchange(other.fd_, -1);
  locked_by_ = std::exchange(other.locked_by_, 0);
  all.link(this);
  return *this;
}

void OsFile::close() {
  if (fd_ < 0) return;
  Descriptors& all = Descriptors::instance();
  const std::lock_guard lock(all.mutex_);
  Descriptors::unlink(this);
  if (locked_by_ == ::getpid()) ::flock(fd_, LOCK_UN);
  ::close(std::exchange(fd_, -1));
}

bool OsFile::try_lock(bool exclusive) {
  if (::flock(fd_, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) return false;
  locked_by_ = ::getpid();
  return true;
}

OsFile open_file(const std::string& path, int flags, mode_t mode) {
  return Descriptors::instance().open([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
}

OsFile duplicate(int fd) {
  return Descriptors::instance().open([&] { return ::fcntl(fd, F_DUPFD_CLOEXEC, kStandardMax + 1); });
}

OsFile make_socket(int domain, int type) {
  return Descriptors::instance().open([&] { return ::socket(domain, type | SOCK_CLOEXEC, 0); });
}

OsFile accept_connection(int listener) {
  return Descriptors::instance().open(
      [&] { return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
}

OsFile make_event() {
  return Descriptors::instance().open([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
}

OsFile make_memory_file(const char* name, unsigned flags) {
  return Descriptors::instance().open([&] { return ::memfd_create(name, flags | MFD_CLOEXEC); });
}

std::pair<OsFile, OsFile> make_pipe() {
  int ends[2] = {-1, -1};
  OsFile read_end = Descriptors::instance().open([&] { return ::pipe2(ends, O_CLOEXEC) == 0 ? ends[0] : -1; });
  return {std::move(read_end), OsFile(ends[1])};
}

ssize_t receive_message(int socket, msghdr* header, std::vector<OsFile>* files) {
  files->reserve(files->size() + header->msg_controllen / sizeof(int));  // because moving an OsFile takes the mutex
  Descriptors& all = Descriptors::instance();
  const std::lock_guard lock(all.mutex_);
  all.occupy();
  const ssize_t n = ::recvmsg(socket, header, MSG_CMSG_CLOEXEC);
  all.release();
  if (n < 0) return n;
  for (cmsghdr* part = CMSG_FIRSTHDR(header); part != nullptr; part = CMSG_NXTHDR(header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(part) + i * sizeof(int), sizeof received);
      all.keep(received, &files->emplace_back());
    }
  }
  return n;
}

bool read_text(const std::string& path, size_t bytes_max, std::string* text) {
  const OsFile file = open_file(path, O_RDONLY | O_NONBLOCK);
  text->clear();
  if (!file.is_open()) return false;
  std::array<char, 4096> part{};
  while (text->size() < bytes_max) {
    const ssize_t n = ::read(file.fd(), part.data(), std::min(part.size(), bytes_max - text->size()));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    text->append(part.data(), static_cast<size_t>(n));
  }
  return true;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const OsFile opened = open_file(directory, O_RDONLY | O_DIRECTORY);
  alignas(dirent64) std::array<char, 4096> part{};
  for (ssize_t n; opened.is_open() && (n = ::getdents64(opened.fd(), part.data(), part.size())) > 0;) {
    for (ssize_t at = 0; at < n;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(part.data() + at);
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      at += entry->d_reclen;
    }
  }
  return names;
}

}  // namespace bonsai::base
