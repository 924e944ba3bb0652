// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/lock_holder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/calendar.h"
#include "base/nvm/descriptor.h"
#include "base/nvm/testing.h"
#include "base/testing/temp_folder.h"

namespace bonsai::base {
namespace {

using nvm_testing::in_child;
using testing::TempFolder;

constexpr const char* kTable =
    "1: POSIX  ADVISORY  WRITE 11 00:1a:77 0 EOF\n"
    "2: FLOCK  ADVISORY  WRITE 12 00:1a:7 0 EOF\n"
    "2: -> FLOCK  ADVISORY  WRITE 13 00:1a:77 0 EOF\n"
    "3: FLOCK  ADVISORY  WRITE 0 00:1b:77 0 EOF\n"
    "4: FLOCK  ADVISORY  READ  14 00:1b:77 0 EOF\n"
    "5: FLOCK  ADVISORY  WRITE 15 103:02:77 0 EOF\n"
    "6: FLOCK  ADVISORY  WRITE 16 00:1a:777 0 EOF";

TEST(LockHolder, IsFoundByDeviceAndInode) {
  EXPECT_EQ(holder_in(kTable, makedev(0, 0x1a), 7).process, 12);
  EXPECT_EQ(holder_in(kTable, makedev(0, 0x1b), 77).process, 14) << "one of another namespace, then a reader";
  EXPECT_EQ(holder_in(kTable, makedev(0x103, 2), 77).process, 15);
  EXPECT_TRUE(holder_in(kTable, makedev(0, 0x1b), 77).shared);
  EXPECT_FALSE(holder_in(kTable, makedev(0x103, 2), 77).shared);
  EXPECT_EQ(holder_in(kTable, makedev(0, 0x1a), 777).process, 16) << "a last line without an end";
}

TEST(LockHolder, IsNobodyWhoWaitsOrHoldsAnotherKindOfLock) {
  EXPECT_EQ(holder_in(kTable, makedev(0, 0x1a), 77).process, 0);
  EXPECT_EQ(holder_in(kTable, makedev(1, 2), 3).process, 0);
  for (const char* table : {"", "\n", "1:", "1: FLOCK", "1: FLOCK ADVISORY WRITE x 00:1a:7", "\n\n  \n"}) {
    EXPECT_EQ(holder_in(table, makedev(0, 0x1a), 7).process, 0) << table;
  }
}

// A folder with what /proc has of one process.
class Proc : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.file(name)).parent_path());
    std::ofstream(folder_.file(name)) << text;
  }

  TempFolder folder_ = TempFolder::on_tmpfs();
  const std::string ticks_ = std::to_string(100 * ::sysconf(_SC_CLK_TCK));
  const std::string after_ = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 " + ticks_ + " 20 21\n";
};

TEST_F(Proc, ANameMayHaveBlanksAndBrackets) {
  put("stat", "cpu 1 2 3\nbtime 86300\nprocesses 5\n");
  put("7/stat", "7 (a) b (c\n)" + after_);
  EXPECT_EQ(process_text(folder_.path(), 7), "a) b (c?[7], started 1970-01-02 00:00:00 UTC");
}

TEST_F(Proc, WhatIsMissingIsLeftOut) {
  put("7/stat", "7 (store)" + after_);
  EXPECT_EQ(process_text(folder_.path(), 7), "store[7]") << "the machine's start is not known";
  put("stat", "btime 86300\n");
  put("8/stat", "8 (store) S 1 2");
  put("9/stat", "garbage");
  EXPECT_EQ(process_text(folder_.path(), 8), "store[8]");
  EXPECT_EQ(process_text(folder_.path(), 9), "");
  EXPECT_EQ(process_text(folder_.path(), 10), "") << "it has ended";
}

TEST(LockHolder, IsNamedToOthersAndKnownToItself) {
  for (const TempFolder& folder : {TempFolder::on_tmpfs(), TempFolder::on_disk()}) {
    OsFile file = open_file(folder.file("file"), O_RDWR | O_CREAT, 0600);
    ASSERT_TRUE(file.try_lock(true));
    const std::string mine = open_elsewhere(file.fd());
    const std::string others = in_child([&] { return open_elsewhere(open_file(folder.file("file"), O_RDWR, 0).fd()); });
    EXPECT_EQ(others.find("is open in another process"), 0U) << others;
    if (mine.find("another") != std::string::npos) continue;  // a file system that tells Linux another inode
    EXPECT_EQ(mine, "is open in this process already");
    EXPECT_EQ(others, "is open in another process, " + process_text("/proc", ::getpid()));
    EXPECT_NE(others.find("[" + std::to_string(::getpid()) + "], started 20"), std::string::npos) << others;
  }
}

TEST(Calendar, HasDaysAndSeconds) {
  EXPECT_EQ(calendar_text(0), "1970-01-01 00:00:00 UTC");
  EXPECT_EQ(calendar_text(1'793'928'615), "2026-11-06 01:30:15 UTC");
  EXPECT_EQ(calendar_text(UINT64_MAX / 4), "?");
}

}  // namespace
}  // namespace bonsai::base
