#include "bench/generators.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>

#include "base/random.h"
#include "bench/golden.h"

namespace bonsai::bench {
namespace {

TEST(Fnv64, MatchesGoldenNumbers) {
  for (size_t i = 0; i < std::size(golden::kHashed); ++i) {
    EXPECT_EQ(fnv64(golden::kHashed[i]), golden::kHashes[i]) << golden::kHashed[i];
  }
}

TEST(Zeta, MatchesGoldenNumber) { EXPECT_NEAR(zeta(0, 1000, 0), golden::kZeta1000, 1e-12); }

TEST(Zeta, GrowsFromWhereItStood) { EXPECT_DOUBLE_EQ(zeta(400, 1000, zeta(0, 400, 0)), zeta(0, 1000, 0)); }

TEST(Zipfian, MatchesGoldenNumbers) {
  const Zipfian zipfian(1000);
  for (size_t i = 0; i < std::size(golden::kDraws); ++i) {
    EXPECT_EQ(zipfian.draw(golden::kDraws[i]), golden::kZipf1000[i]) << golden::kDraws[i];
  }
}

TEST(Zipfian, StaysBelowItsItems) {
  for (const uint64_t items : {1, 2, 3, 10, 1000}) {
    Zipfian zipfian(items);
    for (const double u : {0.0, 0.3, 0.5, 0.7, 0.9999999999999999}) {
      EXPECT_LT(zipfian.draw(u), items);
      EXPECT_LT(Zipfian(items).draw(u, items + 5), items + 5);
    }
  }
}

TEST(Zipfian, FirstItemHasItsShare) {
  const Zipfian zipfian(1000);
  base::Random random(base::seed_from_env_or(7));
  int first = 0;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) first += zipfian.draw(random.unit()) == 0;
  EXPECT_NEAR(first / static_cast<double>(kDraws), 1 / golden::kZeta1000, 0.004);
}

TEST(ScrambledZipfian, MatchesGoldenNumbers) {
  const ScrambledZipfian zipfian(1001);
  for (size_t i = 0; i < std::size(golden::kDraws); ++i) {
    EXPECT_EQ(zipfian.draw(golden::kDraws[i]), golden::kScrambled1001[i]) << golden::kDraws[i];
  }
}

// The mark by which YCSB's distribution differs from a plain Zipf over the keys: 3.78 % whatever the number of keys.
TEST(ScrambledZipfian, HottestKeyGetsItsShareWhateverTheNumberOfKeys) {
  for (const uint64_t keys : {100'003, 60'000'000}) {
    const ScrambledZipfian zipfian(keys);
    base::Random random(base::seed_from_env_or(8));
    std::map<uint64_t, int> counts;
    constexpr int kDraws = 200'000;
    for (int i = 0; i < kDraws; ++i) ++counts[zipfian.draw(random.unit())];
    EXPECT_NEAR(counts[fnv64(0) % keys] / static_cast<double>(kDraws), 0.0378, 0.002);
    EXPECT_LT(counts.rbegin()->first, keys);
  }
}

TEST(LatestOffset, MatchesGoldenNumbersWhileRecordsArrive) {
  LatestOffset latest(999);
  for (size_t i = 0; i < std::size(golden::kDraws); ++i) {
    EXPECT_EQ(latest.draw(golden::kDraws[i], golden::kNewest[i]), golden::kBehind[i]) << i;
  }
}

TEST(Uniform, ReachesBothEndsAndNoFurther) {
  EXPECT_EQ(uniform(0.0, 5, 9), 5U);
  EXPECT_EQ(uniform(0.9999999999999999, 5, 9), 9U);
  EXPECT_EQ(uniform(0.5, 7, 7), 7U);
}

TEST(ZipfianKeys, LeavesRoomForTwiceTheInserts) {
  EXPECT_EQ(zipfian_keys(1000, 1000, 0.0), 1001U);
  EXPECT_EQ(zipfian_keys(1000, 1000, 0.05), 1101U);
}

}  // namespace
}  // namespace bonsai::bench
