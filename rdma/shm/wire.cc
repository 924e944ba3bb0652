// SPDX-License-Identifier: Apache-2.0
#include "rdma/shm/wire.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace bonsai::rdma {
namespace {

constexpr size_t kFilesMax = 2;

bool fill_address(const std::string& path, sockaddr_un* address) {
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof address->sun_path) return false;
  std::memcpy(address->sun_path, path.c_str(), path.size() + 1);
  return true;
}

base::OsFile make_packet_socket() { return base::make_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK); }

}  // namespace

bool ShmSocket::send(const ShmWire& message, std::initializer_list<int> files) const {
  ShmWire copy = message;
  iovec part{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(kFilesMax * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (files.size() > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), files.begin(), files.size() * sizeof(int));
  }
  return ::sendmsg(fd(), &header, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof copy);
}

ShmSocket::Read ShmSocket::receive(ShmWire* message, std::vector<base::OsFile>* files) const {
  iovec part{message, sizeof *message};
  alignas(cmsghdr) char control[CMSG_SPACE(kFilesMax * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  std::vector<base::OsFile> received;
  ssize_t n = base::receive_message(fd(), &header, &received);
  // The other end has closed with messages unread. This is reported once; what it sent before comes afterwards.
  if (n < 0 && errno == ECONNRESET) n = base::receive_message(fd(), &header, &received);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Read::kNothing;
  *files = std::move(received);
  message->text.back() = '\0';
  const bool longer = (header.msg_flags & MSG_TRUNC) != 0;  // and would look whole
  const bool whole = n == static_cast<ssize_t>(sizeof *message) && !longer && message->magic == ShmWire::kMagic;
  if (!whole) return Read::kEnd;
  return (header.msg_flags & MSG_CTRUNC) != 0 ? Read::kNoPlaces : Read::kMessage;
}

Status ShmSocket::listen(const std::string& path, ShmSocket* socket, base::OsFile* lock) {
  sockaddr_un address{};
  if (!fill_address(path, &address)) return Status::InvalidArgument(path + " is too long for an address; shorten it");
  // The lock shows whether a living process has the address, because a socket's file outlives its process.
  *lock = base::open_file(path + ".lock", O_RDWR | O_CREAT, 0600);
  if (!lock->is_open()) return base::os_error("open", path + ".lock", errno);
  if (!lock->try_lock(/*exclusive=*/true)) {
    return Status::Busy(path + " has a listener already; choose another address");
  }
  ::unlink(path.c_str());
  base::OsFile file = make_packet_socket();
  if (!file.is_open()) return base::os_error("make a socket for", path, errno);
  if (::bind(file.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(file.fd(), 64) != 0) {
    return base::os_error("bind", path, errno);
  }
  *socket = ShmSocket(std::move(file));
  return Status::OK();
}

Status ShmSocket::connect(const std::string& path, ShmSocket* socket) {
  sockaddr_un address{};
  if (!fill_address(path, &address)) return Status::InvalidArgument(path + " is too long for an address; shorten it");
  base::OsFile file = make_packet_socket();
  if (!file.is_open()) return base::os_error("make a socket for", path, errno);
  if (::connect(file.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Status::Unavailable("nobody listens at " + path + "; start that node");
  }
  *socket = ShmSocket(std::move(file));
  return Status::OK();
}

ShmSocket ShmSocket::accept() const { return ShmSocket(base::accept_connection(fd())); }

}  // namespace bonsai::rdma
