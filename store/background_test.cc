// SPDX-License-Identifier: Apache-2.0
// Offloading with no, one and two threads; back-pressure and its counters.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "store/early_work.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kMiB;

std::string key_of(int i) { return "key" + std::to_string(1'000'000 + i); }

class BackgroundTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  Options options() const {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = 8 * kMiB;
    options.log_bytes = 256 << 10;
    options.background_threads = GetParam();
    return options;
  }
  std::unique_ptr<DB> open(const Options& options) {
    std::unique_ptr<DB> db;
    const Status status = open_db(options, path_, &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return db;
  }
  void expect_sound() {
    CheckReport report;
    ASSERT_TRUE(Check(file_names(path_), &report).ok());
    EXPECT_TRUE(report.ok()) << report.damages[0].where << ": " << report.damages[0].what;
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("pool");
};

// Several times the log's size is written, which works only if some thread offloads.
TEST_P(BackgroundTest, TheLogIsFreedWhileWritersGoOn) {
  const auto db = open(options());
  constexpr int kWriters = 2, kRounds = 6, kKeys = 2'000;
  std::atomic<int> failures{0};
  {
    std::vector<base::Thread> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
      writers.emplace_back("writer", [&, writer] {
        for (int round = 0; round < kRounds; ++round) {
          for (int i = writer; i < kKeys; i += kWriters) {
            if (!db->Put(key_of(i), "round" + std::to_string(round)).ok()) failures.fetch_add(1);
          }
        }
      });
    }
  }
  EXPECT_EQ(failures.load(), 0);
  const Stats stats = db->GetStats();
  EXPECT_EQ(stats.puts, uint64_t{kRounds} * kKeys);
  EXPECT_GT(stats.offloads, 0u) << "the log holds less than what was written";
  EXPECT_GT(stats.updates_offloaded, 0u);
  EXPECT_LE(stats.updates_offloaded, stats.puts);
  EXPECT_LE(stats.log_bytes_used, stats.log_bytes);
  std::string value;
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(db->Get(key_of(i), &value).ok()) << i;
    ASSERT_EQ(value, "round" + std::to_string(kRounds - 1)) << i;
  }
  ASSERT_TRUE(db->Close().ok());
  expect_sound();
}

TEST_P(BackgroundTest, DrainEmptiesTheLog) {
  const auto db = open(options());
  for (int i = 0; i < 3'000; ++i) ASSERT_TRUE(db->Put(key_of(i), std::string(20, 'v')).ok());
  ASSERT_TRUE(db->Drain().ok());
  ASSERT_TRUE(db->Drain().ok()) << "with nothing to do";
  const Stats stats = db->GetStats();
  EXPECT_EQ(stats.dnode_records, 3'000u);
  EXPECT_GT(stats.splits, 0u);
  EXPECT_TRUE(stats.replacements > 0 || GetParam() > 0) << "nobody else does it for writers";
  EXPECT_LT(stats.log_bytes_used, stats.log_bytes / 2) << "only the open segments are left";
  std::string value;
  ASSERT_TRUE(db->Get(key_of(1), &value).ok());
  EXPECT_EQ(db->GetStats().gets_from_dnodes, 1u);
  ASSERT_TRUE(db->Close().ok());
  CheckReport report;
  ASSERT_TRUE(Check(file_names(path_), &report).ok());
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.records, 3'000u);
}

// Overwrites of a few keys are merged in place: no range fills up, the log has room, so no writer waits.
TEST_P(BackgroundTest, NothingStallsWhenThereIsRoom) {
  Options roomy = options();
  roomy.log_bytes = 4 * kMiB;
  const auto db = open(roomy);
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(db->Put(key_of(i % 8), std::to_string(i)).ok());
  const Stats stats = db->GetStats();
  EXPECT_EQ(stats.puts, 1'000u);
  EXPECT_EQ(stats.stalls, 0u);
  EXPECT_EQ(stats.stall_us, 0u);
}

// A snapshot keeps old versions, not the log: writers must not stall because of it.
TEST_P(BackgroundTest, AHeldSnapshotHoldsNoLog) {
  const auto db = open(options());
  ASSERT_TRUE(db->Put(key_of(0), "before").ok());
  std::shared_ptr<const Snapshot> snapshot;
  ASSERT_TRUE(db->GetSnapshot(&snapshot).ok());
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 1'500; ++i) {
      const Status status = db->Put(key_of(i), "after" + std::to_string(round));
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }
  std::string value;
  ReadOptions then;
  then.snapshot = snapshot.get();
  ASSERT_TRUE(db->Get(then, key_of(0), &value).ok());
  EXPECT_EQ(value, "before");
  EXPECT_TRUE(db->Get(then, key_of(1), &value).IsNotFound());
  snapshot.reset();
  ASSERT_TRUE(db->Close().ok());
  expect_sound();
}

// The pool is full: updates wait no longer than they should, say so, and are counted.
TEST_P(BackgroundTest, BackPressureIsBoundedAndCounted) {
  Options small = options();
  small.pool_bytes = kMiB;
  small.log_bytes = 64 << 10;
  small.stall_ms_max = 60'000;  // so long only if offloading might still succeed
  const auto db = open(small);
  Status status;
  uint64_t longest_ms = 0;
  int i = 0;
  for (; status.ok() && i < 100'000; ++i) {
    const uint64_t started_ns = base::now_ns();
    status = db->Put(key_of(i), std::string(200, 'v'));
    longest_ms = std::max<uint64_t>(longest_ms, (base::now_ns() - started_ns) / base::kNsPerMs);
  }
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  EXPECT_LT(i, 6'000) << "more than the pool can hold";
  EXPECT_GT(db->GetStats().stalls, 0u);
  EXPECT_LT(longest_ms, 20'000u) << "offloading is refused again and again: no use in waiting";
  EXPECT_TRUE(db->Delete(key_of(0)).ok());
  ASSERT_TRUE(db->Close().ok());
  expect_sound();
}

TEST_P(BackgroundTest, BufferedUpdatesBecomeDurableBySync) {
  Options buffered = options();
  buffered.durability = Durability::kBuffered;
  const auto db = open(buffered);
  for (int i = 0; i < 4'000; ++i) ASSERT_TRUE(db->Put(key_of(i), "v").ok());
  ASSERT_TRUE(db->Sync().ok());
  ASSERT_TRUE(db->Drain().ok());
  EXPECT_EQ(db->GetStats().dnode_records, 4'000u);
  ASSERT_TRUE(db->Close().ok());
  expect_sound();
}

// Also while the threads that offload are busy, or there are none.
TEST_P(BackgroundTest, BufferedUpdatesBecomeDurableInTimeAndTheStoreReportsHowLongItTook) {
  Options buffered = options();
  buffered.durability = Durability::kBuffered;
  buffered.buffered_window_ms = 20;
  const auto db = open(buffered);
  for (int tries = 0; db->GetStats().window_us_max == 0 && tries < 10'000; ++tries) {
    ASSERT_TRUE(db->Put(key_of(tries % 100), "v").ok());
    base::sleep_ms(1);
  }
  const Stats stats = db->GetStats();
  EXPECT_GT(stats.window_us_max, 0u) << "nobody closes epochs";
  EXPECT_EQ(stats.window_excesses > 0, stats.window_us_max > 20'000);
}

// A store with the default number of background threads, whose log soon runs low.
std::unique_ptr<DB> with_small_log(const ScratchFolder& folder) {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = 16 * kMiB;
  options.log_bytes = 256 << 10;
  std::unique_ptr<DB> db;
  EXPECT_TRUE(open_db(options, folder.file("pool"), &db).ok());
  return db;
}

// A writer that outruns offloading does the missing work itself, alone or with others.
TEST(Background, WritersThatAreThrottledOffload) {
  constexpr int kRoundsMax = 50, kKeys = 40'000;
  for (const int writers_count : {1, 8}) {
    const ScratchFolder folder;
    const auto db = with_small_log(folder);
    for (int round = 0; round < kRoundsMax && db->GetStats().helped_ranges == 0; ++round) {
      std::vector<base::Thread> writers;
      for (int writer = 0; writer < writers_count; ++writer) {
        writers.emplace_back("writer", [&, writer] {
          for (int i = writer; i < kKeys; i += writers_count) EXPECT_TRUE(db->Put(key_of(i), "value").ok());
        });
      }
    }
    const Stats stats = db->GetStats();
    EXPECT_GT(stats.helped_ranges, 0U) << writers_count;
    EXPECT_LE(stats.helped_ranges, stats.offloads);
    EXPECT_GT(stats.pauses, 0U);
  }
}

// A thread that has just worked sees for itself that there is more to do: pauses of a millisecond do not let it sleep.
// On a busy machine it may oversleep, so one round of several has to show it.
TEST(Background, AThreadThatHasJustWorkedNeedNotBeWoken) {
  const ScratchFolder folder;
  const auto db = with_small_log(folder);
  // A burst fills more than a segment in a small part of the time that a thread looks out for work, under tsan as well.
  constexpr int kRoundsMax = 60, kBursts = 50, kPuts = 50, kKeys = 5'000;
  constexpr uint64_t kWakeUpsMax = 2;
  const std::string value(500, 'v');
  bool seen = false;
  for (int round = 0; round < kRoundsMax && !seen; ++round) {
    const Stats before = db->GetStats();
    for (int burst = 0; burst < kBursts; ++burst) {
      for (int i = 0; i < kPuts; ++i) ASSERT_TRUE(db->Put(key_of((burst * kPuts + i) * 7'919 % kKeys), value).ok());
      base::sleep_ms(1);
    }
    const Stats after = db->GetStats();
    seen = after.wake_ups - before.wake_ups <= kWakeUpsMax && after.offloads > before.offloads;
  }
  EXPECT_TRUE(seen);
}

// Ranges in two runs are put in order: by Drain, or in a store without threads by scans that find them.
TEST_P(BackgroundTest, SeveralRunsArePutInOrder) {
  constexpr int kKeys = 500, kScansMax = 1'000, kRoundsMax = 20;
  const auto db = open(options());
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(db->Put(key_of(i), "first").ok());
  ASSERT_TRUE(db->Drain().ok());
  uint64_t before = 0;
  bool by_drain = false;
  // A thread that takes the range just then may still be at it when Drain returns.
  for (int round = 0; round < (GetParam() == 0 ? 1 : kRoundsMax) && !by_drain; ++round) {
    before = db->GetStats().compactions;
    ASSERT_TRUE(db->Put(key_of(7), "second").ok());
    ASSERT_TRUE(db->Drain().ok());
    by_drain = db->GetStats().compactions > before;
  }
  EXPECT_EQ(by_drain, GetParam() != 0);
  uint64_t records = 0;
  for (int i = 0; i < kScansMax && (i == 0 || db->GetStats().compactions == before); ++i) {
    records = 0;
    ASSERT_TRUE(db->Scan(ScanOptions(), {}, [&](std::string_view, std::string_view) { return ++records != 0; }).ok());
  }
  EXPECT_GT(db->GetStats().compactions, before);
  EXPECT_EQ(records, kKeys);
  std::string value;
  ASSERT_TRUE(db->Get(key_of(7), &value).ok());
  EXPECT_EQ(value, "second");
  ASSERT_TRUE(db->Close().ok());
  expect_sound();
}

// While updates come in, the only early work is what reads have requested.
TEST(Background, ReadersGetWhatTheyAskForCompactedBesideUpdates) {
  const ScratchFolder folder;
  const auto db = with_small_log(folder);
  constexpr int kRoundsMax = 5'000, kPuts = 50, kKeys = 5'000;
  const std::string value(500, 'v');
  const uint64_t before = db->GetStats().early_bytes;
  for (int round = 0; round < kRoundsMax && db->GetStats().early_bytes == before; ++round) {
    for (int i = 0; i < kPuts; ++i) ASSERT_TRUE(db->Put(key_of((round * kPuts + i) * 7'919 % kKeys), value).ok());
    uint64_t records = 0;
    ASSERT_TRUE(db->Scan(ScanOptions(), {}, [&](std::string_view, std::string_view) { return ++records != 0; }).ok());
    ASSERT_LE(records, kKeys);
  }
  EXPECT_GT(db->GetStats().early_bytes, before);
}

// A writer that is faster than offloading is slowed down bit by bit, and the counters say by how much.
TEST_P(BackgroundTest, AFastWriterIsPausedBeforeItStalls) {
  constexpr uint64_t kKeys = 20'000;
  const auto db = open(options());
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(db->Put(key_of(static_cast<int>(i)), "first").ok());
  for (uint64_t i = 0; i < 2 * kKeys; ++i) {  // one range after the other, so that none fills up
    ASSERT_TRUE(db->Put(key_of(static_cast<int>(i * 7919 % kKeys)), "second").ok());
  }
  const Stats stats = db->GetStats();
  if (GetParam() == 0) {
    EXPECT_EQ(stats.pauses, 0u) << "writers that offload need no pause";
  } else {
    EXPECT_GT(stats.pauses, 0u);
    EXPECT_GT(stats.pauses, stats.stalls);
    EXPECT_GT(stats.pause_us, 0u);
  }
}

// A store that is left alone offloads and compacts on its own, and writes no more than its allowance for it.
TEST(Background, AnIdleStorePutsItselfInOrder) {
  constexpr int kKeys = 20'000, kRounds = 3, kLooksMax = 200, kQuietLooks = 5;
  const ScratchFolder folder;
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = 32 * kMiB;
  options.log_bytes = 4 * kMiB;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(open_db(options, folder.file("pool"), &db).ok());
  uint64_t early_bytes = 0;
  for (int round = 0; round < kRounds; ++round) {
    // All, then few enough of a range to be appended as a run; none gets above the high-water mark.
    for (int i = round; i < kKeys; i += 1 + 9 * round) ASSERT_TRUE(db->Put(key_of(i), "value").ok());
    const uint64_t before = early_bytes;
    int quiet_looks = 0;  // one of them may be a thread that the machine kept waiting
    for (int look = 0; look < kLooksMax && quiet_looks < kQuietLooks; ++look) {
      base::sleep_ms(150);
      const Stats seen = db->GetStats();
      // Updates of the first round may have been offloaded for the log's sake. Only early work merges the runs of later
      // rounds.
      const bool begun = round == 0 || seen.early_bytes > before;
      const bool in_order = begun && seen.dnode_records == static_cast<uint64_t>(kKeys);
      quiet_looks = in_order && seen.early_bytes == early_bytes ? quiet_looks + 1 : 0;
      early_bytes = seen.early_bytes;
    }
    EXPECT_EQ(quiet_looks, kQuietLooks) << "it is in order, and writes nothing any more";
  }
  const Stats stats = db->GetStats();
  EXPECT_EQ(stats.dnode_records, static_cast<uint64_t>(kKeys)) << "each dnode has one run, in which none is hidden";
  EXPECT_LE(stats.log_bytes_used, options.log_bytes / 16) << "only the open segments are left";
  std::string value;
  for (int i = 0; i < kKeys; i += 100) ASSERT_TRUE(db->Get(key_of(i), &value).ok());
  EXPECT_EQ(db->GetStats().gets_from_dnodes - stats.gets_from_dnodes, static_cast<uint64_t>(kKeys) / 100);
}

#if BONSAI_SCALABLE_MEMORY
// The DRAM in Stats is the DRAM that the store holds: after loading, and after draining, when most of it is given back.
TEST(Background, DramIsAccountedForAndGivenBack) {
  if (testing::far_asked()) GTEST_SKIP() << "the far medium takes memory, too";
  constexpr int kKeys = 200'000;
  const ScratchFolder folder;
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = 128 * kMiB;
  options.log_bytes = 12 * kMiB;
  options.background_threads = 0;  // a range that is offloaded while they are counted would be counted twice
  std::unique_ptr<DB> db;
  ASSERT_TRUE(open_db(options, folder.file("pool"), &db).ok());
  const auto held = [] { return static_cast<double>(base::memory_use().held_bytes); };
  // The rest, beyond the heaps, the fences and the descriptions of dnodes, is small.
  const auto expect_reported = [&] {
    const auto reported = static_cast<double>(db->GetStats().dram_bytes);
    EXPECT_GE(reported, 0.9 * held());
    EXPECT_LE(reported, 1.1 * held() + kMiB);
  };
  const std::string value(100, 'v');
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(db->Put(key_of(static_cast<int>(i * 7'919LL % kKeys)), value).ok());
  const double loaded = held();
  expect_reported();
  ASSERT_TRUE(db->Drain().ok());
  base::give_back_memory();
  const double drained = held();
  EXPECT_LT(drained, loaded / 2);
  expect_reported();
}
#endif

INSTANTIATE_TEST_SUITE_P(Threads, BackgroundTest, ::testing::Values(0u, 1u, 2u),
                         [](const auto& threads) { return std::to_string(threads.param); });

}  // namespace
}  // namespace bonsai::testing
