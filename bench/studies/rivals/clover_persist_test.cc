// SPDX-License-Identifier: Apache-2.0
// The Clover-like engine with persistence: what it costs, that a power cut of the memory node loses nothing
// acknowledged, and that each rule that this rests on is needed.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "bench/studies/rivals/testing/clover_rig.h"
#include "bench/studies/rivals/testing/cut_point.h"
#include "bench/studies/rivals/testing/mutants.h"
#include "rdma/sim/sim.h"
#include "rdma/testing/budget.h"
#include "testing/linearizability.h"
#include "testing/recorder.h"

namespace bonsai::bench::rivals::clover {
namespace {

using bonsai::testing::budget;
using bonsai::testing::Cell;
using bonsai::testing::OpKind;

struct Way {
  const char* name;
  Persist persist;
  rdma::RemoteDomain domain;
};
constexpr Way kWays[] = {{"flushing read", Persist::kFlushingRead, rdma::RemoteDomain::kAdrDirect},
                         {"agent", Persist::kAgent, rdma::RemoteDomain::kAdr}};

class CloverPersistBudget : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, CloverPersistBudget, ::testing::Bool(), name_of_fabric);

TEST_P(CloverPersistBudget, OfEachWay) {
  for (const Way& way : kWays) {
    CloverRig rig({.sim = GetParam(), .compute_nodes = 2, .flushes = true});
    rig.run_one([&](Connection* connection) {
      const auto client = client_of(connection, rig.node(0), {.persist = way.persist});
      const auto other = client_of(connection, rig.node(1), {.persist = way.persist});
      ASSERT_EQ("OK", text(client->insert(key(1), "12345678")));
      ASSERT_EQ("OK", text(other->insert(key(2), "12345678")));
      const auto expect_cost = [&](rdma::Cost cost, const std::function<Status()>& operation) {
        cost.doorbells = cost.round_trips;
        const rdma::Budget used(connection->worker(), cost);
        ASSERT_EQ("OK", text(operation()));
        bonsai::testing::add_figure("verb_budgets", 1);
      };
      const uint64_t flush = way.persist == Persist::kAgent ? kFlushCallBytes : 1;
      expect_cost({.round_trips = 2, .messages = 3, .bytes = 320 + flush},
                  [&] { return client->insert(key(7), "abcdefgh"); });
      expect_cost({.round_trips = 2, .messages = 4, .bytes = 136 + 2 * flush},
                  [&] { return client->update(key(7), "ABCDEFGH"); });
      std::string value;
      expect_cost({.round_trips = 1, .messages = 2, .bytes = 136}, [&] { return client->get(key(7), &value); });
      // A get by a link that may not be durable teaches no cursor.
      for (int i = 0; i < 2; ++i) {
        expect_cost({.round_trips = 3, .messages = 4, .bytes = 456}, [&] { return other->get(key(7), &value); });
      }
      EXPECT_EQ(value, "ABCDEFGH");
      // An update that passes it makes it durable: by CAS and READ, or by the agent that was called when a CAS was lost
      // there.
      const bool agent = way.persist == Persist::kAgent;
      expect_cost({.round_trips = agent ? 5u : 6u,
                   .messages = agent ? 9u : 11u,
                   .bytes = 192 + 136 + 24 + 3 * flush + (agent ? 0 : 8 + flush)},
                  [&] { return other->update(key(7), "12345678"); });
      ASSERT_EQ("OK", text(client->get(key(7), &value)));
      EXPECT_EQ(value, "12345678");
    });
  }
}

// Clients of two compute nodes update the same few keys until the memory node's power is cut; then each key is read.
class Cut {
 public:
  Cut(const Way& way, uint64_t seed)
      : way_(way),
        seed_(seed),
        random_(seed),
        network_({.seed = base::splitmix64(seed), .late_chance = 256}),
        nvm_(network_.make_nvm(kStore.node_bytes, way.domain)),
        server_fabric_(network_.make_fabric()),
        recorder_(bonsai::testing::Recorder::in_memory(
            {.lanes = kClients + 1, .operations_max = 1'000, .cells_max = 1'000})) {
    for (int i = 0; i < 2; ++i) nodes_.push_back(std::make_unique<ComputeNode>(ComputeNode::Options{.store = kStore}));
  }
  // Before the network.
  ~Cut() { server_.reset(); }
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

  // Whether the acknowledged updates, and some of the others, can have left this state.
  bool keeps_all() {
    std::vector<Cell> loaded;
    for (uint64_t number = 1; number <= kKeys; ++number) loaded.push_back({number, number});
    live(0, kClients, [&](rdma::Fabric* fabric, size_t client) { act(fabric, client); });
    nvm_->crash();
    live(1, 1, [&](rdma::Fabric* fabric, size_t) { read(fabric); });
    verdict_ = read_all_ ? bonsai::testing::check_registers(recorder_->history(), loaded)
                         : bonsai::testing::Verdict::wrong("a key could not be read");
    return bool{verdict_};
  }
  // Whether an update survives that followed links of a client whose own flushes never come.
  bool keeps_what_came_by_links_in_flight() {
    cut_amid_ = false;
    live(0, 1, [&](rdma::Fabric* fabric, size_t) {
      const auto connection = connect(fabric, 1), connection_in_flight = connect(fabric, 2);
      const auto client = client_of(connection.get(), nodes_[1].get(), {.persist = way_.persist});
      const auto in_flight = client_of(connection_in_flight.get(), nodes_[0].get());
      std::string value;
      EXPECT_EQ("OK", text(client->get(key(1), &value)));
      // The third is found by READs, where no lost CAS has called the agent.
      for (uint64_t value_in_flight = 5; value_in_flight <= 7; ++value_in_flight) {
        EXPECT_EQ("OK", text(in_flight->update(key(1), key(value_in_flight))));
      }
      EXPECT_EQ("OK", text(client->update(key(1), key(8))));
    });
    nvm_->crash();
    std::string value;
    live(1, 1, [&](rdma::Fabric* fabric, size_t) {
      const auto connection = connect(fabric, 3);
      ComputeNode node({.store = kStore});
      EXPECT_EQ("OK", text(client_of(connection.get(), &node)->get(key(1), &value)));
    });
    return value == key(8);
  }
  [[nodiscard]] uint64_t acknowledged() const { return acknowledged_; }
  [[nodiscard]] const std::string& text_of_verdict() const { return verdict_.text; }

 private:
  static constexpr StoreOptions kStore{.keys_max = 4, .memory_nodes = 1, .node_bytes = size_t{64} << 10};
  static constexpr size_t kClients = 4;
  static constexpr uint64_t kKeys = 2;  // most updates are of the first

  // The memory node's life, until its clients have ended.
  void live(int life, size_t clients, const std::function<void(rdma::Fabric*, size_t)>& body) {
    const auto fabric = network_.make_fabric();
    const auto flush = [this](size_t offset, size_t bytes) { nvm_->flush(offset, bytes); };
    std::unique_ptr<MemoryNode> node;
    ASSERT_EQ("OK", text(MemoryNode::make(fabric.get(), "memory" + std::to_string(life), nvm_->view(),
                                          kStore.node_bytes, flush, &node)));
    if (life == 0) {
      ASSERT_EQ("OK", text(MetadataServer::make(server_fabric_.get(), {"metadata"}, {.store = kStore}, {node->name()},
                                                &server_)));
    } else {
      server_->rejoin({node->name()});
    }
    names_ = {node->name(), server_->name(0)};
    base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = random_.next()});
    size_t clients_left = clients;
    bool cut = false;
    scheduler.spawn([&] {
      while (clients_left > 0 && !cut) static_cast<void>(node->serve(1));
    });
    scheduler.spawn([&] {
      while (clients_left > 0) static_cast<void>(server_->serve(0, 1));
    });
    scheduler.spawn([&] {
      if (life == 0) load();
      for (size_t client = 0; client < clients; ++client) {
        scheduler.spawn([&, client] {
          const auto own = network_.make_fabric();
          body(own.get(), client);
          --clients_left;
        });
      }
      if (life > 0) return;
      const std::array<CutPoint::Step, 1> steps{{{"clover.swap", 30}}};
      const CutPoint point(steps, base::now_ns() + 20'000'000, &random_);
      while (cut_amid_ ? !point.reached() : clients_left > 0) base::Scheduler::wait_until(base::now_ns() + 500);
      base::Scheduler::wait_until(base::now_ns() + random_.below(8'000));
      cut = true;
      network_.kill(*fabric);
    });
    ASSERT_EQ("OK", text(scheduler.run()));
    node.reset();
  }

  std::unique_ptr<Connection> connect(rdma::Fabric* fabric, uint32_t number) {
    std::unique_ptr<Connection> connection;
    static_cast<void>(Connection::make(fabric, number, names_, &connection));
    return connection;
  }

  void load() {
    const auto own = network_.make_fabric();
    const auto connection = connect(own.get(), 100);
    const auto client = client_of(connection.get(), nodes_[0].get(), {.persist = way_.persist});
    for (uint64_t number = 1; number <= kKeys; ++number) {
      EXPECT_EQ("OK", text(client->insert(key(number), key(number))));
    }
  }

  // The last client of each compute node collects now and then.
  void act(rdma::Fabric* fabric, size_t seat) {
    const auto connection = connect(fabric, static_cast<uint32_t>(seat));
    if (connection == nullptr) return;
    ComputeNode* const node = nodes_[seat % 2].get();
    std::unique_ptr<CloverClient> client;
    std::unique_ptr<Collector> collector;
    if (!CloverClient::make(connection.get(), node, {.persist = way_.persist, .operation_ms_max = 20}, &client).ok() ||
        !Collector::make(connection.get(), node, &collector).ok()) {
      return;
    }
    bonsai::testing::Recorder::Lane lane = recorder_->lane(static_cast<uint32_t>(seat));
    base::Random dice(base::splitmix64(seed_) + seat);
    for (uint64_t i = 1; i <= 200; ++i) {
      const uint64_t number = dice.chance(1, 8) ? 2 : 1;
      const uint64_t value = (seat + 1) << 32 | i;
      const uint64_t update = lane.begin_update(OpKind::kPut, Cell{number, value});
      if (!client->update(key(number), key(value)).ok()) return;
      lane.end_update(update);
      ++acknowledged_;
      size_t collected = 0;
      if (seat < 2 && dice.chance(1, 3) && !collector->collect(&collected).ok()) return;
    }
  }

  void read(rdma::Fabric* fabric) {
    const auto connection = connect(fabric, 101);
    ComputeNode node({.store = kStore});
    const auto client = client_of(connection.get(), &node, {.persist = way_.persist, .operation_ms_max = 100});
    bonsai::testing::Recorder::Lane lane = recorder_->lane(kClients);
    for (uint64_t number = 1; number <= kKeys; ++number) {
      std::string value;
      const uint64_t invoke = lane.begin_read();
      read_all_ = read_all_ && client->get(key(number), &value).ok();
      lane.end_read(OpKind::kGet, invoke,
                    Cell{number, read_all_ ? Judge::number_of(value, 8) : bonsai::testing::kGarbled});
    }
  }

  const Way way_;
  const uint64_t seed_;
  base::Random random_;
  rdma::SimNetwork network_;
  std::unique_ptr<rdma::SimNvm> nvm_;
  std::unique_ptr<rdma::Fabric> server_fabric_;
  std::unique_ptr<MetadataServer> server_;
  std::unique_ptr<bonsai::testing::Recorder> recorder_;
  std::vector<std::unique_ptr<ComputeNode>> nodes_;
  std::vector<MemoryNodeName> names_;
  uint64_t acknowledged_ = 0;
  bool cut_amid_ = true;  // else when the clients have ended
  bool read_all_ = true;
  bonsai::testing::Verdict verdict_;
};

TEST(CloverPersist, PowerCutsLoseNothingAcknowledged) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  uint64_t acknowledged = 0;
  const uint64_t cuts = budget<uint64_t>(6, 40, 10'000);
  for (uint64_t i = 0; i < cuts; ++i) {
    for (const Way& way : kWays) {
      Cut cut(way, seed + i);
      ASSERT_TRUE(cut.keeps_all()) << way.name << ", BONSAI_SEED=" << seed + i << "\n" << cut.text_of_verdict();
      acknowledged += cut.acknowledged();
    }
  }
  EXPECT_GT(acknowledged, 5 * cuts);
}

TEST(CloverPersist, UpdatesThatCameByLinksInFlightSurvive) {
  for (const Way& way : kWays) {
    for (uint64_t seed = 1; seed <= 5; ++seed) ASSERT_TRUE(Cut(way, seed).keeps_what_came_by_links_in_flight());
  }
}

TEST(CloverPersist, PlantedFaultsAreFound) {
  // READs and atomics push all earlier requests of their connection: on sim a link needs no READ of its own.
  const auto by_cuts = [](const Way& way, uint64_t seed) { return !Cut(way, seed).keeps_all(); };
  const auto by_links = [](const Way& way, uint64_t seed) {
    return !Cut(way, seed).keeps_what_came_by_links_in_flight();
  };
  const struct {
    const char* name;
    Mutant mutant;
    const Way& way;
    std::function<bool(const Way&, uint64_t)> found;
  } faults[] = {{"slab unflushed", kSlabUnflushed, kWays[0], by_cuts},
                {"slab unflushed", kSlabUnflushed, kWays[1], by_cuts},
                {"link unflushed", kLinkUnflushed, kWays[1], by_cuts},
                {"passed link unflushed", kPassedUnflushed, kWays[1], by_links},
                {"flush passes the CAS", kFlushPasses, kWays[1], by_cuts}};
  for (const auto& fault : faults) {
    bonsai::testing::mutants_on.store(fault.mutant);
    bool found = false;
    uint64_t seed = 0;
    while (!found && seed < 300) found = fault.found(fault.way, ++seed);
    bonsai::testing::mutants_on.store(0);
    std::printf("%s, %s: found by trial %llu\n", fault.way.name, fault.name, static_cast<unsigned long long>(seed));
    EXPECT_TRUE(found) << fault.way.name << ", " << fault.name;
    bonsai::testing::add_figure("mutants", 1);
    bonsai::testing::add_figure("mutants_killed", found ? 1 : 0);
  }
}

}  // namespace
}  // namespace bonsai::bench::rivals::clover
