// SPDX-License-Identifier: Apache-2.0
// The Sherman-like engine with persistence: what it costs, that a power cut loses nothing acknowledged, and that each
// rule that this rests on is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/planted_fault.h"
#include "bench/studies/rivals/sherman.h"
#include "bench/studies/rivals/testing/cut_point.h"
#include "bench/studies/rivals/testing/mutants.h"
#include "bench/studies/rivals/testing/sherman_rig.h"
#include "rdma/sim/sim.h"

namespace bonsai::bench::rivals::sherman {
namespace {

using bonsai::testing::budget;

struct Way {
  const char* name;
  Persist persist;
  rdma::RemoteDomain domain;
};
constexpr Way kWays[] = {{"flushing read", Persist::kFlushingRead, rdma::RemoteDomain::kAdrDirect},
                         {"combined", Persist::kCombined, rdma::RemoteDomain::kAdrDirect},
                         {"agent", Persist::kAgent, rdma::RemoteDomain::kAdr}};

TreeOptions tree_of(size_t page_records_max) {
  return {.layout = {.form = Layout::Form::kDurable, .page_records_max = page_records_max}, .locks_per_node = 64};
}

class ShermanPersistBudget : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, ShermanPersistBudget, ::testing::Bool(), name_of_fabric);

TEST_P(ShermanPersistBudget, OfEachWay) {
  for (const Way& way : kWays) {
    const TreeOptions tree = tree_of(SIZE_MAX);
    EXPECT_EQ(tree.layout.records_max(0), 37u);
    Rig rig({.sim = GetParam(), .fixed_bytes = fixed_bytes(tree), .flushes = true});
    make_tree(tree, rig.nodes());
    ComputeNode node({.tree = tree});
    rig.run_one([&](Connection* connection) {
      std::unique_ptr<ShermanClient> client;
      ASSERT_EQ("OK", text(ShermanClient::make(connection, &node, {.persist = way.persist}, &client)));
      rdma::Traffic cost;
      for (uint64_t number = 1; client->counters().splits < 3; ++number) {
        const rdma::Traffic before = connection->worker().traffic();
        ASSERT_EQ("OK", text(client->insert(key(number), "12345678")));
        cost = connection->worker().traffic() - before;
      }
      const bool combined = way.persist == Persist::kCombined;
      const uint64_t flush = way.persist == Persist::kAgent ? kFlushCallBytes : 8;
      expect_traffic(combined ? 8 : 9, 13, 5 * kPageBytes + 1024 + 3 * flush + 4 * 8, cost);
      const rdma::Traffic before = connection->worker().traffic();
      ASSERT_EQ("OK", text(client->update(key(7), "abcdefgh")));
      expect_traffic(combined ? 3 : 4, 5, 1064 + flush, connection->worker().traffic() - before);
    });
  }
}

TEST(ShermanPersist, NeedsItsForm) {
  const TreeOptions tree{};
  Rig rig({.sim = true, .fixed_bytes = fixed_bytes(tree)});
  make_tree(tree, rig.nodes());
  ComputeNode node({.tree = tree});
  rig.run_one([&](Connection* connection) {
    std::unique_ptr<ShermanClient> client;
    const Status status = ShermanClient::make(connection, &node, {.persist = Persist::kCombined}, &client);
    EXPECT_TRUE(status.IsInvalidArgument()) << text(status);
  });
  std::vector<size_t> fixed;
  std::vector<std::byte> zeros(fixed_bytes(tree_of(SIZE_MAX)));
  EXPECT_TRUE(recover_tree(tree, {zeros}, {}, &fixed).IsInvalidArgument());
  EXPECT_TRUE(recover_tree(tree_of(SIZE_MAX), {zeros}, {}, &fixed).IsCorruption());
}

// A tree that lives through several power cuts, under clients of two compute nodes with keys of their own.
class Lives {
 public:
  Lives(const Way& way, uint64_t seed)
      : way_(way),
        seed_(seed),
        random_(seed),
        network_({.seed = base::splitmix64(seed)}),
        nvm_(network_.make_nvm(kBytes, way.domain)) {}

  // Whether all that was acknowledged was there after each.
  bool run(size_t lives) {
    for (size_t life = 0; life < lives && kept_all_; ++life) {
      live(life);
      nvm_->crash();
    }
    if (kept_all_) live(lives);
    return kept_all_;
  }
  [[nodiscard]] uint64_t acknowledged() const { return acknowledged_; }
  [[nodiscard]] uint64_t splits() const { return splits_; }

 private:
  static constexpr size_t kBytes = size_t{512} << 10;
  static constexpr size_t kClients = 4;
  static constexpr uint64_t kKeys = 120;
  using Value = std::optional<uint64_t>;

  void live(size_t life) {
    const auto fabric = network_.make_fabric();
    const auto flush = [this](size_t offset, size_t bytes) { nvm_->flush(offset, bytes); };
    std::vector<size_t> fixed{fixed_bytes(tree_)};
    if (life > 0) {
      const Status status = recover_tree(
          tree_, {nvm_->view()}, [&](size_t, size_t offset, size_t bytes) { flush(offset, bytes); }, &fixed);
      kept_all_ = status.ok();
    }
    if (!kept_all_) return;
    std::unique_ptr<MemoryNode> node;
    const std::string address = "memory" + std::to_string(life);
    ASSERT_EQ("OK", text(MemoryNode::make(fabric.get(), address, nvm_->view(), fixed[0], flush, &node)));
    if (life == 0) make_tree(tree_, {node.get()});
    base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = random_.next()});
    size_t clients_left = kClients;
    bool cut = false;
    std::vector<std::unique_ptr<ComputeNode>> nodes;
    for (uint32_t i = 0; i < 2; ++i)
      nodes.push_back(std::make_unique<ComputeNode>(ComputeNode::Options{.tree = tree_, .number = i}));
    scheduler.spawn([&] {
      while (clients_left > 0 && !cut) static_cast<void>(node->serve(1));
    });
    for (size_t client = 0; client < kClients; ++client) {
      scheduler.spawn([&, client] {
        const auto own = network_.make_fabric();
        act(own.get(), node->name(), nodes[client % 2].get(), static_cast<uint32_t>(life * kClients + client), client);
        --clients_left;
      });
    }
    scheduler.spawn([&] {
      const std::array<CutPoint::Step, 3> steps{{{"sherman.write", 80}, {"sherman.sibling", 6}, {"sherman.linked", 6}}};
      const CutPoint point(steps, base::now_ns() + 6'000'000, &random_);
      while (!point.reached()) base::Scheduler::wait_until(base::now_ns() + 500);
      base::Scheduler::wait_until(base::now_ns() + random_.below(8'000));
      cut = true;
      network_.kill(*fabric);
    });
    ASSERT_EQ("OK", text(scheduler.run()));
    node.reset();
  }

  void act(rdma::Fabric* fabric, const MemoryNodeName& name, ComputeNode* node, uint32_t number, size_t client) {
    std::unique_ptr<Connection> connection;
    if (!Connection::make(fabric, number, {name}, &connection).ok()) return;
    std::unique_ptr<ShermanClient> made;
    const ClientOptions options{
        .persist = way_.persist, .heap = {.chunk_bytes = size_t{8} << 10}, .operation_ms_max = 20};
    if (!ShermanClient::make(connection.get(), node, options, &made).ok()) return;
    if (!check(made.get(), client)) return;
    base::Random dice(base::splitmix64(seed_ ^ number));
    while (change(made.get(), client, &dice)) {
    }
    splits_ += made->counters().splits;
  }

  // Reads the client's keys; false once the power is cut.
  bool check(ShermanClient* client, size_t owner) {
    for (uint64_t number = owner; number < kKeys; number += kClients) {
      std::string value;
      const Status status = client->get(key(number), &value);
      if (status.IsUnavailable()) return false;
      Value found;
      if (status.ok()) std::memcpy(&found.emplace(), value.data(), sizeof(uint64_t));
      const std::vector<Value>& possible = possible_[number];
      const bool is_possible =
          possible.empty() ? !found : std::find(possible.begin(), possible.end(), found) != possible.end();
      kept_all_ = kept_all_ && is_possible;
      possible_[number] = {found};
    }
    return true;
  }

  bool change(ShermanClient* client, size_t owner, base::Random* dice) {
    const uint64_t number = owner + kClients * dice->below(kKeys / kClients);
    const bool removes = dice->chance(1, 5);
    Value wanted;
    if (!removes) wanted = ++values_;
    possible_[number].push_back(wanted);
    std::string value(sizeof values_, '\0');
    if (!removes) std::memcpy(value.data(), &*wanted, value.size());
    const Status status = removes ? client->remove(key(number)) : client->insert(key(number), value);
    if (!status.ok() && !status.IsNotFound()) return false;
    possible_[number] = {wanted};
    ++acknowledged_;
    return true;
  }

  const TreeOptions tree_ = tree_of(7);
  const Way way_;
  const uint64_t seed_;
  base::Random random_;
  rdma::SimNetwork network_;
  std::unique_ptr<rdma::SimNvm> nvm_;
  std::map<uint64_t, std::vector<Value>> possible_;  // by key: what was acknowledged last, and what is in flight
  uint64_t values_ = 0, acknowledged_ = 0, splits_ = 0;
  bool kept_all_ = true;
};

TEST(ShermanPersist, PowerCutsLoseNothingAcknowledged) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  uint64_t acknowledged = 0, splits = 0;
  const uint64_t trials = budget<uint64_t>(10, 40, 2'000);
  for (uint64_t i = 0; i < trials; ++i) {
    for (const Way& way : kWays) {
      Lives lives(way, seed + i);
      ASSERT_TRUE(lives.run(4)) << way.name << ", BONSAI_SEED=" << seed + i;
      acknowledged += lives.acknowledged();
      splits += lives.splits();
    }
  }
  EXPECT_GT(acknowledged, 100 * trials);
  EXPECT_GT(splits, 10 * trials);
}

TEST(ShermanPersist, PlantedFaultsAreFound) {
  const auto by_power_cuts = [](uint64_t first) {
    return bonsai::testing::within(
        300, [](uint64_t seed) { return !Lives(kWays[2], seed).run(4); }, first);
  };
  bonsai::testing::expect_found({
      {"flush left out", kFlushLeftOut, by_power_cuts(1)},
      {"answer unawaited", kAnswerUnawaited, by_power_cuts(1)},
      {"sibling unflushed", kSiblingUnflushed, by_power_cuts(1)},
      {"moved erased at once", kMovedErasedAtOnce, by_power_cuts(3)},
      {"head in place", kHeadInPlace, by_power_cuts(24)},
      {"torn unsalvaged", kTornUnsalvaged, by_power_cuts(3)},
      {"new record linked", kNewRecordLinked, by_power_cuts(42)},
  });
}

}  // namespace
}  // namespace bonsai::bench::rivals::sherman
