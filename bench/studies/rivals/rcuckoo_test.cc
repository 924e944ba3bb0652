// SPDX-License-Identifier: Apache-2.0
// The RCuckoo-like engine: what each operation costs, that histories are linearizable whatever the schedule, and that
// the faults planted in it are found.
#include "bench/studies/rivals/rcuckoo.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>

#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/planted_fault.h"
#include "bench/studies/rivals/testing/cuckoo_rig.h"
#include "bench/studies/rivals/testing/expectations.h"
#include "bench/studies/rivals/testing/meanwhile.h"
#include "bench/studies/rivals/testing/mutants.h"

namespace bonsai::bench::rivals::rcuckoo {
namespace {

using bonsai::testing::budget;

constexpr size_t kR = kRowBytes;

class CuckooBudget : public ::testing::TestWithParam<bool> {
 protected:
  void on_table(const ClientOptions& options, const std::function<void(CuckooClient&)>& body) {
    const Table table(options.table);
    Rig rig({.sim = GetParam(), .fixed_bytes = fixed_bytes(options.table)});
    make_table(options.table, rig.nodes()[0]);
    Inspector inspector(table, rig.nodes()[0]);
    rig.run_one([&](Connection* connection) {
      connection_ = connection;
      inspector_ = &inspector;
      ClientOptions unhurried = options;
      if (!GetParam()) unhurried.locks.suspect_ms = kUnhurriedMs;
      const auto client = client_of(connection, unhurried);
      body(*client);
      EXPECT_EQ(inspector.locks_held(), 0u);
      EXPECT_EQ(inspector.seals_wrong(), 0u);
      EXPECT_EQ(client->lock_counters().releases_lost, 0u);
    });
  }
  void expect_cost(const rdma::Cost& cost, const std::function<Status()>& operation, const char* outcome = "OK") {
    rivals::expect_cost(connection_, cost, operation, outcome);
  }
  // Fills both rows of a key by others that have these rows, too.
  static void fill_rows_of(CuckooClient& client, const Table& table, uint32_t number) {
    const Place place = table.place(number);
    const auto same = [&](const Place& other) { return other.first == place.first && other.second == place.second; };
    uint32_t next = number;
    for (size_t i = 0; i < 2 * kEntriesPerRow; ++i) {
      next = key_where(table, next + 1, same);
      ASSERT_EQ("OK", text(client.insert(key(next), key(1))));
    }
  }
  Connection* connection_ = nullptr;
  Inspector* inspector_ = nullptr;
  std::string value_;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, CuckooBudget, ::testing::Bool(), name_of_fabric);

bool one_lock(const Table& table, const Place& place) { return table.block(place.first) == table.block(place.second); }

TEST_P(CuckooBudget, OfRowsFarApart) {
  on_table({}, [&](CuckooClient& client) {
    const Table table({});
    const uint32_t k = key_where(table, 1, [&](const Place& p) { return p.distance() == 5 && one_lock(table, p); });
    expect_cost({.round_trips = 2, .messages = 4, .bytes = 8 + 16 * kR + kR + 8},
                [&] { return client.insert(key(k), key(11)); });
    EXPECT_EQ(client.counters().inserts_one_message, 1u);
    expect_cost({.round_trips = 1, .messages = 2, .bytes = 2 * kR}, [&] { return client.get(key(k), &value_); });
    EXPECT_EQ(value_, key(11));
    expect_cost({.round_trips = 2, .messages = 5, .bytes = 8 + 2 * kR + kR + 8},
                [&] { return client.update(key(k), key(12)); });
    expect_cost({.round_trips = 2, .messages = 4, .bytes = 8 + 16 * kR + kR + 8},
                [&] { return client.insert(key(k), key(13)); });
    expect_cost({.round_trips = 1, .messages = 2, .bytes = 2 * kR}, [&] { return client.get(key(k), &value_); });
    EXPECT_EQ(value_, key(13));
    expect_cost({.round_trips = 2, .messages = 5, .bytes = 8 + 2 * kR + kR + 8}, [&] { return client.remove(key(k)); });
    expect_cost(
        {.round_trips = 2, .messages = 4, .bytes = 4 * kR}, [&] { return client.get(key(k), &value_); }, "not found");
    expect_cost(
        {.round_trips = 2, .messages = 4, .bytes = 8 + 2 * kR + 8}, [&] { return client.update(key(k), key(1)); },
        "not found");
  });
}

TEST_P(CuckooBudget, OfRowsWithinTheThreshold) {
  on_table({.threshold_bytes = 512}, [&](CuckooClient& client) {
    const Table table({});
    const uint32_t k = key_where(table, 1, [&](const Place& p) { return p.distance() == 3 && one_lock(table, p); });
    ASSERT_EQ("OK", text(client.insert(key(k), key(11))));
    expect_cost({.round_trips = 1, .messages = 1, .bytes = 4 * kR}, [&] { return client.get(key(k), &value_); });
    EXPECT_EQ(value_, key(11));
    expect_cost({.round_trips = 2, .messages = 4, .bytes = 8 + 4 * kR + kR + 8},
                [&] { return client.update(key(k), key(12)); });
    expect_cost({.round_trips = 2, .messages = 4, .bytes = 8 + 4 * kR + kR + 8}, [&] { return client.remove(key(k)); });
  });
}

TEST_P(CuckooBudget, OfRowsOfTwoLocks) {
  on_table({}, [&](CuckooClient& client) {
    const Table table({});
    const auto next_to = [&](const Place& p) {
      return p.distance() == 5 && !one_lock(table, p) && table.block(p.first) / 64 == table.block(p.second) / 64;
    };
    const uint32_t k = key_where(table, 1, next_to);
    expect_cost({.round_trips = 2, .messages = 4, .bytes = 8 + 32 * kR + kR + 8},
                [&] { return client.insert(key(k), key(11)); });
    expect_cost({.round_trips = 2, .messages = 5, .bytes = 8 + 2 * kR + kR + 8},
                [&] { return client.update(key(k), key(12)); });
  });
}

TEST_P(CuckooBudget, OfLocksOfSeveralMessages) {
  const TableOptions one_row_a_lock{.rows_per_lock = 1};
  const Table table(one_row_a_lock);
  const uint32_t k = key_where(table, 1, [&](const Place& p) { return p.distance() == 5; });
  const LockOptions together{.locks_per_message = 1}, in_turn{.locks_per_message = 1, .messages_per_list = 1};
  on_table({.table = one_row_a_lock, .locks = together}, [&](CuckooClient& client) {
    expect_cost({.round_trips = 2, .messages = 7, .bytes = 2 * 8 + 2 * kR + kR + 2 * 8},
                [&] { return client.insert(key(k), key(11)); });
    expect_cost({.round_trips = 2, .messages = 7, .bytes = 2 * 8 + 2 * kR + kR + 2 * 8},
                [&] { return client.update(key(k), key(12)); });
    EXPECT_EQ(client.counters().inserts_one_message, 0u);
  });
  on_table({.table = one_row_a_lock, .locks = in_turn}, [&](CuckooClient& client) {
    expect_cost({.round_trips = 3, .messages = 7, .bytes = 2 * 8 + 2 * kR + kR + 2 * 8},
                [&] { return client.insert(key(k), key(11)); });
  });
  on_table({.table = one_row_a_lock, .locks = in_turn, .keys_are_new = true}, [&](CuckooClient& client) {
    expect_cost({.round_trips = 2, .messages = 4, .bytes = 8 + kR + kR + 8},
                [&] { return client.insert(key(k), key(11)); });
  });
}

// One READ for a message, whose locks may be of two words: then it is two requests.
TEST_P(CuckooBudget, OfCoveringReads) {
  const TableOptions one_row_a_lock{.rows_per_lock = 1};
  const Table table(one_row_a_lock);
  const auto low = [](const Place& p) { return std::min(p.first, p.second); };
  const LockOptions locks{.messages_per_list = 1, .covering_reads = true};
  on_table({.table = one_row_a_lock, .locks = locks}, [&](CuckooClient& client) {
    const uint32_t of_one_word =
        key_where(table, 1, [&](const Place& p) { return p.distance() == 5 && low(p) % kLocksPerWord < 50; });
    expect_cost({.round_trips = 2, .messages = 4, .bytes = 8 + 6 * kR + kR + 8},
                [&] { return client.insert(key(of_one_word), key(11)); });
    EXPECT_EQ(client.counters().inserts_one_message, 1u);
    const uint32_t of_two_words =
        key_where(table, 1, [&](const Place& p) { return p.distance() == 5 && low(p) % kLocksPerWord > 58; });
    expect_cost({.round_trips = 2, .messages = 6, .bytes = 2 * 8 + 6 * kR + kR + 2 * 8},
                [&] { return client.insert(key(of_two_words), key(12)); });
    EXPECT_EQ(client.counters().inserts_one_message, 2u);
    const uint32_t far = key_where(table, 1, [&](const Place& p) { return p.distance() > kLocksPerWord; });
    expect_cost({.round_trips = 3, .messages = 7, .bytes = 2 * 8 + 2 * kR + kR + 2 * 8},
                [&] { return client.insert(key(far), key(13)); });
    EXPECT_EQ(client.counters().inserts_one_message, 2u);
  });
}

TEST_P(CuckooBudget, OfAPath) {
  const TableOptions one_lock_for_all{.rows = 16, .rows_per_lock = 16};
  on_table({.table = one_lock_for_all}, [&](CuckooClient& client) {
    const Table table(one_lock_for_all);
    const uint32_t k = key_where(table, 1, [&](const Place& p) { return p.distance() == 1; });
    const Place place = table.place(k);
    // A neighbour in the first row that may move elsewhere.
    const uint32_t moves =
        key_where(table, 1, [&](const Place& p) { return p.first == place.first && p.second != place.second; });
    ASSERT_EQ("OK", text(client.insert(key(moves), key(5))));
    const auto same = [&](const Place& p) { return p.first == place.first && p.second == place.second; };
    uint32_t next = k;
    for (size_t i = 1; i < kEntriesPerRow; ++i) {
      next = key_where(table, next + 1, same);
      ASSERT_EQ("OK", text(client.insert(key(next), key(1))));
    }
    expect_cost({.round_trips = 2, .messages = 5, .bytes = 8 + 16 * kR + 2 * kR + 8},
                [&] { return client.insert(key(k), key(11)); });
    EXPECT_EQ(client.counters().entries_moved, 1u);
    EXPECT_EQ("OK", text(client.get(key(moves), &value_)));
    EXPECT_EQ(value_, key(5));
  });
}

TEST_P(CuckooBudget, OfALockThatIsTaken) {
  on_table({}, [&](CuckooClient& client) {
    const Table table({});
    const uint32_t k = key_where(table, 1, [&](const Place& p) { return p.distance() == 5 && one_lock(table, p); });
    const uint64_t lock = table.lock(table.block(table.place(k).first));
    inspector_->set_lock_word(lock / 64, uint64_t{1} << lock % 64);
    const Meanwhile released(
        "rcuckoo.list", [&] { inspector_->set_lock_word(lock / 64, 0); }, 1);
    expect_cost({.round_trips = 3, .messages = 6, .bytes = 2 * (8 + 16 * kR) + kR + 8},
                [&] { return client.insert(key(k), key(11)); });
    EXPECT_EQ(client.lock_counters().busy, 1u);
  });
}

// The first of two messages is in vain: the locks that the second got are given back and taken again.
TEST_P(CuckooBudget, OfTheLowerLockThatIsTaken) {
  const TableOptions one_row_a_lock{.rows_per_lock = 1};
  on_table({.table = one_row_a_lock, .locks = {.locks_per_message = 1}}, [&](CuckooClient& client) {
    const Table table(one_row_a_lock);
    const uint32_t k = key_where(table, 1, [&](const Place& p) { return p.distance() == 5; });
    const uint64_t lock = std::min(table.place(k).first, table.place(k).second);
    inspector_->set_lock_word(lock / 64, uint64_t{1} << lock % 64);
    const Meanwhile released(
        "rcuckoo.list",
        [&] { inspector_->set_lock_word(lock / 64, inspector_->lock_word(lock / 64) & ~(uint64_t{1} << lock % 64)); },
        1);
    // With emulation, a word that holds another client's bit takes a second request, from its last known value.
    const uint64_t tax = connection_->fabric().capabilities().masked_cas ? 0 : 1;
    expect_cost(
        {.round_trips = 4 + tax, .messages = 4 + 3 + 2 + 2 + 3 * tax, .bytes = 4 * kR + 7 * 8 + tax * (kR + 2 * 8)},
        [&] { return client.update(key(k), key(11)); }, "not found");
  });
}

TEST_P(CuckooBudget, OfAPathThatDoesNotHold) {
  const TableOptions one_row_a_lock{.rows_per_lock = 1};
  on_table({.table = one_row_a_lock}, [&](CuckooClient& client) {
    const Table table(one_row_a_lock);
    const auto middle = [&](const Place& p) { return p.distance() == 3 && p.first % 64 > 30 && p.first % 64 < 34; };
    const uint32_t k = key_where(table, 1, middle);
    const auto other = client_of(connection_, {.table = one_row_a_lock});
    fill_rows_of(*other, table, k);
    // The rows hold entries of no other rows: the table counts as full for this key after three searches in vain.
    const size_t locked_bytes = 8 + 2 * kR + 8;
    expect_cost(
        {.round_trips = 4 * 2, .messages = 4 * 4, .bytes = 4 * locked_bytes},
        [&] { return client.insert(key(k), key(11)); },
        "no space: no path of the permitted length leads to a free entry");
    EXPECT_EQ(client.counters().inserts_full, 1u);
    EXPECT_EQ(client.counters().paths_outdated, 4u);
  });
}

TEST_P(CuckooBudget, OfEmulatedMaskedCas) {
  on_table({.locks = {.verb = LockOptions::Verb::kCas}}, [&](CuckooClient& client) {
    const Table table({});
    const uint32_t k = key_where(table, 1, [&](const Place& p) { return p.distance() == 5 && one_lock(table, p); });
    const uint64_t lock = table.lock(table.block(table.place(k).first));
    expect_cost({.round_trips = 2, .messages = 4, .bytes = 8 + 16 * kR + kR + 8},
                [&] { return client.insert(key(k), key(11)); });
    const uint64_t neighbour = uint64_t{1} << (lock + 7) % 64;
    inspector_->set_lock_word(lock / 64, neighbour);
    expect_cost({.round_trips = 3, .messages = 8, .bytes = 2 * (8 + 2 * kR) + kR + 8},
                [&] { return client.update(key(k), key(12)); });
    EXPECT_EQ(client.lock_counters().emulation_retries, 1u);
    {
      const Meanwhile changed(
          "rcuckoo.list", [&] { inspector_->set_lock_word(lock / 64, inspector_->lock_word(lock / 64) ^ neighbour); },
          1);
      expect_cost({.round_trips = 3, .messages = 6, .bytes = 8 + 2 * kR + kR + 2 * 8},
                  [&] { return client.update(key(k), key(13)); });
    }
    EXPECT_EQ(client.lock_counters().emulation_retries, 2u);
    EXPECT_EQ("OK", text(client.get(key(k), &value_)));
    EXPECT_EQ(value_, key(13));
  });
}

TEST(Cuckoo, RefusesWhatItDoesNotStore) {
  Rig rig({.fixed_bytes = fixed_bytes({})});
  make_table({}, rig.nodes()[0]);
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, {});
    std::string value;
    EXPECT_TRUE(client->insert("longer", key(1)).IsInvalidArgument());
    EXPECT_TRUE(client->insert(key(1), "longer").IsInvalidArgument());
    EXPECT_TRUE(client->insert(key(0), key(1)).IsInvalidArgument());
    EXPECT_TRUE(client->get(key(0), &value).IsInvalidArgument());
    EXPECT_TRUE(client->remove(key(1)).IsNotFound());
  });
}

// Whether a get notices that a row is not as it was sealed, and finds the record when it is.
bool notices_damage(bool sim) {
  const Table table({});
  Rig rig({.sim = sim, .fixed_bytes = fixed_bytes({})});
  make_table({}, rig.nodes()[0]);
  Inspector inspector(table, rig.nodes()[0]);
  bool noticed = false;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, {});
    const auto impatient = client_of(connection, {.operation_ms_max = 5});
    EXPECT_EQ("OK", text(client->insert(key(7), key(11))));
    const uint64_t number = table.place(7).first;
    const Row right = inspector.row(number);
    Row torn = right;
    torn.entries[0] ^= 0xff;
    inspector.put(number, torn);
    std::string value;
    noticed = impatient->get(key(7), &value).IsUnavailable();
    inspector.put(number, right);
    EXPECT_EQ("OK", text(client->get(key(7), &value)));
    EXPECT_EQ(value, key(11));
  });
  return noticed;
}

TEST(Cuckoo, ReadersVerifyRows) {
  EXPECT_TRUE(notices_damage(true));
  EXPECT_TRUE(notices_damage(false));
}

struct Trial {
  bonsai::testing::Verdict verdict;
  size_t copies_of_a_key_max = 0;
  Counters counters;
  LockCounters locks;
};

// Random clients of few keys in a small table that is nearly full of others, so that entries move all the time.
Trial try_schedule(bool sim, uint64_t seed, const Shape& shape, const Judge::Mix& mix, LockOptions::Verb verb) {
  const TableOptions small{.rows = 16, .rows_per_lock = 2, .lock_bits_max = 64};
  const Table table(small);
  Rig rig({.sim = sim, .seed = seed, .fixed_bytes = fixed_bytes(small)});
  make_table(small, rig.nodes()[0]);
  const ClientOptions options{.table = small,
                              .locks = {.verb = verb,
                                        .locks_per_message = 4,
                                        .covering_reads = seed % 2 == 0,
                                        .suspect_ms = sim ? 1'000U : 60'000U},
                              .threshold_bytes = 300,
                              .operation_ms_max = sim ? 10'000U : 60'000U};
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, options);
    for (uint32_t number = 1'000; number < 1'000 + small.rows * 6; ++number) {
      EXPECT_EQ("OK", text(client->insert(key(number), key(1))));
    }
  });
  Judge judge(mix, shape.clients());
  std::vector<Counters> counters(shape.clients());
  std::vector<LockCounters> locks(shape.clients());
  rig.run(shape, [&](const Seat& seat) {
    const auto client = client_of(seat.connection, options);
    NarrowClient narrow(client.get());
    judge.act(&narrow, seat.client, seed);
    counters[seat.client] = client->counters();
    locks[seat.client] = client->lock_counters();
  });
  Trial trial{judge.verdict(), 0, {}, {}};
  const Inspector inspector(table, rig.nodes()[0]);
  EXPECT_TRUE(bonsai::testing::mutants_on.load() != 0 || inspector.locks_held() == 0);
  const auto records = inspector.records();
  for (const auto& [owner, values] : records) {
    trial.copies_of_a_key_max = std::max(trial.copies_of_a_key_max, values.size());
  }
  for (uint32_t number = 1'000; number < 1'000 + small.rows * 6; ++number) {
    if (records.count(number) == 0) trial.copies_of_a_key_max = SIZE_MAX;
  }
  for (const Counters& one : counters) {
    trial.counters.entries_moved += one.entries_moved;
    trial.counters.looks_repeated += one.looks_repeated;
    trial.counters.paths_outdated += one.paths_outdated;
  }
  for (const LockCounters& one : locks) {
    trial.locks.busy += one.busy;
    trial.locks.emulation_retries += one.emulation_retries;
    trial.locks.releases_lost += one.releases_lost;
  }
  return trial;
}

constexpr Shape kSimShape{.compute_nodes = 2, .threads = 2, .coroutines = 1};
constexpr Judge::Mix kMix{.keys = 8, .inserts = 35, .updates = 15, .removes = 20};
using Verb = LockOptions::Verb;

struct Reading {
  uint64_t reads = 0, missed = 0, moved = 0;
};

// Readers of keys that stay, while writers insert keys that move them.
Reading read_beside_paths(uint64_t seed) {
  const TableOptions small{.rows = 16, .rows_per_lock = 2, .lock_bits_max = 64};
  Rig rig({.sim = true, .seed = seed, .fixed_bytes = fixed_bytes(small)});
  make_table(small, rig.nodes()[0]);
  const ClientOptions options{.table = small, .threshold_bytes = seed % 2 == 0 ? size_t{0} : size_t{600}};
  std::vector<uint32_t> stay;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, options);
    for (uint32_t number = 1'000; number < 1'000 + small.rows * 7; ++number) {
      if (client->insert(key(number), key(1)).ok()) stay.push_back(number);
    }
  });
  Reading reading;
  size_t writers_left = 2;
  rig.run({.compute_nodes = 2, .threads = 2}, [&](const Seat& seat) {
    const auto client = client_of(seat.connection, options);
    base::Random dice(base::splitmix64(seed) + seat.client);
    if (seat.client % 2 == 0) {
      for (size_t turn = 0; turn < 60; ++turn) {
        const std::string churned = key(1 + static_cast<uint32_t>(dice.below(24)));
        const Status status = dice.chance(1, 2) ? client->remove(churned) : client->insert(churned, key(2));
        EXPECT_TRUE(status.ok() || status.IsNotFound() || status.IsNoSpace()) << text(status);
      }
      reading.moved += client->counters().entries_moved;
      --writers_left;
      return;
    }
    std::string value;
    while (writers_left > 0) {
      ++reading.reads;
      const Status status = client->get(key(stay[dice.below(stay.size())]), &value);
      EXPECT_TRUE(status.ok() || status.IsNotFound()) << text(status);
      reading.missed += status.IsNotFound() ? 1 : 0;
    }
  });
  return reading;
}

TEST(Cuckoo, ReadersBesidePathsMissNothing) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Reading all;
  for (uint64_t i = 0; i < budget<uint64_t>(100, 1'000, 10'000); ++i) {
    const Reading reading = read_beside_paths(seed + i);
    ASSERT_EQ(reading.missed, 0u) << "BONSAI_SEED=" << seed + i;
    all.reads += reading.reads;
    all.moved += reading.moved;
  }
  std::printf("%llu reads beside %llu moves\n", static_cast<unsigned long long>(all.reads),
              static_cast<unsigned long long>(all.moved));
  EXPECT_GT(all.moved, 1'000u);
}

TEST(Cuckoo, IsLinearizableUnderSeededSchedules) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Counters all;
  LockCounters locks;
  const uint64_t schedules = budget<uint64_t>(100, 600, 20'000);
  for (uint64_t i = 0; i < schedules; ++i) {
    const Trial trial = try_schedule(true, seed + i, kSimShape, kMix, i % 4 == 0 ? Verb::kCas : Verb::kMaskedCas);
    ASSERT_TRUE(trial.verdict) << "BONSAI_SEED=" << seed + i << "\n" << trial.verdict.text;
    ASSERT_LE(trial.copies_of_a_key_max, 1u) << "BONSAI_SEED=" << seed + i;
    ASSERT_EQ(trial.locks.releases_lost, 0u) << "BONSAI_SEED=" << seed + i;
    all.entries_moved += trial.counters.entries_moved;
    all.looks_repeated += trial.counters.looks_repeated;
    all.paths_outdated += trial.counters.paths_outdated;
    locks.busy += trial.locks.busy;
    locks.emulation_retries += trial.locks.emulation_retries;
  }
  std::printf("moved %llu, looked again %llu, outdated %llu, busy %llu, emulation %llu\n",
              static_cast<unsigned long long>(all.entries_moved), static_cast<unsigned long long>(all.looks_repeated),
              static_cast<unsigned long long>(all.paths_outdated), static_cast<unsigned long long>(locks.busy),
              static_cast<unsigned long long>(locks.emulation_retries));
  EXPECT_GT(all.entries_moved, schedules);
  EXPECT_GT(all.looks_repeated, schedules);
  EXPECT_GT(locks.busy, schedules);
  EXPECT_GT(locks.emulation_retries, schedules / 10);
}

TEST(Cuckoo, IsLinearizableOnThreads) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  uint64_t busy = 0;  // of all rounds: on a machine in use the threads of many a round happen to take turns
  const uint64_t rounds = budget<uint64_t>(4, 10, 100);
  for (uint64_t round = 0; round < rounds || (busy == 0 && round < 50 * rounds); ++round) {
    Judge::Mix mix = kMix;
    mix.operations = 500;
    const Trial trial = try_schedule(false, seed + round, {.compute_nodes = 2, .threads = 2, .coroutines = 1}, mix,
                                     round % 2 == 0 ? Verb::kMaskedCas : Verb::kCas);
    ASSERT_TRUE(trial.verdict) << trial.verdict.text;
    ASSERT_LE(trial.copies_of_a_key_max, 1u);
    ASSERT_EQ(trial.locks.releases_lost, 0u);
    busy += trial.locks.busy;
  }
  EXPECT_GT(busy, 0u);
}

TEST(Cuckoo, PlantedFaultsAreFound) {
  const auto by_schedules = bonsai::testing::within(budget<uint64_t>(2'000, 5'000, 10'000), [](uint64_t seed) {
    const Trial trial = try_schedule(true, seed, kSimShape, kMix, Verb::kMaskedCas);
    return !trial.verdict || trial.copies_of_a_key_max > 1 || trial.locks.releases_lost > 0;
  });
  const auto by_readers = bonsai::testing::within(budget<uint64_t>(500, 1'000, 2'000),
                                                  [](uint64_t seed) { return read_beside_paths(seed).missed > 0; });
  bonsai::testing::expect_found({
      {"miss believed", kMissBelieved, by_readers},
      {"first path believed", kFirstPathBelieved, by_schedules},
      {"lost lock taken", kLostLockTaken, by_schedules},
      {"row between taken", kRowBetweenTaken, by_schedules},
      {"row unverified", kRowUnverified, [] { return !notices_damage(true); }},
  });
}

}  // namespace
}  // namespace bonsai::bench::rivals::rcuckoo
