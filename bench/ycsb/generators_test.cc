// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/generators.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/testing/golden.h"
#include "bench/ycsb/drawer.h"

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

TEST(Uniform, MatchesGoldenNumbers) {
  for (size_t i = 0; i < std::size(golden::kDraws); ++i) {
    EXPECT_EQ(uniform(golden::kDraws[i], 5, 1004), golden::kUniform5To1004[i]);
    EXPECT_EQ(Zipfian(100).draw(golden::kDraws[i]), golden::kZipf100[i]);
  }
}

TEST(Hotspot, MatchesGoldenNumbers) {
  const Hotspot hotspot = Hotspot::of(1000, 0.2, 0.8);
  for (size_t i = 0; i < std::size(golden::kDraws); ++i) {
    const double next = golden::kDraws[(i + 1) % std::size(golden::kDraws)];
    EXPECT_EQ(hotspot.draw(golden::kDraws[i], next), golden::kHotspot1000[i]);
  }
}

TEST(Hotspot, AnEmptyPartGetsNothing) {
  for (const double u : {0.0, 0.5, 0.9999999999999999}) {
    EXPECT_LT(Hotspot::of(10, 0.0, 1.0).draw(u, u), 10U);  // no hot record
    EXPECT_LT(Hotspot::of(10, 1.0, 0.0).draw(u, u), 10U);  // no cold one
    EXPECT_EQ(Hotspot::of(1, 0.5, 0.5).draw(u, u), 0U);
  }
}

TEST(ExponentialOffset, MatchesGoldenNumbers) {
  const ExponentialOffset offset(95, 857.1428571);
  for (size_t i = 1; i < std::size(golden::kDraws); ++i) {
    EXPECT_EQ(offset.draw(golden::kDraws[i]), golden::kExponential[i - 1]) << golden::kDraws[i];
  }
  EXPECT_EQ(offset.draw(0.0), UINT64_MAX);
}

TEST(PlainZipf, MatchesGoldenNumbers) {
  const std::pair<double, const uint64_t*> sets[] = {{0.5, golden::kPlainZipf050},
                                                     {0.99, golden::kPlainZipf099},
                                                     {1.0, golden::kPlainZipf100},
                                                     {1.2, golden::kPlainZipf120},
                                                     {1.5, golden::kPlainZipf150}};
  for (const auto& [alpha, expected] : sets) {
    const PlainZipf zipf(1000, alpha);
    for (size_t i = 0; i < std::size(golden::kDraws); ++i) {
      size_t at = i;
      const auto draw_u = [&at] { return golden::kDraws[at++ % std::size(golden::kDraws)]; };
      EXPECT_EQ(zipf.draw(draw_u), expected[i]) << alpha << ", draw " << i;
    }
  }
}

// Not by the method but by the definition: item k has (k + 1)^-alpha of the sum.
TEST(PlainZipf, ItemsHaveTheirShares) {
  for (const double alpha : {0.5, 0.99, 1.0, 1.5, 3.0}) {
    constexpr uint64_t kItems = 500;
    constexpr int kDraws = 200'000;
    const PlainZipf zipf(kItems, alpha);
    base::Random random(base::seed_from_env_or(9));
    std::vector<double> counts(kItems);
    for (int i = 0; i < kDraws; ++i) ++counts[zipf.draw([&] { return random.unit(); })];
    double sum = 0;
    for (uint64_t k = 1; k <= kItems; ++k) sum += std::pow(static_cast<double>(k), -alpha);
    for (const uint64_t k : {0, 1, 2, 5, 20, 100}) {
      const double expected = kDraws * std::pow(static_cast<double>(k + 1), -alpha) / sum;
      EXPECT_NEAR(counts[k], expected, 6 * std::sqrt(expected) + 1) << alpha << ", item " << k;
    }
  }
}

TEST(PlainZipf, StaysBelowItsItems) {
  for (const uint64_t items : {1, 2, 1000}) {
    for (const double alpha : {0.01, 1.0, 10.0}) {
      const PlainZipf zipf(items, alpha);
      for (const double u : {0.0, 0.5, 0.9999999999999999}) {
        int draws = 0;
        EXPECT_LT(zipf.draw([&] { return draws++ == 0 ? u : 0.3; }), items);
      }
    }
  }
}

TEST(KeyNames, MatchGoldenNames) {
  size_t at = 0;
  for (const auto& [hashed, padding] : {std::pair(true, 1U), std::pair(false, 1U), std::pair(false, 8U)}) {
    const RecordShape shape{KeyForm::kString, hashed, padding, 8};
    for (const uint64_t number : {0, 1, 42}) {
      char room[24];
      EXPECT_EQ(encode_key(shape, shape.id(number), room), golden::kKeyNames[at++]);
    }
  }
}

struct GoldenRequests {
  const char* name;
  std::array<double, kOpKinds> shares;
  Distribution distribution;
  uint32_t scan_length_max;
  const golden::Request* requests;
};

class WholeRequests : public ::testing::TestWithParam<GoldenRequests> {};

TEST_P(WholeRequests, MatchGoldenRequests) {
  Workload workload;
  workload.shares = GetParam().shares;
  workload.requests = GetParam().distribution;
  workload.scan_length_max = GetParam().scan_length_max;
  workload.plain_zipf_alpha = 1.2;
  Drawer drawer(workload, RecordShape(), {.records = 1000, .threads = 2, .thread = 1}, 42,
                Choosers(workload, 1000, 1000));
  for (size_t i = 0; i < std::size(golden::kRequestsA); ++i) {
    const golden::Request& expected = GetParam().requests[i];
    const Request request = drawer.next();
    EXPECT_EQ(static_cast<int>(request.kind), expected.kind) << i;
    EXPECT_EQ(static_cast<int>(request.source), expected.source) << i;
    EXPECT_EQ(request.key, expected.key) << i;
    EXPECT_EQ(request.scan_length, expected.scan_length) << i;
  }
}

constexpr std::array<double, kOpKinds> kMixed = {0.4, 0.1, 0.2, 0.1, 0.1, 0.1};

INSTANTIATE_TEST_SUITE_P(
    Workloads, WholeRequests,
    ::testing::Values(
        GoldenRequests{"A", {0.5, 0.5}, Distribution::kZipfian, 100, golden::kRequestsA},
        GoldenRequests{"B", {0.95, 0.05}, Distribution::kZipfian, 100, golden::kRequestsB},
        GoldenRequests{"C", {1}, Distribution::kZipfian, 100, golden::kRequestsC},
        GoldenRequests{"D", {0.95, 0, 0.05}, Distribution::kLatest, 100, golden::kRequestsD},
        GoldenRequests{"E", {0, 0, 0.05, 0.95}, Distribution::kZipfian, 100, golden::kRequestsE},
        GoldenRequests{"F", {0.5, 0, 0, 0, 0.5}, Distribution::kZipfian, 100, golden::kRequestsF},
        GoldenRequests{"Uniform", kMixed, Distribution::kUniform, 10, golden::kRequestsUniform},
        GoldenRequests{"Hotspot", kMixed, Distribution::kHotspot, 10, golden::kRequestsHotspot},
        GoldenRequests{"Exponential", kMixed, Distribution::kExponential, 10, golden::kRequestsExponential},
        GoldenRequests{"PlainZipf", kMixed, Distribution::kPlainZipf, 10, golden::kRequestsPlainZipf},
        GoldenRequests{"Inserting", {0.5, 0, 0.5}, Distribution::kZipfian, 10, golden::kRequestsInserting},
        GoldenRequests{"Sequential", {0.9, 0, 0.1}, Distribution::kSequential, 10, golden::kRequestsSequential}),
    [](const auto& set) { return set.param.name; });

TEST(ZipfianKeys, LeavesRoomForTwiceTheInserts) {
  EXPECT_EQ(zipfian_keys(1000, 1000, 0.0), 1001U);
  EXPECT_EQ(zipfian_keys(1000, 1000, 0.05), 1101U);
}

}  // namespace
}  // namespace bonsai::bench
