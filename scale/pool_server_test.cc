// SPDX-License-Identifier: Apache-2.0
// The serving side alone: long requests, and others that must not wait for them.
#include "scale/pool_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/nvm/racy_copy.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "rdma/shm/shm.h"
#include "scale/remote_link.h"
#include "scale/remote_medium.h"
#include "scale/target.h"
#include "scale/testing/serving_node.h"
#include "scale/volume.h"

namespace bonsai::scale {
namespace {

inline constexpr base::Site kSite{"pool_server_test.write"};
constexpr uint64_t kBytes = 64 << 10;
constexpr uint64_t kWaitMs = 20'000;

// A node that takes a set time for the pool "slow".
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
                      if (std::filesystem::path(mapping.path()).filename() == "broken") {
                        return Status::NoSpace("no further region");
                      }
                      return base::make_media(mapping, {}, media);
                    }};
};

TEST_F(PoolServerTest, ALongRequestDelaysNobodyElse) {
  const auto owner = make_link(2'000), patient = make_link(kWaitMs), other = make_link(2'000);
  size_t target = 0, made = 0, slow = 0;
  ASSERT_EQ("OK", ask(owner.get(), "p", PoolOp::kCreate, &target).ToString());
  std::unique_ptr<RemoteMedium> medium;
  ASSERT_EQ("OK", RemoteMedium::make(owner.get(), target, &medium).ToString());
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
    EXPECT_TRUE(ask(other.get(), "slow", PoolOp::kCreateUnnamed, &target).IsBusy()) << "nor one that may become it";
    EXPECT_EQ("OK", other->remove(made).ToString());
    go_on_.store(true);
    waiting.join();
    EXPECT_EQ("OK", status.ToString());
  }
  EXPECT_EQ(patient->pool(slow).region.bytes, 2 * kBytes);
  EXPECT_TRUE(ask(other.get(), "slow", PoolOp::kOpen, &target).IsBusy()) << "it has its owner";
}

// Members of a group are told of pages while they are written to.
TEST_F(PoolServerTest, APageIsSetWhileThePoolIsWrittenTo) {
  const auto link = make_link(kWaitMs);
  size_t target = 0;
  ASSERT_EQ("OK", ask(link.get(), "p", PoolOp::kCreate, &target).ToString());
  std::unique_ptr<RemoteMedium> medium;
  ASSERT_EQ("OK", RemoteMedium::make(link.get(), target, &medium).ToString());
  ASSERT_TRUE(make_resident(*medium, kBytes).ok());
  GroupPage page{.group = 7, .ids = {1, 2}, .members = 2, .needed = 1, .self = 0, .in_sync = 3};
  std::atomic<bool> over{false};
  base::Thread writer("writer", [&] {
    for (uint64_t i = 0; !over.load(); ++i) {
      medium->store8(medium->view() + 8 * (i % 64), i);
      medium->flush(medium->view() + 8 * (i % 64), 8, kSite);
      ASSERT_TRUE(medium->fence(kSite)) << medium->health().ToString();
    }
  });
  for (uint64_t version = 1; version <= 50; ++version) {
    ASSERT_EQ("OK", link->set_page(link->target(target), page, version).ToString());
  }
  over.store(true);
  writer.join();
  EXPECT_EQ(link->target(target)->connections[0]->openings(), 1U) << "the connection was not given up";
  EXPECT_TRUE(link->set_page(link->target(target), page, 49).IsBusy());
  page.self = 1;
  EXPECT_TRUE(link->set_page(link->target(target), page, 51).IsInvalidArgument());

  const auto other = make_link(kWaitMs);
  uint64_t epoch = 7;
  VersionedPage found;
  ASSERT_EQ("OK", other->status_of(named("p"), &epoch, &found).ToString()) << "whoever owns it";
  EXPECT_EQ(epoch, 1U);
  EXPECT_EQ(found.version, 50U);
  EXPECT_EQ(found.page.ids[1], 2U);
  EXPECT_TRUE(other->status_of(named("none"), &epoch, &found).IsNotFound());
  EXPECT_EQ(epoch, 0U);
}

// All members of a group are taken under one epoch.
TEST_F(PoolServerTest, AnOwnerGetsTheEpochThatItAsksForOrALaterOne) {
  const auto link = make_link(kWaitMs);
  size_t target = 0;
  const auto epoch_of = [&](PoolOp op, uint64_t wanted) {
    EXPECT_EQ("OK", link->open(named("p"), op, kBytes, 0, &target, {.epoch = wanted}).ToString());
    const uint64_t epoch = link->target(target)->client->epoch();
    EXPECT_EQ("OK", link->give_back(target).ToString());
    return epoch;
  };
  EXPECT_EQ(epoch_of(PoolOp::kCreate, 40), 40U);
  EXPECT_EQ(epoch_of(PoolOp::kOpen, 0), 41U);
  EXPECT_EQ(epoch_of(PoolOp::kOpen, 50), 50U);
  EXPECT_EQ(epoch_of(PoolOp::kOpen, 7), 51U) << "there are later ones";
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

// More flush requests than the busy node has buffers for: they wait. When a link goes, its share becomes free.
TEST_F(PoolServerTest, OwnersShareTheReceiveBuffersOfABusyNode) {
  constexpr size_t kPools = 10, kFarApart = 128;
  const auto link = make_link(kWaitMs);
  std::vector<std::unique_ptr<RemoteMedium>> media(kPools);
  std::vector<base::HookedMedium*> targets;
  for (size_t i = 0; i < kPools; ++i) {
    size_t target = 0;
    ASSERT_EQ("OK", ask(link.get(), "p" + std::to_string(i), PoolOp::kCreate, &target).ToString());
    EXPECT_GT(link->pool(target).credits, 0u);
    ASSERT_EQ("OK", RemoteMedium::make(link.get(), target, &media[i]).ToString());
    targets.push_back(media[i].get());
  }
  VolumeOf<base::HookedMedium> volume(targets);
  node_.pause(true);
  bool kept = false;
  const uint64_t before = link->traffic().of(rdma::Verb::kSend).messages;
  base::Thread writer("writer", [&] {
    const uint64_t word = 7;
    for (size_t i = 0; i < kPools; ++i) {
      for (uint64_t at = 0; at < kBytes; at += kFarApart) volume.nt_copy(Addr(i, at), &word, sizeof word, kSite);
    }
    kept = volume.fence(kSite);
  });
  const auto sent = [&] { return link->traffic().of(rdma::Verb::kSend).messages - before; };
  for (base::BoundedWait wait("requests", kWaitMs); sent() < kPools && !wait.expired(); wait.pause()) {
  }
  base::sleep_ms(50);  // until as many as can have been sent
  node_.pause(false);
  writer.join();
  EXPECT_TRUE(kept) << volume.health().ToString();
  EXPECT_EQ(sent(), kPools * ((kBytes / kFarApart + 14) / 15)) << "15 ranges a request, and none twice";
}

// Somebody cuts a pool's file short. The next flush of its owner fails; the node and its other pools go on.
TEST_F(PoolServerTest, AFileThatIsCutShortFailsItsOwnerAlone) {
  const auto link = make_link(kWaitMs);
  size_t cut = 0, whole = 0;
  ASSERT_EQ("OK", ask(link.get(), "cut", PoolOp::kCreate, &cut).ToString());
  ASSERT_EQ("OK", ask(link.get(), "whole", PoolOp::kCreate, &whole).ToString());
  std::filesystem::resize_file(scratch_.file("cut"), 4096);
  // A flush request alone: a WRITE of this process would meet the missing bytes first.
  const auto fabric = network_.make_fabric();
  std::unique_ptr<rdma::Worker> worker;
  ASSERT_TRUE(fabric->make_worker(&worker).ok());
  std::unique_ptr<rdma::Peer> peer;
  rdma::Hello own;
  own.node = 77;
  ASSERT_EQ("OK", worker->connect("node", own, kWaitMs, &peer).ToString());
  struct Exchange {
    rdma::FlushRequest request;
    uint64_t answer;
  };
  std::unique_ptr<rdma::RegisteredMemory> memory;
  rdma::Rights rights;
  rights.write = true;
  ASSERT_TRUE(rdma::RegisteredMemory::make(*fabric, sizeof(Exchange), rights, &memory).ok());
  auto& exchange = *reinterpret_cast<Exchange*>(memory->data());
  for (const uint64_t token : {5, 6}) {
    exchange.request = {};
    exchange.request.token = token;
    exchange.request.answer = memory->remote().at(offsetof(Exchange, answer));
    exchange.request.ranges = 1;
    exchange.request.range[0] = {link->pool(cut).region.base + 8192, 64};
    rdma::WorkList list;
    list.send(*peer, memory->slice(0, offsetof(rdma::FlushRequest, range) + sizeof exchange.request.range[0]));
    ASSERT_TRUE(worker->run(&list, kWaitMs).ok());
    const auto word = [&] { return base::word_at(reinterpret_cast<std::byte*>(&exchange.answer)).load(); };
    const auto answered = [&] { return (word() & rdma::FlushRequest::kTokenMax) == token; };
    ASSERT_TRUE(worker->await("answer", kWaitMs, answered).ok());
    EXPECT_EQ(word(), token | rdma::FlushRequest::kFailed);
  }
  const std::vector<std::string> notes = node_.take_notes();
  ASSERT_EQ(notes.size(), 1u) << "once";
  EXPECT_NE(notes[0].find("/cut was cut short"), std::string::npos) << notes[0];
  std::unique_ptr<RemoteMedium> medium;
  ASSERT_EQ("OK", RemoteMedium::make(link.get(), whole, &medium).ToString());
  const uint64_t word = 7;
  medium->nt_copy(medium->view() + 8192, &word, sizeof word, kSite);
  EXPECT_TRUE(medium->fence(kSite)) << medium->health().ToString();
  peer.reset();
}

// A client that has an owner's number lacks its session: it cannot connect as that owner, and so cannot give its pool
// back.
TEST_F(PoolServerTest, AnotherSessionDoesNotTakeAnOwnersNumber) {
  const auto fabric = network_.make_fabric();
  std::unique_ptr<rdma::Worker> worker;
  ASSERT_TRUE(fabric->make_worker(&worker).ok());
  std::vector<std::unique_ptr<rdma::Peer>> peers(4);
  rdma::Hello own;
  own.node = 77;
  own.session = 5;
  ASSERT_EQ("OK", worker->connect("node", own, kWaitMs, &peers[0]).ToString());
  ASSERT_EQ("OK", worker->connect("node", own, kWaitMs, &peers[1]).ToString()) << "its other lanes";
  for (const uint64_t guessed : {0, 4, 6}) {
    own.session = guessed;
    const Status refused = worker->connect("node", own, kWaitMs, &peers[2]);
    EXPECT_TRUE(refused.IsBusy()) << refused.ToString();
  }
  own.node = 78;
  EXPECT_EQ("OK", worker->connect("node", own, kWaitMs, &peers[3]).ToString());
  peers.clear();
  const auto owner = make_link(kWaitMs), other = make_link(kWaitMs);
  size_t target = 0;
  ASSERT_EQ("OK", ask(owner.get(), "p", PoolOp::kCreate, &target).ToString());
  const Status busy = ask(other.get(), "p", PoolOp::kOpen, &target);
  ASSERT_TRUE(busy.IsBusy()) << busy.ToString();
  const std::string number = std::to_string(owner->target(target)->client->node());
  EXPECT_EQ(busy.message().find(number), std::string::npos) << "tells no number: " << busy.ToString();
  EXPECT_NE(busy.message().find("[" + std::to_string(::getpid()) + "] on "), std::string::npos) << busy.ToString();
  EXPECT_NE(busy.message().find(", seen 0 s ago"), std::string::npos) << busy.ToString();
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

// A request is carried out on a thread of its own; without one it is refused, and the node and its pools stay as they
// are.
TEST_F(PoolServerTest, WithoutAFurtherThreadARequestIsRefusedAndNothingChanges) {
  const auto owner = make_link(kWaitMs);
  size_t target = 0, other = 0;
  ASSERT_EQ("OK", ask(owner.get(), "p", PoolOp::kCreate, &target).ToString());
  base::threads_granted_for_test.store(0);
  const Status created = ask(owner.get(), "q", PoolOp::kCreate, &other), resized = owner->resize(target, 2 * kBytes);
  base::threads_granted_for_test.store(-1);
  EXPECT_TRUE(created.IsNoSpace()) << created.ToString();
  EXPECT_TRUE(resized.IsNoSpace()) << resized.ToString();
  EXPECT_FALSE(std::filesystem::exists(scratch_.file("q")));
  EXPECT_EQ("OK", owner->resize(target, 2 * kBytes).ToString()) << "it is still this owner's";
  EXPECT_EQ("OK", ask(owner.get(), "q", PoolOp::kCreate, &other).ToString());
}

TEST_F(PoolServerTest, ACreationThatFailedLeavesNothing) {
  const auto link = make_link(kWaitMs);
  size_t target = 0;
  EXPECT_TRUE(ask(link.get(), "broken", PoolOp::kCreate, &target).IsNoSpace());
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path())) << "neither a file nor its owner's record";
}

// The node does not know what a pool looks like. Whoever opens something else finds that out, and leaves.
TEST_F(PoolServerTest, AFileThatAnOwnerOnlyLookedAtGetsNoRecord) {
  std::ofstream(scratch_.file("foreign")) << std::string(kBytes, 'x');
  const auto open = [this](size_t* target) {
    auto link = make_link(kWaitMs);
    EXPECT_EQ("OK", link->open(named("foreign"), PoolOp::kOpen, 0, 0, target).ToString());
    EXPECT_TRUE(std::filesystem::exists(scratch_.file(".foreign.owner"))) << "it is this owner's";
    return link;
  };
  size_t target = 0;
  for (int round = 0; round < 2; ++round) {
    open(&target).reset();
    EXPECT_FALSE(std::filesystem::exists(scratch_.file(".foreign.owner")));
    EXPECT_EQ(testing::read_file(scratch_.file("foreign")), std::string(kBytes, 'x'));
  }
  {
    const auto link = open(&target);
    std::unique_ptr<RemoteMedium> medium;
    ASSERT_EQ("OK", RemoteMedium::make(link.get(), target, &medium).ToString());
    ASSERT_TRUE(make_resident(*medium, kBytes).ok());
    medium->store8(medium->view(), 1);
    medium->flush(medium->view(), 8, kSite);
    ASSERT_TRUE(medium->fence(kSite));
  }
  EXPECT_TRUE(std::filesystem::exists(scratch_.file(".foreign.owner"))) << "it was used";
  open(&target).reset();
  EXPECT_TRUE(std::filesystem::exists(scratch_.file(".foreign.owner"))) << "the record is of an earlier owner";
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

// A client that speaks the protocol itself, over a node that can be restarted.
class PoolOwnership : public ::testing::Test {
 protected:
  struct Owner {
    std::unique_ptr<rdma::Fabric> fabric;
    std::unique_ptr<rdma::Worker> worker;
    std::unique_ptr<PoolClient> client;
    std::vector<std::unique_ptr<rdma::Peer>> peers;  // the last one is the present one
    uint64_t link = 0;
    ServedPool pool;

    ~Owner() { peers.clear(); }
    Status connect() {
      rdma::Hello own;
      own.node = client->node();
      own.session = link;
      peers.emplace_back();
      const Status status = worker->connect("node", own, kWaitMs, &peers.back());
      if (!status.ok()) peers.pop_back();
      return status;
    }
    Status ask(PoolOp op) {
      return PoolRequests(worker.get(), nullptr, kWaitMs, "")
          .ask(client.get(), peers.back().get(), op, kBytes, 0, op == PoolOp::kResume ? &pool : nullptr);
    }
    Status take(PoolOp op, const TakeOver& take_over = {}) {
      return PoolRequests(worker.get(), nullptr, kWaitMs, "")
          .take(client.get(), peers.back().get(), op, kBytes, 0, &pool, take_over);
    }
    // Resumes over a new attachment, while the earlier one exists.
    Status resume() {
      client->renumber();
      const Status status = connect();
      return status.ok() ? ask(PoolOp::kResume) : status;
    }
    Status write(rdma::Peer* peer, const rdma::RemoteRegion& region) {
      const uint64_t word = 7;
      rdma::WorkList list;
      std::unique_ptr<rdma::RegisteredMemory> memory;
      EXPECT_TRUE(rdma::RegisteredMemory::make(*fabric, 8, rdma::Rights::none(), &memory).ok());
      base::racy_store(memory->data(), &word, sizeof word);
      list.write(*peer, memory->slice(0, 8), region.at(0));
      return worker->run(&list, kWaitMs);
    }
  };

  PoolOwnership() { node_.emplace(&network_, scratch_.path()); }
  void restart() {
    node_.reset();
    node_.emplace(&network_, scratch_.path());
  }
  std::unique_ptr<Owner> make_owner(const std::string& pool = "p") {
    auto made = std::make_unique<Owner>();
    made->link = ++links_;
    made->fabric = network_.make_fabric();
    EXPECT_TRUE(made->fabric->make_worker(&made->worker).ok());
    EXPECT_TRUE(PoolClient::make(*made->fabric, named(pool), &made->client).ok());
    EXPECT_EQ("OK", made->connect().ToString());
    return made;
  }

  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network_;
  std::optional<ServingNode> node_;
  uint64_t links_ = 0;
};

TEST_F(PoolOwnership, ResumingEndsTheEarlierConnections) {
  const auto owner = make_owner();
  ASSERT_EQ("OK", owner->take(PoolOp::kCreate).ToString());
  const rdma::RemoteRegion before = owner->pool.region;
  EXPECT_EQ("OK", owner->write(owner->peers[0].get(), before).ToString());
  EXPECT_EQ("OK", owner->ask(PoolOp::kRenew).ToString());
  ASSERT_EQ("OK", owner->resume().ToString());
  EXPECT_FALSE(owner->peers[0]->usable());
  EXPECT_FALSE(owner->write(owner->peers[0].get(), owner->pool.region).ok());
  EXPECT_EQ("OK", owner->write(owner->peers[1].get(), owner->pool.region).ToString());
  EXPECT_FALSE(owner->write(owner->peers[1].get(), before).ok()) << "the region is a new one";
  EXPECT_GT(owner->pool.credits, 0U);
}

TEST_F(PoolOwnership, AfterARestartTheSessionGoesOnAtOnceAndAnotherWaitsForTheLease) {
  const auto owner = make_owner();
  ASSERT_EQ("OK", owner->take(PoolOp::kCreate).ToString());
  restart();
  ASSERT_EQ("OK", owner->resume().ToString());
  EXPECT_EQ("OK", owner->write(owner->peers.back().get(), owner->pool.region).ToString());
  const auto rival = make_owner();
  EXPECT_TRUE(rival->take(PoolOp::kOpen).IsBusy()) << "it is connected: nobody waits";
  rival->peers.clear();
  restart();
  rival->client->renumber();
  ASSERT_EQ("OK", rival->connect().ToString());
  const uint64_t begin_ns = base::now_ns();
  EXPECT_EQ("OK", rival->take(PoolOp::kOpen).ToString()) << "it waited";
  EXPECT_GE(base::now_ns() - begin_ns, 700'000'000U);
  const Status replaced = owner->resume();
  EXPECT_TRUE(replaced.IsBusy()) << replaced.ToString();
  EXPECT_TRUE(owner->client->replaced());
  EXPECT_FALSE(rival->client->replaced());
  EXPECT_TRUE(owner->take(PoolOp::kOpen).IsBusy());
}

TEST_F(PoolOwnership, WhoHasLeftIsNotWaitedFor) {
  const auto owner = make_owner(), next = make_owner();
  ASSERT_EQ("OK", owner->take(PoolOp::kCreate).ToString());
  EXPECT_EQ("OK", owner->ask(PoolOp::kLeave).ToString());
  owner->client->renumber();
  EXPECT_TRUE(owner->resume().IsBusy());
  EXPECT_TRUE(owner->client->replaced());
  const uint64_t begin_ns = base::now_ns();
  EXPECT_EQ("OK", next->take(PoolOp::kOpen).ToString());
  EXPECT_LT(base::now_ns() - begin_ns, 700'000'000U);
  EXPECT_EQ("OK", next->ask(PoolOp::kRemove).ToString());
  EXPECT_FALSE(std::filesystem::exists(scratch_.file("p")));
  EXPECT_FALSE(std::filesystem::exists(scratch_.file(".p.owner"))) << "the record is gone with its pool";
}

TEST_F(PoolOwnership, AStoreThatOpenedTheFileMeanwhileHasReplacedTheOwner) {
  const auto owner = make_owner();
  ASSERT_EQ("OK", owner->take(PoolOp::kCreate).ToString());
  node_.reset();
  {
    Targets local;
    TargetName name;
    ASSERT_EQ("OK", parse_target_name(scratch_.file("p"), &name).ToString());
    ASSERT_EQ("OK", local.add(name).ToString());
    ASSERT_EQ("OK", local[0].open(0).ToString());
  }
  node_.emplace(&network_, scratch_.path());
  EXPECT_TRUE(owner->resume().IsBusy());
  EXPECT_TRUE(owner->client->replaced());
  EXPECT_EQ("OK", make_owner()->take(PoolOp::kOpen).ToString());
}

TEST_F(PoolOwnership, OtherSessionsDoNothingWithAPool) {
  const auto owner = make_owner(), other = make_owner("q");
  ASSERT_EQ("OK", owner->take(PoolOp::kCreate).ToString());
  ASSERT_EQ("OK", other->take(PoolOp::kCreate).ToString());
  const auto forger = make_owner();
  for (const PoolOp op : {PoolOp::kLeave, PoolOp::kRemove, PoolOp::kResize, PoolOp::kComplete}) {
    EXPECT_TRUE(forger->ask(op).IsInvalidArgument()) << static_cast<uint64_t>(op);
  }
  for (const PoolOp op : {PoolOp::kResume, PoolOp::kRenew}) {
    EXPECT_TRUE(forger->ask(op).IsBusy()) << static_cast<uint64_t>(op);
    EXPECT_TRUE(forger->client->replaced());
  }
  EXPECT_EQ("OK", owner->ask(PoolOp::kRenew).ToString());
  EXPECT_EQ("OK", owner->write(owner->peers[0].get(), owner->pool.region).ToString());
}

TEST_F(PoolOwnership, ADamagedRecordIsRefusedAndSaysWhatToDo) {
  {
    const auto owner = make_owner();
    ASSERT_EQ("OK", owner->take(PoolOp::kCreate).ToString());
  }
  node_.reset();
  std::ofstream(scratch_.file(".p.owner"), std::ios::binary) << std::string(2 * membership::kSlotBytes, 'x');
  node_.emplace(&network_, scratch_.path());
  const auto next = make_owner();
  const Status damaged = next->take(PoolOp::kOpen);
  EXPECT_TRUE(damaged.IsCorruption()) << damaged.ToString();
  EXPECT_NE(damaged.message().find("delete the record's file"), std::string::npos) << damaged.ToString();
  std::filesystem::remove(scratch_.file(".p.owner"));
  EXPECT_EQ("OK", next->take(PoolOp::kOpen).ToString()) << "after the longest lease";
}

// Over shm an owner's process has the pool mapped as long as it is connected, and may go on at any time.
TEST_F(PoolOwnership, OverShmAConnectedOwnerKeepsItsPoolUnlessItIsForced) {
  const auto owner = make_owner(), next = make_owner();
  ASSERT_EQ("OK", owner->take(PoolOp::kCreate).ToString());
  base::sleep_ms(1'000);  // it is silent
  const uint64_t begin_ns = base::now_ns();
  const Status busy = next->take(PoolOp::kOpen);
  EXPECT_TRUE(busy.IsBusy());
  EXPECT_LT(base::now_ns() - begin_ns, 500'000'000U) << "nobody waits";
  for (const char* said : {"pool p has an owner: ", ", seen 1 s ago", "end that process if it hangs"}) {
    EXPECT_NE(busy.message().find(said), std::string::npos) << busy.ToString();
  }
  const uint64_t word = 7;
  EXPECT_EQ("OK", owner->write(owner->peers[0].get(), owner->pool.region).ToString()) << word;
  std::string noted;
  base::Thread leaving("leaving", [&] {
    for (base::BoundedWait wait("its end", kWaitMs); owner->peers[0]->usable() && !wait.expired(); wait.pause()) {
      static_cast<void>(owner->worker->poll());
    }
    owner->peers.clear();
  });
  EXPECT_EQ("OK", next->take(PoolOp::kOpen, {true, [&noted](const std::string& text) { noted += text; }}).ToString());
  leaving.join();
  EXPECT_TRUE(owner->resume().IsBusy());
  EXPECT_TRUE(owner->client->replaced());
  EXPECT_EQ(noted, "") << "its lease had run out";
}

}  // namespace
}  // namespace bonsai::scale
