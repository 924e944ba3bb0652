// SPDX-License-Identifier: Apache-2.0
// Descriptors of the operating system: files, sockets, events, memory files. The only code that opens them.
//
// No descriptor of the library is 0, 1 or 2, not even for a moment. Otherwise the output of a host that has closed one
// of these would be written into a pool.
// No child that is made by fork() has a descriptor of the library. A lock belongs to all processes that have the open
// file, so a child would keep a pool locked after its owner closed it or died. A socket in a child would hide from the
// other node that its owner died. A child of vfork(), posix_spawn() or clone() gets copies until it calls exec.
#ifndef BONSAI_BASE_NVM_DESCRIPTOR_H_
#define BONSAI_BASE_NVM_DESCRIPTOR_H_

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace bonsai::base {

// Keeps the descriptors 0 to 2 open while it lives, so that libraries which open descriptors themselves get higher
// ones. A descriptor that the host has closed is replaced by one that can neither be read nor written. Thread-safety:
// any number may live at once.
class StandardPlaces {
 public:
  StandardPlaces();
  ~StandardPlaces();
  StandardPlaces(const StandardPlaces&) = delete;
  StandardPlaces& operator=(const StandardPlaces&) = delete;
};

// Owns a descriptor and closes it. In a child made by fork() the descriptor is closed, and the object is not open.
// Thread-safety: one owner.
class OsFile {
 public:
  OsFile() = default;
  // Takes ownership of a descriptor, -1 for none. A descriptor below 3 is moved to a higher number.
  explicit OsFile(int fd);
  OsFile(OsFile&& other) noexcept;
  OsFile& operator=(OsFile&& other) noexcept;
  ~OsFile() { close(); }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

  // Takes the advisory lock of the file, exclusive or shared, without waiting. Closing releases it, even if another
  // process has a copy of the descriptor. False: errno says why, EWOULDBLOCK if another process has locked it.
  [[nodiscard]] bool try_lock(bool exclusive);
  // From now on closing does not release the lock: it lasts until no process has the open file or a mapping of it.
  void leave_lock() { locked_by_ = 0; }

 private:
  friend struct Descriptors;

  void close();

  int fd_ = -1;
  pid_t locked_by_ = 0;  // the process that took the lock; 0: none
  OsFile* next_ = nullptr;
  OsFile** at_ = nullptr;  // the pointer to this object in the list of open ones
};

// After a failure the returned file is not open, and errno says why. exec closes all of them.
[[nodiscard]] OsFile open_file(const std::string& path, int flags, mode_t mode = 0);
// Another descriptor of the same open file, which shares its lock. It does not release the lock when it is closed.
[[nodiscard]] OsFile duplicate(int fd);
[[nodiscard]] OsFile make_socket(int domain, int type);
[[nodiscard]] OsFile accept_connection(int listener);  // which does not block
[[nodiscard]] OsFile make_event();                     // an eventfd that does not block
[[nodiscard]] OsFile make_memory_file(const char* name, unsigned flags);
[[nodiscard]] std::pair<OsFile, OsFile> make_pipe();  // its read end and its write end

// Receives a message on a socket; the descriptors that come with it are added to *files. Returns what recvmsg() does.
[[nodiscard]] ssize_t receive_message(int socket, msghdr* header, std::vector<OsFile>* files);

// Reads a file to its end, up to `bytes_max`. False: it cannot be read.
[[nodiscard]] bool read_text(const std::string& path, size_t bytes_max, std::string* text);
// The names in a directory, without "." and ".."; empty if it cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& directory);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_DESCRIPTOR_H_
