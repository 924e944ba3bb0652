// SPDX-License-Identifier: Apache-2.0
// The whole store over far media: what its background and opening ask of the other side, and that reads and fences that
// fail there are answers, never wrong content.
#include "base/nvm/far.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing/running_time.h"
#include "store/testing/far_store.h"

namespace bonsai::store {
namespace {

// Ranges that are planned together are read in one list; runs that are merged beyond the plan, in another.
TEST_F(FarStore, OffloadingReadsTwoListsForEachGroup) {
  open(true);
  load_more();
  const Stats loaded = db_->GetStats();
  const auto drain = [this](const char* what) {
    const uint64_t before = db_->GetStats().offloads;
    const auto drained = asked([&] { ASSERT_EQ("OK", db_->Drain().ToString()); });
    const uint64_t ranges = db_->GetStats().offloads - before;
    EXPECT_GE(ranges, 16U) << what;
    EXPECT_LE(drained.lists, 2 * (1 + ranges / 16)) << what;
  };
  for (uint64_t round = 1; round <= 12; ++round) {
    for (uint64_t i = 0; i < kMoreRecords / 8; ++i) {
      ASSERT_TRUE(db_->Put(key_of(kMoreRecords / 8 * (7 + round) + i), value_of(i)).ok());
    }
    drain("runs are appended, put together, compacted, and ranges split");
  }
  const Stats split = db_->GetStats();
  EXPECT_GT(split.splits, loaded.splits + 50);
  EXPECT_GT(split.compactions, loaded.compactions + 100);
  {
    std::shared_ptr<const Snapshot> snapshot;
    ASSERT_TRUE(db_->GetSnapshot(&snapshot).ok());
    for (uint64_t i = 0; i < kMoreRecords; i += 9) ASSERT_TRUE(db_->Put(key_of(i), value_of(i, 2)).ok());
    drain("a snapshot needs the values below");
  }
  for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(db_->Put(key_of(i), std::string(20'000, 'x')).ok());
  ASSERT_EQ("OK", db_->Drain().ToString());
  for (uint64_t i = 0; i < kMoreRecords; i += 9) ASSERT_TRUE(db_->Put(key_of(i), value_of(i, 3)).ok());
  drain("there are large values");
}

// A read returns the right value, or Unavailable with the target's number and the remedy.
TEST_F(FarStore, ReadsThatFailAreAnAnswerAndNothingIsLost) {
  open(true);
  load();
  ASSERT_TRUE(db_->Put("large", std::string(300'000, 'x')).ok());
  ASSERT_TRUE(db_->Drain().ok());
  far_->fail_reads(3);
  uint64_t right = 0, refused = 0;
  const auto judge = [&](const Status& status, bool is_right) {
    EXPECT_TRUE(status.ok() ? is_right : status.IsUnavailable()) << status.ToString();
    ++(status.ok() ? right : refused);
  };
  std::string value;
  for (uint64_t i = 0; i < 300; ++i) {
    const Status status = db_->Get(key_of(i), &value);
    judge(status, value == value_of(i));
    EXPECT_TRUE(status.ok() || status.message().find("target 0") != std::string::npos) << status.ToString();
  }
  for (int i = 0; i < 10; ++i) {
    const Status status = db_->Get("large", &value);
    judge(status, value == std::string(300'000, 'x'));
    uint64_t visited = 0;
    const Status scanned = db_->Scan(ScanOptions(), "", [&](auto, auto) { return ++visited != 0; });
    judge(scanned, visited == kRecords + 1);
    visited = 0;
    const auto iterator = db_->NewIterator(ReadOptions());
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++visited;
    judge(iterator->status(), visited == kRecords + 1);
  }
  EXPECT_GT(right, 100U);
  EXPECT_GT(refused, 50U);
  far_->fail_reads(200);                     // a range with a large value is merged by hundreds of reads
  for (uint64_t i = 0; i < kRecords; ++i) {  // offloads and splits meanwhile
    const Status status = db_->Put(key_of(i), value_of(i, 1));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  far_->fail_reads(0);
  ASSERT_TRUE(db_->Drain().ok());
  expect_content(1);
  open(false);
  expect_content(1);
  ASSERT_TRUE(db_->Get("large", &value).ok());
}

// Not NoSpace: there is room, and it is reached again.
TEST_F(FarStore, ALogThatIsFullSinceATargetCannotBeReadIsUnavailable) {
  constexpr uint64_t kPutsMax = 1'000'000;
  open(true);
  load();
  ASSERT_EQ("OK", db_->Drain().ToString());
  far_->fail_reads(1);
  const std::string value(200, 'v');
  Status status;
  for (uint64_t i = 0; i < kPutsMax && status.ok(); ++i) status = db_->Put(key_of(i % kRecords), value);
  EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
  EXPECT_NE(status.ToString().find("retry"), std::string::npos) << status.ToString();
  EXPECT_TRUE(db_->Drain().IsUnavailable());
  far_->fail_reads(0);
  EXPECT_EQ("OK", db_->Delete(key_of(0)).ToString());
  EXPECT_EQ("OK", db_->Drain().ToString());
}

TEST_F(FarStore, DrainDoesNotWaitForRangesThatItCannotPutInOrder) {
  constexpr uint64_t kLimitMs = 10'000, kMsMax = 1'000;
  open(true);
  load_more();
  for (uint64_t i = 0; i < kMoreRecords; i += 50) ASSERT_TRUE(db_->Put(key_of(i), value_of(i, 1)).ok());
  ASSERT_EQ("OK", db_->Drain().ToString());
  open(false, true, kLimitMs, /*background=*/true);
  far_->fail_reads(1);
  const testing::RunningTime time;
  EXPECT_EQ("OK", db_->Drain().ToString()) << "all updates are in dnodes";
  EXPECT_LT(time.ms(), kMsMax);
  far_->fail_reads(0);
  ASSERT_TRUE(db_->Put(key_of(0), value_of(0, 1)).ok());  // ranges are looked at again when one was offloaded
  for (uint64_t round = 0; round < kMsMax && db_->GetStats().dnode_records != kMoreRecords; ++round) {
    EXPECT_EQ("OK", db_->Drain().ToString());
    base::sleep_ms(1);  // a thread may still be at a range
  }
  EXPECT_EQ(db_->GetStats().dnode_records, kMoreRecords);
  std::string value;
  for (uint64_t i = 0; i < kMoreRecords; i += 25) {
    ASSERT_TRUE(db_->Get(ReadOptions(), key_of(i), &value).ok());
    ASSERT_EQ(value, value_of(i, i % 50 == 0 ? 1 : 0));
  }
}

// The most lists that opening may send to a target: its superblocks, all bytes before the log, all headers, the words
// of all log segments, the records of each one that was in use, and one more for each MiB of `bytes`, the bytes read.
uint64_t lists_to_open(uint64_t bytes, const Stats& before) {
  constexpr uint64_t kSegmentBytesMin = 4096;
  return 4 + before.log_bytes_used / kSegmentBytesMin + (bytes >> 20);
}

TEST(FarTargets, OpeningReadsAllThatItKnowsTogether) {
  constexpr uint64_t kRecords = 60'000, kTargetBytes = uint64_t{8} << 20;
  persist::testing::MemoryMedium first(kTargetBytes), second(kTargetBytes);
  std::array<base::FarMedium*, 2> far{};
  std::unique_ptr<DB> db;
  const auto open = [&](bool create) {
    db.reset();
    std::vector<std::unique_ptr<base::HookedMedium>> media;
    for (persist::testing::MemoryMedium* near : {&first, &second}) {
      auto medium = std::make_unique<base::FarMedium>(*near, base::FarOptions());
      far[media.size()] = medium.get();
      media.push_back(std::move(medium));
    }
    Options options;
    options.pool_bytes = 2 * kTargetBytes;
    std::unique_ptr<Tiers> tiers;
    const Status status = open_tiers_on(options, std::move(media), create, &tiers);
    ASSERT_TRUE(status.ok()) << status.ToString();
    db = std::make_unique<DbImpl>(options, std::move(tiers), BackgroundThreads());
  };
  open(true);
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db->Put(key_of(i), value_of(i)).ok());
  ASSERT_TRUE(db->Drain().ok());
  const Stats before = db->GetStats();
  ASSERT_GE(before.dnodes, 32U) << "their headers are in several extents";
  ASSERT_LE(before.log_bytes_used, before.log_bytes / 16) << "drained";
  open(false);
  for (const base::FarMedium* medium : far) {
    const base::FarMedium::Counts counts = medium->counts();
    EXPECT_LE(counts.lists, lists_to_open(counts.bytes, before));
  }
}

TEST_F(FarStore, OpeningReadsWhatNamesLargeValuesTogether) {
  open(true);
  load_more();
  for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(db_->Put(key_of(i * 50), std::string(20'000, 'x')).ok());
  ASSERT_TRUE(db_->Drain().ok());
  const Stats before = db_->GetStats();
  ASSERT_GE(before.dnodes, 16U);
  open(false);
  const base::FarMedium::Counts counts = far_->counts();
  EXPECT_LE(counts.lists, 1 + lists_to_open(counts.bytes, before));
  std::string value;
  ASSERT_TRUE(db_->Get(key_of(50), &value).ok());
  EXPECT_EQ(value, std::string(20'000, 'x'));
}

TEST_F(FarStore, OpeningFailsWithItsReads) {
  open(true);
  load();
  close();
  Options options;
  options.pool_bytes = kPoolBytes;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    auto far = std::make_unique<base::FarMedium>(near_, base::FarOptions{.seed = seed});
    far->fail_reads(1 + seed % 2 * 2);
    std::vector<std::unique_ptr<base::HookedMedium>> media;
    media.push_back(std::move(far));
    std::unique_ptr<Tiers> tiers;
    const Status status = open_tiers_on(options, std::move(media), false, &tiers);
    EXPECT_TRUE(status.IsUnavailable() || (status.ok() && seed % 2 != 0)) << status.ToString();
  }
  open(false);
  expect_content(0);
}

TEST_F(FarStore, AFenceThatFailsEndsUpdatesAndReadsGoOn) {
  open(true);
  load();
  ASSERT_TRUE(db_->Drain().ok());
  far_->fail_fences(1);
  const Status status = db_->Put(key_of(0), "lost");
  EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
  far_->fail_fences(0);
  EXPECT_FALSE(db_->Put(key_of(0), "lost").ok()) << "for good";
  std::string value;
  ASSERT_TRUE(db_->Get(key_of(1), &value).ok());
  EXPECT_EQ(value, value_of(1));
  open(false);
  ASSERT_TRUE(db_->Get(key_of(1), &value).ok());
  ASSERT_TRUE(db_->Put(key_of(0), "kept").ok());
}

// An update whose fence failed does not show until the store is opened again; then it is there or not, for good.
TEST_F(FarStore, AnUpdateWhoseFenceFailedIsSettledByReopening) {
  open(true);
  ASSERT_TRUE(db_->Put("key", "0").ok());
  std::string last = "0";
  int came_back = 0;
  for (int life = 1; life <= 40; ++life) {
    const std::string next = std::to_string(life);
    far_->fail_fences(1);
    ASSERT_FALSE(db_->Put("key", next).ok());
    std::string value;
    ASSERT_TRUE(db_->Get("key", &value).ok());
    ASSERT_EQ(value, last) << "a read shows an update whose outcome is open";
    far_->fail_fences(0);
    open(false);
    ASSERT_TRUE(db_->Get("key", &value).ok());
    ASSERT_TRUE(value == last || value == next) << value;
    came_back += value == next ? 1 : 0;
    last = value;
    open(false);
    ASSERT_TRUE(db_->Get("key", &value).ok());
    ASSERT_EQ(value, last);
  }
  EXPECT_GT(came_back, 0) << "no outcome was open";
}

// Log and dnodes on far targets of their own.
TEST(FarRoles, AStoreWorksAndRecovers) {
  using scale::TargetRole;
  constexpr uint64_t kRecords = 3'000;
  for (const bool log_is_last : {false, true}) {
    persist::testing::MemoryMedium first(kPoolBytes), second(kPoolBytes);
    const std::vector<TargetRole> roles = {log_is_last ? TargetRole::kDnodes : TargetRole::kLog,
                                           log_is_last ? TargetRole::kLog : TargetRole::kDnodes};
    Options options;
    options.pool_bytes = kPoolBytes;
    std::unique_ptr<DB> db;
    const auto open = [&](bool create, const std::vector<TargetRole>& named) {
      db.reset();
      std::vector<std::unique_ptr<base::HookedMedium>> media;
      media.push_back(std::make_unique<base::FarMedium>(first, base::FarOptions()));
      media.push_back(std::make_unique<base::FarMedium>(second, base::FarOptions{.seed = 5}));
      std::unique_ptr<Tiers> tiers;
      const Status status = open_tiers_on(options, std::move(media), create, &tiers, named);
      ASSERT_TRUE(status.ok()) << status.ToString();
      db = std::make_unique<DbImpl>(options, std::move(tiers), BackgroundThreads());
    };
    open(true, roles);
    for (uint64_t round = 0; round < 3; ++round) {
      for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db->Put(key_of(i), value_of(i, round)).ok());
      if (round < 2) {
        ASSERT_EQ("OK", db->Drain().ToString());
      }
      open(false, {});
      std::string value;
      for (uint64_t i = 0; i < kRecords; ++i) {
        ASSERT_TRUE(db->Get(key_of(i), &value).ok()) << "log last: " << log_is_last << ", round " << round;
        ASSERT_EQ(value, value_of(i, round));
      }
    }
  }
}

TEST_F(FarStore, ASilentTargetIsUnavailableWithinItsBound) {
  open(true, true, 100);
  load();
  ASSERT_TRUE(db_->Drain().ok());
  far_->silence(true);
  const uint64_t begin_ns = base::now_ns();
  std::string value;
  EXPECT_TRUE(db_->Get(key_of(1), &value).IsUnavailable());
  EXPECT_LT(base::now_ns() - begin_ns, 5'000'000'000U);
  far_->silence(false);
  expect_content(0);
}

}  // namespace
}  // namespace bonsai::store
