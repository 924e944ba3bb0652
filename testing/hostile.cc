// SPDX-License-Identifier: Apache-2.0
#include "testing/hostile.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "base/testing/sanitized.h"
#include "base/thread.h"

namespace bonsai::testing {
namespace {

constexpr int kNotImposed = 77;

bool limit(__rlimit_resource what, uint64_t value) {
  rlimit limits{};
  if (::getrlimit(what, &limits) != 0 || limits.rlim_max < value) return false;
  limits.rlim_cur = value;
  return ::setrlimit(what, &limits) == 0;
}

uint64_t address_space_bytes() {
  FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  const bool read = file != nullptr && std::fscanf(file, "%lu", &pages) == 1;
  if (file != nullptr) std::fclose(file);
  return read ? pages * 4096 : 0;
}

Hostility limited(const std::string& name, __rlimit_resource what, uint64_t value) {
  return {name + " limited to " + std::to_string(value), [=] { return limit(what, value); }};
}

}  // namespace

std::vector<Hostility> closed_descriptors() {
  std::vector<Hostility> all;
  for (unsigned subset = 1; subset < 8; ++subset) {
    std::string name = "closed:";
    for (unsigned fd = 0; fd < 3; ++fd) name += ((subset >> fd) & 1) != 0 ? " " + std::to_string(fd) : "";
    all.push_back({name, [subset] {
                     for (unsigned fd = 0; fd < 3; ++fd) {
                       if (((subset >> fd) & 1) != 0) ::close(static_cast<int>(fd));
                     }
                     return true;
                   }});
  }
  return all;
}

std::vector<Hostility> tight_limits() {
  std::vector<Hostility> all;
  for (const uint64_t files : {3, 4, 5, 6, 8, 12}) all.push_back(limited("descriptors", RLIMIT_NOFILE, files));
  for (const uint64_t bytes : {0, 4096, 1 << 20}) all.push_back(limited("bytes of a file", RLIMIT_FSIZE, bytes));
  all.push_back(limited("locked memory", RLIMIT_MEMLOCK, 0));
  all.push_back({"an unprivileged user without a further process", [] {
                   return limit(RLIMIT_NPROC, 1) && ::getuid() == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
                 }});
  for (const int64_t threads : {0, 1, 2, 3}) {
    all.push_back({std::to_string(threads) + " threads granted", [threads] {
                     base::threads_granted_for_test.store(threads);
                     return true;
                   }});
  }
  for (const uint64_t bytes : {64U << 10, 1U << 20, 4U << 20, 9U << 20, 20U << 20, 48U << 20}) {
    if (!kSanitized) all.push_back(more_address_space(bytes));
  }
  return all;
}

Hostility more_address_space(uint64_t bytes) {
  return {std::to_string(bytes) + " more bytes of address space",
          [bytes] { return !kSanitized && limit(RLIMIT_AS, address_space_bytes() + bytes); }};
}

std::string wait_for(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return "lost";
  if (WIFSIGNALED(status)) return std::string("ended by signal ") + strsignal(WTERMSIG(status));
  if (WEXITSTATUS(status) == kNotImposed) return "not imposed";
  return WEXITSTATUS(status) == 0 ? "" : "exit code " + std::to_string(WEXITSTATUS(status));
}

std::string in_hostile_child(const Hostility& hostility, const std::function<bool()>& body) {
  const pid_t child = ::fork();
  BONSAI_CHECK(child >= 0);
  if (child == 0) {
    ::alarm(60);
    if (!hostility.impose()) ::_exit(kNotImposed);
    ::_exit(body() ? 0 : 1);
  }
  return wait_for(child);
}

}  // namespace bonsai::testing
