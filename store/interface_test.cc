// SPDX-License-Identifier: Apache-2.0
// The contract of include/bonsai as a newcomer reads it: closing, bounds, existence, counting, moments, what visitors
// may do, what an update that fails has changed.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/testing.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using Code = Status::Code;
using Keys = std::vector<std::string>;
using base::kMiB;

class InterfaceTest : public ::testing::Test {
 protected:
  void open(const std::function<void(Options*)>& change = {}, const TestOptions& test = {}) {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = 32 * kMiB;
    if (change) change(&options);
    const bool own_medium = test.medium != TestMedium::kNone;
    const std::string path = folder_.file("pool");
    const Status status = own_medium ? OpenForTest(asked_options(options, path), test, file_names(path), &db_)
                                     : open_db(options, path, &db_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void put(const std::string& key, const std::string& value = "v") {
    const Status status = db_->Put(key, value);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  Keys scan(const std::string& from, const ScanOptions& options = {}) {
    Keys keys;
    const Status status = db_->Scan(options, from, [&](auto key, auto) { return keys.emplace_back(key), true; });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return keys;
  }
  Keys scan_in_session(const std::string& from, const ScanOptions& options = {}) {
    Keys keys;
    Status status;
    const auto session = db_->NewSession();
    session->Scan(
        options, from, [&](auto key, auto) { return keys.emplace_back(key), true; }, &status);
    session->Wait();
    EXPECT_TRUE(status.ok()) << status.ToString();
    return keys;
  }
  uint64_t count(const std::string& from, const ScanOptions& options = {}) {
    uint64_t n = 0;
    const Status status = db_->Count(options, from, &n);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return n;
  }

  ScratchFolder folder_;
  std::unique_ptr<DB> db_;
};

// ---- closing

TEST_F(InterfaceTest, CloseIsBusyWhileSomethingIsAlive) {
  open();
  put("k", "old");
  std::shared_ptr<const Snapshot> snapshot;
  ASSERT_TRUE(db_->GetSnapshot(&snapshot).ok());
  auto iterator = db_->NewIterator({.snapshot = snapshot.get()});
  auto session = db_->NewSession();
  const auto expect_busy = [&](const std::string& says) {
    const Status status = db_->Close();
    EXPECT_TRUE(status.IsBusy()) << status.ToString();
    EXPECT_NE(status.message().find(says), std::string_view::npos) << status.ToString();
  };
  expect_busy("1 snapshots, 1 iterators, 1 sessions");
  put("k", "new");  // the store goes on
  std::string value;
  Status status;
  session->Get("k", &value, &status);
  session->Wait();
  EXPECT_EQ(value, "new");
  session.reset();
  expect_busy("1 snapshots, 1 iterators, 0 sessions");
  snapshot.reset();
  expect_busy("0 snapshots, 1 iterators");
  iterator->SeekToFirst();  // over a snapshot that is gone
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->value(), "old");
  iterator.reset();
  EXPECT_TRUE(db_->Close().ok());
  EXPECT_TRUE(db_->Close().ok());
}

TEST_F(InterfaceTest, ASessionThatIsAliveStopsTheDestructor) {
  if (shm_asked()) GTEST_SKIP() << "a child has no thread that serves";
  ::testing::FLAGS_gtest_death_test_style = "fast";
  EXPECT_DEATH(
      {
        open();
        const auto session = db_->NewSession();
        db_.reset();
      },
      "broken invariant: .*IsBusy");
}

// ---- bounds

TEST_F(InterfaceTest, BoundsMayBeLongerThanKeys) {
  open();
  const std::string longest(kKeyBytesMax, 'x'), last(kKeyBytesMax, 'y');
  for (const std::string& key : {std::string("a"), longest, last}) put(key);
  for (int drained = 0; drained < 2; ++drained) {
    for (const std::string& bound : {longest + '\0', longest + std::string(5'000, '\0')}) {
      EXPECT_EQ(scan(bound), Keys{last});
      EXPECT_EQ(scan_in_session(bound), Keys{last});
      EXPECT_EQ(count(bound), 1u);
      EXPECT_EQ(scan("b", {.end = bound}), Keys{longest});
      const auto iterator = db_->NewIterator({});
      iterator->Seek(bound);
      ASSERT_TRUE(iterator->Valid());
      EXPECT_EQ(iterator->key(), last);
      iterator->SeekForPrev(bound);
      ASSERT_TRUE(iterator->Valid());
      EXPECT_EQ(iterator->key(), longest);
    }
    EXPECT_EQ(scan(last, {.from_exclusive = true}), Keys{});
    ASSERT_TRUE(db_->Drain().ok());
  }
}

TEST_F(InterfaceTest, ExclusiveScansGoOnBehindTheLastKey) {
  for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed8}) {
    open([&](Options* options) {
      options->key_format = format;
      options->medium = MediumChoice::kDram;
      options->durability = Durability::kVolatile;
    });
    Keys keys;
    for (uint64_t i = 0; i < 3'000; ++i) {
      std::string key(8, '\0');
      for (int byte = 0; byte < 8; ++byte) key[static_cast<size_t>(byte)] = static_cast<char>(i * 3 >> (56 - 8 * byte));
      if (format == KeyFormat::kBytes && i % 10 == 0) key += std::string(i % 3, '\0') + std::string(1'016 - i % 3, 'k');
      keys.push_back(key);
      put(key);
    }
    for (int drained = 0; drained < 2; ++drained) {
      for (const uint64_t page : {1, 7, 200, 2'000}) {
        for (const bool in_session : {false, true}) {
          Keys all;
          ScanOptions options{.limit = page};
          for (std::string from;; from = all.back(), options.from_exclusive = true) {
            EXPECT_EQ(count(from, options), std::min<uint64_t>(page, keys.size() - all.size()));
            const Keys some = in_session ? scan_in_session(from, options) : scan(from, options);
            if (some.empty()) break;
            all.insert(all.end(), some.begin(), some.end());
            if (page == 1 && all.size() > 300) break;
          }
          if (page == 1) {
            EXPECT_EQ(all, Keys(keys.begin(), keys.begin() + 301));
          } else {
            EXPECT_TRUE(all == keys) << page;
          }
        }
      }
      ASSERT_TRUE(db_->Drain().ok());
    }
    const auto iterator = db_->NewIterator({});
    iterator->SeekAfter(keys[10]);
    EXPECT_EQ(iterator->key(), keys[11]);
    iterator->SeekBefore(keys[10]);
    EXPECT_EQ(iterator->key(), keys[9]);
    iterator->SeekBefore(iterator->key());  // a view into itself
    EXPECT_EQ(iterator->key(), keys[8]);
    iterator->SeekBefore(keys[0]);
    EXPECT_FALSE(iterator->Valid());
    iterator->SeekAfter(keys.back());
    EXPECT_FALSE(iterator->Valid());
    EXPECT_TRUE(iterator->status().ok());
  }
}

TEST_F(InterfaceTest, AScanWithoutAVisitorIsRefused) {
  open();
  put("k");
  EXPECT_TRUE(db_->Scan({}, {}, ScanVisitor()).IsInvalidArgument());
  EXPECT_TRUE(db_->ScanRows({}, {}, RowsVisitor()).IsInvalidArgument());
  Status status;
  const auto session = db_->NewSession();
  session->Scan({}, {}, ScanVisitor(), &status);
  session->Wait();
  EXPECT_TRUE(status.IsInvalidArgument());
}

// ---- existence and counting

TEST_F(InterfaceTest, ExistsAndCountFollowUpdates) {
  open();
  std::shared_ptr<const Snapshot> empty;
  ASSERT_TRUE(db_->GetSnapshot(&empty).ok());
  put("a", "");
  put("b", std::string(3 * kMiB, 'x'));
  put("c");
  ASSERT_TRUE(db_->Delete("c").ok());
  put("d");
  for (int drained = 0; drained < 2; ++drained) {
    EXPECT_TRUE(db_->Exists("a").ok());
    EXPECT_TRUE(db_->Exists("b").ok());
    EXPECT_TRUE(db_->Exists("c").IsNotFound());
    EXPECT_TRUE(db_->Exists("never").IsNotFound());
    EXPECT_TRUE(db_->Exists("").IsInvalidArgument());
    EXPECT_TRUE(db_->Exists({.snapshot = empty.get()}, "a").IsNotFound());
    EXPECT_EQ(count(""), 3u);
    EXPECT_EQ(count("b"), 2u);
    EXPECT_EQ(count("b", {.from_exclusive = true}), 1u);
    EXPECT_EQ(count("", {.end = "d"}), 2u);
    EXPECT_EQ(count("", {.limit = 2}), 2u);
    EXPECT_EQ(count("d", {.end = "b"}), 0u);
    EXPECT_EQ(count("", {.snapshot = empty.get()}), 0u);
    ASSERT_TRUE(db_->Drain().ok());
  }
}

TEST_F(InterfaceTest, CountIsOfOneMoment) {
  open();
  constexpr uint64_t kRecords = 2'000;
  const auto key = [](uint64_t i) { return "key" + std::to_string(1'000'000 + i); };
  for (uint64_t i = 0; i < kRecords; ++i) put(key(2 * i));
  std::atomic<bool> stop{false};
  const base::Thread mover("mover", [&] {  // records move, their number stays
    base::Random random(1);
    Keys at;
    for (uint64_t i = 0; i < kRecords; ++i) at.push_back(key(2 * i));
    while (!stop.load()) {
      std::string& moving = at[random.below(at.size())];
      std::string to = key(2 * random.below(kRecords) + 1) + std::to_string(random.next());
      WriteBatch batch;
      batch.Delete(moving);
      batch.Put(to, "v");
      if (db_->Write(batch).ok()) moving = to;
    }
  });
  for (int i = budget(50, 300, 5'000); i > 0; --i) EXPECT_EQ(count(""), kRecords);
  stop = true;
}

// ---- moments

TEST_F(InterfaceTest, AnIteratorsMomentIsItsCreation) {
  open();
  put("a", "1");
  const auto iterator = db_->NewIterator({});
  put("a", "2");
  put("b");
  for (int drained = 0; drained < 2; ++drained) {
    iterator->SeekToFirst();
    ASSERT_TRUE(iterator->Valid());
    EXPECT_EQ(iterator->value(), "1");
    iterator->Next();
    EXPECT_FALSE(iterator->Valid()) << "what came after it does not show, though it was not sought before";
    ASSERT_TRUE(db_->Drain().ok());
  }
}

TEST_F(InterfaceTest, SnapshotsHaveNoBound) {
  open();
  constexpr uint64_t kSnapshots = 12'000;
  std::vector<std::shared_ptr<const Snapshot>> snapshots(kSnapshots);
  for (uint64_t i = 0; i < kSnapshots; ++i) {
    if (i % 100 == 0) put("k", std::to_string(i));
    const Status status = db_->GetSnapshot(&snapshots[i]);
    ASSERT_TRUE(status.ok()) << i << " " << status.ToString();
  }
  const auto iterator = db_->NewIterator({});
  EXPECT_EQ(count(""), 1u) << "scans find room, too";
  base::Random random(7);
  const auto check_some = [&] {
    for (int i = 0; i < 500; ++i) {
      const uint64_t at = random.below(kSnapshots);
      std::string value;
      if (snapshots[at] == nullptr) continue;
      ASSERT_TRUE(db_->Get({.snapshot = snapshots[at].get()}, "k", &value).ok());
      ASSERT_EQ(value, std::to_string(at / 100 * 100));
    }
  };
  check_some();
  ASSERT_TRUE(db_->Drain().ok());
  check_some();
  for (uint64_t i = 0; i < kSnapshots; ++i) {
    if (random.below(2) == 0) snapshots[i].reset();
  }
  for (int i = 0; i < 100; ++i) put("k", "later");
  ASSERT_TRUE(db_->Drain().ok());
  check_some();
}

TEST_F(InterfaceTest, AChosenLimitOfSnapshotsHolds) {
  open([](Options* options) { options->snapshots_max = 20; });
  std::vector<std::shared_ptr<const Snapshot>> snapshots(20);
  for (auto& snapshot : snapshots) ASSERT_TRUE(db_->GetSnapshot(&snapshot).ok());
  std::shared_ptr<const Snapshot> one_more;
  EXPECT_TRUE(db_->GetSnapshot(&one_more).IsUnavailable());
  EXPECT_TRUE(db_->NewIterator({})->status().IsUnavailable());
  EXPECT_TRUE(db_->Scan({}, {}, [](auto, auto) { return true; }).IsUnavailable());
  EXPECT_TRUE(db_->Scan({.snapshot = snapshots[0].get()}, {}, [](auto, auto) { return true; }).ok());
  snapshots[3].reset();
  EXPECT_TRUE(db_->GetSnapshot(&one_more).ok());
}

// ---- visitors

// Each record is visited as of the scan's moment while its visitor does everything with the store, on a log and a pool
// so small that updates have to wait for space.
void use_from_visitors(DB* db, uint64_t records) {
  const auto key = [](uint64_t i) { return "key" + std::to_string(1'000'000 + i); };
  const auto same = [](const Status& status) { EXPECT_TRUE(status.ok()) << status.ToString(); };
  for (uint64_t i = 0; i < records; ++i) same(db->Put(key(i), "old" + std::string(40, 'v')));
  uint64_t i = 0;
  std::string value;
  std::shared_ptr<const Snapshot> snapshot;
  const auto visit = [&](std::string_view seen, std::string_view old) {
    EXPECT_EQ(seen, key(i));
    EXPECT_EQ(old.substr(0, 3), "old");
    same(db->Put(key(i), "new" + std::string(100, 'v')));
    same(db->Put(key(i + 1), "new" + std::string(100, 'v')));  // ahead of itself
    same(db->Delete(key(i)));
    EXPECT_TRUE(db->Get(key(i), &value).IsNotFound());
    EXPECT_TRUE(db->Exists(key(i + 1)).ok());
    WriteBatch batch;
    batch.Put("batch" + std::to_string(i % 50), "of a visitor");
    same(db->Write(batch));
    if (i % 100 == 0) {
      uint64_t n = 0;
      same(db->Count({}, "key", &n));
      EXPECT_EQ(n, records - i - 1 + (i + 1 == records ? 1 : 0));
      same(db->GetSnapshot(&snapshot));
      const auto iterator = db->NewIterator({});
      iterator->SeekToFirst();
      EXPECT_TRUE(iterator->Valid());
    }
    if (i % 500 == 0) same(db->Drain());
    ++i;
    return true;
  };
  same(db->Scan({}, "key", visit));
  EXPECT_EQ(i, records);
  uint64_t n = 0;
  same(db->Count({}, "key", &n));
  EXPECT_EQ(n, 1u) << "the one behind the last";
}

TEST_F(InterfaceTest, VisitorsMayCallTheStore) {
  for (const uint32_t threads : {0u, 1u}) {
    open([&](Options* options) {
      options->background_threads = threads;
      options->pool_bytes = 8 * kMiB;
      options->log_bytes = kMiB / 4;
    });
    use_from_visitors(db_.get(), 3'000);
    ASSERT_TRUE(db_->Close().ok());
    db_.reset();
    ASSERT_TRUE(Remove(asked_name(folder_.file("pool"))).ok());
  }
}

TEST_F(InterfaceTest, VisitorsOfSessionsMayCallTheStore) {
  for (const TestMedium medium : {TestMedium::kNone, TestMedium::kEmulator}) {
    db_.reset();
    open({}, {.medium = medium});
    for (int i = 0; i < 200; ++i) put("key" + std::to_string(1'000 + i), "0");
    ASSERT_TRUE(db_->Drain().ok());
    const auto session = db_->NewSession(64);
    std::vector<Status> statuses(64);
    uint64_t visited = 0;
    std::string value;
    for (Status& status : statuses) {
      const auto visit = [&](std::string_view key, std::string_view) {
        EXPECT_TRUE(db_->Get(key, &value).ok());
        EXPECT_TRUE(db_->Put(key, std::to_string(++visited)).ok());
        return true;
      };
      session->Scan({.limit = 50}, "key1100", visit, &status);
    }
    session->Wait();
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(visited, 64u * 50u);
  }
}

// A pool that is nearly full answers visitors in bounded time, and goes on when the scan has ended.
TEST_F(InterfaceTest, VisitorsOfAFullStoreAreAnswered) {
  open([](Options* options) {
    options->pool_bytes = kMiB;
    options->stall_ms_max = 300;
  });
  uint64_t records = 0;
  while (db_->Put("key" + std::to_string(1'000'000 + records), std::string(500, 'v')).ok()) ++records;
  int asked = 0;
  const auto visit = [&](std::string_view key, std::string_view) {
    const Status status = db_->Put(std::string(key) + "+", std::string(500, 'w'));
    EXPECT_TRUE(status.ok() || status.IsNoSpace() || status.IsUnavailable()) << status.ToString();
    return ++asked < 5;
  };
  EXPECT_TRUE(db_->Scan({}, {}, visit).ok());
  for (uint64_t i = 0; i < records; i += 2) EXPECT_TRUE(db_->Delete("key" + std::to_string(1'000'000 + i)).ok());
  ASSERT_TRUE(db_->Drain().ok());
  EXPECT_TRUE(db_->Put("again", std::string(500, 'x')).ok());
}

// ---- failures

TEST_F(InterfaceTest, NoSpaceMeansThatNothingChanged) {
  const auto small = [](Options* options) {
    options->pool_bytes = 2 * kMiB;
    options->stall_ms_max = 200;
  };
  open(small);
  const auto key = [](uint64_t i) { return "key" + std::to_string(1'000 + i); };
  constexpr uint64_t kKeys = 60;
  std::vector<std::string> expected(kKeys);
  base::Random random(3);
  int refused = 0;
  for (int round = 0; round < 3'000 && refused < 40; ++round) {
    const uint64_t i = random.below(kKeys);
    const std::string value(random.below(60'000), static_cast<char>('a' + round % 26));
    Status status;
    if (round % 3 == 0) {
      WriteBatch batch;
      batch.Put(key(i), value);
      batch.Put(key((i + 1) % kKeys), value);
      status = db_->Write(batch);
      if (status.ok()) expected[(i + 1) % kKeys] = value;
    } else {
      status = db_->Put(key(i), value);
    }
    if (status.ok()) expected[i] = value;
    ASSERT_TRUE(status.ok() || status.IsNoSpace()) << status.ToString();
    refused += status.ok() ? 0 : 1;
  }
  EXPECT_GE(refused, 40);
  const auto check = [&] {
    std::string value;
    for (uint64_t i = 0; i < kKeys; ++i) {
      const Status status = db_->Get(key(i), &value);
      if (status.IsNotFound()) value.clear();
      ASSERT_TRUE(value == expected[i]) << i << " " << status.ToString();
    }
  };
  check();
  ASSERT_TRUE(db_->Close().ok());
  db_.reset();
  open(small);
  check();
}

TEST_F(InterfaceTest, ASmallLogIsRaisedAndReported) {
  open([](Options* options) { options->log_bytes = 1; });
  EXPECT_EQ(db_->GetStats().log_bytes, (striped_asked() ? 3 : 1) * 4u * 4096u);
}

}  // namespace
}  // namespace bonsai::testing
