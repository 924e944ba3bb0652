// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/check.h"
#include "base/nvm/os_file.h"
#include "base/thread.h"

namespace bonsai::base {
namespace {

constexpr uint64_t kReapMsMax = 5'000, kStopMsMax = 10'000;

}  // namespace

Status ChildProcess::start(const std::vector<std::string>& words, const ChildStreams& streams,
                           std::unique_ptr<ChildProcess>* child) {
  constexpr int kWritten = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, streams.in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, streams.out.c_str(), kWritten, 0600);
  if (streams.err.empty()) {
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, streams.err.c_str(), kWritten, 0600);
  }
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return Status::NotFound("there is no program " + words[0] + ", or no file " + streams.in);
  if (error != 0) return os_error("start", words[0], error);
  child->reset(new ChildProcess(pid));
  return Status::OK();
}

ChildProcess::~ChildProcess() {
  if (ended()) return;
  ::kill(pid_, SIGKILL);
  static_cast<void>(wait(kReapMsMax));
}

bool ChildProcess::ended() {
  if (exit_code_) return true;
  int status = 0;
  const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
  if (reaped == 0) return false;
  BONSAI_CHECK(reaped == pid_);  // only this object reaps it
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

std::optional<int> ChildProcess::wait(uint64_t limit_ms) {
  for (BoundedWait wait("child.end", limit_ms); !ended() && !wait.expired();) wait.pause();
  return exit_code_;
}

void ChildProcess::signal(int number) {
  if (ended()) return;
  ::kill(pid_, number);
  if (number != SIGSTOP) return;
  // Threads that run go on until the kernel has told each of them. The state is looked at, and not taken away.
  const auto stopped = [this] {
    siginfo_t info = {};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
  };
  for (BoundedWait wait("child.stop", kStopMsMax); !stopped() && !wait.expired();) wait.pause();
}

}  // namespace bonsai::base
