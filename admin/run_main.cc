// SPDX-License-Identifier: Apache-2.0
#include "admin/run_main.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "admin/exit_code.h"

namespace bonsai::admin {
namespace {

// Uses O_PATH: such a descriptor can be neither read nor written, and needs no file of its own.
bool occupy_standard_descriptors() {
  for (;;) {
    const int fd = ::open("/", O_PATH);
    if (fd < 0) return false;
    if (fd <= STDERR_FILENO) continue;
    ::close(fd);
    return true;
  }
}

int fail(std::string_view name, const char* what, const char* why) {
  std::fprintf(stderr, "%.*s: %s%s\n", static_cast<int>(name.size()), name.data(), what, why);
  return kExitFailed;
}

}  // namespace

int run_main(std::string_view name, const std::function<int()>& work) {
  if (!occupy_standard_descriptors()) return kExitFailed;
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return end_output(name, work(), kExitFailed);
  } catch (const std::bad_alloc&) {
    return fail(name, "out of memory; give the program more (ulimit -v, the memory limit of the container)", "");
  }
}

int end_output(std::string_view name, int exit, int failed) {
  errno = 0;  // an earlier failed call leaves no errno here
  const bool arrived = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (arrived || exit != kExitOk) return exit;
  const std::string why = errno != 0 ? std::string(": ") + std::strerror(errno) : "";
  fail(name, "standard output cannot be written", (why + "; free space there or direct it elsewhere").c_str());
  return failed;
}

}  // namespace bonsai::admin
