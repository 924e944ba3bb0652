// SPDX-License-Identifier: Apache-2.0
// What opening, checking and salvaging pools of another node cost on the fabric and in this node's memory: in
// proportion to what is live there, whatever the size of the pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/process_memory.h"
#include "base/testing/sanitized.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "store/testing/island.h"

namespace bonsai::store {
namespace {

using base::kMiB;
using testing::anonymous_bytes;
using testing::budget;

std::string fetched_key(uint64_t i) { return "key " + std::to_string(i * 7919 % 1'000'003); }

class FetchedStore : public ::testing::Test {
 protected:
  void open(const std::string& path, uint64_t pool_bytes, Durability durability = Durability::kDurable) {
    db_.reset();
    Options options;
    options.create_if_missing = pool_bytes != 0;
    options.pool_bytes = std::max<uint64_t>(pool_bytes, 16 * kMiB);
    options.durability = durability;
    options.background_threads = 0;
    const Status status = DB::Open(options, path, &db_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void put(uint64_t records, uint64_t value_bytes, uint64_t puts) {
    const std::string value(value_bytes, 'v');
    for (uint64_t i = 0; i < puts; ++i) ASSERT_EQ("OK", db_->Put(fetched_key(i % records), value).ToString());
  }
  void expect_records(uint64_t records, uint64_t value_bytes) {
    std::string value;
    for (uint64_t i = 0; i < records; ++i) {
      ASSERT_EQ("OK", db_->Get(fetched_key(i), &value).ToString()) << i;
      ASSERT_EQ(value.size(), value_bytes);
    }
  }
  // Requires: the pool was just opened.
  void print(const char* what) const {
    const Stats stats = db_->GetStats();
    std::printf("%s: pool %llu KiB, log %llu KiB, fetched %llu KiB, resident %llu KiB\n", what,
                static_cast<unsigned long long>(stats.pool_bytes >> 10),
                static_cast<unsigned long long>(stats.log_bytes >> 10),
                static_cast<unsigned long long>(stats.fabric_bytes >> 10),
                static_cast<unsigned long long>(stats.resident_bytes >> 10));
  }

  Island near_{"near"};
  std::unique_ptr<DB> db_;
};

// Its tables are a thousandth of a pool; its log and data do not count.
TEST_F(FetchedStore, OneRecordCostsLittleInALargePoolToo) {
  for (const uint64_t bytes : {16 * kMiB, uint64_t(budget(256, 1024, 6144)) * kMiB}) {
    const std::string path = "near://node/pool" + std::to_string(bytes);
    open(path, bytes);
    put(1, 100, 1);
    ASSERT_EQ("OK", db_->Close().ToString());
    open(path, 0);
    print("one record");
    const Stats stats = db_->GetStats();
    EXPECT_LT(stats.fabric_bytes, bytes / 1024 + kMiB / 4);
    EXPECT_LT(stats.resident_bytes, bytes / 1024 + kMiB / 4);
    EXPECT_GT(stats.resident_bytes, 4096u);
    expect_records(1, 100);
    put(1, 100, 10);
    const Stats written = db_->GetStats();
    EXPECT_LE(written.resident_bytes, stats.resident_bytes + stats.log_bytes / 64) << "the open segment";
    db_.reset();
  }
}

// The log wraps many times, so that each of its segments has dead records. Nothing of them is fetched.
TEST_F(FetchedStore, OfALogThatWrappedOnlyLiveRecordsAreFetched) {
  constexpr uint64_t kRecords = 500, kValueBytes = 200;
  for (const Durability durability : {Durability::kDurable, Durability::kBuffered}) {
    const std::string path = durability == Durability::kDurable ? "near://node/durable" : "near://node/buffered";
    open(path, 16 * kMiB, durability);
    const uint64_t tables = db_->GetStats().resident_bytes, log_bytes = db_->GetStats().log_bytes;
    put(kRecords, kValueBytes, 3 * log_bytes / kValueBytes);
    const Stats written = db_->GetStats();
    EXPECT_LT(written.resident_bytes, tables + log_bytes / 4) << "sealed segments are given back";
    ASSERT_EQ("OK", db_->Drain().ToString());
    ASSERT_EQ("OK", db_->Close().ToString());
    open(path, 0, durability);
    print("after a log that wrapped");
    EXPECT_LT(db_->GetStats().fabric_bytes, log_bytes / 3);
    expect_records(kRecords, kValueBytes);
  }
}

// What is only in the log comes back from there.
TEST_F(FetchedStore, RecordsOfTheLogAreFetchedAndKept) {
  constexpr uint64_t kRecords = 2'000, kValueBytes = 300;
  open("near://node/log", 64 * kMiB);
  put(kRecords, kValueBytes, kRecords);
  WriteBatch batch;  // longer than what is read at a time
  for (uint64_t i = 0; i < 40; ++i) batch.Put("batch " + std::to_string(i), std::string(3'000, 'b'));
  ASSERT_EQ("OK", db_->Write(batch).ToString());
  const uint64_t used = db_->GetStats().log_bytes_used;
  ASSERT_EQ("OK", db_->Close().ToString());
  open("near://node/log", 0);
  print("records in the log");
  EXPECT_GT(db_->GetStats().fabric_bytes, db_->GetStats().resident_bytes + 100'000) << "not all is offloaded";
  EXPECT_LT(db_->GetStats().fabric_bytes, 2 * used + kMiB);
  expect_records(kRecords, kValueBytes);
  std::string value;
  ASSERT_TRUE(db_->Get("batch 39", &value).ok());
  EXPECT_EQ(value, std::string(3'000, 'b'));
}

// Check and salvage read run after run, and keep none.
TEST_F(FetchedStore, CheckAndSalvageTakeBoundedMemory) {
  const uint64_t records = static_cast<uint64_t>(budget(20'000, 40'000, 200'000));
  constexpr uint64_t kValueBytes = 1'000;
  open("near://node/data", 4 * records * kValueBytes);
  put(records, kValueBytes, records);
  ASSERT_TRUE(db_->Put("large", std::string(2 * kMiB, 'x')).ok());
  ASSERT_EQ("OK", db_->Drain().ToString());
  ASSERT_EQ("OK", db_->Close().ToString());
  db_.reset();
  const uint64_t before = anonymous_bytes();
  uint64_t most = before, samples = 0;
  const auto sample = [&](double) {
    if (++samples % 4 == 0) most = std::max(most, anonymous_bytes());
  };
  CheckReport report;
  ASSERT_EQ("OK", Check("near://node/data", &report, sample).ToString());
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.records, records + 1);
  EXPECT_GT(samples, 4u);
  const uint64_t check_bytes = most - before;
  if (!testing::kSanitized) {  // which has memory of its own
    EXPECT_LT(check_bytes, records * kValueBytes / 2);
    testing::add_figure("check_anonymous_kib_max", check_bytes >> 10);
  }
  SalvageReport salvaged;
  ASSERT_EQ("OK", Salvage("near://node/data", {}, near_.scratch.file("copy"), &salvaged).ToString());
  EXPECT_EQ(salvaged.records, records + 1);
  EXPECT_TRUE(salvaged.lost.empty());
  std::printf("check of %llu MB took %llu KiB\n", static_cast<unsigned long long>(records * kValueBytes / 1'000'000),
              static_cast<unsigned long long>(check_bytes >> 10));
}

}  // namespace
}  // namespace bonsai::store
