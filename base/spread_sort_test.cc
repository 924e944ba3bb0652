// SPDX-License-Identifier: Apache-2.0
#include "base/spread_sort.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/random.h"

namespace bonsai::base {
namespace {

struct Element {
  uint64_t head;
  std::string rest;  // moving it must not lose it

  friend bool operator<(const Element& a, const Element& b) {
    return a.head != b.head ? a.head < b.head : a.rest < b.rest;
  }
  friend bool operator==(const Element&, const Element&) = default;
};

std::vector<Element> sorted(std::vector<Element> elements) {
  spread_sort(
      elements.begin(), elements.end(), [](const Element& each) { return each.head; }, std::less<>());
  return elements;
}

void expect_sorted(const std::vector<Element>& elements) {
  std::vector<Element> wanted = elements;
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(sorted(elements), wanted);
}

// Heads that are spread, that cluster in one place, that are all equal, and that are at both ends of the range.
TEST(SpreadSort, SortsWhateverTheHeadsAre) {
  const uint64_t seed = seed_from_env_or(std::random_device()());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  Random random(seed);
  for (const size_t n : {0, 1, 2, 15, 16, 17, 100, 1'000, 1'024, 1'025}) {
    for (int kind = 0; kind < 6; ++kind) {
      std::vector<Element> elements;
      for (size_t i = 0; i < n; ++i) {
        const uint64_t any = random.next();
        const std::array<uint64_t, 6> heads{
            any, 7, any % 50, uint64_t{1} << 63 | any >> 40, any % 2 == 0 ? 0 : UINT64_MAX, i < 3 ? any : any % 1'000};
        elements.push_back({heads[static_cast<size_t>(kind)], std::to_string(random.below(1'000'000)) + "and so on"});
      }
      expect_sorted(elements);
      std::sort(elements.begin(), elements.end());
      expect_sorted(elements);
      std::reverse(elements.begin(), elements.end());
      expect_sorted(elements);
    }
  }
}

}  // namespace
}  // namespace bonsai::base
