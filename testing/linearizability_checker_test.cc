// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "testing/linearizability.h"
#include "testing/recorder.h"

namespace bonsai::testing {
namespace {

constexpr uint64_t kKey = 7;

History puts_and_gets() {
  History h;
  h.add(OpKind::kPut, 0, 1, 4, {{kKey, 10}});
  h.add(OpKind::kGet, 1, 2, 3, {{kKey, 10}});  // saw the put before it returned
  h.add(OpKind::kPut, 1, 5, 8, {{kKey, 11}});
  return h;
}

TEST(Registers, EmptyAndSequentialHistoriesPass) {
  EXPECT_TRUE(check_registers({}).ok);
  History h = puts_and_gets();
  h.add(OpKind::kGet, 0, 9, 10, {{kKey, 11}});
  EXPECT_TRUE(check_registers(h).ok);
}

TEST(Registers, ConcurrentReadsMaySeeOldOrNewInTheRightOrder) {
  History h = puts_and_gets();
  h.add(OpKind::kGet, 2, 5, 6, {{kKey, 10}});
  h.add(OpKind::kGet, 2, 7, 9, {{kKey, 11}});
  EXPECT_TRUE(check_registers(h).ok);
}

TEST(Registers, ReadThatGoesBackwardsFails) {
  History h = puts_and_gets();
  h.add(OpKind::kGet, 2, 5, 6, {{kKey, 11}});
  h.add(OpKind::kGet, 3, 7, 9, {{kKey, 10}});
  const Verdict verdict = check_registers(h);
  EXPECT_FALSE(verdict.ok);
  EXPECT_NE(verdict.text.find("key 7"), std::string::npos) << verdict.text;
}

TEST(Registers, LostPutFails) {
  History h = puts_and_gets();
  h.add(OpKind::kGet, 0, 9, 10, {{kKey, 10}});
  EXPECT_FALSE(check_registers(h).ok);
}

TEST(Registers, InventedAndGarbledValuesFail) {
  for (const uint64_t value : {uint64_t{99}, kGarbled}) {
    History h = puts_and_gets();
    h.add(OpKind::kGet, 0, 9, 10, {{kKey, value}});
    EXPECT_FALSE(check_registers(h).ok);
  }
}

TEST(Registers, ReadFromTheFutureFails) {
  History h;
  h.add(OpKind::kGet, 0, 1, 2, {{kKey, 10}});
  h.add(OpKind::kPut, 0, 3, 4, {{kKey, 10}});
  EXPECT_FALSE(check_registers(h).ok);
}

TEST(Registers, UpdateOfUnknownOutcomeMayHappenLateOrNever) {
  for (const uint64_t late : {uint64_t{10}, uint64_t{11}}) {
    History h;
    h.add(OpKind::kPut, 0, 1, 2, {{kKey, 10}});
    h.add(OpKind::kPut, 1, 3, kOpen, {{kKey, 11}});
    h.add(OpKind::kGet, 0, 4, 5, {{kKey, 10}});
    h.add(OpKind::kGet, 0, 6, 7, {{kKey, late}});
    EXPECT_TRUE(check_registers(h).ok);
  }
  History h;  // but it does not come and go
  h.add(OpKind::kPut, 0, 1, 2, {{kKey, 10}});
  h.add(OpKind::kPut, 1, 3, kOpen, {{kKey, 11}});
  h.add(OpKind::kGet, 0, 4, 5, {{kKey, 11}});
  h.add(OpKind::kGet, 0, 6, 7, {{kKey, 10}});
  EXPECT_FALSE(check_registers(h).ok);
}

TEST(Registers, DeletesAreUpdatesLikeOthers) {
  History h = puts_and_gets();
  h.add(OpKind::kDelete, 0, 9, 12, {{kKey, kAbsent}});
  h.add(OpKind::kGet, 1, 10, 11, {{kKey, kAbsent}});
  h.add(OpKind::kGet, 1, 13, 14, {{kKey, kAbsent}});
  EXPECT_TRUE(check_registers(h).ok);
  h.add(OpKind::kGet, 1, 15, 16, {{kKey, 11}});
  EXPECT_FALSE(check_registers(h).ok);
}

TEST(Registers, InitialValuesCount) {
  History h;
  h.add(OpKind::kGet, 0, 1, 2, {{kKey, 5}});
  const Cell initial{kKey, 5};
  EXPECT_TRUE(check_registers(h, {&initial, 1}).ok);
  EXPECT_FALSE(check_registers(h).ok);
}

TEST(Registers, ReportIsCutDownToWhatMatters) {
  History h;
  uint64_t now = 1;
  for (uint64_t value = 1; value <= 1000; ++value, now += 4) {
    h.add(OpKind::kPut, 0, now, now + 1, {{kKey, value}});
    h.add(OpKind::kGet, 1, now + 2, now + 3, {{kKey, value == 700 ? 650 : value}});
  }
  const Verdict verdict = check_registers(h);
  ASSERT_FALSE(verdict.ok);
  EXPECT_LE(std::count(verdict.text.begin(), verdict.text.end(), '\n'), 3) << verdict.text;
  EXPECT_NE(verdict.text.find("k7=650"), std::string::npos) << verdict.text;
}

TEST(Whole, TornBatchAndTornScanFail) {
  History torn_batch;
  torn_batch.add(OpKind::kBatch, 0, 1, 8, {{1, 10}, {2, 20}});
  torn_batch.add(OpKind::kGet, 1, 2, 3, {{1, 10}});
  torn_batch.add(OpKind::kGet, 1, 4, 5, {{2, kAbsent}});
  EXPECT_TRUE(check_registers(torn_batch).ok) << "each key by itself is fine";
  EXPECT_FALSE(check_whole(torn_batch).ok);

  History torn_scan;
  torn_scan.add(OpKind::kPut, 0, 1, 2, {{1, 10}});
  torn_scan.add(OpKind::kScan, 1, 3, 8, {{1, 10}, {2, 20}});
  torn_scan.add(OpKind::kPut, 0, 4, 5, {{1, 11}});
  torn_scan.add(OpKind::kPut, 0, 6, 7, {{2, 20}});
  EXPECT_FALSE(check_whole(torn_scan).ok);
}

TEST(Whole, LongForkOfTwoWritersFails) {
  History h;
  h.add(OpKind::kPut, 0, 1, 20, {{1, 10}});
  h.add(OpKind::kPut, 1, 2, 20, {{2, 20}});
  h.add(OpKind::kScan, 2, 3, 4, {{1, 10}, {2, kAbsent}});
  EXPECT_TRUE(check_whole(h).ok);
  h.add(OpKind::kScan, 3, 5, 6, {{1, kAbsent}, {2, 20}});
  EXPECT_FALSE(check_whole(h).ok);
}

TEST(Whole, UpdatesOfOneKeyInOneGroupKeepTheirOrder) {
  const auto group_and_read = [](uint32_t second_thread, uint64_t seen) {
    History h;
    h.add(OpKind::kPut, 0, 1, 10, {{1, 10}});
    h.add(OpKind::kDelete, 0, 2, 11, {{2, kAbsent}});
    h.add(OpKind::kPut, second_thread, 3, 12, {{1, 11}});
    h.add(OpKind::kGet, 2, 13, 14, {{1, seen}});
    return check_whole(h);
  };
  EXPECT_TRUE(group_and_read(0, 11).ok);
  EXPECT_FALSE(group_and_read(0, 10).ok);
  EXPECT_TRUE(group_and_read(1, 10).ok) << "of two threads, either may be the last";

  History h;  // both may be seen, in this order
  h.add(OpKind::kPut, 0, 1, 20, {{1, 10}});
  h.add(OpKind::kPut, 0, 2, 21, {{1, 11}});
  h.add(OpKind::kGet, 1, 3, 4, {{1, 10}});
  h.add(OpKind::kGet, 1, 5, 6, {{1, 11}});
  EXPECT_TRUE(check_whole(h).ok);
  h.add(OpKind::kGet, 1, 7, 8, {{1, 10}});
  EXPECT_FALSE(check_whole(h).ok);
}

TEST(Whole, ReadsThroughOneSnapshotAreOneMoment) {
  History h;
  h.add(OpKind::kPut, 0, 1, 2, {{1, 10}});
  h.add(OpKind::kPut, 0, 4, 5, {{1, 11}});
  h.add(OpKind::kPut, 0, 6, 7, {{2, 20}});
  h.add(OpKind::kSnapshotRead, 1, 3, 8, {{1, 10}});
  EXPECT_TRUE(check_whole(h).ok);
  h.add(OpKind::kSnapshotRead, 1, 3, 8, {{2, 20}});
  EXPECT_FALSE(check_whole(h).ok);
}

// A linearizable history by construction: each operation takes effect at one instant between its ends.
History generated(uint64_t seed, size_t events, uint64_t keys, uint64_t threads) {
  History h;
  std::map<uint64_t, uint64_t> state;
  uint64_t random = seed;
  const auto next = [&](uint64_t n) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % n;
  };
  struct Running {
    Operation op;
    Cell cell;
    bool effective;
  };
  std::vector<std::optional<Running>> running(threads);
  uint64_t value = 0;
  for (uint64_t now = 1; h.operations.size() < events; ++now) {
    const uint64_t thread = next(threads);
    auto& mine = running[thread];
    if (!mine) {
      const OpKind kind = std::array{OpKind::kPut, OpKind::kGet, OpKind::kGet, OpKind::kDelete}[next(4)];
      mine = {{now, kOpen, kind, static_cast<uint32_t>(thread), 0, 1},
              {next(keys), kind == OpKind::kPut ? ++value : 0},
              false};
    } else if (!mine->effective) {
      if (is_update(mine->op.kind)) state[mine->cell.key] = mine->cell.value;
      if (mine->op.kind == OpKind::kGet) mine->cell.value = state[mine->cell.key];
      mine->effective = true;
    } else {
      h.add(mine->op.kind, mine->op.thread, mine->op.invoke, now, {mine->cell});
      mine.reset();
    }
  }
  for (const auto& mine : running) {
    if (mine && is_update(mine->op.kind)) h.add(mine->op.kind, mine->op.thread, mine->op.invoke, kOpen, {mine->cell});
  }
  return h;
}

TEST(Registers, LargeHistoriesPassAndOneWrongReadInThemIsFound) {
  for (const uint64_t keys : {1, 3, 1000}) {
    History h = generated(keys, 100'000, keys, 8);
    EXPECT_TRUE(check_registers(h).ok);
    // Let one get see what an earlier get of the same key saw, long after that was overwritten.
    const auto is_old_get = [&](const Operation& op) {
      return op.kind == OpKind::kGet && h.cells_of(op)[0].value != kAbsent;
    };
    const auto old_get = std::find_if(h.operations.begin(), h.operations.end(), is_old_get);
    ASSERT_NE(old_get, h.operations.end());
    const Cell old = h.cells_of(*old_get)[0];
    const auto later = std::find_if(h.operations.end() - 30'000, h.operations.end(), [&](const Operation& op) {
      return op.kind == OpKind::kGet && h.cells_of(op)[0].key == old.key && h.cells_of(op)[0].value != old.value;
    });
    ASSERT_NE(later, h.operations.end());
    h.cells[later->cells_first].value = old.value;
    EXPECT_FALSE(check_registers(h).ok);
  }
}

// Both judges; a history that spans keys is for the second alone.
bool passes(const History& h, std::span<const Cell> initial = {}) {
  const bool whole = check_whole(h, initial).ok;
  EXPECT_TRUE(!whole || check_registers(h, initial).ok) << "what is explained as a whole is explained by key";
  return whole;
}

TEST(Conditions, CompareAndSetsPassInOneOrder) {
  const Cell initial[] = {{kKey, 1}};
  History h;
  h.add(OpKind::kConditional, 0, 1, 9, {{kKey, 2}, {kKey, 1, true}});
  h.add(OpKind::kConditional, 1, 2, 8, {{kKey, 3}, {kKey, 2, true}});
  h.add(OpKind::kRefused, 2, 3, 7, {{kKey, 1, true}});
  h.add(OpKind::kConditional, 2, 10, 11, {{kKey, kAbsent}, {kKey, kAnyValue, true}});
  h.add(OpKind::kConditional, 0, 12, 13, {{kKey, 5}, {kKey, kAbsent, true}});
  h.add(OpKind::kRefused, 1, 14, 15, {{kKey, kAbsent, true}});
  h.add(OpKind::kGet, 1, 16, 17, {{kKey, 5}});
  EXPECT_TRUE(passes(h, initial));
}

// An update may have to come before one that returned earlier, so that its condition holds.
TEST(Conditions, AnUpdateInFlightMayComeFirst) {
  const Cell initial[] = {{kKey, 1}};
  History h;
  h.add(OpKind::kConditional, 0, 1, 9, {{kKey, 2}, {kKey, 1, true}});
  h.add(OpKind::kPut, 1, 2, 3, {{kKey, 4}});
  h.add(OpKind::kGet, 1, 10, 11, {{kKey, 4}});
  EXPECT_TRUE(passes(h, initial));
  h.add(OpKind::kGet, 1, 12, 13, {{kKey, 2}});
  EXPECT_FALSE(passes(h, initial));
}

// The faults that a wrong protocol has; each is found by both judges.
TEST(Conditions, PlantedFaultsAreFound) {
  const Cell initial[] = {{kKey, 1}};
  const auto fails = [&](const History& h) {
    EXPECT_FALSE(check_registers(h, initial).ok);
    EXPECT_NE(check_whole(h, initial).text.find("if k7="), std::string::npos);
    return !check_whole(h, initial).ok;
  };
  History twice;  // two take the same value
  twice.add(OpKind::kConditional, 0, 1, 4, {{kKey, 2}, {kKey, 1, true}});
  twice.add(OpKind::kConditional, 1, 2, 3, {{kKey, 3}, {kKey, 1, true}});
  EXPECT_TRUE(fails(twice));
  History unseen;  // over a put that had returned
  unseen.add(OpKind::kPut, 1, 1, 2, {{kKey, 3}});
  unseen.add(OpKind::kConditional, 0, 3, 4, {{kKey, 2}, {kKey, 1, true}});
  EXPECT_TRUE(fails(unseen));
  History between;  // a put that counts as superseded, between a condition and its update
  between.add(OpKind::kConditional, 0, 3, 4, {{kKey, 2}, {kKey, 1, true}});
  between.add(OpKind::kPut, 1, 5, 6, {{kKey, 3}});
  between.add(OpKind::kGet, 1, 7, 8, {{kKey, 2}});
  EXPECT_TRUE(fails(between));
  History needless;  // refused, though the value was there all the time
  needless.add(OpKind::kRefused, 0, 1, 2, {{kKey, 1, true}});
  needless.add(OpKind::kGet, 0, 3, 4, {{kKey, 1}});
  EXPECT_TRUE(fails(needless));
  History wrong_insert;
  wrong_insert.add(OpKind::kConditional, 0, 1, 2, {{kKey, 2}, {kKey, kAbsent, true}});
  EXPECT_TRUE(fails(wrong_insert));
  History lost;  // a counter: what came back after a crash is older than what was judged
  lost.add(OpKind::kConditional, 0, 1, kOpen, {{kKey, 2}, {kKey, 1, true}});
  lost.add(OpKind::kConditional, 1, 2, 3, {{kKey, 3}, {kKey, 2, true}});
  lost.add(OpKind::kRecovered, 0, 4, 5, {{kKey, 2}});
  EXPECT_TRUE(fails(lost));
}

// Each on its own holds on the other's key: only one order of both would have to refuse one.
TEST(Conditions, CrossedChecksAreFoundAsAWhole) {
  History h;
  h.add(OpKind::kConditional, 0, 1, 4, {{1, 10}, {2, kAbsent, true}});
  h.add(OpKind::kConditional, 1, 2, 3, {{2, 20}, {1, kAbsent, true}});
  EXPECT_FALSE(passes(h));
  History one;
  one.add(OpKind::kConditional, 0, 1, 4, {{1, 10}, {2, kAbsent, true}});
  one.add(OpKind::kRefused, 1, 2, 3, {{1, kAbsent, true}, {2, kAbsent, true}});
  EXPECT_TRUE(passes(one));
  one.add(OpKind::kRefused, 1, 5, 6, {{1, 10, true}, {2, kAbsent, true}});
  EXPECT_FALSE(passes(one));
}

TEST(RecorderTest, LanesBecomeOneHistory) {
  const auto recorder = Recorder::in_memory({.lanes = 2, .operations_max = 3, .cells_max = 4});
  Recorder::Lane a = recorder->lane(0);
  Recorder::Lane b = recorder->lane(1);
  const uint64_t put = a.begin_update(OpKind::kPut, {1, 10});
  const uint64_t get = b.begin_read();
  b.end_read(OpKind::kGet, get, {1, 10});
  a.end_update(put);
  (void)a.begin_update(OpKind::kDelete, {1, kAbsent});
  EXPECT_TRUE(a.has_room(2));
  EXPECT_FALSE(a.has_room(3));
  EXPECT_FALSE(a.has_room(2, 2)) << "of two operations the second would not fit";
  const History h = recorder->history();
  ASSERT_EQ(h.operations.size(), 3u);
  EXPECT_EQ(h.text_of(h.operations[0]), "[1,4] thread 0 put k1=10");
  EXPECT_EQ(h.text_of(h.operations[1]), "[5,open] thread 0 delete k1=deleted");
  EXPECT_EQ(h.text_of(h.operations[2]), "[2,3] thread 1 get k1=10");
  EXPECT_EQ(h.last_ordinal(), 5u);
}

}  // namespace
}  // namespace bonsai::testing
