// SPDX-License-Identifier: Apache-2.0
// The index tier on one thread: reads and updates against a model, over offloads, snapshots and crashes.
#include "index/index.h"

#include <gtest/gtest.h>

#include <list>

#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using Which = Index::Which;

TEST(Index, PutGetDelete) {
  Tier tier;
  EXPECT_EQ(tier.get("a"), std::nullopt);
  ASSERT_TRUE(tier.put("a", "1"));
  EXPECT_EQ(tier.get("a"), "1");
  ASSERT_TRUE(tier.put("a", ""));
  EXPECT_EQ(tier.get("a"), "");
  ASSERT_TRUE(tier.del("a"));
  EXPECT_EQ(tier.get("a"), std::nullopt);
  ASSERT_TRUE(tier.del("never there"));
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.get("a"), std::nullopt);
  EXPECT_TRUE(tier.scan_now().empty());
}

TEST(Index, GetReportsWhereAValueWas) {
  Tier tier;
  ASSERT_TRUE(tier.put("a", "1"));
  const auto from_dnode = [&] {
    const auto guard = tier.epochs().enter();
    Index::Lookup lookup{.key = Key::of("a")};
    tier.index().get(kLatest, &lookup);
    EXPECT_EQ(lookup.found, Index::Found::kValue);
    return lookup.value.from_dnode;
  };
  EXPECT_FALSE(from_dnode());
  EXPECT_TRUE(tier.index().dirty());
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_FALSE(tier.index().dirty());
  EXPECT_TRUE(from_dnode());
}

TEST(Index, OverwritingMergesInPlace) {
  Tier tier;
  for (int i = 0; i < 50'000; ++i) ASSERT_TRUE(tier.put(key_of(i % 7), std::to_string(i)));
  EXPECT_EQ(tier.index().work().offloads.load(), 0u) << "records of overwritten values die without any offload";
  EXPECT_EQ(tier.get(key_of(49'999 % 7)), "49999");
}

// Few keys that are overwritten again and again fill no slots, but the memory of their table.
TEST(Index, ATableWithoutMemoryLeftIsQueuedAsAboveTheHighWaterMark) {
  Tier tier;
  int puts = 0;
  const auto put_up_to = [&](int end) {
    for (; puts < end; ++puts) ASSERT_TRUE(tier.put(key_of(puts % 7), std::to_string(puts)));
  };
  put_up_to(100);
  EXPECT_EQ(tier.offload(Which::kUrgent).ranges, 0U);
  put_up_to(5'000);
  EXPECT_EQ(tier.index().work().offloads.load(), 0U);
  EXPECT_EQ(tier.offload(Which::kUrgent).ranges, 1U);
  EXPECT_EQ(tier.get(key_of(4'999 % 7)), "4999");
}

TEST(Index, TokensDoNotRunOut) {
  Tier tier({.tokens_max = 100});
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(tier.put("a", std::to_string(i)));
    ASSERT_TRUE(i % 50 != 0 || tier.write({{"a", std::to_string(i)}, {"b", "2"}}));
  }
  EXPECT_EQ(tier.get("a"), "999");
  EXPECT_GE(tier.index().work().offloads.load(), 8u);
  tier.crash();
  EXPECT_EQ(tier.get("a"), "999");
}

// Many keys at once: in bnodes, in dnodes of several runs, deleted, absent, over installed layers, now and as of a
// snapshot. Each result must be that of a single lookup.
TEST(Index, GetManyAnswersAsGetDoes) {
  Tier tier({.pool_bytes = size_t{16} << 20});
  base::Random random(test_seed());
  const auto expect_same = [&](uint64_t version) {
    Questions asked;
    const size_t n = random.below(3 * Tree::kFindManyMax);
    for (size_t i = 0; i < n; ++i) {
      asked.keys.push_back(random.chance(1, 8) ? "absent" + std::to_string(i) : key_of(random.below(2'500)));
      if (random.chance(1, 20)) asked.keys.back().clear();  // not to be asked
    }
    const auto guard = tier.epochs().enter();
    tier.index().get_many(version, n, &asked);
    for (size_t i = 0; i < n; ++i) {
      const std::string& key = asked.keys[i];
      ASSERT_EQ(asked.answers.count(i), key.empty() ? 0U : 1U) << key;
      if (key.empty()) continue;
      Index::Lookup single{.key = Key::of(key)};
      tier.index().get(version, &single);
      const Index::Lookup& lookup = asked.answers.find(i)->second;
      ASSERT_EQ(lookup.key.bytes, key);
      ASSERT_EQ(lookup.found, single.found) << key;
      if (single.found != Index::Found::kValue) continue;
      ASSERT_EQ(lookup.value.bytes, single.value.bytes) << key;
      ASSERT_EQ(lookup.value.from_dnode, single.value.from_dnode) << key;
    }
  };
  auto snapshot = tier.index().register_scan();
  for (int round = 0; round < 4'000; ++round) {
    const std::string key = key_of(random.below(2'500));
    ASSERT_TRUE(random.chance(1, 5) ? tier.del(key) : tier.put(key, std::to_string(round)));
    if (random.chance(1, 150)) tier.offload(random.chance(1, 2) ? Which::kUrgent : Which::kAll);
    if (random.chance(1, 400)) snapshot = tier.index().register_scan();
    if (random.chance(1, 10)) expect_same(random.chance(1, 2) ? kLatest : snapshot.version());
  }
}

// Under a sequential load only the last range is ever dirty. The ranges before it must not stay queued, with all their
// memory, when only the urgent offloader takes work.
TEST(Index, OffloadedRangesLeaveTheQueue) {
  Tier tier({.pool_bytes = size_t{32} << 20});
  for (uint64_t i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(tier.put(key_of(i), "v"));
    if (tier.index().urgent()) tier.offload(Which::kUrgent);
    ASSERT_LE(tier.index().dirty_ranges(), 4u) << i;
  }
  EXPECT_GT(tier.index().work().offloads.load(), 20'000 / Slots::kRisingCapacityMax);
}

// Bnodes above the high-water mark get their successors from the background, also those that rose above it while their
// predecessors were being offloaded, so that writers never find one full.
TEST(Index, ABnodeAboveTheHighMarkIsReplacedBeforeAWriterMustDoIt) {
  Tier tier;
  uint64_t next = 0;
  const auto put_new = [&](int n) {
    for (int i = 0; i < n; ++i) ASSERT_TRUE(tier.put(key_of(next++), "v"));
  };
  const auto& work = tier.index().work();
  put_new(13);
  EXPECT_EQ(tier.offload(Which::kUrgent).ranges, 0u) << "nothing is above the high-water mark";
  put_new(1);
  EXPECT_FALSE(tier.index().urgent()) << "not enough for a group";
  EXPECT_EQ(tier.offload(Which::kUrgent).ranges, 1u);
  EXPECT_EQ(tier.offload(Which::kUrgent).ranges, 0u);
  put_new(27);  // of 32
  EXPECT_EQ(tier.offload(Which::kUrgent).ranges, 0u);
  put_new(1);
  EXPECT_EQ(tier.offload(Which::kUrgent).ranges, 1u);
  EXPECT_EQ(work.plans_by_writers.load(), 0u);
  put_new(61);  // of 64: one more than fits before a writer acts, and then the successor rises above the mark
  EXPECT_EQ(work.plans_by_writers.load(), 1u);
  put_new(111);
  EXPECT_EQ(tier.offload(Which::kUrgent).ranges, 1u) << "the successor is pending and left for later";
  EXPECT_EQ(tier.offload(Which::kUrgent).ranges, 1u) << "it was not forgotten";
  EXPECT_EQ(work.plans_by_writers.load(), 1u);
  EXPECT_EQ(tier.scan_now().size(), next);
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.scan_now().size(), next);
}

TEST(Index, APutStallsWhenItsRangeIsTwoBnodesDeep) {
  Tier tier;
  Index::Outcome outcome = Index::Outcome::kDone;
  uint64_t i = 0;
  for (; outcome == Index::Outcome::kDone && i < 1'000; ++i) {
    const std::string key = key_of(i);
    Index::Put put;
    put.key = Key::of(key);
    const auto guard = tier.epochs().enter();
    outcome = tier.index().put(&put);
  }
  EXPECT_EQ(outcome, Index::Outcome::kStalled);
  EXPECT_EQ(tier.scan_now().size(), i - 1);
  EXPECT_TRUE(tier.index().urgent());
  EXPECT_EQ(tier.offload(Which::kUrgent).ranges, 1u);
  EXPECT_FALSE(tier.index().urgent());
  EXPECT_TRUE(tier.put(key_of(i - 1), ""));
  EXPECT_EQ(tier.scan_now().size(), i);
}

TEST(Index, RangesSplitAndMerge) {
  Tier tier({.pool_bytes = size_t{16} << 20});
  Model model;
  for (uint64_t i = 0; i < 4'000; ++i) {
    ASSERT_TRUE(tier.put(key_of(i), "value"));
    model[key_of(i)] = "value";
  }
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.scan_now(), model);
  const size_t grown = tier.ranges();
  EXPECT_GE(grown, 4'000u / 512);
  EXPECT_GT(tier.index().work().splits.load(), 0u);
  for (uint64_t i = 0; i < 4'000; ++i) {
    if (i % 50 != 0) {
      ASSERT_TRUE(tier.del(key_of(i)));
      model.erase(key_of(i));
    }
  }
  ASSERT_TRUE(tier.drain().ok());
  for (int round = 0; round < 6; ++round) {  // merging goes with offloading
    for (auto& [key, value] : model) ASSERT_TRUE(tier.put(key, value = std::to_string(round)));
    ASSERT_TRUE(tier.drain().ok());
  }
  EXPECT_EQ(tier.scan_now(), model);
  EXPECT_GT(tier.index().work().merges.load(), 0u);
  EXPECT_LT(tier.ranges(), grown / 2);
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
  tier.crash();
  EXPECT_EQ(tier.scan_now(), model);
}

// Reads of a dnode of two runs, again and again, have it compacted.
template <class Read>
void expect_compaction(Tier& tier, Model& model, Read read) {
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(tier.put(key_of(i), model[key_of(i)] = "0123456789"));
  ASSERT_TRUE(tier.drain().ok());
  ASSERT_TRUE(tier.put(key_of(5), model[key_of(5)] = "changed"));
  ASSERT_TRUE(tier.drain().ok());
  const uint64_t compactions = tier.index().work().compactions.load();
  for (int i = 0; i < 10 && !tier.index().compaction_wanted(); ++i) read();
  ASSERT_TRUE(tier.index().compaction_wanted());
  EXPECT_EQ(tier.offload(Index::Which::kCompactions, 8).ranges, 1U);
  EXPECT_FALSE(tier.index().compaction_wanted());
  EXPECT_EQ(tier.index().work().compactions.load(), compactions + 1);
  for (int i = 0; i < 20; ++i) read();
  EXPECT_FALSE(tier.index().compaction_wanted()) << "it is one run now";
  ASSERT_TRUE(tier.put(key_of(7), model[key_of(7)] = "changed, too"));
  for (int i = 0; i < 20; ++i) read();
  EXPECT_EQ(tier.index().work().compactions.load(), compactions + 1);
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
  tier.crash();
  EXPECT_EQ(tier.scan_now(), model);
}

TEST(Index, ScansHaveRunsPutTogether) {
  Tier tier;
  Model model;
  expect_compaction(tier, model, [&] { EXPECT_EQ(tier.scan_now(), model); });
}

TEST(Index, GetsHaveRunsPutTogether) {
  Tier tier;
  Model model;
  expect_compaction(tier, model, [&] {
    for (const auto& [key, value] : model) EXPECT_EQ(tier.get(key), value);
  });
}

// Scans pass each update of a range, so when there are many they are moved into its run, as several runs would be.
TEST(Index, ScansHaveManyUpdatesPutIntoTheRun) {
  for (const uint64_t updates : {31, 32}) {
    Tier tier;
    Model model;
    for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(tier.put(key_of(i), model[key_of(i)] = "0123456789"));
    ASSERT_TRUE(tier.drain().ok());
    tier.put_in_order();
    for (uint64_t i = 0; i < updates; ++i) ASSERT_TRUE(tier.put(key_of(i), model[key_of(i)] = "changed"));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(tier.scan_now(), model);
    if (updates < 32) {
      EXPECT_FALSE(tier.index().compaction_wanted());
      continue;
    }
    const uint64_t compactions = tier.index().work().compactions.load();
    ASSERT_TRUE(tier.index().compaction_wanted());
    EXPECT_EQ(tier.offload(Index::Which::kCompactions, 8).ranges, 1U);
    EXPECT_EQ(tier.index().work().compactions.load(), compactions + 1);
    EXPECT_FALSE(tier.index().dirty());
    for (int i = 0; i < 20; ++i) EXPECT_EQ(tier.scan_now(), model);
    EXPECT_FALSE(tier.index().compaction_wanted());
    tier.crash();
    EXPECT_EQ(tier.scan_now(), model);
  }
}

// ---- snapshots over replacement

TEST(Residue, OldVersionsOutliveTheOffload) {
  Tier tier;
  ASSERT_TRUE(tier.put("a", "0"));
  ASSERT_TRUE(tier.drain().ok());
  Versions::Registration first = tier.index().register_scan();
  ASSERT_TRUE(tier.put("a", "1"));
  ASSERT_TRUE(tier.put("new", "1"));
  Versions::Registration second = tier.index().register_scan();
  ASSERT_TRUE(tier.put("a", "2"));
  ASSERT_TRUE(tier.del("new"));
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(tier.scan(first.version()), (Model{{"a", "0"}})) << round;
    EXPECT_EQ(tier.scan(second.version()), (Model{{"a", "1"}, {"new", "1"}})) << round;
    EXPECT_EQ(tier.scan_backwards(second.version()), (Model{{"a", "1"}, {"new", "1"}})) << round;
    EXPECT_EQ(tier.get("new", first.version()), std::nullopt);
    EXPECT_EQ(tier.get("new", second.version()), "1");
    EXPECT_EQ(tier.get("a"), "2");
    ASSERT_TRUE(tier.put("other", std::to_string(round)));  // so that there is something to offload
    ASSERT_TRUE(tier.put("other2", std::to_string(round)));
    const Model hidden = tier.scan(first.version());
    EXPECT_FALSE(hidden.contains("other"));
    ASSERT_TRUE(tier.drain().ok());
    EXPECT_EQ(tier.residues(), 1u);
  }
  first = Versions::Registration();
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.scan(second.version()), (Model{{"a", "1"}, {"new", "1"}}));
  second = Versions::Registration();
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.residues(), 0u);
  EXPECT_EQ(tier.get("a"), "2");
}

TEST(Residue, SurvivesSplitAndMerge) {
  Tier tier({.pool_bytes = size_t{16} << 20});
  Model old;
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(tier.put(key_of(i), "old"));
    old[key_of(i)] = "old";
  }
  const Versions::Registration own = tier.index().register_scan();
  for (uint64_t i = 0; i < 3'000; ++i) ASSERT_TRUE(tier.put(key_of(i), "new"));
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_GT(tier.ranges(), 4u);
  EXPECT_EQ(tier.scan(own.version()), old);
  for (uint64_t i = 0; i < 3'000; ++i) ASSERT_TRUE(tier.del(key_of(i)));
  ASSERT_TRUE(tier.drain().ok());
  for (int round = 0; round < 4; ++round) {
    for (uint64_t i = 0; i < 3'000; i += 40) ASSERT_TRUE(tier.put(key_of(i), "x"));
    ASSERT_TRUE(tier.drain().ok());
  }
  EXPECT_GT(tier.index().work().merges.load(), 0u);
  EXPECT_EQ(tier.scan(own.version()), old);
  EXPECT_EQ(tier.scan_backwards(own.version()), old);
}

// ---- large values

std::string large(char c) { return std::string(9'000, c); }

TEST(Large, FreedOnceNobodyNeedsThem) {
  Tier tier;
  ASSERT_TRUE(tier.drain().ok());
  const uint64_t empty = tier.space().used_bytes();
  ASSERT_TRUE(tier.put_large("a", large('1')));
  ASSERT_TRUE(tier.put_large("a", large('2')));  // merged in place
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.get("a"), large('2'));
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
  ASSERT_TRUE(tier.put_large("a", large('3')));  // over the dnode's
  ASSERT_TRUE(tier.put_large("b", large('b')));
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.get("a"), large('3'));
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
  ASSERT_TRUE(tier.put("b", "small"));
  ASSERT_TRUE(tier.del("a"));
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.scan_now(), (Model{{"b", "small"}}));
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
  ASSERT_TRUE(tier.del("b"));
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_LE(tier.space().used_bytes(), empty + 4096);
}

TEST(Large, KeptForSnapshotsAndThenFreed) {
  Tier tier;
  ASSERT_TRUE(tier.put_large("a", large('0')));
  ASSERT_TRUE(tier.put_large("gone", large('g')));
  ASSERT_TRUE(tier.drain().ok());
  std::list<std::pair<Versions::Registration, std::string>> snapshots;
  const auto snapshot = [&](const std::string& value) { snapshots.emplace_back(tier.index().register_scan(), value); };
  const auto check = [&] {
    for (const auto& [own, value] : snapshots) EXPECT_EQ(tier.get("a", own.version()), value);
  };
  snapshot(large('0'));
  for (char c = '1'; c <= '4'; ++c) {
    ASSERT_TRUE(tier.put_large("a", large(c)));
    snapshot(large(c));
    ASSERT_TRUE(c != '2' || tier.del("gone"));
    check();
    ASSERT_TRUE(tier.drain().ok());
    check();
  }
  EXPECT_EQ(tier.get("gone", snapshots.front().first.version()), large('g'));
  snapshots.erase(std::next(snapshots.begin()));  // one in the middle
  ASSERT_TRUE(tier.put("a", "small"));
  ASSERT_TRUE(tier.drain().ok());
  check();
  snapshots.pop_front();
  ASSERT_TRUE(tier.put("x", "y"));  // the range is replaced, with its residue
  ASSERT_TRUE(tier.drain().ok());
  check();
  snapshots.clear();
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.residues(), 0u);
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
  EXPECT_EQ(tier.scan_now(), (Model{{"a", "small"}, {"x", "y"}}));
}

// ---- no space

TEST(Full, OffloadIsTriedAgainAndNothingIsLost) {
  Tier tier({.pool_bytes = size_t{2} << 20});
  Model model;
  const auto put = [&](uint64_t i, const std::string& value) {
    ASSERT_TRUE(tier.put(key_of(i), value));
    model[key_of(i)] = value;
  };
  for (uint64_t i = 0; i < 800; ++i) put(i * 7 % 800, "before");
  ASSERT_TRUE(tier.drain().ok());
  Versions::Registration own = tier.index().register_scan();
  const Model before = model;
  std::vector<scale::Addr> hogs;
  constexpr uint64_t kHogBytes = 256;
  for (scale::Addr at; !(at = tier.space().allocate(kHogBytes, persist::Space::Use::kReserve)).is_nil();)
    hogs.push_back(at);
  for (uint64_t i = 0; i < 200; ++i) put(i * 4, "after");
  EXPECT_TRUE(tier.drain().IsNoSpace());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(tier.offload().status.IsNoSpace());
  EXPECT_TRUE(tier.index().dirty());
  EXPECT_EQ(tier.scan_now(), model);
  EXPECT_EQ(tier.scan(own.version()), before);
  EXPECT_EQ(tier.scan_backwards(kLatest), model);
  for (const scale::Addr at : hogs) tier.space().free(at, kHogBytes);
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_EQ(tier.scan_now(), model);
  EXPECT_EQ(tier.scan(own.version()), before);
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
  own = Versions::Registration();
  tier.crash();
  EXPECT_EQ(tier.scan_now(), model);
}

// ---- everything, at random, against a model

class Walk {
 public:
  Walk(Tier& tier, uint64_t seed) : tier_(tier), random_(seed) {}

  void step() {
    const uint64_t dice = random_.below(1000);
    if (dice < 500) {
      const std::string key = some_key(), value = some_value();
      const bool large = random_.chance(1, 60);
      ASSERT_TRUE(large ? tier_.put_large(key, large_of(value)) : tier_.put(key, value));
      now_[key] = large ? large_of(value) : value;
    } else if (dice < 700) {
      const std::string key = some_key();
      ASSERT_TRUE(tier_.del(key));
      now_.erase(key);
    } else if (dice < 780) {
      batch();
    } else if (dice < 900) {
      const std::string key = some_key();
      const auto it = now_.find(key);
      EXPECT_EQ(tier_.get(key), it == now_.end() ? std::nullopt : std::optional(it->second));
    } else if (dice < 930) {
      static_cast<void>(tier_.offload(random_.chance(1, 2) ? Which::kUrgent : Which::kAll, 1 + random_.below(4)));
    } else if (dice < 950) {
      static_cast<void>(tier_.index().tidy(1 + random_.below(10)));
    } else if (dice < 970) {
      if (snapshots_.size() < 6) snapshots_.push_back({tier_.index().register_scan(), now_});
    } else if (dice < 985) {
      if (!snapshots_.empty())
        snapshots_.erase(std::next(snapshots_.begin(), static_cast<ptrdiff_t>(random_.below(snapshots_.size()))));
    } else if (dice < 997) {
      check_one();
    } else {
      rest();
    }
  }

  // Quiet moments: crash, or drain and compare space.
  void rest() {
    if (random_.chance(1, 3)) {
      snapshots_.clear();
      ASSERT_TRUE(tier_.log().close_epoch().ok());
      tier_.crash();
    } else if (random_.chance(1, 2)) {
      snapshots_.clear();
      ASSERT_TRUE(tier_.drain().ok());
      EXPECT_EQ(tier_.residues(), 0u);
      EXPECT_EQ(tier_.space().used_bytes(), tier_.bytes_in_use());
    }
    EXPECT_TRUE(tier_.scan_now() == now_);
  }

 private:
  std::string some_key() { return key_of(random_.chance(1, 2) ? random_.below(40) : random_.below(1'000)); }
  std::string some_value() { return std::string(random_.below(30), 'v') + std::to_string(++counter_); }
  static std::string large_of(const std::string& value) { return value + std::string(5'000, 'L'); }

  void batch() {
    std::map<std::string, std::optional<std::string>> updates;
    for (uint64_t n = 1 + random_.below(12); n > 0; --n) {
      if (random_.chance(1, 4)) {
        updates[some_key()] = std::nullopt;
      } else {
        updates[some_key()] = some_value();
      }
    }
    ASSERT_TRUE(tier_.write(updates));
    for (const auto& [key, value] : updates) {
      if (value) {
        now_[key] = *value;
      } else {
        now_.erase(key);
      }
    }
  }

  void check_one() {
    if (snapshots_.empty()) {
      EXPECT_TRUE(tier_.scan_backwards(kLatest) == now_);
      return;
    }
    const Snapshot& snapshot = *std::next(snapshots_.begin(), static_cast<ptrdiff_t>(random_.below(snapshots_.size())));
    const uint64_t version = snapshot.own.version();
    EXPECT_TRUE((random_.chance(1, 2) ? tier_.scan(version) : tier_.scan_backwards(version)) == snapshot.model);
  }

  struct Snapshot {
    Versions::Registration own;
    Model model;
  };
  Tier& tier_;
  base::Random random_;
  Model now_;
  std::list<Snapshot> snapshots_;
  uint64_t counter_ = 0;
};

TEST(Index, RandomWalkMatchesTheModel) {
  const uint64_t seed = test_seed();
  for (uint64_t round = 0; round < 8; ++round) {
    Tier tier({.pool_bytes = size_t{4} << 20, .buffered = round % 4 == 3});
    Walk walk(tier, seed + round);
    for (int i = 0; i < 4'000 && !::testing::Test::HasFailure(); ++i) {
      walk.step();
      if (round % 4 == 3 && i % 16 == 0) static_cast<void>(tier.log().close_epoch());
    }
    walk.rest();
  }
}

}  // namespace
}  // namespace bonsai::index::testing
