// SPDX-License-Identifier: Apache-2.0
#include "rdma/work.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "rdma/fabric.h"

namespace bonsai::rdma {
namespace {

class TestRegion final : public Region {
 public:
  explicit TestRegion(std::span<std::byte> memory) : Region(memory, Rights::all(), {7, 4096, memory.size()}) {}
};

class TestPeer final : public Peer {
 public:
  TestPeer() : Peer(Hello()) {}
  [[nodiscard]] bool usable() const override { return true; }
};

class WorkListTest : public ::testing::Test {
 protected:
  void finish(std::initializer_list<Outcome> outcomes) {
    size_t i = 0;
    for (const Outcome outcome : outcomes) list_.request(i++).outcome = outcome;
  }
  alignas(8) std::byte memory_[64]{};
  TestRegion region_{memory_};
  TestPeer one_, two_;
  WorkList list_;
};

TEST_F(WorkListTest, KeepsWhatItIsAskedFor) {
  const RemoteRegion remote{9, 1000, 64};
  list_.read(one_, remote.at(8), region_.slice(16, 32));
  list_.cas(two_, remote.at(0), 3, 4, region_.slice(0, 8));
  list_.fence();
  list_.send(one_, region_.slice(0, 5));
  ASSERT_EQ(list_.size(), 3u);
  EXPECT_EQ(list_[0].verb, Verb::kRead);
  EXPECT_EQ(list_[0].remote.key, 9u);
  EXPECT_EQ(list_[0].remote.address, 1008u);
  EXPECT_EQ(list_[0].local.data(), memory_ + 16);
  EXPECT_EQ(list_[0].local.bytes(), 32u);
  EXPECT_EQ(list_[1].expected, 3u);
  EXPECT_EQ(list_[1].operand, 4u);
  EXPECT_FALSE(list_[1].fenced);
  EXPECT_TRUE(list_[2].fenced);
  EXPECT_EQ(list_.peers(), 2u);
  list_.clear();
  EXPECT_EQ(list_.size(), 0u);
  EXPECT_EQ(list_.peers(), 0u);
}

TEST_F(WorkListTest, HasRoomForItsBound) {
  for (size_t i = 0; i < WorkList::kRequestsMax; ++i) {
    ASSERT_TRUE(list_.room());
    list_.send(one_, region_.slice(0, 1));
  }
  EXPECT_FALSE(list_.room());
  EXPECT_DEATH(list_.send(one_, region_.slice(0, 1)), "room");
}

TEST_F(WorkListTest, StatusIsOfTheCauseAndNotOfItsConsequences) {
  for (int i = 0; i < 4; ++i) list_.send(i == 1 ? two_ : one_, region_.slice(0, 1));
  finish({Outcome::kDone, Outcome::kDone, Outcome::kDone, Outcome::kDone});
  EXPECT_TRUE(list_.status().ok());
  finish({Outcome::kFlushed, Outcome::kMessageTooLong, Outcome::kFlushed, Outcome::kUnreachable});
  EXPECT_TRUE(list_.status().IsInvalidArgument()) << list_.status().ToString();
  finish({Outcome::kDone, Outcome::kFlushed, Outcome::kDone, Outcome::kFlushed});
  EXPECT_TRUE(list_.status().IsUnavailable());
}

TEST_F(WorkListTest, EveryOutcomeHasANameAndARemedy) {
  std::set<std::string> names;
  for (size_t i = 0; i < kOutcomes; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    names.insert(std::string(outcome_name(outcome)));
    const Status status = status_of(outcome, Verb::kFaa);
    EXPECT_EQ(status.ok(), outcome == Outcome::kDone);
    if (!status.ok()) {
      EXPECT_NE(status.message().find("FAA"), std::string_view::npos);
      EXPECT_NE(status.message().find(';'), std::string_view::npos) << "no remedy: " << status.message();
    }
  }
  EXPECT_EQ(names.size(), kOutcomes);
}

TEST_F(WorkListTest, APendingListIsLeftAlone) {
  list_.send(one_, region_.slice(0, 1));
  list_.set_pending(1);
  EXPECT_TRUE(list_.pending());
  EXPECT_DEATH(list_.clear(), "pending");
  EXPECT_DEATH(static_cast<void>(list_.status()), "pending");
  EXPECT_DEATH(list_.send(one_, region_.slice(0, 1)), "pending");
  list_.complete_doorbell();
  EXPECT_FALSE(list_.pending());
}

TEST_F(WorkListTest, SlicesLieInTheirRegion) {
  EXPECT_EQ(region_.slice(64, 0).bytes(), 0u);
  EXPECT_DEATH(static_cast<void>(region_.slice(65, 0)), "memory_");
  EXPECT_DEATH(static_cast<void>(region_.slice(1, 64)), "memory_");
  EXPECT_DEATH(static_cast<void>(region_.slice(8, SIZE_MAX)), "memory_");
  EXPECT_DEATH(list_.faa(one_, {}, 1, region_.slice(0, 4)), "sizeof");
}

}  // namespace
}  // namespace bonsai::rdma
