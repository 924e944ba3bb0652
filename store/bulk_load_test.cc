// SPDX-License-Identifier: Apache-2.0
// Loading in groups: what it costs, in which order records take effect, and what is there after a failure or a kill.
#include "bonsai/bulk_load.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <new>
#include <string>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "base/units.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kMiB;

std::string load_key(uint64_t i) { return "key" + std::to_string(1'000'000 + i); }

class BulkLoadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = 16 * kMiB;
    const Status status = open_db(options, path_, &db_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  std::string value_of(const std::string& key) {
    std::string value;
    const Status status = db_->Get(key, &value);
    return status.ok() ? value : status.ToString();
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("pool");
  std::unique_ptr<DB> db_;
};

// Counted, not timed: a fence and, of remote targets, round trips for a group and not for each record.
TEST_F(BulkLoadTest, RecordsShareFencesAndRoundTrips) {
  constexpr uint64_t kRecords = 10'000;
  const auto cost_of = [&](auto&& load) {
    const Stats before = db_->GetStats();
    load();
    const Stats after = db_->GetStats();
    return std::pair(after.nvm_fences - before.nvm_fences, after.fabric_round_trips - before.fabric_round_trips);
  };
  const auto alone = cost_of([&] {
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db_->Put(load_key(i), "one by one").ok());
  });
  const auto together = cost_of([&] {
    BulkLoad load(db_.get());
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(load.Put(load_key(i), "together").ok());
    ASSERT_TRUE(load.Finish().ok());
    EXPECT_EQ(load.Records(), kRecords);
  });
  // Rising keys fill one range after the other, and a put that finds its range full goes alone: hence not a 32nd.
  EXPECT_GE(alone.first, kRecords) << "the bounds below are bounds of something";
  EXPECT_LE(together.first, alone.first / 2);
  EXPECT_LE(together.second, alone.second / 2);
  for (uint64_t i = 0; i < kRecords; i += 97) EXPECT_EQ(value_of(load_key(i)), "together");
  add_row("loading 10,000 records, counted", shm_asked() ? "a pool on a node (shm)" : "a pool on tmpfs",
          {{"fences_alone", alone.first},
           {"fences_in_groups", together.first},
           {"round_trips_alone", alone.second},
           {"round_trips_in_groups", together.second}});
}

TEST_F(BulkLoadTest, TheLastRecordOfAKeyCounts) {
  BulkLoad load(db_.get());
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(load.Put("key" + std::to_string(i % 7), std::to_string(i)).ok());
  ASSERT_TRUE(load.Finish().ok());
  for (int i = 993; i < 1'000; ++i) EXPECT_EQ(value_of("key" + std::to_string(i % 7)), std::to_string(i));
}

TEST_F(BulkLoadTest, LargeValuesEndAGroupEarly) {
  const std::string value(300 * base::kKiB, 'v');
  BulkLoad load(db_.get());
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(load.Put(load_key(i), value).ok());
    EXPECT_EQ(load.Records(), (i + 1) / 4 * 4) << "no more than a megabyte waits";
  }
  ASSERT_TRUE(load.Finish().ok());
  EXPECT_EQ(load.Records(), 20U);
  EXPECT_EQ(value_of(load_key(19)), value);
}

TEST_F(BulkLoadTest, AFailureEndsItAndCountsWhatIsBefore) {
  for (const uint64_t bad : {0, 1, 255, 256, 300}) {
    BulkLoad load(db_.get());
    Status status;
    for (uint64_t i = 0; i < 600 && status.ok(); ++i) status = load.Put(i == bad ? "" : load_key(i), "v");
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_EQ(load.Records(), bad);
    EXPECT_TRUE(load.Put("more", "v").IsInvalidArgument());
    EXPECT_TRUE(load.Finish().IsInvalidArgument());
    EXPECT_EQ(load.Records(), bad);
    for (uint64_t i = 0; i < bad; ++i) ASSERT_EQ(value_of(load_key(i)), "v");
    EXPECT_TRUE(db_->Exists("more").IsNotFound());
  }
}

TEST_F(BulkLoadTest, AFullPoolIsReportedAndKeepsWhatItCounted) {
  const std::string value(1'000, 'v');
  BulkLoad load(db_.get());
  Status status;
  for (uint64_t i = 0; i < 100'000 && status.ok(); ++i) status = load.Put(load_key(i), value);
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  ASSERT_GT(load.Records(), 1'000U);
  for (uint64_t i = 0; i < load.Records(); i += 13) ASSERT_EQ(value_of(load_key(i)), value) << i;
}

// What was counted is there after a kill, and what was not is there whole or not at all.
TEST_F(BulkLoadTest, WhatWasCountedSurvivesAKill) {
  if (other_side_asked()) GTEST_SKIP() << "the child would be another node's client";
  ASSERT_TRUE(db_->Close().ok());
  auto* const counted = static_cast<std::atomic<uint64_t>*>(
      ::mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(counted), MAP_FAILED);
  const int rounds = budget(3, 20, 200);
  for (int round = 0; round < rounds; ++round) {
    new (counted) std::atomic<uint64_t>(0);
    const std::string value = "value of round " + std::to_string(round);
    const pid_t child = ::fork();
    if (child == 0) {
      if (!open_db(Options(), path_, &db_).ok()) ::_exit(1);
      BulkLoad load(db_.get());
      for (uint64_t i = 0;; ++i) {
        if (!load.Put(load_key(i % 20'000), value).ok()) ::_exit(1);
        counted->store(load.Records());
      }
    }
    base::BoundedWait wait("a load", 60'000);
    while (counted->load() < 1'000 + 131U * static_cast<uint64_t>(round) && !wait.expired()) wait.pause();
    ::kill(child, SIGKILL);
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    ASSERT_TRUE(WIFSIGNALED(ended)) << "the load failed";
    ASSERT_TRUE(open_db(Options(), path_, &db_).ok());
    for (uint64_t i = 0; i < std::min<uint64_t>(counted->load(), 20'000); ++i) ASSERT_EQ(value_of(load_key(i)), value);
    ASSERT_TRUE(db_->Close().ok());
  }
  add_figure("bulk_load_kill_rounds", static_cast<uint64_t>(rounds));
  ::munmap(counted, 4'096);
}

}  // namespace
}  // namespace bonsai::testing
