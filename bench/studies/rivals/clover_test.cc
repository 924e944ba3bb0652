// SPDX-License-Identifier: Apache-2.0
// The Clover-like engine: what each operation costs, what becomes of slabs that are used again and again, and that it
// refuses what it cannot do.
#include "bench/studies/rivals/clover.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "base/nvm/racy_copy.h"
#include "base/thread.h"
#include "bench/studies/rivals/testing/clover_rig.h"
#include "bench/studies/rivals/testing/expectations.h"
#include "bench/studies/rivals/testing/meanwhile.h"

namespace bonsai::bench::rivals::clover {
namespace {

// Two compute nodes with a client each, on one connection so that both are counted.
class CloverBudget : public ::testing::TestWithParam<bool> {
 protected:
  void on_store(const CloverRig::Options& options, const std::function<void(CloverClient&, CloverClient&)>& body) {
    CloverRig::Options both = options;
    both.sim = GetParam();
    both.compute_nodes = 2;
    CloverRig rig(both);
    rig_ = &rig;
    rig.run_one([&](Connection* connection) {
      connection_ = connection;
      const auto client = client_of(connection, rig.node(0)), other = client_of(connection, rig.node(1));
      // Now both have buffers.
      ASSERT_EQ("OK", text(client->insert(key(1), "12345678")));
      ASSERT_EQ("OK", text(other->insert(key(2), "12345678")));
      body(*client, *other);
    });
  }
  void expect_cost(const rdma::Cost& cost, const std::function<Status()>& operation, const char* outcome = "OK") {
    rivals::expect_cost(connection_, cost, operation, outcome);
  }
  void collect(size_t node) { CloverRig::collect(connection_, rig_->node(node)); }

  CloverRig* rig_ = nullptr;
  Connection* connection_ = nullptr;
  std::string value_;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, CloverBudget, ::testing::Bool(), name_of_fabric);

TEST_P(CloverBudget, OfEachOperation) {
  on_store({}, [&](CloverClient& client, CloverClient& other) {
    expect_cost({.round_trips = 2, .messages = 2, .bytes = 320}, [&] { return client.insert(key(7), "abcdefgh"); });
    expect_cost({.round_trips = 1, .messages = 2, .bytes = 136}, [&] { return client.get(key(7), &value_); });
    EXPECT_EQ(value_, "abcdefgh");
    expect_cost({.round_trips = 2, .messages = 2, .bytes = 136}, [&] { return client.update(key(7), "ABCDEFGH"); });
    expect_cost({.round_trips = 1, .messages = 2, .bytes = 136}, [&] { return client.get(key(7), &value_); });
    EXPECT_EQ(value_, "ABCDEFGH");
    expect_cost({.round_trips = 3, .messages = 3, .bytes = 328}, [&] { return client.insert(key(1), "87654321"); });
    // Not cached.
    expect_cost({.round_trips = 2, .messages = 3, .bytes = 328}, [&] { return client.get(key(2), &value_); });
    EXPECT_EQ(value_, "12345678");
    collect(0);
    expect_cost({.round_trips = 3, .messages = 3, .bytes = 328}, [&] { return other.update(key(7), "....!..."); });
    // Unknown to the server.
    expect_cost(
        {.round_trips = 1, .messages = 1, .bytes = 192}, [&] { return client.get(key(9), &value_); }, "not found");
    expect_cost(
        {.round_trips = 1, .messages = 1, .bytes = 192}, [&] { return client.update(key(9), "12345678"); },
        "not found");
    {
      const rdma::Budget nothing(connection_->worker(), {});
      EXPECT_TRUE(client.remove(key(7)).IsNotSupported());
      bonsai::testing::add_figure("verb_budgets", 1);
    }
    // The first operation of a client that needs a buffer, and each sixteenth after it.
    const auto fresh = client_of(connection_, rig_->node(0));
    for (int i = 0; i < 33; ++i) {
      const uint64_t asks = i % 16 == 0 ? 1 : 0;
      expect_cost({.round_trips = 2 + asks, .messages = 2 + asks, .bytes = 136 + 192 * asks},
                  [&] { return fresh->update(key(1), "ABCDEFGH"); });
    }
  });
}

// `foreign` versions have come since the cursor; the shortcut is to one of them, or to the cursor's.
TEST_P(CloverBudget, OfAGetAfterForeignUpdates) {
  on_store({}, [&](CloverClient& client, CloverClient& other) {
    uint64_t number = 100;
    for (uint64_t foreign = 0; foreign <= 5; ++foreign) {
      for (uint64_t shortcut = 0; shortcut <= foreign; ++shortcut) {
        const std::string walked = key(++number);
        ASSERT_EQ("OK", text(client.insert(walked, "version0")));
        ASSERT_EQ("OK", text(other.get(walked, &value_)));
        for (uint64_t version = 1; version <= foreign; ++version) {
          ASSERT_EQ("OK", text(other.update(walked, "version" + std::to_string(version))));
          if (version == shortcut) collect(1);
        }
        const uint64_t reads = shortcut == 0 ? foreign : 1 + foreign - shortcut;
        expect_cost({.round_trips = 1 + reads, .messages = 2 + reads, .bytes = 136 + 128 * reads},
                    [&] { return client.get(walked, &value_); });
        EXPECT_EQ(value_, "version" + std::to_string(foreign));
        expect_cost({.round_trips = 1, .messages = 2, .bytes = 136}, [&] { return client.get(walked, &value_); });
      }
    }
    EXPECT_GT(client.counters().jumps, 0u);
  });
}

TEST_P(CloverBudget, OfAnUpdateWhoseSwapIsLost) {
  on_store({}, [&](CloverClient& client, CloverClient& other) {
    ASSERT_EQ("OK", text(client.insert(key(7), "version0")));
    ASSERT_EQ("OK", text(other.get(key(7), &value_)));
    {
      const Meanwhile rival("clover.swap", [&] { ASSERT_EQ("OK", text(other.update(key(7), "rivalled"))); });
      expect_cost({.round_trips = 4 + 2, .messages = 5 + 2, .bytes = 160 + 136},
                  [&] { return client.update(key(7), "abcdefgh"); });
    }
    EXPECT_EQ(client.counters().cas_lost, 1u);
    ASSERT_EQ("OK", text(other.get(key(7), &value_)));
    EXPECT_EQ(value_, "abcdefgh");
    // Three versions have come: two losses, and two headers more.
    for (const char* value : {"version1", "version2", "version3"}) ASSERT_EQ("OK", text(client.update(key(7), value)));
    expect_cost({.round_trips = 8, .messages = 10, .bytes = 200}, [&] { return other.update(key(7), "ABCDEFGH"); });
    ASSERT_EQ("OK", text(client.get(key(7), &value_)));
    EXPECT_EQ(value_, "ABCDEFGH");
    // Again, with a shortcut.
    for (const char* value : {"version1", "version2", "version3"}) ASSERT_EQ("OK", text(client.update(key(7), value)));
    collect(0);
    expect_cost({.round_trips = 4, .messages = 5, .bytes = 160}, [&] { return other.update(key(7), "shortcut"); });
    ASSERT_EQ("OK", text(client.get(key(7), &value_)));
    EXPECT_EQ(value_, "shortcut");
  });
}

TEST_P(CloverBudget, OfTheCollector) {
  on_store({}, [&](CloverClient& client, CloverClient&) {
    for (uint64_t number = 3; number <= 32; ++number) ASSERT_EQ("OK", text(client.insert(key(number), "12345678")));
    for (int i = 0; i < 32; ++i) ASSERT_EQ("OK", text(client.update(key(1), "12345678")));
    expect_cost({.round_trips = 1 + 2, .messages = 1 + 2, .bytes = 8 + 2 * 560}, [&] {
      collect(0);
      return Status::OK();
    });
    EXPECT_EQ(rig_->server().counters().retired, 32u);
    for (uint64_t number = 1; number <= 32; ++number) ASSERT_EQ("OK", text(client.update(key(number), "12345678")));
    expect_cost({.round_trips = 1 + 2, .messages = 32 + 2, .bytes = 32 * 8 + 2 * 560}, [&] {
      collect(0);
      return Status::OK();
    });
    EXPECT_EQ(rig_->server().counters().retired, 64u);
  });
}

TEST_P(CloverBudget, OfASlabThatWasUsedAnew) {
  on_store({.store = {.keys_max = 4, .node_bytes = 60 * 128}}, [&](CloverClient& client, CloverClient& other) {
    ASSERT_EQ("OK", text(client.insert(key(7), "version0")));
    for (int i = 0; i < 150; ++i) {
      ASSERT_EQ("OK", text(other.update(key(7), "version" + std::to_string(i % 10))));
      collect(1);
    }
    EXPECT_GT(rig_->server().counters().recycled, 60u);
    expect_cost({.round_trips = 3, .messages = 5, .bytes = 464}, [&] { return client.get(key(7), &value_); });
    EXPECT_EQ(value_, "version9");
    EXPECT_EQ(client.counters().outdated, 1u);
    // Again, for an update.
    for (int i = 0; i < 150; ++i) {
      ASSERT_EQ("OK", text(other.update(key(7), "version" + std::to_string(i % 10))));
      collect(1);
    }
    expect_cost({.round_trips = 2 + 3, .messages = 2 + 4, .bytes = 136 + 216},
                [&] { return client.update(key(7), "abcdefgh"); });
    ASSERT_EQ("OK", text(other.get(key(7), &value_)));
    EXPECT_EQ(value_, "abcdefgh");
  });
}

// A slab while it is being rewritten: its header is still the old one, a word of its content is new.
TEST_P(CloverBudget, OfATornSlab) {
  on_store({}, [&](CloverClient& client, CloverClient&) {
    const Store store({});
    std::byte* const word = rig_->memory(0) + store.slab_at(store.handle_of(0)).offset + kRecordAt + 8;
    const uint64_t whole = base::word_at(word).load();
    base::word_at(word).store(~whole);
    const Meanwhile comes_whole(
        "clover.read", [&] { base::word_at(word).store(whole); }, 2);
    expect_cost({.round_trips = 3, .messages = 6, .bytes = 3 * 136}, [&] { return client.get(key(1), &value_); });
    EXPECT_EQ(value_, "12345678");
    EXPECT_EQ(client.counters().torn, 2u);
  });
}

// Time counts here: it is virtual.
class CloverTimedBudget : public CloverBudget {};
INSTANTIATE_TEST_SUITE_P(Fabrics, CloverTimedBudget, ::testing::Values(true), name_of_fabric);

TEST_P(CloverTimedBudget, OfACursorThatIsTooOld) {
  on_store({.epoch_ns = base::kNsPerSecond}, [&](CloverClient& client, CloverClient&) {
    for (const uint64_t number : {1, 2}) ASSERT_EQ("OK", text(client.get(key(number), &value_)));
    base::sleep_ms(1'100);
    expect_cost({.round_trips = 2, .messages = 3, .bytes = 328}, [&] { return client.get(key(1), &value_); });
    // The node has learned the epoch, which has not changed: no slab is parked.
    expect_cost({.round_trips = 1, .messages = 2, .bytes = 136}, [&] { return client.get(key(2), &value_); });
  });
}

TEST_P(CloverBudget, OfLargeRecords) {
  const StoreOptions store{.slab_bytes = 1'024, .keys_max = 10, .memory_nodes = 1, .node_bytes = size_t{256} << 10};
  on_store({.store = store}, [&](CloverClient& client, CloverClient&) {
    const std::string value(1'000, 'v');
    expect_cost({.round_trips = 2, .messages = 2, .bytes = 1'024 + 192}, [&] { return client.insert(key(7), value); });
    expect_cost({.round_trips = 1, .messages = 2, .bytes = 1'032}, [&] { return client.get(key(7), &value_); });
    EXPECT_EQ(value_, value);
    EXPECT_TRUE(client.update(key(7), value + "v").IsInvalidArgument());
    const std::string text_key = "user" + std::string(20, '7');
    expect_cost({.round_trips = 2, .messages = 2, .bytes = 1'024 + 192},
                [&] { return client.insert(text_key, "short"); });
    ASSERT_EQ("OK", text(client.get(text_key, &value_)));
    EXPECT_EQ(value_, "short");
  });
}

TEST(Clover, SlabsAreSpreadOverMemoryNodes) {
  for (const bool sim : {true, false}) {
    const StoreOptions store{.keys_max = 200, .memory_nodes = 3, .node_bytes = 128 * 100};
    EXPECT_EQ(Store(store).slabs(), 3u * 95);
    CloverRig rig({.sim = sim, .store = store});
    rig.run_one([&](Connection* connection) {
      const auto client = client_of(connection, rig.node(0));
      std::string value;
      for (uint64_t number = 1; number <= 200; ++number)
        ASSERT_EQ("OK", text(client->insert(key(number), key(number))));
      for (uint64_t number = 1; number <= 200; ++number) {
        ASSERT_EQ("OK", text(client->get(key(number), &value)));
        EXPECT_EQ(value, key(number));
      }
    });
    EXPECT_EQ(rig.node(0)->cache_bytes(), 200 * CursorCache::kEntryBytes);
    for (size_t i = 0; i < 3; ++i) EXPECT_NE(base::word_at(rig.memory(i)).load(), 0u);
  }
}

TEST(Clover, CursorsAreBoundedAndKeepTheNewest) {
  EpochView epochs(100 * base::kNsPerSecond);
  CursorCache cursors(128, &epochs);
  const uint64_t now = 5;
  Cursor found;
  cursors.put(999, {Link({1, 1}, 7), 999, now});
  EXPECT_FALSE(cursors.find(999, &found)) << "the epoch is not known";
  cursors.drop(999);
  epochs.learn(now, base::now_ns());
  for (uint64_t hash = 0; hash < 1'000; ++hash) cursors.put(hash, {Link({1, 1}, 7), hash, now});
  EXPECT_EQ(cursors.bytes(), 128 * CursorCache::kEntryBytes);
  EXPECT_FALSE(cursors.find(0, &found));
  ASSERT_TRUE(cursors.find(999, &found));
  EXPECT_EQ(found.shortcut, 999u);
  cursors.put(999, {Link({1, 1}, 6), 1, now});
  ASSERT_TRUE(cursors.find(999, &found));
  EXPECT_EQ(found.shortcut, 999u);
  cursors.put(999, {Link({1, 1}, 8), 2, now});
  ASSERT_TRUE(cursors.find(999, &found));
  EXPECT_EQ(found.shortcut, 2u);
  cursors.drop(999);
  EXPECT_FALSE(cursors.find(999, &found));
  cursors.put(998, {Link({1, 1}, 8), 3, now - kEpochsCached});
  EXPECT_FALSE(cursors.find(998, &found));
  cursors.put(998, {Link({1, 1}, 1), 4, now});
  EXPECT_TRUE(cursors.find(998, &found));
}

TEST(Clover, AnEpochIsKnownForAsLongAsOne) {
  EpochView epochs(base::kNsPerSecond);
  EXPECT_FALSE(epochs.recent());
  epochs.learn(3, base::now_ns() - 2 * base::kNsPerSecond);
  EXPECT_FALSE(epochs.recent());
  EXPECT_EQ(epochs.epoch(), 3u);
  epochs.learn(2, base::now_ns());  // a late answer
  EXPECT_EQ(epochs.recent(), 3u);
}

TEST(Clover, PlacesOfAChainGoRound) {
  EXPECT_TRUE(Link({1, 1}, 1).newer_than(Link({1, 1}, 0)));
  EXPECT_FALSE(Link({1, 1}, 0).newer_than(Link({1, 1}, 0)));
  EXPECT_TRUE(Link({1, 1}, 0).newer_than(Link({1, 1}, 65'535)));
  EXPECT_FALSE(Link({1, 1}, 65'535).newer_than(Link({1, 1}, 0)));
  const Header header(9, Link({12, 34}, 56));
  EXPECT_EQ(header.version(), 9u);
  EXPECT_EQ(header.next(), Link({12, 34}, 56));
  EXPECT_TRUE(Header(9, Link()).next().null());
}

TEST(Clover, RefusesStoresThatCannotBe) {
  const StoreOptions wrong[] = {{.slab_bytes = 100},
                                {.slab_bytes = 64},
                                {.slab_bytes = 65'536},
                                {.keys_max = 0},
                                {.keys_max = 10'000, .node_bytes = 10'000 * 128},
                                {.memory_nodes = 0},
                                {.memory_nodes = 65},
                                {.metadata_workers = 0},
                                {.metadata_workers = 65},
                                {.node_bytes = 10}};
  rdma::SimNetwork network;
  const auto fabric = network.make_fabric();
  std::unique_ptr<MetadataServer> server;
  for (const StoreOptions& store : wrong) {
    const Status status = MetadataServer::make(fabric.get(), {"metadata"}, {.store = store}, {}, &server);
    EXPECT_TRUE(status.IsInvalidArgument()) << text(status);
  }
  EXPECT_TRUE(MetadataServer::make(fabric.get(), {"metadata"}, {}, {}, &server).IsInvalidArgument());
  EXPECT_TRUE(MetadataServer::make(fabric.get(), {"one", "two"}, {}, {{"large", {.bytes = size_t{1} << 20}}}, &server)
                  .IsInvalidArgument());
  EXPECT_TRUE(MetadataServer::make(fabric.get(), {"metadata"}, {}, {{"small", {}}}, &server).IsInvalidArgument());
  CloverRig rig({.store = {.memory_nodes = 2}});
  ComputeNode one_memory_node({});
  rig.run_one([&](Connection* connection) {
    std::unique_ptr<CloverClient> client;
    EXPECT_TRUE(CloverClient::make(connection, &one_memory_node, {}, &client).IsInvalidArgument());
  });
}

TEST(Clover, RefusesWhatDoesNotFit) {
  for (const bool sim : {true, false}) {
    const uint64_t bound_ms = sim ? 5 : 500;  // real servers are threads, which the machine may keep waiting
    CloverRig rig({.sim = sim, .store = {.keys_max = 20, .node_bytes = 128 * 34}, .reports_max = 40});
    rig.run_one([&](Connection* connection) {
      const auto client =
          client_of(connection, rig.node(0), {.operation_ms_max = bound_ms, .buffers_ms_max = bound_ms});
      std::string value;
      EXPECT_TRUE(client->insert(key(1), std::string(105, 'v')).IsInvalidArgument());
      EXPECT_TRUE(client->insert(std::string(200, 'k'), "").IsInvalidArgument());
      for (uint64_t number = 1; number <= 20; ++number) {
        ASSERT_EQ("OK", text(client->insert(key(number), std::string(104, 'v'))));
      }
      EXPECT_TRUE(client->insert(key(21), "12345678").IsNoSpace());
      EXPECT_TRUE(client->get(key(21), &value).IsNotFound());
      // Nobody collects: slabs run out.
      Status status;
      for (int i = 0; i < 12; ++i) ASSERT_EQ("OK", text(client->update(key(1), "12345678")));
      EXPECT_TRUE(client->update(key(1), "lost").IsNoSpace());
      ASSERT_EQ("OK", text(client->get(key(1), &value)));
      EXPECT_EQ(value, "12345678");
      CloverRig::collect(connection, rig.node(0));
      EXPECT_EQ("OK", text(client->update(key(1), "abcdefgh")));
    });
    // ... or too many updates wait for a collector.
    CloverRig roomy({.sim = sim, .reports_max = 3});
    roomy.run_one([&](Connection* connection) {
      const auto client = client_of(connection, roomy.node(0), {.operation_ms_max = bound_ms});
      ASSERT_EQ("OK", text(client->insert(key(1), "12345678")));
      for (int i = 0; i < 3; ++i) ASSERT_EQ("OK", text(client->update(key(1), "12345678")));
      EXPECT_TRUE(client->update(key(1), "lost").IsUnavailable());
      CloverRig::collect(connection, roomy.node(0));
      EXPECT_EQ("OK", text(client->update(key(1), "abcdefgh")));
    });
  }
}

// Whichever worker is asked: one table, each key once, no slab twice.
TEST(Clover, WorkersOfTheServerShareItsTable) {
  constexpr uint64_t kShared = 40;
  for (const bool sim : {true, false}) {
    CloverRig rig({.sim = sim, .store = {.keys_max = 200, .metadata_workers = 8}});
    EXPECT_EQ(rig.server().workers(), 8u);
    constexpr Shape kShape{.threads = 4, .coroutines = 2};
    rig.run(kShape, [&](const Seat& seat) {
      const auto client = client_of(seat.connection, rig.node(0));
      const std::string own = key(1'000 + seat.client);
      ASSERT_EQ("OK", text(client->insert(own, own)));
      for (uint64_t number = 1; number <= kShared; ++number) {
        ASSERT_EQ("OK", text(client->insert(key(number), key(number))));
      }
      std::string value;
      for (uint64_t number = 1; number <= kShared; ++number) {
        ASSERT_EQ("OK", text(client->get(key(number), &value)));
        EXPECT_EQ(value, key(number));
      }
      ASSERT_EQ("OK", text(client->get(own, &value)));
      EXPECT_EQ(value, own);
    });
    const MetadataServer::Counters& counters = rig.server().counters();
    EXPECT_EQ(counters.keys, kShared + kShape.clients());
    EXPECT_EQ(counters.retired, (kShape.clients() - 1) * kShared) << "all inserts of a key but the first are updates";
    EXPECT_GT(rig.server().busy_ns(), 0u);
  }
}

TEST(Clover, TheServerDropsMalformedCalls) {
  CloverRig rig({});
  rig.run_one([&](Connection* connection) {
    std::unique_ptr<rdma::RegisteredMemory> memory;
    ASSERT_EQ("OK", text(rdma::RegisteredMemory::make(connection->fabric(), 560, rdma::Rights::none(), &memory)));
    Batch batch(connection);
    const auto send = [&](size_t bytes) {
      batch.send(1, memory->slice(0, bytes));
      ASSERT_EQ("OK", text(batch.run()));
    };
    const uint64_t number = 99;
    std::memcpy(memory->data(), &number, sizeof number);
    send(1);
    send(sizeof(Call));        // asks for something unknown
    send(sizeof(ReportCall));  // has 99 reports
    const auto client = client_of(connection, rig.node(0));
    EXPECT_EQ("OK", text(client->insert(key(1), "12345678")));
  });
  EXPECT_EQ(rig.server().counters().keys, 1u);
}

}  // namespace
}  // namespace bonsai::bench::rivals::clover
