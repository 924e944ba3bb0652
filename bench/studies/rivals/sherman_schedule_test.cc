// SPDX-License-Identifier: Apache-2.0
// The Sherman-like engine: that histories are linearizable whatever the schedule, that the faults planted in it are
// found, and that it behaves as the published one does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/planted_fault.h"
#include "base/thread.h"
#include "bench/studies/rivals/sherman.h"
#include "bench/studies/rivals/testing/expectations.h"
#include "bench/studies/rivals/testing/mutants.h"
#include "bench/studies/rivals/testing/sherman_rig.h"

namespace bonsai::bench::rivals::sherman {
namespace {

using bonsai::testing::budget;

// Compute nodes of one tree.
class Nodes {
 public:
  Nodes(size_t count, ComputeNode::Options options) {
    for (size_t i = 0; i < count; ++i) {
      options.number = static_cast<uint32_t>(i);
      nodes_.push_back(std::make_unique<ComputeNode>(options));
    }
  }
  ComputeNode* operator[](size_t i) const { return nodes_[i].get(); }

 private:
  std::vector<std::unique_ptr<ComputeNode>> nodes_;
};

Counters& operator+=(Counters& sum, const Counters& one) {
  sum.locks_taken += one.locks_taken;
  sum.locks_busy += one.locks_busy;
  sum.handovers += one.handovers;
  sum.cache_hits += one.cache_hits;
  sum.cache_stale += one.cache_stale;
  sum.hops += one.hops;
  sum.pages_torn += one.pages_torn;
  sum.splits += one.splits;
  return sum;
}

struct Trial {
  bonsai::testing::Verdict verdict;
  Counters counters;
};

// Random clients of a tree of small pages and few locks, on two memory nodes.
Trial try_schedule(bool sim, uint64_t seed, const Shape& shape, const Judge::Mix& mix) {
  const TreeOptions tree{.layout = {.page_records_max = 5}, .locks_per_node = 4};
  Rig rig({.sim = sim,
           .seed = seed,
           .memory_nodes = 2,
           .bytes = sim ? size_t{256} << 10 : size_t{4} << 20,
           .fixed_bytes = fixed_bytes(tree)});
  make_tree(tree, rig.nodes());
  const Nodes nodes(shape.compute_nodes, {.tree = tree, .memory_nodes = 2, .cache_bytes_max = 8 * kPageBytes});
  Judge judge(mix, shape.clients());
  std::vector<Counters> counters(shape.clients());
  rig.run(shape, [&](const Seat& seat) {
    const auto client = client_of(
        seat.connection, nodes[seat.compute_node],
        {.heap = {.chunk_bytes = size_t{8} << 10}, .operation_ms_max = sim ? uint64_t{100} : uint64_t{10'000}});
    judge.act(client.get(), seat.client, seed);
    counters[seat.client] = client->counters();
  });
  Trial trial{judge.verdict(), {}};
  for (const Counters& one : counters) trial.counters += one;
  return trial;
}

constexpr Shape kSimShape{.compute_nodes = 2, .threads = 2, .coroutines = 1};
constexpr Judge::Mix kHot{.keys = 2, .inserts = 25, .updates = 30, .removes = 15};
constexpr Judge::Mix kGrowth{.keys = 60, .inserts = 60, .updates = 5, .removes = 5, .operations = 60};
const Judge::Mix& mix_of(uint64_t seed) { return seed % 2 == 0 ? kHot : kGrowth; }

TEST(Sherman, IsLinearizableUnderSeededSchedules) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Counters all;
  const uint64_t schedules = budget<uint64_t>(60, 400, 10'000);
  for (uint64_t i = 0; i < schedules; ++i) {
    const Trial trial = try_schedule(true, seed + i, kSimShape, mix_of(seed + i));
    ASSERT_TRUE(trial.verdict) << "BONSAI_SEED=" << seed + i << "\n" << trial.verdict.text;
    all += trial.counters;
  }
  EXPECT_GT(all.locks_busy, schedules);
  EXPECT_GT(all.handovers, schedules);
  EXPECT_GT(all.cache_hits, schedules);
  EXPECT_GT(all.cache_stale, schedules / 4);
  EXPECT_GT(all.hops, schedules / 10);
  EXPECT_GT(all.pages_torn, schedules / 40);
  EXPECT_GT(all.splits, 5 * schedules);
}

// Whether readers find each record that was inserted before, while its leaf may be splitting: a writer inserts keys in
// rising order, and three readers of another compute node, with a cache of its own, get the newest.
bool readers_find_all(bool sim, uint64_t seed) {
  const TreeOptions tree{.layout = {.page_records_max = 6}};
  Rig rig({.sim = sim, .seed = seed, .fixed_bytes = fixed_bytes(tree)});
  make_tree(tree, rig.nodes());
  const Nodes nodes(2, {.tree = tree});
  std::atomic<uint64_t> inserted{0};
  std::atomic<bool> found_all{true}, done{false};
  rig.run({.compute_nodes = 2, .threads = 3}, [&](const Seat& seat) {
    const auto client = client_of(seat.connection, nodes[seat.client == 0 ? 0 : 1], {.operation_ms_max = 1'000});
    for (uint64_t number = 1; seat.client == 0 && number <= 120; ++number) {
      if (!client->insert(key(number), key(number)).ok()) found_all.store(false);
      inserted.store(number);
    }
    if (seat.client == 0) done.store(true);
    base::Random random(seed + seat.client);
    std::string value;
    while (!done.load()) {
      const uint64_t newest = inserted.load();
      const uint64_t asked = newest - random.below(std::min<uint64_t>(newest, 4));
      if (asked == 0) {
        base::yield_thread();
      } else if (!client->get(key(asked), &value).ok() || value != key(asked)) {
        found_all.store(false);
      }
    }
  });
  return found_all.load();
}

TEST(Sherman, ReadersBesideSplitsMissNothing) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t i = 0; i < budget<uint64_t>(20, 100, 2'000); ++i) {
    ASSERT_TRUE(readers_find_all(true, seed + i)) << "BONSAI_SEED=" << seed + i;
    ASSERT_TRUE(i >= 10 || readers_find_all(false, seed + i));
  }
}

TEST(Sherman, IsLinearizableOnThreads) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t round = 0; round < budget<uint64_t>(2, 10, 100); ++round) {
    const Trial trial =
        try_schedule(false, seed + round, {.compute_nodes = 2, .threads = 2, .coroutines = 2},
                     {.keys = round % 2 == 0 ? 3u : 300u, .inserts = 40, .updates = 20, .operations = 1'000});
    ASSERT_TRUE(trial.verdict) << trial.verdict.text;
  }
}

TEST(Sherman, PlantedFaultsAreFound) {
  const uint64_t trials = 2'000;
  const auto by_schedules = bonsai::testing::within(
      trials, [](uint64_t seed) { return !try_schedule(true, seed, kSimShape, mix_of(seed)).verdict; });
  const auto by_readers = bonsai::testing::within(trials, [](uint64_t seed) { return !readers_find_all(true, seed); });
  bonsai::testing::expect_found({
      {"torn record believed", kTornRecordBelieved, by_schedules},
      {"absence unverified", kAbsenceUnverified, by_readers},
      {"page version kept", kPageVersionKept, by_readers},
      {"unlocked before the write", kUnlockedBeforeWrite, by_schedules},
      {"unlocked and handed on", kUnlockedAndHandedOn, by_schedules},
      {"lost lock believed", kLostLockBelieved, by_schedules},
      {"stale cache believed", kStaleCacheBelieved, by_readers},
  });
}

// Records that are there all the time are in every scan, in order and once, whatever is inserted meanwhile.
TEST(Sherman, ScansMissNothingThatStays) {
  for (const bool sim : {true, false}) {
    const TreeOptions tree{.layout = {.page_records_max = 6}, .locks_per_node = 64};
    Rig rig({.sim = sim, .bytes = size_t{8} << 20, .fixed_bytes = fixed_bytes(tree)});
    make_tree(tree, rig.nodes());
    const Nodes nodes(2, {.tree = tree});
    const uint64_t stay = 200;
    rig.run_one([&](Connection* connection) {
      const auto client = client_of(connection, nodes[0]);
      for (uint64_t number = 1; number <= stay; ++number) {
        ASSERT_EQ("OK", text(client->insert(key(10 * number), "stays..!")));
      }
    });
    rig.run({.compute_nodes = 2, .threads = 2}, [&](const Seat& seat) {
      const auto client = client_of(seat.connection, nodes[seat.compute_node], {.reads_in_flight_max = 8});
      base::Random random(seat.client);
      if (seat.client % 2 == 0) {
        for (int i = 0; i < 1'000; ++i) {
          const std::string moving = key(10 * random.below(stay) + 1 + random.below(9));
          const Status status = random.chance(1, 3) ? client->remove(moving) : client->insert(moving, "moves..!");
          ASSERT_TRUE(status.ok() || status.IsNotFound()) << text(status);
        }
        return;
      }
      for (int i = 0; i < 30; ++i) {
        const uint64_t first = 1 + random.below(stay);
        std::vector<ShermanClient::Found> found;
        ASSERT_EQ("OK", text(client->scan(key(10 * first), 3 * stay, &found)));
        expect_those_that_stay(found, first, stay, 3 * stay, [](uint64_t number) { return key(10 * number); });
        if (::testing::Test::HasFatalFailure()) return;
      }
    });
  }
}

TEST(Sherman, ScansStopWhereTheyAreToAndEndWithTheTree) {
  const TreeOptions tree{.layout = {.key_bytes = 24}};
  Rig rig({.sim = true, .bytes = size_t{1} << 20, .fixed_bytes = fixed_bytes(tree)});
  make_tree(tree, rig.nodes());
  const Nodes nodes(1, {.tree = tree});
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, nodes[0]);
    std::vector<std::string> keys;
    for (int i = 0; i < 300; ++i) keys.push_back("user" + std::to_string(base::splitmix64(i)));
    for (const std::string& each : keys) ASSERT_EQ("OK", text(client->insert(each, "12345678")));
    std::sort(keys.begin(), keys.end());
    std::vector<ShermanClient::Found> found;
    for (const size_t limit : {size_t{0}, size_t{1}, size_t{130}, size_t{1'000}}) {
      ASSERT_EQ("OK", text(client->scan(keys[50], limit, &found)));
      ASSERT_EQ(found.size(), std::min<size_t>(limit, 250));
      for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].key, keys[50 + i]);
    }
  });
}

TEST(Sherman, ReadersVerifyAndWritersGiveUp) {
  for (const bool sim : {true, false}) {
    const TreeOptions tree{.locks_per_node = 1};
    Rig rig({.sim = sim, .fixed_bytes = fixed_bytes(tree)});
    make_tree(tree, rig.nodes());
    const Nodes nodes(1, {.tree = tree});
    rig.run_one([&](Connection* connection) {
      const auto client = client_of(connection, nodes[0]);
      const auto impatient = client_of(connection, nodes[0], {.operation_ms_max = 5});
      ASSERT_EQ("OK", text(client->insert(key(7), "abcdefgh")));
      std::string value;
      // The first record; a bit of its value.
      std::byte* const word = rig.nodes()[0]->data() + fixed_bytes(tree) - kPageBytes + 64 + 8;
      const uint64_t whole = base::word_at(word).load();
      base::word_at(word).store(whole ^ 0x10);
      EXPECT_TRUE(impatient->get(key(7), &value).IsUnavailable());
      EXPECT_TRUE(impatient->get(key(8), &value).IsUnavailable());
      base::word_at(word).store(whole);
      EXPECT_EQ("OK", text(client->get(key(7), &value)));
      EXPECT_EQ(value, "abcdefgh");
      // The client that died has the lock.
      std::byte* const lock = rig.nodes()[0]->data() + kFirstLockAt;
      base::word_at(lock).store(99);
      EXPECT_TRUE(impatient->update(key(7), "ABCDEFGH").IsUnavailable());
      EXPECT_TRUE(impatient->remove(key(7)).IsUnavailable());
      EXPECT_EQ("OK", text(client->get(key(7), &value)));
      base::word_at(lock).store(0);
      EXPECT_EQ("OK", text(impatient->update(key(7), "ABCDEFGH")));
    });
  }
}

TEST(Sherman, RefusesWhatDoesNotFit) {
  const TreeOptions tree{.layout = {.page_records_max = 5}};
  Rig rig({.sim = true, .bytes = fixed_bytes(tree) + (size_t{16} << 10), .fixed_bytes = fixed_bytes(tree)});
  make_tree(tree, rig.nodes());
  const Nodes nodes(1, {.tree = tree});
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, nodes[0], {.heap = {.chunk_bytes = size_t{4} << 10}});
    std::string value;
    EXPECT_TRUE(client->insert("short", "12345678").IsInvalidArgument());
    EXPECT_TRUE(client->get(std::string(8, '\xff'), &value).IsInvalidArgument());
    EXPECT_TRUE(client->insert(key(1), "123456789").IsInvalidArgument());
    EXPECT_TRUE(client->update(key(1), std::string(8, '\0')).IsInvalidArgument());
    Status status;
    uint64_t stored = 0;
    while (status.ok()) status = client->insert(key(++stored), "12345678");
    EXPECT_TRUE(status.IsNoSpace()) << text(status);
    EXPECT_TRUE(client->get(key(stored), &value).IsNotFound());
    for (uint64_t number = 1; number < stored; ++number) EXPECT_EQ("OK", text(client->get(key(number), &value)));
    EXPECT_EQ("OK", text(client->remove(key(1))));
    EXPECT_EQ("OK", text(client->insert(key(1), "87654321")));
  });
}

// CASes for a lock per update, of eight threads of one compute node on one key.
double lock_cas_per_update(bool local_locks) {
  const TreeOptions tree{};
  Rig rig({.sim = true, .fixed_bytes = fixed_bytes(tree)});
  make_tree(tree, rig.nodes());
  const Nodes nodes(1, {.tree = tree, .local_locks = local_locks});
  rig.run_one([&](Connection* connection) {
    EXPECT_EQ("OK", text(client_of(connection, nodes[0])->insert(key(1), "12345678")));
  });
  Counters all;
  const uint64_t updates = 100;
  rig.run({.threads = 8}, [&](const Seat& seat) {
    const auto client = client_of(seat.connection, nodes[0]);
    for (uint64_t i = 0; i < updates; ++i) EXPECT_EQ("OK", text(client->update(key(1), "abcdefgh")));
    all += client->counters();
  });
  return static_cast<double>(all.locks_taken + all.locks_busy) / static_cast<double>(8 * updates);
}

TEST(Sherman, LocalLocksKeepContentionOffTheFabric) {
  const double with = lock_cas_per_update(true), without = lock_cas_per_update(false);
  std::printf("CASes for a lock per update, 8 threads on one key: %.3f with local locks, %.2f without\n", with,
              without);
  EXPECT_NEAR(with, 1.0 / 9, .015);
  EXPECT_GT(without, 1.0);
}

TEST(Sherman, LeavesFillAsPublished) {
  const TreeOptions tree{.layout = {.form = Layout::Form::kPublished}};
  Rig rig({.sim = false, .bytes = size_t{16} << 20, .fixed_bytes = fixed_bytes(tree)});
  make_tree(tree, rig.nodes());
  const Nodes nodes(1, {.tree = tree});
  const uint64_t records = 200'000;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, nodes[0]);
    for (uint64_t number = 1; number <= records; ++number) {
      ASSERT_EQ("OK", text(client->insert(key(base::splitmix64(number)), "12345678")));
    }
    uint64_t leaves = 0;
    const std::byte* const pages = rig.nodes()[0]->data();
    for (Address at{0, fixed_bytes(tree) - kPageBytes}; at.offset != 0; ++leaves) {
      std::array<std::byte, kPageBytes> image;
      base::racy_load(image.data(), pages + at.offset, image.size());
      Head head;
      ASSERT_TRUE(Page(tree.layout, at, image.data()).read_head(&head));
      at = head.sibling;
    }
    const double fill = static_cast<double>(records) / static_cast<double>(leaves * tree.layout.records_max(0));
    std::printf("fill of leaves after a random load: %.3f\n", fill);
    EXPECT_GE(fill, .68);
    EXPECT_LE(fill, .70);
  });
}

}  // namespace
}  // namespace bonsai::bench::rivals::sherman
