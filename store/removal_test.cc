// SPDX-License-Identifier: Apache-2.0
// The removal of a pool: whatever name its bytes still have, there is no pool under it any more, and one can be made.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "base/testing/temp_folder.h"
#include "bonsai/db.h"
#include "persist/format.h"
#include "testing/served.h"

namespace bonsai::testing {
namespace {

class RemovalTest : public ::testing::Test {
 protected:
  RemovalTest() {
    std::filesystem::create_directories(folder_.file("served"));
    std::filesystem::create_directories(folder_.file("devices"));
  }
  static Options creating() {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = uint64_t{256} << 10;
    return options;
  }
  static Status use(const std::string& path, const Options& options) {
    std::unique_ptr<DB> db;
    Status status = DB::Open(options, path, &db);
    if (status.ok()) status = db->Put("key", "value");
    return status.ok() ? db->Close() : status;
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file("served/" + name); }

  // The bytes under that name hold no pool, and can hold one again.
  static void expect_no_pool(const std::string& path) {
    const Status status = use(path, Options());
    EXPECT_TRUE(status.IsNotSupported()) << path << ": " << status.ToString();
    CheckReport report;
    EXPECT_TRUE(Check(path, &report).IsNotSupported());
    EXPECT_EQ("OK", use(path, creating()).ToString());
  }

  const TempFolder folder_;
};

TEST_F(RemovalTest, OtherNamesOfAFileHoldNoPool) {
  const std::string pool = file("pool"), other = file("other");
  for (const std::string& path : {pool, served(pool)}) {
    ASSERT_EQ("OK", use(path, creating()).ToString());
    std::filesystem::create_hard_link(pool, other);
    ASSERT_EQ("OK", Remove(path).ToString());
    EXPECT_FALSE(std::filesystem::exists(pool));
    expect_no_pool(other);
    std::filesystem::remove(other);
  }
}

TEST_F(RemovalTest, ThroughALinkTheFileIsRemovedToo) {
  const std::string pool = folder_.file("devices/pool"), link = file("link");
  for (const std::string& path : {link, served(link)}) {
    ASSERT_EQ("OK", use(pool, creating()).ToString());
    std::filesystem::create_symlink(pool, link);
    ASSERT_EQ("OK", use(path, Options()).ToString());
    ASSERT_EQ("OK", Remove(path).ToString());
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(link))) << path;
    EXPECT_FALSE(std::filesystem::exists(pool)) << path;
    EXPECT_EQ("OK", use(path, creating()).ToString());
    EXPECT_EQ("OK", Remove(path).ToString());
  }
}

TEST_F(RemovalTest, ThatWasInterruptedIsDoneAgain) {
  const std::string names = file("a") + "," + file("b") + "," + file("c");
  for (const std::string& path : {names, served(names)}) {
    ASSERT_EQ("OK", use(path, creating()).ToString());
    // The first is gone, the second holds no pool any more, the third is whole.
    std::filesystem::remove(file("a"));
    std::string bytes = read_file(file("b"));
    std::memcpy(bytes.data(), &persist::kCreatingMagic, sizeof persist::kCreatingMagic);
    std::memset(bytes.data() + persist::kPageBytes, 0, persist::kPageBytes);
    folder_.write("served/b", bytes);
    EXPECT_FALSE(use(path, Options()).ok());
    EXPECT_EQ("OK", Remove(path).ToString());
    for (const auto& left : std::filesystem::directory_iterator(folder_.file("served"))) {
      EXPECT_EQ(left.path().filename(), ".a.owner") << "the record of the file that was removed by hand";
    }
    EXPECT_TRUE(Remove(path).IsIoError()) << "there is nothing";
  }
}

TEST_F(RemovalTest, OfWhatIsNotThatPoolIsRefused) {
  const std::string pool = file("a") + "," + file("b"), other = file("c") + "," + file("d");
  ASSERT_EQ("OK", use(pool, creating()).ToString());
  ASSERT_EQ("OK", use(other, creating()).ToString());
  folder_.write("served/foreign", std::string(100'000, 'x'));
  folder_.write("served/zeros", std::string(100'000, '\0'));
  EXPECT_TRUE(Remove(file("a")).IsInvalidArgument()) << "one of two";
  EXPECT_TRUE(Remove(file("b") + "," + file("a")).IsInvalidArgument()) << "in another order";
  EXPECT_TRUE(Remove(file("a") + "," + file("d")).IsInvalidArgument()) << "of two pools";
  EXPECT_TRUE(Remove(file("a") + "," + file("foreign")).IsNotSupported());
  EXPECT_TRUE(Remove(file("foreign")).IsNotSupported());
  EXPECT_TRUE(Remove(file("zeros")).IsNotSupported());
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(Options(), pool, &db).ok());
  EXPECT_TRUE(Remove(pool).IsBusy());
  ASSERT_TRUE(db->Close().ok());
  db.reset();
  EXPECT_EQ("OK", use(pool, Options()).ToString());
  EXPECT_EQ("OK", use(other, Options()).ToString());
}

}  // namespace
}  // namespace bonsai::testing
