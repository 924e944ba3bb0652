// SPDX-License-Identifier: Apache-2.0
// The epoch domain's own code under seeded interleavings: compiled with BONSAI_STEPPED, it switches coroutines between
// the steps that matter, for instance after a guard has read the epoch and before its slot shows it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/coro/scheduler.h"
#include "base/epoch.h"
#include "base/random.h"
#include "base/step.h"

namespace bonsai::base {
namespace {

constexpr uint64_t kSeeds = 20'000;

// A node that records its reclamation. Its memory stays, so that a stale read is noticed and harmless.
struct Node {
  int reclaims = 0;
};

class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {
    for (Node*& cell : cells_) cell = fresh();
  }

  // Reads some cells under one or two guards and returns how many reclaimed nodes it could still see.
  int read(EpochDomain& domain) {
    int stale = 0;
    auto first = domain.enter();
    Node* early = cells_[random_.below(kCells)];
    step("reader");
    auto second = domain.enter();
    Node* late = cells_[random_.below(kCells)];
    step("reader");
    stale += early->reclaims != 0;
    first.release();
    step("reader");
    stale += late->reclaims != 0;
    return stale;
  }

  void write(EpochDomain& domain) {
    Node*& cell = cells_[random_.below(kCells)];
    Node* old = cell;
    cell = fresh();
    step("writer");
    domain.retire(old, [](void* node, void*) { ++static_cast<Node*>(node)->reclaims; });
    if (random_.chance(1, 2)) domain.collect();
  }

  // Every node but the linked ones was reclaimed exactly once. Requires: the domain is gone.
  [[nodiscard]] bool all_reclaimed_once() const {
    size_t once = 0;
    for (const Node& node : nodes_) {
      if (node.reclaims > 1) return false;
      once += node.reclaims == 1;
    }
    return once == nodes_.size() - kCells;
  }

 private:
  static constexpr size_t kCells = 2;

  Node* fresh() { return &nodes_.emplace_back(); }

  Random random_;
  std::deque<Node> nodes_;
  std::array<Node*, kCells> cells_{};
};

TEST(EpochSteps, NoSeededInterleavingShowsAReclaimedNode) {
  const uint64_t first_seed = seed_from_env_or(1);
  step_hook = [](const char*) { Scheduler::yield(); };
  Scheduler scheduler({.pick = Scheduler::Pick::kSeeded});
  for (uint64_t seed = first_seed; seed < first_seed + kSeeds; ++seed) {
    scheduler.reset(seed);
    History history(seed);
    int stale = 0;
    {
      EpochDomain domain;
      for (int i = 0; i < 2; ++i) {
        scheduler.spawn([&] {
          for (int k = 0; k < 3; ++k) stale += history.read(domain);
        });
        scheduler.spawn([&] {
          for (int k = 0; k < 3; ++k) history.write(domain);
        });
      }
      ASSERT_TRUE(scheduler.run().ok()) << "BONSAI_SEED=" << seed;
    }
    ASSERT_EQ(stale, 0) << "BONSAI_SEED=" << seed;
    ASSERT_TRUE(history.all_reclaimed_once()) << "BONSAI_SEED=" << seed;
  }
  step_hook = nullptr;
}

// One thread, random calls, and a model that records which guards each object has to wait for.
TEST(EpochModel, ReclaimsExactlyWhatNoGuardHoldsBack) {
  const uint64_t seed = seed_from_env_or(fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  Random random(seed);
  struct Object {
    std::vector<uint64_t> waits_for;
    bool reclaimed = false;
  };
  std::deque<Object> objects;
  EpochDomain domain;  // ends before the objects, and after the guards
  std::vector<std::pair<uint64_t, EpochDomain::Guard>> guards;
  uint64_t guards_made = 0;
  const auto alive = [&](uint64_t id) {
    return std::any_of(guards.begin(), guards.end(), [&](const auto& guard) { return guard.first == id; });
  };
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t action = random.below(10);
    if (action < 3 && guards.size() < 6) {
      guards.emplace_back(guards_made++, domain.enter());
    } else if (action < 6 && !guards.empty()) {
      guards.erase(guards.begin() + static_cast<std::ptrdiff_t>(random.below(guards.size())));
    } else if (action < 9) {
      Object& object = objects.emplace_back();
      for (const auto& guard : guards) object.waits_for.push_back(guard.first);
      domain.retire(&object, [](void* dead, void*) { static_cast<Object*>(dead)->reclaimed = true; });
    } else {
      domain.collect();
    }
    for (const Object& object : objects) {
      const bool held = std::any_of(object.waits_for.begin(), object.waits_for.end(), alive);
      ASSERT_FALSE(object.reclaimed && held) << "call " << i;
    }
    while (!objects.empty() && objects.front().reclaimed) objects.pop_front();
    if (guards.empty()) {
      domain.collect();
      ASSERT_EQ(domain.retired_objects(), 0u) << "call " << i;
      objects.clear();
    }
  }
}

}  // namespace
}  // namespace bonsai::base
