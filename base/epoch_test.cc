// SPDX-License-Identifier: Apache-2.0
#include "base/epoch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"

namespace bonsai::base {
namespace {

void count_reclaim(void*, void* context) { static_cast<std::atomic<int>*>(context)->fetch_add(1); }

TEST(Epoch, ReclaimsAtOnceWithoutGuards) {
  EpochDomain domain;
  std::atomic<int> reclaimed{0};
  domain.retire(&domain, count_reclaim, &reclaimed, 100);
  EXPECT_EQ(domain.retired_objects(), 1u);
  EXPECT_EQ(domain.retired_bytes(), 100u);
  domain.collect();
  EXPECT_EQ(reclaimed, 1);
  EXPECT_EQ(domain.retired_objects(), 0u);
  EXPECT_EQ(domain.retired_bytes(), 0u);
}

TEST(Epoch, GuardDelaysWhatIsRetiredSinceItBeganAndNothingOlder) {
  EpochDomain domain;
  std::atomic<int> older{0}, newer{0};
  auto first = domain.enter();
  domain.retire(&domain, count_reclaim, &older);
  domain.collect();
  auto second = domain.enter();
  domain.retire(&domain, count_reclaim, &newer);
  domain.collect();
  EXPECT_EQ(older, 0);
  first.release();
  domain.collect();
  EXPECT_EQ(older, 1) << "the second guard began after the object was retired and a collection was made";
  EXPECT_EQ(newer, 0);
  second.release();
  domain.collect();
  EXPECT_EQ(newer, 1);
}

TEST(Epoch, ManyGuardsOnOneThreadEndInAnyOrder) {
  EpochDomain domain(1);
  std::atomic<int> reclaimed{0};
  std::vector<EpochDomain::Guard> guards;
  for (int i = 0; i < 1000; ++i) guards.push_back(domain.enter());
  EXPECT_GE(domain.slot_count(), 1000u);
  domain.retire(&domain, count_reclaim, &reclaimed);
  for (size_t i = 0; i < guards.size(); i += 2) guards[i].release();
  for (size_t i = guards.size() - 1; i > 1; i -= 2) {
    guards[i].release();
    domain.collect();
    EXPECT_EQ(reclaimed, 0);
  }
  guards[1].release();
  domain.collect();
  EXPECT_EQ(reclaimed, 1);
  const size_t slots = domain.slot_count();
  for (int i = 0; i < 1000; ++i) guards[static_cast<size_t>(i)] = domain.enter();
  EXPECT_EQ(domain.slot_count(), slots) << "free slots are found again";
}

TEST(Epoch, AGuardInALaterChunkOfSlotsCounts) {
  EpochDomain domain(1);
  std::atomic<int> reclaimed{0};
  std::vector<EpochDomain::Guard> guards;
  while (domain.slot_count() == 64) guards.push_back(domain.enter());
  EpochDomain::Guard last = std::move(guards.back());
  guards.clear();
  domain.retire(&domain, count_reclaim, &reclaimed);
  domain.collect();
  EXPECT_EQ(reclaimed, 0);
  last.release();
  domain.collect();
  EXPECT_EQ(reclaimed, 1);
}

// drain() relies on this: objects are reclaimed in the order in which they were retired.
TEST(Epoch, TheObjectsOfOneListAreReclaimedInOrder) {
  struct Gate {
    Event entered, open;
  } gate;
  EpochDomain domain;
  std::atomic<int> later{0};
  const auto wait_at_gate = [](void*, void* context) {
    auto* at = static_cast<Gate*>(context);
    at->entered.signal();
    EXPECT_TRUE(at->open.wait_for(10'000));
  };
  domain.retire(&domain, wait_at_gate, &gate);
  Thread slow("slow collector", [&] { domain.collect(); });
  ASSERT_TRUE(gate.entered.wait_for(10'000));
  domain.retire(&domain, count_reclaim, &later);
  domain.collect();
  EXPECT_EQ(later, 0);
  EXPECT_FALSE(domain.drain(10)) << "the first object is still being reclaimed";
  gate.open.signal();
  EXPECT_TRUE(domain.drain(10'000));
  EXPECT_EQ(later, 1);
}

TEST(Epoch, ReclaimFunctionsDoNotNestEvenAcrossDomains) {
  struct Pair {
    EpochDomain outer, inner;
    int depth = 0, depth_max = 0, reclaimed = 0;
  } pair;
  const auto inner = [](void*, void* context) {
    auto* at = static_cast<Pair*>(context);
    at->depth_max = std::max(at->depth_max, at->depth + 1);
    ++at->reclaimed;
  };
  static constexpr int kRetires = 1000;
  static EpochDomain::Reclaim reclaim_inner;
  reclaim_inner = inner;
  const auto outer = [](void* object, void* context) {
    auto* at = static_cast<Pair*>(context);
    ++at->depth;
    for (int i = 0; i < kRetires; ++i) at->inner.retire(object, reclaim_inner, at);
    --at->depth;
  };
  pair.outer.retire(&pair, outer, &pair);
  pair.outer.collect();
  EXPECT_EQ(pair.reclaimed, 0);
  pair.inner.collect();
  EXPECT_EQ(pair.reclaimed, kRetires);
  EXPECT_EQ(pair.depth_max, 1);
}

TEST(Epoch, GuardMoves) {
  EpochDomain domain;
  std::atomic<int> reclaimed{0};
  EpochDomain::Guard outer;
  EXPECT_FALSE(outer);
  {
    auto inner = domain.enter();
    outer = std::move(inner);
  }
  domain.retire(&domain, count_reclaim, &reclaimed);
  domain.collect();
  EXPECT_EQ(reclaimed, 0);
  outer = domain.enter();  // the old guard ends
  domain.collect();
  EXPECT_EQ(reclaimed, 1);
}

TEST(Epoch, GuardMayEndOnAnotherThread) {
  EpochDomain domain;
  std::atomic<int> reclaimed{0};
  auto guard = domain.enter();
  domain.retire(&domain, count_reclaim, &reclaimed);
  Thread("mover", [moved = std::make_shared<EpochDomain::Guard>(std::move(guard))] { moved->release(); }).join();
  domain.collect();
  EXPECT_EQ(reclaimed, 1);
}

TEST(Epoch, RetireAloneReclaimsInBoundedSteps) {
  EpochDomain domain;
  std::atomic<int> reclaimed{0};
  {
    auto guard = domain.enter();
    for (int i = 0; i < 10'000; ++i) domain.retire(&domain, count_reclaim, &reclaimed);
    EXPECT_EQ(reclaimed, 0);
  }
  int step_max = 0;
  for (int i = 0; i < 10'000; ++i) {
    const int before = reclaimed;
    domain.retire(&domain, count_reclaim, &reclaimed);
    step_max = std::max(step_max, reclaimed - before);
  }
  EXPECT_GT(step_max, 0);
  EXPECT_LE(step_max, 2 * 256);
  EXPECT_LT(domain.retired_objects(), 200u) << "no call of collect() was needed";
}

struct Chain {
  EpochDomain* domain;
  Chain* next;
  std::atomic<int>* freed;
  ~Chain() {
    freed->fetch_add(1);
    if (next != nullptr) domain->retire_delete(next);
  }
};

TEST(Epoch, ReclaimFunctionsMayRetireLongChainsWithoutRecursion) {
  std::atomic<int> freed{0};
  {
    EpochDomain domain;
    Chain* head = nullptr;
    for (int i = 0; i < 50'000; ++i) head = new Chain{&domain, head, &freed};
    domain.retire_delete(head);
    domain.collect();
    EXPECT_LT(freed, 50'000);
  }
  EXPECT_EQ(freed, 50'000) << "the destructor reclaims everything";
}

TEST(Epoch, ListsOfExitedThreadsArePickedUp) {
  EpochDomain domain;
  std::atomic<int> reclaimed{0};
  for (int i = 0; i < 20; ++i) {
    Thread("retirer", [&] {
      auto guard = domain.enter();
      domain.retire(&domain, count_reclaim, &reclaimed);
    });
  }
  domain.collect();
  EXPECT_EQ(reclaimed, 20);
}

TEST(Epoch, StrangersListsArePickedUpByRetiresAlone) {
  EpochDomain domain;
  std::atomic<int> left{0}, own{0};
  {
    std::vector<Thread> threads;
    std::atomic<int> arrived{0};
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back("retirer", [&] {
        domain.retire(&domain, count_reclaim, &left);
        arrived.fetch_add(1);
        while (arrived < 4) yield_thread();  // so that the threads have different ordinals
      });
    }
  }
  for (int i = 0; i < 64 * 40; ++i) domain.retire(&domain, count_reclaim, &own);
  EXPECT_EQ(left, 4);
}

TEST(Epoch, DomainsAreIndependent) {
  EpochDomain one, two;
  std::atomic<int> reclaimed_one{0}, reclaimed_two{0};
  auto guard = one.enter();
  one.retire(&one, count_reclaim, &reclaimed_one);
  two.retire(&two, count_reclaim, &reclaimed_two);
  one.collect();
  two.collect();
  EXPECT_EQ(reclaimed_one, 0);
  EXPECT_EQ(reclaimed_two, 1);
}

TEST(Epoch, ManyDomainsAndANewOneAtTheSameAddress) {
  alignas(EpochDomain) static std::byte room[sizeof(EpochDomain)];
  for (int round = 0; round < 100; ++round) {
    auto* domain = new (room) EpochDomain;
    std::vector<std::unique_ptr<EpochDomain>> others;
    for (int i = 0; i < round % 7; ++i) others.push_back(std::make_unique<EpochDomain>());
    for (auto& other : others) {
      auto mine = domain->enter();
      auto theirs = other->enter();
      domain->retire_delete(new int(1));
      other->retire_delete(new int(2));
    }
    domain->~EpochDomain();
  }
}

TEST(Epoch, DrainWaitsForGuardsAndGivesUpInTime) {
  EpochDomain domain;
  std::atomic<int> reclaimed{0};
  std::optional<EpochDomain::Guard> guard = domain.enter();
  domain.retire(&domain, count_reclaim, &reclaimed);
  EXPECT_FALSE(domain.drain(20));
  Event started;
  Thread releaser("releaser", [&] {
    started.signal();
    sleep_ms(20);
    guard.reset();
  });
  ASSERT_TRUE(started.wait_for(10'000));
  EXPECT_TRUE(domain.drain(10'000));
  EXPECT_EQ(reclaimed, 1);
}

TEST(EpochDeath, DomainMustOutliveItsGuards) {
  EXPECT_DEATH(
      {
        EpochDomain::Guard guard;
        EpochDomain domain;
        guard = domain.enter();
      },
      "guard_outlives_domain");
}

// Objects are poisoned and then freed when they are reclaimed, so that a later use shows as a stale read or in a
// sanitizer.
struct Poisoned {
  static constexpr uint64_t kAlive = 0x600dF00d, kDead = 0xdeadDead;
  std::atomic<uint64_t> state{kAlive};
  ~Poisoned() { state.store(kDead, std::memory_order_relaxed); }
};

TEST(Epoch, StressNeverShowsAReclaimedObject) {
  constexpr size_t kCells = 64;
  EpochDomain domain;
  std::vector<std::atomic<Poisoned*>> cells(kCells);
  for (auto& cell : cells) cell = new Poisoned;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> stale{0}, reads{0}, writes{0};
  {
    std::vector<Thread> threads;
    for (uint64_t id = 0; id < 3; ++id) {
      threads.emplace_back("reader", [&, id] {
        for (uint64_t i = id; !stop; ++i) {
          auto first = domain.enter();
          Poisoned* early = cells[(i * 7) % kCells].load(std::memory_order_acquire);
          auto second = domain.enter();
          Poisoned* late = cells[(i * 7 + 1) % kCells].load(std::memory_order_acquire);
          if (i % 1024 == 0) yield_thread();
          stale += early->state.load(std::memory_order_relaxed) != Poisoned::kAlive;
          first.release();  // `late` was loaded under both guards, so the second one alone covers it
          stale += late->state.load(std::memory_order_relaxed) != Poisoned::kAlive;
          reads.fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
    for (uint64_t id = 0; id < 2; ++id) {
      threads.emplace_back("writer", [&, id] {
        for (uint64_t i = id; !stop; ++i) {
          auto guard = domain.enter();
          domain.retire_delete(cells[(i * 13) % kCells].exchange(new Poisoned, std::memory_order_acq_rel));
          writes.fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
    threads.emplace_back("short lives", [&] {
      while (!stop) {
        Thread("brief", [&] {
          auto guard = domain.enter();
          domain.retire_delete(cells[0].exchange(new Poisoned, std::memory_order_acq_rel));
        });
      }
    });
    const uint64_t end = now_ns() + kNsPerSecond;
    while (now_ns() < end) {
      sleep_ms(5);
      domain.collect();
    }
    stop = true;
  }
  EXPECT_EQ(stale, 0u);
  EXPECT_GT(reads, 1000u);
  EXPECT_GT(writes, 1000u);
  EXPECT_TRUE(domain.drain(10'000));
  EXPECT_EQ(domain.retired_objects(), 0u);
  for (auto& cell : cells) delete cell.load();
}

// The stress test's canary: without guards the same readers do meet reclaimed objects (here at once, by order).
TEST(Epoch, CanaryWithoutAGuardTheObjectIsReclaimed) {
  EpochDomain domain;
  alignas(Poisoned) std::byte room[sizeof(Poisoned)];
  auto* object = new (room) Poisoned;
  domain.retire(object, [](void* dead, void*) { static_cast<Poisoned*>(dead)->state = Poisoned::kDead; });
  domain.collect();
  EXPECT_EQ(object->state, Poisoned::kDead);
}

TEST(Epoch, CostOfAGuard) {
  EpochDomain domain;
  constexpr int kRounds = 1'000'000;
  const uint64_t start = now_ns();
  for (int i = 0; i < kRounds; ++i) auto guard = domain.enter();
  const uint64_t guards_done = now_ns();
  static int nothing;
  for (int i = 0; i < kRounds; ++i) domain.retire(&nothing, [](void*, void*) {});
  const uint64_t retires_done = now_ns();
  RecordProperty("guard_ps", static_cast<int>((guards_done - start) * 1000 / kRounds));
  std::printf("guard %.1f ns, retire and reclaim %.1f ns\n", static_cast<double>(guards_done - start) / kRounds,
              static_cast<double>(retires_done - guards_done) / kRounds);
}

}  // namespace
}  // namespace bonsai::base
