// SPDX-License-Identifier: Apache-2.0
#include "server/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace bonsai::server {
namespace {

constexpr int kBacklog = 1024;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress socket_address(const Address& address) {
  SocketAddress made;
  if (address.is_unix()) {
    auto* const to = reinterpret_cast<sockaddr_un*>(&made.storage);
    to->sun_family = AF_UNIX;
    address.path.copy(to->sun_path, sizeof to->sun_path - 1);
    made.bytes = sizeof *to;
  } else if (auto* const v4 = reinterpret_cast<sockaddr_in*>(&made.storage);
             ::inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    made.bytes = sizeof *v4;
  } else {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&made.storage);
    ::inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    made.bytes = sizeof *v6;
  }
  return made;
}

// Host and port. False: it is no address of IP.
bool read_ip(const sockaddr_storage& from, Address* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    address->port = ntohs(v4.sin_port);
  } else if (from.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    address->port = ntohs(v6.sin6_port);
  } else {
    return false;
  }
  address->host = text;
  return true;
}

std::string text_of(const sockaddr_storage& peer) {
  Address address;
  return read_ip(peer, &address) ? address.text() : "unix";
}

// The path of a Unix socket; an abstract one begins with a zero, which is shown as @.
std::string path_of(const sockaddr_storage& from, socklen_t bytes) {
  const auto* const path = reinterpret_cast<const sockaddr_un&>(from).sun_path;
  const size_t before = offsetof(sockaddr_un, sun_path);
  if (bytes <= before) return "";
  if (path[0] == '\0') return "@" + std::string(path + 1, bytes - before - 1);
  return std::string(path, ::strnlen(path, bytes - before));
}

Status failure(const Address& address) {
  const std::string text = address.text();
  const std::string why = std::strerror(errno);
  if (errno == EADDRINUSE && !address.is_unix()) {
    return Status::Busy("another program listens on " + text + "; give another port in --listen, or see who it is: " +
                        "ss -ltnp 'sport = :" + std::to_string(address.port) + "'");
  }
  if (errno == EADDRNOTAVAIL) {
    return Status::IoError(text + " is no address of this machine; see those it has: ip address");
  }
  if (errno == EACCES && !address.is_unix()) {
    return Status::IoError(text + ": " + why + "; ports below 1024 need a right: choose another in --listen");
  }
  return Status::IoError(text + " cannot be listened on: " + why +
                         (address.is_unix() ? "; its folder must be there, and writable" : ""));
}

// Whether somebody accepts connections at a Unix socket.
bool is_answered(const Address& address) {
  SocketAddress to = socket_address(address);
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return true;
  const bool answered = ::connect(probe, to.get(), to.bytes) == 0 || errno == EAGAIN;
  ::close(probe);
  return answered;
}

// Makes room for the file of a Unix socket.
Status remove_left_behind(const Address& address) {
  struct stat found {};
  if (::lstat(address.path.c_str(), &found) != 0) return Status::OK();
  if (!S_ISSOCK(found.st_mode)) {
    return Status::IoError(address.path + " is there and is no socket; give another path in --listen");
  }
  if (is_answered(address)) {
    return Status::Busy("another program listens on " + address.text() + "; give another path in --listen, or see " +
                        "who it is: ss -lxp src " + address.path);
  }
  ::unlink(address.path.c_str());
  return Status::OK();
}

Status take_over(const Address& address) {
  const int flags = ::fcntl(address.descriptor, F_GETFL);
  if (flags >= 0 && ::fcntl(address.descriptor, F_SETFL, flags | O_NONBLOCK) == 0) return Status::OK();
  return Status::IoError("the socket of " + address.text() +
                         " that was passed cannot be used: " + std::strerror(errno));
}

}  // namespace

bool address_of_socket(int descriptor, Address* address) {
  SocketAddress at;
  at.bytes = sizeof at.storage;
  if (::getsockname(descriptor, at.get(), &at.bytes) != 0) return false;
  if (read_ip(at.storage, address)) return true;
  if (at.get()->sa_family != AF_UNIX) return false;
  address->path = path_of(at.storage, at.bytes);
  return !address->path.empty();
}

Status ListeningSocket::open(const Address& address, ListeningSocket* socket) {
  if (address.passed) {
    BONSAI_RETURN_IF_ERROR(take_over(address));
    *socket = ListeningSocket(address);
    return Status::OK();
  }
  if (address.is_unix()) {
    if (Status status = remove_left_behind(address); !status.ok()) return status;
  }
  SocketAddress at = socket_address(address);
  ListeningSocket made;
  made.descriptor_ = ::socket(at.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made.descriptor_ < 0) return failure(address);
  const int on = 1;
  ::setsockopt(made.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.get()->sa_family == AF_INET6) ::setsockopt(made.descriptor_, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(made.descriptor_, at.get(), at.bytes) != 0) return failure(address);
  made.address_ = address;
  if (::listen(made.descriptor_, kBacklog) != 0) return failure(address);
  if (!address.is_unix() && !address_of_socket(made.descriptor_, &made.address_)) return failure(address);
  *socket = std::move(made);
  return Status::OK();
}

ListeningSocket::~ListeningSocket() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (address_.is_unix() && !address_.passed && !address_.path.empty()) ::unlink(address_.path.c_str());
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), address_(std::move(other.address_)) {}

ListeningSocket& ListeningSocket::operator=(ListeningSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(address_, other.address_);
  return *this;
}

int ListeningSocket::accept(std::string* peer) const {
  sockaddr_storage from{};
  socklen_t bytes = sizeof from;
  const int accepted = ::accept4(descriptor_, reinterpret_cast<sockaddr*>(&from), &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (accepted < 0) return -1;
  *peer = text_of(from);
  const int on = 1;
  if (!address_.is_unix()) ::setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return accepted;
}

}  // namespace bonsai::server
