// SPDX-License-Identifier: Apache-2.0
#include "rdma/sim/events.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "base/random.h"

namespace bonsai::rdma {
namespace {

TEST(SimEvents, RunByTimeThenInTheOrderOfMaking) {
  SimEvents events;
  base::Random dice(1);
  std::multimap<uint64_t, int> expected;  // keeps the order of equal keys
  std::vector<int> ran;
  for (int i = 0; i < 1'000; ++i) {
    const uint64_t due_ns = dice.below(50);
    expected.emplace(due_ns, i);
    events.add(due_ns, [&ran, i] { ran.push_back(i); });
  }
  for (const auto& [due_ns, i] : expected) {
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events.first_ns(), due_ns);
    events.run_first();
    EXPECT_EQ(ran.back(), i);
  }
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(ran.size(), 1'000u);
}

// A running event stays valid while it adds any number of others.
TEST(SimEvents, MayAddOthers) {
  SimEvents events;
  uint64_t sum = 0;
  const auto many = std::make_shared<uint64_t>(7);
  events.add(0, [&events, &sum, many] {
    for (uint64_t i = 0; i < 500; ++i) events.add(1, [&sum, i] { sum += i; });
    sum += *many;
  });
  while (!events.empty()) events.run_first();
  EXPECT_EQ(sum, 7u + 499 * 500 / 2);
  EXPECT_EQ(many.use_count(), 1) << "an event that has run is gone";
}

TEST(SimEvents, GoWithoutHavingRun) {
  const auto kept = std::make_shared<int>(0);
  SimEvents events;
  for (uint64_t i = 0; i < 10; ++i) events.add(i, [kept] { ++*kept; });
  events.run_first();
  EXPECT_EQ(kept.use_count(), 10);
  events.clear();
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_EQ(*kept, 1);
  {
    SimEvents others;
    others.add(0, [kept] { ++*kept; });
  }
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_EQ(*kept, 1);
}

}  // namespace
}  // namespace bonsai::rdma
