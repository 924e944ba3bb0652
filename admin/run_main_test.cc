// SPDX-License-Identifier: Apache-2.0
#include "admin/run_main.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <new>

#include "admin/exit_code.h"
#include "base/testing/temp_folder.h"

namespace bonsai::admin {
namespace {

// The exit code of a child that calls `prepare` first, or 128 + the signal that ended it.
int exit_in_child(const std::function<void()>& prepare, const std::function<int()>& work) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    prepare();
    ::_exit(run_main("test", work));
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void close_all_three() {
  for (const int fd : {0, 1, 2}) ::close(fd);
}

TEST(RunMain, OpensNothingThatIsPrintedTo) {
  const testing::TempFolder folder;
  const std::string path = folder.file("file");
  EXPECT_GT(exit_in_child(close_all_three, [&] { return ::open(path.c_str(), O_RDWR | O_CREAT, 0600); }), 2);
  EXPECT_EQ(exit_in_child(close_all_three,
                          [] {
                            char byte = 0;
                            return ::write(1, "x", 1) < 0 && ::write(2, "x", 1) < 0 && ::read(0, &byte, 1) < 0 ? 7 : 0;
                          }),
            7);
}

TEST(RunMain, FailsIfWhatWasPrintedHasNotArrived) {
  const auto print = [] { return std::puts("text") >= 0 ? 0 : 9; };
  const auto say_nothing = [] { return 0; };
  EXPECT_EQ(exit_in_child([] { ::close(1); }, print), kExitFailed);
  EXPECT_EQ(exit_in_child([] { ::close(1); }, say_nothing), 0) << "nobody asked for output";
  EXPECT_EQ(exit_in_child([] { ::dup2(::open("/dev/full", O_WRONLY), 1); }, print), kExitFailed);
  EXPECT_EQ(exit_in_child([] { ::dup2(::open("/dev/null", O_WRONLY), 1); }, print), 0);
}

TEST(RunMain, OutlivesTheLimitOfFileSizes) {
  const testing::TempFolder folder;
  const std::string path = folder.file("out");
  const auto limit = [&] {
    ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT, 0600), 1);
    const rlimit none{0, 0};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  };
  EXPECT_EQ(exit_in_child(limit, [] { return std::puts("text") >= 0 ? 0 : 9; }), kExitFailed);
}

TEST(RunMain, ReportsThatMemoryHasRunOut) {
  const std::function<int()> work = [] {
    if (::getpid() > 0) throw std::bad_alloc();
    return 0;
  };
  EXPECT_EQ(exit_in_child([] {}, work), kExitFailed);
}

}  // namespace
}  // namespace bonsai::admin
