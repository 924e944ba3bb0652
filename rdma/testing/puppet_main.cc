// SPDX-License-Identifier: Apache-2.0
// rdma_puppet PROVIDER [PORT]: the nodes of a test in a separate process (rdma/testing/puppet.h). Commands come from
// the standard input, or with PORT from one TCP connection after another; each connection begins without nodes.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/nvm/os_file.h"
#include "rdma/testing/puppet.h"

namespace bonsai::rdma {
namespace {

// Obeys until the input ends. A node that cannot be made is a failed expectation on stderr.
void serve(World& world, int in, int out) {
  Puppet puppet(world);
  std::string pending;
  char buffer[65536];
  for (ssize_t n; (n = ::read(in, buffer, sizeof buffer)) > 0;) {
    pending.append(buffer, static_cast<size_t>(n));
    for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      const std::string answer = puppet.obey(pending.substr(0, end)) + "\n";
      if (::write(out, answer.data(), answer.size()) != static_cast<ssize_t>(answer.size())) return;
    }
  }
}

int serve_port(World& world, uint16_t port) {
  const base::OsFile listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.fd(), 4) != 0) {
    std::perror("rdma_puppet: cannot listen");
    return 1;
  }
  for (;;) {
    const base::OsFile connection(::accept(listener.fd(), nullptr, nullptr));
    if (connection.is_open()) serve(world, connection.fd(), connection.fd());
  }
}

}  // namespace
}  // namespace bonsai::rdma

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: rdma_puppet PROVIDER [PORT]\n");
    return 2;
  }
  const auto world = bonsai::rdma::make_world(argv[1]);
  // The output of a node's failed expectation must not be mistaken for an answer.
  const int out = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  if (argc == 3) return bonsai::rdma::serve_port(*world, static_cast<uint16_t>(std::atoi(argv[2])));
  bonsai::rdma::serve(*world, STDIN_FILENO, out);
  return 0;
}
