// SPDX-License-Identifier: Apache-2.0
// An open that fails, because of the pool's bytes or because of its arguments, changes no byte. So a damaged target can
// be restored, one target alone, and the pool opens.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "bonsai/db.h"
#include "persist/format.h"
#include "persist/testing.h"
#include "testing/served.h"

namespace bonsai::testing {
namespace {

class FailedOpen : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr uint64_t kPoolBytes = uint64_t{1} << 20;
  static constexpr int kRecords = 300;

  static std::string key_of(int i) { return "key" + std::to_string(1000 + i); }
  [[nodiscard]] std::string file(size_t i) const { return folder_.file("p/" + std::to_string(i)); }
  [[nodiscard]] std::string path() const {
    const std::string files = file(0) + "," + file(1);
    return GetParam() ? served(files) : files;
  }
  static Status open(const Options& options, const std::string& path) {
    std::unique_ptr<DB> db;
    const Status status = DB::Open(options, path, &db);
    return status.ok() ? db->Close() : status;
  }
  [[nodiscard]] std::vector<std::string> bytes() const { return {read_file(file(0)), read_file(file(1))}; }
  void restore(const std::vector<std::string>& bytes) const {
    for (size_t i = 0; i < 2; ++i) folder_.write("p/" + std::to_string(i), bytes[i]);
  }

  // A pool whose owner ended without closing it.
  void make() {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = kPoolBytes;
    options.background_threads = 0;
    std::filesystem::create_directories(folder_.file("p"));
    std::unique_ptr<DB> db;
    ASSERT_EQ("OK", DB::Open(options, path(), &db).ToString());
    for (int i = 0; i < kRecords; ++i) ASSERT_TRUE(db->Put(key_of(i), "value" + std::to_string(i)).ok());
    for (int i = 5; i < kRecords; i += 60) ASSERT_TRUE(db->Put(key_of(i), std::string(9000, 'L')).ok());
    ASSERT_TRUE(db->Drain().ok());
    for (int i = 0; i < kRecords; i += 7) ASSERT_TRUE(db->Put(key_of(i), "new").ok());
    crashed_ = bytes();
    db.reset();
    restore(crashed_);
  }

  // Changes a byte of an entry in a dnode, such that opening notices it. Returns the number of its target.
  size_t rot() {
    for (size_t i = 0; i < 2; ++i) {
      persist::Superblock sb;
      std::memcpy(&sb, crashed_[i].data(), sizeof sb);
      for (size_t at = crashed_[i].find("key1", sb.data_offset); at != std::string::npos;
           at = crashed_[i].find("key1", at + 1)) {
        std::vector<std::string> rotten = crashed_;
        rotten[i][at] ^= 4;
        restore(rotten);
        const bool noticed = open(Options(), path()).IsCorruption();
        restore(noticed ? rotten : crashed_);
        if (noticed) return i;
      }
    }
    ADD_FAILURE() << "opening reads no entry";
    return 0;
  }

  void expect_refused(const Options& options, Status::Code code, const std::string& what) {
    const std::vector<std::string> before = bytes();
    const Status status = open(options, path());
    EXPECT_EQ(status.code(), code) << what << ": " << status.ToString();
    const std::vector<std::string> after = bytes();
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(after[i] == before[i]) << what << ": target " << i << " has changed";
  }
  void expect_whole() {
    std::unique_ptr<DB> db;
    const Status status = DB::Open(Options(), path(), &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (int i = 0; i < kRecords; ++i) {
      std::string value;
      EXPECT_TRUE(db->Get(key_of(i), &value).ok()) << i;
      EXPECT_EQ(value, i % 7 == 0 ? "new" : i % 60 == 5 ? std::string(9000, 'L') : "value" + std::to_string(i));
    }
    EXPECT_TRUE(db->Close().ok());
  }

  const TempFolder folder_;
  std::vector<std::string> crashed_;
};

INSTANTIATE_TEST_SUITE_P(Targets, FailedOpen, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Remote" : "Local"; });

TEST_P(FailedOpen, OfDamageLeavesThePoolToBeRestored) {
  make();
  const size_t damaged = rot();
  for (const uint64_t grow_bytes : {uint64_t{0}, 2 * kPoolBytes}) {
    Options options;
    options.grow_bytes = grow_bytes;
    expect_refused(options, Status::Code::kCorruption, "a run has rotten");
  }
  // A copy of the damaged target from before the open that failed, sound: it is put back as the message advises.
  folder_.write("p/" + std::to_string(damaged), crashed_[damaged]);
  CheckReport report;
  EXPECT_EQ("OK", Check(path(), &report).ToString());
  EXPECT_TRUE(report.ok());
  expect_whole();
}

TEST_P(FailedOpen, ForEveryOtherReasonChangesNothing) {
  make();
  Options options;
  options.key_format = KeyFormat::kFixed8;
  expect_refused(options, Status::Code::kInvalidArgument, "other keys");
  options.grow_bytes = 2 * kPoolBytes;
  expect_refused(options, Status::Code::kInvalidArgument, "other keys, to grow");
  options = Options();
  options.grow_bytes = 100 * kPoolBytes;
  expect_refused(options, Status::Code::kInvalidArgument, "too large for the extent table");
  options.grow_bytes = uint64_t{1} << 50;
  expect_refused(options, Status::Code::kNoSpace, "too large for the file system");
  // Words of the state page, the extent table and the log, each damaged in turn.
  persist::Superblock sb;
  std::memcpy(&sb, crashed_[0].data(), sizeof sb);
  const uint64_t words[] = {persist::kStateRunOffset, persist::kStateEpochOffset, persist::kStateOpeningOffset,
                            sb.log_table_offset + persist::kSegmentEntriesOffset, sb.log_offset};
  for (const uint64_t at : words) {
    for (const uint64_t grow_bytes : {uint64_t{0}, 2 * kPoolBytes}) {
      std::vector<std::string> all = crashed_;
      all[0][at] ^= 1;
      restore(all);
      options.grow_bytes = grow_bytes;
      expect_refused(options, Status::Code::kCorruption, "a word at " + std::to_string(at));
    }
  }
  restore(crashed_);
  // One of the targets is refused after another was enlarged.
  std::vector<std::string> all = crashed_;
  all[1].assign(100, 'x');
  restore(all);
  options.grow_bytes = 2 * kPoolBytes;
  expect_refused(options, Status::Code::kCorruption, "the second is no pool");
  restore(crashed_);
  expect_whole();
}

}  // namespace
}  // namespace bonsai::testing
