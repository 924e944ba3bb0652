// SPDX-License-Identifier: Apache-2.0
// The RACE-like engine: what each operation costs, that histories are linearizable whatever the schedule, that the
// faults planted in it are found, and how full its tables get.
#include "bench/studies/rivals/race.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/coro/scheduler.h"
#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/step.h"
#include "base/testing/budget.h"
#include "base/testing/planted_fault.h"
#include "bench/studies/rivals/testing/expectations.h"
#include "bench/studies/rivals/testing/meanwhile.h"
#include "bench/studies/rivals/testing/mutants.h"
#include "bench/studies/rivals/testing/rig.h"

namespace bonsai::bench::rivals::race {
namespace {

using bonsai::testing::budget;

std::string key(uint64_t number) { return Judge::key_of(number); }

std::unique_ptr<RaceClient> client_of(Connection* connection, const ClientOptions& options) {
  std::unique_ptr<RaceClient> client;
  EXPECT_EQ("OK", text(RaceClient::make(connection, options, &client)));
  return client;
}

// One table on one memory node, two clients of one thread.
class RaceBudget : public ::testing::TestWithParam<bool> {
 protected:
  void on_table(const TableOptions& table, const std::function<void(RaceClient&, RaceClient&)>& body) {
    Rig rig({.sim = GetParam(), .fixed_bytes = fixed_bytes(table, 1)});
    make_table(table, rig.nodes());
    rig_ = &rig;
    rig.run_one([&](Connection* connection) {
      connection_ = connection;
      ClientOptions options{.table = table};
      if (!GetParam()) options.heap.reuse_after_ms = kUnhurriedMs;
      const auto client = client_of(connection, options);
      options.position = ClientOptions::Position::kFirstFree;
      const auto other = client_of(connection, options);
      // Both have a chunk, and blocks to reuse do not matter.
      ASSERT_EQ("OK", text(client->insert(key(1), "12345678")));
      ASSERT_EQ("OK", text(other->insert(key(2), "12345678")));
      body(*client, *other);
    });
  }
  void expect_cost(const rdma::Cost& cost, const std::function<Status()>& operation, const char* outcome = "OK") {
    rivals::expect_cost(connection_, cost, operation, outcome);
  }
  Rig* rig_ = nullptr;
  Connection* connection_ = nullptr;
  std::string value_;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, RaceBudget, ::testing::Bool(), name_of_fabric);

// The first key from `from` on that goes where `like` goes first, and has another fingerprint, or the same.
uint64_t neighbour_of(uint64_t like, uint64_t from, uint64_t groups, bool same_fingerprint) {
  const Place wanted(key(like));
  for (uint64_t number = from;; ++number) {
    const Place place(key(number));
    if (place.combined_offset(0, groups) == wanted.combined_offset(0, groups) &&
        (place.fingerprint() == wanted.fingerprint()) == same_fingerprint) {
      return number;
    }
  }
}

TEST_P(RaceBudget, OfEachOperation) {
  on_table({}, [&](RaceClient& client, RaceClient&) {
    expect_cost({.round_trips = 3, .messages = 6, .bytes = 584}, [&] { return client.insert(key(7), "abcdefgh"); });
    expect_cost({.round_trips = 2, .messages = 3, .bytes = 320}, [&] { return client.get(key(7), &value_); });
    EXPECT_EQ(value_, "abcdefgh");
    expect_cost({.round_trips = 3, .messages = 5, .bytes = 392}, [&] { return client.update(key(7), "ABCDEFGH"); });
    expect_cost({.round_trips = 3, .messages = 5, .bytes = 392}, [&] { return client.insert(key(7), "87654321"); });
    expect_cost({.round_trips = 3, .messages = 4, .bytes = 328}, [&] { return client.remove(key(7)); });
    expect_cost(
        {.round_trips = 2, .messages = 4, .bytes = 512}, [&] { return client.get(key(7), &value_); }, "not found");
    expect_cost(
        {.round_trips = 2, .messages = 5, .bytes = 576}, [&] { return client.update(key(7), "x"); }, "not found");
    expect_cost(
        {.round_trips = 2, .messages = 4, .bytes = 512}, [&] { return client.remove(key(7)); }, "not found");
  });
}

TEST_P(RaceBudget, OfAnInsertWhoseSlotWasTaken) {
  const TableOptions table{.groups_per_sub_table = 100};
  on_table(table, [&](RaceClient& client, RaceClient& other) {
    const uint64_t neighbour = neighbour_of(7, 100, table.groups_per_sub_table, false);
    const Meanwhile taken("race.swap", [&] { ASSERT_EQ("OK", text(other.insert(key(neighbour), "neighbor"))); });
    expect_cost({.round_trips = 5 + 3, .messages = 9 + 6, .bytes = 848 + 584},
                [&] { return client.insert(key(7), "abcdefgh"); });
    EXPECT_EQ(client.counters().cas_lost, 1u);
    EXPECT_EQ("OK", text(client.get(key(7), &value_)));
    EXPECT_EQ("OK", text(client.get(key(neighbour), &value_)));
    EXPECT_EQ(value_, "neighbor");
  });
}

TEST_P(RaceBudget, OfAnInsertBesideAnotherOneOfItsKey) {
  const TableOptions table{.groups_per_sub_table = 100};
  on_table(table, [&](RaceClient& client, RaceClient& other) {
    const uint64_t neighbour = neighbour_of(7, 100, table.groups_per_sub_table, false);
    // Now the key's first bucket is not the less loaded one: the two clients choose different slots.
    ASSERT_EQ("OK", text(other.insert(key(neighbour), "neighbor")));
    const Meanwhile rival("race.swap", [&] { ASSERT_EQ("OK", text(other.insert(key(7), "rivalled"))); });
    expect_cost({.round_trips = 5 + 3, .messages = 8 + 6, .bytes = 656 + 584},
                [&] { return client.insert(key(7), "abcdefgh"); });
    EXPECT_EQ(client.counters().duplicates_resolved, 1u);
    expect_cost({.round_trips = 2, .messages = 3, .bytes = 320}, [&] { return client.get(key(7), &value_); });
    const Place place(key(7));
    const bool first_is_lower = place.combined_offset(0, 100) < place.combined_offset(1, 100);
    EXPECT_EQ(value_, first_is_lower ? "rivalled" : "abcdefgh");
  });
}

TEST_P(RaceBudget, OfAnUpdateWhoseSwapIsLost) {
  on_table({}, [&](RaceClient& client, RaceClient& other) {
    ASSERT_EQ("OK", text(client.insert(key(7), "abcdefgh")));
    const Meanwhile rival("race.swap", [&] { ASSERT_EQ("OK", text(other.update(key(7), "rivalled"))); });
    expect_cost({.round_trips = 6 + 3, .messages = 9 + 5, .bytes = 720 + 392},
                [&] { return client.update(key(7), "ABCDEFGH"); });
    EXPECT_EQ("OK", text(other.get(key(7), &value_)));
    EXPECT_EQ(value_, "ABCDEFGH");
  });
}

TEST_P(RaceBudget, OfAFingerprintThatDeceives) {
  const TableOptions table{.groups_per_sub_table = 2};
  on_table(table, [&](RaceClient& client, RaceClient& other) {
    const uint64_t twin = neighbour_of(7, 100, table.groups_per_sub_table, true);
    ASSERT_EQ("OK", text(other.insert(key(7), "abcdefgh")));
    ASSERT_EQ("OK", text(other.insert(key(twin), "deceives")));
    const uint64_t deceived = client.counters().fingerprints_deceived;
    expect_cost({.round_trips = 2, .messages = 4, .bytes = 384}, [&] { return client.get(key(7), &value_); });
    EXPECT_EQ(value_, "abcdefgh");
    EXPECT_EQ(client.counters().fingerprints_deceived, deceived + 1);
  });
}

TEST_P(RaceBudget, OfAStaleDirectory) {
  const TableOptions table{.global_depth = 1};
  on_table(table, [&](RaceClient& client, RaceClient&) {
    ASSERT_EQ("OK", text(client.insert(key(7), "abcdefgh")));
    std::byte* const memory = rig_->nodes()[0]->data();
    Directory right{};
    base::racy_load(&right, memory, sizeof right);
    Directory wrong = right;
    std::swap(wrong.entries[0], wrong.entries[1]);
    base::racy_store(memory, &wrong, sizeof wrong);
    const auto stale = client_of(connection_, {.table = table});
    base::racy_store(memory, &right, sizeof right);
    expect_cost({.round_trips = 2 + 2, .messages = 3 + 3, .bytes = 320 + 2064 + 256},
                [&] { return stale->get(key(7), &value_); });
    EXPECT_EQ(stale->counters().directory_reads, 1u);
    expect_cost({.round_trips = 2, .messages = 3, .bytes = 320}, [&] { return stale->get(key(7), &value_); });
  });
}

// Whether a get notices changed bytes of a block, and finds the record when the right bytes are back.
bool notices_damage(bool sim) {
  const TableOptions table;
  Rig rig({.sim = sim, .fixed_bytes = fixed_bytes(table, 1)});
  make_table(table, rig.nodes());
  bool noticed = false;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, {.table = table});
    const auto impatient = client_of(connection, {.table = table, .operation_ms_max = 5});
    EXPECT_EQ("OK", text(client->insert(key(7), "abcdefgh")));
    std::byte* const block = rig.nodes()[0]->data() + fixed_bytes(table, 1);
    uint64_t half = 0;
    base::racy_load(&half, block + 16, sizeof half);
    const uint64_t torn = half ^ 0xff00;
    base::racy_store(block + 16, &torn, sizeof torn);
    std::string value;
    noticed = impatient->get(key(7), &value).IsUnavailable();
    base::racy_store(block + 16, &half, sizeof half);
    EXPECT_EQ("OK", text(client->get(key(7), &value)));
    EXPECT_EQ(value, "abcdefgh");
  });
  return noticed;
}

bool notices_another_key() {
  const TableOptions table{.groups_per_sub_table = 2};
  Rig rig({.sim = true, .fixed_bytes = fixed_bytes(table, 1)});
  make_table(table, rig.nodes());
  bool noticed = false;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, {.table = table});
    const uint64_t twin = neighbour_of(7, 100, table.groups_per_sub_table, true);
    EXPECT_EQ("OK", text(client->insert(key(7), "abcdefgh")));
    std::string value;
    noticed = client->get(key(twin), &value).IsNotFound();
  });
  return noticed;
}

TEST(Race, ReadersVerifyBlocks) {
  EXPECT_TRUE(notices_damage(true));
  EXPECT_TRUE(notices_damage(false));
  EXPECT_TRUE(notices_another_key());
}

TEST(Race, RefusesWhatDoesNotFit) {
  const TableOptions table{.groups_per_sub_table = 1};
  Rig rig({.sim = true, .fixed_bytes = fixed_bytes(table, 1)});
  make_table(table, rig.nodes());
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, {.table = table});
    EXPECT_TRUE(client->insert(key(1), std::string(4096, 'x')).IsInvalidArgument());
    Status status;
    uint64_t stored = 0;
    while (status.ok()) status = client->insert(key(++stored), "12345678");
    EXPECT_TRUE(status.IsNoSpace()) << text(status);
    std::string value;
    for (uint64_t number = 1; number < stored; ++number) EXPECT_EQ("OK", text(client->get(key(number), &value)));
    EXPECT_EQ("OK", text(client->remove(key(1))));
    EXPECT_TRUE(client->get(key(1), &value).IsNotFound());
  });
}

// The number of slots of each key.
std::map<std::string, size_t> slots_by_key(Rig* rig, const TableOptions& table) {
  std::map<std::string, size_t> slots;
  const std::byte* const memory = rig->nodes()[0]->data();
  const size_t sub_table = fixed_bytes(table, 1) - table.groups_per_sub_table * kGroupBytes;
  for (size_t at = sub_table; at < fixed_bytes(table, 1); at += sizeof(uint64_t)) {
    const uint64_t word = base::word_at(memory + at).load();
    std::string_view owner, value;
    if ((at - sub_table) % kBucketBytes == 0 || word == 0) continue;
    if (!decode_block(memory + address_in(word).offset, Slot::units(word), true, &owner, &value)) continue;
    ++slots[std::string(owner)];
  }
  return slots;
}

struct Trial {
  bonsai::testing::Verdict verdict;
  size_t slots_of_a_key_max = 0;
  Counters counters;
};

// Random clients on one tiny table, of both ways to choose a slot, so that inserts of one key meet.
Trial try_schedule(bool sim, uint64_t seed, const Shape& shape, const Judge::Mix& mix) {
  const TableOptions table{.groups_per_sub_table = 2};
  Rig rig({.sim = sim, .seed = seed, .bytes = size_t{4} << 20, .fixed_bytes = fixed_bytes(table, 1)});
  make_table(table, rig.nodes());
  Judge judge(mix, shape.clients());
  // Removals concurrent with inserts of their key are not linearizable, as published (race.h).
  if (mix.inserts == 0) {
    rig.run_one([&](Connection* connection) { judge.load(client_of(connection, {.table = table}).get()); });
  }
  std::vector<Counters> counters(shape.clients());
  rig.run(shape, [&](const Seat& seat) {
    using Position = ClientOptions::Position;
    const auto client =
        client_of(seat.connection, {.table = table,
                                    .position = seat.client % 2 == 0 ? Position::kLessLoaded : Position::kFirstFree,
                                    .heap = {.reuse_after_ms = sim ? uint64_t{2} : uint64_t{1000}}});
    judge.act(client.get(), seat.client, seed);
    counters[seat.client] = client->counters();
  });
  Trial trial{judge.verdict(), 0, {}};
  for (const auto& [owner, slots] : slots_by_key(&rig, table)) {
    trial.slots_of_a_key_max = std::max(trial.slots_of_a_key_max, slots);
  }
  for (const Counters& one : counters) {
    trial.counters.cas_lost += one.cas_lost;
    trial.counters.duplicates_resolved += one.duplicates_resolved;
    trial.counters.looks_repeated += one.looks_repeated;
  }
  return trial;
}

constexpr Shape kSimShape{.compute_nodes = 2, .threads = 2, .coroutines = 1};
constexpr Judge::Mix kSimMix{.keys = 2, .inserts = 40, .updates = 20, .removes = 0, .value_bytes_max = 100};
constexpr Judge::Mix kFirstInserts{
    .keys = 10, .inserts = 70, .updates = 0, .removes = 0, .value_bytes_max = 100, .operations = 24};
constexpr Judge::Mix kRemovals{
    .keys = 12, .inserts = 0, .updates = 45, .removes = 10, .value_bytes_max = 100, .operations = 60};
constexpr Judge::Mix kOwned{
    .keys = 4, .inserts = 25, .updates = 25, .removes = 20, .value_bytes_max = 100, .operations = 60, .owned = true};
constexpr Judge::Mix kAllBesideAll{
    .keys = 2, .inserts = 35, .updates = 10, .removes = 25, .value_bytes_max = 100, .operations = 60};

TEST(Race, IsLinearizableUnderSeededSchedules) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Counters all;
  const uint64_t schedules = budget<uint64_t>(100, 600, 20'000);
  for (uint64_t i = 0; i < schedules; ++i) {
    const Trial trial = try_schedule(true, seed + i, kSimShape,
                                     i % 4 == 0   ? kRemovals
                                     : i % 4 == 1 ? kSimMix
                                                  : kFirstInserts);
    ASSERT_TRUE(trial.verdict) << "BONSAI_SEED=" << seed + i << "\n" << trial.verdict.text;
    ASSERT_LE(trial.slots_of_a_key_max, 1u) << "BONSAI_SEED=" << seed + i;
    all.cas_lost += trial.counters.cas_lost;
    all.duplicates_resolved += trial.counters.duplicates_resolved;
    all.looks_repeated += trial.counters.looks_repeated;
  }
  EXPECT_GT(all.cas_lost, schedules / 2);
  EXPECT_GT(all.duplicates_resolved, schedules / 50);
  EXPECT_GT(all.looks_repeated, schedules / 10);
}

// Each key is inserted and removed by one client, while the others read and update it.
TEST(Race, RemovalsAndInsertsByOneClientAreLinearizable) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t i = 0; i < budget<uint64_t>(100, 600, 20'000); ++i) {
    const Trial trial = try_schedule(true, seed + i, kSimShape, kOwned);
    ASSERT_TRUE(trial.verdict) << "BONSAI_SEED=" << seed + i << "\n" << trial.verdict.text;
    ASSERT_LE(trial.slots_of_a_key_max, 1u) << "BONSAI_SEED=" << seed + i;
  }
}

// All clients insert and remove all keys. The history below needs five events in order, which chance does not bring.
TEST(Race, RemovalsBesideInsertsLeaveOneSlotOfAKey) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const uint64_t schedules = budget<uint64_t>(100, 1'000, 20'000);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < schedules; ++i) {
    const Trial trial = try_schedule(true, seed + i, kSimShape, kAllBesideAll);
    wrong += trial.verdict ? 0 : 1;
    ASSERT_EQ(trial.verdict.text.find("operation failed"), std::string::npos) << trial.verdict.text;
    ASSERT_LE(trial.slots_of_a_key_max, 1u) << "BONSAI_SEED=" << seed + i;
  }
  std::printf("%llu of %llu histories with removals beside inserts are not linearizable\n",
              static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(schedules));
  EXPECT_LE(wrong, schedules / 100);
}

// The events, in order, of the test below.
struct Events {
  bool late_looked = false, early_done = false, remover_looked = false, late_saw_both = false, read = false;
};

// As published (race.h): an insert, which saw the key absent, withdraws its slot because of one that is removed
// meanwhile. Its value had been read after the removal, and is gone although no client removed it.
TEST(Race, AnInsertBesideARemovalOfItsKeyWithdraws) {
  static Events events;
  static size_t late = 0, remover = 0;  // coroutines
  events = {};
  late = remover = 0;
  const auto wait_for = [](const bool& event) {
    while (!event) base::Scheduler::yield();
  };
  base::step_hook.store([](const char* step) {
    const size_t self = base::Scheduler::current() == nullptr ? 0 : base::Scheduler::number();
    const bool swaps = std::string_view(step) == "race.swap", clears = std::string_view(step) == "race.clear";
    if (swaps && self == late) {
      events.late_looked = true;
      while (!events.remover_looked) base::Scheduler::yield();
    } else if (clears && self == remover) {
      events.remover_looked = true;
      while (!events.late_saw_both) base::Scheduler::yield();
    } else if (clears && self == late) {
      events.late_saw_both = true;
      while (!events.read) base::Scheduler::yield();
    }
  });
  const TableOptions table{.groups_per_sub_table = 100};
  // The late insert chooses the other bucket, and the higher slot, which is the one that goes.
  uint64_t number = 7;
  while (Place(key(number)).combined_offset(0, 100) > Place(key(number)).combined_offset(1, 100)) ++number;
  Rig rig({.sim = true, .fixed_bytes = fixed_bytes(table, 1)});
  make_table(table, rig.nodes());
  std::string before, value;
  Status after;
  using Position = ClientOptions::Position;
  rig.run_one([&](Connection* connection) {
    const uint64_t neighbour = neighbour_of(number, 100, table.groups_per_sub_table, false);
    EXPECT_EQ("OK", text(client_of(connection, {.table = table})->insert(key(neighbour), "neighbor")));
  });
  rig.run({.coroutines = 3}, [&](const Seat& seat) {
    const auto position = seat.client == 0 ? Position::kLessLoaded : Position::kFirstFree;
    const auto client = client_of(seat.connection, {.table = table, .position = position});
    if (seat.client == 0) {
      late = base::Scheduler::number();
      EXPECT_EQ("OK", text(client->insert(key(number), "withdrew")));
      after = client->get(key(number), &value);
    } else if (seat.client == 1) {
      wait_for(events.late_looked);
      EXPECT_EQ("OK", text(client->insert(key(number), "removed.")));
      events.early_done = true;
    } else {
      wait_for(events.early_done);
      remover = base::Scheduler::number();
      EXPECT_EQ("OK", text(client->remove(key(number))));
      EXPECT_EQ("OK", text(client->get(key(number), &before)));
      events.read = true;
    }
  });
  base::step_hook.store(nullptr);
  EXPECT_EQ(before, "withdrew");
  EXPECT_TRUE(after.IsNotFound()) << text(after);
}

TEST(Race, IsLinearizableOnThreads) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t round = 0; round < budget<uint64_t>(2, 10, 100); ++round) {
    const Trial trial = try_schedule(false, seed + round, {.compute_nodes = 2, .threads = 2, .coroutines = 2},
                                     {.keys = 3, .removes = 0, .value_bytes_max = 100, .operations = 2'000});
    ASSERT_TRUE(trial.verdict) << trial.verdict.text;
    ASSERT_LE(trial.slots_of_a_key_max, 1u);
    EXPECT_GT(trial.counters.cas_lost, 0u);
  }
}

TEST(Race, PlantedFaultsAreFound) {
  const auto by_schedules = bonsai::testing::within(budget<uint64_t>(4'000, 10'000, 20'000), [](uint64_t seed) {
    const Trial trial = try_schedule(true, seed, kSimShape, seed % 4 == 0 ? kSimMix : kFirstInserts);
    return !trial.verdict || trial.slots_of_a_key_max > 1;
  });
  bonsai::testing::expect_found({
      {"reused at once", kReusedAtOnce, by_schedules},
      {"duplicates unchecked", kDuplicatesUnchecked, by_schedules},
      {"lost insert acknowledged", kLostInsertAcknowledged, by_schedules},
      {"block unverified", kBlockUnverified, [] { return !notices_damage(true); }},
      {"first match believed", kFirstMatchBelieved, [] { return !notices_another_key(); }},
  });
}

// The fill of one sub-table when an insert first finds no slot, and the cost of the operations on it meanwhile.
struct Fill {
  double first_failure = 0;
  double lists_per_insert = 0;
  double deceived_per_get_at_80 = 0;
  double load_seen_at_80 = 0;  // of the slots that a get reads: half of them are of overflow buckets, which fill last
};
double load_seen(Rig* rig, const TableOptions& table) {
  std::array<double, 2> used{};  // main buckets, overflow buckets
  const std::byte* const buckets =
      rig->nodes()[0]->data() + fixed_bytes(table, 1) - table.groups_per_sub_table * kGroupBytes;
  for (uint64_t bucket = 0; bucket < 3 * table.groups_per_sub_table; ++bucket) {
    for (size_t slot = 1; slot <= kSlotsPerBucket; ++slot) {
      const std::byte* const word = buckets + bucket * kBucketBytes + slot * sizeof(uint64_t);
      if (base::word_at(word).load() != 0) used[bucket % 3 == 1 ? 1 : 0] += 1;
    }
  }
  const double slots = static_cast<double>(table.groups_per_sub_table * kSlotsPerBucket);
  return (used[0] / (2 * slots) + used[1] / slots) / 2;
}

Fill fill(uint64_t groups, ClientOptions::Position position, uint64_t seed) {
  const TableOptions table{.groups_per_sub_table = groups};
  const uint64_t slots = groups * kSlotsPerGroup;
  Rig rig({.sim = false,
           .bytes = fixed_bytes(table, 1) + slots * kUnitBytes + (size_t{1} << 20),
           .fixed_bytes = fixed_bytes(table, 1)});
  make_table(table, rig.nodes());
  Fill result;
  rig.run_one([&](Connection* connection) {
    const auto client = client_of(connection, {.table = table, .position = position});
    const uint64_t first = seed << 32;
    const rdma::Traffic before = connection->worker().traffic();
    uint64_t stored = 0;
    std::string value;
    while (client->insert(key(first + stored), "12345678").ok()) {
      if (++stored != slots * 8 / 10) continue;
      result.lists_per_insert =
          static_cast<double>((connection->worker().traffic() - before).round_trips) / static_cast<double>(stored);
      result.load_seen_at_80 = load_seen(&rig, table);
      const uint64_t deceived = client->counters().fingerprints_deceived;
      for (uint64_t i = 0; i < stored; ++i) EXPECT_EQ("OK", text(client->get(key(first + i), &value)));
      result.deceived_per_get_at_80 =
          static_cast<double>(client->counters().fingerprints_deceived - deceived) / static_cast<double>(stored);
    }
    result.first_failure = static_cast<double>(stored) / static_cast<double>(slots);
  });
  return result;
}

TEST(Race, FillsAsItsModel) {
  using Position = ClientOptions::Position;
  const struct {
    uint64_t groups;
    Position position;
    double expected;
    uint64_t tables;
  } cases[] = {{100, Position::kLessLoaded, .937, 16},
               {1'000, Position::kLessLoaded, .922, 4},
               {100, Position::kFirstFree, .817, 16},
               {1'000, Position::kFirstFree, .766, 16}};
  for (const auto& one : cases) {
    double sum = 0;
    for (uint64_t table = 1; table <= one.tables; ++table) sum += fill(one.groups, one.position, table).first_failure;
    const double mean = sum / static_cast<double>(one.tables);
    std::printf("%llu groups, %s: full at %.3f (model: %.3f)\n", static_cast<unsigned long long>(one.groups),
                one.position == Position::kLessLoaded ? "less loaded" : "first free", mean, one.expected);
    EXPECT_NEAR(mean, one.expected, .02);
  }
}

TEST(Race, InsertsTakeThreeListsAndFingerprintsDeceiveAsOften) {
  const Fill result = fill(2'000, ClientOptions::Position::kLessLoaded, 1);
  std::printf("lists per insert, empty to 80 %% full: %.3f; deceived per get at 80 %%: %.4f\n", result.lists_per_insert,
              result.deceived_per_get_at_80);
  // Three, and one more where a fingerprint deceived: at most 28 slots, half of 80 % full on average.
  EXPECT_NEAR(result.lists_per_insert, 3 + 28 * .4 / 256, .015);
  // All slots that are read but the key's own.
  const double expected = (28 * result.load_seen_at_80 - 1) / 256;
  std::printf("load of the slots that a get reads: %.3f, so expected: %.4f\n", result.load_seen_at_80, expected);
  EXPECT_NEAR(result.deceived_per_get_at_80, expected, .15 * expected);
}

}  // namespace
}  // namespace bonsai::bench::rivals::race
