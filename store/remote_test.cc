// The whole store over remote targets (shm, nodes of one process): what was acknowledged is on the serving node, and a
// node that falls silent is an answer, not a hang.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"
#include "rdma/shm/shm.h"
#include "scale/remote_link.h"
#include "scale/remote_target.h"
#include "scale/testing/serving_node.h"
#include "store/db_impl.h"
#include "store/tiers.h"
#include "testing/scratch.h"

namespace bonsai::store {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{8} << 20;

class RemoteStore : public ::testing::Test {
 protected:
  ~RemoteStore() override { close(); }

  void open(bool create, size_t targets, uint64_t limit_ms = 10'000) {
    ASSERT_EQ("OK", scale::RemoteLink::make(network_.make_fabric(), {.limit_ms = limit_ms}, &link_).ToString());
    std::vector<std::unique_ptr<base::HookedMedium>> media;
    for (size_t i = 0; i < targets; ++i) {
      scale::TargetName name;
      ASSERT_TRUE(scale::parse_target_name("shm://node/pool." + std::to_string(i), &name).ok());
      size_t target = 0;
      ASSERT_EQ(
          "OK",
          link_->open(name, create ? scale::PoolOp::kCreate : scale::PoolOp::kOpen, create ? kPoolBytes : 0, 0, &target)
              .ToString());
      std::unique_ptr<scale::RemoteTarget> medium;
      ASSERT_EQ("OK", scale::RemoteTarget::make(link_.get(), target, create, &medium).ToString());
      media.push_back(std::move(medium));
    }
    Options options;
    options.create_if_missing = create;
    options.pool_bytes = kPoolBytes;
    options.stall_ms_max = 1'000;
    std::unique_ptr<Tiers> tiers;
    const Status status = open_tiers_on(options, std::move(media), create, &tiers);
    ASSERT_TRUE(status.ok()) << status.ToString();
    db_ = std::make_unique<DbImpl>(options, std::move(tiers));
  }
  void close() {
    db_.reset();
    link_.reset();
  }

  testing::ScratchFolder scratch_;
  rdma::ShmNetwork network_;
  scale::ServingNode node_{&network_, std::filesystem::path(scratch_.file("pool.0")).parent_path()};
  std::unique_ptr<scale::RemoteLink> link_;
  std::unique_ptr<DB> db_;
};

std::string key_of(uint64_t i) { return "key " + std::to_string(i * 7919 % 100'003); }

TEST_F(RemoteStore, WhatWasAcknowledgedIsThereAfterReopening) {
  constexpr uint64_t kThreads = 3, kPuts = 3'000;
  open(true, 2);
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
    close();
    open(false, 2);
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
  close();
  CheckReport report;
  ASSERT_EQ("OK", Check(scratch_.pool(2), &report).ToString());
  EXPECT_TRUE(report.ok()) << "the node's own files are a sound pool";
}

TEST_F(RemoteStore, ASilentNodeIsUnavailableAndNothingAcknowledgedIsLost) {
  open(true, 1, 300);
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(db_->Put(key_of(i), "value").ok());
  node_.pause(true);
  const uint64_t begin_ns = base::now_ns();
  const Status status = db_->Put("late", "value");
  EXPECT_TRUE(status.IsUnavailable()) << status.ToString();
  EXPECT_NE(status.message().find("shm://node/pool.0"), std::string::npos) << status.ToString();
  EXPECT_LT(base::now_ns() - begin_ns, 10'000'000'000U);
  std::string value;
  EXPECT_TRUE(db_->Get(key_of(3), &value).ok()) << "reads go on";
  close();
  node_.pause(false);
  base::sleep_ms(100);  // until the server has found the owner gone
  open(false, 1);
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(db_->Get(key_of(i), &value).ok());
}

}  // namespace
}  // namespace bonsai::store
