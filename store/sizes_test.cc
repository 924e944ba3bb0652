// SPDX-License-Identifier: Apache-2.0
// Sizes at and near 0, 2^63 and 2^64, in each option and over the wire: refused, and no byte of a pool changes.
#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>
#include <string>

#include "base/testing/temp_folder.h"
#include "bonsai/c.h"
#include "bonsai/db.h"
#include "testing/served.h"

namespace bonsai::testing {
namespace {

class SizesTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kHalf = uint64_t{1} << 63;
  static constexpr uint64_t kHugeSizes[] = {(uint64_t{1} << 62), kHalf - 1,         kHalf,
                                            kHalf + 1,           UINT64_MAX - 4096, UINT64_MAX - 4095,
                                            UINT64_MAX - 4094,   UINT64_MAX - 1,    UINT64_MAX};
  static constexpr uint64_t kPoolBytes = uint64_t{1} << 20;

  static Options creating() {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = kPoolBytes;
    return options;
  }
  static Status open(const Options& options, const std::string& path) {
    std::unique_ptr<DB> db;
    const Status status = DB::Open(options, path, &db);
    return status.ok() ? db->Close() : status;
  }
  void make() {
    std::unique_ptr<DB> db;
    ASSERT_EQ("OK", DB::Open(creating(), tmpfs_.file("pool"), &db).ToString());
    ASSERT_TRUE(db->Put("key", "value").ok());
    ASSERT_TRUE(db->Close().ok());
    std::filesystem::copy_file(tmpfs_.file("pool"), disk_.file("pool"));
    bytes_ = read_file(tmpfs_.file("pool"));
  }
  void expect_unchanged() const {
    EXPECT_TRUE(read_file(tmpfs_.file("pool")) == bytes_);
    EXPECT_TRUE(read_file(disk_.file("pool")) == bytes_);
  }

  const TempFolder tmpfs_{TempFolder::on_tmpfs()}, disk_{TempFolder::on_disk()};
  std::string bytes_;
};

TEST_F(SizesTest, OfAGrowth) {
  make();
  const std::string local = tmpfs_.file("pool"), file = disk_.file("pool");
  const std::string paths[] = {local, file, served(local), served(file)};
  for (const std::string& path : paths) {
    for (const uint64_t bytes : kHugeSizes) {
      Options growing;
      growing.grow_bytes = bytes;
      const Status status = open(growing, path);
      EXPECT_TRUE(status.IsInvalidArgument()) << path << ", " << bytes << ": " << status.ToString();
    }
    Options growing;
    growing.grow_bytes = (uint64_t{1} << 62) - 1;
    EXPECT_FALSE(open(growing, path).ok()) << path;
    expect_unchanged();
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kPoolBytes - 1, kPoolBytes}) {
      growing.grow_bytes = bytes;
      EXPECT_EQ("OK", open(growing, path).ToString()) << path << ", " << bytes;
      EXPECT_EQ(std::filesystem::file_size(local), kPoolBytes);
      EXPECT_EQ(std::filesystem::file_size(file), kPoolBytes);
    }
    bytes_ = read_file(local);
    std::filesystem::copy_file(local, file, std::filesystem::copy_options::overwrite_existing);
  }
}

TEST_F(SizesTest, OfTheFirstOfTwoTargetsThatGrow) {
  const std::string path = tmpfs_.file("a") + "," + disk_.file("b");
  ASSERT_EQ("OK", open(creating(), path).ToString());
  const std::string a = read_file(tmpfs_.file("a")), b = read_file(disk_.file("b"));
  for (const uint64_t bytes : {(uint64_t{1} << 62) - 1, kHalf, UINT64_MAX, 64 * kPoolBytes}) {
    Options growing;
    growing.grow_bytes = bytes;
    EXPECT_FALSE(open(growing, path).ok()) << bytes;
    EXPECT_TRUE(read_file(tmpfs_.file("a")) == a && read_file(disk_.file("b")) == b) << bytes;
  }
}

TEST_F(SizesTest, OfANewPool) {
  const std::string names[] = {"x", "x?role=log,y?role=dnodes"};
  for (const std::string& name : names) {
    const size_t comma = name.find(',');
    const std::string local = tmpfs_.file(name.substr(0, comma)) +
                              (comma == std::string::npos ? "" : "," + tmpfs_.file(name.substr(comma + 1)));
    for (const uint64_t bytes : kHugeSizes) {
      Options making = creating();
      making.pool_bytes = bytes;
      EXPECT_TRUE(open(making, local).IsInvalidArgument()) << local << ", " << bytes;
      making = creating();
      making.log_bytes = bytes;
      const Status status = open(making, local);
      EXPECT_TRUE(status.IsInvalidArgument() || status.IsNoSpace()) << local << ", " << bytes << status.ToString();
    }
    Options making = creating();
    making.pool_bytes = kPoolBytesMax;
    EXPECT_TRUE(open(making, local).IsNoSpace()) << open(making, local).ToString();
    EXPECT_TRUE(std::filesystem::is_empty(tmpfs_.path()));
  }
  Options making = creating();
  making.pool_bytes = UINT64_MAX;
  EXPECT_TRUE(open(making, served(tmpfs_.file("z"))).IsInvalidArgument());
  making.pool_bytes = kPoolBytesMax;
  EXPECT_TRUE(open(making, served(tmpfs_.file("z"))).IsNoSpace());
  making.medium = MediumChoice::kDram;
  making.durability = Durability::kVolatile;
  EXPECT_TRUE(open(making, "memory").IsNoSpace());
  std::string many;
  for (int i = 0; i < 64; ++i) many += (i == 0 ? "" : ",") + tmpfs_.file("t" + std::to_string(i));
  making = creating();
  making.pool_bytes = kPoolBytesMax;
  EXPECT_TRUE(open(making, many).IsNoSpace());
  EXPECT_TRUE(std::filesystem::is_empty(tmpfs_.path()));
}

TEST_F(SizesTest, OfValuesAndOptionsOfTheCInterface) {
  make();
  bonsai_options_t* const options = bonsai_options_create();
  for (const uint64_t bytes : kHugeSizes) {
    bonsai_options_set_grow_bytes(options, bytes);
    char* error = nullptr;
    bonsai_t* none = nullptr;
    EXPECT_EQ(bonsai_open(options, tmpfs_.file("pool").c_str(), &none, &error), BONSAI_INVALID_ARGUMENT) << bytes;
    EXPECT_NE(error, nullptr);
    bonsai_free(error);
  }
  expect_unchanged();
  bonsai_options_set_grow_bytes(options, 0);
  char* error = nullptr;
  bonsai_t* db = nullptr;
  ASSERT_EQ(bonsai_open(options, tmpfs_.file("pool").c_str(), &db, &error), BONSAI_OK) << error;
  for (const uint64_t bytes : kHugeSizes) {
    EXPECT_EQ(bonsai_put(db, "key", 3, "value", bytes, &error), BONSAI_INVALID_ARGUMENT) << bytes;
    EXPECT_EQ(bonsai_put(db, "key", bytes, "value", 5, &error), BONSAI_INVALID_ARGUMENT) << bytes;
    EXPECT_EQ(bonsai_delete(db, "key", bytes, &error), BONSAI_INVALID_ARGUMENT) << bytes;
  }
  bonsai_free(error);
  EXPECT_EQ(bonsai_close(db, nullptr), BONSAI_OK);
  bonsai_options_destroy(options);
}

}  // namespace
}  // namespace bonsai::testing
