// SPDX-License-Identifier: Apache-2.0
// Descriptors of the operating system: files, sockets, events, memory files. The only code that opens them.
//
// No descriptor of the library is 0, 1 or 2, not even for a moment. Where a host has closed one of these, whatever it
// prints would be written into a pool.
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

// While it lives, the descriptors 0 to 2 exist, so that what is opened meanwhile is above them: for calls of libraries
// that open descriptors themselves. Those that the host has closed become ones that can neither be read nor written.
// Thread-safety: any number may live at once.
class StandardPlaces {
 public:
  StandardPlaces();
  ~StandardPlaces();
  StandardPlaces(const StandardPlaces&) = delete;
  StandardPlaces& operator=(const StandardPlaces&) = delete;
};

// Owns a descriptor and closes it. In a child that is made by fork() it is closed, and not open. Thread-safety: one
// owner.
class OsFile {
 public:
  OsFile() = default;
  // Takes over a descriptor, -1 for none. One that is not above 2 is moved.
  explicit OsFile(int fd);
  OsFile(OsFile&& other) noexcept;
  OsFile& operator=(OsFile&& other) noexcept;
  ~OsFile() { close(); }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

  // Takes the advisory lock of the file, exclusive or shared, without waiting. Closing releases it, even if another
  // process has a copy of the descriptor. False: errno says why, EWOULDBLOCK if it is locked by somebody else.
  [[nodiscard]] bool try_lock(bool exclusive);
  // From now on closing does not release the lock: it lasts until nobody has the open file, or a mapping of it.
  void leave_lock() { locked_by_ = 0; }

 private:
  friend struct Descriptors;

  void close();

  int fd_ = -1;
  pid_t locked_by_ = 0;  // the process that took the lock; 0: none
  OsFile* next_ = nullptr;
  OsFile** at_ = nullptr;  // what points here in the list of open ones
};

// Each is not open after a failure, and errno says why. All are closed by exec.
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
