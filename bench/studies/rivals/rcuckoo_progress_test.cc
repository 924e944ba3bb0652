// SPDX-License-Identifier: Apache-2.0
// Inserts of the RCuckoo-like engine end: however little a client remembers, and however many want the same locks. A
// client that gives up after its bound leaves no lock taken.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>

#include "base/random.h"
#include "base/testing/budget.h"
#include "bench/studies/rivals/testing/cuckoo_rig.h"

namespace bonsai::bench::rivals::rcuckoo {
namespace {

using bonsai::testing::budget;

// A cache of one row has no path. An insert remembers the rows that it has visited in vain.
TEST(CuckooProgress, AnInsertEndsHoweverLittleTheClientRemembers) {
  for (const uint64_t rows_per_lock : {1, 4}) {
    const TableOptions table{.rows = 64, .rows_per_lock = rows_per_lock};
    Rig rig({.sim = false, .bytes = fixed_bytes(table), .fixed_bytes = fixed_bytes(table)});
    make_table(table, rig.nodes()[0]);
    uint64_t stored = 0;
    Status status;
    rig.run_one([&](Connection* connection) {
      const auto client = client_of(connection, {.table = table, .cache_bytes = kRowBytes, .operation_ms_max = 2'000});
      for (;; ++stored) {
        status = client->insert(key(static_cast<uint32_t>(stored + 1)), key(1));
        if (!status.ok()) break;
      }
      EXPECT_GT(client->counters().entries_moved, 0u);
      EXPECT_GT(client->counters().paths_outdated, 0u);
    });
    EXPECT_EQ(status.code(), Status::Code::kNoSpace) << text(status) << ": it is full, and does not search for ever";
    EXPECT_GT(static_cast<double>(stored), .75 * 64 * kEntriesPerRow);
    const Table made(table);
    EXPECT_EQ(Inspector(made, rig.nodes()[0]).locks_held(), 0u);
  }
}

struct Crowd {
  uint64_t done = 0, gave_up = 0, full = 0, releases_lost = 0;
};

// All want the locks of 16 rows that are nearly full, and have `ms` for each operation.
Crowd crowd(Rig* rig, const TableOptions& table, const Shape& shape, uint64_t ms, uint64_t operations) {
  std::atomic<uint64_t> done{0}, gave_up{0}, full{0}, lost{0};
  rig->run(shape, [&](const Seat& seat) {
    const auto client = client_of(seat.connection, {.table = table, .operation_ms_max = ms});
    base::Random dice(base::splitmix64(seat.client + 1));
    for (uint64_t i = 0; i < operations; ++i) {
      // Fourteen keys of its own: eight clients fill 112 of 128 entries.
      const std::string own = key(static_cast<uint32_t>(1 + seat.client * 14 + dice.below(14)));
      const Status status = dice.chance(1, 4) ? client->remove(own) : client->insert(own, key(1));
      done += status.ok() || status.IsNotFound() ? 1 : 0;
      gave_up += status.IsUnavailable() ? 1 : 0;
      full += status.code() == Status::Code::kNoSpace ? 1 : 0;
    }
    lost += client->lock_counters().releases_lost;
  });
  return {done, gave_up, full, lost};
}

void expect_goes_on(Rig* rig, const TableOptions& table) {
  const Table made(table);
  const Inspector inspector(made, rig->nodes()[0]);
  EXPECT_EQ(inspector.locks_held(), 0u) << "a lock was lost";
  EXPECT_EQ(inspector.seals_wrong(), 0u);
  for (const auto& [number, values] : inspector.records()) EXPECT_EQ(values.size(), 1u) << number;
  rig->run_one([&](Connection* connection) {
    const auto client = client_of(connection, {.table = table, .operation_ms_max = 2'000});
    for (uint32_t number = 1; number <= 112; ++number) {
      const Status status = client->remove(key(number));
      EXPECT_TRUE(status.ok() || status.IsNotFound()) << text(status);
    }
    for (uint32_t number = 1; number <= 64; ++number) EXPECT_EQ("OK", text(client->insert(key(number), key(2))));
  });
}

TEST(CuckooProgress, ThreadsThatGiveUpLeaveNothingTaken) {
  for (const uint64_t rows_per_lock : {1, 16}) {
    const TableOptions table{.rows = 16, .rows_per_lock = rows_per_lock};
    Rig rig({.sim = false, .bytes = fixed_bytes(table), .fixed_bytes = fixed_bytes(table)});
    make_table(table, rig.nodes()[0]);
    const Crowd some = crowd(&rig, table, {.compute_nodes = 2, .threads = 4}, 1, budget<uint64_t>(500, 2'000, 20'000));
    std::printf("%llu rows a lock: %llu done, %llu gave up after 1 ms, %llu found no place\n",
                static_cast<unsigned long long>(rows_per_lock), static_cast<unsigned long long>(some.done),
                static_cast<unsigned long long>(some.gave_up), static_cast<unsigned long long>(some.full));
    EXPECT_GT(some.done, 0u);
    EXPECT_EQ(some.releases_lost, 0u);
    expect_goes_on(&rig, table);
  }
}

TEST(CuckooProgress, ClientsThatGiveUpLeaveNothingTakenInAnySchedule) {
  uint64_t gave_up = 0;
  for (uint64_t seed = 1; seed <= budget<uint64_t>(20, 200, 2'000); ++seed) {
    const TableOptions table{.rows = 16, .rows_per_lock = seed % 2 == 0 ? uint64_t{1} : uint64_t{16}};
    Rig rig({.seed = seed, .bytes = fixed_bytes(table), .fixed_bytes = fixed_bytes(table)});
    make_table(table, rig.nodes()[0]);
    const Crowd some = crowd(&rig, table, {.compute_nodes = 2, .threads = 4}, 1, 20);
    gave_up += some.gave_up;
    EXPECT_EQ(some.releases_lost, 0u) << "BONSAI_SEED=" << seed;
    expect_goes_on(&rig, table);
  }
  EXPECT_GT(gave_up, 0u) << "nobody gave up: the test shows nothing";
}

// A walk by chance ends, too, and the entries are where it says.
TEST(CuckooProgress, RandomWalksFillTheTable) {
  const TableOptions table{.rows = 256, .rows_per_lock = 1};
  Rig rig({.sim = false, .bytes = fixed_bytes(table), .fixed_bytes = fixed_bytes(table)});
  make_table(table, rig.nodes()[0]);
  uint32_t stored = 0;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(
        connection,
        {.table = table, .search = {.kind = SearchOptions::Kind::kRandom, .moves_max = 50}, .operation_ms_max = 2'000});
    while (client->insert(key(stored + 1), key(stored + 7)).ok()) ++stored;
    EXPECT_EQ(client->counters().inserts_full, 1u) << "it ended by its bound";
    std::string value;
    for (uint32_t number = 1; number <= stored; ++number) {
      ASSERT_EQ("OK", text(client->get(key(number), &value)));
      ASSERT_EQ(value, key(number + 6));
    }
  });
  EXPECT_GT(stored, 256 * kEntriesPerRow * 9 / 10);
}

}  // namespace
}  // namespace bonsai::bench::rivals::rcuckoo
