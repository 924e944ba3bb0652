// SPDX-License-Identifier: Apache-2.0
// Opening and creating pools: refusals, the files that remain on disk, the records that come back.
#include "testing/open.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/testing/budget.h"
#include "base/units.h"
#include "bonsai/testing.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using Code = Status::Code;
using base::kMiB;

Options creating() {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = 4 * kMiB;
  return options;
}

std::string bytes_of(const std::string& path) {
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

class OpenTest : public ::testing::Test {
 protected:
  void make(const std::string& path, Options options = creating()) {
    std::unique_ptr<DB> db;
    Status status = open_db(options, path, &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(db->Put(key(i, options), "value" + std::to_string(i)).ok());
    status = db->Close();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  static std::string key(int i, const Options& options) {
    if (options.key_format == KeyFormat::kBytes) return "key" + std::to_string(1000 + i);
    std::string key(8, '\0');
    key[7] = static_cast<char>(i);
    return key;
  }
  void expect_whole(const std::string& path, Options options = creating(), int records = 50) {
    options.create_if_missing = false;
    std::unique_ptr<DB> db;
    const Status status = open_db(options, path, &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    std::string value;
    for (int i = 0; i < records; ++i) {
      ASSERT_TRUE(db->Get(key(i, options), &value).ok()) << i;
      EXPECT_EQ(value, "value" + std::to_string(i));
    }
    int seen = 0;
    ASSERT_TRUE(db->Scan({}, {}, [&](auto, auto) { return ++seen, true; }).ok());
    EXPECT_EQ(seen, records);
    EXPECT_TRUE(db->Close().ok());
  }
  // Expects that the open fails so, says a remedy that contains `says`, leaves *db alone and changes no file.
  void expect_refused(const std::string& path, const Options& options, Code code, const std::string& says) {
    const auto before = files();
    std::unique_ptr<DB> db;
    const Status status = open_db(options, path, &db);
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_NE(status.message().find(says), std::string_view::npos) << status.ToString();
    EXPECT_EQ(db, nullptr);
    const auto after = files();
    EXPECT_EQ(after.size(), before.size()) << "a failed open leaves nothing behind";
    for (const auto& [file, bytes] : before) EXPECT_TRUE(after.contains(file) && after.at(file) == bytes) << file;
  }
  // By name, without a node's records of owners.
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.file(""))) {
      const std::string path = entry.path().string();
      if (entry.path().filename().string().front() != '.') all[path] = bytes_of(path);
    }
    return all;
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("pool");
};

TEST_F(OpenTest, ReopenBringsBackBothKeyFormats) {
  for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed8}) {
    Options options = creating();
    options.key_format = format;
    const std::string path = folder_.file(format == KeyFormat::kBytes ? "bytes" : "fixed8");
    make(path, options);
    EXPECT_EQ(std::filesystem::file_size(path), options.pool_bytes);
    for (int i = 0; i < 3; ++i) expect_whole(path, options);
    options.any_key_format = true;
    options.key_format = KeyFormat::kBytes;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(open_db(options, path, &db).ok());
    EXPECT_EQ(db->GetStats().key_format, format);
  }
}

TEST_F(OpenTest, KeyFormatMustBeThePools) {
  make(path_);
  Options options = creating();
  options.key_format = KeyFormat::kFixed8;
  expect_refused(path_, options, Code::kInvalidArgument, "key=bytes");
  expect_whole(path_);
}

TEST_F(OpenTest, WhatExistsAndWhatDoesNot) {
  if (shm_asked()) GTEST_SKIP() << "remote_test.cc has what is refused of remote names";
  Options options = creating();
  options.create_if_missing = false;
  expect_refused(path_, options, Code::kIoError, "pool");
  expect_refused("", creating(), Code::kInvalidArgument, "empty");
  for (const std::string& list : {std::string(","), path_ + ",", "," + path_, path_ + ",," + folder_.file("other")}) {
    expect_refused(list, creating(), Code::kInvalidArgument, "is empty");
    CheckReport report;
    EXPECT_TRUE(Check(list, &report).IsInvalidArgument()) << list;
  }
  expect_refused(folder_.file("no/such/folder/pool"), creating(), Code::kIoError, "pool");
  make(path_);
  options = creating();
  options.error_if_exists = true;
  expect_refused(path_, options, Code::kInvalidArgument, "error_if_exists");
  expect_whole(path_);
  make(folder_.file("fresh"), options);
}

TEST_F(OpenTest, OneOwnerAtATime) {
  make(path_);
  std::unique_ptr<DB> owner;
  ASSERT_TRUE(open_db(creating(), path_, &owner).ok());
  std::unique_ptr<DB> second;
  EXPECT_TRUE(open_db(creating(), path_, &second).IsBusy());
  CheckReport report;
  EXPECT_TRUE(Check(asked_name(path_), &report).IsBusy());
  ASSERT_TRUE(owner->Put("key", "still usable").ok());
  owner.reset();
  EXPECT_TRUE(open_db(creating(), path_, &second).ok());
}

TEST_F(OpenTest, SeveralTargets) {
  for (const size_t targets : {size_t{2}, size_t{3}}) {
    const std::string path = folder_.pool(targets, "pool" + std::to_string(targets));
    make(path);
    expect_whole(path);
    std::unique_ptr<DB> db;
    ASSERT_TRUE(open_db(creating(), path, &db).ok());
    const Stats stats = db->GetStats();
    EXPECT_EQ(stats.targets, targets);
    EXPECT_EQ(stats.pool_bytes, targets * creating().pool_bytes);
    ASSERT_TRUE(db->Close().ok());
    CheckReport report;
    ASSERT_TRUE(Check(asked_name(path), &report).ok());
    EXPECT_TRUE(report.ok());
    EXPECT_TRUE(report.clean);
    EXPECT_EQ(report.targets, targets);
    EXPECT_EQ(report.records, 50u);
  }
}

TEST_F(OpenTest, TargetsAreNamedAllAndInOrder) {
  const std::string a = folder_.file("pool.0"), b = folder_.file("pool.1"), c = folder_.file("pool.2");
  const std::string all = a + "," + b + "," + c;
  make(all);
  make(folder_.pool(3, "other"));
  const Options options;
  expect_refused(b + "," + a + "," + c, options, Code::kInvalidArgument, "order");
  expect_refused(a + "," + c + "," + b, options, Code::kInvalidArgument, "order");
  expect_refused(a + "," + b, options, Code::kInvalidArgument, "3 targets");
  expect_refused(a, options, Code::kInvalidArgument, "3 targets");
  expect_refused(a + "," + b + "," + folder_.file("other.2"), options, Code::kInvalidArgument, "one pool");
  expect_refused(a + "," + b + "," + b, options, Code::kInvalidArgument, "named twice");
  expect_refused(a + "," + b + "," + folder_.file("missing"), creating(), Code::kIoError, "missing");
  expect_whole(all);
  std::filesystem::remove(c);
  expect_refused(all, creating(), Code::kIoError, "missing");
}

TEST_F(OpenTest, TooManyTargets) { expect_refused(folder_.pool(65), creating(), Code::kInvalidArgument, "at most 64"); }

TEST_F(OpenTest, PoolTooSmallOrTooLarge) {
  Options options = creating();
  options.pool_bytes = kPoolBytesMin - 1;
  expect_refused(path_, options, Code::kInvalidArgument, "65536");
  options.pool_bytes = 0;
  expect_refused(path_, options, Code::kInvalidArgument, "65536");
  for (const uint64_t too_large : {kPoolBytesMax + 1, UINT64_MAX}) {
    for (const bool in_dram : {false, true}) {
      options.medium = in_dram ? MediumChoice::kDram : MediumChoice::kAuto;
      options.durability = in_dram ? Durability::kVolatile : Durability::kDurable;
      options.pool_bytes = too_large;
      expect_refused(path_, options, Code::kInvalidArgument, "65536 to 4611686018427387903 bytes");
    }
  }
  options = creating();
  options.pool_bytes = kMiB;
  options.log_bytes = kMiB;
  expect_refused(path_, options, Code::kInvalidArgument, "lower log_bytes");
  options.log_bytes = UINT64_MAX;
  expect_refused(path_, options, Code::kInvalidArgument, "lower log_bytes");
  expect_refused(folder_.pool(2), options, Code::kInvalidArgument, "lower log_bytes");
}

TEST_F(OpenTest, TheSmallestPoolWorks) {
  for (const size_t targets : {size_t{1}, size_t{2}}) {
    Options options = creating();
    options.pool_bytes = kPoolBytesMin;
    const std::string path = folder_.pool(targets, "small" + std::to_string(targets));
    make(path, options);
    expect_whole(path, options);
  }
}

TEST_F(OpenTest, OptionsOutOfRange) {
  make(path_);
  const auto refused = [&](auto change, Code code, const char* says) {
    Options options = creating();
    change(options);
    expect_refused(path_, options, code, says);
    expect_refused(folder_.file("fresh"), options, code, says);
  };
  refused(
      [](Options& o) {
        o.durability = Durability::kBuffered;
        o.buffered_window_ms = 0;
      },
      Code::kInvalidArgument, "buffered_window_ms");
  refused([](Options& o) { o.medium = MediumChoice::kDram; }, Code::kInvalidArgument, "durability to volatile");
  refused([](Options& o) { o.durability = Durability::kVolatile; }, Code::kInvalidArgument, "medium to DRAM");
  expect_whole(path_);
}

TEST_F(OpenTest, TestOptionsThatCannotBe) {
  make(path_);
  const auto refused = [&](const Options& options, const TestOptions& test, const char* says) {
    std::unique_ptr<DB> db;
    for (const std::string& path : {path_, folder_.file("fresh")}) {
      const Status status = OpenForTest(options, test, path, &db);
      EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
      EXPECT_NE(status.message().find(says), std::string::npos) << status.ToString();
      EXPECT_EQ(db, nullptr);
    }
    EXPECT_FALSE(std::filesystem::exists(folder_.file("fresh")));
  };
  Options options = creating();
  refused(options, {.medium = TestMedium::kEmulator, .emulator_preset = "quantum"}, "quantum");
  options.background_threads = 0;
  options.medium = MediumChoice::kDram;
  options.durability = Durability::kVolatile;
  refused(options, {.medium = TestMedium::kShadow}, "in DRAM");
  expect_whole(path_);
}

TEST_F(OpenTest, AStoreInDramIsAStoreUntilItIsClosed) {
  Options options;
  options.medium = MediumChoice::kDram;
  options.durability = Durability::kVolatile;
  options.pool_bytes = 32 * kMiB;
  const std::string file = folder_.file("dram");
  const int kRecordsEach = testing::budget(4'000, 20'000, 100'000) / 4 * 4;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(open_db(options, file, &db).ok());
  EXPECT_EQ(db->GetStats().medium, "DRAM (no NVM), volatile");
  EXPECT_FALSE(db->GetStats().emulated);
  for (int i = 0; i < kRecordsEach; ++i) ASSERT_TRUE(db->Put(key(i, options), "value" + std::to_string(i)).ok());
  for (int i = 0; i < kRecordsEach; i += 2) ASSERT_TRUE(db->Delete(key(i, options)).ok());
  WriteBatch batch;
  for (int i = 0; i < kRecordsEach; i += 4) {
    batch.Put(key(i, options), "batch");
    if (batch.Count() < 100) continue;
    ASSERT_TRUE(db->Write(batch).ok());
    batch.Clear();
  }
  batch.Put("large", std::string(100'000, 'x'));
  ASSERT_TRUE(db->Write(batch).ok());
  EXPECT_EQ(db->GetStats().log_bytes_used, 0U);
  const auto expect_records = [&](DB* there) {
    int seen = 0;
    ASSERT_TRUE(there
                    ->Scan({}, "key",
                           [&](std::string_view found, std::string_view value) {
                             if (found == "large") return value == std::string(100'000, 'x');
                             EXPECT_EQ(value.starts_with("batch"), std::stoi(std::string(found.substr(3))) % 4 == 0);
                             return ++seen != 0;
                           })
                    .ok());
    EXPECT_EQ(seen, kRecordsEach / 2 + kRecordsEach / 4);
    std::string value;
    EXPECT_TRUE(there->Get(key(2, options), &value).IsNotFound());
    ASSERT_TRUE(there->Get(key(3, options), &value).ok());
    EXPECT_EQ(value, "value3");
  };
  expect_records(db.get());
  ASSERT_TRUE(db->Drain().ok());
  EXPECT_GT(db->GetStats().dnode_records, 0U);
  expect_records(db.get());
  EXPECT_FALSE(std::filesystem::exists(file));
  // Records in memory are kept by copying them.
  EXPECT_TRUE(Checkpoint(db.get(), options, path_).IsInvalidArgument());
  options.medium = MediumChoice::kAuto;
  options.durability = Durability::kDurable;
  ASSERT_TRUE(Checkpoint(db.get(), options, path_).ok());
  ASSERT_TRUE(db->Close().ok());
  ASSERT_TRUE(open_db(options, path_, &db).ok());
  expect_records(db.get());
  options.medium = MediumChoice::kDram;
  options.durability = Durability::kVolatile;
  ASSERT_TRUE(open_db(options, path_, &db).ok()) << "the path is only a name";
  std::string value;
  EXPECT_TRUE(db->Get(key(3, options), &value).IsNotFound());
}

TEST_F(OpenTest, AFullStoreInDramSaysSo) {
  Options options;
  options.medium = MediumChoice::kDram;
  options.durability = Durability::kVolatile;
  options.pool_bytes = kMiB;
  options.stall_ms_max = 200;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(open_db(options, path_, &db).ok());
  Status status;
  int written = 0;
  for (; status.ok() && written < 100'000; ++written) status = db->Put(key(written, options), std::string(100, 'x'));
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  std::string value;
  for (int i = 0; i + 1 < written; ++i) ASSERT_TRUE(db->Get(key(i, options), &value).ok()) << i;
  for (int i = 0; i < written; ++i) ASSERT_TRUE(db->Delete(key(i, options)).ok()) << i;
  EXPECT_TRUE(db->Get(key(1, options), &value).IsNotFound());
}

TEST_F(OpenTest, TheEmulatorsLatencyIsNotThatOfASleep) {
  std::unique_ptr<DB> db;
  ASSERT_TRUE(OpenForTest(creating(), {.medium = TestMedium::kEmulator}, path_, &db).ok());
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < 200; ++i) {
    const uint64_t begin = base::now_ns();
    ASSERT_TRUE(db->Put("key", "value").ok());
    shortest = std::min(shortest, base::now_ns() - begin);
  }
  EXPECT_GE(shortest, 100U);
  EXPECT_LT(shortest, 40 * base::kNsPerUs);
}

TEST_F(OpenTest, ForeignTruncatedAndDamagedFiles) {
  if (shm_asked()) GTEST_SKIP() << "remote_test.cc has what is refused of remote names";
  const std::string foreign = folder_.file("foreign");
  std::ofstream(foreign) << std::string(kMiB, 'x');
  expect_refused(foreign, creating(), Code::kNotSupported, "not a Bonsai pool");
  const std::string empty = folder_.file("empty");
  std::ofstream(empty).flush();
  expect_refused(empty, creating(), Code::kCorruption, "empty");
  make(path_);
  const std::string whole = bytes_of(path_);
  std::filesystem::resize_file(path_, whole.size() / 2);
  expect_refused(path_, creating(), Code::kCorruption, "truncated");
  std::ofstream(path_, std::ios::binary) << whole;
  expect_whole(path_);
  std::string newer = bytes_of(path_);
  for (const size_t copy : {size_t{0}, size_t{4096}}) newer[copy + 64] = static_cast<char>(newer[copy + 64] ^ 1);
  std::ofstream(path_, std::ios::binary) << newer;
  expect_refused(path_, creating(), Code::kCorruption, "checksum");
  newer[4096 + 64] = static_cast<char>(newer[4096 + 64] ^ 1);
  std::ofstream(path_, std::ios::binary) << newer;
  expect_whole(path_);  // by the second copy of the superblock
}

// A copy of the files of an open store has the state that a crash of an eADR machine leaves.
TEST_F(OpenTest, TheLogIsRecoveredOnEveryTarget) {
  for (const size_t targets : {size_t{1}, size_t{2}, size_t{3}}) {
    const std::string name = "live" + std::to_string(targets);
    Options options = creating();
    options.background_threads = 0;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(open_db(options, folder_.pool(targets, name), &db).ok());
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(db->Put(key(i, options), "old").ok());
    ASSERT_TRUE(db->Drain().ok());
    WriteBatch batch;
    for (int i = 0; i < 50; ++i) batch.Put(key(i, options), "value" + std::to_string(i));
    ASSERT_TRUE(db->Write(batch).ok());
    for (int i = 50; i < 100; ++i) ASSERT_TRUE(db->Put(key(i, options), "value" + std::to_string(i)).ok());
    for (int i = 100; i < 200; ++i) ASSERT_TRUE(db->Delete(key(i, options)).ok());
    const std::string large(100'000, 'L');
    ASSERT_TRUE(db->Put("large", large).ok());
    ASSERT_TRUE(db->Delete("large").ok());
    for (size_t i = 0; i < targets; ++i) {
      std::filesystem::copy_file(folder_.file(name + "." + std::to_string(i)),
                                 folder_.file("crashed" + name + "." + std::to_string(i)));
    }
    ASSERT_TRUE(db->Close().ok());
    const std::string crashed = folder_.pool(targets, "crashed" + name);
    CheckReport report;
    ASSERT_TRUE(Check(asked_name(crashed), &report).ok());
    EXPECT_TRUE(report.ok()) << report.damages[0].where << ": " << report.damages[0].what;
    EXPECT_FALSE(report.clean);
    EXPECT_GT(report.log_records, 0u);
    EXPECT_EQ(report.records, 100u);
    expect_whole(crashed, options, 100);
    expect_whole(folder_.pool(targets, name), options, 100);
    ASSERT_TRUE(Check(asked_name(crashed), &report).ok());
    EXPECT_TRUE(report.ok() && report.clean);
  }
}

TEST_F(OpenTest, DestroyedWithoutCloseIsClosed) {
  {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(open_db(creating(), path_, &db).ok());
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(db->Put(key(i, creating()), "value" + std::to_string(i)).ok());
  }
  CheckReport report;
  ASSERT_TRUE(Check(asked_name(path_), &report).ok());
  EXPECT_TRUE(report.clean && report.ok());
  expect_whole(path_);
}

TEST_F(OpenTest, CloseIsIdempotent) {
  std::unique_ptr<DB> db;
  ASSERT_TRUE(open_db(creating(), path_, &db).ok());
  EXPECT_TRUE(db->Close().ok());
  EXPECT_TRUE(db->Close().ok());
}

}  // namespace
}  // namespace bonsai::testing
