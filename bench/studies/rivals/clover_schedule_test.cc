// SPDX-License-Identifier: Apache-2.0
// The Clover-like engine: histories are linearizable whatever the schedule, reused slabs mislead no reader, and the
// planted faults are found.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "bench/studies/rivals/hash.h"
#include "bench/studies/rivals/testing/clover_rig.h"
#include "bench/studies/rivals/testing/meanwhile.h"
#include "bench/studies/rivals/testing/mutants.h"

namespace bonsai::bench::rivals::clover {
namespace {

using bonsai::testing::budget;

// Room for this many slabs after the shortcuts of up to 16 keys.
StoreOptions store_of(size_t slabs, size_t metadata_workers = 1) {
  return {.keys_max = 16, .node_bytes = 128 * (1 + slabs), .metadata_workers = metadata_workers};
}

Counters& operator+=(Counters& sum, const Counters& one) {
  sum.outdated += one.outdated;
  sum.hops += one.hops;
  sum.jumps += one.jumps;
  sum.cas_lost += one.cas_lost;
  return sum;
}

// A client whose compute node now and then has an old cursor of a key, like a node that seldom uses the key.
class RewoundClient final : public Client {
 public:
  RewoundClient(Client* inner, CursorCache* cursors, uint64_t seed) : inner_(inner), cursors_(cursors), dice_(seed) {}

  Status get(std::string_view key, std::string* value) override {
    rewind(key);
    return inner_->get(key, value);
  }
  Status insert(std::string_view key, std::string_view value) override { return inner_->insert(key, value); }
  Status update(std::string_view key, std::string_view value) override {
    rewind(key);
    return inner_->update(key, value);
  }
  Status remove(std::string_view key) override { return inner_->remove(key); }

 private:
  void rewind(std::string_view key) {
    const uint64_t hash = hash_of(key, 1);
    Cursor now;
    if (!dice_.chance(1, 3) || !cursors_->find(hash, &now)) return;
    const auto [earlier, is_new] = earlier_.try_emplace(hash, now);
    if (is_new) return;
    cursors_->drop(hash);
    cursors_->put(hash, earlier->second);
    if (dice_.chance(1, 4)) earlier->second = now;
  }

  Client* const inner_;
  CursorCache* const cursors_;
  base::Random dice_;
  std::unordered_map<uint64_t, Cursor> earlier_;
};

struct Trial {
  bonsai::testing::Verdict verdict;
  Counters clients;
  MetadataServer::Counters server;
};

// Random clients of few keys, with so few slabs that they are used again and again.
Trial try_schedule(bool sim, uint64_t seed, const Shape& shape, const Judge::Mix& mix) {
  CloverRig rig({.sim = sim,
                 .seed = seed,
                 .store = store_of(kBuffersPerCall * shape.clients() + 12, 1 + seed % 4),
                 .cursors_max = seed % 3 == 0 ? size_t{1} : SIZE_MAX,
                 .compute_nodes = shape.compute_nodes});
  Judge judge(mix, shape.clients());
  std::vector<Counters> counters(shape.clients());
  rig.run(shape, [&](const Seat& seat) {
    const auto client = client_of(seat.connection, rig.node(seat.compute_node),
                                  {.operation_ms_max = sim ? uint64_t{5} : uint64_t{10'000},
                                   .buffers_ms_max = sim ? uint64_t{5} : uint64_t{10'000}});
    RewoundClient rewound(client.get(), &rig.node(seat.compute_node)->cursors(), base::splitmix64(seed + seat.client));
    judge.act(&rewound, seat.client, seed);
    counters[seat.client] = client->counters();
  });
  Trial trial{judge.verdict(), {}, rig.server().counters()};
  for (const Counters& one : counters) trial.clients += one;
  return trial;
}

constexpr Shape kSimShape{.compute_nodes = 2, .threads = 2, .coroutines = 1};
constexpr Judge::Mix kMix{
    .keys = 2, .inserts = 15, .updates = 45, .removes = 0, .value_bytes_max = 90, .operations = 90};

TEST(Clover, IsLinearizableUnderSeededSchedules) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Counters all;
  uint64_t recycled = 0;
  const uint64_t schedules = budget<uint64_t>(12, 60, 10'000);
  for (uint64_t i = 0; i < schedules; ++i) {
    // Few clients: each slab comes back sooner.
    const Trial trial = try_schedule(true, seed + i, i % 2 == 0 ? kSimShape : Shape{.compute_nodes = 2}, kMix);
    ASSERT_TRUE(trial.verdict) << "BONSAI_SEED=" << seed + i << "\n" << trial.verdict.text;
    all += trial.clients;
    recycled += trial.server.recycled;
  }
  EXPECT_GT(all.cas_lost, 5 * schedules);
  EXPECT_GT(all.hops, 5 * schedules);
  EXPECT_GT(all.jumps, schedules / 4);
  EXPECT_GT(all.outdated, schedules / 4);
  EXPECT_GT(recycled, 10 * schedules);
}

TEST(Clover, IsLinearizableOnThreads) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Counters all;
  for (uint64_t round = 0; round < budget<uint64_t>(2, 4, 100); ++round) {
    const Trial trial = try_schedule(false, seed + round, {.compute_nodes = 2, .threads = 2, .coroutines = 2},
                                     {.keys = 3,
                                      .inserts = 10,
                                      .updates = 50,
                                      .removes = 0,
                                      .value_bytes_max = 90,
                                      .operations = budget<uint64_t>(400, 600, 1'000)});
    ASSERT_TRUE(trial.verdict) << trial.verdict.text;
    EXPECT_GT(trial.server.recycled, 50u);
    all += trial.clients;
  }
  EXPECT_GT(all.cas_lost + all.hops, 0u);
}

// Whether a get notices changed bytes of a slab, and finds the record when the right bytes are back.
bool notices_damage(bool sim) {
  CloverRig rig({.sim = sim});
  bool noticed = false;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, rig.node(0));
    const auto impatient = client_of(connection, rig.node(0), {.operation_ms_max = 5});
    EXPECT_EQ("OK", text(client->insert(key(7), "abcdefgh")));
    const Store store({});
    std::byte* const at = rig.memory(0) + store.slab_at(store.handle_of(0)).offset + kRecordAt + 8;
    const uint64_t whole = base::word_at(at).load();
    base::word_at(at).store(whole ^ 0xff00);
    std::string value;
    noticed = impatient->get(key(7), &value).IsUnavailable();
    base::word_at(at).store(whole);
    EXPECT_EQ("OK", text(client->get(key(7), &value)));
    EXPECT_EQ(value, "abcdefgh");
  });
  return noticed;
}

// Whether a cursor to a slab that has come back with another version is noticed at once.
bool notices_slabs_used_anew() {
  CloverRig rig({.store = {.keys_max = 4, .node_bytes = 60 * 128}, .compute_nodes = 2});
  std::string value;
  rig.run_one([&](Connection* connection) {
    const auto reader = client_of(connection, rig.node(0), {.operation_ms_max = 1});
    const auto writer = client_of(connection, rig.node(1));
    EXPECT_EQ("OK", text(reader->insert(key(7), key(0))));
    for (uint64_t number = 1; number <= 150; ++number) {
      EXPECT_EQ("OK", text(writer->update(key(7), key(number))));
      CloverRig::collect(connection, rig.node(1));
    }
    static_cast<void>(reader->get(key(7), &value));
  });
  return value == key(150);
}

// Whether readers with the oldest possible cursor get linked values only, and none that is merely written, while few
// slabs are reused again and again: until their versions are used up, and after the epochs in which they rest.
bool old_cursors_mislead_nobody() {
  CloverRig rig({.store = store_of(20), .versions_end = 12, .compute_nodes = 2});
  bool misled = false;
  rig.run_one([&](Connection* connection) {
    const auto reader = client_of(connection, rig.node(0), {.operation_ms_max = 50});
    const auto writer = client_of(connection, rig.node(1), {.buffers_ms_max = 1});
    std::unique_ptr<Collector> collector;
    EXPECT_EQ("OK", text(Collector::make(connection, rig.node(1), &collector)));
    const uint64_t hash = hash_of(key(7), 1);
    uint64_t linked = 0;
    EXPECT_EQ("OK", text(writer->insert(key(7), key(linked))));
    std::string value;
    EXPECT_EQ("OK", text(reader->get(key(7), &value)));
    Cursor oldest;
    EXPECT_TRUE(rig.node(0)->cursors().find(hash, &oldest));
    const auto update = [&] {
      const Status status = writer->update(key(7), key(linked + 1));
      linked += status.ok() ? 1 : 0;
      size_t collected = 0;
      EXPECT_EQ("OK", text(collector->collect(&collected)));
      return status.ok();
    };
    const auto read_amid_it = [&] {
      rig.node(0)->cursors().drop(hash);
      rig.node(0)->cursors().put(hash, oldest);
      misled = misled || !reader->get(key(7), &value).ok() || value != key(linked);
    };
    const auto update_amid_reads = [&] {
      const Meanwhile amid("clover.swap", read_amid_it);
      const bool updated = update();
      base::step("clover.swap");  // if there was no slab
      return updated;
    };
    for (int i = 0; i < 300 && !misled && update_amid_reads(); ++i) {
    }
    EXPECT_GT(linked, 150u);
    EXPECT_TRUE(misled || rig.server().counters().parked > 15);
    base::sleep_ms((kEpochsParked * kEpochNs) / base::kNsPerMs + 1);
    for (int i = 0; i < 40 && !misled; ++i) EXPECT_TRUE(update_amid_reads());
  });
  return !misled;
}

TEST(Clover, ReadersVerifySlabs) {
  EXPECT_TRUE(notices_damage(true));
  EXPECT_TRUE(notices_damage(false));
}

TEST(Clover, SlabsThatComeBackMisleadNobody) {
  EXPECT_TRUE(notices_slabs_used_anew());
  EXPECT_TRUE(old_cursors_mislead_nobody());
}

// Whether nothing is retired before all reports of older versions have come; they come newest first.
bool gaps_keep_versions() {
  CloverRig rig({.compute_nodes = 2});
  bool kept = false;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, rig.node(0)), other = client_of(connection, rig.node(1));
    EXPECT_EQ("OK", text(client->insert(key(1), "version0")));
    EXPECT_EQ("OK", text(client->update(key(1), "version1")));
    EXPECT_EQ("OK", text(other->update(key(1), "version2")));
    CloverRig::collect(connection, rig.node(1));
    kept = rig.server().counters().retired == 0;
    CloverRig::collect(connection, rig.node(0));
    EXPECT_EQ(rig.server().counters().retired, 2u);
    std::string value;
    EXPECT_EQ("OK", text(client->get(key(1), &value)));
    EXPECT_EQ(value, "version2");
  });
  return kept && rig.server().counters().reports_early == 1;
}

TEST(Clover, ReportsMayComeInAnyOrder) { EXPECT_TRUE(gaps_keep_versions()); }

// Its unreported updates stay linked and are found; its buffers are lost.
TEST(Clover, OthersGoOnWhenAComputeNodeDies) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t trial = 0; trial < budget<uint64_t>(8, 30, 1'000); ++trial) {
    CloverRig rig({.seed = seed + trial, .compute_nodes = 2});
    constexpr uint64_t kKeys = 3;
    std::vector<uint64_t> acknowledged(1 + kKeys);
    bool dead = false;
    rig.run_without_collectors({.compute_nodes = 2, .threads = 2}, [&](const Seat& seat) {
      const auto client = client_of(seat.connection, rig.node(seat.compute_node), {.operation_ms_max = 100});
      base::Random dice(seed + trial + seat.client);
      if (seat.client == 0) {
        for (uint64_t number = 1; number <= kKeys; ++number) ASSERT_EQ("OK", text(client->insert(key(number), key(0))));
      }
      std::string value;
      if (seat.compute_node == 1) {
        // Both of its threads count up.
        for (uint64_t count = 1; !dead; ++count) {
          const uint64_t number = 1 + dice.below(kKeys);
          const Status status = client->update(key(number), key(count));
          if (status.ok()) acknowledged[number] = count;
          if (status.IsUnavailable()) return;
        }
        return;
      }
      if (seat.client == 1) return;
      for (uint64_t left = 20 + dice.below(100); left > 0; --left) ASSERT_EQ("OK", text(client->get(key(1), &value)));
      rig.kill(1);
      dead = true;
      for (uint64_t number = 1; number <= kKeys; ++number) {
        ASSERT_EQ("OK", text(client->get(key(number), &value)));
        EXPECT_TRUE(acknowledged[number] == 0 || value != key(0)) << "an update was lost";
        ASSERT_EQ("OK", text(client->update(key(number), "survivor")));
        ASSERT_EQ("OK", text(client->get(key(number), &value)));
        EXPECT_EQ(value, "survivor");
      }
    });
  }
}

TEST(Clover, CollectorsKeepWalksShort) {
  CloverRig rig({.seed = 5, .store = {.keys_max = 100, .node_bytes = size_t{512} << 10}, .compute_nodes = 2});
  uint64_t hops = 0, gets = 0;
  rig.run({.compute_nodes = 2, .threads = 4}, [&](const Seat& seat) {
    const auto client = client_of(seat.connection, rig.node(seat.compute_node));
    base::Random random(seat.client);
    std::string value;
    for (int i = 0; i < 60; ++i) {
      // Some keys are a lot more frequent than others.
      uint64_t number = 1;
      while (number < 100 && random.chance(3, 4)) ++number;
      if (i % 2 == 0) {
        ASSERT_EQ("OK", text(client->insert(key(number), "12345678")));
        continue;
      }
      const uint64_t before = client->counters().hops;
      const Status status = client->get(key(number), &value);
      ASSERT_TRUE(status.ok() || status.IsNotFound()) << text(status);
      hops += client->counters().hops - before;
      ++gets;
    }
  });
  const double mean = static_cast<double>(hops) / static_cast<double>(gets);
  std::printf("links followed per get: %.2f\n", mean);
  EXPECT_GT(mean, 0.0);
  EXPECT_LT(mean, 1.0);
}

TEST(Clover, PlantedFaultsAreFound) {
  const auto by_schedules = [] {
    for (uint64_t seed = 1; seed <= budget<uint64_t>(300, 1'000, 2'000); ++seed) {
      if (!try_schedule(true, seed, kSimShape, kMix).verdict) {
        std::printf("trial %llu: ", static_cast<unsigned long long>(seed));
        return true;
      }
    }
    return false;
  };
  const struct {
    const char* name;
    Mutant mutant;
    std::function<bool()> found;
  } faults[] = {
      {"slab unverified", kSlabUnverified, [] { return !notices_damage(true); }},
      {"version unchecked", kVersionUnchecked, [] { return !notices_slabs_used_anew(); }},
      {"lost swap believed", kLostSwapBelieved, by_schedules},
      {"gap retired", kGapRetired, [] { return !gaps_keep_versions(); }},
      {"versions go round", kVersionsGoRound, [] { return !old_cursors_mislead_nobody(); }},
      {"old cursor used", kOldCursorUsed, [] { return !old_cursors_mislead_nobody(); }},
      {"old epoch believed", kOldEpochBelieved, [] { return !old_cursors_mislead_nobody(); }},
  };
  for (const auto& fault : faults) {
    bonsai::testing::mutants_on.store(fault.mutant);
    const bool found = fault.found();
    bonsai::testing::mutants_on.store(0);
    std::printf("%s: %s\n", fault.name, found ? "found" : "not found");
    EXPECT_TRUE(found) << fault.name;
    bonsai::testing::add_figure("mutants", 1);
    bonsai::testing::add_figure("mutants_killed", found ? 1 : 0);
  }
}

}  // namespace
}  // namespace bonsai::bench::rivals::clover
