// SPDX-License-Identifier: Apache-2.0
// The patches do what the experiments measure, and nothing unless they are asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/testing/temp_folder.h"
#include "bench/studies/patched/patches.h"
#include "bench/studies/patched/unit_fabric.h"
#include "rdma/shm/shm.h"
#include "scale/read_batch.h"
#include "scale/remote_link.h"
#include "scale/remote_medium.h"
#include "scale/testing/serving_node.h"
#include "scale/volume.h"
#include "store/db_impl.h"
#include "store/testing/slow_medium.h"

namespace bonsai::bench::patched {
namespace {

using scale::Addr;

inline constexpr base::Site kFlushSite{"patched_test.flush"};
inline constexpr base::Site kFenceSite{"patched_test.fence"};
constexpr uint64_t kPoolBytes = 64 << 10;

class ShmInUnits final : public UnitFabric {
 public:
  ShmInUnits(std::unique_ptr<rdma::Fabric> fabric, uint64_t unit_bytes)
      : fabric_(std::move(fabric)), unit_bytes_(unit_bytes) {}

  [[nodiscard]] uint64_t read_unit_bytes() const override { return unit_bytes_; }
  [[nodiscard]] const rdma::Capabilities& capabilities() const override { return fabric_->capabilities(); }
  Status register_region(std::span<std::byte> memory, rdma::Rights rights,
                         std::unique_ptr<rdma::Region>* region) override {
    return fabric_->register_region(memory, rights, region);
  }
  Status make_worker(std::unique_ptr<rdma::Worker>* worker) override { return fabric_->make_worker(worker); }

 private:
  const std::unique_ptr<rdma::Fabric> fabric_;
  const uint64_t unit_bytes_;
};

class ReadUnits : public ::testing::Test {
 protected:
  // Writes a pool of numbered words, then reads the words 16 to 144 and word 1024 in one batch. Returns its traffic.
  void read(std::unique_ptr<rdma::Fabric> fabric, const std::string& pool, rdma::Traffic* traffic) {
    std::unique_ptr<scale::RemoteLink> link;
    ASSERT_TRUE(scale::RemoteLink::make(std::move(fabric), {}, &link).ok());
    size_t target = 0;
    ASSERT_TRUE(link->open(scale::named(pool), scale::PoolOp::kCreate, kPoolBytes, 0, &target).ok());
    std::unique_ptr<scale::RemoteMedium> medium;
    ASSERT_TRUE(scale::RemoteMedium::make(link.get(), target, &medium).ok());
    scale::VolumeOf<base::HookedMedium> volume({medium.get()});
    std::vector<uint64_t> content(kPoolBytes / 8);
    for (size_t i = 0; i < content.size(); ++i) content[i] = i;
    volume.nt_copy(Addr(0, 0), content.data(), kPoolBytes, kFlushSite);
    ASSERT_TRUE(volume.fence(kFenceSite));
    const rdma::Traffic before = link->traffic();
    scale::ReadBatch reads(volume);
    const std::byte* part = reads.issue(Addr(0, 128), 1'032);  // of five units of 256 bytes, or of two of 1,000
    const std::byte* word = reads.issue(Addr(0, 8'192), 8);
    ASSERT_TRUE(reads.wait().ok());
    EXPECT_EQ(std::memcmp(part, content.data() + 16, 1'032), 0);
    EXPECT_EQ(base::word_at(word).load(), 1'024U);
    *traffic = link->traffic() - before;
  }

  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network_;
  scale::ServingNode node_{&network_, scratch_.path()};
};

TEST_F(ReadUnits, EachReadIsOfOneUnitAndTheBytesAreWhole) {
  for (const auto& [unit_bytes, messages] : {std::pair<uint64_t, uint64_t>{0, 2}, {256, 6}, {4096, 2}, {1000, 3}}) {
    rdma::Traffic traffic;
    read(std::make_unique<ShmInUnits>(network_.make_fabric(), unit_bytes), "p" + std::to_string(unit_bytes), &traffic);
    EXPECT_EQ(traffic.of(rdma::Verb::kRead).messages, messages) << unit_bytes;
    EXPECT_EQ(traffic.round_trips, 1U) << unit_bytes << ": one list, however many units";
    EXPECT_EQ(traffic.bytes(), 1'040U) << unit_bytes;
  }
}

TEST_F(ReadUnits, AFabricWithoutUnitsIsReadAsInTheProduct) {
  rdma::Traffic traffic;
  read(network_.make_fabric(), "p", &traffic);
  EXPECT_EQ(traffic.of(rdma::Verb::kRead).messages, 2U);
}

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
