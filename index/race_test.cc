// SPDX-License-Identifier: Apache-2.0
// Races of the background with itself and with readers, at the product's own steps.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/step.h"
#include "base/testing/budget.h"
#include "index/testing.h"
#include "index/tree.h"

namespace bonsai::index::testing {
namespace {

// Runs `call` the next time that the step is reached.
std::function<void()> once;
const char* once_at = "";
void hook(const char* step) {
  if (once && std::strcmp(step, once_at) == 0) std::exchange(once, {})();
}

Index::Outcome try_put(Tier* tier, const std::string& key) {
  Index::Put put;
  put.key = Key::of(key);
  put.value = "v";
  const auto guard = tier->epochs().enter();
  return tier->index().put(&put);
}

// Fills the bnode of `prefix` and its successor until a put must wait for the offload between them.
void pile_up(Tier* tier, const std::string& prefix) {
  for (int i = 0; i < 100'000; ++i) {
    const Index::Outcome outcome = try_put(tier, prefix + std::to_string(i));
    if (outcome == Index::Outcome::kStalled) return;
    ASSERT_EQ(outcome, Index::Outcome::kDone);
  }
  FAIL() << "no put had to wait";
}

// A batch names a layer over a successor that is itself not offloaded. Another thread must not offload that layer
// between the moments in which the successor gets its dnode and its place in the tree.
TEST(Race, ALayerOfABatchWaitsUntilItsBnodeIsInTheTree) {
  Tier tier;
  for (int i = 0; i < 5'000; ++i) ASSERT_TRUE(tier.put(key_of(static_cast<uint64_t>(i)), std::string(100, 'v')));
  ASSERT_TRUE(tier.drain().ok());
  ASSERT_GT(tier.ranges(), 1u);
  pile_up(&tier, "key9");
  Batch* batch = Tier::make_batch({{"key", "of the first bnode"}, {"key9 of the last", "2"}});
  {
    const auto guard = tier.epochs().enter();
    ASSERT_EQ(tier.index().write(batch), Index::Outcome::kDone);
  }
  batch->unref();
  bool reached = false;
  once_at = "update index";
  once = [&] {
    reached = true;
    static_cast<void>(tier.index().offload(1, Index::Which::kUrgent));
  };
  base::step_hook.store(&hook);
  EXPECT_EQ(tier.index().offload(1, Index::Which::kUrgent).ranges, 1u);
  base::step_hook.store(nullptr);
  EXPECT_TRUE(reached);
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.get("key"), "of the first bnode");
  EXPECT_EQ(tier.get("key9 of the last"), "2");
}

// A writer is stopped between giving a bnode its table and queueing it, and others fill the bnode and offload it. The
// next reader of the queue must not read the bnode's dnode, which is gone (AddressSanitizer reports it).
TEST(Race, ABnodeThatWasOffloadedBeforeItWasQueuedIsOnlyDropped) {
  Tier tier;
  for (uint64_t i = 0; i < 5'000; ++i) ASSERT_TRUE(tier.put(key_of(i), std::string(100, 'v')));
  ASSERT_TRUE(tier.drain().ok());
  ASSERT_GT(tier.ranges(), 1u);
  ASSERT_TRUE(tier.put("key", "before it in the queue"));
  once_at = "queue as dirty";
  once = [&] {
    pile_up(&tier, "key9");
    EXPECT_GE(tier.index().offload(1, Index::Which::kUrgent).ranges, 1u);
  };
  base::step_hook.store(&hook);
  EXPECT_EQ(try_put(&tier, "key9"), Index::Outcome::kDone);
  base::step_hook.store(nullptr);
  EXPECT_FALSE(once) << "the step was not reached";
  for (int i = 0; i < 4; ++i) tier.epochs().collect();
  while (tier.index().offload(1, Index::Which::kAll).ranges != 0) tier.epochs().collect();
  EXPECT_EQ(tier.index().dirty_ranges(), 0u);
  EXPECT_EQ(tier.get("key"), "before it in the queue");
  EXPECT_EQ(tier.get("key9"), "v");
}

// ---- a right sibling that two replacers want

// Three neighbouring ranges, two small ones that a merge would put together and a full one after them.
class SmallNeighbours {
 public:
  // False: the ranges did not come out as wanted.
  bool make() {
    for (uint64_t i = 0; i < kKeys; ++i) {
      if (!tier.put(key_of(i), std::string(100, 'v'))) return false;
    }
    if (!tier.drain().ok()) return false;
    std::vector<std::string> begins;
    tier.index().tree().for_each([&](Bnode* bnode) { begins.emplace_back(bnode->lo().bytes()); });
    if (begins.size() < 4) return false;
    left = begins[1], right = begins[2], behind = begins[3];
    // The right one first: next to full ones, neither is merged while it shrinks.
    if (!shrink(right, behind) || !shrink(left, right) || tier.ranges() != begins.size()) return false;
    ranges = begins.size();
    return true;
  }
  // The one that is updated first is offloaded first.
  bool update(const std::string& first, const std::string& second) {
    return tier.put(first, "new") && tier.put(second, "new");
  }
  void expect_whole_now_and_later(const char* step) {
    EXPECT_TRUE(whole()) << step;
    ASSERT_TRUE(tier.drain().ok());
    EXPECT_TRUE(whole()) << step;
    tier.crash();
    EXPECT_TRUE(whole()) << step;
  }

  Tier tier;
  std::string left, right, behind;  // where the ranges begin
  size_t ranges = 0;

 private:
  static constexpr uint64_t kKeys = 3'000;
  static constexpr int kLeft = 8;  // keys that stay in a small range

  // Both updates and the other entries of the ranges are there, and nothing else.
  [[nodiscard]] bool whole() {
    const Model model = tier.scan_now();
    const auto kept = [&](const std::string& from, const std::string& to) {
      return std::distance(model.lower_bound(from), model.lower_bound(to));
    };
    return model.at(left) == "new" && model.at(right) == "new" && kept(left, right) == kLeft &&
           kept(right, behind) == kLeft && tier.scan_backwards(kLatest) == model;
  }

  bool shrink(const std::string& from, const std::string& to) {
    const Model all = tier.scan_now();
    int kept = 0;
    for (auto each = all.lower_bound(from); each != all.lower_bound(to); ++each) {
      if (kept++ >= kLeft && !tier.del(each->first)) return false;
    }
    return tier.drain().ok();
  }
};

constexpr const char* kSteps[] = {"install successors", "persist dnodes", "switch base", "update index",
                                  "retire dnodes"};

// Offloads one range; when it comes to `step`, another replacer offloads one, too.
size_t offload_two(Tier* tier, const char* step) {
  size_t second = 0;
  once_at = step;
  once = [&] { second = tier->index().offload(1, Index::Which::kAll).ranges; };
  base::step_hook.store(&hook);
  const size_t first = tier->index().offload(1, Index::Which::kAll).ranges;
  base::step_hook.store(nullptr);
  once = {};
  return first + second;
}

// The left one is merging with it when the right one's own turn comes.
TEST(Race, ASiblingThatIsBeingMergedIsNotReplaced) {
  for (const char* step : kSteps) {
    SmallNeighbours small;
    ASSERT_TRUE(small.make() && small.update(small.left, small.right));
    EXPECT_EQ(offload_two(&small.tier, step), 1U) << step;
    EXPECT_EQ(small.tier.ranges(), small.ranges - 1) << step;
    small.expect_whole_now_and_later(step);
  }
}

// The right one is being replaced on its own when its left neighbour would take it.
TEST(Race, ASiblingThatIsBeingReplacedIsNotMerged) {
  for (const char* step : kSteps) {
    SmallNeighbours small;
    ASSERT_TRUE(small.make() && small.update(small.right, small.left));
    EXPECT_EQ(offload_two(&small.tier, step), 2U) << step;
    EXPECT_EQ(small.tier.ranges(), small.ranges) << step;
    small.expect_whole_now_and_later(step);
  }
}

TEST(Race, ASiblingOfTwoReplacersIsNoticed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        SmallNeighbours small;
        BONSAI_CHECK(small.make() && small.update(small.right, small.left));
        bonsai::testing::mutants_on.store(kSiblingClaimIgnored);
        offload_two(&small.tier, "persist dnodes");
        BONSAI_CHECK(small.tier.ranges() == small.ranges);
      },
      "broken invariant");
}

// ---- descents of the tree while its inner nodes are replaced and split

// A tree of empty bnodes, one writer that cuts and joins ranges, and readers: all coroutines of one seeded scheduler,
// which switches at each step of a descent. A replacement is one moment, so a descent must answer with a bnode that was
// in the tree at some moment of the descent.
class Descents {
 public:
  Descents(uint64_t seed, size_t ranges) : random_(seed) {
    std::vector<Bnode*> bnodes;
    for (size_t i = 0; i < ranges; ++i) {
      const base::Fence lo = i == 0 ? base::Fence() : fence_of(kGap * i);
      bnodes.push_back(keep(lo, i + 1 == ranges ? base::Fence::infinite() : fence_of(kGap * (i + 1))));
    }
    keys_ = kGap * ranges;
    tree_.build(bnodes);
  }
  ~Descents() {
    for (const auto& [bnode, life] : lives_) bnode->unref();
  }
  Descents(const Descents&) = delete;
  Descents& operator=(const Descents&) = delete;

  // Empty: every descent was right.
  std::string run() {
    base::Scheduler::Options options;
    options.pick = base::Scheduler::Pick::kSeeded;
    options.seed = random_.next();
    options.stay_per_256 = random_.chance(1, 2) ? 0 : 160;
    options.stack_bytes = size_t{128} << 10;
    base::Scheduler scheduler(options);
    scheduler.spawn([this] {
      for (int i = 0; i < 12; ++i) replace();
      writing_ = false;
    });
    for (int reader = 0; reader < 3; ++reader) {
      scheduler.spawn([this] {
        while (writing_ && wrong_.empty()) descend();
      });
    }
    base::step_hook.store([](const char*) { base::Scheduler::yield(); });
    const Status status = scheduler.run();
    base::step_hook.store(nullptr);
    return status.ok() ? wrong_ : status.ToString();
  }
  [[nodiscard]] uint64_t descents() const { return descents_; }

 private:
  static constexpr uint64_t kGap = 16;  // possible keys per range at first
  struct Life {
    uint64_t born = 0, died = UINT64_MAX;
  };

  static base::Fence fence_of(uint64_t key) { return base::Fence(key_of(key)); }

  Bnode* keep(const base::Fence& lo, const base::Fence& hi) {
    auto* bnode = new Bnode(lo, hi, 1, Base(), Slots::kCapacityMin);
    bnode->ref();  // readers look at it after it has left the tree
    lives_[bnode].born = now_;
    return bnode;
  }

  // Cuts a range into several, or joins two.
  void replace() {
    base::Scheduler::yield();
    Bnode* old = tree_.find(Key::of(key_of(random_.below(keys_))));
    Layer::Bnodes olds{old};
    std::vector<base::Fence> fences{old->lo()};
    if (random_.chance(1, 4)) {
      tree_.with_right_sibling(*old, [&](Bnode* right) { olds.push_back(right); });
    } else {
      for (uint64_t key = 0; key < keys_ && fences.size() < 9; ++key) {
        const base::Fence cut = fence_of(key);
        if (old->lo() < cut && cut < old->hi()) fences.push_back(cut);
      }
    }
    fences.push_back(olds.back()->hi());
    ++now_;
    Layer::Bnodes news;
    for (size_t i = 0; i + 1 < fences.size(); ++i) news.push_back(keep(fences[i], fences[i + 1]));
    tree_.replace(olds, news);
    for (Bnode* each : olds) {
      lives_[each].died = ++now_;
      each->unref();
    }
  }

  void descend() {
    const auto guard = epochs_.enter();
    const std::string name = key_of(random_.below(keys_));
    const std::string other = key_of(random_.below(keys_));
    const Key keys[] = {Key::of(name), Key::of(other)};
    const base::Fence fence(name);
    ScanAhead following;
    Bnode* found[2] = {};
    const uint64_t begin = now_;
    switch (random_.below(5)) {
      case 0:
        return expect(tree_.find(keys[0]), keys[0], begin);
      case 1:
        return expect(tree_.find_to_read(keys[0]), keys[0], begin);
      case 2:
        return expect(tree_.find_to_scan(keys[0], &following), keys[0], begin);
      case 3:
        tree_.find_many(keys, found);
        expect(found[0], keys[0], begin);
        return expect(found[1], keys[1], begin);
      default:
        found[0] = tree_.find_below(fence);
        return judge(found[0], found[0]->lo() < fence && !(found[0]->hi() < fence), begin, "find_below " + name);
    }
  }
  void expect(const Bnode* bnode, const Key& key, uint64_t begin) {
    judge(bnode, !(key < bnode->lo().key()) && bnode->hi().above(key), begin, std::string(key.bytes));
  }
  void judge(const Bnode* bnode, bool covers, uint64_t begin, const std::string& what) {
    ++descents_;
    const auto life = lives_.find(const_cast<Bnode*>(bnode));
    const bool lived = life != lives_.end() && life->second.born <= now_ && life->second.died >= begin;
    if (covers && lived) return;
    wrong_ = what + (covers ? ": a bnode that had left the tree" : ": a bnode of another range");
  }

  base::Random random_;
  base::EpochDomain epochs_;
  Tree tree_{epochs_};
  std::map<Bnode*, Life> lives_;
  uint64_t keys_ = 0;
  uint64_t now_ = 1;
  uint64_t descents_ = 0;
  bool writing_ = true;
  std::string wrong_;
};

// Trees of one, two and three levels; one whose root is about to split.
constexpr size_t kRanges[] = {3, 62, 150, 2500};

std::string explore_descents(uint64_t seed, int schedules, uint64_t* descents) {
  for (const size_t ranges : kRanges) {
    for (int i = 0; i < (ranges > 1000 ? schedules / 10 : schedules); ++i, ++seed) {
      Descents run(seed, ranges);
      const std::string wrong = run.run();
      *descents += run.descents();
      if (!wrong.empty()) return std::to_string(ranges) + " ranges, BONSAI_SEED=" + std::to_string(seed) + ": " + wrong;
    }
  }
  return "";
}

TEST(Race, EveryDescentEndsAtABnodeThatWasThere) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const int schedules = bonsai::testing::budget(30, 300, 30'000);
  uint64_t descents = 0;
  EXPECT_EQ(explore_descents(seed, schedules, &descents), "");
  EXPECT_GT(descents, static_cast<uint64_t>(schedules) * 100);
  std::printf("%llu descents\n", static_cast<unsigned long long>(descents));
}

TEST(Race, ASplitOfAnInnerNodeByHalvesIsNoticed) {
  uint64_t descents = 0;
  bonsai::testing::mutants_on.store(kSplitByHalves);
  const std::string wrong = explore_descents(1, 300, &descents);
  bonsai::testing::mutants_on.store(0);
  EXPECT_NE(wrong, "");
  std::printf("%s\n", wrong.c_str());
}

}  // namespace
}  // namespace bonsai::index::testing
