// SPDX-License-Identifier: Apache-2.0
// Reads of NVM that take time: every read path issues what it reads together, in as few waits as can be, and the lanes
// of a session wait at the same time.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/clock.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "store/db_impl.h"
#include "store/session.h"
#include "store/testing/slow_medium.h"

namespace bonsai::store {
namespace {

std::string key_of(uint64_t i) { return "key" + std::to_string(1'000'000 + i * 7919 % 1'000'000); }

class SlowReads : public ::testing::Test {
 protected:
  static constexpr uint64_t kRecords = 2000;

  void open(bool upload) {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = SlowMedium::kBytes;
    options.metadata_upload = upload;
    std::vector<std::unique_ptr<base::HookedMedium>> media;
    media.push_back(std::make_unique<SlowMedium>());
    medium_ = static_cast<SlowMedium*>(media.back().get());
    std::unique_ptr<Tiers> tiers;
    ASSERT_TRUE(open_tiers_on(options, std::move(media), true, &tiers).ok());
    db_ = std::make_unique<DbImpl>(options, std::move(tiers), BackgroundThreads());
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db_->Put(key_of(i), "value of " + key_of(i)).ok());
    ASSERT_TRUE(db_->Drain().ok());
    medium_->calls = medium_->blocks_read = 0;
  }

  std::unique_ptr<DB> db_;
  void expect_order_of_a_key();

  DbImpl& impl() { return static_cast<DbImpl&>(*db_); }
  SlowMedium* medium_ = nullptr;
};

TEST_F(SlowReads, AGetWaitsOnceForItsEntry) {
  open(true);
  medium_->latency_ns = 20'000;
  std::string value;
  const uint64_t begin_ns = base::now_ns();
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(db_->Get(key_of(i), &value).ok());
    ASSERT_EQ(value, "value of " + key_of(i));
  }
  EXPECT_GE(base::now_ns() - begin_ns, 200 * medium_->latency_ns);
  EXPECT_GE(medium_->calls, 200U);
  EXPECT_LT(medium_->calls, 270U) << "only where another run or group has a like fingerprint";
  EXPECT_GE(medium_->blocks_read, medium_->calls);
}

TEST_F(SlowReads, AMultiGetWaitsOnceForAll) {
  open(true);
  std::vector<std::string> keys, values(32);
  for (uint64_t i = 0; i < 32; ++i) keys.push_back(key_of(i));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<Status> statuses(32);
  db_->MultiGet(ReadOptions(), views, values, statuses);
  for (uint64_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], "value of " + keys[i]);
  EXPECT_GE(medium_->blocks_read, 20U) << "some lie in one block";
  const uint64_t together = medium_->calls.exchange(0);
  for (uint64_t i = 0; i < 32; ++i) ASSERT_TRUE(db_->Get(keys[i], &values[i]).ok());
  EXPECT_LT(together, 8U) << "a round for all whose fingerprint pointed at another run or group";
  EXPECT_GE(medium_->calls, 32U);
}

TEST_F(SlowReads, WithoutMetadataASearchWaitsForEachStep) {
  open(false);
  std::string value;
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(db_->Get(key_of(i), &value).ok());
  EXPECT_GT(medium_->calls, 250U);
}

TEST_F(SlowReads, ScansAndIteratorsWaitForWhatTheyVisit) {
  open(true);
  uint64_t visited = 0;
  ASSERT_TRUE(db_->Scan(ScanOptions(), "", [&](auto, auto) { return ++visited != 0; }).ok());
  EXPECT_EQ(visited, kRecords);
  EXPECT_GE(medium_->blocks_read, kRecords * 30 / base::kMediaBlockBytes);
  EXPECT_LT(medium_->calls, 200U) << "not one by one";
  const uint64_t before = medium_->blocks_read;
  ScanOptions few;
  few.limit = 2;
  ASSERT_TRUE(db_->Scan(few, key_of(5), [](auto, auto) { return true; }).ok());
  EXPECT_LT(medium_->blocks_read - before, 40U);
}

TEST_F(SlowReads, ALargeValueIsReadWhole) {
  open(true);
  ASSERT_TRUE(db_->Put("large", std::string(100'000, 'x')).ok());
  medium_->blocks_read = 0;
  std::string value;
  ASSERT_TRUE(db_->Get("large", &value).ok());
  EXPECT_GE(medium_->blocks_read, 100'000 / base::kMediaBlockBytes);
}

// Gets alone wait in blocks, two of which are on their way at a time; with an update among them they go in lanes, four
// at a time.
TEST_F(SlowReads, OperationsOfASessionWaitTogether) {
  open(true);
  constexpr size_t kDepth = 8 * SessionImpl::kLaneOperations;
  medium_->latency_ns = 2 * base::kNsPerMs;
  SessionImpl session(impl(), kDepth + 1);
  std::vector<std::string> keys, values(kDepth);
  std::vector<Status> statuses(kDepth);
  for (uint64_t i = 0; i < kDepth; ++i) keys.push_back(key_of(i));
  for (const bool lanes : {false, true}) {
    uint64_t least_ns = UINT64_MAX, in_turn_ns = 0;
    const auto together = [&] { return least_ns < (lanes ? in_turn_ns / 2 : in_turn_ns * 3 / 4); };
    for (int round = 0; round < 5 || (round < 60 && !together()); ++round) {  // others may run beside
      medium_->calls = 0;
      const uint64_t begin_ns = base::now_ns();
      Status updated;
      if (lanes) session.Put("another key", "value", &updated);
      for (size_t i = 0; i < kDepth; ++i) session.Get(keys[i], &values[i], &statuses[i]);
      session.Wait();
      least_ns = std::min(least_ns, base::now_ns() - begin_ns);
      for (size_t i = 0; i < kDepth; ++i) ASSERT_EQ(values[i], "value of " + keys[i]);
      in_turn_ns = medium_->calls * medium_->latency_ns;
    }
    EXPECT_GE(least_ns, medium_->latency_ns);
    EXPECT_TRUE(together()) << least_ns << " ns, " << in_turn_ns << " one after the other";
  }
}

// A search without metadata waits at each of its steps. In a group the waits of all add up; coroutines share them.
TEST_F(SlowReads, GetsInCoroutinesWaitTogetherWithoutMetadata) {
  constexpr size_t kDepth = 16;
  std::vector<std::string> keys, values(kDepth);
  std::vector<Status> statuses(kDepth);
  for (uint64_t i = 0; i < kDepth; ++i) keys.push_back(key_of(i));
  keys.back() = "absent";
  open(false);
  medium_->latency_ns = 500'000;
  SessionImpl session(impl(), kDepth + 1);
  Status updated;
  session.Put(keys[3], "new", &updated);
  uint64_t took_ns = UINT64_MAX, in_turn_ns = 0;  // the least: a busy machine prolongs some
  const auto together = [&] { return took_ns < in_turn_ns / 3; };
  for (int round = 0; round < 5 || (round < 60 && !together()); ++round) {
    medium_->calls = 0;
    const uint64_t begin_ns = base::now_ns();
    for (size_t i = 0; i < kDepth; ++i) session.Get(keys[i], &values[i], &statuses[i]);
    session.Wait();
    took_ns = std::min(took_ns, base::now_ns() - begin_ns);
    for (size_t i = 0; i + 1 < kDepth; ++i) EXPECT_EQ(values[i], i == 3 ? "new" : "value of " + keys[i]);
    EXPECT_TRUE(statuses.back().IsNotFound());
    in_turn_ns = medium_->calls * medium_->latency_ns;
  }
  EXPECT_TRUE(together()) << took_ns << " ns, " << in_turn_ns << " one after the other";
}

TEST_F(SlowReads, ScansInLanesSeeTheUpdatesOfAllLanes) {
  open(true);
  medium_->latency_ns = 500;
  constexpr size_t kUpdates = 3 * SessionImpl::kLaneOperations, kScans = SessionImpl::kScanLanesMax + 5;
  std::array<Status, kUpdates> update_statuses;
  std::array<Status, kScans> scan_statuses;
  for (const size_t updates : {size_t{5}, kUpdates}) {
    SessionImpl session(impl(), kUpdates + kScans);
    const std::string value = "new " + std::to_string(updates);
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < updates; ++i) keys.push_back("a" + std::to_string(1000 + i));
    std::array<size_t, kScans> seen{};
    ScanOptions options;
    options.limit = updates;
    for (size_t i = 0; i < updates; ++i) session.Put(keys[i], value, &update_statuses[i]);
    for (size_t i = 0; i < kScans; ++i) {
      const auto visit = [&seen, &value, i](std::string_view, std::string_view found) {
        return ++seen[i], found == value;
      };
      session.Scan(options, keys.front(), visit, &scan_statuses[i]);
    }
    session.Wait();
    EXPECT_EQ(session.InFlight(), 0U);
    for (size_t i = 0; i < kScans; ++i) {
      ASSERT_TRUE(scan_statuses[i].ok()) << scan_statuses[i].ToString();
      ASSERT_EQ(seen[i], updates) << "scan " << i << " met a value that was there before";
    }
  }
}

// Compared with a map: a read returns the last update of its key that was begun before it, and none begun after it.
void SlowReads::expect_order_of_a_key() {
  medium_->latency_ns = 500;
  const uint64_t seed = base::seed_from_env_or(4);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  base::Random random(seed);
  constexpr size_t kDepth = 100;
  SessionImpl session(impl(), kDepth);
  std::map<std::string, std::string> model;
  for (uint64_t i = 0; i < kRecords; ++i) model[key_of(i)] = "value of " + key_of(i);
  struct Begun {
    std::string key, value, expected;
    Status status;
    bool read = false;
  };
  const int rounds = testing::budget(20, 200, 2000);
  for (int round = 0; round < rounds; ++round) {
    std::vector<Begun> begun(1 + random.below(kDepth));
    for (Begun& one : begun) {
      one.key = key_of(random.below(round % 2 == 0 ? 20 : kRecords));  // few equal keys: groups of several lanes
      const uint64_t what = random.below(4);
      if (what == 0) {
        session.Delete(one.key, &one.status);
        model.erase(one.key);
      } else if (what == 1) {
        one.value = std::to_string(random.next());
        session.Put(one.key, one.value, &one.status);
        model[one.key] = one.value;
      } else {
        one.read = true;
        one.expected = model.contains(one.key) ? model[one.key] : "absent";
        session.Get(one.key, &one.value, &one.status);
      }
    }
    session.Wait();
    for (const Begun& one : begun) {
      ASSERT_TRUE(one.status.ok() || (one.read && one.status.IsNotFound())) << one.status.ToString();
      if (!one.read) continue;
      ASSERT_EQ(one.status.ok() ? one.value : "absent", one.expected) << one.key;
    }
    if (round % 16 == 0) {
      ASSERT_TRUE(db_->Drain().ok());
    }
  }
  std::string value;
  for (const auto& [key, expected] : model) {
    ASSERT_TRUE(db_->Get(key, &value).ok());
    ASSERT_EQ(value, expected);
  }
}

TEST_F(SlowReads, LanesKeepTheOrderOfAKey) {
  open(true);
  expect_order_of_a_key();
}

TEST_F(SlowReads, CoroutinesKeepTheOrderOfAKey) {
  open(false);
  expect_order_of_a_key();
}

}  // namespace
}  // namespace bonsai::store
