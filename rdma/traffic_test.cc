// SPDX-License-Identifier: Apache-2.0
#include "rdma/traffic.h"

#include <gtest/gtest.h>

namespace bonsai::rdma {
namespace {

Traffic three_reads() {
  Traffic traffic;
  traffic.round_trips = 1;
  traffic.doorbells = 2;
  for (int i = 0; i < 3; ++i) traffic.count(Verb::kRead, 64);
  return traffic;
}

TEST(Traffic, CountsByVerb) {
  Traffic traffic = three_reads();
  traffic.count(Verb::kCas, 8);
  EXPECT_EQ(traffic.of(Verb::kRead), (Traffic::Flow{3, 192}));
  EXPECT_EQ(traffic.of(Verb::kCas), (Traffic::Flow{1, 8}));
  EXPECT_EQ(traffic.of(Verb::kSend), Traffic::Flow{});
  EXPECT_EQ(traffic.messages(), 4u);
  EXPECT_EQ(traffic.bytes(), 200u);
}

TEST(Traffic, SumAndDifferenceAreInverse) {
  Traffic other;
  other.round_trips = 5;
  other.received = {2, 32};
  other.count(Verb::kSend, 16);
  Traffic sum = three_reads();
  sum += other;
  EXPECT_EQ(sum.round_trips, 6u);
  EXPECT_EQ(sum.received, (Traffic::Flow{2, 32}));
  EXPECT_EQ(sum - other, three_reads());
  EXPECT_EQ(sum - three_reads(), other);
  EXPECT_NE(sum, other);
}

TEST(Traffic, SaysWhatItCounts) {
  EXPECT_EQ(Traffic().text(), "0 round trips, 0 doorbells, 0 messages, 0 bytes");
  Traffic traffic = three_reads();
  EXPECT_EQ(traffic.text(), "1 round trip, 2 doorbells, 3 messages, 192 bytes (READ 3 x, 192 bytes)");
  traffic.count(Verb::kFaa, 8);
  traffic.received = {1, 1};
  EXPECT_EQ(traffic.text(),
            "1 round trip, 2 doorbells, 4 messages, 200 bytes (READ 3 x, 192 bytes; FAA 1 x, 8 bytes), "
            "received 1 message, 1 byte");
}

}  // namespace
}  // namespace bonsai::rdma
