// SPDX-License-Identifier: Apache-2.0
// Remote persistence on the simulated network: acknowledged writes survive the target's power cut in every domain and
// with every strategy, and each dropped or misplaced flush is noticed.
#include "rdma/remote_persist.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/step.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "rdma/sim/sim.h"
#include "rdma/testing/budget.h"
#include "rdma/testing/mutants.h"
#include "rdma/testing/strategy_fabric.h"

namespace bonsai::rdma {
namespace {

constexpr uint64_t kLimitMs = 100;
constexpr size_t kRecordBytes = 192;  // three stripes
constexpr size_t kStripeBytes = kRecordBytes / 3;
constexpr size_t kRecords = 12;

struct Case {
  const char* name;
  RemoteDomain domain;
  bool remote_flush;  // the device has RDMA FLUSH
  PersistStrategy strategy;
};
const Case kCases[] = {
    {"adr", RemoteDomain::kAdr, false, PersistStrategy::kFlushAgent},
    {"adr_direct", RemoteDomain::kAdrDirect, false, PersistStrategy::kReadAfterWrite},
    {"eadr", RemoteDomain::kEadr, false, PersistStrategy::kReadAfterWrite},
    {"adr_flush", RemoteDomain::kAdr, true, PersistStrategy::kFlush},
    {"eadr_flush", RemoteDomain::kEadr, true, PersistStrategy::kFlush},
};

// One history: a writer persists records on a node that loses power right after one of the acknowledgements.
class History {
 public:
  History(const Case& chosen, uint64_t seed)
      : case_(chosen),
        random_(seed),
        network_({.seed = seed}),
        nvm_(network_.make_nvm(kRecords * kRecordBytes, chosen.domain)) {}

  // Runs it; returns how many acknowledged records did not survive.
  size_t run() {
    base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = random_.next()});
    const size_t kill_after = 1 + random_.below(kRecords);
    scheduler.spawn([&] { serve(); }, "agent");
    scheduler.spawn([&] { write(kill_after); }, "writer");
    EXPECT_TRUE(scheduler.run().ok());
    nvm_->crash();
    size_t lost = 0;
    for (size_t record = 0; record < acknowledged_; ++record) {
      lost +=
          std::memcmp(nvm_->view().data() + record * kRecordBytes, content(record).data(), kRecordBytes) == 0 ? 0 : 1;
    }
    return lost;
  }
  [[nodiscard]] size_t acknowledged() const { return acknowledged_; }

 private:
  static std::string content(size_t record) {
    std::string bytes(kRecordBytes, '\0');
    for (size_t i = 0; i < kRecordBytes; ++i) bytes[i] = static_cast<char>(1 + record * 7 + i % 13);
    return bytes;
  }

  void serve() {
    const auto fabric = network_.make_fabric();
    target_ = fabric.get();
    std::unique_ptr<Worker> worker;
    ASSERT_TRUE(fabric->make_worker(&worker).ok());
    std::unique_ptr<Region> region;
    ASSERT_TRUE(fabric->register_region(nvm_->view(), Rights::all(), &region).ok());
    std::unique_ptr<FlushAgent> agent;
    ASSERT_TRUE(FlushAgent::make(fabric.get(), worker.get(), 8,
                                 FlushAgent::within(nvm_->view(),
                                                    [&](std::span<const std::byte> bytes) {
                                                      nvm_->flush(
                                                          static_cast<size_t>(bytes.data() - nvm_->view().data()),
                                                          bytes.size());
                                                    }),
                                 &agent)
                    .ok());
    remote_ = region->remote();
    Hello hello;
    hello.node = 2;
    ASSERT_TRUE(worker->listen("target", hello, {}).ok());
    while (!stop_) static_cast<void>(agent->serve(1));
  }

  void write(size_t kill_after) {
    const auto fabric = network_.make_fabric();
    StrategyFabric chosen(*fabric, case_.remote_flush);
    std::unique_ptr<Worker> worker;
    ASSERT_TRUE(fabric->make_worker(&worker).ok());
    std::vector<std::byte> bytes(kRecordBytes);
    std::unique_ptr<Region> region;
    ASSERT_TRUE(fabric->register_region(bytes, Rights::none(), &region).ok());
    Hello hello;
    hello.node = 1;
    std::unique_ptr<Peer> peer;
    ASSERT_TRUE(worker->connect("target", hello, kLimitMs, &peer).ok());
    std::unique_ptr<RemotePersist> persist;
    ASSERT_TRUE(RemotePersist::make(&chosen, worker.get(), std::move(peer), case_.domain, &persist).ok());
    for (size_t record = 0; record < kill_after; ++record) {
      std::memcpy(bytes.data(), content(record).data(), kRecordBytes);
      std::vector<RemotePersist::Write> writes;
      for (size_t stripe = 0; stripe < 3; ++stripe) {
        writes.push_back({region->slice(stripe * kStripeBytes, kStripeBytes),
                          remote_.at(record * kRecordBytes + stripe * kStripeBytes)});
      }
      const Status status = persist->persist(writes, kLimitMs);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ++acknowledged_;
    }
    network_.kill(*target_);
    stop_ = true;
  }

  const Case& case_;
  base::Random random_;
  SimNetwork network_;
  std::unique_ptr<SimNvm> nvm_;
  const Fabric* target_ = nullptr;
  RemoteRegion remote_;
  size_t acknowledged_ = 0;
  bool stop_ = false;
};

class RemotePersistTest : public ::testing::TestWithParam<Case> {};

TEST_P(RemotePersistTest, WhatWasAcknowledgedSurvives) {
  const uint64_t first = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(first));
  size_t acknowledged = 0;
  const uint64_t histories = testing::budget(50, 400, 20'000);
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    History history(GetParam(), seed);
    ASSERT_EQ(history.run(), 0u) << "BONSAI_SEED=" << seed;
    acknowledged += history.acknowledged();
  }
  EXPECT_GT(acknowledged, histories);
}

TEST_P(RemotePersistTest, TheDomainChoosesTheStrategy) {
  Capabilities capabilities;
  capabilities.remote_flush = GetParam().remote_flush;
  PersistStrategy strategy{};
  ASSERT_TRUE(choose_strategy(GetParam().domain, capabilities, &strategy).ok());
  EXPECT_EQ(strategy, GetParam().strategy) << strategy_name(strategy);
  const Status status = choose_strategy(RemoteDomain::kUnknown, capabilities, &strategy);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_NE(status.message().find("declare adr"), std::string::npos) << "it says what to declare";
}

INSTANTIATE_TEST_SUITE_P(, RemotePersistTest, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(RemotePersistMutants, EachDroppedRemoteFlushIsNoticed) {
  struct Broken {
    const char* name;
    uint64_t mutant;
    size_t in_case;
  };
  const Broken kBroken[] = {
      {"answer not awaited", kAnswerNotAwaited, 0},
      {"agent never flushes", kAgentNeverFlushes, 0},
      {"agent answers first", kAgentAnswersFirst, 0},
      {"agent skips the last range", kAgentSkipsLast, 0},
      {"no READ", kNoRead, 1},
      {"READ before the WRITEs", kReadBefore, 1},
      {"no READ, eADR", kNoRead, 2},
      {"no FLUSH", kNoFlush, 3},
      {"no FLUSH of the last WRITE", kFlushSkipsLast, 3},
      {"READ for adr", kReadForAdr, 0},
  };
  size_t killed = 0;
  for (const Broken& broken : kBroken) {
    bonsai::testing::mutants_on = broken.mutant;
    size_t lost = 0;
    for (uint64_t seed = 1; seed <= 200 && lost == 0; ++seed) lost = History(kCases[broken.in_case], seed).run();
    bonsai::testing::mutants_on = 0;
    EXPECT_GT(lost, 0u) << broken.name << " survived 200 histories";
    killed += lost > 0 ? 1 : 0;
  }
  testing::add_figure("mutants", std::size(kBroken));
  testing::add_figure("mutants_killed", killed);
}

// A target with its agent, and one writer.
TEST(RemotePersistBudget, OneRoundTripByEveryStrategy) {
  for (const Case& chosen : kCases) {
    SimNetwork network;
    const auto nvm = network.make_nvm(1024, chosen.domain);
    const auto server = network.make_fabric(), client = network.make_fabric();
    std::unique_ptr<Worker> there, here;
    std::unique_ptr<Region> target, source;
    std::vector<std::byte> bytes(192);
    ASSERT_TRUE(server->make_worker(&there).ok() && client->make_worker(&here).ok());
    ASSERT_TRUE(server->register_region(nvm->view(), Rights::all(), &target).ok());
    ASSERT_TRUE(client->register_region(bytes, Rights::none(), &source).ok());
    std::unique_ptr<FlushAgent> agent;
    ASSERT_TRUE(
        FlushAgent::make(server.get(), there.get(), 4, FlushAgent::within(nvm->view(), [](auto) {}), &agent).ok());
    ASSERT_TRUE(there->listen("target", {}, {}).ok());
    base::Scheduler scheduler({.virtual_time = true});
    bool stop = false;
    scheduler.spawn([&] {
      while (!stop) static_cast<void>(agent->serve(1));
    });
    scheduler.spawn([&] {
      std::unique_ptr<Peer> peer;
      ASSERT_TRUE(here->connect("target", {}, kLimitMs, &peer).ok());
      StrategyFabric fabric(*client, chosen.remote_flush);
      std::unique_ptr<RemotePersist> persist;
      ASSERT_TRUE(RemotePersist::make(&fabric, here.get(), std::move(peer), chosen.domain, &persist).ok());
      const bool by_agent = chosen.strategy == PersistStrategy::kFlushAgent;
      const bool by_read = chosen.strategy == PersistStrategy::kReadAfterWrite;
      const RemotePersist::Write writes[] = {{source->slice(0, 64), target->remote().at(0)},
                                             {source->slice(64, 128), target->remote().at(256)}};
      {
        const Budget budget(*here, {.round_trips = 1,
                                    .doorbells = 1,
                                    .messages = by_agent || by_read ? 3u : 4u,
                                    .bytes = 192 + (by_agent  ? 64u
                                                    : by_read ? 1u
                                                              : 0u)});
        EXPECT_TRUE(persist->persist(writes, kLimitMs).ok()) << chosen.name;
        testing::add_figure("verb_budgets", 1);
      }
      if (by_agent) {  // a range that the agent does not serve
        std::vector<std::byte> elsewhere(64);
        std::unique_ptr<Region> other;
        ASSERT_TRUE(server->register_region(elsewhere, Rights::all(), &other).ok());
        const RemotePersist::Write foreign[] = {{source->slice(0, 64), other->remote().at(0)}};
        EXPECT_TRUE(persist->persist(foreign, kLimitMs).IsInvalidArgument());
        EXPECT_TRUE(persist->persist(writes, kLimitMs).IsUnavailable()) << "after an error a new one is needed";
      }
      persist.reset();
      stop = true;
    });
    ASSERT_TRUE(scheduler.run().ok());
  }
}

// More nodes than a work list has room for; those that connected last lose their power.
TEST(FlushAgentLooks, EveryNodeIsLookedAtInItsTurn) {
  constexpr uint32_t kNodes = 3 * WorkList::kRequestsMax;
  struct Owner {
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<Worker> worker;
    std::vector<std::byte> word = std::vector<std::byte>(8);
    std::unique_ptr<Region> region;
    std::unique_ptr<Peer> peer;
  };
  SimNetwork network;
  const auto server = network.make_fabric();
  std::vector<Owner> owners(kNodes);
  std::unique_ptr<Worker> there;
  std::unique_ptr<FlushAgent> agent;
  ASSERT_TRUE(server->make_worker(&there).ok());
  ASSERT_TRUE(FlushAgent::make(server.get(), there.get(), 4, FlushAgent::within({}, [](auto) {}), &agent).ok());
  ASSERT_TRUE(there->listen("target", {}, {}).ok());
  base::Scheduler scheduler({.virtual_time = true});
  scheduler.spawn([&] {
    std::map<uint32_t, Remote> words;
    for (uint32_t node = 1; node <= kNodes; ++node) {
      Owner& owner = owners[node - 1];
      owner.fabric = network.make_fabric();
      ASSERT_TRUE(owner.fabric->make_worker(&owner.worker).ok());
      ASSERT_TRUE(owner.fabric->register_region(owner.word, Rights::all(), &owner.region).ok());
      Hello hello;
      hello.node = node;
      ASSERT_TRUE(owner.worker->connect("target", hello, kLimitMs, &owner.peer).ok());
      words[node] = owner.region->remote().at(0);
    }
    for (uint32_t node = kNodes - 3; node <= kNodes; ++node) network.kill(*owners[node - 1].fabric);
    const auto left = [&] {
      uint32_t gone = 0;
      for (uint32_t node = 1; node <= kNodes; ++node) gone += agent->connected(node) ? 0 : 1;
      return gone;
    };
    for (base::BoundedWait wait("looks", 1'000); left() < 4 && !wait.expired(); wait.pause()) agent->look_for(words);
    EXPECT_EQ(left(), 4u) << "and nobody else";
  });
  ASSERT_TRUE(scheduler.run().ok());
}

// More requests at a time than the agent's worker has lists in flight, from more nodes than it has buffers for answers.
TEST(FlushAgentAnswers, OneThatCannotLeaveYetIsNotLost) {
  constexpr uint32_t kNodes = FlushAgent::kAnswersMax + 8;
  struct Owner {
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<Worker> worker;
    std::unique_ptr<Region> region;
    std::unique_ptr<RemotePersist> persist;
    std::vector<std::byte> bytes = std::vector<std::byte>(64);
  };
  SimNetwork network({.lists_pending_max = 1});
  const auto server = network.make_fabric();
  std::vector<Owner> owners(kNodes);
  std::vector<std::byte> served(64);
  std::unique_ptr<Region> target;
  std::unique_ptr<Worker> there;
  std::unique_ptr<FlushAgent> agent;
  ASSERT_TRUE(server->make_worker(&there).ok());
  ASSERT_TRUE(server->register_region(served, Rights::all(), &target).ok());
  ASSERT_TRUE(
      FlushAgent::make(server.get(), there.get(), kNodes, FlushAgent::within(served, [](auto) {}), &agent).ok());
  ASSERT_TRUE(there->listen("target", {}, {}).ok());
  base::Scheduler scheduler({.virtual_time = true});
  scheduler.spawn([&] {
    std::vector<size_t> tickets(kNodes);
    for (uint32_t i = 0; i < kNodes; ++i) {
      Owner& owner = owners[i];
      owner.fabric = network.make_fabric();
      ASSERT_TRUE(owner.fabric->make_worker(&owner.worker).ok());
      ASSERT_TRUE(owner.fabric->register_region(owner.bytes, Rights::all(), &owner.region).ok());
      Hello hello;
      hello.node = i + 1;
      std::unique_ptr<Peer> peer;
      ASSERT_TRUE(owner.worker->connect("target", hello, kLimitMs, &peer).ok());
      StrategyFabric fabric(*owner.fabric, false);
      ASSERT_TRUE(
          RemotePersist::make(&fabric, owner.worker.get(), std::move(peer), RemoteDomain::kAdr, &owner.persist).ok());
      const RemotePersist::Write writes[] = {{owner.region->slice(0, 64), target->remote().at(0)}};
      ASSERT_EQ("OK", owner.persist->begin(writes, &tickets[i]).ToString());
    }
    base::sleep_ms(1);  // all requests have arrived
    const auto answered = [&] {
      size_t ended = 0;
      for (uint32_t i = 0; i < kNodes; ++i) {
        static_cast<void>(owners[i].worker->poll());
        ended += owners[i].persist->ended(tickets[i]) ? 1 : 0;
      }
      return ended;
    };
    const uint64_t word = 1;
    bool left_out = false;
    for (base::BoundedWait wait("answers", 1'000); answered() < kNodes && !wait.expired(); wait.pause()) {
      static_cast<void>(agent->serve(0));
      const Status now = agent->answer(1, std::as_bytes(std::span(&word, 1)), owners[0].region->remote().at(0), 0);
      left_out = left_out || now.IsBusy();
    }
    EXPECT_TRUE(left_out) << "one that does not wait";
    for (uint32_t i = 0; i < kNodes; ++i) {
      ASSERT_TRUE(owners[i].persist->ended(tickets[i])) << i;
      EXPECT_EQ("OK", owners[i].persist->end(tickets[i]).ToString());
    }
    EXPECT_TRUE(agent->answer(kNodes + 1, std::as_bytes(std::span(&word, 1)), {}, 1).IsUnavailable());
  });
  ASSERT_TRUE(scheduler.run().ok());
}

TEST(RemotePersistFaults, WithoutAnAnswerNothingIsSaidToBeDurable) {
  SimNetwork network;
  const auto nvm = network.make_nvm(1024, RemoteDomain::kAdr);
  const auto server = network.make_fabric(), client = network.make_fabric();
  std::unique_ptr<Worker> there, here;
  std::unique_ptr<Region> target, source;
  std::vector<std::byte> bytes(64), ring(1024);
  std::unique_ptr<Region> ring_region;
  ASSERT_TRUE(server->make_worker(&there).ok() && client->make_worker(&here).ok());
  ASSERT_TRUE(server->register_region(nvm->view(), Rights::all(), &target).ok());
  ASSERT_TRUE(server->register_region(ring, Rights::none(), &ring_region).ok());
  ASSERT_TRUE(there->set_receive_ring(ring_region->slice(0, 1024), 512).ok());
  ASSERT_TRUE(client->register_region(bytes, Rights::none(), &source).ok());
  ASSERT_TRUE(there->listen("target", {}, {}).ok());  // and no agent
  base::Scheduler scheduler({.virtual_time = true});
  scheduler.spawn([&] {
    StrategyFabric fabric(*client, false);
    for (const bool killed : {false, true}) {
      std::unique_ptr<Peer> peer;
      ASSERT_TRUE(here->connect("target", {}, kLimitMs, &peer).ok());
      std::unique_ptr<RemotePersist> persist;
      ASSERT_TRUE(RemotePersist::make(&fabric, here.get(), std::move(peer), RemoteDomain::kAdr, &persist).ok());
      if (killed) network.kill(*server);
      const RemotePersist::Write writes[] = {{source->slice(0, 64), target->remote().at(0)}};
      EXPECT_TRUE(persist->persist(writes, 10).IsUnavailable());
      EXPECT_TRUE(persist->persist(writes, 10).IsUnavailable());
    }
  });
  ASSERT_TRUE(scheduler.run().ok());
}

// Other lists in flight on the worker delay a persist, and do not fail it.
TEST(RemotePersistFaults, AWorkerThatTakesNoMoreIsWaitedFor) {
  constexpr size_t kListsMax = 4;
  SimNetwork network({.lists_pending_max = kListsMax});
  const auto server = network.make_fabric(), client = network.make_fabric();
  std::unique_ptr<Worker> there, here;
  std::unique_ptr<Region> target, source;
  std::vector<std::byte> far_bytes(64), bytes(64);
  ASSERT_TRUE(server->make_worker(&there).ok() && client->make_worker(&here).ok());
  ASSERT_TRUE(server->register_region(far_bytes, Rights::all(), &target).ok());
  ASSERT_TRUE(client->register_region(bytes, Rights::none(), &source).ok());
  ASSERT_TRUE(there->listen("target", {}, {}).ok());
  base::Scheduler scheduler({.virtual_time = true});
  scheduler.spawn([&] {
    std::unique_ptr<Peer> peer;
    ASSERT_TRUE(here->connect("target", {}, kLimitMs, &peer).ok());
    std::unique_ptr<RemotePersist> persist;
    ASSERT_TRUE(
        RemotePersist::make(client.get(), here.get(), std::move(peer), RemoteDomain::kAdrDirect, &persist).ok());
    const RemotePersist::Write writes[] = {{source->slice(0, 64), target->remote().at(0)}};
    std::array<WorkList, kListsMax> reads;
    const auto fill = [&] {
      for (WorkList& list : reads) {
        list.clear();
        list.read(persist->peer(), target->remote().at(0), source->slice(0, 8));
        ASSERT_TRUE(here->post(&list).ok());
      }
    };
    fill();
    size_t ticket = 0;
    EXPECT_TRUE(persist->begin(writes, &ticket).IsBusy()) << "nothing was posted, and nothing has failed";
    EXPECT_EQ("OK", persist->persist(writes, kLimitMs).ToString());
    for (const WorkList& list : reads) ASSERT_TRUE(here->wait(list, kLimitMs).ok());
    EXPECT_EQ("OK", persist->begin(writes, &ticket).ToString());
    ASSERT_TRUE(here->await("test.persist", kLimitMs, [&] { return persist->ended(ticket); }).ok());
    EXPECT_EQ("OK", persist->end(ticket).ToString());
  });
  ASSERT_TRUE(scheduler.run().ok());
}

}  // namespace
}  // namespace bonsai::rdma
