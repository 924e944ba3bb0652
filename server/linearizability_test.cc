// SPDX-License-Identifier: Apache-2.0
// What clients over many connections are told must be explained by one order of their commands.
#include "testing/linearizability.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "bonsai/db.h"
#include "server/service.h"
#include "server/testing/history_client.h"
#include "server/testing/mutants.h"
#include "testing/scratch.h"

namespace bonsai::server {
namespace {

using testing::Cell;
using testing::History;
using testing::Verdict;

constexpr uint64_t kLogBytes = uint64_t{1} << 20;  // small, so that it is offloaded all the time

class ServerLinearizability : public ::testing::Test {
 protected:
  ServerLinearizability() : seed_(base::seed_from_env_or(base::fresh_seed())) {
    std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed_));
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = uint64_t{32} << 20;
    options.log_bytes = kLogBytes;
    EXPECT_TRUE(DB::Open(options, scratch_.file("pool"), &db_).ok());
    Config config;
    config.listen = {{.host = {}, .port = 0, .path = scratch_.file("socket")}};
    config.threads = 2;
    state_.emplace(db_.get(), config, std::nullopt, 1'000);
    const Status started = Service::start(&*state_, &service_);
    EXPECT_TRUE(started.ok()) << started.ToString();
  }
  ~ServerLinearizability() override {
    testing::mutants_on.store(0);
    clients_.clear();
    service_.reset();
    state_.reset();
    EXPECT_TRUE(db_->Close().ok());
  }

  void connect(uint32_t clients, const HistoryOptions& options) {
    clients_.clear();
    await_no_connections();
    for (uint32_t i = 0; i < clients; ++i, ++next_client_) {
      clients_.push_back(std::make_unique<HistoryClient>("unix:" + scratch_.file("socket"), options, next_client_,
                                                         seed_ + next_client_, &clock_));
    }
  }

  // Connections go to the thread that has the fewest. Those of before must not count, or all come to one.
  void await_no_connections() const {
    constexpr int kMsMax = 10'000;
    for (int ms = 0; ms < kMsMax && state_->counters.connections.load() != 0; ++ms) base::sleep_us(1'000);
    ASSERT_EQ(state_->counters.connections.load(), 0U) << "the server does not close connections";
  }

  // All clients at once; then one of them reads every key, while nothing else happens.
  History run(uint64_t steps) {
    {
      std::vector<base::Thread> threads;
      for (const auto& client : clients_) {
        threads.emplace_back("client", [&client, steps] {
          for (uint64_t i = 0; i < steps && client->step(); ++i) continue;
        });
      }
    }
    History history;
    for (const auto& client : clients_) {
      EXPECT_EQ(client->error(), "");
      history.append(client->take());
    }
    EXPECT_TRUE(clients_[0]->read_all());
    at_end_ = clients_[0]->take();
    history.append(at_end_);
    return history;
  }

  // Rounds between which all is quiet, so that each is short enough for the judge of all keys. Returns the first bad
  // verdict. A round of which it cannot judge, because too much was in flight, counts as undecided.
  Verdict judge_rounds(uint64_t rounds, uint64_t steps, History* all) {
    std::vector<Cell> initial;
    if (!clients_[0]->read_all()) return Verdict::wrong(clients_[0]->error());
    at_end_ = clients_[0]->take();
    if (all != nullptr) all->append(at_end_);
    for (uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
      initial = at_end_.cells;
      const History history = run(steps);
      if (all != nullptr) all->append(history);
      Verdict verdict = check_whole(history, initial);
      const bool undecided = verdict.text.starts_with("too many");
      undecided_ += undecided ? 1 : 0;
      if (!verdict.ok && !undecided) return verdict;
    }
    return {};
  }

  testing::ScratchFolder scratch_;
  const uint64_t seed_;
  std::unique_ptr<DB> db_;
  std::optional<State> state_;
  std::unique_ptr<Service> service_;
  std::vector<std::unique_ptr<HistoryClient>> clients_;
  uint32_t next_client_ = 0;
  std::atomic<uint64_t> clock_{0};
  History at_end_;
  uint64_t undecided_ = 0;  // rounds
};

constexpr uint32_t kFewClients = 4;  // what is in flight at once is searched in every order
constexpr uint64_t kSteps = 12;

// Six keys: transactions, MSET, MSETNX, RANGE and snapshots as wholes, round by round, and each key through all rounds.
TEST_F(ServerLinearizability, CommandsOfFewConnectionsAreWhole) {
  connect(kFewClients, {.reads_many_at_once = true});
  const uint64_t rounds = testing::budget(20, 400, 12'000);
  History all;
  Verdict verdict = judge_rounds(rounds, kSteps, &all);
  EXPECT_TRUE(verdict.ok) << verdict.text;
  EXPECT_LE(undecided_, rounds / 10);
  verdict = check_registers(all);
  EXPECT_TRUE(verdict.ok) << verdict.text;
  testing::add_figure("server_linearizability_events", all.operations.size());
}

// Each key by itself, with long pipelines.
TEST_F(ServerLinearizability, KeysOfManyConnectionsAreRegisters) {
  connect(24, {.counters = 16, .strings = 100, .at_once_max = 5});
  const History history = run(testing::budget(20, 400, 5'000));
  const Verdict verdict = check_registers(history);
  EXPECT_TRUE(verdict.ok) << verdict.text;
  EXPECT_GT(state_->counters.operations.load(), state_->counters.groups.load());  // they were in flight together
  testing::add_figure("server_linearizability_events", history.operations.size());
}

struct Rule {
  uint64_t bit;
  const char* name;
  bool reads_many = false;
};
constexpr Rule kRules[] = {
    {kReadsNotChecked, "what EXEC has read may change before it writes"},
    {kWatchNotChecked, "a watched key may change before EXEC"},
    {kConflictIsDone, "EXEC replies though it was overtaken"},
    {kConditionIgnored, "what INCR, SET NX and GETSET have read may change"},
    {kJoinedPassed, "SET passes an MSET that its client sent before"},
    {kJoinedLate, "MSET replies before its batch is written"},
    {kSnapshotIsNow, "RANGE of a snapshot reads what is there now", true},
};

TEST_F(ServerLinearizability, TheLossOfEveryRuleIsNoticed) {
  uint64_t killed = 0;
  for (const Rule& rule : kRules) {
    connect(kFewClients, {.reads_many_at_once = rule.reads_many});
    testing::mutants_on.store(rule.bit);
    const Verdict verdict = judge_rounds(testing::budget(2'000, 2'000, 20'000), kSteps, nullptr);
    const bool noticed = !verdict.ok;
    testing::mutants_on.store(0);
    EXPECT_TRUE(noticed) << rule.name << ": nothing notices it" << verdict.text;
    killed += noticed ? 1 : 0;
    testing::add_row("mutants of the server", rule.name, {{"mutants", 1}, {"killed", noticed ? 1 : 0}});
  }
  testing::add_figure("mutants", std::size(kRules));
  testing::add_figure("mutants_killed", killed);
}

}  // namespace
}  // namespace bonsai::server
