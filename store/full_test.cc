// SPDX-License-Identifier: Apache-2.0
// Pools of all small sizes that are filled to the brim and emptied again, with keys and values of all sizes: deletes
// are never refused for want of room, and what they free is room for puts at once, without a reopen.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kKiB;
using base::kMiB;

struct Life {
  size_t targets;
  uint64_t pool_bytes, log_bytes;  // of each target; of all
  size_t key_bytes, value_bytes;   // of the longest
  bool mixed;                      // sizes vary up to those, else all are so
  uint32_t background_threads;
  size_t threads;
};

// How a pool is emptied.
enum class Emptied { kSingly, kInBatches, kInASession, kBesideOverwrites, kUnderASnapshot };
constexpr std::array<Emptied, 5> kAllWays = {Emptied::kSingly, Emptied::kInBatches, Emptied::kInASession,
                                             Emptied::kBesideOverwrites, Emptied::kUnderASnapshot};

// Uniform in the number of bits.
uint64_t any_size(base::Random* random, uint64_t min, uint64_t max) {
  uint64_t bytes = min;
  while (bytes < max && !random->chance(1, 1 + static_cast<uint64_t>(std::bit_width(max / bytes)))) bytes *= 2;
  return std::min(bytes + random->below(bytes), max);
}

// A life with random parameters. Values are at most a sixteenth of the pool. Few lives have more than kRecordsMax
// records, which take long.
Life random_life(base::Random* random) {
  constexpr uint64_t kRecordsMax = 20'000;
  constexpr std::array<size_t, 8> kSizes = {0, 8, 100, 1023, 1024, 1025, 4095, 4096};
  Life life{};
  life.targets = random->chance(1, 8) ? 2 + random->below(2) : 1;
  life.pool_bytes = random->chance(1, 6) ? 64 * kKiB : any_size(random, 64 * kKiB, 8 * kMiB);
  life.log_bytes = random->chance(1, 3)   ? 16 * kKiB
                   : random->chance(1, 3) ? any_size(random, 1, life.pool_bytes / 4)
                                          : 0;
  life.value_bytes =
      random->chance(1, 2) ? kSizes[random->below(kSizes.size())] : any_size(random, 1, life.pool_bytes / 16) - 1;
  life.key_bytes = random->chance(1, 8) ? 1024 : random->chance(1, 2) ? 10 : any_size(random, 10, 1024);
  life.mixed = random->chance(1, 2);
  life.background_threads = static_cast<uint32_t>(random->below(2));
  life.threads = random->chance(1, 2) ? 4 : 1;
  const uint64_t records = life.targets * life.pool_bytes / (life.key_bytes + life.value_bytes + 14);
  if (records > kRecordsMax && !random->chance(1, 20))
    life.key_bytes = std::min<size_t>(1024, life.targets * life.pool_bytes / kRecordsMax);
  return life;
}

std::string text_of(const Life& life) {
  return std::to_string(life.targets) + " times " + std::to_string(life.pool_bytes) + " bytes, log " +
         std::to_string(life.log_bytes) + ", keys " + std::to_string(life.key_bytes) + ", values " +
         std::to_string(life.value_bytes) + (life.mixed ? " at most" : "") + ", background " +
         std::to_string(life.background_threads) + ", threads " + std::to_string(life.threads);
}

class Filled {
 public:
  Filled(const Life& life, uint64_t seed) : life_(life), seed_(seed) {
    options_.create_if_missing = true;
    options_.pool_bytes = life.pool_bytes;
    options_.log_bytes = life.log_bytes;
    options_.background_threads = life.background_threads;
    const Status status = open_db(options_, folder_.pool(life_.targets), &db_);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  [[nodiscard]] bool open() const { return db_ != nullptr; }

  // Puts new records until each thread was refused some times. Returns the bytes of keys and values that went in.
  uint64_t fill(uint64_t round) {
    std::vector<uint64_t> bytes(life_.threads);
    in_threads([&](size_t thread) {
      base::Random random(seed_ ^ (round * 1000 + thread));
      std::vector<Record>& mine = records_[thread];
      for (int refused = 0; refused < 5;) {
        Record record = make(&random, thread);
        const Status status = db_->Put(record.key, record.value);
        EXPECT_TRUE(status.ok() || status.IsNoSpace()) << status.ToString();
        if (!status.ok()) {
          ++refused;
          continue;
        }
        bytes[thread] += record.key.size() + record.value.size();
        mine.push_back(std::move(record));
      }
    });
    uint64_t sum = 0;
    for (const uint64_t each : bytes) sum += each;
    return sum;
  }

  void expect_all() {
    for (const auto& mine : records_) {
      for (const Record& record : mine) {
        std::string value;
        const Status status = db_->Get(record.key, &value);
        ASSERT_TRUE(status.ok()) << status.ToString();
        ASSERT_TRUE(value == record.value);
      }
    }
  }

  // Deletes everything, in random order.
  void empty(uint64_t round, Emptied how = Emptied::kSingly) {
    std::shared_ptr<const Snapshot> snapshot;
    if (how == Emptied::kUnderASnapshot) {
      EXPECT_EQ("OK", db_->GetSnapshot(&snapshot).ToString());
    }
    in_threads([&](size_t thread) {
      base::Random random(seed_ ^ (round * 1000 + 500 + thread));
      std::vector<Record>& mine = records_[thread];
      const size_t all = mine.size();
      while (!mine.empty()) {
        const bool together = how == Emptied::kInBatches || how == Emptied::kInASession;
        // Both bounds: a batch must fit in a segment of the log.
        const uint64_t some = 1 + (together ? random.below(std::min<uint64_t>(8, db_->BatchBytesMax() / 1'100)) : 0);
        std::vector<std::string> keys;
        for (; !mine.empty() && keys.size() < some; mine.pop_back()) {
          std::swap(mine[random.below(mine.size())], mine.back());
          keys.push_back(mine.back().key);
        }
        const Status status = delete_these(keys, how);
        EXPECT_TRUE(status.ok()) << mine.size() << " of " << all << " are left, " << status.ToString();
        if (!status.ok()) return;
        if (how == Emptied::kBesideOverwrites && !mine.empty()) overwrite(&mine[random.below(mine.size())], &random);
      }
    });
  }

  // The owner ends without closing the pool, after every update was acknowledged.
  void crash() {
    const std::string path = folder_.pool(life_.targets);
    std::vector<std::string> files(1);
    for (const char c : path) {
      if (c == ',') files.emplace_back();
      if (c != ',') files.back().push_back(c);
    }
    for (const std::string& file : files) std::filesystem::copy_file(file, file + ".crashed");
    db_.reset();
    for (const std::string& file : files) std::filesystem::rename(file + ".crashed", file);
    reopen();
  }
  void close() {
    EXPECT_TRUE(db_->Close().ok());
    db_.reset();
    reopen();
  }

  void expect_sound() {
    const Status drained = db_->Drain();
    EXPECT_TRUE(drained.ok()) << drained.ToString();
    const Stats stats = db_->GetStats();
    EXPECT_TRUE(db_->Close().ok());
    db_.reset();
    CheckReport report;
    ASSERT_TRUE(Check(folder_.pool(life_.targets), &report).ok());
    EXPECT_TRUE(report.ok()) << report.damages[0].where << ": " << report.damages[0].what;
    uint64_t records = 0;
    for (const auto& mine : records_) records += mine.size();
    EXPECT_EQ(report.records, records);
    EXPECT_EQ(report.data_bytes_used, stats.data_bytes_used) << "bytes are leaked, or counted wrongly";
    reopen();
  }

 private:
  struct Record {
    std::string key, value;
  };

  void reopen() {
    const Status status = open_db(options_, folder_.pool(life_.targets), &db_);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  Status delete_these(const std::vector<std::string>& keys, Emptied how) {
    if (how == Emptied::kInASession) {
      std::vector<Status> statuses(keys.size());
      const std::unique_ptr<Session> session = db_->NewSession(4);
      for (size_t i = 0; i < keys.size(); ++i) session->Delete(keys[i], &statuses[i]);
      session->Wait();
      for (const Status& status : statuses) {
        if (!status.ok()) return status;
      }
      return Status::OK();
    }
    if (how != Emptied::kInBatches) return db_->Delete(keys[0]);
    WriteBatch batch;
    for (const std::string& key : keys) batch.Delete(key);
    return db_->Write(batch);
  }
  // With another value of any size that the life has; a full pool may refuse it.
  void overwrite(Record* record, base::Random* random) {
    std::string value(random->below(life_.value_bytes + 1), 'o');
    const Status status = db_->Put(record->key, value);
    EXPECT_TRUE(status.ok() || status.IsNoSpace()) << status.ToString();
    if (status.ok()) record->value = std::move(value);
  }

  Record make(base::Random* random, size_t thread) {
    const size_t key_bytes = life_.mixed ? 10 + random->below(life_.key_bytes - 9) : life_.key_bytes;
    const size_t value_bytes = life_.mixed ? random->below(life_.value_bytes + 1) : life_.value_bytes;
    std::string key = std::to_string(1'000'000'000 + next_++ * 7'919 % 100'000'000);
    key.resize(key_bytes, static_cast<char>('k' + thread));
    return {std::move(key), std::string(value_bytes, static_cast<char>('a' + random->below(26)))};
  }

  template <class Body>
  void in_threads(Body body) {
    if (life_.threads == 1) return body(0);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < life_.threads; ++i) threads.emplace_back([body, i] { body(i); });
    for (std::thread& thread : threads) thread.join();
  }

  const Life life_;
  const uint64_t seed_;
  const ScratchFolder folder_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::atomic<uint64_t> next_{0};
  std::array<std::vector<Record>, 4> records_;
};

// How a pool is emptied in each of three rounds, and whether its owner ends before: a crash, or a close.
struct Ends {
  std::array<Emptied, 3> emptied{};
  std::array<bool, 3> crashes{}, closes{};
};

// Filled three times: after deletes alone, after a drain, and after a reopen.
void fill_and_empty(const Life& life, uint64_t seed, const Ends& ends = {}) {
  Filled pool(life, seed);
  ASSERT_TRUE(pool.open());
  uint64_t first = 0;
  for (uint64_t round = 0; round < 3; ++round) {
    const uint64_t bytes = pool.fill(round);
    if (round == 0) first = bytes;
    const uint64_t few_records =
        4 * (life.key_bytes + life.value_bytes);  // the smallest pools have room for not many more
    EXPECT_GE(bytes + few_records, first / 2) << "round " << round << ": deleted space has not come back";
    if (round == 1) pool.expect_all();
    if (round == 2) {
      pool.expect_sound();
      ASSERT_TRUE(pool.open());
      pool.expect_all();
    }
    if (ends.crashes[round]) pool.crash();
    if (ends.closes[round]) pool.close();
    ASSERT_TRUE(pool.open());
    pool.empty(round, ends.emptied[round]);
    if (::testing::Test::HasFailure()) return;
  }
  pool.expect_sound();
}

TEST(FullPools, CanBeEmptiedAndFilledAgain) {
  const uint64_t seed = base::seed_from_env_or(budget<uint64_t>(1, 1, base::fresh_seed()));  // only nights are news
  const uint64_t lives = budget<uint64_t>(10, 120, 20'000);
  for (uint64_t i = 0; i < lives && !HasFailure(); ++i) {
    base::Random random(seed + i);
    const Life life = random_life(&random);
    SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed + i) + ": " + text_of(life));
    fill_and_empty(life, random.next());
  }
}

// The longest keys in the smallest pools, where little is set aside: a header slot or a block that waits for a reader
// that does not run must not refuse a delete.
TEST(FullPools, OfTheLongestKeysCanBeEmptied) {
  const uint64_t seed = base::seed_from_env_or(budget<uint64_t>(1, 1, base::fresh_seed()));
  const uint64_t lives = budget<uint64_t>(8, 60, 4'000);
  for (uint64_t i = 0; i < lives && !HasFailure(); ++i) {
    base::Random random(seed + i);
    const Life life{.targets = 1,
                    .pool_bytes = (64 + 32 * random.below(7)) * kKiB,
                    .log_bytes = random.chance(1, 2) ? 16 * kKiB : 0,
                    .key_bytes = 1024,
                    .value_bytes = random.chance(1, 2) ? 0 : random.below(1024),
                    .mixed = random.chance(1, 4),
                    .background_threads = static_cast<uint32_t>(random.below(2)),
                    .threads = random.chance(3, 4) ? size_t{4} : size_t{1}};
    SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed + i) + ": " + text_of(life));
    fill_and_empty(life, random.next());
  }
}

// Every way to delete, after a crash, a close or neither, in pools of one target or two.
TEST(FullPools, OfTheLongestKeysCanBeEmptiedInEveryWay) {
  const uint64_t seed = base::seed_from_env_or(budget<uint64_t>(1, 1, base::fresh_seed()));
  const uint64_t lives = budget<uint64_t>(8, 60, 4'000);
  for (uint64_t i = 0; i < lives && !HasFailure(); ++i) {
    base::Random random(seed + i);
    const Life life{.targets = random.chance(1, 4) ? size_t{2} : size_t{1},
                    .pool_bytes = random.chance(1, 2) ? 160 * kKiB : (64 + 32 * random.below(15)) * kKiB,
                    .log_bytes = random.chance(1, 2) ? 16 * kKiB : 0,
                    .key_bytes = 1024,
                    .value_bytes = random.chance(1, 2) ? 0 : random.below(1001),
                    .mixed = random.chance(1, 4),
                    .background_threads = static_cast<uint32_t>(random.below(2)),
                    .threads = random.chance(1, 2) ? size_t{4} : size_t{1}};
    Ends ends;
    for (size_t round = 0; round < 3; ++round) {
      ends.emptied[round] = kAllWays[random.below(kAllWays.size())];
      ends.crashes[round] = !shm_asked() && !far_asked() && random.chance(1, 4);
      ends.closes[round] = random.chance(1, 4);
    }
    SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed + i) + ": " + text_of(life));
    fill_and_empty(life, random.next(), ends);
  }
}

}  // namespace
}  // namespace bonsai::testing
