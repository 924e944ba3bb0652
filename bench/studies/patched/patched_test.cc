// SPDX-License-Identifier: Apache-2.0
// The patches do what the experiments measure, and nothing unless they are asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/testing/temp_folder.h"
#include "bench/studies/patched/patches.h"
#include "store/db_impl.h"
#include "store/testing/slow_medium.h"

namespace bonsai::bench::patched {
namespace {

// Gets of a store whose reads of NVM wait.
class SlowGets : public ::testing::Test {
 protected:
  static constexpr uint64_t kRecords = 2'000;

  ~SlowGets() override { current = {}; }

  void open(const Patches& patches, bool metadata) {
    current = patches;
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = store::SlowMedium::kBytes;
    options.metadata_upload = metadata;
    std::vector<std::unique_ptr<base::HookedMedium>> media;
    media.push_back(std::make_unique<store::SlowMedium>());
    medium_ = static_cast<store::SlowMedium*>(media.back().get());
    std::unique_ptr<store::Tiers> tiers;
    ASSERT_TRUE(store::open_tiers_on(options, std::move(media), true, &tiers).ok());
    db_ = std::make_unique<store::DbImpl>(options, std::move(tiers), store::BackgroundThreads());
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db_->Put(key_of(i), "value of " + key_of(i)).ok());
    ASSERT_TRUE(db_->Drain().ok());
    medium_->calls = medium_->blocks_read = 0;
  }
  static std::string key_of(uint64_t i) { return "key" + std::to_string(1'000'000 + i * 7919 % 1'000'000); }

  // Gets 16 records in one session. Returns the share of the time that their waits would take in turn.
  double session_gets() {
    constexpr size_t kDepth = 16;
    std::vector<std::string> keys, values(kDepth);
    std::vector<Status> statuses(kDepth);
    for (uint64_t i = 0; i < kDepth; ++i) keys.push_back(key_of(i));
    const std::unique_ptr<Session> session = db_->NewSession(kDepth + 1);
    medium_->latency_ns = 500'000;
    const uint64_t begin_ns = base::now_ns();
    for (size_t i = 0; i < kDepth; ++i) session->Get(keys[i], &values[i], &statuses[i]);
    session->Wait();
    const uint64_t took_ns = base::now_ns() - begin_ns;
    for (size_t i = 0; i < kDepth; ++i) EXPECT_EQ(values[i], "value of " + keys[i]);
    return static_cast<double>(took_ns) / static_cast<double>(medium_->calls.exchange(0) * medium_->latency_ns);
  }

  std::unique_ptr<DB> db_;
  store::SlowMedium* medium_ = nullptr;
};

TEST_F(SlowGets, ProbesComeOneByOneOrWithTheNextOnes) {
  uint64_t calls[2], blocks[2];
  for (const bool ahead : {false, true}) {
    open({.gets_fetch_ahead = ahead}, /*metadata=*/false);
    std::string value;
    for (uint64_t i = 0; i < kRecords; ++i) {
      ASSERT_TRUE(db_->Get(key_of(i), &value).ok());
      ASSERT_EQ(value, "value of " + key_of(i));
    }
    calls[ahead] = medium_->calls;
    blocks[ahead] = medium_->blocks_read;
  }
  EXPECT_LT(calls[true], calls[false] * 3 / 4) << "half as many waits, but for the last probes";
  EXPECT_GT(blocks[true], blocks[false]) << "for more reads";
}

// Without metadata a search waits at each of its steps: in a group the waits of all add up.
TEST_F(SlowGets, AGroupWaitsForEachStepOfEachSearch) {
  open({.gets_in_coroutines = false}, /*metadata=*/false);
  for (int round = 0; round < 3; ++round) EXPECT_GE(session_gets(), .9);
}

// The least of some rounds counts: a busy machine prolongs the others.
TEST_F(SlowGets, CoroutinesWaitTogetherWhateverTheProductDoes) {
  for (const bool metadata : {false, true}) {
    open({.gets_in_coroutines = true}, metadata);
    double least = 1;
    for (int round = 0; round < 60 && least > .5; ++round) least = std::min(least, session_gets());
    EXPECT_LE(least, .5) << metadata;
  }
}

class UpdatesInPlace : public ::testing::Test {
 protected:
  UpdatesInPlace() {
    options_.create_if_missing = options_.error_if_exists = true;
    options_.pool_bytes = uint64_t{16} << 20;
    options_.background_threads = 0;
  }
  ~UpdatesInPlace() override { current = {}; }

  testing::TempFolder folder_ = testing::TempFolder::on_tmpfs();
  const std::string path_ = folder_.file("pool");
  Options options_;
  std::unique_ptr<DB> db_;
};

TEST_F(UpdatesInPlace, ReachTheirDnodesAtOnceAndLeaveTheLogAlone) {
  const TestOptions test{.medium = TestMedium::kEmulator, .emulator_preset = "dram"};
  Status status = open({.updates_in_place = true}, options_, test, path_, &db_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  constexpr int kKeys = 300;
  const auto key = [](int i) { return "key" + std::to_string(1000 + i); };
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(db_->Put(key(i), "old value").ok());
  ASSERT_TRUE(db_->Drain().ok());
  const Stats before = db_->GetStats();
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(db_->Put(key(i), "new value").ok());
  const Stats after = db_->GetStats();
  EXPECT_EQ(after.updates_offloaded - before.updates_offloaded, static_cast<uint64_t>(kKeys));
  EXPECT_EQ(after.nvm_fences - before.nvm_fences, static_cast<uint64_t>(kKeys));
  EXPECT_EQ(after.log_bytes_used, before.log_bytes_used);
  EXPECT_EQ(after.data_bytes_used, before.data_bytes_used);
  ASSERT_TRUE(db_->Put(key(0), "longer than before").ok());
  ASSERT_TRUE(db_->Put("another", "1").ok());
  ASSERT_TRUE(db_->Delete(key(1)).ok());
  ASSERT_TRUE(db_->Close().ok());
  status = DB::Open(Options(), path_, &db_);
  ASSERT_TRUE(status.ok()) << status.ToString();
  std::string value;
  for (int i = 2; i < kKeys; ++i) {
    ASSERT_TRUE(db_->Get(key(i), &value).ok()) << i;
    ASSERT_EQ(value, "new value");
  }
  EXPECT_TRUE(db_->Get(key(0), &value).ok());
  EXPECT_EQ(value, "longer than before");
  EXPECT_TRUE(db_->Get(key(1), &value).IsNotFound());
  EXPECT_TRUE(db_->Get("another", &value).ok());
}

TEST_F(UpdatesInPlace, AreRefusedForAPoolThatIsKept) {
  const auto refused = [&](const Options& options, const TestOptions& test) {
    const Status status = open({.updates_in_place = true}, options, test, path_, &db_);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_NE(status.message().find("error_if_exists"), std::string::npos) << status.ToString();
    EXPECT_EQ(db_, nullptr);
  };
  const TestOptions emulator{.medium = TestMedium::kEmulator};
  refused(options_, {});
  Options options = options_;
  options.error_if_exists = false;
  refused(options, emulator);
  options = options_;
  options.background_threads = 1;
  refused(options, emulator);
}

}  // namespace
}  // namespace bonsai::bench::patched
