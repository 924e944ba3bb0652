// SPDX-License-Identifier: Apache-2.0
// The whole store over far media: what each operation asks of the other side, and that reads and fences that fail there
// are answers, never wrong content.
#include "base/nvm/far.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "persist/testing.h"
#include "store/db_impl.h"
#include "store/tiers.h"

namespace bonsai::store {
namespace {

constexpr size_t kPoolBytes = size_t{16} << 20;

std::string key_of(uint64_t i) {
  std::string key(8, '\0');
  for (uint64_t word = (i + 1) * 0x9e3779b97f4a7c15, b = 0; b < key.size(); ++b)
    key[b] = static_cast<char>(word >> 8 * b);
  return key;
}
std::string value_of(uint64_t i, uint64_t round = 0) { return std::to_string(10'000'000 + i + 1'000'000 * round); }

class FarStore : public ::testing::Test {
 protected:
  static constexpr uint64_t kRecords = 5'000;

  void open(bool create, bool upload = true, uint64_t limit_ms = 10'000) {
    close();
    Options options;
    options.create_if_missing = create;
    options.pool_bytes = kPoolBytes;
    options.metadata_upload = upload;
    options.stall_ms_max = 2'000;
    auto far = std::make_unique<base::FarMedium>(near_, base::FarOptions{.seed = 11, .limit_ms = limit_ms});
    far_ = far.get();
    std::vector<std::unique_ptr<base::HookedMedium>> media;
    media.push_back(std::move(far));
    std::unique_ptr<Tiers> tiers;
    const Status status = open_tiers_on(options, std::move(media), create, &tiers);
    ASSERT_TRUE(status.ok()) << status.ToString();
    db_ = std::make_unique<DbImpl>(options, std::move(tiers), /*background=*/false);
  }
  void close() {
    if (far_ != nullptr) far_->fail_reads(0);
    db_.reset();
    far_ = nullptr;
  }
  // One run in each dnode.
  void load(uint64_t round = 0) {
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db_->Put(key_of(i), value_of(i, round)).ok());
  }
  // In a good many dnodes.
  static constexpr uint64_t kMoreRecords = 30'000;
  void load_more() {
    for (uint64_t i = 0; i < kMoreRecords; ++i) ASSERT_TRUE(db_->Put(key_of(i), value_of(i)).ok());
    ASSERT_TRUE(db_->Drain().ok());
  }
  // The first so many records, together.
  void multi_get(uint64_t gets) {
    std::vector<std::string> keys, values(gets);
    for (uint64_t i = 0; i < gets; ++i) keys.push_back(key_of(i));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<Status> statuses(gets);
    db_->MultiGet(ReadOptions(), views, values, statuses);
    for (uint64_t i = 0; i < gets; ++i) ASSERT_EQ(values[i], value_of(i)) << statuses[i].ToString();
  }
  // Reads until they want no range compacted any more: then each has one run.
  void compact() {
    std::string value;
    for (uint64_t before = UINT64_MAX; before != db_->GetStats().compactions;) {
      before = db_->GetStats().compactions;
      for (int passes = 0; passes < 4; ++passes) {
        for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db_->Get(key_of(i), &value).ok());
      }
    }
  }
  // What `work` asks of the other side.
  template <class Work>
  base::FarMedium::Counts asked(Work work) {
    const base::FarMedium::Counts before = far_->counts();
    work();
    const base::FarMedium::Counts after = far_->counts();
    return {after.lists - before.lists, after.reads - before.reads, after.bytes - before.bytes, 0,
            after.lists_overlapped - before.lists_overlapped};
  }
  void expect_content(uint64_t round) {
    std::string value;
    for (uint64_t i = 0; i < kRecords; ++i) {
      ASSERT_TRUE(db_->Get(key_of(i), &value).ok()) << i;
      ASSERT_EQ(value, value_of(i, round));
    }
  }

  persist::testing::MemoryMedium near_{kPoolBytes};
  base::FarMedium* far_ = nullptr;
  std::unique_ptr<DB> db_;
};

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

// Values of several lengths: metadata says where each entry begins. Of a key that exists it also says which one that
// is, or has the same fingerprint: then nothing before it is read, unless that was another one.
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

// Of ranges whose records are in part on a mapped target, what is on the other one is read ahead, too, and once.
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
  DbImpl db(options, std::move(tiers), /*background=*/false);
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

// What an iterator has read ahead is of its moment, whatever was written meanwhile.
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

// What is planned together is read in one list, and what is merged beyond that in another.
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

// What a reader gets is right or Unavailable, with the target's number and what to do.
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

// What opening may ask of a target: its superblocks, all that comes before the data, all headers; so many bytes
// together.
uint64_t lists_to_open(uint64_t bytes) { return 3 + (bytes >> 20); }

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
    db = std::make_unique<DbImpl>(options, std::move(tiers), /*background=*/false);
  };
  open(true);
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db->Put(key_of(i), value_of(i)).ok());
  ASSERT_TRUE(db->Drain().ok());
  ASSERT_GE(db->GetStats().dnodes, 32U) << "their headers are in several extents";
  open(false);
  for (const base::FarMedium* medium : far) {
    const base::FarMedium::Counts counts = medium->counts();
    EXPECT_LE(counts.lists, lists_to_open(counts.bytes));
  }
}

TEST_F(FarStore, OpeningReadsWhatNamesLargeValuesTogether) {
  open(true);
  load_more();
  for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(db_->Put(key_of(i * 50), std::string(20'000, 'x')).ok());
  ASSERT_TRUE(db_->Drain().ok());
  ASSERT_GE(db_->GetStats().dnodes, 16U);
  open(false);
  const base::FarMedium::Counts counts = far_->counts();
  EXPECT_LE(counts.lists, 1 + lists_to_open(counts.bytes));
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
      db = std::make_unique<DbImpl>(options, std::move(tiers), /*background=*/false);
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
