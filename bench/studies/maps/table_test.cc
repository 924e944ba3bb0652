// SPDX-License-Identifier: Apache-2.0
// Table 1 of KiWi's paper, measured: what each map's scans and puts promise, found out by letting one operation act at
// every step of another one, and by counting steps. One thread, so that every figure is exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/step.h"
#include "bench/studies/maps/ctrie.h"
#include "bench/studies/maps/kary_tree.h"
#include "bench/studies/maps/kiwi.h"
#include "bench/studies/maps/skip_list.h"
#include "bench/studies/maps/snap_tree.h"
#include "bench/studies/maps/testing/bonsai_map.h"
#include "bench/studies/maps/testing/rig.h"

namespace bonsai::bench::maps {
namespace {

using Action = std::function<void()>;

// Counts the steps of an operation, and acts at one of them or at each; steps of the action are not counted.
class Watch {
 public:
  static constexpr uint64_t kEach = 0;

  Watch(uint64_t act_at, Action action) : act_at_(act_at), action_(std::move(action)) {
    current_ = this;
    base::step_hook.store([](const char*) { current_->on_step(); });
  }
  ~Watch() { base::step_hook.store(nullptr); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  [[nodiscard]] uint64_t steps() const { return steps_; }
  [[nodiscard]] uint64_t steps_of_action() const { return steps_of_action_; }

 private:
  void on_step() {
    if (acts_) {
      ++steps_of_action_;
      return;
    }
    ++steps_;
    if (!action_ || (act_at_ != kEach && steps_ != act_at_)) return;
    acts_ = true;
    action_();
    acts_ = false;
  }

  static inline Watch* current_ = nullptr;
  const uint64_t act_at_;
  const Action action_;
  bool acts_ = false;
  uint64_t steps_ = 0;
  uint64_t steps_of_action_ = 0;
};

// Lets an operation stand still at one of its steps until another one, which begins then, has ended.
class Pause {
 public:
  static constexpr uint64_t kTurnsMax = 20'000;  // of the other one: more than any needs that waits for nobody

  Pause(uint64_t at, Action other) : at_(at), other_(std::move(other)) {
    current_ = this;
    base::step_hook.store([](const char*) { current_->on_step(); });
  }
  ~Pause() { base::step_hook.store(nullptr); }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  // False when the other one did not end before the operation went on.
  [[nodiscard]] bool run(const Action& operation) {
    scheduler_.spawn(operation, "paused");
    const Status status = scheduler_.run();
    EXPECT_TRUE(status.ok()) << status.ToString();
    return !waited_;
  }

 private:
  void on_step() {
    if (steps_ < at_ && ++steps_ < at_) return;
    if (began_) return base::Scheduler::yield();
    began_ = true;
    scheduler_.spawn(
        [this] {
          other_();
          ended_ = true;
        },
        "other");
    for (uint64_t turns = 0; !ended_ && !waited_; base::Scheduler::yield()) waited_ = ++turns > kTurnsMax;
  }

  static inline Pause* current_ = nullptr;
  const uint64_t at_;
  const Action other_;
  base::Scheduler scheduler_{{.virtual_time = true, .stack_bytes = size_t{128} << 10}};
  uint64_t steps_ = 0;
  bool began_ = false, ended_ = false, waited_ = false;
};

uint64_t steps_of(const Action& operation) {
  const Watch watch(1, {});
  operation();
  return watch.steps();
}

void fill(Map* map, uint64_t keys) {
  for (uint64_t key = 1; key <= keys; ++key) map->put(key, 0);
}

std::vector<Record> scan(Map* map, uint64_t from, uint64_t to) {
  std::vector<Record> records;
  map->scan(from, to, SIZE_MAX, &records);
  return records;
}

// The first and the last record of a scan are of one moment, whenever both are updated.
bool is_atomic(const MakeMap& make) {
  constexpr uint64_t kKeys = 200;
  const std::unique_ptr<Map> map = make();
  fill(map.get(), kKeys);
  const uint64_t steps = steps_of([&] { scan(map.get(), 1, kKeys); });
  EXPECT_GE(steps, kKeys / 4) << "too few places for an update";
  for (uint64_t at = 1; at <= steps; ++at) {
    const Watch watch(at, [&] {
      map->put(1, at);
      map->put(kKeys, at);
    });
    const std::vector<Record> records = scan(map.get(), 1, kKeys);
    if (records.size() != kKeys || records.front().value != records.back().value) return false;
  }
  return true;
}

// A second scan, begun within a first one, ends and returns the keys that were put in between.
bool is_multiple(const MakeMap& make) {
  constexpr uint64_t kKeys = 40;
  const std::unique_ptr<Map> map = make();
  fill(map.get(), kKeys);
  const uint64_t steps = steps_of([&] { scan(map.get(), 1, kKeys); });
  bool all_see_it = true;
  for (uint64_t at = 1; at <= steps; ++at) {
    const Watch watch(at, [&] {
      map->put(20, at);
      all_see_it = all_see_it && scan(map.get(), 1, kKeys)[19].value == at;
    });
    all_see_it = all_see_it && scan(map.get(), 1, kKeys).size() == kKeys;
  }
  return all_see_it;
}

// A scan of few records does not visit many.
bool is_partial(const MakeMap& make) {
  const std::unique_ptr<Map> map = make();
  fill(map.get(), 5'000);
  const uint64_t all = steps_of([&] { scan(map.get(), 1, 5'000); });
  const uint64_t few = steps_of([&] { EXPECT_EQ(scan(map.get(), 2'000, 2'007).size(), 8u); });
  return few < all / 10;
}

// A scan ends though updates stand still, wherever they do. There are enough of them to change the map's structure.
bool waits_for_nobody(const MakeMap& make) {
  constexpr uint64_t kKeys = 200, kUpdatesBeside = 600, kPauses = 100;
  const std::unique_ptr<Map> map = make();
  fill(map.get(), kKeys);
  const Action updates = [&] {
    for (uint64_t i = 0; i < kUpdatesBeside; ++i) i % 3 == 2 ? map->remove(1 + i % kKeys) : map->put(1 + i % kKeys, i);
  };
  const uint64_t steps = steps_of(updates);
  for (uint64_t i = 0; i < kPauses; ++i) {
    Pause pause(1 + i * steps / kPauses, [&] { scan(map.get(), 1, kKeys); });
    if (!pause.run(updates)) return false;
  }
  return true;
}

// Updates at every step of a scan neither make it begin again nor longer than a few times its length.
bool is_never_restarted(const MakeMap& make) {
  constexpr uint64_t kKeys = 200;
  const std::unique_ptr<Map> map = make();
  fill(map.get(), kKeys);
  const uint64_t alone = steps_of([&] { scan(map.get(), 1, kKeys); });
  base::Random random(1);
  uint64_t updates = 0;
  const uint64_t restarted = map->counters().scans_restarted;
  const Watch watch(Watch::kEach, [&] {
    if (++updates <= 20 * alone) map->put(1 + random.below(kKeys), updates);
  });
  EXPECT_EQ(scan(map.get(), 1, kKeys).size(), kKeys);
  return map->counters().scans_restarted == restarted && watch.steps() < 4 * alone;
}

uint64_t hops_after_ordered_inserts(const MakeMap& make, uint64_t keys) {
  const std::unique_ptr<Map> map = make();
  fill(map.get(), keys);
  uint64_t most = 0;
  for (uint64_t i = 1; i <= 64; ++i) {
    uint64_t value = 0;
    most = std::max(most, steps_of([&] { EXPECT_TRUE(map->get(i * keys / 64, &value)); }));
  }
  return most;
}

// Keys that rise do not make the way to a key longer in proportion.
bool is_balanced(const MakeMap& make) {
  return hops_after_ordered_inserts(make, 16'000) < 4 * hops_after_ordered_inserts(make, 1'000);
}

// Neither do removals of most of them, in the same order.
TEST(SnapTreeMap, StaysLowWhereRecordsAreRemoved) {
  constexpr uint64_t kKeys = 16'000, kKept = 64;
  SnapTree map;
  fill(&map, kKeys);
  for (uint64_t key = 1; key <= kKeys; ++key) {
    if (key % (kKeys / kKept) != 0) map.remove(key);
  }
  uint64_t most = 0, value = 0;
  for (uint64_t i = 1; i <= kKept; ++i) {
    most = std::max(most, steps_of([&] { EXPECT_TRUE(map.get(i * (kKeys / kKept), &value)); }));
  }
  EXPECT_LE(most, 4 * 10u) << "three steps a node, in a tree of 64 records";
}

// Puts during a scan that stands still copy nothing, and take about as many steps as without it.
bool has_fast_puts(const MakeMap& make) {
  constexpr uint64_t kKeys = 400;
  const std::unique_ptr<Map> map = make();
  fill(map.get(), kKeys);
  const Action puts = [&] {
    for (uint64_t key = 1; key <= kKeys; ++key) map->put(key, key);
  };
  const uint64_t alone = steps_of(puts);
  const uint64_t steps = steps_of([&] { scan(map.get(), 1, kKeys); });
  const uint64_t copied = map->counters().nodes_copied;
  const Watch watch(steps / 2, puts);
  EXPECT_EQ(scan(map.get(), 1, kKeys).size(), kKeys);
  return map->counters().nodes_copied == copied && watch.steps_of_action() < 3 * alone;
}

struct Promises {
  bool atomic, multiple, partial, wait_free;
  std::optional<bool> balanced;  // of Bonsai by index/balance_test.cc: its steps are not visible here
  bool fast_puts;

  bool operator==(const Promises&) const = default;
};

struct Line {
  const char* name;
  MakeMap make;
  Promises promises;
};

const Line kTable[] = {
    {"skiplist_like", [] { return std::make_unique<SkipListMap>(); }, {false, true, true, true, true, true}},
    {"kiwi_like", [] { return std::make_unique<Kiwi>(); }, {true, true, true, true, true, true}},
    {"kary_tree_like", [] { return std::make_unique<KaryTree>(); }, {true, true, true, false, false, true}},
    {"snaptree_like", [] { return std::make_unique<SnapTree>(); }, {true, true, true, false, true, false}},
    {"ctrie_like", [] { return std::make_unique<Ctrie>(); }, {true, true, false, false, true, false}},
    {"bonsai", make_bonsai_map, {true, true, true, true, std::nullopt, true}},
};

class Table : public ::testing::TestWithParam<Line> {};
INSTANTIATE_TEST_SUITE_P(KiwisTableOne, Table, ::testing::ValuesIn(kTable),
                         [](const auto& line) { return std::string(line.param.name); });

TEST_P(Table, HasTheLineOfThisMap) {
  const MakeMap& make = GetParam().make;
  const Promises expected = GetParam().promises;
  Promises found{};
  found.atomic = is_atomic(make);
  found.multiple = is_multiple(make);
  found.partial = is_partial(make);
  found.wait_free = is_never_restarted(make) && waits_for_nobody(make);
  if (expected.balanced) found.balanced = is_balanced(make);
  found.fast_puts = has_fast_puts(make);
  const auto text = [](std::optional<bool> promise) { return !promise ? "-" : *promise ? "yes" : "no"; };
  std::printf("%s: atomic %s, multiple %s, partial %s, wait-free %s, balanced %s, fast puts %s\n", GetParam().name,
              text(found.atomic), text(found.multiple), text(found.partial), text(found.wait_free),
              text(found.balanced), text(found.fast_puts));
  EXPECT_EQ(found.atomic, expected.atomic);
  EXPECT_EQ(found.multiple, expected.multiple);
  EXPECT_EQ(found.partial, expected.partial);
  EXPECT_EQ(found.wait_free, expected.wait_free);
  EXPECT_EQ(found.balanced, expected.balanced);
  EXPECT_EQ(found.fast_puts, expected.fast_puts);
}

}  // namespace
}  // namespace bonsai::bench::maps
