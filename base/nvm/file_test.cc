// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/file.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "base/nvm/testing.h"
#include "base/testing/temp_folder.h"

namespace bonsai::base {
namespace {

using nvm_testing::create;
using nvm_testing::reopen;
using testing::TempFolder;

constexpr Site kFileSite{"test"};
constexpr size_t kFileBytes = 64 * 1024;

struct Call {
  size_t offset, bytes;
  int flags;
};
thread_local std::vector<Call> calls;
thread_local std::byte* base_of_calls = nullptr;
thread_local int error_of_calls = 0;

int recording_sync(void* address, size_t bytes, int flags) {
  calls.push_back({static_cast<size_t>(static_cast<std::byte*>(address) - base_of_calls), bytes, flags});
  errno = error_of_calls;
  return error_of_calls == 0 ? 0 : -1;
}

class File : public ::testing::Test {
 protected:
  File() {
    calls.clear();
    base_of_calls = mapping_->data();
    error_of_calls = 0;
  }

  TempFolder dir_ = TempFolder::on_disk();
  std::unique_ptr<Mapping> mapping_ = create(dir_.file("pool"), kFileBytes);
};

TEST_F(File, FenceWritesBackTheSpanOfItsFlushesOnce) {
  FileMedium medium(*mapping_, recording_sync);
  medium.store8(medium.view() + 5000, 1);
  medium.flush(medium.view() + 5000, 8, kFileSite);
  medium.nt_copy(medium.view() + 4096 * 3, std::array<uint64_t, 2>{1, 2}.data(), 16, kFileSite);
  EXPECT_TRUE(calls.empty());
  medium.fence(kFileSite);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].offset, 4096U);  // whole pages
  EXPECT_EQ(calls[0].offset + calls[0].bytes, 4096U * 3 + 16);
  EXPECT_EQ(calls[0].flags, MS_SYNC);
  medium.fence(kFileSite);
  medium.flush(medium.view(), 0, kFileSite);
  medium.fence(kFileSite);
  EXPECT_EQ(calls.size(), 1U) << "nothing was pending";
}

TEST_F(File, AnotherThreadsFenceLeavesMyFlushesPending) {
  FileMedium medium(*mapping_, recording_sync);
  medium.flush(medium.view(), 8, kFileSite);
  std::thread([&] {
    medium.fence(kFileSite);
    EXPECT_TRUE(calls.empty());
  }).join();
  medium.fence(kFileSite);
  EXPECT_EQ(calls.size(), 1U);
}

TEST_F(File, FailedWriteBackStays) {
  FileMedium medium(*mapping_, recording_sync);
  error_of_calls = EIO;
  medium.flush(medium.view(), 8, kFileSite);
  EXPECT_TRUE(medium.health().ok());
  medium.fence(kFileSite);
  EXPECT_TRUE(medium.health().IsIoError());
  EXPECT_NE(medium.health().message().find(mapping_->path()), std::string::npos);
  error_of_calls = 0;
  medium.flush(medium.view(), 8, kFileSite);
  medium.fence(kFileSite);
  EXPECT_TRUE(medium.health().IsIoError()) << "a later success means nothing";
}

TEST_F(File, StoresAndCountsForReal) {
  const NvmCounters before = nvm_counters();
  {
    FileMedium medium(*mapping_);
    medium.store8(medium.view() + 8, 42);
    medium.copy(medium.view() + 4096, "bonsai", 6);
    medium.flush(medium.view() + 8, 4096, kFileSite);
    medium.fence(kFileSite);
    EXPECT_TRUE(medium.health().ok()) << medium.health().ToString();
  }
  const NvmCounters after = nvm_counters();
  EXPECT_EQ(after.bytes_stored - before.bytes_stored, 14U);
  EXPECT_EQ(after.lines_flushed - before.lines_flushed, 65U);
  EXPECT_EQ(after.fences - before.fences, 1U);
  mapping_.reset();
  mapping_ = reopen(dir_.file("pool"));
  EXPECT_EQ(word_at(mapping_->data() + 8).load(), 42U);
  EXPECT_EQ(std::memcmp(mapping_->data() + 4096, "bonsai", 6), 0);
}

}  // namespace
}  // namespace bonsai::base
