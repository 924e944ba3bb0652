// SPDX-License-Identifier: Apache-2.0
// Helpers of the tests of base/nvm: mappings and child processes.
#ifndef BONSAI_BASE_NVM_TESTING_H_
#define BONSAI_BASE_NVM_TESTING_H_

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/nvm/mapping.h"

namespace bonsai::base::nvm_testing {

inline std::unique_ptr<Mapping> create(const std::string& path, uint64_t bytes,
                                       PersistenceDomain domain = PersistenceDomain::kAuto) {
  std::unique_ptr<Mapping> mapping;
  MappingOptions options;
  options.create_bytes = bytes;
  options.domain = domain;
  const Status status = Mapping::open(path, options, &mapping);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  BONSAI_CHECK(status.ok());
  return mapping;
}

inline std::unique_ptr<Mapping> reopen(const std::string& path) {
  std::unique_ptr<Mapping> mapping;
  const Status status = Mapping::open(path, {}, &mapping);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  BONSAI_CHECK(status.ok());
  return mapping;
}

// Runs `body` in a child process and returns what it returned. A child that dies returns "died".
inline std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  BONSAI_CHECK(::pipe(ends) == 0);
  const pid_t child = ::fork();
  BONSAI_CHECK(child >= 0);
  if (child == 0) {
    ::close(ends[0]);
    const std::string text = body();
    const bool written = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  ::close(ends[0]);
  int status = 0;
  BONSAI_CHECK(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "died";
}

}  // namespace bonsai::base::nvm_testing

#endif  // BONSAI_BASE_NVM_TESTING_H_
