// SPDX-License-Identifier: Apache-2.0
// A client of the RCuckoo-like engine dies at each of its lists, or amid them: what it left is repaired within the time
// that its header promises; no key is lost or doubled.
#include "bench/studies/rivals/rcuckoo_repair.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/step.h"
#include "base/testing/budget.h"
#include "base/testing/planted_fault.h"
#include "base/thread.h"
#include "bench/studies/rivals/testing/cuckoo_rig.h"
#include "bench/studies/rivals/testing/mutants.h"

namespace bonsai::bench::rivals::rcuckoo {
namespace {

using bonsai::testing::budget;

constexpr uint64_t kSuspectMs = 4;
constexpr TableOptions kSmall{.rows = 16, .rows_per_lock = 2, .lock_bits_max = 64};
constexpr uint32_t kLoaded = 7 * 16;  // keys 1 to this, of 8 * 16 entries

// When a client dies: at its `lists`th list of requests, before it is posted or a little after.
struct Death {
  uint64_t lists = 1;
  bool amid = false;
  bool repairer_dies = false;  // ... too, in its first repair
};

class Scene {
 public:
  Scene(uint64_t seed, const Death& death)
      : seed_(seed), death_(death), rig_({.sim = true, .seed = seed, .fixed_bytes = fixed_bytes(kSmall)}) {
    make_table(kSmall, rig_.nodes()[0]);
  }

  // Returns the fault afterwards; empty: none.
  std::string run() {
    rig_.run_one([&](Connection* connection) {
      const auto client = client_of(connection, options());
      for (uint32_t number = 1; number <= kLoaded; ++number) {
        if (!client->insert(key(number), key(number)).ok()) continue;  // full around here
        expected_[number] = {number};
      }
    });
    scene_ = this;
    base::step_hook.store([](const char* step) { scene_->on_step(step); });
    rig_.run({.compute_nodes = 3}, [&](const Seat& seat) {
      if (seat.compute_node == 0) return live_and_die(seat);
      while (!dead_[seat.compute_node - 1]) base::sleep_ms(1);
      clean_up(seat);
    });
    base::step_hook.store(nullptr);
    return inspect();
  }
  [[nodiscard]] const RepairCounters& repairs() const { return repairs_; }

 private:
  static ClientOptions options() {
    return {.table = kSmall, .locks = {.locks_per_message = 4, .suspect_ms = kSuspectMs}};
  }

  void on_step(const std::string& step) {
    if (step == "rcuckoo.list" && victim_acts_ && lists_++ == death_.lists) {
      victim_acts_ = false;
      if (!death_.amid) return die(0);
      base::Scheduler::current()->spawn(
          [this, after = base::splitmix64(seed_) % 6'000] {
            base::Scheduler::wait_until(base::now_ns() + after);
            die(0);
          },
          "death");
    }
    if (step == "rcuckoo.repair" && death_.repairer_dies && !dead_[1]) die(1);
  }
  void die(size_t node) {
    rig_.kill(node);
    dead_[node] = true;
  }

  void live_and_die(const Seat& seat) {
    const auto client = client_of(seat.connection, options());
    base::Random dice(seed_);
    for (uint32_t turn = 0; !dead_[0]; ++turn) {
      const uint32_t number = 1 + static_cast<uint32_t>(dice.below(kLoaded + 24)), value = 1'000 + turn;
      const uint64_t chosen = dice.below(4);
      auto& may_be = expected_[number];
      const std::set<uint32_t> before = may_be.empty() ? std::set<uint32_t>{0} : may_be;
      may_be = before;  // until the operation's end is known
      may_be.insert(chosen == 3 ? 0 : value);
      victim_acts_ = true;
      const Status status = chosen == 3   ? client->remove(key(number))
                            : chosen == 2 ? client->update(key(number), key(value))
                                          : client->insert(key(number), key(value));
      victim_acts_ = false;
      if (status.ok()) may_be = {chosen == 3 ? 0 : value};
      if (status.IsNotFound() || status.IsNoSpace()) may_be = before;
    }
  }

  // Touches every lock.
  void clean_up(const Seat& seat) {
    const auto client = client_of(seat.connection, options());
    const uint64_t begin_ns = base::now_ns();
    for (uint32_t number = 10'000; number < 10'200; ++number) {
      const Status status = client->remove(key(number));
      if (dead_[seat.compute_node]) return;
      EXPECT_TRUE(status.IsNotFound()) << text(status);
    }
    const RepairCounters& made = client->repair_counters();
    const uint64_t suspicions = client->lock_counters().suspicions;
    // Each suspicion takes the time once, and watching it once more; the lists themselves take little.
    EXPECT_LT(base::now_ns() - begin_ns,
              (suspicions + 1) * (2 * kSuspectMs + 3) * base::kNsPerMs + 100 * base::kNsPerMs);
    repairs_.locks_repaired += made.locks_repaired;
    repairs_.rows_sealed += made.rows_sealed;
    repairs_.entries_removed += made.entries_removed;
    dead_[1] = true;  // the next one may look, too
  }

  std::string inspect() {
    const Table table(kSmall);
    const Inspector inspector(table, rig_.nodes()[0]);
    if (inspector.locks_held() != 0) return "a lock is still held";
    if (inspector.seals_wrong() != 0) return "a row is not sealed";
    const auto records = inspector.records();
    for (const auto& [number, values] : records) {
      if (values.size() > 1) return "key " + std::to_string(number) + " is there twice";
      if (expected_[number].count(values[0]) == 0) return "key " + std::to_string(number) + " has a wrong value";
    }
    for (const auto& [number, may_be] : expected_) {
      if (records.count(number) == 0 && may_be.count(0) == 0) return "key " + std::to_string(number) + " is lost";
    }
    return "";
  }

  static inline Scene* scene_ = nullptr;
  const uint64_t seed_;
  const Death death_;
  Rig rig_;
  std::map<uint32_t, std::set<uint32_t>> expected_;  // by key: what its value may be; 0: absent
  uint64_t lists_ = 0;
  bool victim_acts_ = false;
  bool dead_[3] = {};
  RepairCounters repairs_;
};

TEST(CuckooRepair, AClientThatDiesAtAnyListIsRepaired) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  RepairCounters all;
  for (uint64_t i = 0; i < budget<uint64_t>(300, 3'000, 20'000); ++i) {
    Scene scene(seed + i, {.lists = i % 60, .amid = i % 3 != 0, .repairer_dies = i % 5 == 0});
    ASSERT_EQ(scene.run(), "") << "BONSAI_SEED=" << seed + i << ", death " << i;
    all.locks_repaired += scene.repairs().locks_repaired;
    all.rows_sealed += scene.repairs().rows_sealed;
    all.entries_removed += scene.repairs().entries_removed;
  }
  std::printf("locks repaired %llu, rows sealed %llu, copies removed %llu\n",
              static_cast<unsigned long long>(all.locks_repaired), static_cast<unsigned long long>(all.rows_sealed),
              static_cast<unsigned long long>(all.entries_removed));
  EXPECT_GT(all.locks_repaired, 20u);
  EXPECT_GT(all.rows_sealed, 0u);
  EXPECT_GT(all.entries_removed, 0u);
}

// A lock that is held for long while rows under it change belongs to a live client.
bool spares_the_living() {
  Rig rig({.sim = true, .fixed_bytes = fixed_bytes(kSmall)});
  make_table(kSmall, rig.nodes()[0]);
  const Table table(kSmall);
  Inspector inspector(table, rig.nodes()[0]);
  bool spared = false;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, {.table = kSmall, .locks = {.suspect_ms = kSuspectMs}});
    const uint64_t number = table.place(7).first, bit = uint64_t{1} << table.lock(table.block(number));
    inspector.set_lock_word(0, bit);
    base::Scheduler::current()->spawn(
        [&inspector, number] {
          for (int change = 0; change < 20; ++change) {
            base::sleep_ms(kSuspectMs / 2);
            Row row = inspector.row(number);
            row.renew(number);
            inspector.put(number, row);
          }
          inspector.set_lock_word(0, 0);
        },
        "holder");
    EXPECT_EQ("OK", text(client->insert(key(7), key(1))));
    spared = client->repair_counters().locks_repaired == 0;
    EXPECT_TRUE(!spared || client->repair_counters().false_alarms > 0);
    while (inspector.row(number).version() < 20) base::sleep_ms(1);
  });
  return spared;
}

TEST(CuckooRepair, WhoeverWritesIsAlive) { EXPECT_TRUE(spares_the_living()); }

TEST(CuckooRepair, PlantedFaultsAreFound) {
  const auto by_deaths = bonsai::testing::within(
      3'000, [](uint64_t seed) { return !Scene(seed, {.lists = seed % 60, .amid = true}).run().empty(); }, 440);
  bonsai::testing::expect_found({
      {"path from its start", kPathFromItsStart, by_deaths},
      {"copies left", kCopiesLeft, by_deaths},
      {"seals left", kSealsLeft, by_deaths},
      {"holder not watched", kHolderNotWatched, [] { return !spares_the_living(); }},
  });
}

}  // namespace
}  // namespace bonsai::bench::rivals::rcuckoo
