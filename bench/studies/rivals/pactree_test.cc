// SPDX-License-Identifier: Apache-2.0
// The PACTree-like index over paging: what each operation costs, that histories are linearizable whatever the schedule,
// that the faults planted in it are found, and how often its pages are here.
#include "bench/studies/rivals/pactree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "bench/studies/rivals/testing/expectations.h"
#include "bench/studies/rivals/testing/mutants.h"
#include "bench/studies/rivals/testing/pactree_rig.h"
#include "rdma/testing/budget.h"

namespace bonsai::bench::rivals::pactree {
namespace {

using bonsai::testing::budget;

class PactreeBudget : public ::testing::TestWithParam<bool> {
 protected:
  // An index of keys 10, 20, ... that came in this order: nodes of 32 pairs, in order, three to a page.
  void on_index(uint64_t keys, const std::function<void(PactreeClient&)>& body) {
    PactreeRig rig(GetParam(), 1, {.frames = 8, .node_bytes = size_t{1} << 20});
    rig.run_one([&](Connection* connection) {
      rig_ = &rig;
      connection_ = connection;
      PactreeClient client(connection, rig.node(), {});
      for (uint64_t number = 1; number <= keys; ++number) {
        ASSERT_EQ("OK", text(client.insert(key(10 * number), key(number))));
      }
      body(client);
    });
  }
  void expect_cost(uint64_t pages, const std::function<Status()>& operation) {
    const rdma::Budget budget(
        connection_->worker(),
        {.round_trips = pages, .doorbells = pages, .messages = pages, .bytes = PageCache::kPageBytes * pages});
    ASSERT_EQ("OK", text(operation()));
    bonsai::testing::add_figure("verb_budgets", 1);
  }
  // Has all pages written back, and others in their place.
  void chill() {
    Batch batch(connection_);
    PageCache& pages = rig_->node()->pages();
    size_t written = 1;
    while (written > 0) ASSERT_EQ("OK", text(pages.write_back(true, &batch, &written)));
    PageCache::Page page;
    for (uint64_t number = 200; number < 216; ++number) {
      ASSERT_EQ("OK", text(pages.hold(number, &batch, Limit("test", 1'000), &page)));
    }
  }

  PactreeRig* rig_ = nullptr;
  Connection* connection_ = nullptr;
  std::string value_;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, PactreeBudget, ::testing::Bool(), name_of_fabric);

TEST_P(PactreeBudget, OfEachOperation) {
  on_index(400, [&](PactreeClient& client) {
    EXPECT_EQ(rig_->node()->data_nodes(), 12u);
    EXPECT_EQ(client.counters().splits, 11u);
    EXPECT_EQ(rig_->node()->lag(), 11u);
    // The search layer has one node: a walk of four pages.
    chill();
    const uint64_t hops = client.counters().hops;
    expect_cost(4, [&] { return client.get(key(4'000), &value_); });
    EXPECT_EQ(value_, key(400));
    EXPECT_EQ(client.counters().hops - hops, 11u);
    expect_cost(0, [&] { return client.get(key(4'000), &value_); });
    // The search layer has all nodes.
    EXPECT_EQ(rig_->node()->apply_log(), 11u);
    EXPECT_EQ(rig_->node()->lag(), 0u);
    for (const bool cold : {true, false}) {
      const uint64_t page = cold ? 1 : 0;
      if (cold) chill();
      expect_cost(page, [&] { return client.get(key(2'000), &value_); });
      if (cold) chill();
      expect_cost(page, [&] { return client.update(key(2'000), "abcdefgh"); });
      if (cold) chill();
      expect_cost(page, [&] { return client.remove(key(2'000)); });
      if (cold) chill();
      expect_cost(page, [&] { return client.insert(key(2'000), "ABCDEFGH"); });
    }
    // Three nodes of a page, and the next page's first.
    chill();
    std::vector<PactreeClient::Found> found;
    expect_cost(2, [&] { return client.scan(key(10 * (3 * 32 + 1)), 100, &found); });
    ASSERT_EQ(found.size(), 100u);
    EXPECT_EQ(found[0].key, key(970));
    EXPECT_EQ(found[99].value, key(196));
  });
}

TEST_P(PactreeBudget, OfASplit) {
  on_index(64, [&](PactreeClient& client) {
    // The new nodes are on the page of the old one, the third is not; it was never written.
    for (uint64_t number = 1; number <= 3; ++number) {
      while (client.counters().splits < number) {
        static uint64_t odd = 1;
        expect_cost(0, [&] { return client.insert(key(odd += 2), "12345678"); });
      }
    }
    EXPECT_EQ(rig_->node()->data_nodes(), 4u);
  });
}

// Whether random operations of one client answer as an ordered map does. Pages come and go all the time.
bool agrees_with_a_map(uint64_t seed) {
  PactreeRig rig(true, seed, {.frames = 8, .memory_nodes = 2, .node_bytes = size_t{256} << 10});
  bool agrees = true;
  rig.run_one([&](Connection* connection) {
    PactreeClient client(connection, rig.node(), {.operation_ms_max = 1'000});
    Background background(connection, rig.node());
    std::map<std::string, std::string> model;
    base::Random dice(seed);
    std::string value;
    for (int i = 0; i < 6'000 && agrees; ++i) {
      const std::string chosen = key(dice.below(3'000));
      const uint64_t action = dice.below(100);
      const auto known = model.find(chosen);
      if (action < 50) {
        model[chosen] = key(static_cast<uint64_t>(i));
        agrees = client.insert(chosen, model[chosen]).ok();
      } else if (action < 60) {
        const Status status = client.update(chosen, "updated!");
        agrees = known == model.end() ? status.IsNotFound() : status.ok();
        if (known != model.end()) known->second = "updated!";
      } else if (action < 65) {
        const Status status = client.remove(chosen);
        agrees = known == model.end() ? status.IsNotFound() : status.ok();
        if (known != model.end()) model.erase(known);
      } else if (action < 90) {
        const Status status = client.get(chosen, &value);
        agrees = known == model.end() ? status.IsNotFound() : status.ok() && value == known->second;
      } else if (action < 93) {
        std::vector<PactreeClient::Found> found;
        agrees = client.scan(chosen, 150, &found).ok();
        auto expected = model.lower_bound(chosen);
        for (size_t at = 0; at < found.size() && agrees; ++at, ++expected) {
          agrees = expected != model.end() && found[at].key == expected->first && found[at].value == expected->second;
        }
        agrees = agrees && (found.size() == 150 || expected == model.end());
      } else if (action < 94) {
        agrees = background.round().ok();
      }
    }
  });
  return agrees;
}

TEST(Pactree, AgreesWithAMap) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t i = 0; i < budget<uint64_t>(3, 20, 500); ++i) {
    ASSERT_TRUE(agrees_with_a_map(seed + i)) << "BONSAI_SEED=" << seed + i;
  }
}

struct Trial {
  bonsai::testing::Verdict verdict;
  Counters clients;
  PageCache::Counters pages;
};

// Random clients of an index over a cache of few pages, while background work runs.
Trial try_schedule(bool sim, uint64_t seed, size_t threads, size_t coroutines, const Judge::Mix& mix) {
  PactreeRig rig(sim, seed, {.frames = 8, .read_ahead_pages = seed % 3 == 0 ? size_t{4} : size_t{1}});
  const Shape shape{.threads = threads + 1, .coroutines = coroutines};
  const size_t clients = threads * coroutines;
  Judge judge(mix, clients);
  // Enough records that pages come and go.
  rig.run_one([&](Connection* connection) {
    PactreeClient client(connection, rig.node(), {});
    base::Random random(seed);
    for (int i = 0; i < 1'500; ++i) {
      // Beside those of the judge, which as numbers have their first byte only.
      const uint64_t beside = random.below(mix.keys + 2) << 56 | (random.next() >> 8);
      ASSERT_EQ("OK", text(client.insert(key(beside), "12345678")));
    }
  });
  std::vector<Counters> counters(clients);
  std::atomic<size_t> acting{clients};
  rig.run(shape, [&](const Seat& seat) {
    if (seat.client >= clients) {
      Background background(seat.connection, rig.node());
      EXPECT_EQ("OK", text(background.run([&] { return acting.load() == 0; })));
      return;
    }
    PactreeClient client(seat.connection, rig.node(), {.operation_ms_max = sim ? uint64_t{20} : uint64_t{10'000}});
    judge.act(&client, seat.client, seed);
    counters[seat.client] = client.counters();
    --acting;
  });
  Trial trial{judge.verdict(), {}, rig.node()->pages().counters()};
  for (const Counters& one : counters) {
    trial.clients.hops += one.hops;
    trial.clients.splits += one.splits;
  }
  return trial;
}

constexpr Judge::Mix kMix{.keys = 40, .inserts = 35, .updates = 20, .removes = 15, .operations = 60};

TEST(Pactree, IsLinearizableUnderSeededSchedules) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Trial all{};
  const uint64_t schedules = budget<uint64_t>(6, 40, 5'000);
  for (uint64_t i = 0; i < schedules; ++i) {
    const Trial trial = try_schedule(true, seed + i, 4, 1, kMix);
    ASSERT_TRUE(trial.verdict) << "BONSAI_SEED=" << seed + i << "\n" << trial.verdict.text;
    all.clients.hops += trial.clients.hops;
    all.pages.faults += trial.pages.faults;
    all.pages.dirty_victims += trial.pages.dirty_victims;
    all.pages.read_ahead += trial.pages.read_ahead;
    all.pages.written_back += trial.pages.written_back;
  }
  EXPECT_GT(all.clients.hops, schedules);
  EXPECT_GT(all.pages.faults, 200 * schedules);
  EXPECT_GT(all.pages.dirty_victims, 10 * schedules);
  EXPECT_GT(all.pages.read_ahead, 0u);
  EXPECT_GT(all.pages.written_back, 0u);
}

TEST(Pactree, IsLinearizableOnThreads) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  uint64_t faults = 0;
  for (uint64_t round = 0; round < budget<uint64_t>(2, 10, 100); ++round) {
    const Trial trial =
        try_schedule(false, seed + round, 2, 2,
                     {.keys = round % 2 == 0 ? 5u : 200u, .inserts = 40, .updates = 20, .operations = 1'000});
    ASSERT_TRUE(trial.verdict) << trial.verdict.text;
    faults += trial.pages.faults;
  }
  EXPECT_GT(faults, 100u);
}

// Records that are there all the time are in every scan, in order and once, whatever is inserted meanwhile.
TEST(Pactree, ScansMissNothingThatStays) {
  for (const bool sim : {true, false}) {
    PactreeRig rig(sim, 1, {.frames = 8});
    constexpr uint64_t kStay = 400;
    rig.run_one([&](Connection* connection) {
      PactreeClient client(connection, rig.node(), {});
      for (uint64_t number = 1; number <= kStay; ++number) {
        ASSERT_EQ("OK", text(client.insert(key(10 * number), "stays..!")));
      }
    });
    rig.run({.threads = 4}, [&](const Seat& seat) {
      PactreeClient client(seat.connection, rig.node(), {});
      base::Random dice(seat.client);
      if (seat.client < 2) {
        for (int i = 0; i < 400; ++i) {
          const std::string moving = key(10 * dice.below(kStay) + 1 + dice.below(9));
          const Status status = dice.chance(1, 4) ? client.remove(moving) : client.insert(moving, "moves..!");
          ASSERT_TRUE(status.ok() || status.IsNotFound()) << text(status);
          if (i % 50 == 0) rig.node()->apply_log();
        }
        return;
      }
      for (int i = 0; i < 20; ++i) {
        const uint64_t first = 1 + dice.below(kStay);
        std::vector<PactreeClient::Found> found;
        ASSERT_EQ("OK", text(client.scan(key(10 * first), 3 * kStay, &found)));
        expect_those_that_stay(found, first, kStay, 3 * kStay, [](uint64_t number) { return key(10 * number); });
        if (::testing::Test::HasFatalFailure()) return;
      }
    });
  }
}

TEST(Pactree, RefusesWhatDoesNotFit) {
  for (const bool sim : {true, false}) {
    PactreeRig rig(sim, 1, {.frames = 8, .node_bytes = 4 * PageCache::kPageBytes});
    rig.run_one([&](Connection* connection) {
      PactreeClient client(connection, rig.node(), {});
      std::string value;
      std::vector<PactreeClient::Found> found;
      EXPECT_TRUE(client.get(key(1), &value).IsNotFound());
      EXPECT_TRUE(client.update(key(1), "12345678").IsNotFound());
      EXPECT_TRUE(client.remove(key(1)).IsNotFound());
      EXPECT_EQ("OK", text(client.scan(key(1), 10, &found)));
      EXPECT_TRUE(found.empty());
      EXPECT_TRUE(client.insert("short", "12345678").IsInvalidArgument());
      EXPECT_TRUE(client.insert(key(1), "123456789").IsInvalidArgument());
      EXPECT_TRUE(client.update(key(1), "").IsInvalidArgument());
      EXPECT_TRUE(client.get("ninebytes", &value).IsInvalidArgument());
      EXPECT_TRUE(client.remove("").IsInvalidArgument());
      EXPECT_TRUE(client.scan("?", 1, &found).IsInvalidArgument());
      Status status;
      uint64_t stored = 0;
      while (status.ok()) status = client.insert(key(++stored), "12345678");
      EXPECT_TRUE(status.IsNoSpace()) << text(status);
      EXPECT_EQ(rig.node()->data_nodes(), 12u);
      EXPECT_TRUE(client.get(key(stored), &value).IsNotFound());
      for (uint64_t number = 1; number < stored; ++number) ASSERT_EQ("OK", text(client.get(key(number), &value)));
      EXPECT_EQ("OK", text(client.remove(key(stored - 1))));
      EXPECT_EQ("OK", text(client.insert(key(stored), "12345678")));
      EXPECT_EQ("OK", text(client.scan(key(0), stored, &found)));
      EXPECT_EQ(found.size(), stored - 1);
      EXPECT_EQ("OK", text(client.scan(key(0), 0, &found)));
      EXPECT_TRUE(found.empty());
    });
  }
}

// The hit ratio of LRU by Che's approximation: a page is in the cache if it was used within a time that is equal for
// all pages.
double hit_ratio_of(const std::vector<double>& chances, double frames) {
  double low = 0, high = 1;
  const auto here = [&](double time) {
    double sum = 0;
    for (const double chance : chances) sum += 1 - std::exp(-chance * time);
    return sum;
  };
  while (here(high) < frames) high *= 2;
  for (int i = 0; i < 60; ++i) (here((low + high) / 2) < frames ? low : high) = (low + high) / 2;
  double hits = 0;
  for (const double chance : chances) hits += chance * (1 - std::exp(-chance * low));
  return hits;
}

TEST(Pactree, PagesAreHereAsOftenAsTheirModelSays) {
  const uint64_t keys = budget<uint64_t>(24'000, 200'000, 1'000'000);
  std::vector<double> zipf(keys);
  double sum = 0;
  for (uint64_t rank = 0; rank < keys; ++rank) zipf[rank] = sum += 1 / std::pow(static_cast<double>(rank + 1), .99);
  for (const double share : {.25, .5, .75}) {
    // 45 pairs to a node, three nodes to a page.
    const auto frames = static_cast<size_t>(share * static_cast<double>(keys) / (3 * 45));
    PactreeRig rig(false, 1, {.frames = frames, .node_bytes = size_t{keys} * 64 + (size_t{1} << 20)});
    rig.run_one([&](Connection* connection) {
      PactreeClient client(connection, rig.node(), {});
      for (uint64_t i = 0; i < keys; ++i) {
        ASSERT_EQ("OK", text(client.insert(key(base::splitmix64(i)), "12345678")));
        if (i % 1'000 == 0) rig.node()->apply_log();
      }
      rig.node()->apply_log();
      const uint64_t pages = (rig.node()->data_nodes() + kNodesPerPage - 1) / kNodesPerPage;
      EXPECT_LT(rig.node()->search_layer_bytes(), pages * PageCache::kPageBytes / 20);
      for (const bool uniform : {true, false}) {
        std::vector<double> chances(pages);
        for (uint64_t rank = 0; rank < keys; ++rank) {
          const double chance =
              uniform ? 1 / static_cast<double>(keys) : (zipf[rank] - (rank == 0 ? 0 : zipf[rank - 1])) / sum;
          chances[ComputeNode::page_of(rig.node()->search(base::splitmix64(rank)))] += chance;
        }
        base::Random dice(7);
        std::string value;
        const uint64_t gets = 20 * pages;
        PageCache::Counters before{};
        for (uint64_t i = 0; i < 2 * gets; ++i) {
          if (i == gets) before = rig.node()->pages().counters();
          const double point = static_cast<double>(dice.below(1u << 30)) / (1u << 30) * sum;
          const auto rank =
              uniform ? dice.below(keys)
                      : static_cast<uint64_t>(std::lower_bound(zipf.begin(), zipf.end(), point) - zipf.begin());
          ASSERT_EQ("OK", text(client.get(key(base::splitmix64(rank)), &value)));
        }
        const double faults = static_cast<double>(rig.node()->pages().counters().faults - before.faults);
        const double hit_ratio = 1 - faults / static_cast<double>(gets);
        const double expected = hit_ratio_of(chances, static_cast<double>(frames));
        std::printf("%s, %.0f %% of %llu pages here: hit ratio %.3f (model: %.3f)\n", uniform ? "uniform" : "zipf .99",
                    100 * static_cast<double>(frames) / static_cast<double>(pages),
                    static_cast<unsigned long long>(pages), hit_ratio, expected);
        EXPECT_NEAR(hit_ratio, expected, .03);
      }
    });
  }
}

TEST(Pactree, PlantedFaultsAreFound) {
  const auto by_map = [](uint64_t seed) { return !agrees_with_a_map(seed); };
  const auto by_schedules = [](uint64_t seed) { return !try_schedule(true, seed, 4, 1, kMix).verdict; };
  const struct {
    const char* name;
    Mutant mutant;
    std::function<bool(uint64_t)> found;
  } faults[] = {
      {"victim not written", kVictimUnwritten, by_map},
      {"never walks on", kNeverWalksOn, by_map},
      {"page used before it came", kPageUsedEarly, by_schedules},
      {"victim used while it goes", kVictimUsed, by_schedules},
  };
  for (const auto& fault : faults) {
    bonsai::testing::mutants_on.store(fault.mutant);
    bool found = false;
    uint64_t seed = 0;
    while (!found && seed < 200) found = fault.found(++seed);
    bonsai::testing::mutants_on.store(0);
    std::printf("%s: found by trial %llu\n", fault.name, static_cast<unsigned long long>(seed));
    EXPECT_TRUE(found) << fault.name;
    bonsai::testing::add_figure("mutants", 1);
    bonsai::testing::add_figure("mutants_killed", found ? 1 : 0);
  }
}

}  // namespace
}  // namespace bonsai::bench::rivals::pactree
