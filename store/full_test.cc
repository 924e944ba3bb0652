// Pools of many sizes that are filled to the brim and emptied again, with keys and values of all sizes: deletes work
// however full the pool is, without a reopen, and what is left is a pool as usable as a new one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "bonsai/db.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

constexpr uint64_t kKiB = uint64_t{1} << 10, kMiB = uint64_t{1} << 20;

struct Life {
  uint64_t pool_bytes, log_bytes;
  size_t key_bytes, value_bytes;  // of the longest
  bool mixed;                     // sizes vary up to those, else all are so
  uint32_t background_threads;
  size_t threads;
};

Life random_life(base::Random* random) {
  constexpr std::array<uint64_t, 7> kPools = {64, 64, 160, 160, 1024, 3 * 1024, 16 * 1024};
  constexpr std::array<size_t, 6> kKeys = {10, 10, 30, 200, 1000, 1024};
  constexpr std::array<size_t, 12> kValues = {0, 8, 8, 100, 600, 1023, 1024, 1025, 3000, 4095, 4096, 5000};
  Life life{};
  life.pool_bytes = kPools[random->below(kPools.size())] * kKiB;
  life.log_bytes = random->chance(1, 4) ? 16 * kKiB : 0;
  life.key_bytes = kKeys[random->below(kKeys.size())];
  life.value_bytes = kValues[random->below(kValues.size())];
  const bool small = life.key_bytes + life.value_bytes < 100;
  if (small && life.pool_bytes > 2 * kMiB && !random->chance(1, 20)) life.key_bytes = 200;  // many records take long
  life.mixed = random->chance(1, 2);
  life.background_threads = static_cast<uint32_t>(random->below(2));
  life.threads = random->chance(1, 3) ? 4 : 1;
  return life;
}

std::string text_of(const Life& life) {
  return "pool " + std::to_string(life.pool_bytes / kKiB) + " KiB, log " + std::to_string(life.log_bytes) + ", keys " +
         std::to_string(life.key_bytes) + ", values " + std::to_string(life.value_bytes) +
         (life.mixed ? " at most" : "") + ", background " + std::to_string(life.background_threads) + ", threads " +
         std::to_string(life.threads);
}

class Filled {
 public:
  Filled(const Life& life, uint64_t seed) : life_(life), seed_(seed) {
    options_.create_if_missing = true;
    options_.pool_bytes = life.pool_bytes;
    options_.log_bytes = life.log_bytes;
    options_.background_threads = life.background_threads;
    const Status status = open_db(options_, folder_.pool(1), &db_);
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
  void empty(uint64_t round) {
    in_threads([&](size_t thread) {
      base::Random random(seed_ ^ (round * 1000 + 500 + thread));
      std::vector<Record>& mine = records_[thread];
      for (size_t left = mine.size(); left > 0; --left) {
        std::swap(mine[random.below(left)], mine[left - 1]);
        const Status status = db_->Delete(mine[left - 1].key);
        EXPECT_TRUE(status.ok()) << left << " of " << mine.size() << " are left, " << status.ToString() << "\n"
                                 << text_of(life_);
        if (!status.ok()) return;
      }
      mine.clear();
    });
  }

  void expect_sound() {
    const Status drained = db_->Drain();
    EXPECT_TRUE(drained.ok()) << drained.ToString();
    const Stats stats = db_->GetStats();
    EXPECT_TRUE(db_->Close().ok());
    db_.reset();
    CheckReport report;
    ASSERT_TRUE(Check(folder_.pool(1), &report).ok());
    EXPECT_TRUE(report.ok()) << report.damages[0].where << ": " << report.damages[0].what;
    uint64_t records = 0;
    for (const auto& mine : records_) records += mine.size();
    EXPECT_EQ(report.records, records);
    EXPECT_EQ(report.data_bytes_used, stats.data_bytes_used) << "bytes are leaked, or counted wrongly";
    const Status status = open_db(options_, folder_.pool(1), &db_);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

 private:
  struct Record {
    std::string key, value;
  };

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

void fill_and_empty(const Life& life, uint64_t seed) {
  Filled pool(life, seed);
  ASSERT_TRUE(pool.open());
  uint64_t first = 0;
  for (uint64_t round = 0; round < 3; ++round) {
    const uint64_t bytes = pool.fill(round);
    if (round == 0) first = bytes;
    const uint64_t few_records =
        4 * (life.key_bytes + life.value_bytes);  // the smallest pools have room for not many more
    EXPECT_GE(bytes + few_records, first / 2) << "round " << round << ": deleted space has not come back";
    if (round == 1) {
      pool.expect_all();
      pool.expect_sound();
      ASSERT_TRUE(pool.open());
      pool.expect_all();
    }
    pool.empty(round);
    if (::testing::Test::HasFailure()) return;
    pool.expect_sound();
    ASSERT_TRUE(pool.open());
  }
}

TEST(FullPools, CanBeEmptiedAndFilledAgain) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  base::Random random(seed);
  for (int lives = budget(4, 12, 2000); lives > 0; --lives) {
    const Life life = random_life(&random);
    SCOPED_TRACE(text_of(life));
    fill_and_empty(life, random.next());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace bonsai::testing
