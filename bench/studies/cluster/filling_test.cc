// SPDX-License-Identifier: Apache-2.0
// Tests of hash tables that clients fill together, in virtual time.
#include "bench/studies/cluster/filling.h"

#include <gtest/gtest.h>

namespace bonsai::bench {
namespace {

using Memory = FillOptions::Memory;
using Search = rivals::rcuckoo::SearchOptions;

// The draft's settings of RCuckoo: one row a lock, one message for locks a list, A*, new keys.
FillOptions options(Memory memory, rivals::Shape shape = {.compute_nodes = 4, .threads = 4}) {
  FillOptions options;
  options.entries = 8 * 1'680;
  options.memory = memory;
  options.cuckoo.table.rows_per_lock = 1;
  options.cuckoo.search = {.kind = Search::Kind::kAStar, .moves_max = 50};
  options.cuckoo.locks.messages_per_list = 1;
  options.cuckoo.threshold_bytes = 512;
  options.cuckoo.keys_are_new = true;
  options.shape = shape;
  options.full_percent = 90;
  return options;
}

TEST(Filling, CountsEachOperationByHowFullTheTableIs) {
  FillOptions mixed = options(Memory::kOracle);
  mixed.insert_share = .5;
  mixed.reads_at_end = 1'000;
  Filling filling;
  ASSERT_EQ("OK", fill(mixed, &filling).ToString());
  EXPECT_GE(filling.ended_at_percent, 90);
  EXPECT_EQ(filling.failed, 0u);
  const FillWindow all = filling.until(100);
  EXPECT_NEAR(static_cast<double>(all.inserts.operations), .9 * 8 * 1'680, 20);
  EXPECT_NEAR(static_cast<double>(all.reads.operations) / static_cast<double>(all.inserts.operations), 1, .1);
  EXPECT_EQ(all.all().operations, all.inserts.operations + all.reads.operations);
  EXPECT_GE(filling.reads_at_end.reads.operations, 1'000u);
  EXPECT_NEAR(filling.reads_at_end.reads.lists(), 1, .01) << "a read takes one round trip";
  EXPECT_NEAR(filling.at(10).inserts.lists(), 2, .1) << "an insert takes two";
  EXPECT_GT(filling.at(85).inserts.messages(), 1.2 * filling.at(10).inserts.messages()) << "paths cost as it fills";
  EXPECT_GT(all.mops(), 0);
  EXPECT_EQ(all.all().latency.count(), all.all().operations);
  EXPECT_GT(all.inserts.latency.percentile(50), all.reads.latency.percentile(50)) << "two round trips against one";
  EXPECT_NEAR(filling.memory_bytes_per_record, 9 / .9, 1) << "rows of 72 bytes for 8 records, a tenth of them unused";
  EXPECT_LT(filling.until(45).inserts.operations, all.inserts.operations);
}

TEST(Filling, RaceTakesThreeRoundTripsHoweverFull) {
  FillOptions race = options(Memory::kOracle);
  race.table = FillOptions::Table::kRace;
  race.full_percent = 80;
  race.reads_at_end = 1'000;
  Filling filling;
  ASSERT_EQ("OK", fill(race, &filling).ToString());
  // Requests for chunks of memory come on top: one list for 64 blocks.
  EXPECT_NEAR(filling.at(10).inserts.lists(), 3, .1);
  EXPECT_NEAR(filling.at(75).inserts.lists(), 3, .2) << "a lost compare-and-swap now and then";
  EXPECT_EQ(filling.at(50).inserts.lists_percentile(50), 3u);
  EXPECT_NEAR(filling.reads_at_end.reads.lists(), 2, .1);
}

// Inserts into a full table are expensive because clients do not know what others have changed.
TEST(Filling, OldPicturesOfTheTableCostRoundTrips) {
  double lists[3] = {};
  for (const Memory memory : {Memory::kOracle, Memory::kComputeNode, Memory::kOwn}) {
    Filling filling;
    ASSERT_EQ("OK", fill(options(memory), &filling).ToString());
    lists[static_cast<size_t>(memory)] = filling.at(80).inserts.lists();
  }
  EXPECT_LT(lists[0], lists[1]);
  EXPECT_LT(lists[1], lists[2]);
}

// The draft's simulation measures the beginning of a window, and counts a release and the next request as one list.
TEST(Filling, BeginningsOfWindowsAreAsLongAsTheirAnswers) {
  FillOptions own = options(Memory::kOwn);
  own.answers_max = 600;
  Filling filling;
  ASSERT_EQ("OK", fill(own, &filling).ToString());
  for (const double percent : {10., 50., 85.}) {
    const FillCosts &whole = filling.at(percent).inserts, &beginning = filling.beginning(percent).inserts;
    EXPECT_LT(beginning.operations, whole.operations) << percent;
    EXPECT_NEAR(static_cast<double>(beginning.traffic.messages()), 600, 200) << percent;
    EXPECT_EQ(whole.traffic.round_trips -
                  static_cast<uint64_t>(.5 + whole.lists_as_draft() * static_cast<double>(whole.operations)),
              whole.paths_in_vain);
  }
  EXPECT_GT(filling.at(85).inserts.paths_in_vain, filling.at(10).inserts.paths_in_vain);
  EXPECT_GT(filling.at(85).inserts.lists(), filling.at(85).inserts.lists_as_draft());
}

TEST(Filling, SameSeedsGiveSameRuns) {
  Filling one, again;
  ASSERT_EQ("OK", fill(options(Memory::kOwn), &one).ToString());
  ASSERT_EQ("OK", fill(options(Memory::kOwn), &again).ToString());
  EXPECT_EQ(one.until(100).inserts.traffic, again.until(100).inserts.traffic);
  EXPECT_EQ(one.until(100).last_ns, again.until(100).last_ns);
}

TEST(Filling, TooSmallATableIsRefused) {
  Filling filling;
  for (const FillOptions::Table table : {FillOptions::Table::kCuckoo, FillOptions::Table::kRace}) {
    FillOptions small = options(Memory::kOracle);
    small.table = table;
    small.entries = 63;
    const Status status = fill(small, &filling);
    EXPECT_EQ(status.code(), Status::Code::kInvalidArgument);
    EXPECT_NE(status.ToString().find("--records"), std::string::npos) << status.ToString();
    small.entries = 64;
    EXPECT_EQ("OK", fill(small, &filling).ToString());
  }
}

TEST(Filling, EndsWhenStopped) {
  const std::atomic<bool> stop = true;
  FillOptions stopped = options(Memory::kOracle);
  stopped.stop = &stop;
  Filling filling;
  EXPECT_TRUE(fill(stopped, &filling).IsUnavailable());
}

TEST(FillCosts, CountListsAndWireBytes) {
  FillCosts costs;
  rdma::Traffic cost;
  cost.round_trips = 2;
  cost.count(rdma::Verb::kRead, 72);
  cost.count(rdma::Verb::kMaskedCas, 8);
  for (int i = 0; i < 99; ++i) costs.note(cost, 0, 2'000);
  cost.round_trips = 10;
  costs.note(cost, 3, 7'000);
  EXPECT_EQ(costs.lists_percentile(50), 2u);
  EXPECT_EQ(costs.lists_percentile(99), 2u);
  EXPECT_EQ(costs.lists_percentile(100), 7u);
  EXPECT_EQ(costs.latency.max(), 7'000u);
  EXPECT_DOUBLE_EQ(costs.lists(), 2.08);
  EXPECT_DOUBLE_EQ(costs.lists_as_draft(), 2.05);
  EXPECT_DOUBLE_EQ(costs.messages(), 2);
  EXPECT_DOUBLE_EQ(costs.wire_bytes(), 144 + 2 * 72 + 224);
}

}  // namespace
}  // namespace bonsai::bench
