// SPDX-License-Identifier: Apache-2.0
// Tests of the check of the experiment `recovery`, on stores that have lost acknowledged updates.
#include "bench/studies/experiments/versioned_records.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "bench/ycsb/keys.h"
#include "bench/ycsb/values.h"
#include "testing/scratch.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kRecords = 4'000;
constexpr uint64_t kTail = 400;
constexpr uint64_t kLogBytes = uint64_t{1} << 20;
constexpr uint32_t kVersions = 3;  // versions of the load and of two tails

// A store whose second tail is in the log only, and two copies of its file: from before that tail, as if the log were
// lost, and from after it.
class VersionedRecordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.expect_damage(folder_.file("lost"));
    Options options;
    options.create_if_missing = true;
    options.key_format = KeyFormat::kFixed8;
    options.background_threads = 0;
    options.log_bytes = kLogBytes;
    options.pool_bytes = 8 * kLogBytes;
    ASSERT_TRUE(DB::Open(options, pool_, &db_).ok());
    ASSERT_TRUE(versioned_.put(db_.get(), kRecords, stop_).ok());
    for (int tail = 0; tail < 2; ++tail) {
      ASSERT_TRUE(db_->Drain().ok());
      copy("without-tail");
      ASSERT_TRUE(versioned_.put(db_.get(), kTail, stop_).ok());
    }
    copy("whole");
  }

  void copy(const std::string& name) {
    std::filesystem::copy_file(pool_, folder_.file(name), std::filesystem::copy_options::overwrite_existing);
  }

  Status verify(const std::string& name) {
    Options options;
    options.key_format = KeyFormat::kFixed8;
    std::unique_ptr<DB> recovered;
    const Status status = DB::Open(options, folder_.file(name), &recovered);
    return status.ok() ? versioned_.verify(recovered.get()) : status;
  }

  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(folder_.file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // True if one of the tail's records is there in this version.
  static bool holds_a_value(std::string_view bytes, uint32_t version) {
    const RecordShape shape;
    for (uint64_t i = 0; i < kTail; ++i) {
      char value[8];
      fill_value(shape.id(i), version, value, sizeof value);
      if (bytes.find(std::string_view(value, sizeof value)) != std::string_view::npos) return true;
    }
    return false;
  }

  testing::ScratchFolder folder_;
  const std::string pool_ = folder_.file("pool");
  const std::atomic<bool> stop_ = false;
  VersionedRecords versioned_{kRecords};
  std::unique_ptr<DB> db_;
};

TEST_F(VersionedRecordsTest, ACrashedStoreThatHasAllPasses) {
  const Status status = verify("whole");
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(versioned_.verify(db_.get()).ok());
}

// The store has each of these keys, with the value of the tail before.
TEST_F(VersionedRecordsTest, ALostLogIsFound) {
  const Status status = verify("without-tail");
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
}

// Blocks of the log get back the bytes that they had before the last tail. The check must fail, whether or not the
// store notices by itself. At the log's end it may be unable to notice.
TEST_F(VersionedRecordsTest, EachLostBlockOfTheLogIsFound) {
  constexpr size_t kBlock = 4096;
  const std::string now = content("whole"), before = content("without-tail");
  int lost_blocks = 0;
  for (size_t at = 0; at < now.size(); at += kBlock) {
    const std::string_view block = std::string_view(now).substr(at, kBlock);
    if (!holds_a_value(block, kVersions) || holds_a_value(std::string_view(before).substr(at, kBlock), kVersions))
      continue;
    std::string lost = now;
    lost.replace(at, kBlock, before, at, kBlock);
    std::ofstream(folder_.file("lost"), std::ios::binary) << lost;
    const Status status = verify("lost");
    EXPECT_FALSE(status.ok()) << "the block at " << at;
    ++lost_blocks;
  }
  EXPECT_GE(lost_blocks, 2);
}

}  // namespace
}  // namespace bonsai::bench
