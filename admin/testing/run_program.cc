// SPDX-License-Identifier: Apache-2.0
#include "admin/testing/run_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/testing/temp_folder.h"

namespace bonsai::admin {
namespace {

// Runs in the child: only calls that are safe after fork.
[[noreturn]] void become(char* const* argv, const char* in, const char* out, const char* err) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  const int in_fd = open(in, O_RDONLY), out_fd = open(out, flags, 0600), err_fd = open(err, flags, 0600);
  if (dup2(in_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(err_fd, 2) < 0) _exit(126);
  alarm(kProgramSecondsMax);
  execv(argv[0], argv);
  _exit(127);
}

ProgramResult run(const std::vector<std::string>& arguments, const std::string& in, const std::string& out_path) {
  const testing::TempFolder folder;
  const std::string in_path = folder.write("in", in), err_path = folder.file("err");
  std::vector<std::string> words = {BONSAI_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string out = out_path.empty() ? folder.file("out") : out_path;

  const pid_t child = fork();
  if (child < 0) std::abort();
  if (child == 0) become(argv.data(), in_path.c_str(), out.c_str(), err_path.c_str());
  int status = 0;
  if (waitpid(child, &status, 0) != child) std::abort();
  ProgramResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (out_path.empty()) result.out = testing::read_file(out);
  result.err = testing::read_file(err_path);
  return result;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& in) {
  return run(arguments, in, "");
}

ProgramResult run_program_into(const std::string& out_path, const std::vector<std::string>& arguments) {
  return run(arguments, "", out_path);
}

}  // namespace bonsai::admin
