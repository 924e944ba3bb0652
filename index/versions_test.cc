// SPDX-License-Identifier: Apache-2.0
// Registrations, the rule of what they need, and versions that are given once.
#include "index/versions.h"

#include <gtest/gtest.h>

#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

constexpr uint64_t kProvisional = Versions::kProvisional;

bool need(std::initializer_list<uint64_t> entries, uint64_t below, uint64_t above) {
  LiveScans live;
  live.clear();
  for (const uint64_t entry : entries) live.add(entry);
  return live.need(below, above);
}

TEST(LiveScans, NeedsWhatAScanPicks) {
  EXPECT_FALSE(need({}, 3, 7));
  EXPECT_TRUE(need({5}, 3, 7));
  EXPECT_TRUE(need({3}, 3, 7)) << "the scan's own version is visible to it";
  EXPECT_TRUE(need({6}, 3, 7));
  EXPECT_FALSE(need({7}, 3, 7)) << "it picks the node above";
  EXPECT_FALSE(need({2}, 3, 7)) << "it picks a node further down";
  EXPECT_FALSE(need({5}, 5, 5)) << "of two equal versions only the upper is ever picked";
  EXPECT_TRUE(need({9, 2, 5}, 3, 7)) << "any scan counts";
}

TEST(LiveScans, AProvisionalScanMayGetAnyVersionAboveItsBound) {
  EXPECT_TRUE(need({kProvisional | 5}, 3, 7));
  EXPECT_TRUE(need({kProvisional | 0}, 3, 7));
  EXPECT_FALSE(need({kProvisional | 7}, 3, 7)) << "it will get 7 or more";
  EXPECT_FALSE(need({kProvisional | 5}, 5, 5));
}

TEST(Versions, RegistrationLivesAsLongAsItsObject) {
  Versions versions(4);
  LiveScans live;
  versions.load(&live);
  EXPECT_TRUE(live.none());
  {
    const Versions::Registration own = versions.register_scan();
    EXPECT_EQ(own.version(), kVersionFirst);
    EXPECT_EQ(versions.now(), kVersionFirst + 1);
    versions.load(&live);
    EXPECT_TRUE(live.need(own.version(), own.version() + 1));
  }
  versions.load(&live);
  EXPECT_TRUE(live.none());
}

TEST(Versions, MovedRegistrationKeepsItsSlot) {
  Versions versions(4);
  LiveScans live;
  Versions::Registration outer;
  EXPECT_FALSE(static_cast<bool>(outer));
  {
    Versions::Registration inner = versions.register_scan();
    outer = std::move(inner);
  }
  versions.load(&live);
  EXPECT_TRUE(live.need(outer.version(), outer.version() + 1));
  outer = Versions::Registration();
  versions.load(&live);
  EXPECT_TRUE(live.none());
}

TEST(Versions, SlotsRunOutAndComeBack) {
  Versions versions(3);
  std::vector<Versions::Registration> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(versions.register_scan());
    ASSERT_TRUE(static_cast<bool>(all.back()));
  }
  EXPECT_FALSE(static_cast<bool>(versions.register_scan()));
  all.erase(all.begin());
  const Versions::Registration again = versions.register_scan();
  EXPECT_TRUE(static_cast<bool>(again));
  for (const Versions::Registration& other : all) EXPECT_LT(other.version(), again.version());
  EXPECT_FALSE(static_cast<bool>(versions.register_scan()));
}

TEST(Versions, RegistrationsHaveNoBoundByThemselves) {
  constexpr size_t kMany = 20'000;
  Versions versions;
  std::vector<Versions::Registration> all;
  for (size_t i = 0; i < kMany; ++i) {
    all.push_back(versions.register_scan());
    ASSERT_TRUE(static_cast<bool>(all.back()));
    ASSERT_EQ(all.back().version(), kVersionFirst + i);
  }
  LiveScans live;
  versions.load(&live);
  for (size_t i = 0; i < kMany; ++i) ASSERT_TRUE(live.need(kVersionFirst + i, kVersionFirst + i + 1)) << i;
  EXPECT_FALSE(live.need(kVersionFirst + kMany, kVersionFirst + kMany + 1));
  for (size_t i = 0; i < kMany; i += 2) all[i] = Versions::Registration();
  versions.load(&live);
  for (size_t i = 0; i < kMany; ++i) ASSERT_EQ(live.need(kVersionFirst + i, kVersionFirst + i + 1), i % 2 == 1) << i;
  all.clear();
  versions.load(&live);
  EXPECT_TRUE(live.none());
}

TEST(LiveScans, AnswersAreTheSameHoweverOftenAsked) {
  const uint64_t seed = test_seed();
  base::Random random(seed);
  for (int round = 0; round < 50; ++round) {
    LiveScans live;
    live.clear();
    std::vector<uint64_t> versions(random.below(60));
    for (uint64_t& version : versions) live.add(version = 1 + random.below(100));
    for (int i = 0; i < 100; ++i) {
      const uint64_t below = random.below(100), above = below + random.below(20);
      const bool expected = std::any_of(versions.begin(), versions.end(),
                                        [&](uint64_t version) { return below <= version && version < above; });
      ASSERT_EQ(live.need(below, above), expected) << "BONSAI_SEED=" << seed << " " << below << ".." << above;
    }
  }
}

// Threads register and release at random, in several blocks at once; each verifies its own registrations.
TEST(Versions, RegistrationsOfManyThreadsAreAllSeen) {
  constexpr size_t kThreads = 4, kRounds = 2'000, kHeldMax = 100;
  const uint64_t seed = test_seed();
  Versions versions;
  in_threads(kThreads, [&](size_t thread) {
    base::Random random(seed + thread);
    std::vector<Versions::Registration> held;
    LiveScans live;
    for (size_t i = 0; i < kRounds; ++i) {
      if (held.size() == kHeldMax || (!held.empty() && random.below(2) == 0)) {
        held.erase(held.begin() + static_cast<ptrdiff_t>(random.below(held.size())));
      } else {
        held.push_back(versions.register_scan());
        ASSERT_TRUE(static_cast<bool>(held.back()));
      }
      if (i % 50 != 0) continue;
      versions.load(&live);
      for (const Versions::Registration& own : held) {
        ASSERT_TRUE(live.need(own.version(), own.version() + 1)) << "BONSAI_SEED=" << seed;
      }
    }
  });
  LiveScans live;
  versions.load(&live);
  EXPECT_TRUE(live.none());
}

TEST(Versions, ALimitHoldsAlsoBehindTheFirstBlock) {
  constexpr size_t kLimit = 100;
  Versions versions(kLimit);
  std::vector<Versions::Registration> all;
  for (size_t i = 0; i < kLimit; ++i) all.push_back(versions.register_scan());
  EXPECT_TRUE(static_cast<bool>(all.back()));
  EXPECT_FALSE(static_cast<bool>(versions.register_scan()));
  all[50] = Versions::Registration();
  EXPECT_TRUE(static_cast<bool>(versions.register_scan()));
}

TEST(Versions, ANodeIsVersionedOnce) {
  Versions versions(4);
  Node* node = Node::make("k", "v", 0, nullptr);
  EXPECT_EQ(versions.settle(node), kVersionFirst);
  static_cast<void>(versions.register_scan());
  EXPECT_EQ(versions.settle(node), kVersionFirst);
  EXPECT_EQ(node->version.load(), kVersionFirst);
  Node::destroy(node);
}

TEST(Versions, NodesOfABatchShareItsCell) {
  Versions versions(4);
  auto* batch = new Batch(2, "");
  Node* first = Node::make("a", "1", 0, batch);
  Node* second = Node::make("b", "2", Node::kTombstone, batch);
  EXPECT_EQ(first->batch(), batch);
  EXPECT_EQ(first->key_view(), "a");
  EXPECT_EQ(second->value(), "2");
  EXPECT_TRUE(second->tombstone());
  EXPECT_EQ(versions.settle(first), kNoVersion) << "still being published";
  versions.settle(batch);
  EXPECT_EQ(batch->cell.load(), Batch::kPublishing);
  batch->cell = Batch::kReady;
  static_cast<void>(versions.register_scan());
  EXPECT_EQ(versions.settle(first), kVersionFirst + 1);
  static_cast<void>(versions.register_scan());
  EXPECT_EQ(versions.settle(second), kVersionFirst + 1) << "the cell's version, not a newer one";
  versions.settle(batch);
  EXPECT_EQ(batch->cell.load(), kVersionFirst + 1);
  Node::destroy(first);
  Node::destroy(second);
  EXPECT_EQ(batch->references.load(), 1u);
  batch->unref();
}

TEST(Versions, ThreadsAgreeOnABatchesVersion) {
  Versions versions(8);
  for (int round = 0; round < 300; ++round) {
    auto* batch = new Batch(4, "");
    std::vector<Node*> nodes;
    for (int i = 0; i < 4; ++i) nodes.push_back(Node::make("k", "v", 0, batch));
    std::array<uint64_t, 4> seen{};
    in_threads(4, [&](size_t i) {
      if (i == 0) batch->cell = Batch::kReady;
      const Versions::Registration own = versions.register_scan();
      while ((seen[i] = versions.settle(nodes[i])) == kNoVersion) std::this_thread::yield();
    });
    for (const uint64_t version : seen) EXPECT_EQ(version, seen[0]);
    for (Node* node : nodes) Node::destroy(node);
    batch->unref();
  }
}

// A thread that reads a version above a scan's also reads that scan's registration: the rule that pruning stands on.
TEST(Versions, AVersionAboveAScanShowsItsRegistration) {
  Versions versions(16);
  std::atomic<uint64_t> registered{0};  // the version of a scan that stays registered
  std::atomic<bool> stop{false};
  std::thread scanner([&] {
    while (!stop.load()) {
      const Versions::Registration own = versions.register_scan();
      registered = own.version();
      for (int i = 0; i < 50; ++i) std::this_thread::yield();
      registered = 0;
    }
  });
  for (int i = 0; i < 3'000; ++i) {
    Node* node = Node::make("k", "v", 0, nullptr);
    const uint64_t scan = registered.load();
    const uint64_t version = versions.settle(node);
    LiveScans live;
    versions.load(&live);
    if (scan != 0 && registered.load() == scan) {
      EXPECT_LT(scan, version);
      EXPECT_TRUE(live.need(scan, version));
    }
    Node::destroy(node);
  }
  stop = true;
  scanner.join();
}

TEST(VersionsDeathTest, AnOlderNodeAboveANewerOneEndsTheProgram) {
  LiveScans live;
  EXPECT_DEATH(static_cast<void>(live.need(5, 3)), "broken invariant: below <= above");
}

}  // namespace
}  // namespace bonsai::index::testing
