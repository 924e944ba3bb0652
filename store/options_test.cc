// SPDX-License-Identifier: Apache-2.0
// Every option out of its bounds is InvalidArgument, names itself, and changes nothing; by every function that takes
// it.
#include "store/options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "bonsai/c.h"

namespace bonsai {
namespace {

using testing::TempFolder;

struct Bad {
  const char* name;
  std::function<void(Options*)> set;
};

template <class Enum>
Enum cast(int value) {
  return static_cast<Enum>(value);
}

const std::vector<Bad>& bad_options() {
  static const std::vector<Bad> all = {
      {"key_format", [](Options* o) { o->key_format = cast<KeyFormat>(2); }},
      {"key_format", [](Options* o) { o->key_format = cast<KeyFormat>(255); }},
      {"medium", [](Options* o) { o->medium = cast<MediumChoice>(2); }},
      {"durability", [](Options* o) { o->durability = cast<Durability>(3); }},
      {"durability", [](Options* o) { o->durability = cast<Durability>(-1); }},
      {"persistence_domain", [](Options* o) { o->persistence_domain = cast<PersistenceDomain>(3); }},
      {"pool_bytes", [](Options* o) { o->pool_bytes = 1; }},
      {"pool_bytes", [](Options* o) { o->pool_bytes = kPoolBytesMin - 1; }},
      {"pool_bytes", [](Options* o) { o->pool_bytes = kPoolBytesMax + 1; }},
      {"pool_bytes", [](Options* o) { o->pool_bytes = UINT64_MAX; }},
      {"grow_bytes", [](Options* o) { o->grow_bytes = kPoolBytesMax + 1; }},
      {"grow_bytes", [](Options* o) { o->grow_bytes = UINT64_MAX - 4000; }},
      {"log_bytes", [](Options* o) { o->log_bytes = kPoolBytesMax + 1; }},
      {"log_bytes", [](Options* o) { o->log_bytes = UINT64_MAX; }},
      {"background_threads", [](Options* o) { o->background_threads = static_cast<uint32_t>(-1); }},
      {"background_threads", [](Options* o) { o->background_threads = kThreadsMax + 1; }},
      {"recovery_threads", [](Options* o) { o->recovery_threads = static_cast<uint32_t>(-1); }},
      {"fabric_workers", [](Options* o) { o->fabric_workers = 0; }},
      {"fabric_workers", [](Options* o) { o->fabric_workers = kFabricWorkersMax + 1; }},
      {"buffered_window_ms",
       [](Options* o) {
         o->durability = Durability::kBuffered;
         o->buffered_window_ms = 0;
       }},
  };
  return all;
}

Options small() {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = uint64_t{1} << 20;
  return options;
}

void expect_refused(const Status& status, const char* name) {
  EXPECT_TRUE(status.IsInvalidArgument()) << name << ": " << status.ToString();
  EXPECT_NE(status.message().find(name), std::string::npos) << status.ToString();
}

TEST(StoreOptions, OutOfBoundsAreRefusedByEveryFunctionThatTakesThem) {
  TempFolder folder;
  const std::string pool = folder.file("pool"), other = folder.file("other");
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(small(), pool, &db).ok());
  for (const Bad& bad : bad_options()) {
    Options options = small();
    bad.set(&options);
    std::unique_ptr<DB> none;
    CheckReport report;
    SalvageReport salvaged;
    std::string text;
    expect_refused(DB::Open(options, other, &none), bad.name);
    expect_refused(Checkpoint(db.get(), options, other), bad.name);
    expect_refused(Salvage(pool, options, other, &salvaged), bad.name);
    expect_refused(Check(pool, &report, {}, options), bad.name);
    expect_refused(Remove(pool, options), bad.name);
    expect_refused(DescribeMedium(pool, &text, options), bad.name);
    EXPECT_FALSE(std::filesystem::exists(other));
  }
  EXPECT_TRUE(db->Put("k", "v").ok()) << "nothing has changed";
}

// Copies take it: BackupTest.ACopyIsAsLargeAsItsRecordsNeed.
TEST(StoreOptions, OfAPoolWithoutBytesAreRefused) {
  TempFolder folder;
  Options options = small();
  options.pool_bytes = 0;
  std::unique_ptr<DB> none;
  expect_refused(DB::Open(options, folder.file("other"), &none), "pool_bytes");
  EXPECT_FALSE(std::filesystem::exists(folder.file("other")));
}

TEST(StoreOptions, AtTheirBoundsAreTakenOrRefusedByWhatTheMachineHas) {
  TempFolder folder;
  const std::vector<std::function<void(Options*)>> extremes = {
      [](Options* o) { o->stall_ms_max = UINT32_MAX; },
      [](Options* o) { o->stall_ms_max = 0; },
      [](Options* o) { o->snapshots_max = UINT32_MAX; },
      [](Options* o) { o->fabric_wait_ms_max = UINT32_MAX; },
      [](Options* o) { o->fabric_wait_ms_max = 0; },
      [](Options* o) { o->fabric_workers = kFabricWorkersMax; },
      [](Options* o) { o->recovery_threads = kThreadsMax; },
      [](Options* o) { o->background_threads = 40; },
      [](Options* o) { o->log_bytes = kPoolBytesMax; },
      [](Options* o) { o->log_bytes = 1; },
      [](Options* o) { o->pool_bytes = kPoolBytesMax; },
      [](Options* o) { o->grow_bytes = kPoolBytesMax; },
      [](Options* o) {
        o->durability = Durability::kBuffered;
        o->buffered_window_ms = UINT32_MAX;
      },
  };
  for (size_t i = 0; i < extremes.size(); ++i) {
    Options options = small();
    extremes[i](&options);
    const std::string path = folder.file("pool" + std::to_string(i));
    std::unique_ptr<DB> db;
    const Status status = DB::Open(options, path, &db);
    EXPECT_TRUE(status.ok() || status.IsNoSpace() || status.IsInvalidArgument()) << status.ToString();
    if (!status.ok()) {
      EXPECT_FALSE(std::filesystem::exists(path)) << "it stayed";
      continue;
    }
    EXPECT_TRUE(db->Put("k", "v").ok());
    EXPECT_TRUE(db->Drain().ok() || options.stall_ms_max == 0);
    EXPECT_TRUE(db->Close().ok());
    db.reset();
    EXPECT_FALSE(DB::Open(options, path, &db).IsCorruption());
  }
}

TEST(StoreOptions, OfTestsOutOfBoundsAreRefused) {
  TempFolder folder;
  std::unique_ptr<DB> db;
  TestOptions test;
  test.medium = cast<TestMedium>(4);
  expect_refused(OpenForTest(small(), test, folder.file("pool"), &db), "medium");
  test.medium = TestMedium::kEmulator;
  test.emulator_preset = "no such";
  EXPECT_TRUE(OpenForTest(small(), test, folder.file("pool"), &db).IsInvalidArgument());
  EXPECT_FALSE(std::filesystem::exists(folder.file("pool")));
}

TEST(StoreOptions, ThatCSettersPassOnAreRefusedAlike) {
  TempFolder folder;
  const std::vector<std::function<void(bonsai_options_t*)>> bad = {
      [](bonsai_options_t* o) { bonsai_options_set_background_threads(o, static_cast<uint32_t>(-1)); },
      [](bonsai_options_t* o) { bonsai_options_set_recovery_threads(o, static_cast<uint32_t>(-1)); },
      [](bonsai_options_t* o) { bonsai_options_set_fabric_workers(o, 0); },
      [](bonsai_options_t* o) { bonsai_options_set_fabric_workers(o, UINT32_MAX); },
      [](bonsai_options_t* o) { bonsai_options_set_pool_bytes(o, UINT64_MAX); },
      [](bonsai_options_t* o) { bonsai_options_set_grow_bytes(o, UINT64_MAX); },
      [](bonsai_options_t* o) { bonsai_options_set_log_bytes(o, UINT64_MAX); },
      [](bonsai_options_t* o) { bonsai_options_set_key_format(o, 2); },
      [](bonsai_options_t* o) { bonsai_options_set_key_format(o, -1); },
      [](bonsai_options_t* o) { bonsai_options_set_medium(o, 1 << 20); },
      [](bonsai_options_t* o) { bonsai_options_set_durability(o, 256); },
      [](bonsai_options_t* o) { bonsai_options_set_persistence_domain(o, -2); },
      [](bonsai_options_t* o) {
        bonsai_options_set_durability(o, BONSAI_BUFFERED);
        bonsai_options_set_buffered_window_ms(o, 0);
      },
  };
  for (const auto& set : bad) {
    bonsai_options_t* const options = bonsai_options_create();
    bonsai_options_set_create_if_missing(options, 1);
    set(options);
    bonsai_t* db = nullptr;
    char* message = nullptr;
    EXPECT_EQ(bonsai_open(options, folder.file("pool").c_str(), &db, &message), BONSAI_INVALID_ARGUMENT);
    EXPECT_NE(message, nullptr);
    EXPECT_EQ(db, nullptr);
    bonsai_free(message);
    bonsai_options_destroy(options);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.file("pool")));
}

// Open has its threads before it changes anything.
TEST(StoreOpen, WithoutAFurtherThreadIsRefusedAndChangesNothing) {
  TempFolder folder;
  const std::string pool = folder.file("pool"), other = folder.file("other");
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(small(), pool, &db).ok());
  ASSERT_TRUE(db->Put("k", "v").ok());
  ASSERT_TRUE(db->Close().ok());
  db.reset();
  const std::string before = testing::read_file(pool);
  for (const int64_t granted : {0, 1, 2, 3}) {
    Options options = small();
    options.background_threads = 3;
    options.durability = Durability::kBuffered;
    base::threads_granted_for_test.store(granted);
    const Status existing = DB::Open(options, pool, &db), created = DB::Open(options, other, &db);
    bonsai_t* c_db = nullptr;
    const int code = bonsai_open(nullptr, pool.c_str(), &c_db, nullptr);
    base::threads_granted_for_test.store(-1);
    EXPECT_TRUE(existing.IsNoSpace()) << existing.ToString();
    EXPECT_NE(existing.message().find("ulimit -u"), std::string::npos) << existing.ToString();
    EXPECT_TRUE(created.IsNoSpace()) << created.ToString();
    EXPECT_EQ(code, BONSAI_NO_SPACE);
    EXPECT_FALSE(std::filesystem::exists(other)) << "it stayed";
    EXPECT_EQ(testing::read_file(pool), before);
  }
  ASSERT_TRUE(DB::Open(small(), pool, &db).ok());
  std::string value;
  EXPECT_TRUE(db->Get("k", &value).ok() && value == "v");
}

}  // namespace
}  // namespace bonsai
