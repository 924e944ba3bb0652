// SPDX-License-Identifier: Apache-2.0
// Iterators over several ranges, both ways, over deletions, overwrites, large values, and while ranges are offloaded.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/thread.h"
#include "bonsai/db.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using Content = std::map<std::string, std::string>;

std::string key_of(uint64_t i) { return "key" + std::to_string(1'000'000 + i); }

class IteratorTest : public ::testing::Test {
 protected:
  IteratorTest() {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = uint64_t{32} << 20;
    options.background_threads = 0;  // ranges are offloaded when the test says so
    options.snapshots_max = 8;
    const Status status = open_db(options, folder_.file("pool"), &db_);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  void put(const std::string& key, const std::string& value) {
    const Status status = db_->Put(key, value);
    ASSERT_TRUE(status.ok()) << status.ToString();
    content_[key] = value;
  }
  void del(const std::string& key) {
    ASSERT_TRUE(db_->Delete(key).ok());
    content_.erase(key);
  }
  void drain() {
    const Status status = db_->Drain();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  // Several ranges: part in dnodes, part in bnodes, overwritten and deleted in both.
  void make_mixed() {
    for (uint64_t i = 0; i < 2'500; ++i) put(key_of(i * 2), "first" + std::to_string(i));
    drain();
    for (uint64_t i = 0; i < 2'500; i += 3) put(key_of(i * 2), "second");
    for (uint64_t i = 0; i < 2'500; i += 5) del(key_of(i * 2));
    drain();
    for (uint64_t i = 0; i < 2'500; i += 7) put(key_of(i * 2), "third");
    for (uint64_t i = 1'000; i < 1'500; ++i) del(key_of(i * 2));  // whole ranges without a record
    ASSERT_GE(db_->GetStats().bnodes, 4u);
  }

  static void expect_at(const Iterator& iterator, const Content& content, Content::const_iterator at) {
    ASSERT_TRUE(iterator.status().ok()) << iterator.status().ToString();
    ASSERT_EQ(iterator.Valid(), at != content.end()) << (at != content.end() ? at->first : "end");
    if (at == content.end()) return;
    ASSERT_EQ(iterator.key(), at->first);
    ASSERT_EQ(iterator.value(), at->second) << at->first;
  }
  static Content::const_iterator before(const Content& content, Content::const_iterator at) {
    return at == content.begin() ? content.end() : std::prev(at);
  }
  // Walks everything, both ways.
  static void expect_content(Iterator& iterator, const Content& content) {
    iterator.SeekToFirst();
    for (auto at = content.begin(); at != content.end(); ++at, iterator.Next()) {
      ASSERT_NO_FATAL_FAILURE(expect_at(iterator, content, at));
    }
    ASSERT_NO_FATAL_FAILURE(expect_at(iterator, content, content.end()));
    iterator.SeekToLast();
    for (auto at = content.end(); at != content.begin(); iterator.Prev()) {
      ASSERT_NO_FATAL_FAILURE(expect_at(iterator, content, --at));
    }
    ASSERT_NO_FATAL_FAILURE(expect_at(iterator, content, content.end()));
  }
  std::unique_ptr<Iterator> iterate(const Snapshot* snapshot = nullptr) {
    ReadOptions options;
    options.snapshot = snapshot;
    return db_->NewIterator(options);
  }

  ScratchFolder folder_;
  std::unique_ptr<DB> db_;
  Content content_;
};

TEST_F(IteratorTest, AnEmptyStoreHasNoRecords) {
  const auto iterator = iterate();
  EXPECT_FALSE(iterator->Valid()) << "it has no position until a seek";
  iterator->SeekToFirst();
  EXPECT_FALSE(iterator->Valid());
  iterator->SeekToLast();
  EXPECT_FALSE(iterator->Valid());
  iterator->Seek("a");
  EXPECT_FALSE(iterator->Valid());
  iterator->SeekForPrev("a");
  EXPECT_FALSE(iterator->Valid());
  EXPECT_TRUE(iterator->status().ok());
}

TEST_F(IteratorTest, WalksAcrossRangesBothWays) {
  make_mixed();
  expect_content(*iterate(), content_);
}

TEST_F(IteratorTest, SeeksBetweenAtAndBeyondKeys) {
  make_mixed();
  const auto iterator = iterate();
  std::vector<std::string> wanted = {"", "a", "key", "zzz", std::string(1024, '\xff'), key_of(0), key_of(2'998)};
  for (uint64_t i = 0; i < 3'000; i += 11) wanted.push_back(key_of(i));
  for (uint64_t i = 1'190; i < 1'210; ++i) wanted.push_back(key_of(i) + std::string(1, '\0'));
  for (const std::string& key : wanted) {
    const auto from = content_.lower_bound(key);
    iterator->Seek(key);
    ASSERT_NO_FATAL_FAILURE(expect_at(*iterator, content_, from)) << key;
    const auto to = before(content_, content_.upper_bound(key));
    iterator->SeekForPrev(key);
    ASSERT_NO_FATAL_FAILURE(expect_at(*iterator, content_, to)) << key;
  }
}

TEST_F(IteratorTest, TurnsRoundAnywhere) {
  make_mixed();
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  base::Random random(seed);
  const auto iterator = iterate();
  auto at = content_.cend();
  for (int step = 0; step < 5'000; ++step) {
    if (at == content_.cend() || random.chance(1, 50)) {
      const std::string key = key_of(random.below(3'000));
      const bool forward = random.chance(1, 2);
      forward ? iterator->Seek(key) : iterator->SeekForPrev(key);
      at = forward ? content_.lower_bound(key) : before(content_, content_.upper_bound(key));
    } else if (random.chance(1, 2)) {
      iterator->Next();
      ++at;
    } else {
      iterator->Prev();
      at = before(content_, at);
    }
    ASSERT_NO_FATAL_FAILURE(expect_at(*iterator, content_, at)) << "step " << step;
  }
}

TEST_F(IteratorTest, ASeekMayUseTheIteratorsOwnKey) {
  make_mixed();
  const auto iterator = iterate();
  iterator->Seek(key_of(1'000));
  const std::string key(iterator->key());
  iterator->Seek(iterator->key());
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key(), key);
  iterator->SeekForPrev(iterator->key());
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key(), key);
}

TEST_F(IteratorTest, SeesOneMomentWhateverHappens) {
  make_mixed();
  const Content then = content_;
  const auto iterator = iterate();
  std::shared_ptr<const Snapshot> snapshot;
  ASSERT_TRUE(db_->GetSnapshot(&snapshot).ok());
  iterator->Seek(key_of(1'000));
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 3'000; i += 1 + static_cast<uint64_t>(round)) put(key_of(i), std::to_string(round));
    for (uint64_t i = 0; i < 3'000; i += 4) del(key_of(i));
    ASSERT_NO_FATAL_FAILURE(drain());
    ASSERT_NO_FATAL_FAILURE(expect_content(*iterator, then)) << "round " << round;
    ASSERT_NO_FATAL_FAILURE(expect_content(*iterate(snapshot.get()), then)) << "round " << round;
    ASSERT_NO_FATAL_FAILURE(expect_content(*iterate(), content_)) << "round " << round;
  }
}

TEST_F(IteratorTest, ASnapshotMayGoBeforeItsIterator) {
  make_mixed();
  const Content then = content_;
  std::shared_ptr<const Snapshot> snapshot;
  ASSERT_TRUE(db_->GetSnapshot(&snapshot).ok());
  const auto iterator = iterate(snapshot.get());
  snapshot.reset();
  for (uint64_t i = 0; i < 3'000; ++i) put(key_of(i), "later");
  drain();
  expect_content(*iterator, then);
}

TEST_F(IteratorTest, MovesOnWhileRangesAreOffloadedByOthers) {
  make_mixed();
  const Content then = content_;
  std::shared_ptr<const Snapshot> snapshot;
  ASSERT_TRUE(db_->GetSnapshot(&snapshot).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  base::Thread writer("writer", [&] {
    for (uint64_t round = 0; !stop.load(); ++round) {
      for (uint64_t i = round % 7; i < 3'000; i += 7) {
        const Status status = round % 3 == 2 ? db_->Delete(key_of(i)) : db_->Put(key_of(i), std::to_string(round));
        failures.fetch_add(status.ok() ? 0 : 1);
      }
      failures.fetch_add(db_->Drain().ok() ? 0 : 1);
    }
  });
  for (int round = 0; round < 10; ++round) {
    const auto iterator = iterate(snapshot.get());
    expect_content(*iterator, then);
    if (HasFatalFailure()) break;
  }
  stop.store(true);
  writer.join();
  EXPECT_EQ(failures.load(), 0);
}

TEST_F(IteratorTest, LargeValuesAreReadWhereTheyLie) {
  for (uint64_t i = 0; i < 20; ++i)
    put(key_of(i), std::string(i % 2 == 0 ? 100'000 + i : 10, static_cast<char>('a' + i)));
  ASSERT_NO_FATAL_FAILURE(expect_content(*iterate(), content_));
  drain();
  const Content then = content_;
  const auto iterator = iterate();
  for (uint64_t i = 0; i < 20; i += 4) put(key_of(i), std::string(200'000, 'x'));
  for (uint64_t i = 2; i < 20; i += 4) del(key_of(i));
  drain();
  put(key_of(100), std::string(kValueBytesMax / 4, 'y'));  // the old values' space must not be used for this one
  drain();
  ASSERT_NO_FATAL_FAILURE(expect_content(*iterator, then));
  ASSERT_NO_FATAL_FAILURE(expect_content(*iterate(), content_));
}

TEST_F(IteratorTest, EmptyValuesAndBinaryKeys) {
  put(std::string(1, '\0'), "");
  put(std::string("a\0b", 3), std::string("\0\0", 2));
  put(std::string(1024, 'k'), "long key");
  put("\xff\xff", "");
  ASSERT_NO_FATAL_FAILURE(expect_content(*iterate(), content_));
  drain();
  ASSERT_NO_FATAL_FAILURE(expect_content(*iterate(), content_));
}

TEST_F(IteratorTest, TooManyAtOnceIsAStatus) {
  put("key", "value");
  std::vector<std::unique_ptr<Iterator>> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(iterate());
    ASSERT_TRUE(all.back()->status().ok()) << i;
  }
  const auto refused = iterate();
  EXPECT_TRUE(refused->status().IsUnavailable());
  refused->SeekToFirst();
  EXPECT_FALSE(refused->Valid());
  EXPECT_TRUE(refused->status().IsUnavailable()) << "a seek does not hide it";
  std::shared_ptr<const Snapshot> snapshot;
  EXPECT_TRUE(db_->GetSnapshot(&snapshot).IsUnavailable());
  EXPECT_TRUE(db_->Scan({}, {}, [](auto, auto) { return true; }).IsUnavailable());
  all.pop_back();
  expect_content(*iterate(), content_);
}

// Rows come in parts, which put together are the records, whatever the values' size and the limit; and a visitor that
// has had enough in the midst of a piece gets no more.
TEST_F(IteratorTest, RowsComeInPartsAndNoneIsLost) {
  for (const size_t value_bytes : {1, 8, 100, 700}) {
    for (uint64_t i = 0; i < 800; ++i) put(key_of(i), std::string(value_bytes, static_cast<char>('a' + i % 26)));
    drain();
    for (const uint64_t limit : {uint64_t{1}, uint64_t{31}, uint64_t{500}, uint64_t{1'000}}) {
      ScanOptions options;
      options.limit = limit;
      for (size_t calls_max = 1; calls_max < 200; calls_max *= 3) {
        Content seen;
        size_t calls = 0;
        const Status status = db_->ScanRows(options, key_of(7), [&](const Rows& rows) {
          EXPECT_GT(rows.count, 0U);
          for (size_t i = 0; i < rows.count; ++i) seen.emplace(rows.key(i), rows.value(i));
          return ++calls < calls_max;
        });
        ASSERT_TRUE(status.ok()) << status.ToString();
        ASSERT_LE(calls, calls_max);
        const auto first = content_.find(key_of(7));
        const size_t wanted = calls < calls_max ? std::min<size_t>(limit, 793) : seen.size();
        ASSERT_TRUE(std::equal(seen.begin(), seen.end(), first, std::next(first, static_cast<ptrdiff_t>(wanted))));
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::testing
