// SPDX-License-Identifier: Apache-2.0
// Each field of Stats compared with the figure of the system, or of the caller.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "base/memory.h"
#include "base/testing/process_memory.h"
#include "base/testing/temp_folder.h"
#include "bonsai/c.h"
#include "bonsai/db.h"
#include "bonsai/stats_fields.h"
#include "store/c_types.h"

namespace bonsai {
namespace {

using testing::anonymous_bytes;

class StatsTest : public ::testing::Test {
 protected:
  void open(const std::string& paths, uint64_t pool_bytes) {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = pool_bytes;
    options.background_threads = 0;
    ASSERT_TRUE(DB::Open(options, paths, &db_).ok());
  }
  Stats stats() { return db_->GetStats(); }

  testing::TempFolder folder_;
  std::unique_ptr<DB> db_;
};

TEST_F(StatsTest, GaugesOfSpaceAreThoseOfTheFiles) {
  open(folder_.file("a") + "," + folder_.file("b"), uint64_t{16} << 20);
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(db_->Put("key" + std::to_string(i), std::string(100, 'v')).ok());
  const Stats before = stats();
  EXPECT_EQ(before.targets, 2U);
  EXPECT_EQ(before.pool_bytes,
            std::filesystem::file_size(folder_.file("a")) + std::filesystem::file_size(folder_.file("b")));
  EXPECT_LE(before.log_bytes + before.data_bytes, before.pool_bytes);
  EXPECT_GT(before.log_bytes_used, 0U);
  EXPECT_LE(before.log_bytes_used, before.log_bytes);
  ASSERT_TRUE(db_->Drain().ok());
  const Stats after = stats();
  EXPECT_GT(after.data_bytes_used, 5000U * 100);
  EXPECT_LE(after.data_bytes_used, after.data_bytes);
  EXPECT_EQ(after.dnode_records, 5000U);
  EXPECT_EQ(after.dnodes, after.bnodes);
  ASSERT_TRUE(db_->Close().ok());
  CheckReport report;
  ASSERT_TRUE(Check(folder_.file("a") + "," + folder_.file("b"), &report).ok());
  EXPECT_EQ(report.dnodes, after.dnodes);
  EXPECT_EQ(report.data_bytes, after.data_bytes);
}

// Replaced values in the pool that wait for a reader do not count as DRAM.
TEST_F(StatsTest, DramIsWhatTheSystemCountsAsMemory) {
  open(folder_.file("pool"), uint64_t{64} << 20);
  const uint64_t before = anonymous_bytes();
  ASSERT_TRUE(db_->Put("key", std::string(size_t{1} << 20, 'v')).ok());
  ASSERT_TRUE(db_->Scan(ScanOptions(), {},
                        [&](std::string_view, std::string_view) {
                          const std::string value(size_t{1} << 20, 'w');
                          for (int i = 0; i < 30; ++i) EXPECT_TRUE(db_->Put("key", value).ok());
                          const uint64_t held = std::max(anonymous_bytes(), before) - before;
                          EXPECT_LE(stats().dram_bytes, held + base::memory_use().held_bytes + (uint64_t{4} << 20));
                          EXPECT_LT(stats().dram_bytes, uint64_t{32} << 20);
                          return true;
                        })
                  .ok());
}

TEST_F(StatsTest, DramGrowsWithTheRecordsInDram) {
  open(folder_.file("pool"), uint64_t{64} << 20);
  const uint64_t dram_before = stats().dram_bytes, system_before = anonymous_bytes();
  constexpr uint64_t kRecords = 100'000;
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db_->Put("key" + std::to_string(i * 7), "value of it").ok());
  const uint64_t grown = stats().dram_bytes - std::min(dram_before, stats().dram_bytes);
  const uint64_t system = anonymous_bytes() - std::min(system_before, anonymous_bytes());
  EXPECT_LE(grown, system + (uint64_t{16} << 20));
  EXPECT_GT(stats().dram_bytes, 2 * kRecords) << "metadata of the records";
}

TEST_F(StatsTest, CountersAreWhatTheCallerDidSinceTheOpening) {
  for (int round = 0; round < 2; ++round) {
    open(folder_.file("pool"), uint64_t{16} << 20);
    const Stats before = stats();
    for (const StatsField& field : kStatsFields) {
      EXPECT_TRUE(field.kind == StatsKind::kGauge || before.*field.member == 0) << field.name;
    }
    std::string value;
    ASSERT_TRUE(db_->Put("a", "12").ok());
    ASSERT_TRUE(db_->Delete("b").ok());
    ASSERT_TRUE(db_->Get("a", &value).ok());
    ASSERT_TRUE(db_->Exists("a").ok());
    WriteBatch batch;
    batch.Put("c", "3");
    batch.Delete("a");
    ASSERT_TRUE(db_->Write(batch).ok());
    ASSERT_TRUE(db_->Scan(ScanOptions(), {}, [](std::string_view, std::string_view) { return true; }).ok());
    const Stats after = stats();
    EXPECT_EQ(after.puts, 2U);
    EXPECT_EQ(after.dels, 2U);
    EXPECT_EQ(after.gets, 2U);
    EXPECT_EQ(after.batches, 1U);
    EXPECT_EQ(after.scans, 1U);
    EXPECT_EQ(after.user_bytes_written, 3U + 1 + 2 + 1);
    EXPECT_GE(after.nvm_fences, 3U);
    EXPECT_GT(after.nvm_bytes_stored, after.user_bytes_written);
    EXPECT_EQ(after.fabric_messages, 0U);
    ASSERT_TRUE(db_->Close().ok());
  }
}

TEST_F(StatsTest, TheCInterfaceReportsTheSame) {
  open(folder_.file("pool"), uint64_t{16} << 20);
  ASSERT_TRUE(db_->Put("a", "12").ok());
  bonsai_t handle{std::move(db_)};
  const Stats stats = handle.db->GetStats();
  bonsai_stats_t* c_stats = bonsai_stats_create(&handle);
  for (const StatsField& field : kStatsFields) {
    uint64_t value = 0;
    EXPECT_EQ(bonsai_stats_find(c_stats, field.name.data(), &value), BONSAI_OK);
    EXPECT_EQ(value, stats.*field.member) << field.name;
  }
  bonsai_stats_destroy(c_stats);
}

}  // namespace
}  // namespace bonsai
