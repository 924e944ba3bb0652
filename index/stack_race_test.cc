// Batches over successors that are not offloaded, at the product's own steps: chosen ones, then seeded schedules in
// which each thread is held up somewhere until others have gone on (the model of it: testing/put_model.h).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <utility>

#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/step.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using Outcome = Index::Outcome;
using Updates = std::map<std::string, std::optional<std::string>>;

// Runs `call` the next time that the step is reached.
std::function<void()> once;
const char* once_at = "";
void hook(const char* step) {
  if (once && std::strcmp(step, once_at) == 0) std::exchange(once, {})();
}

// Two full ranges that the tests know, with room for more keys beside theirs.
class TwoRanges {
 public:
  TwoRanges() : tier({.pool_bytes = size_t{8} << 20, .log_bytes = uint64_t{2} << 20}) {
    for (uint64_t i = 0; i < 5'000; ++i) BONSAI_CHECK(tier.put(key_of(i), std::string(100, 'v')));
    BONSAI_CHECK(tier.drain().ok() && tier.ranges() > 1);
  }

  // One attempt, inside the caller's guard.
  Outcome put(const std::string& key, const std::string& value) {
    Index::Put put;
    put.key = Key::of(key);
    put.value = value;
    return tier.index().put(&put);
  }
  // Puts other keys into the last range until one would have to wait for an offload.
  void fill() {
    while (put(kKey + std::to_string(++filled_), "f") == Outcome::kDone) BONSAI_CHECK(filled_ % 100'000 != 0);
  }
  // A batch that begins in the first range, and then needs room in the last.
  Batch* batch_that_needs_room() {
    return Tier::make_batch({{kFirst, "y"}, {kKey + ".needs room" + std::to_string(++filled_), "y"}});
  }
  // How often a batch's item stands in the bnodes of the last range.
  size_t nodes_of(const Batch& batch, const std::string& key) {
    size_t nodes = 0;
    const Key wanted = Key::of(key);
    const auto count = [&](const Bnode* bnode) {
      const Slots* slots = bnode->slots();
      const Node* node = slots != nullptr ? slots->find(wanted, wanted.hash()).head() : nullptr;
      for (; node != nullptr; node = node->next.load()) nodes += node->batch() == &batch ? 1 : 0;
    };
    const Bnode* bnode = tier.index().tree().find(wanted);
    for (count(bnode); bnode->layer() != nullptr && bnode->layer()->installed.load(); count(bnode)) {
      bnode = bnode->layer()->new_for(wanted);
    }
    return nodes;
  }

  static inline const std::string kFirst = "key", kKey = "key9", kFar = "kez";
  Tier tier;

 private:
  uint64_t filled_ = 0;
};

// X = {key, far} stands on the key alone when others have piled up two successors above it. Who then puts the key must
// make X visible first: X came before.
std::optional<std::string> far_behind_the_put() {
  TwoRanges ranges;
  Tier& tier = ranges.tier;
  Batch* x = Tier::make_batch({{ranges.kKey, "x"}, {ranges.kFar, "x"}});
  Batch* y = ranges.batch_that_needs_room();
  std::optional<std::string> far;
  once_at = "published batch node";
  once = [&] {
    ranges.fill();
    EXPECT_EQ(tier.index().write(y), Outcome::kDone);
    EXPECT_EQ(ranges.put(ranges.kKey, "p"), Outcome::kDone);
    far = tier.get(ranges.kFar);
  };
  {
    const auto guard = tier.epochs().enter();
    base::step_hook.store(&hook);
    EXPECT_EQ(tier.index().write(x), Outcome::kDone);
    base::step_hook.store(nullptr);
  }
  EXPECT_FALSE(once) << "the step was not reached";
  EXPECT_EQ(tier.get(ranges.kKey), "p");
  tier.crash();
  EXPECT_EQ(tier.get(ranges.kKey), "p");
  EXPECT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.get(ranges.kKey), "p");
  x->unref();
  y->unref();
  return far;
}

TEST(StackRace, APutSeesABatchTwoLayersBelow) { EXPECT_EQ(far_behind_the_put(), "x"); }

TEST(StackRace, ALayerThatIsSettledByItsOwnHeadsIsNoticed) {
  base::mutants_on.store(kSettledByOwnHeads);
  EXPECT_EQ(far_behind_the_put(), std::nullopt);
  base::mutants_on.store(0);
}

// The same, and a put that began before: it finds X's node in the old bnode and helps, while X's owner has not noted
// yet that the node stands.
TEST(StackRace, AHelperFindsABatchsItemTwoLayersBelow) {
  TwoRanges ranges;
  Tier& tier = ranges.tier;
  Batch* x = Tier::make_batch({{ranges.kKey, "x"}, {ranges.kFar, "x"}});
  Batch* y = ranges.batch_that_needs_room();
  once_at = "published batch node";
  once = [&] {
    once_at = "persist record";
    once = [&] {
      ranges.fill();
      EXPECT_EQ(tier.index().write(y), Outcome::kDone);
    };
    EXPECT_NE(ranges.put(ranges.kKey, "p"), Outcome::kLogFull);
    EXPECT_EQ(ranges.nodes_of(*x, ranges.kKey), 1u);
  };
  {
    const auto guard = tier.epochs().enter();
    base::step_hook.store(&hook);
    EXPECT_EQ(tier.index().write(x), Outcome::kDone);
    base::step_hook.store(nullptr);
  }
  EXPECT_FALSE(once) << "the step was not reached";
  const Model before = tier.scan_now();
  tier.crash();
  EXPECT_EQ(tier.scan_now(), before);
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.scan_now(), before);
  x->unref();
  y->unref();
}

// ---- seeded schedules

// The same cast under a scheduler that switches at every step, each held up at a seeded one until the others have
// ended.
class Schedule {
 public:
  Schedule(TwoRanges* ranges, uint64_t seed) : ranges_(*ranges), tier_(ranges->tier), random_(seed) {
    key_ = ranges_.kKey + "." + std::to_string(seed);
    far_ = ranges_.kFar + "." + std::to_string(seed);
  }

  // Empty: all was right.
  std::string run() {
    base::Scheduler::Options options;
    options.pick = base::Scheduler::Pick::kSeeded;
    options.seed = random_.next();
    options.stay_per_256 = random_.chance(1, 2) ? 0 : 200;
    options.stack_bytes = size_t{256} << 10;
    base::Scheduler scheduler(options);
    Batch* x = Tier::make_batch({{key_, "x"}, {far_, "x"}});
    Batch* y = ranges_.batch_that_needs_room();
    spawn(&scheduler, 24, [&] { write(x); });
    spawn(&scheduler, 24, [&] { write(y); });
    spawn(&scheduler, 24, [&] { put_and_read(); });
    spawn(&scheduler, 2'000, [&] {
      const auto guard = tier_.epochs().enter();
      ranges_.fill();
    });
    if (random_.chance(1, 2)) spawn(&scheduler, 200, [&] { static_cast<void>(offload()); });
    running = this;
    base::step_hook.store([](const char*) { running->at_step(); });
    const Status status = scheduler.run();
    base::step_hook.store(nullptr);
    if (!status.ok()) return status.ToString();
    judge(*x);
    x->unref();
    y->unref();
    return wrong_;
  }
  [[nodiscard]] bool stacked() const { return stacked_; }

 private:
  struct Actor {
    uint64_t held_at = 0;  // its step
    uint64_t steps = 0;
  };
  static constexpr size_t kOthersMax = 3;
  static constexpr int kTriesMax = 20'000;

  void spawn(base::Scheduler* scheduler, uint64_t steps, std::function<void()> body) {
    const size_t number = actors_.size();
    actors_.push_back({random_.below(steps), 0});
    scheduler->spawn([this, number, body = std::move(body)] {
      acting_ = number;
      body();
      ++ended_;
    });
  }

  void at_step() {
    const size_t own = acting_;
    base::Scheduler::yield();
    Actor& actor = actors_[own];
    const bool held = ++actor.steps == actor.held_at;
    for (int i = 0; held && i < kTriesMax && ended_ < kOthersMax; ++i) base::Scheduler::yield();
    acting_ = own;
  }

  void write(Batch* batch) {
    for (int i = 0; i < kTriesMax; ++i) {
      {
        const auto guard = tier_.epochs().enter();
        if (tier_.index().write(batch) == Outcome::kDone) return;
      }
      offload();
    }
    wrong_ = "a batch does not end";
  }

  void put_and_read() {
    for (int i = 0; i < kTriesMax; ++i) {
      {
        const auto guard = tier_.epochs().enter();
        if (ranges_.put(key_, "p") == Outcome::kDone) break;
      }
      offload();
    }
    far_seen_ = tier_.get(far_);
    put_ = true;
  }

  void offload() { static_cast<void>(tier_.index().offload(1, Index::Which::kUrgent)); }

  void judge(const Batch& x) {
    const Layer* layer = tier_.index().tree().find(Key::of(key_))->layer();
    stacked_ = layer != nullptr && layer->new_for(Key::of(key_))->layer() != nullptr;
    const auto key = tier_.get(key_);
    // What was put before the batch became visible lies below it.
    if (put_ && !far_seen_ && key != "x") wrong_ = "the put stands above a batch that came later";
    if (key != "x" && key != "p") wrong_ = "the key has neither value";
    if (tier_.get(far_) != "x") wrong_ = "the batch is not whole";
    if (ranges_.nodes_of(x, key_) > 1) wrong_ = "an item stands twice";
  }

  static inline Schedule* running = nullptr;
  TwoRanges& ranges_;
  Tier& tier_;
  base::Random random_;
  std::string key_, far_;
  std::vector<Actor> actors_;
  size_t acting_ = 0;  // whose turn it is
  size_t ended_ = 0;
  std::optional<std::string> far_seen_;
  bool put_ = false;
  bool stacked_ = false;
  std::string wrong_;
};

constexpr uint64_t kSchedulesPerTier = 50;

std::string explore(uint64_t seed, uint64_t schedules, uint64_t* stacked) {
  for (uint64_t i = 0; i < schedules;) {
    TwoRanges ranges;
    for (uint64_t end = std::min(schedules, i + kSchedulesPerTier); i < end; ++i) {
      Schedule schedule(&ranges, seed + i);
      const std::string wrong = schedule.run();
      *stacked += schedule.stacked() ? 1 : 0;
      if (!wrong.empty()) return "BONSAI_SEED=" + std::to_string(seed + i) + ": " + wrong;
      BONSAI_CHECK(ranges.tier.drain().ok());
    }
    const Model before = ranges.tier.scan_now();
    ranges.tier.crash();
    if (ranges.tier.scan_now() != before) return "BONSAI_SEED=" + std::to_string(seed) + ": recovery";
  }
  return "";
}

TEST(StackRace, EveryScheduleHolds) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const auto schedules = bonsai::testing::budget<uint64_t>(200, 2'000, 200'000);
  uint64_t stacked = 0;
  EXPECT_EQ(explore(seed, schedules, &stacked), "");
  std::printf("%llu of %llu schedules met a stack\n", static_cast<unsigned long long>(stacked),
              static_cast<unsigned long long>(schedules));
  bonsai::testing::add_figure("protocol_schedules", schedules);
}

}  // namespace
}  // namespace bonsai::index::testing
