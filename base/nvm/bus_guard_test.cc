// SPDX-License-Identifier: Apache-2.0
// A file shrinks under its mapping: the access ends, not the process; repeatedly and on several threads.
#include "base/nvm/bus_guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "base/nvm/mapping.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"

namespace bonsai::base {
namespace {

constexpr uint64_t kFileBytes = 64 << 10, kLeftBytes = 4096;

class BusGuardTest : public ::testing::Test {
 protected:
  BusGuardTest() {
    MappingOptions options;
    options.create_bytes = kFileBytes;
    EXPECT_EQ("OK", Mapping::open(folder_.file("pool"), options, &mapping_).ToString());
    std::filesystem::resize_file(folder_.file("pool"), kLeftBytes);
  }
  void touch(uint64_t offset) { static_cast<void>(*static_cast<volatile std::byte*>(mapping_->data() + offset)); }
  bool survives(uint64_t offset) {
    return survive_bus_error([&] { touch(offset); });
  }

  testing::TempFolder folder_ = testing::TempFolder::on_tmpfs();
  std::unique_ptr<Mapping> mapping_;
};

TEST_F(BusGuardTest, AnAccessBeyondTheEndOfAFileEndsAlone) {
  catch_bus_errors();
  catch_bus_errors();  // once is enough
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(survives(0));
    EXPECT_TRUE(survives(kLeftBytes - 1));
    EXPECT_FALSE(survives(kLeftBytes));
    EXPECT_FALSE(survives(kFileBytes - 1));
  }
  std::atomic<int> survived{0};
  for_each_on(4, 4, [&](size_t thread) { survived += survives(thread % 2 == 0 ? 0 : kLeftBytes) ? 1 : 0; });
  EXPECT_EQ(survived.load(), 2);
}

TEST_F(BusGuardTest, OutsideOfAGuardedAccessTheProcessEnds) {
  catch_bus_errors();
  EXPECT_FALSE(survives(kLeftBytes));
  EXPECT_DEATH(touch(kLeftBytes), "");
}

}  // namespace
}  // namespace bonsai::base
