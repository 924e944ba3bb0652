// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <set>
#include <vector>

namespace bonsai::base {
namespace {

TEST(Random, SplitmixGivesThePublishedSequence) {
  // The first outputs of the generator that starts from state 0: each call adds the constant once more.
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(splitmix64(0x9e3779b97f4a7c15), 0x6e789e6aa1b965f4u);
}

TEST(Random, IsAFunctionOfTheSeed) {
  Random one(7), same(7), other(8);
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = one.next();
    ASSERT_EQ(value, same.next());
    differs |= value != other.next();
  }
  EXPECT_TRUE(differs);
  static_assert(Random(1).next() == Random(1).next());
}

TEST(Random, BelowIsInRangeAndEven) {
  Random random(0);
  EXPECT_EQ(random.below(0), 0u);
  EXPECT_EQ(random.below(1), 0u);
  std::array<int, 10> counts{};
  for (int i = 0; i < 100'000; ++i) ++counts[random.below(10)];
  for (int count : counts) EXPECT_NEAR(count, 10'000, 500);
  uint64_t largest = 0;
  for (int i = 0; i < 1000; ++i) largest = std::max(largest, random.below(UINT64_MAX));
  EXPECT_GT(largest, UINT64_MAX / 2);
}

TEST(Random, UnitAndChance) {
  Random random(3);
  double sum = 0;
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double value = random.unit();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
    hits += random.chance(1, 4);
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.01);
  EXPECT_NEAR(hits, 25'000, 1000);
  EXPECT_FALSE(random.chance(0, 5));
  EXPECT_TRUE(random.chance(5, 5));
}

TEST(Random, ServesStandardAlgorithms) {
  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 0);
  Random random(5);
  std::shuffle(values.begin(), values.end(), random);
  EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
}

TEST(Random, FreshSeedsDiffer) {
  std::set<uint64_t> seeds;
  for (int i = 0; i < 1000; ++i) seeds.insert(fresh_seed());
  EXPECT_EQ(seeds.size(), 1000u);
}

class SeedFromEnv : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* set = std::getenv("BONSAI_SEED")) saved_ = set;
    unsetenv("BONSAI_SEED");
  }
  void TearDown() override {
    if (saved_.empty()) {
      unsetenv("BONSAI_SEED");
    } else {
      setenv("BONSAI_SEED", saved_.c_str(), 1);
    }
  }

 private:
  std::string saved_;
};

TEST_F(SeedFromEnv, PrefersTheEnvironmentWhenItIsANumber) {
  EXPECT_EQ(seed_from_env_or(5), 5u);
  setenv("BONSAI_SEED", "123", 1);
  EXPECT_EQ(seed_from_env_or(5), 123u);
  setenv("BONSAI_SEED", "0xff", 1);
  EXPECT_EQ(seed_from_env_or(5), 255u);
  setenv("BONSAI_SEED", "nonsense", 1);
  EXPECT_EQ(seed_from_env_or(5), 5u);
  setenv("BONSAI_SEED", "", 1);
  EXPECT_EQ(seed_from_env_or(5), 5u);
}

}  // namespace
}  // namespace bonsai::base
