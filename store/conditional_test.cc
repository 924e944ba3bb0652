// SPDX-License-Identifier: Apache-2.0
// Conditional updates through the public interface: what each condition says to each state of a key, wherever its value
// is; batches with conditions; counters; what is left after a refusal, also after reopening; threads that compete.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "testing/model_db.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kMiB;

class Conditional : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.create_if_missing = true;
    options_.pool_bytes = 16 * kMiB;
    reopen();
  }
  void reopen() {
    db_.reset();
    const Status status = open_db(options_, folder_.file("pool"), &db_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  std::string get(std::string_view key) {
    std::string value;
    const Status status = db_->Get(key, &value);
    EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
    return status.ok() ? value : "(absent)";
  }
  std::shared_ptr<const Snapshot> snapshot() {
    std::shared_ptr<const Snapshot> made;
    EXPECT_TRUE(db_->GetSnapshot(&made).ok());
    return made;
  }
  static void expect_refused(const Status& status) { EXPECT_TRUE(status.IsConditionFailed()) << status.ToString(); }
  static void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.ToString(); }

  Options options_;
  ScratchFolder folder_;
  std::unique_ptr<DB> db_;
};

// Where a key's value can be when it is judged.
enum class Place { kBnode, kDnode, kBnodeOverDnode };
const char* name_of(Place place) {
  return place == Place::kBnode ? "InABnode" : place == Place::kDnode ? "InADnode" : "InABnodeOverADnode";
}

class ConditionalPlaces : public Conditional, public ::testing::WithParamInterface<Place> {
 protected:
  // Puts or deletes, so that the outcome is in that place.
  void put(std::string_view key, std::string_view value) {
    if (GetParam() == Place::kBnodeOverDnode) {
      expect_ok(db_->Put(key, "older"));
      expect_ok(db_->Drain());
    }
    expect_ok(db_->Put(key, value));
    settle();
  }
  void erase(std::string_view key) {
    expect_ok(db_->Put(key, "older"));
    if (GetParam() == Place::kBnodeOverDnode) expect_ok(db_->Drain());
    expect_ok(db_->Delete(key));
    settle();
  }

 private:
  void settle() {
    if (GetParam() == Place::kDnode) expect_ok(db_->Drain());
  }
};

TEST_P(ConditionalPlaces, EachConditionMeansWhatItSays) {
  const std::string large(20'000, 'L'), other_large(20'000, 'M');
  for (const std::string& value : {std::string("red"), std::string(), large}) {
    put("apple", value);
    erase("pear");
    expect_refused(db_->PutIf(Condition::Absent(), "apple", "x"));
    expect_refused(db_->PutIf(Condition::Equals(value + "r"), "apple", "x"));
    expect_refused(db_->PutIf(Condition::Equals(value == large ? other_large : "no"), "apple", "x"));
    expect_refused(db_->PutIf(Condition::Present(), "pear", "x"));
    expect_refused(db_->PutIf(Condition::Equals(""), "pear", "x"));
    expect_refused(db_->DeleteIf(Condition::Absent(), "apple"));
    expect_refused(db_->DeleteIf(Condition::Present(), "pear"));
    EXPECT_EQ(get("apple"), value);
    EXPECT_EQ(get("pear"), "(absent)");
    expect_ok(db_->PutIf(Condition::Equals(value), "apple", "green"));
    EXPECT_EQ(get("apple"), "green");
    put("apple", value);
    expect_ok(db_->PutIf(Condition::Present(), "apple", large));
    EXPECT_EQ(get("apple"), large);
    expect_ok(db_->PutIf(Condition::Absent(), "pear", value));
    EXPECT_EQ(get("pear"), value);
    put("apple", value);
    expect_ok(db_->DeleteIf(Condition::Equals(value), "apple"));
    expect_ok(db_->DeleteIf(Condition::Absent(), "apple"));
    expect_ok(db_->DeleteIf(Condition::Present(), "pear"));
    reopen();
    EXPECT_EQ(get("apple"), "(absent)");
    EXPECT_EQ(get("pear"), "(absent)");
  }
}

// Not by its value: an update to the same value counts, and one of a neighbour does not.
TEST_P(ConditionalPlaces, UnchangedSinceASnapshotIsExact) {
  put("apple", "red");
  erase("pear");
  auto before = snapshot();
  expect_ok(db_->Put("apples", "many"));
  expect_ok(db_->Drain());
  expect_ok(db_->PutIf(Condition::Unchanged(*before), "apple", "green"));
  expect_refused(db_->PutIf(Condition::Unchanged(*before), "apple", "blue"));
  expect_ok(db_->Put("apple", "red"));
  expect_refused(db_->DeleteIf(Condition::Unchanged(*before), "apple"));
  expect_ok(db_->Drain());  // the snapshot keeps what the answer depends on
  expect_refused(db_->DeleteIf(Condition::Unchanged(*before), "apple"));
  expect_ok(db_->Drain());
  expect_refused(db_->DeleteIf(Condition::Unchanged(*before), "apple"));
  expect_ok(db_->PutIf(Condition::Unchanged(*before), "pear", "yellow"));
  expect_ok(db_->Delete("pear"));
  expect_refused(db_->PutIf(Condition::Unchanged(*before), "pear", "yellow"));
  expect_ok(db_->PutIf(Condition::Unchanged(*before), "quince", "new"));
  EXPECT_EQ(get("apple"), "red");
}

TEST_P(ConditionalPlaces, ABatchIsAppliedAsAWholeOrNotAtAll) {
  put("apple", "red");
  put("fig", "blue");
  erase("pear");
  const auto write = [&](const std::vector<std::pair<std::string, Condition>>& required, size_t* failed) {
    WriteBatch batch;
    batch.Put("apple", "1");
    batch.Put("zebra", std::string(20'000, 'z'));
    batch.Delete("fig");
    for (const auto& [key, condition] : required) batch.Require(key, condition);
    return db_->Write(batch, failed);
  };
  size_t failed = 99;
  const Condition red = Condition::Equals("red"), absent = Condition::Absent(), present = Condition::Present();
  expect_refused(write({{"apple", red}, {"pear", present}}, &failed));
  EXPECT_EQ(failed, 1U);
  expect_refused(write({{"quince", present}, {"apple", red}}, &failed));
  EXPECT_EQ(failed, 0U);
  expect_refused(write({{"apple", red}, {"apple", present}, {"apple", absent}}, &failed));
  EXPECT_EQ(failed, 2U);
  expect_refused(write({{"zebra", present}}, nullptr));
  EXPECT_EQ(get("apple") + get("fig") + get("zebra"), "redblue(absent)");
  EXPECT_TRUE(write({{"", present}}, nullptr).IsInvalidArgument());
  expect_ok(
      write({{"apple", red}, {"apple", present}, {"aardvark", absent}, {"pear", absent}, {"zz", absent}}, &failed));
  EXPECT_EQ(get("apple") + get("fig") + get("pear") + get("aardvark"), "1(absent)(absent)(absent)");
  EXPECT_EQ(get("zebra").size(), 20'000U);
  expect_ok(db_->Put("pear", "later"));
  expect_ok(db_->Drain());
  reopen();
  EXPECT_EQ(get("apple") + get("fig") + get("pear") + get("aardvark"), "1(absent)later(absent)");
}

INSTANTIATE_TEST_SUITE_P(, ConditionalPlaces, ::testing::Values(Place::kBnode, Place::kDnode, Place::kBnodeOverDnode),
                         [](const auto& place) { return name_of(place.param); });

TEST_F(Conditional, ABatchOfConditionsAloneIsJudgedAtOneMoment) {
  expect_ok(db_->Put("apple", "red"));
  const auto seen = snapshot();
  WriteBatch batch;
  batch.Require("apple", Condition::Equals("red"));
  batch.Require("pear", Condition::Absent());
  batch.Require("apple", Condition::Unchanged(*seen));
  size_t failed = 99;
  expect_ok(db_->Write(batch, &failed));
  expect_ok(db_->Put("apple", "red"));
  expect_refused(db_->Write(batch, &failed));
  EXPECT_EQ(failed, 2U);
  batch.Clear();
  EXPECT_TRUE(batch.requirements().empty());
  expect_ok(db_->Write(batch));
}

TEST_F(Conditional, BadArgumentsChangeNothing) {
  const std::string long_key(kKeyBytesMax + 1, 'k');
  EXPECT_TRUE(db_->PutIf(Condition::Absent(), "", "v").IsInvalidArgument());
  EXPECT_TRUE(db_->PutIf(Condition::Absent(), long_key, "v").IsInvalidArgument());
  EXPECT_TRUE(db_->PutIf(Condition::Absent(), "k", std::string(kValueBytesMax + 1, 'v')).IsInvalidArgument());
  EXPECT_TRUE(db_->DeleteIf(Condition::Present(), long_key).IsInvalidArgument());
  EXPECT_TRUE(db_->Increment("", 1, nullptr).IsInvalidArgument());
  uint64_t count = 99;
  expect_ok(db_->Count({}, "", &count));
  EXPECT_EQ(count, 0U);
}

TEST_F(Conditional, CountersAddAndRefuseWhatDoesNotFit) {
  int64_t sum = 0;
  expect_ok(db_->Increment("hits", 1, &sum));
  EXPECT_EQ(sum, 1);
  expect_ok(db_->Increment("hits", -3, nullptr));
  EXPECT_EQ(get("hits"), "-2");
  expect_ok(db_->Drain());
  expect_ok(db_->Increment("hits", INT64_MAX, &sum));
  EXPECT_EQ(sum, INT64_MAX - 2);
  EXPECT_TRUE(db_->Increment("hits", 3, &sum).IsInvalidArgument());
  EXPECT_EQ(sum, INT64_MAX - 2);
  expect_ok(db_->Put("hits", std::to_string(INT64_MIN)));
  EXPECT_TRUE(db_->Increment("hits", -1, &sum).IsInvalidArgument());
  expect_ok(db_->Increment("hits", 0, &sum));
  EXPECT_EQ(sum, INT64_MIN);
  for (const std::string& text : {std::string("red"), std::string("1 "), std::string("+1"), std::string("0x1"),
                                  std::string(), std::string("9223372036854775808"), std::string(20'000, '1')}) {
    expect_ok(db_->Put("hits", text));
    EXPECT_TRUE(db_->Increment("hits", 1, nullptr).IsInvalidArgument()) << text.substr(0, 30);
    EXPECT_EQ(get("hits"), text);
  }
  reopen();
  expect_ok(db_->Delete("hits"));
  expect_ok(db_->Increment("hits", 7, &sum));
  EXPECT_EQ(sum, 7);
}

// One fence for what is made, none for what is refused; no write either.
TEST_F(Conditional, FencesAndBytesAreThoseOfAPut) {
  options_.background_threads = 0;
  reopen();
  const auto spent = [&](const auto& update) {
    const Stats before = db_->GetStats();
    update();
    const Stats after = db_->GetStats();
    return std::pair(after.nvm_fences - before.nvm_fences, after.nvm_bytes_stored - before.nvm_bytes_stored);
  };
  expect_ok(db_->Put("apple", "red"));  // opens the segment
  const auto put = spent([&] { expect_ok(db_->Put("apple", "red")); });
  EXPECT_EQ(put.first, 1U);
  EXPECT_EQ(spent([&] { expect_ok(db_->PutIf(Condition::Equals("red"), "apple", "two")); }), put);
  EXPECT_EQ(spent([&] { expect_ok(db_->PutIf(Condition::Absent(), "grape", "two")); }), put);
  EXPECT_EQ(spent([&] { expect_ok(db_->Increment("count", 100, nullptr)); }), put);
  EXPECT_EQ(spent([&] { expect_ok(db_->DeleteIf(Condition::Present(), "grape")); }).first, 1U);
  using Spent = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(spent([&] { expect_refused(db_->PutIf(Condition::Equals("red"), "apple", "six")); }), Spent(0, 0));
  EXPECT_EQ(spent([&] { expect_refused(db_->DeleteIf(Condition::Present(), "grape")); }), Spent(0, 0));
  EXPECT_EQ(spent([&] {
              WriteBatch batch;
              batch.Put("apple", "six");
              batch.Require("grape", Condition::Present());
              expect_refused(db_->Write(batch));
            }),
            Spent(0, 0));
  EXPECT_EQ(spent([&] {
              WriteBatch batch;
              batch.Put("apple", "six");
              batch.Put("plum", "six");
              batch.Require("grape", Condition::Absent());
              expect_ok(db_->Write(batch));
            }).first,
            1U);
}

// A refused large value gives its space back.
TEST_F(Conditional, RefusalsLeaveNoBytes) {
  const std::string large(100'000, 'L');
  expect_ok(db_->Put("apple", "red"));
  expect_ok(db_->Drain());
  const uint64_t used = db_->GetStats().data_bytes_used;
  for (int i = 0; i < 50; ++i) {
    expect_refused(db_->PutIf(Condition::Absent(), "apple", large));
    WriteBatch batch;
    batch.Put("pear", large);
    batch.Require("apple", Condition::Absent());
    expect_refused(db_->Write(batch));
  }
  EXPECT_EQ(db_->GetStats().data_bytes_used, used);
}

TEST_F(Conditional, SessionsKeepTheOrderOfTheCaller) {
  const std::unique_ptr<Session> session = db_->NewSession(8);
  Status statuses[8];
  std::string first, last;
  int64_t sum = 0;
  session->Get("k", &first, &statuses[0]);
  session->Put("k", "5", &statuses[1]);
  session->PutIf(Condition::Equals("5"), "k", "6", &statuses[2]);
  session->PutIf(Condition::Equals("5"), "k", "7", &statuses[3]);
  session->Increment("k", 10, &sum, &statuses[4]);
  session->Put("other", "x", &statuses[5]);
  session->DeleteIf(Condition::Absent(), "k", &statuses[6]);
  session->Get("k", &last, &statuses[7]);
  session->Wait();
  EXPECT_TRUE(statuses[0].IsNotFound());
  EXPECT_TRUE(statuses[3].IsConditionFailed() && statuses[6].IsConditionFailed());
  EXPECT_EQ(sum, 16);
  EXPECT_EQ(last, "16");
}

// Random updates, refused or not, against the model, over replacements, snapshots and reopening.
TEST_F(Conditional, AgreesWithTheModel) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  base::Random random(seed);
  ModelDb model(options_);
  std::shared_ptr<const Snapshot> seen, model_seen;
  const auto one_of = [&](uint64_t n) { return std::to_string(random.below(n)); };
  const auto value = [&] { return random.chance(1, 20) ? std::string(5'000, 'L') + one_of(2) : one_of(3); };
  for (uint64_t i = 0; i < budget<uint64_t>(3'000, 20'000, 200'000); ++i) {
    if (random.chance(1, 50)) {
      expect_ok(db_->GetSnapshot(&seen));
      expect_ok(model.GetSnapshot(&model_seen));
    }
    if (random.chance(1, 100)) expect_ok(db_->Drain());
    if (random.chance(1, 1'000)) {
      seen.reset();
      model_seen.reset();
      reopen();
    }
    const std::string equal = value(), put = value(), key = "key" + one_of(40);
    const auto condition = [&](uint64_t kind, const Snapshot* snapshot) {
      if (kind == 0) return Condition::Absent();
      if (kind == 1) return Condition::Present();
      if (kind == 2 || snapshot == nullptr) return Condition::Equals(equal);
      return Condition::Unchanged(*snapshot);
    };
    const uint64_t kind = random.below(4), what = random.below(5), keys = random.below(6);
    int64_t sum = 0, model_sum = 0;
    std::vector<std::string> others;
    for (uint64_t other = 0; other < keys; ++other) others.push_back("key" + one_of(40));
    const auto perform = [&](DB* db, const Snapshot* snapshot, int64_t* result) -> Status {
      if (what == 0) return db->PutIf(condition(kind, snapshot), key, put);
      if (what == 1) return db->DeleteIf(condition(kind, snapshot), key);
      if (what == 2) return db->Increment(key, 1, result);
      if (what == 3) return db->Put(key, put);
      WriteBatch batch;
      for (size_t other = 0; other < others.size(); ++other) {
        if (other % 3 != 0) batch.Put(others[other], put);
        if (other % 3 != 1) batch.Require(others[other], condition(other % 3 == 0 ? kind : 3 - kind, snapshot));
      }
      return db->Write(batch);
    };
    const Status done = perform(db_.get(), seen.get(), &sum), wanted = perform(&model, model_seen.get(), &model_sum);
    ASSERT_EQ(done.code(), wanted.code()) << "step " << i << ": " << done.ToString();
    ASSERT_EQ(sum, model_sum);
    if (random.chance(1, 100)) {
      for (uint64_t k = 0; k < 40; ++k) {
        std::string stored, expected;
        const Status got = db_->Get("key" + std::to_string(k), &stored);
        ASSERT_EQ(got.code(), model.Get("key" + std::to_string(k), &expected).code());
        ASSERT_EQ(stored, expected);
      }
    }
  }
}

// Increments, compare-and-sets, and transfers by batches lose nothing; replacements, puts of neighbours and scans run
// beside them.
TEST_F(Conditional, ThreadsThatCompeteLoseNothing) {
  constexpr int kThreads = 4, kAccounts = 5;
  const auto rounds = budget<int>(300, 3'000, 30'000);
  const auto account = [](int i) { return "account" + std::to_string(i); };
  for (int i = 0; i < kAccounts; ++i) expect_ok(db_->Put(account(i), "100"));
  std::atomic<int> inserted{0}, running{kThreads};
  const auto work = [&](int thread) {
    base::Random random(static_cast<uint64_t>(thread) + 1);
    for (int round = 0; round < rounds; ++round) {
      expect_ok(db_->Increment("total", 1, nullptr));
      for (;;) {  // by compare and set
        const std::string seen = get("by hand");
        const bool absent = seen == "(absent)";
        const Status set = db_->PutIf(absent ? Condition::Absent() : Condition::Equals(seen), "by hand",
                                      std::to_string(absent ? 1 : std::stoi(seen) + 1));
        if (set.ok()) break;
        expect_refused(set);
      }
      const Status first = db_->PutIf(Condition::Absent(), "once" + std::to_string(round), std::to_string(thread));
      if (first.ok()) ++inserted;
      expect_ok(db_->Put("beside" + std::to_string(thread), std::to_string(round)));
      const int from = static_cast<int>(random.below(kAccounts)), to = (from + 1) % kAccounts;
      const std::string has = get(account(from)), gets = get(account(to));
      WriteBatch transfer;
      transfer.Require(account(from), Condition::Equals(has));
      transfer.Require(account(to), Condition::Equals(gets));
      transfer.Require("frozen", Condition::Absent());
      transfer.Put(account(from), std::to_string(std::stoi(has) - 1));
      transfer.Put(account(to), std::to_string(std::stoi(gets) + 1));
      const Status moved = db_->Write(transfer);
      EXPECT_TRUE(moved.ok() || moved.IsConditionFailed()) << moved.ToString();
    }
    --running;
  };
  {
    std::vector<base::Thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back("competitor", [&, thread] { work(thread); });
    while (running.load() != 0) {
      int sum = 0;
      expect_ok(db_->Scan({.end = "account9"}, "account", [&](std::string_view, std::string_view value) {
        sum += std::stoi(std::string(value));
        return true;
      }));
      ASSERT_EQ(sum, kAccounts * 100);
      expect_ok(db_->Drain());
    }
  }
  EXPECT_EQ(inserted.load(), rounds);
  for (const bool again : {false, true}) {
    if (again) reopen();
    EXPECT_EQ(get("total"), std::to_string(kThreads * rounds));
    EXPECT_EQ(get("by hand"), std::to_string(kThreads * rounds));
  }
}

}  // namespace
}  // namespace bonsai::testing
