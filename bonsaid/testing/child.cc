// SPDX-License-Identifier: Apache-2.0
#include "bonsaid/testing/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "testing/scratch.h"

namespace bonsai::bonsaid {
namespace {

// Runs in the child: only calls that are safe after fork.
[[noreturn]] void become(char* const* argv, const char* out, const char* err) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
  const int in_fd = open("/dev/null", O_RDONLY), out_fd = open(out, flags, 0600), err_fd = open(err, flags, 0600);
  if (dup2(in_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(err_fd, 2) < 0) _exit(126);
  execv(argv[0], argv);
  _exit(127);
}

// Waits in short sleeps until `done`, or until the bound has passed.
template <class Done>
bool until(uint64_t limit_ms, Done done) {
  for (base::BoundedWait wait("child", limit_ms); !done(); wait.pause()) {
    if (wait.expired()) return false;
  }
  return true;
}

}  // namespace

Child::Child(const std::string& folder, const std::vector<std::string>& words)
    : out_path_(folder + "/out"), err_path_(folder + "/err") {
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) std::abort();
  if (pid_ == 0) become(argv.data(), out_path_.c_str(), err_path_.c_str());
}

Child::~Child() {
  if (reap()) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string Child::out() const { return testing::read_file(out_path_); }
std::string Child::err() const { return testing::read_file(err_path_); }

bool Child::prints(const std::string& text, uint64_t limit_ms) {
  const auto printed = [&] { return (out() + err()).find(text) != std::string::npos; };
  return until(limit_ms, [&] { return printed() || reap(); }) && printed();
}

void Child::signal(int number) {
  if (!reap()) ::kill(pid_, number);
}

int Child::wait(uint64_t limit_ms) {
  return until(limit_ms, [&] { return reap(); }) ? exit_code_ : -1;
}

bool Child::reap() {
  int status = 0;
  if (ended_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return ended_;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended_ = true;
}

Ran run(const std::vector<std::string>& words) {
  const testing::ScratchFolder folder;
  Child child(folder.file(""), words);
  Ran ran;
  ran.exit_code = child.wait(60'000);
  ran.out = child.out();
  ran.err = child.err();
  return ran;
}

}  // namespace bonsai::bonsaid
