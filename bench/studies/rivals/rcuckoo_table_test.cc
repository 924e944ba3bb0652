// SPDX-License-Identifier: Apache-2.0
// The table of the RCuckoo-like engine compared with the published one: the distance of rows, the fill, the length of
// paths.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/testing/budget.h"
#include "bench/studies/rivals/testing/cuckoo_rig.h"

namespace bonsai::bench::rivals::rcuckoo {
namespace {

using bonsai::testing::budget;

double share_within(double factor, uint64_t rows_apart) {
  const Table table({.rows = 1'000'000, .factor = factor});
  constexpr uint32_t kKeys = 100'000;
  uint64_t within = 0;
  for (uint32_t number = 1; number <= kKeys; ++number) within += table.place(number).distance() <= rows_apart ? 1 : 0;
  return static_cast<double>(within) / kKeys;
}

TEST(CuckooTable, RowsLieAsFarApartAsPublished) {
  // Rows of 64 bytes there: 512 bytes are 7 rows apart, 64 bytes 1.
  EXPECT_NEAR(share_within(2.3, 7), .667, .02);
  EXPECT_NEAR(share_within(2.1, 7), .784, .02);
  EXPECT_NEAR(share_within(1.9, 7), .86, .02);
  EXPECT_NEAR(share_within(2.3, 5), .63, .02);
  EXPECT_NEAR(share_within(2.3, 1), .209, .02);
}

// The fill of a table when an insert first finds no path; requests to the fabric do not matter for it. Without a factor
// rows are independent.
double first_failure(uint64_t rows, double factor, size_t moves_max, uint32_t seed) {
  TableOptions options{.rows = rows, .rows_per_lock = 1, .dependent = factor > 0};
  if (options.dependent) options.factor = factor;
  Rig rig({.sim = false, .bytes = fixed_bytes(options), .fixed_bytes = fixed_bytes(options)});
  make_table(options, rig.nodes()[0]);
  RowCache cache(rows);
  uint64_t stored = 0;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(
        connection, {.table = options, .search = {.moves_max = moves_max}, .cache = &cache, .keys_are_new = true});
    while (client->insert(key(seed << 24 | static_cast<uint32_t>(stored + 1)), key(1)).ok()) ++stored;
  });
  return static_cast<double>(stored) / static_cast<double>(rows * kEntriesPerRow);
}

TEST(CuckooTable, FillsAsItsModel) {
  const struct {
    uint64_t rows;
    double factor;
    size_t moves_max;
    double expected;
    uint32_t tables;
  } cases[] = {{1'680, 2.3, 4, .940, 16},  {12'500, 2.3, 4, .877, 4}, {131'072, 2.3, 4, .850, 1},
               {131'072, 2.7, 4, .955, 1}, {131'072, 0, 4, .993, 1},  {131'072, 2.5, 4, .919, 1},
               {512, 2.3, 49, .997, 8},    {1'680, 2.3, 49, .984, 8}, {12'500, 2.3, 49, .970, 4}};
  const uint64_t rows_max = budget<uint64_t>(2'000, 1'000'000, 1'000'000);
  for (const auto& one : cases) {
    if (one.rows > rows_max) continue;
    double sum = 0;
    for (uint32_t table = 1; table <= one.tables; ++table) {
      sum += first_failure(one.rows, one.factor, one.moves_max, table);
    }
    const double mean = sum / one.tables;
    std::printf("%llu rows, f %.1f, %zu moves: full at %.3f (model: %.3f)\n", static_cast<unsigned long long>(one.rows),
                one.factor, one.moves_max, mean, one.expected);
    EXPECT_NEAR(mean, one.expected, .02);
  }
}

// The first of many inserts that finds no path finds the fullest place of the table, which differs much from table to
// table where there are few rows, or they are close together, or paths are long: the model's one table is among ours.
TEST(CuckooTable, FirstFailuresSpreadAroundTheModels) {
  const struct {
    uint64_t rows;
    double factor;
    size_t moves_max;
    double of_model;
    uint32_t tables;
  } cases[] = {{512, 2.3, 4, .962, 20},
               {131'072, 1.9, 4, .563, budget<uint32_t>(0, 6, 20)},
               {131'072, 2.1, 4, .697, budget<uint32_t>(0, 0, 20)},
               {131'072, 2.3, 49, .866, budget<uint32_t>(0, 0, 20)}};
  for (const auto& one : cases) {
    if (one.tables == 0) continue;
    std::vector<double> fills;
    for (uint32_t table = 1; table <= one.tables; ++table) {
      fills.push_back(first_failure(one.rows, one.factor, one.moves_max, table));
    }
    std::sort(fills.begin(), fills.end());
    std::printf("%llu rows, f %.1f, %zu moves, %u tables: full at %.3f to %.3f, median %.3f (model: %.3f)\n",
                static_cast<unsigned long long>(one.rows), one.factor, one.moves_max, one.tables, fills.front(),
                fills.back(), fills[fills.size() / 2], one.of_model);
    EXPECT_LE(fills.front(), one.of_model + .02);
    EXPECT_GE(fills.back(), one.of_model - .02);
  }
}

}  // namespace
}  // namespace bonsai::bench::rivals::rcuckoo
