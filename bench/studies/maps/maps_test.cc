// SPDX-License-Identifier: Apache-2.0
// The maps: right answers of one thread, linearizability under seeded schedules and on threads, memory given back, and
// faults planted in them are found.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/planted_fault.h"
#include "base/thread.h"
#include "bench/studies/maps/ctrie.h"
#include "bench/studies/maps/kary_tree.h"
#include "bench/studies/maps/kiwi.h"
#include "bench/studies/maps/skip_list.h"
#include "bench/studies/maps/snap_tree.h"
#include "bench/studies/maps/testing/mutants.h"
#include "bench/studies/maps/testing/rig.h"

namespace bonsai::bench::maps {
namespace {

using bonsai::testing::budget;

struct Kind {
  const char* name;
  MakeMap make;
  MakeMap make_small;  // whose structure changes every few operations
};

const Kind kKinds[] = {
    {"skip_list", [] { return std::make_unique<SkipListMap>(); }, [] { return std::make_unique<SkipListMap>(); }},
    {"kiwi", [] { return std::make_unique<Kiwi>(); },
     [] { return std::make_unique<Kiwi>(KiwiOptions{.chunk_cells = 20, .updates_max = 4}); }},
    {"kary_tree", [] { return std::make_unique<KaryTree>(); },
     [] { return std::make_unique<KaryTree>(KaryTreeOptions{.k = 3}); }},
    {"ctrie", [] { return std::make_unique<Ctrie>(); },
     [] { return std::make_unique<Ctrie>(CtrieOptions{.bits = 1}); }},
    {"snap_tree", [] { return std::make_unique<SnapTree>(); }, [] { return std::make_unique<SnapTree>(); }},
};

class EachMap : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Maps, EachMap, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

uint64_t seed_of_test() {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

using Model = std::map<uint64_t, uint64_t>;

std::vector<Record> first_of(const Model& model, uint64_t from, uint64_t to, size_t limit) {
  std::vector<Record> records;
  for (auto at = model.lower_bound(from); at != model.end() && at->first <= to && records.size() < limit; ++at) {
    records.push_back({at->first, at->second});
  }
  return records;
}

void compare_with_model(Map* map, uint64_t seed, uint64_t keys, uint64_t turns) {
  base::Random random(seed);
  Model model;
  std::vector<Record> records;
  for (uint64_t turn = 1; turn <= turns; ++turn) {
    const uint64_t key = random.below(keys) == 0 ? UINT64_MAX : random.below(keys);
    switch (random.below(8)) {
      case 0:
      case 1:
      case 2:
        map->put(key, turn);
        model[key] = turn;
        break;
      case 3:
      case 4:
        map->remove(key);
        model.erase(key);
        break;
      case 5: {
        const uint64_t to = random.chance(1, 4) ? UINT64_MAX : key + random.below(keys);
        const size_t limit = random.chance(1, 2) ? SIZE_MAX : random.below(20);
        map->scan(key, to, limit, &records);
        ASSERT_EQ(records, first_of(model, key, to, limit)) << "from " << key << " to " << to;
        break;
      }
      default: {
        uint64_t value = 0;
        const auto known = model.find(key);
        ASSERT_EQ(map->get(key, &value), known != model.end()) << key;
        if (known != model.end()) {
          ASSERT_EQ(value, known->second);
        }
      }
    }
  }
}

TEST_P(EachMap, AnswersAsAModelDoes) {
  const uint64_t seed = seed_of_test();
  compare_with_model(GetParam().make().get(), seed, 2'000, budget<uint64_t>(10'000, 60'000, 400'000));
  compare_with_model(GetParam().make_small().get(), seed + 1, 300, budget<uint64_t>(5'000, 20'000, 100'000));
  compare_with_model(GetParam().make_small().get(), seed + 2, 5, 2'000);
}

TEST_P(EachMap, IsLinearizableUnderSeededSchedules) {
  const uint64_t seed = seed_of_test();
  const uint64_t schedules = budget<uint64_t>(2'000, 6'000, 300'000);
  uint64_t steps = 0;
  for (uint64_t i = 0; i < schedules; ++i) {
    Mix mix;
    mix.keys = 1 + i % 6;
    mix.before_max = i % 2 == 0 ? 12 : 40;
    const bonsai::testing::Verdict verdict = run_schedule(GetParam().make_small, mix, seed + i, &steps);
    ASSERT_TRUE(verdict) << "BONSAI_SEED=" << seed + i << "\n" << verdict.text;
  }
  EXPECT_GT(steps, 15 * schedules) << "the maps' steps are not taken";
  bonsai::testing::add_figure("map_schedules", schedules);
}

TEST_P(EachMap, IsLinearizableOnThreads) {
  const uint64_t seed = seed_of_test();
  for (uint64_t round = 0; round < budget<uint64_t>(2, 4, 60); ++round) {
    const Mix mix{.keys = round % 2 == 0 ? uint64_t{12} : uint64_t{300},
                  .before_max = 0,
                  .operations = budget<uint64_t>(3'000, 10'000, 30'000),
                  .clients = 3};
    const bonsai::testing::Verdict verdict =
        run_threads(round % 3 == 0 ? GetParam().make : GetParam().make_small, mix, seed + round);
    ASSERT_TRUE(verdict) << verdict.text;
  }
}

// Updates of few keys and removals of all must not pile up.
TEST_P(EachMap, GivesMemoryBack) {
  const std::unique_ptr<Map> map = GetParam().make();
  for (uint64_t key = 0; key < 1'000; ++key) map->put(key, key);
  const uint64_t filled = map->bytes();
  EXPECT_GT(filled, 1'000 * sizeof(Record));
  for (uint64_t turn = 0; turn < 100'000; ++turn) map->put(turn % 1'000, turn);
  EXPECT_LT(map->bytes(), 2 * filled + (size_t{1} << 20));
  for (uint64_t key = 0; key < 1'000; ++key) map->remove(key);
  std::vector<Record> records;
  map->scan(0, UINT64_MAX, SIZE_MAX, &records);
  EXPECT_TRUE(records.empty());
}

TEST(KiwiMap, SplitsAndMergesChunks) {
  Kiwi map;
  for (uint64_t key = 0; key < 20'000; ++key) map.put(key, key);
  const size_t many = map.chunks();
  EXPECT_GE(many, 20'000 / 1024u);
  EXPECT_LE(many, 20'000 / 256u);
  EXPECT_EQ(map.counters().scans_restarted, 0u);
  for (uint64_t round = 0; round < 8; ++round) {
    for (uint64_t key = 0; key < 20'000; ++key) {
      if (key % 100 == 0) {
        map.put(key, key);
      } else {
        map.remove(key);
      }
    }
  }
  EXPECT_LT(map.chunks(), many / 2);
  EXPECT_GT(map.counters().rebalances, many / 2);
}

// The first update after a snapshot copies a node, once. Nodes without updates are not copied at all, and without a new
// snapshot nothing is copied again.
void copies_once_for_a_snapshot(Map* map, uint64_t copies_max) {
  constexpr uint64_t kKeys = 1'000;
  for (uint64_t key = 0; key < kKeys; ++key) map->put(key, key);
  EXPECT_EQ(map->counters().nodes_copied, 0u);
  std::vector<Record> records;
  for (uint64_t snapshot = 1; snapshot <= 3; ++snapshot) {
    map->scan(0, 10, SIZE_MAX, &records);
    const uint64_t before = map->counters().nodes_copied;
    map->put(7, snapshot);
    const uint64_t for_one = map->counters().nodes_copied - before;
    EXPECT_GT(for_one, 0u);
    EXPECT_LT(for_one, 20u) << "more than the way to a key";
    for (uint64_t key = 0; key < kKeys; ++key) map->put(key, snapshot);
    const uint64_t for_all = map->counters().nodes_copied - before;
    EXPECT_LE(for_all, copies_max);
    for (uint64_t key = 0; key < kKeys; ++key) map->put(key, snapshot + 1);
    EXPECT_EQ(map->counters().nodes_copied - before, for_all);
  }
}

TEST(SnapTreeMap, CopiesANodeOnceForASnapshot) {
  SnapTree map;
  copies_once_for_a_snapshot(&map, 1'000);
}

TEST(CtrieMap, CopiesAMainNodeOnceForASnapshot) {
  Ctrie map;
  copies_once_for_a_snapshot(&map, 1'000);
}

// After a snapshot there are new places and places that are still to be copied; a copy must leave the new ones alone.
TEST(CtrieMap, UpdatesOfNewPlacesSurviveTheCopyOfTheirNeighbours) {
  const uint64_t seed = seed_of_test();
  for (uint64_t i = 0; i < 4'000; ++i) {
    const Mix mix{
        .keys = 9, .before_max = 6, .clients = 3, .program = {"sp1p2p3p4g1g2", "p5p6p7p8g5g6", "p9p5p1g9g7g8"}};
    const bonsai::testing::Verdict verdict = run_schedule(kKinds[3].make_small, mix, seed + i);
    ASSERT_TRUE(verdict) << "BONSAI_SEED=" << seed + i << "\n" << verdict.text;
  }
}

TEST(SnapTreeMap, UpdatesAreOutsideWhileTheGateIsClosed) {
  UpdateGate gate;
  std::atomic<uint64_t> begun{0}, ended{0};
  std::atomic<bool> stop{false};
  std::vector<base::Thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back("updater", [&] {
      while (!stop.load()) {
        const UpdateGate::Pass pass(&gate);
        begun.fetch_add(1);
        ended.fetch_add(1);
      }
    });
  }
  while (ended.load() < 1'000) base::yield_thread();
  for (int round = 0; round < 200; ++round) {
    gate.close();
    const uint64_t ended_before = ended.load();
    ASSERT_EQ(begun.load(), ended_before);
    base::yield_thread();
    ASSERT_EQ(begun.load(), ended_before);
    gate.open();
  }
  stop.store(true);
}

// ---- planted faults

constexpr uint64_t kSchedulesMax = 100'000;

struct Fault {
  const char* name;
  Mutant mutant;
  size_t kind;
  std::vector<std::string> program;  // of schedules that show it soon
};

class EachFault : public ::testing::TestWithParam<Fault> {};
// Two puts, a scan that sees one of them, and a client that sees the other one only.
const std::vector<std::string> kTwoOrders = {"p1", "p2", "s", "g1g2", "g1g2"};
const std::vector<std::string> kTwoScans = {"p1", "p2", "s", "s"};
// A scan, while the chunk is replaced.
const std::vector<std::string> kReplacedUnderScan = {"s", "p2r1p2p2", "p3p3p3p3"};
const std::vector<std::string> kRandom = {};
const std::vector<std::string> kUpdates = {"p1p1g1", "p1r1g1", "r1p1g1"};
const std::vector<std::string> kMoreUpdates = {"p1p2p3s", "p1p2p1g1g2", "p2p1p3g3"};
const std::vector<std::string> kScansAndGets = {"p1p1", "sg1", "sg1"};
const std::vector<std::string> kInserts = {"p4p5p6p7p8", "g1g2g3g1g2g3"};
const std::vector<std::string> kRevivals = {"r2p2r2p2", "g2g2", "g2g2"};
const Fault kFaults[] = {
    {"RemovedReplaced", kRemovedReplaced, 0, kUpdates},
    {"LostInsertAcknowledged", kLostInsertAcknowledged, 0, kRandom},
    {"ScanHelpsNobody", kScanHelpsNobody, 1, kTwoScans},
    {"GetHelpsNobody", kGetHelpsNobody, 1, kTwoOrders},
    {"VersionTooEarly", kVersionTooEarly, 1, kTwoScans},
    {"PutsNotFrozen", kPutsNotFrozen, 1, kMoreUpdates},
    {"RemovalsDropped", kRemovalsDropped, 1, kReplacedUnderScan},
    {"ScansForgotten", kScansForgotten, 1, kReplacedUnderScan},
    {"LastLinkedWins", kLastLinkedWins, 1, kUpdates},
    {"ListReadFirst", kListReadFirst, 1, kMoreUpdates},
    {"LeavesUnchecked", kLeavesUnchecked, 2, kTwoScans},
    {"LostSwapAcknowledged", kLostSwapAcknowledged, 2, kRandom},
    {"RootNotExchanged", kRootNotExchanged, 3, kTwoScans},
    {"UnsettledScanned", kUnsettledScanned, 3, kScansAndGets},
    {"UnsettledRead", kUnsettledRead, 3, kScansAndGets},
    {"LostUpdateAcknowledged", kLostUpdateAcknowledged, 3, kRandom},
    {"SharedWritten", kSharedWritten, 4, kTwoScans},
    {"RootNotShared", kRootNotShared, 4, kTwoScans},
    {"ShrinkingIgnored", kShrinkingIgnored, 4, kInserts},
    {"RevivedTooEarly", kRevivedTooEarly, 4, kRevivals},
};
INSTANTIATE_TEST_SUITE_P(Maps, EachFault, ::testing::ValuesIn(kFaults),
                         [](const auto& fault) { return std::string(fault.param.name); });

TEST_P(EachFault, IsFound) {
  const Fault& fault = GetParam();
  const auto by_schedules = bonsai::testing::within(kSchedulesMax, [&fault](uint64_t seed) {
    Mix mix{.before_max = seed % 2 == 0 ? uint64_t{12} : uint64_t{40}, .program = fault.program};
    if (!mix.program.empty()) mix.clients = static_cast<uint32_t>(mix.program.size());
    return !run_schedule(kKinds[fault.kind].make_small, mix, seed);
  });
  bonsai::testing::expect_found({{fault.name, fault.mutant, by_schedules}});
}

}  // namespace
}  // namespace bonsai::bench::maps
