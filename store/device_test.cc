// SPDX-License-Identifier: Apache-2.0
// Pools on DAX devices, here and on another node: a device has its name before it holds a pool, and keeps it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/nvm/testing/devices.h"
#include "base/testing/temp_folder.h"
#include "bonsai/db.h"
#include "testing/served.h"

namespace bonsai::testing {
namespace {

constexpr uint64_t kDeviceBytes = uint64_t{4} << 20;

class DeviceTest : public ::testing::TestWithParam<bool> {
 protected:
  DeviceTest() {
    std::filesystem::create_directories(folder_.file("served"));
    zeros("dax");
    make_device(file("dax"));
    device_ = named(file("dax"));
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file("served/" + name); }
  [[nodiscard]] static std::string named(const std::string& path) { return GetParam() ? served(path) : path; }
  void zeros(const std::string& name) const {
    std::ofstream(file(name)).put('\0');
    std::filesystem::resize_file(file(name), kDeviceBytes);
  }
  [[nodiscard]] static Options creating() {
    Options options;
    options.create_if_missing = true;
    options.error_if_exists = true;
    return options;
  }
  static Status use(const std::string& path, const Options& options, Stats* stats = nullptr) {
    std::unique_ptr<DB> db;
    Status status = DB::Open(options, path, &db);
    if (status.ok()) status = db->Put("key", "value");
    if (status.ok() && stats != nullptr) *stats = db->GetStats();
    return status.ok() ? db->Close() : status;
  }
  static void expect_says(const Status& status, Status::Code code, const std::string& words) {
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_NE(status.message().find(words), std::string_view::npos) << status.ToString();
  }

  const TempFolder folder_;
  std::string device_;
};

// Neither a device nor a pool of a node can be opened read-only, and both say what else there is.
TEST_P(DeviceTest, CannotBeOpenedReadOnly) {
  ASSERT_TRUE(use(device_, creating()).ok());
  Options reading;
  reading.read_only = true;
  expect_says(use(device_, reading), Status::Code::kNotSupported,
              "open it for updates, or look at it by `bonsai check`");
  EXPECT_TRUE(use(device_, Options()).ok());
}

TEST_P(DeviceTest, ABlankOneHoldsNoPool) {
  expect_says(use(device_, Options()), Status::Code::kNotSupported, "");
  expect_says(Remove(device_), Status::Code::kIoError, "nothing to remove");
  CheckReport report;
  expect_says(Check(device_, &report), Status::Code::kNotSupported, "");
  const std::string pool = named(file("pool"));
  ASSERT_EQ("OK", use(pool, creating()).ToString());
  expect_says(use(pool + "," + device_, Options()), Status::Code::kIoError, device_ + " is one");
  std::string text;
  ASSERT_EQ("OK", DescribeMedium(device_, &text).ToString());
  EXPECT_EQ(text.starts_with(GetParam() ? "no pool yet" : "devdax"), true) << text;
}

TEST_P(DeviceTest, APoolIsMadeOnItRemovedAndMadeAgain) {
  for (int i = 0; i < 2; ++i) {
    Stats stats;
    ASSERT_EQ("OK", use(device_, creating(), &stats).ToString());
    EXPECT_EQ(stats.pool_bytes, kDeviceBytes);
    expect_says(use(device_, creating()), Status::Code::kInvalidArgument, "exists already");
    EXPECT_EQ("OK", use(device_, Options()).ToString());
    std::string text;
    ASSERT_EQ("OK", DescribeMedium(device_, &text).ToString());
    EXPECT_TRUE(text.starts_with("devdax (NVM)")) << text;
    EXPECT_EQ("OK", Remove(device_).ToString());
    EXPECT_TRUE(std::filesystem::exists(file("dax")));
    expect_says(use(device_, Options()), Status::Code::kNotSupported, "holds no pool");
  }
}

// A file of zeros is refused: its bytes could be another program's.
TEST_P(DeviceTest, AFileOfZerosIsNobodysToOverwrite) {
  zeros("file");
  expect_says(use(named(file("file")), creating()), Status::Code::kInvalidArgument, "exists already");
  EXPECT_TRUE(Remove(named(file("file"))).IsNotSupported());
  EXPECT_EQ(std::filesystem::file_size(file("file")), kDeviceBytes);
}

INSTANTIATE_TEST_SUITE_P(Media, DeviceTest, ::testing::Bool(),
                         [](const auto& about) { return about.param ? "served" : "local"; });

}  // namespace
}  // namespace bonsai::testing
