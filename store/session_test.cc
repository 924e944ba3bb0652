// SPDX-License-Identifier: Apache-2.0
// The scans of a session beside its updates: each sees those that were begun before it and none begun after it, and
// updates that no scan comes to share their fences.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/units.h"
#include "bonsai/testing.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using Records = std::vector<std::pair<std::string, std::string>>;

class SessionTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kRecords = 4'000;

  static std::string key_of(uint64_t i) {
    char text[24];
    std::snprintf(text, sizeof text, "key %06llu", static_cast<unsigned long long>(i));
    return text;
  }

  // Every second key has a record. A store without background threads.
  void SetUp() override {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = 32 * base::kMiB;
    options.background_threads = 0;
    const Status status = open_db(options, folder_.file("pool"), &db_);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (uint64_t i = 0; i < kRecords; ++i) {
      ASSERT_TRUE(db_->Put(key_of(2 * i), "old").ok());
      model_[key_of(2 * i)] = "old";
    }
    ASSERT_TRUE(db_->Drain().ok());
  }

  struct Operation {
    std::string key, end, value;
    Status status;
    Records records, expected;
  };

  void begin_scan(Session* session, const ScanOptions& options, Operation* op) {
    const auto into = [op](std::string_view key, std::string_view value) {
      return op->records.emplace_back(key, value), true;
    };
    session->Scan(options, op->key, into, &op->status);
    auto at = options.from_exclusive ? model_.upper_bound(op->key) : model_.lower_bound(op->key);
    for (; at != model_.end() && op->expected.size() < options.limit; ++at) {
      if (!options.end.empty() && options.end <= at->first) break;
      op->expected.emplace_back(*at);
    }
  }
  void begin_put(Session* session, Operation* op) {
    session->Put(op->key, op->value, &op->status);
    model_[op->key] = op->value;
  }
  void begin_delete(Session* session, Operation* op) {
    session->Delete(op->key, &op->status);
    model_.erase(op->key);
  }
  static void expect(const std::vector<Operation>& operations) {
    for (const Operation& op : operations) {
      ASSERT_TRUE(op.status.ok()) << op.status.ToString();
      ASSERT_EQ(op.records.size(), op.expected.size()) << "of the scan from " << op.key;
      ASSERT_EQ(op.records, op.expected) << "of the scan from " << op.key;
    }
  }
  // Executes `pairs` puts, each followed by a scan of 10 if `scans`, as one group. Returns the number of fences.
  uint64_t fences_of(size_t pairs, uint64_t first_put, bool scans, uint64_t first_scan) {
    const uint64_t before = db_->GetStats().nvm_fences;
    std::vector<Operation> operations(2 * pairs);
    const auto session = db_->NewSession(operations.size());
    for (size_t i = 0; i < pairs; ++i) {
      operations[2 * i].key = key_of(first_put + i);
      operations[2 * i].value = "new";
      begin_put(session.get(), &operations[2 * i]);
      if (!scans) continue;
      operations[2 * i + 1].key = key_of(first_scan + i);
      begin_scan(session.get(), {.limit = 10}, &operations[2 * i + 1]);
    }
    session->Wait();
    expect(operations);
    return db_->GetStats().nvm_fences - before;
  }

  ScratchFolder folder_;
  std::unique_ptr<DB> db_;
  std::map<std::string, std::string> model_;
};

TEST_F(SessionTest, UpdatesToWhichNoScanComesShareTheirFence) {
  if (shm_asked()) GTEST_SKIP() << "the fences are those of another process";
  if (striped_asked()) GTEST_SKIP() << "each target begins segments of its own";
  constexpr size_t kPairs = 8;
  fences_of(kPairs, 2'000, false, 0);  // the first put begins a segment
  EXPECT_EQ(fences_of(kPairs, 2'000, false, 0), 1U);
  EXPECT_EQ(fences_of(kPairs, 2'000, true, 4'000), 1U) << "of scans behind the updates";
  EXPECT_EQ(fences_of(kPairs, 2'000, true, 100), 1U) << "of scans before the updates";
  EXPECT_EQ(fences_of(kPairs, 2'000, true, 2'000), kPairs) << "of scans that begin with an update";
}

// Scans of up to three ranges, and updates at any distance. A scan may come to an update in each of its ranges.
TEST_F(SessionTest, AScanSeesTheUpdatesBeforeItAndNoneAfterIt) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  base::Random random(seed);
  const int rounds = budget(60, 400, 8'000);
  for (int round = 0; round < rounds; ++round) {
    const uint64_t nearby = random.chance(1, 2) ? 2 * kRecords : 1 + random.below(2'000);
    const uint64_t first = random.below(2 * kRecords);
    const size_t scans_in_100 = 1 + random.below(99);
    std::vector<Operation> operations(1 + random.below(100));
    const auto session = db_->NewSession(1 + random.below(operations.size() + 8));
    for (Operation& op : operations) {
      op.key = key_of((first + random.below(nearby)) % (2 * kRecords));
      if (random.below(100) >= scans_in_100) {
        op.value = std::to_string(random.next());
        random.chance(1, 3) ? begin_delete(session.get(), &op) : begin_put(session.get(), &op);
        continue;
      }
      ScanOptions options{.limit = random.chance(1, 16) ? UINT64_MAX : random.below(random.chance(1, 3) ? 1'200 : 60)};
      options.from_exclusive = random.chance(1, 3);
      if (random.chance(1, 4)) op.end = key_of(random.below(2 * kRecords));
      options.end = op.end;
      begin_scan(session.get(), options, &op);
    }
    session->Wait();
    ASSERT_EQ(session->InFlight(), 0U);
    ASSERT_NO_FATAL_FAILURE(expect(operations)) << "in round " << round;
    if (random.chance(1, 16)) {
      ASSERT_TRUE(db_->Drain().ok());
    }
  }
}

// More updates than a scan looks through: they are executed before it, in one piece.
TEST_F(SessionTest, AScanBehindManyUpdatesSeesThem) {
  std::vector<Operation> operations(202);
  const auto session = db_->NewSession(operations.size());
  for (uint64_t i = 0; i < 200; ++i) {
    operations[i].key = key_of(3 * i);
    operations[i].value = "new";
    begin_put(session.get(), &operations[i]);
  }
  operations[200].key = key_of(300);
  begin_scan(session.get(), {.limit = 50}, &operations[200]);
  operations[201].key = key_of(301);
  operations[201].value = "newer";
  begin_put(session.get(), &operations[201]);
  session->Wait();
  expect(operations);
}

// A scan through a snapshot sees none of the updates, and waits for none.
TEST_F(SessionTest, AScanThroughASnapshotSeesItsMoment) {
  std::shared_ptr<const Snapshot> snapshot;
  ASSERT_TRUE(db_->GetSnapshot(&snapshot).ok());
  std::vector<Operation> operations(4);
  const auto session = db_->NewSession(8);
  operations[0].key = operations[1].key = operations[2].key = operations[3].key = key_of(10);
  operations[0].value = "new";
  begin_scan(session.get(), {.snapshot = snapshot.get(), .limit = 3}, &operations[1]);
  begin_put(session.get(), &operations[0]);
  begin_scan(session.get(), {.limit = 3}, &operations[2]);
  operations[3].expected = operations[1].expected;
  session->Scan(
      {.snapshot = snapshot.get(), .limit = 3}, operations[3].key,
      [&](std::string_view key, std::string_view value) {
        return operations[3].records.emplace_back(key, value), true;
      },
      &operations[3].status);
  session->Wait();
  expect(operations);
}

TEST_F(SessionTest, AVisitorThatThrowsLosesNoUpdateOfItsGroup) {
  const auto session = db_->NewSession(8);
  Status statuses[4];
  const std::string before = key_of(1), after = key_of(9);
  session->Put(before, "new", &statuses[0]);
  session->Scan(
      {.limit = 2}, before,
      [](std::string_view, std::string_view) -> bool { throw std::runtime_error("of a visitor"); }, &statuses[1]);
  session->Put(after, "new", &statuses[2]);
  EXPECT_THROW(session->Wait(), std::runtime_error);
  EXPECT_EQ(session->InFlight(), 0U);
  session->Wait();
  for (const std::string& key : {before, after}) {
    std::string value;
    ASSERT_TRUE(db_->Get(key, &value).ok());
    EXPECT_EQ(value, "new");
  }
  EXPECT_TRUE(statuses[0].ok() && statuses[2].ok());
}

}  // namespace
}  // namespace bonsai::testing
