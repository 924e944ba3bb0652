// SPDX-License-Identifier: Apache-2.0
#include "admin/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace bonsai::admin {

int end_output(const char* program, int exit, int failed) {
  errno = 0;  // an earlier failure has left none
  const bool arrived = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (arrived || exit != 0) return exit;
  std::fprintf(stderr, "%s: standard output cannot be written%s%s; free space there or direct it elsewhere\n", program,
               errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : "");
  return failed;
}

}  // namespace bonsai::admin
