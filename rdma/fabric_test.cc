// SPDX-License-Identifier: Apache-2.0
// The behaviour that every provider must have, through the interface only. rdma/testing/suite.h states the providers
// and where the other nodes run.
#include "rdma/fabric.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "rdma/testing/suite.h"

namespace bonsai::rdma {
namespace {

class FabricTest : public FabricSuite {};

TEST_P(FabricTest, WritesAndReadsBytes) {
  const auto peer = here_.connect(there_.address);
  WorkList list;
  list.write(*peer, here_.put(0, "hello, far away"), there_.region.at(101));
  list.read(*peer, there_.region.at(103), here_.region->slice(1000, 10));
  ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  EXPECT_EQ(there_.text(101, 15), "hello, far away");
  EXPECT_EQ(here_.text(1000, 10), "llo, far a");
  EXPECT_EQ(here_.text(1010, 1), std::string(1, '\0')) << "no byte more";
}

TEST_P(FabricTest, LargeTransfersArriveWhole) {
  const auto peer = here_.connect(there_.address);
  std::string bytes(Node::kBytes, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  here_.put(0, bytes);
  WorkList list;
  list.write(*peer, here_.region->slice(0, Node::kBytes), there_.region.at(0));
  ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  EXPECT_EQ(there_.text(0, Node::kBytes), bytes);
  here_.put(0, std::string(Node::kBytes, '\0'));
  list.clear();
  list.read(*peer, there_.region.at(0), here_.region->slice(0, Node::kBytes));
  ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  EXPECT_EQ(here_.text(0, Node::kBytes), bytes);
}

TEST_P(FabricTest, CasAndFaaAnswerTheOldValue) {
  const auto peer = here_.connect(there_.address);
  there_.set_word(3, 40);
  WorkList list;
  list.cas(*peer, there_.region.at(24), 40, 41, here_.region->slice(0, 8));
  list.cas(*peer, there_.region.at(24), 40, 99, here_.region->slice(8, 8));
  list.faa(*peer, there_.region.at(24), 2, here_.region->slice(16, 8));
  list.faa(*peer, there_.region.at(24), ~uint64_t{0}, here_.region->slice(24, 8));
  ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  EXPECT_EQ(here_.word(0), 40u);
  EXPECT_EQ(here_.word(1), 41u) << "a failed CAS tells what it met";
  EXPECT_EQ(here_.word(2), 41u);
  EXPECT_EQ(here_.word(3), 43u);
  EXPECT_EQ(there_.word(3), 42u);
}

TEST_P(FabricTest, MaskedCasComparesAndStoresTheBitsOfItsMasks) {
  if (!here_.fabric->capabilities().masked_cas) GTEST_SKIP() << "this provider has no masked CAS";
  const auto peer = here_.connect(there_.address);
  there_.set_word(3, 0xff00);
  WorkList list;
  const auto swap = [&](WorkList::Masked expected, WorkList::Masked desired, size_t at) {
    list.masked_cas(*peer, there_.region.at(24), expected, desired, here_.region->slice(at, 8));
  };
  swap({0x0000, 0x000f}, {0xffff, 0x000f}, 0);   // takes four free bits
  swap({0x0000, 0x00ff}, {0x00f0, 0x00f0}, 8);   // fails: four of these eight bits are taken
  swap({0xdead, 0x0000}, {0x1234, 0xf000}, 16);  // compares no bit
  swap({0x1f0f, ~uint64_t{0}}, {1, ~uint64_t{0}}, 24);
  ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  EXPECT_EQ(here_.word(0), 0xff00u);
  EXPECT_EQ(here_.word(1), 0xff0fu) << "it tells what it met";
  EXPECT_EQ(here_.word(2), 0xff0fu);
  EXPECT_EQ(here_.word(3), 0x1f0fu);
  EXPECT_EQ(there_.word(3), 1u);
  EXPECT_EQ(here_.worker->traffic().of(Verb::kMaskedCas), (Traffic::Flow{4, 32}));
}

TEST_P(FabricTest, MessagesArriveInOrderAndNameTheirSender) {
  const auto peer = here_.connect(there_.address);
  WorkList list;
  list.send(*peer, here_.put(0, "one"));
  list.send(*peer, here_.put(16, "second"));
  list.send(*peer, here_.region->slice(32, 0));
  ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  for (const std::string sent : {"one", "second", ""}) {
    uint32_t from = 0;
    EXPECT_EQ(there_.receive(&from), sent);
    EXPECT_EQ(from, 1u);
  }
  EXPECT_EQ(there_.tell("receive", "1").rfind("unavailable", 0), 0u);
  Traffic expected;
  expected.received = {3, 9};
  EXPECT_EQ(there_.tell("traffic"), "OK " + expected.text());
}

TEST_P(FabricTest, BuffersAreGivenBackAndTheirLackIsSaid) {
  auto peer = here_.connect(there_.address);
  uint32_t from = 0;
  for (int round = 0; round < 3; ++round) {  // the ring has four buffers
    WorkList list;
    for (int i = 0; i < 4; ++i) list.send(*peer, here_.put(0, "x"));
    ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok()) << round;
    for (int i = 0; i < 4; ++i) EXPECT_EQ(there_.receive(&from), "x");
    there_.ok("release");
  }
  WorkList list;
  for (int i = 0; i < 5; ++i) list.send(*peer, here_.put(0, "x"));
  EXPECT_TRUE(here_.worker->run(&list, kTestLimitMs).IsUnavailable());
  EXPECT_EQ(list.outcome(3), Outcome::kDone);
  EXPECT_EQ(list.outcome(4), Outcome::kReceiverNotReady);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(there_.receive(&from), "x");
  there_.ok("release");
  peer = here_.connect(there_.address);
  WorkList too_long;
  too_long.send(*peer, here_.region->slice(0, Node::kMessageBytes + 1));
  EXPECT_TRUE(here_.worker->run(&too_long, kTestLimitMs).IsInvalidArgument());
  EXPECT_EQ(too_long.outcome(0), Outcome::kMessageTooLong);
}

TEST_P(FabricTest, TheAcceptedEndCanAnswer) {
  const auto peer = here_.connect(there_.address);
  uint32_t from = 0;
  const size_t back = there_.accept(&from);
  EXPECT_EQ(from, 1u);
  EXPECT_EQ(peer->hello().node, 2u);
  const Remote mine = here_.region->remote().at(64);
  there_.ok("answer", std::to_string(back) + " " + std::to_string(mine.key) + " " + std::to_string(mine.address) + " " +
                          to_hex("flushed"));
  Message message;
  ASSERT_TRUE(here_.worker->receive(kTestLimitMs, &message).ok());
  EXPECT_EQ(message.from(), 2u);
  EXPECT_EQ(message.bytes().size(), 7u);
  EXPECT_EQ(here_.text(64, 7), "flushed");
  EXPECT_EQ(there_.tell("accept", "1").rfind("unavailable", 0), 0u);
}

TEST_P(FabricTest, CostIsCountedExactly) {
  FarNode third(site_.channel(), 3);
  const auto near_one = here_.connect(there_.address);
  const auto near_two = here_.connect(third.address);
  {  // a 3-stripe read over two nodes: one round trip, three messages
    const Budget budget(*here_.worker, {.round_trips = 1, .doorbells = 2, .messages = 3, .bytes = 3 * 64});
    WorkList list;
    for (size_t i = 0; i < 3; ++i) {
      const RemoteRegion& region = i == 1 ? third.region : there_.region;
      list.read(i == 1 ? *near_two : *near_one, region.at(64 * i), here_.region->slice(64 * i, 64));
    }
    ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  }
  {  // dependent requests share one doorbell
    const Budget budget(*here_.worker, {.round_trips = 1, .doorbells = 1, .messages = 2, .bytes = 24});
    WorkList list;
    list.write(*near_one, here_.region->slice(0, 16), there_.region.at(0));
    list.faa(*near_one, there_.region.at(16), 1, here_.region->slice(16, 8));
    ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  }
  {  // no requests, no cost
    const Budget budget(*here_.worker, {});
    WorkList list;
    EXPECT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  }
  testing::add_figure("verb_budgets", 3);
  EXPECT_EQ(here_.worker->traffic().of(Verb::kRead), (Traffic::Flow{3, 192}));
  EXPECT_EQ(there_.tell("traffic"), "OK " + Traffic().text()) << "one-sided: the other side does nothing";
}

TEST_P(FabricTest, AListIsPendingUntilPolled) {
  const auto peer = here_.connect(there_.address);
  WorkList list;
  list.read(*peer, there_.region.at(0), here_.region->slice(0, 8));
  ASSERT_TRUE(here_.worker->post(&list).ok());
  EXPECT_TRUE(list.pending());
  ASSERT_TRUE(here_.worker->wait(list, kTestLimitMs).ok());
  EXPECT_FALSE(list.pending());
  EXPECT_EQ(here_.worker->poll(), 0u);
}

TEST_P(FabricTest, PendingListsAreBounded) {
  const auto peer = here_.connect(there_.address);
  const size_t bound = here_.fabric->capabilities().lists_pending_max;
  std::vector<std::unique_ptr<WorkList>> lists;
  for (size_t i = 0; i <= bound; ++i) {
    lists.push_back(std::make_unique<WorkList>());
    lists.back()->faa(*peer, there_.region.at(0), 1, here_.region->slice(0, 8));
    const Status status = here_.worker->post(lists.back().get());
    EXPECT_EQ(status.code(), i < bound ? Status::Code::kOk : Status::Code::kBusy) << i << ": " << status.ToString();
  }
  EXPECT_EQ(here_.worker->traffic().round_trips, bound) << "what was refused is not counted";
  for (size_t i = 0; i < bound; ++i) EXPECT_TRUE(here_.worker->wait(*lists[i], kTestLimitMs).ok());
  EXPECT_FALSE(lists[bound]->pending());
  EXPECT_TRUE(here_.worker->run(lists[bound].get(), kTestLimitMs).ok());
  EXPECT_EQ(there_.word(0), bound + 1);
}

TEST_P(FabricTest, CoroutinesRunWhileOneWaits) {
  const auto peer = here_.connect(there_.address);
  std::vector<std::string> order;
  base::Scheduler scheduler;
  for (size_t i = 0; i < 2; ++i) {
    scheduler.spawn([&, i] {
      for (size_t step = 0; step < 2; ++step) {
        WorkList list;
        list.faa(*peer, there_.region.at(0), 1, here_.region->slice(8 * i, 8));
        EXPECT_TRUE(here_.worker->post(&list).ok());
        order.push_back("post" + std::to_string(i));
        EXPECT_TRUE(here_.worker->wait(list, kTestLimitMs).ok());
        order.push_back("done" + std::to_string(i));
      }
    });
  }
  ASSERT_TRUE(scheduler.run().ok());
  ASSERT_EQ(order.size(), 8u);
  EXPECT_EQ(order[0], "post0");
  EXPECT_EQ(order[1], "post1") << "the sibling posts while the first waits";
  EXPECT_EQ(there_.word(0), 4u);
}

TEST_P(FabricTest, TheOtherEndLearnsWhatAdmitMadeOfTheAnswer) {
  there_.ok("admit", "0 9");
  here_.hello.credentials[0] = std::byte{9};
  const auto peer = here_.connect(there_.address);
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->hello().credentials[1], std::byte{9}) << "made of this connection's own credentials";
}

// Prints, without a bound, the cost of a READ of 64 bytes from another process or machine.
class FabricSpeedTest : public FabricSuite {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricSpeedTest);

TEST_P(FabricSpeedTest, ReadsInListsAndAlone) {
  const auto peer = here_.connect(there_.address);
  const auto run = [&](uint64_t lists, size_t reads) {
    const uint64_t begin_ns = base::now_ns();
    WorkList list;
    for (uint64_t round = 0; round < lists; ++round) {
      list.clear();
      for (size_t i = 0; i < reads; ++i) list.read(*peer, there_.region.at(64 * i), here_.region->slice(64 * i, 64));
      EXPECT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
    }
    return static_cast<double>(base::now_ns() - begin_ns) / static_cast<double>(lists * reads);
  };
  const uint64_t lists = testing::budget<uint64_t>(100, 1'000, 10'000);
  static_cast<void>(run(10, 1));
  const double listed_ns = run(lists, WorkList::kRequestsMax), alone_ns = run(lists, 1);
  std::printf("%s: 64-byte READs %.3f M/s in lists of 32, %.0f ns alone\n", here_.fabric->capabilities().text.c_str(),
              1e3 / listed_ns, alone_ns);
}

INSTANTIATE_TEST_SUITE_P(, FabricSpeedTest, ::testing::ValuesIn(far_settings()), setting_name);
INSTANTIATE_TEST_SUITE_P(, FabricTest, ::testing::ValuesIn(settings()), setting_name);

}  // namespace
}  // namespace bonsai::rdma
