// SPDX-License-Identifier: Apache-2.0
#include "admin/doctor/sysroot.h"

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace bonsai::admin {
namespace {

TEST(SysRoot, ReadsBelowItsRootOnly) {
  const testing::TempFolder folder;
  folder.write("proc/version", "fake kernel \n\n");
  const SysRoot root(folder.path());
  EXPECT_EQ(root.read("/proc/version"), "fake kernel");
  EXPECT_TRUE(root.exists("/proc/version"));
  EXPECT_FALSE(root.exists("/proc/self"));
  EXPECT_FALSE(root.read("/proc/self/limits"));
  EXPECT_FALSE(root.read("/proc")) << "a folder has no contents";
}

TEST(SysRoot, ReadsNumbers) {
  const testing::TempFolder folder;
  const SysRoot root(folder.path());
  folder.write("good", "18446744073709551615\n");
  folder.write("empty", "");
  folder.write("bad", "12 pages");
  EXPECT_EQ(root.read_number("/good"), UINT64_MAX);
  EXPECT_FALSE(root.read_number("/empty"));
  EXPECT_FALSE(root.read_number("/bad"));
  EXPECT_FALSE(root.read_number("/absent"));
}

TEST(SysRoot, ListsSortedAndSplitsLines) {
  const testing::TempFolder folder;
  const SysRoot root(folder.path());
  folder.write("d/b", "1\n\n2\n");
  folder.write("d/a", "");
  EXPECT_EQ(root.list("/d"), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(root.list("/none").empty());
  EXPECT_EQ(root.lines("/d/b"), (std::vector<std::string>{"1", "", "2"}));
  EXPECT_TRUE(root.lines("/none").empty());
}

TEST(SysRoot, BoundsWhatItReads) {
  const testing::TempFolder folder;
  const SysRoot root(folder.path());
  folder.write("large", std::string((size_t{16} << 20) + 100'000, 'x'));
  EXPECT_LT(root.read("/large")->size(), (size_t{16} << 20) + 8192);
}

TEST(SysRoot, KnowsSpace) {
  const testing::TempFolder folder;
  const SysRoot root(folder.path());
  const auto space = root.space("/");
  ASSERT_TRUE(space);
  EXPECT_GT(space->total_bytes, 0u);
  EXPECT_LE(space->free_bytes, space->total_bytes);
  EXPECT_FALSE(root.space("/none"));
  EXPECT_TRUE(root.writable("/"));
  EXPECT_FALSE(root.writable("/none"));
}

}  // namespace
}  // namespace bonsai::admin
