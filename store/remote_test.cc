// SPDX-License-Identifier: Apache-2.0
// The whole store over remote targets that DB::Open names (shm, nodes of one process). Acknowledged updates are on the
// serving nodes. If a node falls silent, calls return errors and do not hang. Bad names change nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "bonsai/db.h"
#include "bonsai/testing.h"
#include "persist/format.h"
#include "rdma/shm/shm.h"
#include "scale/fabrics.h"
#include "scale/testing/serving_node.h"
#include "store/db_impl.h"
#include "store/new_pool.h"
#include "store/testing/island.h"
#include "store/testing/silent_node.h"
#include "testing/expect_budgets.h"
#include "testing/scratch.h"

namespace bonsai::store {
namespace {

namespace fs = std::filesystem;
using testing::budget;

constexpr uint64_t kPoolBytes = uint64_t{8} << 20;

std::string key_of(uint64_t i) { return "key " + std::to_string(i * 7919 % 100'003); }

class RemoteStore : public ::testing::Test {
 protected:
  static Options creating() {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = kPoolBytes;
    options.stall_ms_max = 1'000;
    return options;
  }
  void open(const std::string& path, const Options& options = creating()) {
    db_.reset();
    const Status status = DB::Open(options, path, &db_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  // The open fails so, within its bound, and changes no file of the node.
  void expect_refused(const std::string& path, const Options& options, Status::Code code, const std::string& says) {
    const auto before = near_.files();
    std::unique_ptr<DB> db;
    const Status status = DB::Open(options, path, &db);
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_NE(status.message().find(says), std::string_view::npos) << status.ToString();
    EXPECT_EQ(db, nullptr);
    const auto after = near_.files();
    for (const auto& [name, bytes] : before) {
      const auto found = after.find(name);
      EXPECT_TRUE(found != after.end() && found->second == bytes) << path << " changed " << name;
    }
    EXPECT_EQ(after.size(), before.size()) << path << " left a file";
  }
  void fill(const std::string& path, uint64_t puts, const Options& options = creating()) {
    ASSERT_NO_FATAL_FAILURE(open(path, options));
    for (uint64_t i = 0; i < puts; ++i) ASSERT_TRUE(db_->Put(key_of(i), "value").ok());
    ASSERT_TRUE(db_->Close().ok());
  }
  void expect_filled(const std::string& path, uint64_t puts) {
    Options options = creating();
    options.create_if_missing = false;
    ASSERT_NO_FATAL_FAILURE(open(path, options));
    std::string value;
    for (uint64_t i = 0; i < puts; ++i) ASSERT_TRUE(db_->Get(key_of(i), &value).ok()) << key_of(i);
    ASSERT_TRUE(db_->Close().ok());
  }

  testing::ScratchFolder scratch_;
  Island near_{"near"};
  std::unique_ptr<DB> db_;
};

TEST_F(RemoteStore, WhatWasAcknowledgedIsThereAfterReopening) {
  constexpr uint64_t kThreads = 3, kPuts = 3'000;
  const std::string path = "near://node/a,near://node/b";
  open(path);
  std::atomic<uint64_t> refused{0};
  base::for_each_on(kThreads, kThreads, [&](size_t thread) {
    for (uint64_t i = thread; i < kPuts; i += kThreads) {
      if (!db_->Put(key_of(i), "value " + std::to_string(i)).ok()) refused.fetch_add(1);
    }
  });
  ASSERT_EQ(refused.load(), 0u);
  ASSERT_TRUE(db_->Delete(key_of(5)).ok());
  ASSERT_TRUE(db_->Put("large", std::string(300'000, 'x')).ok());
  for (const bool drained : {false, true}) {
    if (drained) {
      ASSERT_EQ("OK", db_->Drain().ToString());
    }
    open(path);
    std::string value;
    for (uint64_t i = 0; i < kPuts; ++i) {
      const Status status = db_->Get(key_of(i), &value);
      if (i == 5) {
        ASSERT_TRUE(status.IsNotFound());
        continue;
      }
      ASSERT_TRUE(status.ok()) << key_of(i) << ": " << status.ToString();
      ASSERT_EQ(value, "value " + std::to_string(i));
    }
    ASSERT_TRUE(db_->Get("large", &value).ok());
    ASSERT_EQ(value, std::string(300'000, 'x'));
  }
  db_.reset();
  for (const std::string& named : {path, near_.folder + "a," + near_.folder + "b"}) {
    CheckReport report;
    ASSERT_EQ("OK", Check(named, &report).ToString()) << named;
    EXPECT_TRUE(report.ok()) << "the node's own files are a sound pool";
    EXPECT_EQ(report.targets, 2u);
  }
}

// Shared memory, nodes of one process.
TEST_F(RemoteStore, AsksNoMoreOfItsNodesThanItsBudgets) {
  Options options = testing::budget_options();
  options.create_if_missing = true;
  open("near://node/a", options);
  std::vector<testing::BudgetRow> rows;
  ASSERT_EQ("OK", testing::count_remote_budgets(
                      db_.get(), [this] { return testing::asked_by(db_.get()); }, &rows)
                      .ToString());
  testing::expect_kept(rows);
}

TEST_F(RemoteStore, ASilentNodeIsUnavailableAndNothingAcknowledgedIsLost) {
  Options options = creating();
  options.fabric_wait_ms_max = 2'000;
  ASSERT_NO_FATAL_FAILURE(open("near://node/a", options));
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(db_->Put(key_of(i), "value").ok());
  near_.node.pause(true);
  const Status status = db_->Put("late", "value");
  EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
  EXPECT_NE(status.message().find("near://node/a"), std::string::npos) << status.ToString();
  std::string value;
  const Status read = db_->Get(key_of(3), &value);
  EXPECT_TRUE(read.ok() || is_without_lease(read)) << "reads go on as long as its lease runs: " << read.ToString();
  db_.reset();
  std::unique_ptr<DB> none;
  EXPECT_TRUE(DB::Open(options, "near://node/a", &none).IsUnavailable());
  near_.node.pause(false);
  ASSERT_EQ("OK", open_soon(creating(), "near://node/a", &db_).ToString());
  db_.reset();
  expect_filled("near://node/a", 100);
}

// The pool's owner is alive: it is named, and robbed only by who says so. From then on it answers nothing.
TEST_F(RemoteStore, APoolOfALiveOwnerIsTakenOverWhenThatIsSaid) {
  Options idle = creating();
  idle.background_threads = 0;  // so that it is not the owner who changes the pool
  open("near://node/a", idle);
  ASSERT_TRUE(db_->Put("k", "old").ok());
  expect_refused("near://node/a", creating(), Status::Code::kBusy, "pool a has an owner: store_remote_te");
  Options options = creating();
  options.take_over = true;
  std::string logged;
  options.log_sink = [&logged](char severity, std::string_view text) { logged += severity + std::string(text); };
  std::unique_ptr<DB> next;
  ASSERT_EQ("OK", DB::Open(options, "near://node/a", &next).ToString());
  EXPECT_EQ(logged.find("W"), 0U);
  EXPECT_NE(logged.find("pool a has an owner: store_remote_te"), std::string::npos) << logged;
  ASSERT_EQ("OK", next->Put("k", "new").ToString());
  std::string value;
  const Status read = db_->Get("k", &value), put = db_->Put("k", "mine");
  EXPECT_TRUE(read.IsUnavailable() && put.IsUnavailable()) << read.ToString() << put.ToString();
  EXPECT_NE(read.message().find("has got another owner meanwhile: store_remote_te"), std::string::npos)
      << read.ToString();
  ASSERT_EQ("OK", next->Get("k", &value).ToString());
  EXPECT_EQ(value, "new");
}

// Updates that can never become durable any more are rejected with the reason, without waiting.
TEST_F(RemoteStore, SyncDrainAndCloseSayWhichTargetIsGone) {
  for (const Durability durability : {Durability::kDurable, Durability::kBuffered}) {
    Options options = creating();
    options.durability = durability;
    options.fabric_wait_ms_max = 2'000;
    options.background_threads = 0;
    options.stall_ms_max = 5'000;
    const std::string path = durability == Durability::kBuffered ? "near://node/b" : "near://node/a";
    ASSERT_NO_FATAL_FAILURE(open(path, options));
    for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(db_->Put(key_of(i), "value").ok());
    near_.node.pause(true);
    static_cast<void>(db_->Put("late", "value"));
    const Status synced = db_->Sync(), drained = db_->Drain(), closed = db_->Close();
    for (const Status& status : {synced, drained, closed}) {
      EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
      EXPECT_NE(status.message().find(path), std::string::npos) << status.ToString();
      EXPECT_EQ(status.message().find("stuck thread"), std::string::npos) << status.ToString();
    }
    db_.reset();
    near_.node.pause(false);
  }
}

// Files of this machine and pools of two fabrics in one list: each fabric has one link.
TEST_F(RemoteStore, AListMayMixKindsAndFabrics) {
  const Island far("far");
  const std::string path = scratch_.file("local") + ",near://node/a,far://node/a,near://node/b";
  fill(path, 1'000);
  expect_filled(path, 1'000);
  open(path);
  const Stats stats = db_->GetStats();
  EXPECT_EQ(stats.targets, 4u);
  EXPECT_NE(stats.medium.find("over shm"), std::string::npos) << stats.medium;
  EXPECT_NE(stats.medium.find("; "), std::string::npos) << "both kinds of medium: " << stats.medium;
  EXPECT_GT(stats.fabric_round_trips, 0u);
  EXPECT_GE(stats.fabric_messages, stats.fabric_round_trips);
  EXPECT_GT(stats.resident_bytes, 3 * 8192u) << "tables and headers of three";
  EXPECT_GT(stats.fabric_bytes, stats.resident_bytes) << "which were fetched";
  EXPECT_LT(stats.fabric_bytes, 3 * kPoolBytes / 16) << "and not all that they have";
  db_.reset();
  CheckReport report;
  ASSERT_EQ("OK", Check(path, &report).ToString());
  EXPECT_TRUE(report.ok());
  std::unique_ptr<DB> none;
  const Status swapped = DB::Open({}, scratch_.file("local") + ",far://node/a,near://node/a,near://node/b", &none);
  EXPECT_TRUE(swapped.IsInvalidArgument()) << swapped.ToString();
  EXPECT_NE(swapped.message().find("order of creation"), std::string::npos) << swapped.ToString();
}

// One put: its record is a WRITE and a flush request in one doorbell, on one target.
TEST_F(RemoteStore, APutIsOneRoundTrip) {
  Options options = creating();
  options.background_threads = 0;
  open("near://node/a,near://node/b", options);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(db_->Put(key_of(0), "value").ok());  // until its stream has a segment
  const Stats before = db_->GetStats();
  constexpr uint64_t kPuts = 50;
  for (uint64_t i = 0; i < kPuts; ++i) ASSERT_TRUE(db_->Put(key_of(0), "value").ok());
  const Stats after = db_->GetStats();
  EXPECT_EQ(after.fabric_round_trips - before.fabric_round_trips, kPuts);
  EXPECT_GE(after.fabric_messages - before.fabric_messages, 2 * kPuts);
  EXPECT_LE(after.fabric_messages - before.fabric_messages, 2 * kPuts + kPuts / 10) << "the end is noted now and then";
}

// The log here and dnodes there: a put leaves nothing for the node to do before it returns. The other way round it is
// one round trip, as without roles.
TEST_F(RemoteStore, APutAsksOnlyTargetsWithALog) {
  constexpr uint64_t kPuts = 50;
  const std::string local = scratch_.file("local");
  for (const bool log_is_here : {true, false}) {
    Options options = creating();
    options.background_threads = 0;
    open(log_is_here ? local + ".log?role=log,near://node/data?role=dnodes"
                     : local + ".data?role=dnodes,near://node/log?role=log",
         options);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(db_->Put(key_of(0), "value").ok());  // until its stream has a segment
    const Stats before = db_->GetStats();
    for (uint64_t i = 0; i < kPuts; ++i) ASSERT_TRUE(db_->Put(key_of(0), "value").ok());
    const Stats after = db_->GetStats();
    EXPECT_EQ(after.fabric_round_trips - before.fabric_round_trips, log_is_here ? 0 : kPuts);
    EXPECT_EQ(after.fabric_messages == before.fabric_messages, log_is_here);
    ASSERT_TRUE(db_->Drain().ok());
    std::string value;
    ASSERT_TRUE(db_->Get(key_of(0), &value).ok());
    EXPECT_EQ(db_->GetStats().fabric_messages > after.fabric_messages, log_is_here) << "dnodes are there";
  }
  EXPECT_LT(fs::file_size(near_.folder + "log"), kPoolBytes / 4) << "a log has the size of a log";
  EXPECT_LT(fs::file_size(local + ".log"), kPoolBytes / 4);
}

TEST_F(RemoteStore, RolesAreKeptAndRecoveredFrom) {
  const std::string log = scratch_.file("log"), path = "near://node/a," + log + ",near://node/b";
  open("near://node/a?role=dnodes," + log + "?role=log,near://node/b?role=both");
  constexpr uint64_t kPuts = 2'000;
  for (uint64_t i = 0; i < kPuts; ++i) ASSERT_TRUE(db_->Put(key_of(i), "value").ok());
  ASSERT_TRUE(db_->Put("large", std::string(100'000, 'x')).ok());
  const std::string medium = db_->GetStats().medium;
  EXPECT_NE(medium.find(", for log"), std::string::npos) << medium;
  EXPECT_NE(medium.find(", for dnodes"), std::string::npos) << medium;
  db_.reset();
  expect_filled(path, kPuts);
  expect_filled("near://node/a?role=dnodes," + log + ",near://node/b?role=both", kPuts);
  Options options;
  expect_refused("near://node/a?role=log," + log + ",near://node/b", options, Status::Code::kInvalidArgument,
                 "near://node/a was created with role=dnodes");
  expect_refused("near://node/a?role=data," + log, options, Status::Code::kInvalidArgument, "?role=log, ?role=dnodes");
  CheckReport report;
  ASSERT_EQ("OK", Check(path, &report).ToString());
  EXPECT_TRUE(report.ok() && report.clean);
  EXPECT_EQ(report.large_values, 1U);
  options = creating();
  expect_refused("near://node/c?role=log,near://node/d?role=log", options, Status::Code::kInvalidArgument,
                 "role=dnodes");
  expect_refused("near://node/c?role=dnodes", options, Status::Code::kInvalidArgument, "role=log");
  options.medium = MediumChoice::kDram;
  options.durability = Durability::kVolatile;
  expect_refused("word?role=log", options, Status::Code::kInvalidArgument, "no log");
  open(path);
  ASSERT_EQ("OK", Checkpoint(db_.get(), creating(), log + ".copy?role=log,near://node/copy?role=dnodes").ToString());
  db_.reset();
  expect_filled(log + ".copy,near://node/copy", kPuts);
  EXPECT_LT(fs::file_size(log + ".copy"), kPoolBytes / 4);
}

// A copy of a target from before the last opening, here or on the node.
TEST_F(RemoteStore, ATargetFromAnOlderStateIsRefused) {
  const std::string local = scratch_.file("local"), path = local + "?role=log,near://node/a?role=dnodes";
  fill(path, 100);
  for (const std::string& file : {local, near_.folder + "a"}) {
    fs::copy_file(file, file + ".older");
    fill(path, 200);
    fs::copy_file(file, file + ".newer");
    fs::copy_file(file + ".older", file, fs::copy_options::overwrite_existing);
    const std::string name = file == local ? local : "near://node/a";
    expect_refused(path, {}, Status::Code::kInvalidArgument, name + " is of an older state of the pool");
    CheckReport report;
    EXPECT_TRUE(Check(path, &report).IsInvalidArgument());
    fs::copy_file(file + ".newer", file, fs::copy_options::overwrite_existing);
    expect_filled(path, 200);
  }
  fs::copy_file(near_.folder + "a", near_.folder + "twice");
  expect_refused("near://node/a,near://node/twice", {}, Status::Code::kInvalidArgument, "one target, named twice");
}

TEST_F(RemoteStore, GrowthLeavesALogAsItIs) {
  const std::string local = scratch_.file("local");
  fill(local + "?role=log,near://node/a?role=dnodes", 100);
  const uint64_t log_bytes = fs::file_size(local);
  Options options;
  options.grow_bytes = 2 * kPoolBytes;
  open(local + "?role=log,near://node/a", options);
  db_.reset();
  EXPECT_EQ(fs::file_size(local), log_bytes);
  EXPECT_EQ(fs::file_size(near_.folder + "a"), 2 * kPoolBytes);
  expect_filled(local + ",near://node/a", 100);
  // Without its role the log's target would be enlarged for nothing, here and on the node.
  options.grow_bytes = 3 * kPoolBytes;
  expect_refused(local + ",near://node/a", options, Status::Code::kInvalidArgument, local + "?role=log");
  EXPECT_EQ(fs::file_size(local), log_bytes);
  fill("near://node/log?role=log,near://node/b?role=dnodes", 100);
  expect_refused("near://node/log,near://node/b", options, Status::Code::kInvalidArgument, "near://node/log?role=log");
  expect_filled("near://node/log,near://node/b", 100);
}

TEST_F(RemoteStore, AQueryThatIsNoneMakesNoFile) {
  const std::string local = scratch_.file("local");
  for (const std::string query : {"?rol=log", "?Role=log", "?role", "?role=log?role=log", "?bytes=4G"}) {
    for (const std::string& name : {local, std::string("near://node/a")}) {
      expect_refused(name + query, creating(), Status::Code::kInvalidArgument, "?role=log");
      CheckReport report;
      EXPECT_TRUE(Check(name + query, &report).IsInvalidArgument());
    }
  }
  EXPECT_TRUE(fs::is_empty(fs::path(local).parent_path()));
}

TEST_F(RemoteStore, WhatIsMissingExistsOrIsForeignIsSaid) {
  using Code = Status::Code;
  Options opening;
  expect_refused("near://node/a", opening, Code::kIoError, "near://node/a does not exist");
  fill("near://node/a,near://node/b", 10);
  fill("near://node/other", 10);
  std::ofstream(near_.folder + "foreign") << std::string(1 << 16, 'x');
  expect_refused("near://node/a,near://node/none", creating(), Code::kIoError, "near://node/none");
  expect_refused(scratch_.file("none") + ",near://node/a", creating(), Code::kIoError, "some targets");
  EXPECT_FALSE(fs::exists(scratch_.file("none")));
  expect_refused("near://node/a", opening, Code::kInvalidArgument, "2 targets");
  expect_refused("near://node/b,near://node/a", opening, Code::kInvalidArgument, "order");
  expect_refused("near://node/a,near://node/other", opening, Code::kInvalidArgument, "near://node/other");
  expect_refused("near://node/other,near://node/b", creating(), Code::kInvalidArgument, "near://node/");
  expect_refused("near://node/a,near://node/a", opening, Code::kInvalidArgument, "named twice");
  expect_refused("near://node/foreign", creating(), Code::kNotSupported, "near://node/foreign");
  expect_refused("near://node/../a", opening, Code::kInvalidArgument, "://NODE/POOL");
  expect_refused("none://node/a", opening, Code::kNotSupported, "none://");
  Options fresh = creating();
  fresh.error_if_exists = true;
  expect_refused("near://node/a,near://node/b", fresh, Code::kInvalidArgument, "error_if_exists");
  std::string many = "near://node/t0";
  for (int i = 1; i < 65; ++i) many += ",near://node/t" + std::to_string(i);
  expect_refused(many, creating(), Code::kInvalidArgument, "at most 64 targets");
  Options quick = creating();
  quick.fabric_wait_ms_max = 200;
  expect_refused("near://nobody/a", quick, Code::kUnavailable, "start bonsaid");
  for (const uint32_t workers : {0u, 65u}) {
    quick.fabric_workers = workers;
    expect_refused("near://node/a", quick, Code::kInvalidArgument, "fabric_workers");
  }
  Options dram = creating();
  dram.medium = MediumChoice::kDram;
  dram.durability = Durability::kVolatile;
  expect_refused("near://node/c", dram, Code::kInvalidArgument, "DRAM");
  std::unique_ptr<DB> none;
  EXPECT_TRUE(
      OpenForTest(opening, {.medium = TestMedium::kShadow}, "near://node/a,near://node/b", &none).IsInvalidArgument());
  expect_filled("near://node/a,near://node/b", 10);
  expect_filled("near://node/other", 10);
  CheckReport report;
  EXPECT_TRUE(Check("near://node/none", &report).IsIoError());
}

TEST_F(RemoteStore, APoolHasOneOwner) {
  fill("near://node/a", 10);
  open("near://node/a");
  std::unique_ptr<DB> second;
  const Status busy = DB::Open({}, "near://node/a", &second);
  EXPECT_TRUE(busy.IsBusy()) << busy.ToString();
  EXPECT_NE(busy.message().find("has an owner"), std::string::npos);
  EXPECT_TRUE(DB::Open({}, near_.folder + "a", &second).IsBusy()) << "nor by its file, on the node itself";
  ASSERT_TRUE(db_->Put("key", "still usable").ok());
}

// A creation that fails at its last target takes back the others; one that was killed is no obstacle.
TEST_F(RemoteStore, CreationIsWholeOrNothing) {
  Options options = creating();
  options.log_bytes = uint64_t{1} << 40;
  expect_refused("near://node/a," + scratch_.file("local"), options, Status::Code::kInvalidArgument, "log");
  EXPECT_FALSE(fs::exists(scratch_.file("local")));
  expect_refused("near://node/a," + scratch_.file("no/such/folder/b"), creating(), Status::Code::kIoError, "folder");
  const auto leave = [&](uint64_t first_word, size_t written) {
    std::string content(kPoolBytes, '\0');
    content.replace(0, sizeof first_word, reinterpret_cast<const char*>(&first_word), sizeof first_word);
    content[written] = 1;
    std::ofstream(near_.folder + "a", std::ios::binary) << content;
  };
  leave(persist::kCreatingMagic + 1, 8);
  expect_refused("near://node/a", creating(), Status::Code::kNotSupported, "near://node/a");
  leave(persist::kCreatingMagic, persist::kPageBytes);
  expect_refused("near://node/a", creating(), Status::Code::kNotSupported, "remove it");
  for (const size_t written : {8U, 255U}) {  // by a creation that was killed: some of its first superblock
    leave(persist::kCreatingMagic, written);
    fill("near://node/a", 10);
    expect_filled("near://node/a", 10);
  }
}

TEST_F(RemoteStore, GrowsAndGivesBackWhatIsRefused) {
  const std::string path = "near://node/a," + scratch_.file("local");
  constexpr uint64_t kSmall = uint64_t{1} << 20;
  Options options = creating();
  options.pool_bytes = kSmall;
  fill(path, 100, options);
  options.grow_bytes = 2 * kSmall;
  open(path, options);
  EXPECT_EQ(db_->GetStats().pool_bytes, 4 * kSmall);
  db_.reset();
  EXPECT_EQ(fs::file_size(near_.folder + "a"), 2 * kSmall);
  options.grow_bytes = 40 * kSmall;
  std::unique_ptr<DB> none;
  const Status refused = DB::Open(options, path, &none);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  EXPECT_EQ(fs::file_size(near_.folder + "a"), 2 * kSmall);
  EXPECT_EQ(fs::file_size(scratch_.file("local")), 2 * kSmall);
  expect_filled(path, 100);
}

TEST_F(RemoteStore, CheckpointsAndSalvagesGoBothWays) {
  fill("near://node/a", 200);
  open("near://node/a");
  Options copying;
  copying.pool_bytes = kPoolBytes;
  const std::string copy = "near://node/copy.0," + scratch_.file("copy.1");
  std::ofstream(near_.folder + "copy.0.partial") << "of somebody";
  ASSERT_EQ("OK", Checkpoint(db_.get(), copying, copy).ToString());
  EXPECT_TRUE(Checkpoint(db_.get(), copying, copy).IsInvalidArgument()) << "it exists";
  const Status open_there = Checkpoint(db_.get(), copying, "near://node/a");
  EXPECT_TRUE(open_there.IsInvalidArgument()) << open_there.ToString();
  db_.reset();
  expect_filled(copy, 200);
  SalvageReport report;
  ASSERT_EQ("OK", Salvage(copy, copying, "near://node/saved", &report).ToString());
  EXPECT_EQ(report.records, 200u);
  expect_filled("near://node/saved", 200);
  EXPECT_EQ(near_.files().size(), 4u) << "a, both copies, and what was there";
  EXPECT_EQ(near_.files().at("copy.0.partial"), "of somebody");
}

TEST_F(RemoteStore, CopiesToOneNameLeaveEachOtherAlone) {
  const std::string copy = "near://node/copy," + scratch_.file("copy.1");
  Options options = creating();
  options.background_threads = 0;
  {
    store::NewPool first, second;
    ASSERT_EQ("OK", first.create(options, copy).ToString());
    ASSERT_TRUE(first.db().Put("key", "first").ok());
    EXPECT_FALSE(fs::exists(near_.folder + "copy"));
    const Status busy = second.create(options, copy);
    EXPECT_TRUE(busy.IsInvalidArgument()) << busy.ToString();
    // Somebody else takes the name of one target: the other does not get its own.
    std::ofstream(scratch_.file("copy.1")) << "of somebody";
    const Status taken = first.complete();
    EXPECT_TRUE(taken.IsBusy()) << taken.ToString();
  }
  EXPECT_FALSE(fs::exists(near_.folder + "copy"));
  fs::remove(scratch_.file("copy.1"));
  {
    store::NewPool first;
    ASSERT_EQ("OK", first.create(options, copy).ToString());
    std::ofstream(near_.folder + "copy") << "of somebody";
    const Status taken = first.complete();
    EXPECT_TRUE(taken.IsBusy()) << taken.ToString();
  }
  EXPECT_EQ(near_.files().at("copy"), "of somebody");
  EXPECT_FALSE(fs::exists(scratch_.file("copy.1")));
  std::ofstream(near_.folder + "short.partial") << "";
  std::unique_ptr<DB> none;
  EXPECT_FALSE(DB::Open(Options(), "near://node/short.partial", &none).ok());
  EXPECT_TRUE(fs::exists(near_.folder + "short.partial")) << "nothing is removed for its name";
}

TEST_F(RemoteStore, IsRemovedWholeOrLeftAlone) {
  const std::string path = "near://node/a," + scratch_.file("b");
  fill(path, 10);
  std::ofstream(near_.folder + "foreign") << std::string(1 << 16, 'x');
  EXPECT_TRUE(Remove("near://node/foreign").IsNotSupported());
  EXPECT_TRUE(Remove("near://node/a").IsInvalidArgument()) << "one of two targets";
  EXPECT_TRUE(Remove("near://node/none").IsIoError());
  open(path);
  EXPECT_TRUE(Remove(path).IsBusy());
  db_.reset();
  EXPECT_EQ(near_.files().size(), 2u);
  ASSERT_EQ("OK", Remove(path).ToString());
  EXPECT_EQ(near_.files().size(), 1u);
  EXPECT_FALSE(fs::exists(scratch_.file("b")));
}

TEST_F(RemoteStore, DescribesWhereAPoolIs) {
  std::string text;
  ASSERT_EQ("OK", DescribeMedium("near://node/a", &text).ToString());
  EXPECT_NE(text.find("over near"), std::string::npos) << text;
  fill("near://node/a", 1);
  ASSERT_EQ("OK", DescribeMedium("near://node/a", &text).ToString());
  EXPECT_NE(text.find("over shm"), std::string::npos) << text;
  ASSERT_EQ("OK", DescribeMedium("near://node/a?role=dnodes", &text).ToString());
  EXPECT_TRUE(text.ends_with(", for dnodes")) << text;
  ASSERT_EQ("OK", DescribeMedium(scratch_.file("b") + "?role=log", &text).ToString());
  EXPECT_TRUE(text.ends_with(", for log")) << text;
}

// The state after a power cut is fetched in few, large READs (tables, headers, records of the log) and the word of each
// log segment. The times, over a modelled network, are only reported; counts are asserted.
TEST_F(RemoteStore, RecoveryFetchesInLargePieces) {
  const auto records = budget<uint64_t>(100'000, 200'000, 1'000'000);
  Options options = creating();
  options.pool_bytes = std::max<uint64_t>(32 << 20, records * 128);
  options.background_threads = 0;  // nothing changes while files are copied
  const Island modelled("modelled", nullptr, {.folder = "", .latency_ns = 5'000, .bytes_per_second = 12'500'000'000});
  const std::string local = scratch_.file("local");
  open(local, options);
  for (uint64_t i = 0; i < records; ++i) {
    if (i == records / 10 * 9) {
      ASSERT_TRUE(db_->Drain().ok());
    }
    ASSERT_TRUE(db_->Put(std::to_string(i * 7919), "12345678").ok());
  }
  fs::copy_file(local, modelled.folder + "cut");
  fs::copy_file(local, local + ".cut");
  options.create_if_missing = false;
  double ms[2] = {};
  for (const bool remote : {false, true}) {
    db_.reset();
    const uint64_t before_ns = base::now_ns();
    open(remote ? "modelled://node/cut" : local + ".cut", options);
    ms[remote ? 1 : 0] = static_cast<double>(base::now_ns() - before_ns) / base::kNsPerMs;
  }
  const rdma::Traffic traffic = static_cast<DbImpl&>(*db_).tiers().targets->traffic();
  std::printf("  recovery of %llu records: %.1f ms on local NVM (emulated), %.1f ms over a modelled network: %s\n",
              records * 1ULL, ms[0], ms[1], traffic.text().c_str());
  const rdma::Traffic::Flow& reads = traffic.of(rdma::Verb::kRead);
  const uint64_t words = static_cast<DbImpl&>(*db_).tiers().log->segments();
  EXPECT_LE(reads.messages, words + reads.bytes / 8'192 + 16);
  EXPECT_LE(traffic.round_trips, words / 16 + reads.bytes / 8'192 + 64);
  std::string value;
  for (uint64_t i = 0; i < records; i += 997) ASSERT_TRUE(db_->Get(std::to_string(i * 7919), &value).ok()) << i;
  db_.reset();  // before its node
}

}  // namespace
}  // namespace bonsai::store
