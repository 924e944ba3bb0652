// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/nvm/os_file.h"
#include "base/thread.h"
#include "rdma/testing/puppet.h"

namespace bonsai::rdma {
namespace {

constexpr int kAnswerMsMax = 30'000;

class DirectChannel final : public Channel {
 public:
  explicit DirectChannel(World& world) : puppet_(world) {}
  std::string ask(const std::string& command) override { return puppet_.obey(command); }

 private:
  Puppet puppet_;
};

// A stream socket to a puppet, and the puppet's process if it was started here.
class FarChannel final : public Channel {
 public:
  FarChannel(int socket, pid_t child) : socket_(socket), child_(child) {}
  ~FarChannel() override {
    socket_ = base::OsFile();  // the puppet reads the end of its input and exits
    if (child_ <= 0) return;
    for (base::BoundedWait wait("puppet.end", 5'000); waitpid(child_, nullptr, WNOHANG) == 0; wait.pause()) {
      if (!wait.expired()) continue;
      ::kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
      return;
    }
  }

  std::string ask(const std::string& command) override {
    const std::string line = command + "\n";
    if (::send(socket_.fd(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
      return "gone";
    for (size_t end; (end = read_.find('\n')) == std::string::npos;) {
      pollfd ready{socket_.fd(), POLLIN, 0};
      char buffer[65536];
      if (::poll(&ready, 1, kAnswerMsMax) <= 0) return "gone";
      const ssize_t n = ::read(socket_.fd(), buffer, sizeof buffer);
      if (n <= 0) return "gone";
      read_.append(buffer, static_cast<size_t>(n));
    }
    const size_t end = read_.find('\n');
    const std::string answer = read_.substr(0, end);
    read_.erase(0, end + 1);
    return answer;
  }

 private:
  base::OsFile socket_;
  pid_t child_;
  std::string read_;
};

[[noreturn]] void fail(const std::string& what) {
  std::perror(("puppet: " + what).c_str());
  std::exit(2);
}

int connect_to(const std::string& host, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) fail("unknown host " + host);
  int fd = -1;
  // It may still be starting.
  for (base::BoundedWait wait("puppet.connect", kAnswerMsMax); fd < 0; wait.pause()) {
    if (wait.expired()) fail("nobody answers at " + host + ":" + port);
    fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, found->ai_addr, found->ai_addrlen) == 0) break;
    ::close(fd);
    fd = -1;
  }
  freeaddrinfo(found);
  return fd;
}

}  // namespace

std::unique_ptr<Channel> direct_channel(World& world) { return std::make_unique<DirectChannel>(world); }

std::unique_ptr<Channel> far_channel(const std::string& launch) {
  if (launch.rfind("tcp:", 0) == 0) {
    const size_t colon = launch.rfind(':');
    return std::make_unique<FarChannel>(connect_to(launch.substr(4, colon - 4), launch.substr(colon + 1)), 0);
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(ends[1], STDIN_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl("/bin/sh", "sh", "-c", ("exec " + launch).c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  return std::make_unique<FarChannel>(ends[0], child);
}

}  // namespace bonsai::rdma
