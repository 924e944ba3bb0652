// SPDX-License-Identifier: Apache-2.0
#include "testing/snapshot_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/graph.h"

namespace bonsai::testing {
namespace {

TEST(GraphTest, FindsAShortestCycleOrNone) {
  Graph graph(6);
  graph.add({0, 1, 0});
  graph.add({1, 2, 0});
  graph.add({2, 3, 0});
  graph.add({0, 3, 0});
  EXPECT_TRUE(graph.shortest_cycle().empty());
  graph.add({3, 1, 7});
  graph.add({4, 4, 9});
  ASSERT_EQ(graph.shortest_cycle().size(), 1u);
  EXPECT_EQ(graph.shortest_cycle()[0].label, 9u);
}

// Two keys with one writer each; both puts run from 1 to 20.
History two_puts() {
  History h;
  h.add(OpKind::kPut, 0, 1, 20, {{1, 10}});
  h.add(OpKind::kPut, 1, 2, 21, {{2, 20}});
  return h;
}

TEST(Snapshots, ComparableScansPass) {
  History h = two_puts();
  h.add(OpKind::kScan, 2, 3, 4, {{1, 10}, {2, kAbsent}});
  h.add(OpKind::kScan, 3, 5, 6, {{1, 10}, {2, 20}});
  EXPECT_TRUE(check_snapshots(h).ok);
}

TEST(Snapshots, LongForkFailsAndBothScansAreShown) {
  History h = two_puts();
  h.add(OpKind::kScan, 2, 3, 6, {{1, 10}, {2, kAbsent}});
  h.add(OpKind::kScan, 3, 4, 5, {{1, kAbsent}, {2, 20}});
  const Verdict verdict = check_snapshots(h);
  ASSERT_FALSE(verdict.ok);
  EXPECT_NE(verdict.text.find("[3,6] thread 2 scan"), std::string::npos) << verdict.text;
  EXPECT_NE(verdict.text.find("[4,5] thread 3 scan"), std::string::npos) << verdict.text;
}

TEST(Snapshots, ScanMustSeeWhatReturnedAndNotWhatWasNotInvoked) {
  History missed;
  missed.add(OpKind::kPut, 0, 1, 2, {{1, 10}});
  missed.add(OpKind::kPut, 0, 3, 4, {{1, 11}});
  missed.add(OpKind::kScan, 1, 5, 6, {{1, 10}});
  EXPECT_FALSE(check_snapshots(missed).ok);
  History early;
  early.add(OpKind::kScan, 1, 1, 2, {{1, 10}});
  early.add(OpKind::kPut, 0, 3, 4, {{1, 10}});
  EXPECT_FALSE(check_snapshots(early).ok);
}

TEST(Snapshots, ScansRespectEachOthersRealTime) {
  History h = two_puts();
  h.add(OpKind::kScan, 2, 3, 4, {{1, 10}, {2, kAbsent}});
  h.add(OpKind::kScan, 3, 5, 6, {{1, kAbsent}, {2, kAbsent}});
  EXPECT_FALSE(check_snapshots(h).ok);
}

TEST(Snapshots, GetsMustAgreeWithScans) {
  History h = two_puts();
  h.add(OpKind::kGet, 2, 3, 4, {{1, 10}});
  h.add(OpKind::kScan, 3, 5, 6, {{1, kAbsent}, {2, 20}});
  EXPECT_FALSE(check_snapshots(h).ok);
}

TEST(Snapshots, ScansOfDifferentRangesAreJudgedTogether) {
  // Each pair of scans shares one key and agrees on it; all three together do not fit.
  History h = two_puts();
  h.add(OpKind::kPut, 4, 3, 22, {{3, 30}});
  h.add(OpKind::kScan, 5, 4, 10, {{1, 10}, {2, kAbsent}});
  h.add(OpKind::kScan, 6, 5, 11, {{2, 20}, {3, kAbsent}});
  EXPECT_TRUE(check_snapshots(h).ok);
  h.add(OpKind::kScan, 7, 6, 12, {{1, kAbsent}, {3, 30}});
  EXPECT_FALSE(check_snapshots(h).ok);
}

TEST(Snapshots, BatchesAreAllOrNothing) {
  History h;
  h.add(OpKind::kBatch, 0, 1, 9, {{1, 10}, {2, 20}, {3, kAbsent}});
  const Cell initial[] = {{3, 5}};
  h.add(OpKind::kScan, 1, 2, 3, {{1, kAbsent}, {2, kAbsent}, {3, 5}});
  h.add(OpKind::kScan, 1, 4, 5, {{1, 10}, {2, 20}, {3, kAbsent}});
  EXPECT_TRUE(check_snapshots(h, initial).ok);
  h.add(OpKind::kScan, 1, 6, 7, {{1, 10}, {2, 20}, {3, 5}});
  EXPECT_FALSE(check_snapshots(h, initial).ok);
}

TEST(Snapshots, AbsentMeansWhicheverDeleteFits) {
  History h;
  h.add(OpKind::kPut, 0, 1, 2, {{1, 10}});
  h.add(OpKind::kDelete, 0, 3, 4, {{1, kAbsent}});
  h.add(OpKind::kPut, 0, 5, 6, {{1, 11}});
  h.add(OpKind::kDelete, 0, 8, 9, {{1, kAbsent}});
  h.add(OpKind::kScan, 1, 7, 10, {{1, kAbsent}});
  EXPECT_TRUE(check_snapshots(h).ok);
  h.add(OpKind::kPut, 0, 11, 12, {{1, 12}});
  h.add(OpKind::kScan, 1, 13, 14, {{1, kAbsent}});
  EXPECT_FALSE(check_snapshots(h).ok);
}

TEST(Snapshots, UpdatesOfUnknownOutcomeAreOptional) {
  History h;
  h.add(OpKind::kBatch, 0, 1, kOpen, {{1, 10}, {2, 20}});
  h.add(OpKind::kRecovered, 9, 5, 6, {{1, kAbsent}, {2, kAbsent}});
  EXPECT_TRUE(check_snapshots(h).ok);
  h.cells[2].value = 10;
  EXPECT_FALSE(check_snapshots(h).ok) << "half a batch";
  h.cells[3].value = 20;
  EXPECT_TRUE(check_snapshots(h).ok);
}

TEST(Snapshots, InventedValuesAndTwoWritersAreReported) {
  History invented = two_puts();
  invented.add(OpKind::kScan, 2, 3, 4, {{1, 77}});
  EXPECT_FALSE(check_snapshots(invented).ok);
  History two_writers;
  two_writers.add(OpKind::kPut, 0, 1, 4, {{1, 10}});
  two_writers.add(OpKind::kPut, 1, 2, 3, {{1, 11}});
  EXPECT_NE(check_snapshots(two_writers).text.find("updated by two"), std::string::npos);
}

TEST(Snapshots, EveryReadThroughOneSnapshotIsOfOneMoment) {
  History h = two_puts();
  h.add(OpKind::kSnapshotRead, 2, 3, 4, {{1, 10}});
  h.add(OpKind::kSnapshotRead, 2, 3, 4, {{2, kAbsent}});
  h.add(OpKind::kSnapshotRead, 3, 3, 5, {{2, 20}});
  EXPECT_TRUE(check_snapshots(h).ok);
  h.add(OpKind::kSnapshotRead, 3, 3, 5, {{1, kAbsent}});
  EXPECT_FALSE(check_snapshots(h).ok);
}

// 4 writers of 16 keys each and 2 scanners, as they would run on a correct store; `forked` breaks one scan.
History generated(size_t rounds, bool forked) {
  History h;
  std::vector<Cell> state;
  for (uint64_t key = 0; key < 64; ++key) state.push_back({key, kAbsent});
  uint64_t now = 1;
  for (size_t round = 1; round <= rounds; ++round) {
    const uint64_t start = now;
    for (uint32_t writer = 0; writer < 4; ++writer) {
      const uint64_t key = writer * 16 + round % 16;
      state[key].value = round;
      h.add(OpKind::kPut, writer, start + writer, start + 20 + writer, {state[key]});
      h.add(OpKind::kScan, 4, start + 5 + 2 * writer, start + 6 + 2 * writer, state);
    }
    if (forked && round == rounds / 2) {  // sees writer 3's put but not writer 0's
      std::vector<Cell> wrong = state;
      wrong[round % 16].value = round > 16 ? round - 16 : kAbsent;
      h.add(OpKind::kScan, 5, start + 14, start + 15, wrong);
    }
    now += 30;
  }
  return h;
}

TEST(Snapshots, LargeHistoriesPassAndOneForkInThemIsFound) {
  EXPECT_TRUE(check_snapshots(generated(2'000, false)).ok);
  const Verdict verdict = check_snapshots(generated(2'000, true));
  ASSERT_FALSE(verdict.ok);
  EXPECT_LE(std::count(verdict.text.begin(), verdict.text.end(), '\n'), 5) << verdict.text;
}

}  // namespace
}  // namespace bonsai::testing
