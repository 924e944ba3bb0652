// SPDX-License-Identifier: Apache-2.0
// The behaviour that every provider must have under faults, through the interface only (rdma/testing/suite.h).
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/figures.h"
#include "rdma/testing/suite.h"

namespace bonsai::rdma {
namespace {

class FabricFaultTest : public FabricSuite {
 protected:
  void SetUp() override { there_.put(512, "-----"); }

  // Sends `list` and checks that its first request ends as `outcome`, that later requests are not reported as done,
  // that the connection is broken, and that a new one works.
  void expect_fault(Peer& peer, WorkList& list, Outcome outcome) {
    const Slice later = here_.put(512, "later");
    list.write(peer, later, there_.region.at(512));
    EXPECT_FALSE(here_.worker->run(&list, kTestLimitMs).ok());
    EXPECT_EQ(list.outcome(0), outcome) << outcome_name(list.outcome(0));
    // After an unanswered request it may be unknown whether this one was carried out.
    const bool unknown = outcome == Outcome::kUnreachable && list.outcome(1) == outcome;
    EXPECT_TRUE(unknown || list.outcome(1) == Outcome::kFlushed) << outcome_name(list.outcome(1));
    if (!unknown) {
      EXPECT_EQ(there_.text(512, 5), "-----");
    }
    EXPECT_FALSE(peer.usable());
    WorkList again;
    again.write(peer, later, there_.region.at(512));
    EXPECT_TRUE(here_.worker->run(&again, kTestLimitMs).IsUnavailable());
    EXPECT_EQ(again.outcome(0), Outcome::kFlushed);
    again.clear();
    const auto fresh = here_.connect(there_.address);
    ASSERT_NE(fresh, nullptr);
    again.write(*fresh, later, there_.region.at(512));
    EXPECT_TRUE(here_.worker->run(&again, kTestLimitMs).ok());
    EXPECT_EQ(there_.text(512, 5), "later");
    there_.put(512, "-----");
  }
};

TEST_P(FabricFaultTest, AccessOutsideTheRegion) {
  for (const uint64_t offset : {uint64_t{Node::kBytes - 7}, uint64_t{Node::kBytes}, ~uint64_t{0}, uint64_t{1} << 40}) {
    const auto peer = here_.connect(there_.address);
    WorkList list;
    list.write(*peer, here_.region->slice(0, 8), there_.region.at(offset));
    expect_fault(*peer, list, Outcome::kRemoteAccess);
  }
}

TEST_P(FabricFaultTest, KeyThatIsGoneOrGuessed) {
  size_t id = 0;
  RemoteRegion remote = there_.add_region(64, "read,write,atomic", &id);
  EXPECT_EQ(there_.remove_region(id), std::string(64, '\0'));
  for (int i = 0; i < 2; ++i, ++remote.key) {
    const auto peer = here_.connect(there_.address);
    WorkList list;
    list.faa(*peer, remote.at(0), 1, here_.region->slice(0, 8));
    expect_fault(*peer, list, Outcome::kRemoteAccess);
  }
}

TEST_P(FabricFaultTest, AKeyThatWasInUseGoesStale) {
  size_t id = 0;
  const RemoteRegion remote = there_.add_region(64, "read,write,atomic", &id);
  const auto peer = here_.connect(there_.address);
  WorkList list;
  list.write(*peer, here_.put(0, "first"), remote.at(0));
  ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  EXPECT_EQ(there_.remove_region(id).substr(0, 5), "first");
  list.clear();
  list.write(*peer, here_.put(0, "stale"), remote.at(0));
  expect_fault(*peer, list, Outcome::kRemoteAccess);
}

TEST_P(FabricFaultTest, RightsAreKept) {
  for (const Verb refused : {Verb::kRead, Verb::kWrite, Verb::kFaa}) {
    const char* rights = refused == Verb::kRead    ? "write,atomic"
                         : refused == Verb::kWrite ? "read,atomic"
                                                   : "read,write";
    size_t id = 0;
    const RemoteRegion remote = there_.add_region(64, rights, &id);
    const auto peer = here_.connect(there_.address);
    here_.put(0, "12345678");
    WorkList list;
    const Slice word = here_.region->slice(0, 8);
    if (refused == Verb::kRead) list.read(*peer, remote.at(0), word);
    if (refused == Verb::kWrite) list.write(*peer, word, remote.at(0));
    if (refused == Verb::kFaa) list.faa(*peer, remote.at(0), 1, word);
    expect_fault(*peer, list, Outcome::kRemoteAccess);
    EXPECT_EQ(there_.remove_region(id), std::string(64, '\0'));
  }
}

TEST_P(FabricFaultTest, MisalignedAtomicAndForeignMemory) {
  auto peer = here_.connect(there_.address);
  WorkList list;
  list.cas(*peer, there_.region.at(4), 0, 1, here_.region->slice(0, 8));
  expect_fault(*peer, list, Outcome::kMisaligned);
  peer = here_.connect(there_.address);
  Node other(world_, 9);
  WorkList foreign;
  foreign.read(*peer, there_.region.at(0), other.region->slice(64, 8));
  expect_fault(*peer, foreign, Outcome::kLocalAccess);
}

TEST_P(FabricFaultTest, AFaultConcernsItsPeerOnly) {
  FarNode third(site_.channel(), 3);
  const auto bad = here_.connect(there_.address);
  const auto good = here_.connect(third.address);
  WorkList list;
  list.read(*bad, there_.region.at(Node::kBytes), here_.region->slice(0, 8));
  list.write(*good, here_.put(0, "fine"), third.region.at(0));
  list.read(*bad, there_.region.at(0), here_.region->slice(0, 8));
  EXPECT_TRUE(here_.worker->run(&list, kTestLimitMs).IsInvalidArgument());
  EXPECT_EQ(list.outcome(1), Outcome::kDone);
  EXPECT_EQ(list.outcome(2), Outcome::kFlushed);
  EXPECT_EQ(third.text(0, 4), "fine");
  EXPECT_TRUE(good->usable());
}

TEST_P(FabricFaultTest, APeerThatLeft) {
  const auto peer = here_.connect(there_.address);
  uint32_t from = 0;
  there_.ok("close", std::to_string(there_.accept(&from)));
  WorkList list;
  list.read(*peer, there_.region.at(0), here_.region->slice(0, 8));
  expect_fault(*peer, list, Outcome::kUnreachable);
}

// Settings in which the other nodes have their own process.
class FabricKillTest : public FabricSuite {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricKillTest);

TEST_P(FabricKillTest, APeerThatWasKilled) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (size_t i = 0; i < kFabricVerbs.size(); ++i) {
    peers.push_back(here_.connect(there_.address));
    WorkList list;
    list.write(*peers.back(), here_.put(0, "alive"), there_.region.at(0));
    ASSERT_TRUE(here_.worker->run(&list, kTestLimitMs).ok());
  }
  there_.die();
  Site::forget();
  for (size_t i = 0; i < kFabricVerbs.size(); ++i) {
    const Verb verb = kFabricVerbs[i];
    Peer& peer = *peers[i];
    const Slice word = here_.region->slice(0, 8);
    WorkList list;
    // A request posted before the death is noticed may still end as done. Afterwards all requests fail.
    Status status;
    for (base::BoundedWait wait("death noticed", kTestLimitMs); status.ok() && !wait.expired(); wait.pause()) {
      list.clear();
      add_seven(&list, verb, peer, there_.region.at(0), word);
      status = here_.worker->run(&list, kTestLimitMs);
    }
    EXPECT_TRUE(status.IsUnavailable()) << verb_name(verb) << ": " << status.ToString();
    const Outcome outcome = list.outcome(0);
    const bool no_buffer = verb == Verb::kSend && outcome == Outcome::kReceiverNotReady;
    EXPECT_TRUE(outcome == Outcome::kUnreachable || outcome == Outcome::kFlushed || no_buffer) << outcome_name(outcome);
    EXPECT_FALSE(peer.usable());
  }
  std::unique_ptr<Peer> none;
  EXPECT_TRUE(here_.worker->connect(there_.address, here_.hello, 100, &none).IsUnavailable());
}

// Each request that it had posted is carried out as a whole or not at all. Its death is noticed, and others are served.
TEST_P(FabricKillTest, AnInitiatorThatIsKilledAfterPosting) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (size_t i = 0; i < kFabricVerbs.size(); ++i) {
    here_.set_word(i, 0);
    peers.push_back(here_.connect(there_.address));
    uint32_t from = 0;
    std::ostringstream words;
    words << there_.accept(&from) << " " << verb_name(kFabricVerbs[i]) << " " << here_.region->remote().at(8 * i).key
          << " " << here_.region->remote().at(8 * i).address;
    there_.ok("begin", words.str());
  }
  there_.die();
  Site::forget();
  for (auto& peer : peers) {
    EXPECT_TRUE(here_.worker->await("death noticed", kTestLimitMs, [&] { return !peer->usable(); }).ok());
  }
  size_t done = 0;
  for (size_t i = 0; i < kFabricVerbs.size(); ++i) {
    const bool changes = kFabricVerbs[i] != Verb::kRead && kFabricVerbs[i] != Verb::kSend;
    const uint64_t word = here_.word(i);
    EXPECT_TRUE(word == 0 || (changes && word == 7)) << verb_name(kFabricVerbs[i]) << " " << word;
    done += word == 7 ? 1 : 0;
    testing::add_figure("fault_matrix_cells", 1);
  }
  Message message;
  if (here_.worker->receive(0, &message).ok()) {
    ASSERT_EQ(message.bytes().size(), sizeof(uint64_t));
    ++done;
  }
  std::printf("of 4 requests of a killed initiator %zu were carried out\n", done);
  message = {};
  const auto itself = here_.connect(here_.address);
  ASSERT_NE(itself, nullptr);
  WorkList list;
  add_seven(&list, Verb::kFaa, *itself, here_.region->remote().at(512), here_.region->slice(1024, 8));
  EXPECT_TRUE(here_.worker->run(&list, kTestLimitMs).ok()) << "others are served";
}

TEST_P(FabricFaultTest, ConnectionsAreRefusedWithAReason) {
  std::unique_ptr<Peer> peer;
  EXPECT_TRUE(here_.worker->connect(world_.address(77), here_.hello, 100, &peer).IsUnavailable()) << "nobody there";
  Hello newer = here_.hello;
  newer.version = kProtocolVersion + 1;
  EXPECT_TRUE(here_.worker->connect(there_.address, newer, kTestLimitMs, &peer).IsNotSupported());
  there_.ok("admit", "5 7");
  Hello hello = here_.hello;
  EXPECT_TRUE(here_.worker->connect(there_.address, hello, kTestLimitMs, &peer).IsUnavailable());
  hello.session = 5;
  const Status status = here_.worker->connect(there_.address, hello, kTestLimitMs, &peer);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_NE(status.message().find("wrong credentials"), std::string::npos) << "the reason is that of the other end";
  EXPECT_EQ(peer, nullptr);
  hello.credentials[0] = std::byte{7};
  EXPECT_TRUE(here_.worker->connect(there_.address, hello, kTestLimitMs, &peer).ok());
}

TEST_P(FabricFaultTest, BadSetUpIsRefused) {
  std::unique_ptr<Region> region;
  EXPECT_TRUE(here_.fabric->register_region({}, Rights::all(), &region).IsInvalidArgument());
  std::unique_ptr<Worker> worker;
  ASSERT_TRUE(here_.fabric->make_worker(&worker).ok());
  EXPECT_TRUE(worker->listen(here_.address, here_.hello, {}).IsBusy());
  EXPECT_TRUE(worker->listen("", here_.hello, {}).IsInvalidArgument());
  EXPECT_TRUE(here_.worker->listen(world_.address(8), here_.hello, {}).IsInvalidArgument());
  EXPECT_TRUE(here_.worker->set_receive_ring(here_.ring_region->slice(0, 64), 64).IsInvalidArgument()) << "set already";
  EXPECT_TRUE(worker->set_receive_ring(here_.ring_region->slice(0, 64), 65).IsInvalidArgument());
  EXPECT_TRUE(worker->set_receive_ring(here_.ring_region->slice(0, 64), 0).IsInvalidArgument());
}

INSTANTIATE_TEST_SUITE_P(, FabricKillTest, ::testing::ValuesIn(far_settings()), setting_name);
INSTANTIATE_TEST_SUITE_P(, FabricFaultTest, ::testing::ValuesIn(settings()), setting_name);

}  // namespace
}  // namespace bonsai::rdma
