// SPDX-License-Identifier: Apache-2.0
#include "server/testing/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace bonsai::server {
namespace {

int connect_unix(int descriptor, const std::string& path) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  BONSAI_CHECK(path.size() < sizeof to.sun_path);
  path.copy(to.sun_path, sizeof to.sun_path - 1);
  return ::connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

int connect_tcp(int descriptor, const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  BONSAI_CHECK(::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) == 1);
  return ::connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

}  // namespace

TestConnection::TestConnection(const std::string& address, int receive_bytes) {
  const bool is_unix = address.starts_with("unix:");
  const int descriptor = ::socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  BONSAI_CHECK(descriptor >= 0);
  if (receive_bytes != 0) ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  if ((is_unix ? connect_unix(descriptor, address.substr(5)) : connect_tcp(descriptor, address)) != 0) {
    ::close(descriptor);
    return;
  }
  descriptor_ = descriptor;
}

TestConnection::~TestConnection() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

TestConnection::TestConnection(TestConnection&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), bytes_(std::move(other.bytes_)), used_(other.used_) {}

bool TestConnection::send(const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t taken = ::send(descriptor_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (taken < 0) return false;
    sent += static_cast<size_t>(taken);
  }
  return true;
}

size_t TestConnection::send_some(const std::string& bytes) {
  const ssize_t taken = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return taken < 0 ? 0 : static_cast<size_t>(taken);
}

// False: the end, or nothing in time.
bool TestConnection::fill(int ms) {
  if (descriptor_ < 0) return false;
  pollfd waited{.fd = descriptor_, .events = POLLIN, .revents = 0};
  if (::poll(&waited, 1, ms) != 1) return false;
  char piece[65'536];
  const ssize_t got = ::recv(descriptor_, piece, sizeof piece, 0);
  if (got <= 0) return false;
  bytes_.erase(0, std::exchange(used_, 0));
  bytes_.append(piece, static_cast<size_t>(got));
  return true;
}

std::optional<Value> TestConnection::receive() {
  for (;;) {
    std::string_view rest = std::string_view(bytes_).substr(used_);
    Value value;
    if (take_reply(&rest, &value)) {
      used_ = bytes_.size() - rest.size();
      return value;
    }
    if (!fill(kReplyMsMax)) return std::nullopt;
  }
}

std::string TestConnection::next() {
  const std::optional<Value> value = receive();
  return value.has_value() ? value->show() : "closed";
}

std::string TestConnection::ask(const std::vector<std::string>& words) {
  return send(request(words)) ? next() : "closed";
}

bool TestConnection::is_closed_within(int ms) {
  const uint64_t end_ns = base::now_ns() + static_cast<uint64_t>(ms) * base::kNsPerMs;
  while (base::now_ns() < end_ns) {
    pollfd waited{.fd = descriptor_, .events = POLLIN, .revents = 0};
    char piece[65'536];
    if (::poll(&waited, 1, 100) == 1 && ::recv(descriptor_, piece, sizeof piece, 0) <= 0) return true;
  }
  return false;
}

}  // namespace bonsai::server
