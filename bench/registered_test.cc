// SPDX-License-Identifier: Apache-2.0
#include "bench/registered.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "bench/cli/command.h"
#include "bench/engines/engine.h"

namespace bonsai::bench {
namespace {

struct Entry {
  int number;
};
int calls = 0;

const Registered<Entry> kLast("b", []() -> std::vector<Entry> {
  ++calls;
  return {{3}};
});
const Registered<Entry> kFirst("a", []() -> std::vector<Entry> {
  ++calls;
  return {{2}, {1}};
});

TEST(RegisteredTest, EntriesAreInTheOrderOfTheirFilesAndMadeOnce) {
  for (int times = 0; times < 2; ++times) {
    std::vector<int> numbers;
    for (const Entry& each : Registered<Entry>::all()) numbers.push_back(each.number);
    EXPECT_EQ(numbers, (std::vector<int>{2, 1, 3}));
  }
  EXPECT_EQ(calls, 2);
}

// A library that registers is linked whole, although nothing names its files.
TEST(RegisteredTest, FilesThatNothingNamesAreLinked) {
  EXPECT_NE(find_engine("dummy"), nullptr);
  EXPECT_NE(find_engine("bonsai"), nullptr);
  std::vector<std::string_view> names;
  for (const Command& each : Registered<Command>::all()) names.push_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"run", "load", "report", "list"}));
}

}  // namespace
}  // namespace bonsai::bench
