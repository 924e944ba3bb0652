// SPDX-License-Identifier: Apache-2.0
// Deletion of a range: which records go, that they go at one moment, that it is refused beyond its bound, and that the
// space comes back.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/testing/budget.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kMiB;

std::string range_key(uint64_t i) { return "key" + std::to_string(1'000'000 + i); }

class DeleteRange : public ::testing::Test {
 protected:
  void open(uint64_t pool_bytes, uint64_t log_bytes = 0, KeyFormat format = KeyFormat::kBytes) {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = pool_bytes;
    options.log_bytes = log_bytes;
    options.key_format = format;
    const Status status = open_db(options, path_, &db_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void put(uint64_t records, size_t value_bytes = 10) {
    for (uint64_t i = 0; i < records; ++i) {
      ASSERT_TRUE(db_->Put(range_key(i), std::string(value_bytes, static_cast<char>('a' + i % 26))).ok()) << i;
    }
  }
  [[nodiscard]] uint64_t count() const {
    uint64_t records = 0;
    EXPECT_TRUE(db_->Count({}, "", &records).ok());
    return records;
  }
  uint64_t remove(const std::string& from, const ScanOptions& options) {
    uint64_t deleted = 99;
    const Status status = db_->DeleteRange(options, from, &deleted);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return deleted;
  }
  // Until nothing is left.
  void remove_in_parts(uint64_t limit) {
    ScanOptions options;
    options.limit = limit;
    for (uint64_t parts = 0; remove("", options) != 0; ++parts) ASSERT_LT(parts, 100'000U);
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("pool");
  std::unique_ptr<DB> db_;
};

TEST_F(DeleteRange, DeletesWhatAScanVisits) {
  ASSERT_NO_FATAL_FAILURE(open(16 * kMiB));
  ASSERT_NO_FATAL_FAILURE(put(100));
  ScanOptions options;
  const std::string end = range_key(20);
  options.end = end;
  EXPECT_EQ(remove(range_key(10), options), 10U);
  EXPECT_EQ(remove(range_key(10), options), 0U);
  EXPECT_TRUE(db_->Exists(range_key(10)).IsNotFound());
  EXPECT_TRUE(db_->Exists(range_key(9)).ok());
  EXPECT_TRUE(db_->Exists(range_key(20)).ok());
  options = {};
  options.from_exclusive = true;
  options.limit = 3;
  EXPECT_EQ(remove(range_key(97), options), 2U);
  EXPECT_EQ(remove(range_key(50), options), 3U);
  EXPECT_TRUE(db_->Exists(range_key(50)).ok());
  EXPECT_TRUE(db_->Exists(range_key(53)).IsNotFound());
  options.limit = 0;
  EXPECT_EQ(remove("", options), 0U);
  EXPECT_EQ(count(), 85U);
  std::shared_ptr<const Snapshot> snapshot;
  ASSERT_TRUE(db_->GetSnapshot(&snapshot).ok());
  options = {};
  options.snapshot = snapshot.get();
  EXPECT_TRUE(db_->DeleteRange(options, "", nullptr).IsInvalidArgument());
  ASSERT_TRUE(db_->DeleteRange({}, "", nullptr).ok());
  EXPECT_EQ(count(), 0U);
  uint64_t before = 0;
  ASSERT_TRUE(db_->Count(options, "", &before).ok());
  EXPECT_EQ(before, 85U);
}

TEST_F(DeleteRange, IsThereAfterReopening) {
  ASSERT_NO_FATAL_FAILURE(open(16 * kMiB));
  ASSERT_NO_FATAL_FAILURE(put(2'000, 50));
  ASSERT_TRUE(db_->Put("zebra", std::string(20'000, 'z')).ok());  // a large value
  ASSERT_TRUE(db_->Drain().ok());
  ASSERT_NO_FATAL_FAILURE(put(10));
  EXPECT_EQ(remove(range_key(5), {}), 1'996U);
  for (const bool drained : {false, true}) {
    if (drained) {
      EXPECT_TRUE(db_->Drain().ok());
    }
    ASSERT_TRUE(db_->Close().ok());
    db_.reset();
    ASSERT_NO_FATAL_FAILURE(open(16 * kMiB));
    EXPECT_EQ(count(), 5U);
  }
  ASSERT_TRUE(db_->Close().ok());
  db_.reset();
  CheckReport report;
  ASSERT_TRUE(Check(file_names(path_), &report).ok());
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.large_values, 0U);
}

constexpr uint64_t kAtOnce = 300;  // records that are put, and deleted, at one moment

// What readers saw beside puts and deletions of kAtOnce records.
struct SeenCounts {
  std::atomic<uint64_t> full{0}, empty{0}, between{0};
};

// Rounds of puts and `remove`, until `enough`.
template <class Remove, class Enough>
void run_beside_readers(DB* db, SeenCounts* seen, Remove remove, Enough enough) {
  WriteBatch all;
  for (uint64_t i = 0; i < kAtOnce; ++i) all.Put(range_key(i), "v");
  for (const char* const other : {"a", "z"}) ASSERT_TRUE(db->Put(other, "1").ok());
  std::atomic<bool> stop{false};
  std::vector<base::Thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back("reads", [&] {
      while (!stop) {
        uint64_t count = 0;
        EXPECT_TRUE(db->Count({}, "", &count).ok());
        (count == 2 ? seen->empty : count == kAtOnce + 2 ? seen->full : seen->between).fetch_add(1);
      }
    });
  }
  constexpr uint64_t kRoundsMax = 1'000'000;
  for (uint64_t round = 0; !enough(round); ++round) {
    EXPECT_LT(round, kRoundsMax);
    EXPECT_TRUE(db->Write(all).ok());
    remove();
    if (::testing::Test::HasFailure()) break;
  }
  stop = true;
}

// Readers see all records or none.
TEST_F(DeleteRange, IsAtomicForReaders) {
  ASSERT_NO_FATAL_FAILURE(open(32 * kMiB, 4 * kMiB));
  SeenCounts seen;
  const uint64_t rounds = budget(100, 1'000, 20'000);
  const auto enough = [&](uint64_t round) { return round >= rounds && seen.full != 0 && seen.empty != 0; };
  run_beside_readers(
      db_.get(), &seen, [&] { EXPECT_EQ(remove("k", {.end = "l"}), kAtOnce); }, enough);
  EXPECT_EQ(seen.between, 0U);
}

// The canary.
TEST_F(DeleteRange, DeletesOneByOneAreNoticed) {
  ASSERT_NO_FATAL_FAILURE(open(32 * kMiB, 4 * kMiB));
  SeenCounts seen;
  const auto one_by_one = [&] {
    for (uint64_t i = 0; i < kAtOnce; ++i) EXPECT_TRUE(db_->Delete(range_key(i)).ok());
  };
  run_beside_readers(db_.get(), &seen, one_by_one, [&](uint64_t) { return seen.between != 0; });
  EXPECT_GT(seen.between, 0U);
}

TEST_F(DeleteRange, BeyondItsBoundNothingIsDeleted) {
  ASSERT_NO_FATAL_FAILURE(open(16 * kMiB, kMiB));
  const uint64_t records = 2 * db_->BatchBytesMax() / (32 + range_key(0).size());
  ASSERT_NO_FATAL_FAILURE(put(records));
  uint64_t deleted = 99;
  const Status status = db_->DeleteRange({}, "", &deleted);
  ASSERT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_EQ(deleted, 0U);
  EXPECT_EQ(count(), records);
  const std::string text(status.message()), before = "by a limit of ";
  ASSERT_NE(text.find(before), std::string::npos) << text;
  const uint64_t limit = std::strtoull(text.c_str() + text.find(before) + before.size(), nullptr, 10);
  EXPECT_EQ(limit, db_->BatchBytesMax() / (32 + range_key(0).size()));
  EXPECT_EQ(remove("", {.limit = limit}), limit);
  ASSERT_NO_FATAL_FAILURE(remove_in_parts(limit));
  EXPECT_EQ(count(), 0U);
}

// A full pool is emptied, and takes as much again.
TEST_F(DeleteRange, GivesSpaceBack) {
  ASSERT_NO_FATAL_FAILURE(open(2 * kMiB));
  std::vector<uint64_t> filled;
  for (int round = 0; round < budget(2, 3, 10); ++round) {
    uint64_t i = 0;
    while (i < 100'000 && db_->Put(range_key(i), std::string(100, 'v')).ok()) ++i;
    filled.push_back(i);
    EXPECT_GT(i, 1'000U);
    ASSERT_NO_FATAL_FAILURE(remove_in_parts(100));
    EXPECT_EQ(count(), 0U);
    ASSERT_TRUE(db_->Drain().ok());
  }
  EXPECT_GT(10 * filled.back(), 9 * filled.front());
  ASSERT_TRUE(db_->Close().ok());
}

TEST_F(DeleteRange, OfNumbers) {
  ASSERT_NO_FATAL_FAILURE(open(16 * kMiB, 0, KeyFormat::kFixed8));
  const auto number = [](char last) { return std::string(7, '\0') + last; };
  for (char i = 0; i < 100; ++i) ASSERT_TRUE(db_->Put(number(i), "v").ok());
  EXPECT_EQ(remove(std::string(7, '\0') + "\x0a\x01", {.end = std::string_view("\0\0\0\0\0\0\0\x14", 8)}), 9U);
  EXPECT_EQ(count(), 91U);
}

}  // namespace
}  // namespace bonsai::testing
