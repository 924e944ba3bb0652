// SPDX-License-Identifier: Apache-2.0
// The requests of a store on far media to the other side: lists, places and bytes.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/testing/far_store.h"

namespace bonsai::store {
namespace {

TEST_F(FarStore, AGetIsOneListAndAnAbsentKeyMostlyNone) {
  open(true);
  load();
  ASSERT_TRUE(db_->Drain().ok());
  compact();
  std::string value;
  constexpr uint64_t kGets = 1'000;
  const auto present = asked([&] {
    for (uint64_t i = 0; i < kGets; ++i) ASSERT_TRUE(db_->Get(key_of(i), &value).ok());
  });
  EXPECT_EQ(present.lists, kGets);
  EXPECT_LE(present.reads, kGets * 117 / 100) << "1 + 31/256 of like fingerprints in a group, by chance";
  EXPECT_EQ(present.bytes, present.reads * 20);
  const auto absent = asked([&] {
    for (uint64_t i = 0; i < kGets; ++i) ASSERT_TRUE(db_->Get(key_of(kRecords + i), &value).IsNotFound());
  });
  EXPECT_LE(absent.lists, kGets * 16 / 100) << "32/256, by chance";
}

TEST_F(FarStore, AMultiGetIsAFewLists) {
  open(true);
  load();
  ASSERT_TRUE(db_->Drain().ok());
  EXPECT_LE(asked([&] { multi_get(256); }).lists, 16U) << "one for each block of lookups";
}

// The wait of a list is idle time unless another one is worked on meanwhile, or is in flight with it.
TEST_F(FarStore, OnlyTheFirstListOfAMultiGetIsInFlightAlone) {
  open(true);
  load();
  ASSERT_TRUE(db_->Drain().ok());
  compact();
  for (const uint64_t gets : {9U, 16U, 32U, 64U, 256U}) {
    const auto many = asked([&] { multi_get(gets); });
    EXPECT_GE(many.lists, 2U) << gets;
    EXPECT_EQ(many.lists_overlapped, many.lists - 1) << gets;
  }
  EXPECT_EQ(asked([&] { multi_get(8); }).lists, 1U) << "too few for two";
}

TEST_F(FarStore, WithoutMetadataAGetIsOneListToo) {
  open(true, false);
  load();
  ASSERT_TRUE(db_->Drain().ok());
  std::string value;
  const auto gets = asked([&] {
    for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(db_->Get(key_of(i), &value).ok());
  });
  EXPECT_EQ(gets.lists, 100U) << "of whole runs, not of one probe after another";
}

// After opening there is none. Whoever reads a range first, however, has read all that it is made of.
TEST_F(FarStore, MetadataComesWithTheFirstReadOfARange) {
  open(true);
  load();
  ASSERT_TRUE(db_->Drain().ok());
  compact();
  const uint64_t run_bytes = 20 * kRecords + 4 * db_->GetStats().dnodes;
  std::string value;
  const auto gets = [&] {
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db_->Get(key_of(i), &value).ok());
  };
  const auto multi_gets = [&] { multi_get(kRecords); };
  const auto scans = [&](uint64_t limit) {
    ScanOptions options;
    options.limit = limit;
    std::string from;
    for (uint64_t visited = 1; visited != 0;) {
      visited = 0;
      ASSERT_TRUE(db_->Scan(options, from,
                            [&](std::string_view key, auto) {
                              from = std::string(key) + '\0';
                              return ++visited != 0;
                            })
                      .ok());
    }
  };
  struct Reader {
    std::function<void()> read;
    uint64_t runs_max;  // in tenths of all runs' bytes
  };
  const std::array<Reader, 4> readers = {{
      {gets, 23},        // whole runs, then entries, some of which only have the fingerprint
      {multi_gets, 70},  // the gets of one list do not know of each other
      {[&] { scans(20); }, 40},
      {[&] { scans(UINT64_MAX); }, 11},
  }};
  for (size_t reader = 0; reader < readers.size(); ++reader) {
    const auto& [read, runs_max] = readers[reader];
    ASSERT_NO_FATAL_FAILURE(open(false));
    EXPECT_LE(asked(read).bytes, runs_max * run_bytes / 10) << reader;
    EXPECT_EQ(asked([&] { ASSERT_TRUE(db_->Drain().ok()); }).bytes, 0U) << reader << ": nobody reads it again";
    EXPECT_LE(asked(gets).bytes, 12 * run_bytes / 10) << reader;
    expect_content(0);
  }
}

// Readers of one range meet each other, an updater and the background's work there.
TEST_F(FarStore, MetadataIsMadeOnceWhoeverReadsBeside) {
  open(true);
  load();
  ASSERT_TRUE(db_->Drain().ok());
  for (uint64_t round = 1; round <= 3; ++round) {
    ASSERT_NO_FATAL_FAILURE(open(false));
    std::atomic<uint64_t> wrong{0};
    const auto look = [&](uint64_t i, const std::string& value) {
      if (value != value_of(i, round - 1) && value != value_of(i, round)) ++wrong;
    };
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        std::string value;
        ScanOptions few;
        few.limit = 3;
        for (uint64_t i = t; i < kRecords; i += 3) {
          if (i % 5 == 0) {
            const Status status = db_->Scan(few, key_of(i), [](auto, auto) { return true; });
            wrong += status.ok() ? 0 : 1;
          }
          wrong += db_->Get(key_of(i), &value).ok() ? 0 : 1;
          look(i, value);
        }
      });
    }
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kRecords; ++i) wrong += db_->Put(key_of(i), value_of(i, round)).ok() ? 0 : 1;
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) wrong += db_->Drain().ok() ? 0 : 1;
    });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0U) << round;
    expect_content(round);
    ASSERT_TRUE(db_->Drain().ok());
  }
  open(false);
  expect_content(3);
}

TEST_F(FarStore, ALargeValueIsTwoLists) {
  open(true);
  ASSERT_TRUE(db_->Put("large", std::string(300'000, 'x')).ok());
  ASSERT_TRUE(db_->Drain().ok());
  std::string value;
  const auto get = asked([&] { ASSERT_TRUE(db_->Get("large", &value).ok()); });
  EXPECT_EQ(value, std::string(300'000, 'x'));
  EXPECT_EQ(get.lists, 2U);
  EXPECT_EQ(get.reads, 2U);
}

TEST_F(FarStore, AShortScanReadsAPartOfItsRange) {
  open(true);
  load();
  ASSERT_TRUE(db_->Drain().ok());
  ScanOptions few;
  few.limit = 5;
  const auto scans = asked([&] {
    for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(db_->Scan(few, key_of(i), [](auto, auto) { return true; }).ok());
  });
  EXPECT_LE(scans.lists, 160U) << "one, and one more where a range ends";
  EXPECT_LE(scans.bytes, 100U * 8'192) << "a range has some ten thousand bytes";
  uint64_t visited = 0;
  ASSERT_TRUE(db_->Scan(ScanOptions(), "", [&](auto, auto) { return ++visited != 0; }).ok());
  EXPECT_EQ(visited, kRecords);
}

// Values of several lengths. Metadata has the offset of each entry. For an existing key it also has the entry's index,
// or that of an entry with the same fingerprint. Then no entry before that is read, unless the fingerprint was another
// key's.
TEST_F(FarStore, AShortScanReadsAPartOfAVariableRun) {
  open(true);
  const auto value = [](uint64_t i) { return value_of(i) + std::string(i % 7, 'x'); };
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db_->Put(key_of(i), value(i)).ok());
  ASSERT_TRUE(db_->Drain().ok());
  compact();
  std::map<std::string, std::string> model;
  for (uint64_t i = 0; i < kRecords; ++i) model[key_of(i)] = value(i);
  constexpr uint64_t kScans = 2'000;
  const auto scans = [&](uint64_t records, uint64_t first) {
    ScanOptions options;
    options.limit = records;
    return asked([&] {
      for (uint64_t i = first; i < first + kScans; ++i) {
        auto wanted = model.lower_bound(key_of(i));
        uint64_t visited = 0;
        const Status status = db_->Scan(options, key_of(i), [&](std::string_view key, std::string_view found) {
          EXPECT_EQ(key, wanted->first);
          EXPECT_EQ(found, wanted->second);
          ++wanted;
          return ++visited != 0;
        });
        ASSERT_TRUE(status.ok()) << status.ToString();
        EXPECT_TRUE(visited == records || wanted == model.end());
      }
    });
  };
  constexpr uint64_t kEntryBytes = 36;  // the mean and a little
  const auto five = scans(5, 0), fifty = scans(50, 0);
  EXPECT_LE(five.lists, kScans * 11 / 10) << "one, and one more where a range ends";
  EXPECT_LE(fifty.lists, kScans * 13 / 10);
  EXPECT_LE(five.bytes, kScans * (5 + 1 + 6) * kEntryBytes) << "five, and now and then to another of its fingerprint";
  EXPECT_LE(fifty.bytes, kScans * (50 + 1 + 6) * kEntryBytes);
  const auto absent = scans(5, kRecords);
  EXPECT_LE(absent.lists, kScans * 12 / 10) << "one in sixteen begins with a wrong guess";
  EXPECT_GE(absent.lists, kScans * 103 / 100) << "there were some";
  EXPECT_LE(absent.bytes, kScans * (5 + 32 + 6) * kEntryBytes) << "the group in which the first must be, and five";
  uint64_t visited = 0;
  ASSERT_TRUE(db_->Scan(ScanOptions(), "", [&](auto, auto) { return ++visited != 0; }).ok());
  EXPECT_EQ(visited, kRecords);
}

// One range, then two, eight, and nine at a time; fewer where the iterator comes to another node of the tree.
TEST_F(FarStore, AnIteratorReadsAhead) {
  open(true);
  load_more();
  const uint64_t ranges = db_->GetStats().dnodes;
  ASSERT_GE(ranges, 20U);
  const auto iterator = db_->NewIterator(ReadOptions());
  uint64_t visited = 0;
  const auto seek = asked([&] { iterator->SeekToFirst(); });
  EXPECT_EQ(seek.lists, 1U);
  EXPECT_LE(seek.bytes, 64U << 10) << "of one range";
  const auto all = asked([&] {
    for (; iterator->Valid(); iterator->Next()) ++visited;
  });
  EXPECT_EQ(visited, kMoreRecords);
  EXPECT_LE(all.lists, 4 + ranges / 8);
}

// In ranges that also have records on a mapped target, the records on the far target are read ahead, too, and once.
TEST(FarTargets, AnIteratorReadsAheadBesideAMappedTarget) {
  constexpr uint64_t kRecords = 60'000, kTargetBytes = uint64_t{8} << 20;
  persist::testing::MemoryMedium near(kTargetBytes);
  std::vector<std::unique_ptr<base::HookedMedium>> media;
  media.push_back(std::make_unique<persist::testing::MemoryMedium>(kTargetBytes));
  auto medium = std::make_unique<base::FarMedium>(near, base::FarOptions());
  base::FarMedium* const far = medium.get();
  media.push_back(std::move(medium));
  Options options;
  options.pool_bytes = 2 * kTargetBytes;
  std::unique_ptr<Tiers> tiers;
  ASSERT_EQ("OK", open_tiers_on(options, std::move(media), true, &tiers).ToString());
  DbImpl db(options, std::move(tiers), BackgroundThreads());
  for (uint64_t round = 0; round < 2; ++round) {  // runs of two targets in a dnode
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db.Put(key_of(i), value_of(i, round)).ok());
  }
  ASSERT_TRUE(db.Drain().ok());
  const uint64_t before = far->counts().bytes, lists_before = far->counts().lists;
  uint64_t visited = 0;
  const auto iterator = db.NewIterator(ReadOptions());
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++visited;
  EXPECT_EQ(visited, kRecords);
  const uint64_t bytes = far->counts().bytes - before;
  EXPECT_GE(bytes, kRecords * 20 / 8) << "the other target has its share";
  EXPECT_LE(bytes, kRecords * 20 * 2) << "each run once";
  EXPECT_LE(far->counts().lists - lists_before, 4 + db.GetStats().dnodes / 3);
}

// Records that an iterator has read ahead belong to its moment, whatever was written meanwhile.
TEST_F(FarStore, AnIteratorReadsItsMomentWhateverIsReplaced) {
  open(true);
  load_more();
  const auto iterator = db_->NewIterator(ReadOptions());
  iterator->SeekToFirst();
  uint64_t visited = 0;
  std::map<std::string, std::string> expected;
  for (uint64_t i = 0; i < kMoreRecords; ++i) expected[key_of(i)] = value_of(i);
  auto record = expected.begin();
  for (uint64_t round = 1; iterator->Valid(); iterator->Next(), ++record) {
    ASSERT_TRUE(iterator->key() == record->first && iterator->value() == record->second) << visited;
    if (++visited % (kMoreRecords / 3) != 0) continue;
    for (const uint64_t end = round + 3; round < end; ++round) {  // dnodes are compacted, and places used again
      for (uint64_t i = 0; i < kMoreRecords; ++i) ASSERT_TRUE(db_->Put(key_of(i), value_of(i, round)).ok());
      ASSERT_TRUE(db_->Drain().ok());
    }
  }
  EXPECT_EQ("OK", iterator->status().ToString());
  EXPECT_EQ(visited, kMoreRecords);
}

}  // namespace
}  // namespace bonsai::store
