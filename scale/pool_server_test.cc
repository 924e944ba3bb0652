// SPDX-License-Identifier: Apache-2.0
// The serving side by itself: requests that take long, beside those that must not wait for them.
#include "scale/pool_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "rdma/shm/shm.h"
#include "scale/remote_link.h"
#include "scale/remote_target.h"
#include "scale/testing/serving_node.h"

namespace bonsai::scale {
namespace {

inline constexpr base::Site kSite{"pool_server_test.write"};
constexpr uint64_t kBytes = 64 << 10;
constexpr uint64_t kWaitMs = 20'000;

// A node that takes as long as it is made to for the pool "slow".
class PoolServerTest : public ::testing::Test {
 protected:
  ~PoolServerTest() override { go_on_.store(true); }

  std::unique_ptr<RemoteLink> make_link(uint64_t limit_ms) {
    std::unique_ptr<RemoteLink> link;
    EXPECT_EQ("OK", RemoteLink::make(network_.make_fabric(), {.limit_ms = limit_ms}, &link).ToString());
    return link;
  }
  static Status ask(RemoteLink* link, const std::string& pool, PoolOp op, size_t* target) {
    return link->open(named(pool), op, kBytes, 0, target);
  }
  void await(const std::atomic<bool>& flag) {
    for (base::BoundedWait wait("a slow request", kWaitMs); !flag.load() && !wait.expired(); wait.pause()) {
    }
    ASSERT_TRUE(flag.load());
  }

  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network_;
  std::atomic<bool> begun_{false}, go_on_{false};
  ServingNode node_{&network_, scratch_.path(), nullptr, [this](const base::Mapping& mapping, base::Media* media) {
                      if (std::filesystem::path(mapping.path()).filename() == "slow") {
                        begun_.store(true);
                        await(go_on_);
                      }
                      return base::make_media(mapping, {}, media);
                    }};
};

TEST_F(PoolServerTest, ALongRequestDelaysNobodyElse) {
  const auto owner = make_link(2'000), patient = make_link(kWaitMs), other = make_link(2'000);
  size_t target = 0, made = 0, slow = 0;
  ASSERT_EQ("OK", ask(owner.get(), "p", PoolOp::kCreate, &target).ToString());
  std::unique_ptr<RemoteTarget> medium;
  ASSERT_EQ("OK", RemoteTarget::make(owner.get(), target, &medium).ToString());
  ASSERT_TRUE(make_resident(*medium, kBytes).ok());
  for (const PoolOp op : {PoolOp::kCreate, PoolOp::kResize}) {
    begun_.store(false);
    go_on_.store(false);
    Status status;
    base::Thread waiting("patient", [&] {
      status = op == PoolOp::kCreate ? ask(patient.get(), "slow", op, &slow) : patient->resize(slow, 2 * kBytes);
    });
    await(begun_);
    for (uint64_t i = 0; i < 100; ++i) {
      medium->store8(medium->view() + 8 * i, i);
      medium->flush(medium->view() + 8 * i, 8, kSite);
      ASSERT_TRUE(medium->fence(kSite)) << medium->health().ToString();
    }
    EXPECT_EQ("OK", ask(other.get(), "q", PoolOp::kCreate, &made).ToString());
    EXPECT_TRUE(ask(other.get(), "slow", PoolOp::kOpen, &target).IsBusy()) << "one request at a time about a pool";
    EXPECT_TRUE(ask(other.get(), "slow.partial", PoolOp::kCreate, &target).IsBusy()) << "nor one that may become it";
    EXPECT_EQ("OK", other->remove(made).ToString());
    go_on_.store(true);
    waiting.join();
    EXPECT_EQ("OK", status.ToString());
  }
  EXPECT_EQ(patient->pool(slow).region.bytes, 2 * kBytes);
  EXPECT_TRUE(ask(other.get(), "slow", PoolOp::kOpen, &target).IsBusy()) << "it has its owner";
}

TEST_F(PoolServerTest, SizesThatNoPoolHasAreRefusedAndThePoolStays) {
  constexpr uint64_t kHalf = uint64_t{1} << 63;
  const auto link = make_link(kWaitMs);
  size_t target = 0, none = 0;
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kHalf / 2, kHalf, UINT64_MAX - 4094, UINT64_MAX}) {
    const Status status = link->open(named("new"), PoolOp::kCreate, bytes, 0, &none);
    EXPECT_TRUE(status.IsInvalidArgument()) << bytes << ": " << status.ToString();
    EXPECT_FALSE(std::filesystem::exists(scratch_.file("new"))) << bytes;
  }
  ASSERT_EQ("OK", ask(link.get(), "p", PoolOp::kCreate, &target).ToString());
  const std::string whole = testing::read_file(scratch_.file("p"));
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, kBytes - 1, kHalf / 2, kHalf - 1, kHalf, UINT64_MAX - 4094, UINT64_MAX}) {
    const Status status = link->resize(target, bytes);
    EXPECT_TRUE(status.IsInvalidArgument()) << bytes << ": " << status.ToString();
    EXPECT_TRUE(testing::read_file(scratch_.file("p")) == whole) << bytes;
  }
  EXPECT_FALSE(link->resize(target, kHalf / 2 - 1).ok()) << "there is no such room";
  EXPECT_TRUE(testing::read_file(scratch_.file("p")) == whole);
  const auto next = make_link(kWaitMs);
  ASSERT_EQ("OK", next->open(named("p"), PoolOp::kOpen, 0, 0, &target).ToString()) << "the first owner has lost it";
  ASSERT_EQ("OK", next->resize(target, 2 * kBytes).ToString());
  ASSERT_EQ("OK", next->resize(target, kBytes).ToString());
  EXPECT_TRUE(testing::read_file(scratch_.file("p")) == whole);
}

TEST_F(PoolServerTest, WhoIsAtWorkIsWaitedForBeyondTheBound) {
  constexpr uint64_t kLimitMs = 1'000;
  const auto link = make_link(kLimitMs);
  base::Thread worker("slow node", [&] {
    await(begun_);
    base::sleep_ms(5 * kLimitMs / 2);
    go_on_.store(true);
  });
  size_t target = 0;
  EXPECT_EQ("OK", ask(link.get(), "slow", PoolOp::kCreate, &target).ToString());
  EXPECT_TRUE(go_on_.load());
  worker.join();
}

TEST_F(PoolServerTest, WhoLeftDuringItsRequestOwnsNothing) {
  auto impatient = make_link(50);
  const auto next = make_link(kWaitMs);
  size_t target = 0;
  EXPECT_TRUE(ask(impatient.get(), "slow", PoolOp::kCreate, &target).IsUnavailable());
  await(begun_);
  impatient.reset();
  go_on_.store(true);
  Status status;
  for (base::BoundedWait wait("the pool is free", kWaitMs); !wait.expired(); wait.pause()) {
    status = ask(next.get(), "slow", PoolOp::kOpen, &target);
    if (!status.IsBusy()) break;
  }
  EXPECT_EQ("OK", status.ToString());
}

}  // namespace
}  // namespace bonsai::scale
