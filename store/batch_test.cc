// SPDX-License-Identifier: Apache-2.0
// Batches through the public interface, up to a bound that a user can query, whatever the log is made of. A batch that
// is too large gets an error that says so, and nothing is changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/c.h"
#include "bonsai/db.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kMiB;
constexpr uint64_t kUpdateBytes = 32;  // that LogBytes() adds to key and value
using Model = std::map<std::string, std::string>;

std::string key_of(uint64_t i) { return "key" + std::to_string(10'000'000 + i); }

class Store {
 public:
  explicit Store(uint64_t pool_bytes, uint64_t log_bytes = 0) {
    options.create_if_missing = true;
    options.pool_bytes = pool_bytes;
    options.log_bytes = log_bytes;
    open();
  }
  void open() {
    db.reset();
    const Status status = open_db(options, path_, &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  Model content() const {
    Model all;
    EXPECT_TRUE(db->Scan({}, "", [&](std::string_view key, std::string_view value) {
                    all.emplace(key, value);
                    return true;
                  }).ok());
    return all;
  }

  Options options;
  std::unique_ptr<DB> db;

 private:
  ScratchFolder folder_;
  const std::string path_ = folder_.file("pool");
};

// Fills a batch with updates of such values until it has the bytes.
WriteBatch batch_of(uint64_t log_bytes, size_t value_bytes, char value, Model* model) {
  WriteBatch batch;
  const uint64_t each = key_of(0).size() + value_bytes + kUpdateBytes;
  for (uint64_t i = 0; (i + 1) * each <= log_bytes; ++i) {
    batch.Put(key_of(i), std::string(value_bytes, value));
    (*model)[key_of(i)] = std::string(value_bytes, value);
  }
  EXPECT_LE(batch.LogBytes(), log_bytes);
  return batch;
}

TEST(StoreBatch, OfAQuarterOfTheLogIsAtomicAndComesBack) {
  const uint64_t log_bytes_max = budget(2, 8, 8) * kMiB;
  for (const auto& [pool_bytes, log_bytes] : {std::pair{kMiB / 2, uint64_t{0}}, std::pair{kMiB, uint64_t{0}},
                                              std::pair{16 * kMiB, kMiB}, std::pair{64 * kMiB, log_bytes_max}}) {
    Store store(pool_bytes, log_bytes);
    EXPECT_GE(4 * store.db->BatchBytesMax(), store.db->GetStats().log_bytes);
    for (const size_t value_bytes : {8, 100, 700}) {
      Model model;
      const WriteBatch batch = batch_of(store.db->BatchBytesMax(), value_bytes, 'a', &model);
      for (int again = budget(3, 6, 6); again > 0; --again) {
        const Status status = store.db->Write(batch);
        ASSERT_TRUE(status.ok()) << "pool " << pool_bytes << " values " << value_bytes << ": " << status.ToString();
      }
      Model seen = store.content();
      for (const auto& [key, value] : model) ASSERT_EQ(seen[key], value);
      store.open();
      ASSERT_TRUE(store.content() == seen) << "closed and opened";
      for (const auto& [key, value] : seen) ASSERT_TRUE(store.db->Delete(key).ok());
      ASSERT_TRUE(store.db->Drain().ok());
    }
  }
}

TEST(StoreBatch, TooLargeIsReportedWithTheBoundAndChangesNothing) {
  Store store(16 * kMiB, kMiB);
  ASSERT_TRUE(store.db->Put(key_of(0), "before").ok());
  Model model;
  const WriteBatch batch = batch_of(4 * store.db->BatchBytesMax(), 100, 'b', &model);
  const Status status = store.db->Write(batch);
  EXPECT_EQ(status.code(), Status::Code::kInvalidArgument) << status.ToString();
  const std::string text(status.message());
  EXPECT_NE(text.find(std::to_string(batch.LogBytes())), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(store.db->BatchBytesMax())), std::string::npos) << text;
  EXPECT_NE(text.find("split it"), std::string::npos) << text;
  EXPECT_EQ(text.find("full"), std::string::npos) << text;
  EXPECT_EQ(store.content(), (Model{{key_of(0), "before"}}));
}

TEST(StoreBatch, OfManyUpdatesOfOneKeyIsSmall) {
  Store store(kMiB);
  WriteBatch batch;
  while (batch.LogBytes() <= 2 * store.db->BatchBytesMax()) batch.Put("key", std::to_string(batch.Count()));
  const Status status = store.db->Write(batch);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(store.content(), (Model{{"key", std::to_string(batch.Count() - 1)}}));
}

TEST(StoreBatch, TheBoundInC) {
  ScratchFolder folder;
  bonsai_options_t* options = bonsai_options_create();
  char* error = nullptr;
  bonsai_options_set_create_if_missing(options, 1);
  bonsai_options_set_pool_bytes(options, kMiB);
  bonsai_t* db = nullptr;
  ASSERT_EQ(bonsai_open(options, folder.file("pool").c_str(), &db, &error), BONSAI_OK) << error;
  EXPECT_GE(bonsai_batch_bytes_max(db), kMiB / 40);
  EXPECT_EQ(bonsai_close(db, &error), BONSAI_OK);
  bonsai_options_destroy(options);
}

// Writes `batches` batches of one thread, over keys that no other thread has. Returns microseconds per update.
double write_batches(DB* db, uint64_t thread, uint64_t batches, uint64_t count) {
  const uint64_t begin_ns = base::now_ns();
  for (uint64_t b = 0; b < batches; ++b) {
    WriteBatch batch;
    for (uint64_t i = 0; i < count; ++i) batch.Put(key_of((i * 97 + b) * 16 + thread), std::to_string(b));
    EXPECT_TRUE(db->Write(batch).ok());
  }
  return static_cast<double>(base::now_ns() - begin_ns) / 1e3 / static_cast<double>(batches * count);
}

// The time for each update grows neither with a batch's updates, 10^2 to 10^5, nor with the batches that other threads
// stack on the same bnodes meanwhile.
TEST(StoreBatch, TimeIsLinearInTheUpdates) {
  Store store(512 * kMiB, 256 * kMiB);
  double us_least = 0;
  for (uint64_t count = 100; count <= 100'000; count *= 10) {
    double us = 1e9;
    for (int round = budget(2, 3, 3); round > 0; --round) {
      us = std::min(us, write_batches(store.db.get(), 0, std::max<uint64_t>(1, 3'000 / count), count));
    }
    std::printf("%7llu updates: %.2f us each\n", static_cast<unsigned long long>(count), us);
    if (us_least == 0) us_least = us;
    EXPECT_LE(us, 10 * us_least + 10) << count << " updates";  // a machine that is busy included
  }
}

TEST(StoreBatch, TimeIsLinearInTheBatchesOfOtherThreads) {
  constexpr uint64_t kUpdates = 3'000;
  const auto batches = budget<uint64_t>(5, 25, 25);
  double us_alone = 0;
  for (const uint64_t threads : {1, 4, 16}) {
    Store store(512 * kMiB, 256 * kMiB);
    std::vector<base::Thread> writers;
    const uint64_t begin_ns = base::now_ns();
    for (uint64_t t = 0; t < threads; ++t) {
      writers.emplace_back("writer", [&, t] { write_batches(store.db.get(), t, batches, kUpdates); });
    }
    writers.clear();
    const auto updates = static_cast<double>(threads * batches * kUpdates);
    const double us = static_cast<double>(base::now_ns() - begin_ns) / 1e3 / updates;
    std::printf("%llu threads: %.2f us each update\n", static_cast<unsigned long long>(threads), us);
    if (us_alone == 0) us_alone = us;
    EXPECT_LE(us, 10 * us_alone + 10) << threads << " threads";
  }
}

// Several threads, each a batch after the other over the whole key space, then nothing is missing and no dnode too
// large.
TEST(StoreBatch, LargeOnesOfManyThreadsAllComeBack) {
  const uint64_t count = budget<uint64_t>(2'000, 9'000, 100'000);
  for (const uint64_t threads : {1, 4, 16}) {
    Store store(256 * kMiB, 64 * kMiB);
    const uint64_t batches = threads == 16 ? 1 : 6;
    std::vector<base::Thread> writers;
    std::atomic<uint64_t> failed{0};
    for (uint64_t t = 0; t < threads; ++t) {
      writers.emplace_back("writer", [&, t] {
        for (uint64_t b = 0; b < batches; ++b) {
          WriteBatch batch;
          for (uint64_t i = 0; i < count; ++i) batch.Put(key_of((i * batches + b) * threads + t), std::to_string(b));
          if (!store.db->Write(batch).ok()) failed.fetch_add(1);
        }
      });
    }
    writers.clear();
    EXPECT_EQ(failed.load(), 0u);
    EXPECT_EQ(store.content().size(), threads * batches * count) << threads << " threads";
    ASSERT_TRUE(store.db->Drain().ok());
    EXPECT_EQ(store.content().size(), threads * batches * count) << threads << " threads, drained";
    store.open();
    EXPECT_EQ(store.content().size(), threads * batches * count) << threads << " threads, opened again";
  }
}

}  // namespace
}  // namespace bonsai::testing
