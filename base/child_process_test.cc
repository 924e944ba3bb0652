// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <gtest/gtest.h>

#include <csignal>

#include "base/testing/temp_folder.h"

namespace bonsai::base {
namespace {

constexpr uint64_t kLimitMs = 30'000;

TEST(ChildProcess, EndsWithItsExitCodeAndWhatItWrote) {
  const testing::TempFolder folder;
  const ChildStreams streams{folder.write("in", "asked\n"), folder.file("out"), folder.file("err")};
  std::unique_ptr<ChildProcess> child;
  ASSERT_EQ("OK", ChildProcess::start({"sh", "-c", "cat; echo why >&2; exit 3"}, streams, &child).ToString());
  EXPECT_EQ(child->wait(kLimitMs), 3);
  EXPECT_EQ(child->wait(0), 3) << "a reaped program keeps its exit code";
  EXPECT_EQ(testing::read_file(streams.out), "asked\n");
  EXPECT_EQ(testing::read_file(streams.err), "why\n");
  ASSERT_TRUE(ChildProcess::start({"sh", "-c", "echo out; echo err >&2"}, {.out = streams.out}, &child).ok());
  EXPECT_EQ(child->wait(kLimitMs), 0);
  EXPECT_EQ(testing::read_file(streams.out), "out\nerr\n") << "one file, emptied by the second start";
}

TEST(ChildProcess, AMissingProgramIsNotFound) {
  const testing::TempFolder folder;
  std::unique_ptr<ChildProcess> child;
  EXPECT_TRUE(ChildProcess::start({"no-such-program-here"}, {.out = folder.file("out")}, &child).IsNotFound());
  EXPECT_EQ(child, nullptr);
  const ChildStreams no_input{.in = folder.file("none"), .out = folder.file("out")};
  EXPECT_TRUE(ChildProcess::start({"sh", "-c", ":"}, no_input, &child).IsNotFound());
  EXPECT_EQ(child, nullptr);
}

TEST(ChildProcess, DoesNotOutliveItsObjectAndAWaitIsBounded) {
  const testing::TempFolder folder;
  std::unique_ptr<ChildProcess> child;
  ASSERT_TRUE(ChildProcess::start({"sleep", "1000"}, {.out = folder.file("out")}, &child).ok());
  EXPECT_EQ(child->wait(20), std::nullopt);
  EXPECT_FALSE(child->ended());
  const pid_t pid = child->pid();
  EXPECT_EQ(::kill(pid, 0), 0);
  child.reset();
  EXPECT_EQ(::kill(pid, 0), -1) << "it runs on";
  ASSERT_TRUE(ChildProcess::start({"sleep", "1000"}, {.out = folder.file("out")}, &child).ok());
  child->signal(SIGTERM);
  EXPECT_EQ(child->wait(kLimitMs), 128 + SIGTERM);
  child->signal(SIGTERM);  // does nothing
}

}  // namespace
}  // namespace bonsai::base
