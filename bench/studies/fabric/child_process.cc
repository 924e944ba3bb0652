// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/fabric/child_process.h"

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/thread.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kReapMsMax = 5'000;

std::string last_line(const std::string& output) {
  const size_t end = output.find_last_not_of(" \n");
  if (end == std::string::npos) return "it printed nothing";
  const size_t begin = output.rfind('\n', end);
  return output.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

}  // namespace

Status ChildProcess::start(const std::vector<std::string>& words, std::unique_ptr<ChildProcess>* child) {
  auto [ours, theirs] = base::make_pipe();
  if (!ours.is_open()) return base::os_error("make a pipe for", words[0], errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, theirs.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.fd(), STDERR_FILENO);
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return Status::NotFound("there is no program " + words[0]);
  if (error != 0) return base::os_error("start", words[0], error);
  child->reset(new ChildProcess(pid, std::move(ours)));
  return Status::OK();
}

ChildProcess::~ChildProcess() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  for (base::BoundedWait wait("child.end", kReapMsMax); !ended(&status) && !wait.expired();) wait.pause();
}

bool ChildProcess::ended(int* status) {
  if (pid_ != 0 && ::waitpid(pid_, status, WNOHANG) == 0) return false;
  pid_ = 0;
  return true;
}

Status ChildProcess::finish(uint64_t limit_ms, std::string* output) {
  const uint64_t deadline_ns = base::now_ns() + limit_ms * base::kNsPerMs;
  std::array<char, 4096> part{};
  while (true) {
    const uint64_t now = base::now_ns();
    const uint64_t left_ms = now < deadline_ns ? (deadline_ns - now) / base::kNsPerMs + 1 : 0;
    pollfd ready{output_.fd(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(left_ms)) <= 0) {
      if (left_ms > 0) continue;
      return Status::Unavailable("it did not end within " + std::to_string(limit_ms) + " ms");
    }
    const ssize_t count = ::read(output_.fd(), part.data(), part.size());
    if (count <= 0) break;
    output->append(part.data(), static_cast<size_t>(count));
  }
  int status = 0;
  for (base::BoundedWait wait("child.end", limit_ms); !ended(&status); wait.pause()) {
    if (wait.expired()) return wait.status();
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status::OK();
  const std::string how = WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                                            : "signal " + std::to_string(WTERMSIG(status));
  return Status::IoError(how + ": " + last_line(*output));
}

}  // namespace bonsai::bench
