// SPDX-License-Identifier: Apache-2.0
// The Sherman-like engine: what each operation costs, in both forms of its pages.
#include "bench/studies/rivals/sherman.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/coro/scheduler.h"
#include "base/nvm/racy_copy.h"
#include "bench/studies/rivals/testing/meanwhile.h"
#include "bench/studies/rivals/testing/sherman_rig.h"
#include "rdma/testing/budget.h"

namespace bonsai::bench::rivals::sherman {
namespace {

// One tree on one memory node; clients of two compute nodes, which share a thread.
class ShermanBudget : public ::testing::TestWithParam<Where> {
 protected:
  void on_tree(size_t page_records_max, const std::function<void()>& body) {
    node_options_.tree.layout = {.form = GetParam().form, .page_records_max = page_records_max};
    Rig rig({.sim = GetParam().sim, .bytes = size_t{2} << 20, .fixed_bytes = fixed_bytes(node_options_.tree)});
    make_tree(node_options_.tree, rig.nodes());
    rig_ = &rig;
    rig.run_one([&](Connection* connection) {
      connection_ = connection;
      make_clients();
      body();
      client_.reset();
      other_.reset();
    });
  }
  void make_clients() {
    client_.reset();
    other_.reset();
    node_options_.number = 0;
    node_ = std::make_unique<ComputeNode>(node_options_);
    client_ = client_of(connection_, node_.get());
    ComputeNode::Options another = node_options_;
    another.number = 1;
    other_node_ = std::make_unique<ComputeNode>(another);
    other_ = client_of(connection_, other_node_.get());
  }
  // Inserts keys from 1 on, in order, until the last one has split a leaf and no other page. Returns it, and what that
  // insert cost.
  uint64_t insert_until_split(uint64_t from, rdma::Traffic* cost) {
    for (uint64_t number = from;; ++number) {
      const uint64_t splits = client_->counters().splits;
      const rdma::Traffic before = connection_->worker().traffic();
      EXPECT_EQ("OK", text(client_->insert(key(number), "12345678")));
      *cost = connection_->worker().traffic() - before;
      if (client_->counters().splits == splits + 1) return number;
    }
  }
  void load(uint64_t keys) {
    for (uint64_t number = 1; number <= keys; ++number) {
      ASSERT_EQ("OK", text(client_->insert(key(number), "12345678")));
    }
  }
  // The other client's work meanwhile is not counted.
  void other_inserts(uint64_t first, uint64_t last) {
    const rdma::Traffic before = connection_->worker().traffic();
    for (uint64_t number = first; number <= last; ++number) {
      ASSERT_EQ("OK", text(other_->insert(key(number), "12345678")));
    }
    not_counted_ += connection_->worker().traffic() - before;
  }
  void expect_cost(uint64_t lists, uint64_t messages, uint64_t bytes, const std::function<Status()>& operation,
                   const char* outcome = "OK") {
    not_counted_ = {};
    const rdma::Traffic before = connection_->worker().traffic();
    ASSERT_EQ(outcome, text(operation()));
    expect_traffic(lists, messages, bytes, connection_->worker().traffic() - before - not_counted_);
  }
  static void expect_traffic(uint64_t lists, uint64_t messages, uint64_t bytes, const rdma::Traffic& used) {
    EXPECT_EQ(used.round_trips, lists) << used.text();
    EXPECT_EQ(used.messages(), messages) << used.text();
    EXPECT_EQ(used.bytes(), bytes) << used.text();
    bonsai::testing::add_figure("verb_budgets", 1);
  }
  [[nodiscard]] std::byte* memory() const { return rig_->nodes()[0]->data(); }
  // The global lock, where there is one lock only.
  [[nodiscard]] std::byte* only_lock() const { return memory() + kFirstLockAt; }
  [[nodiscard]] size_t record_bytes() const { return node_options_.tree.layout.record_bytes(0); }
  [[nodiscard]] uint32_t levels() const { return Root::level(node_->root()) + 1; }

  ComputeNode::Options node_options_{.tree = {.locks_per_node = 1024}};
  Rig* rig_ = nullptr;
  Connection* connection_ = nullptr;
  std::unique_ptr<ComputeNode> node_, other_node_;
  std::unique_ptr<ShermanClient> client_, other_;
  rdma::Traffic not_counted_;
  std::string value_;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, ShermanBudget, kEverywhere, name_of);

TEST_P(ShermanBudget, FormsHaveTheirSizes) {
  const Layout layout{.form = GetParam().form};
  const bool verified = !layout.published();
  EXPECT_EQ(layout.record_bytes(0), verified ? 20u : 18u);
  EXPECT_EQ(layout.records_max(0), verified ? 48u : 54u);
  EXPECT_EQ(layout.records_max(1), verified ? 60u : 61u);
}

TEST_P(ShermanBudget, OfEachOperationInPlace) {
  on_tree(SIZE_MAX, [&] {
    load(200);
    ASSERT_EQ(levels(), 2u);
    const uint64_t bytes = 8 + kPageBytes + record_bytes() + 8;
    expect_cost(3, 4, bytes, [&] { return client_->insert(key(7), "abcdefgh"); });
    expect_cost(1, 1, 1024, [&] { return client_->get(key(7), &value_); });
    EXPECT_EQ(value_, "abcdefgh");
    expect_cost(3, 4, bytes, [&] { return client_->update(key(7), "ABCDEFGH"); });
    expect_cost(3, 4, bytes, [&] { return client_->remove(key(7)); });
    expect_cost(
        1, 1, 1024, [&] { return client_->get(key(7), &value_); }, "not found");
    expect_cost(
        3, 3, 1040, [&] { return client_->update(key(7), "ABCDEFGH"); }, "not found");
    expect_cost(
        3, 3, 1040, [&] { return client_->remove(key(7)); }, "not found");
    expect_cost(3, 4, bytes, [&] { return client_->insert(key(7), "abcdefgh"); });
  });
}

TEST_P(ShermanBudget, OfAColdGet) {
  node_options_.cache_bytes_max = 0;
  on_tree(4, [&] {
    load(1);
    expect_cost(1, 1, 1024, [&] { return client_->get(key(1), &value_); });
    load(50);
    const uint64_t h = levels();
    ASSERT_GE(h, 4u);
    expect_cost(h, h, 1024 * h, [&] { return client_->get(key(7), &value_); });
    expect_cost(h - 1 + 3, h - 1 + 4, 1024 * (h - 1) + 1040 + record_bytes(),
                [&] { return client_->update(key(7), "ABCDEFGH"); });
  });
}

// As published: up to three levels every operation begins at the root.
TEST_P(ShermanBudget, OfATreeTooLowForTheCache) {
  node_options_.cached_from_root_level = 3;
  on_tree(4, [&] {
    load(10);
    ASSERT_EQ(levels(), 3u);
    expect_cost(3, 3, 1024 * 3, [&] { return client_->get(key(3), &value_); });
    load(60);
    ASSERT_GE(levels(), 4u);
    EXPECT_EQ("OK", text(client_->get(key(3), &value_)));
    expect_cost(1, 1, 1024, [&] { return client_->get(key(3), &value_); });
  });
}

TEST_P(ShermanBudget, OfALeafThatHasSplitMeanwhile) {
  node_options_.cache_bytes_max = 0;
  on_tree(6, [&] {
    load(20);
    const uint64_t h = levels();
    // The last leaf: the keys above 20 go there until it splits.
    const Meanwhile split("sherman.leaf", [&] { other_inserts(21, 23); });
    expect_cost(h + 1, h + 1, 1024 * (h + 1), [&] { return client_->get(key(20), &value_); });
    EXPECT_EQ(client_->counters().hops, 1u);
  });
}

TEST_P(ShermanBudget, OfAStaleCache) {
  on_tree(6, [&] {
    load(30);
    EXPECT_EQ("OK", text(client_->get(key(30), &value_)));
    other_inserts(31, 39);
    const uint64_t h = levels();
    ASSERT_EQ(Root::level(other_node_->root()) + 1, h);
    expect_cost(1 + h, 1 + h, 1024 * (1 + h), [&] { return client_->get(key(39), &value_); });
    EXPECT_EQ(client_->counters().cache_stale, 1u);
    expect_cost(1, 1, 1024, [&] { return client_->get(key(39), &value_); });
    other_inserts(40, 48);
    ASSERT_EQ(Root::level(other_node_->root()) + 1, h);
    expect_cost(3 + h - 1 + 3, 3 + h - 1 + 4, 1040 + 1024 * (h - 1) + 1040 + record_bytes(),
                [&] { return client_->update(key(48), "ABCDEFGH"); });
    EXPECT_EQ(client_->counters().cache_stale, 2u);
  });
}

TEST_P(ShermanBudget, OfALockThatIsTaken) {
  node_options_.tree.locks_per_node = 1;
  on_tree(SIZE_MAX, [&] {
    load(200);
    base::word_at(only_lock()).store(99);
    const Meanwhile unlocked(
        "sherman.lock", [&] { base::word_at(only_lock()).store(0); }, 2);
    expect_cost(3 + 2, 4 + 2, 1040 + record_bytes() + 2 * 8, [&] { return client_->update(key(7), "ABCDEFGH"); });
    EXPECT_EQ(client_->counters().locks_busy, 2u);
  });
}

TEST_P(ShermanBudget, OfASplit) {
  const bool from_cache[] = {false, true};
  for (const bool cached : from_cache) {
    node_options_.cache_bytes_max = cached ? size_t{1} << 20 : 0;
    on_tree(6, [&] {
      load(150);
      const uint64_t h = levels();
      ASSERT_GE(h, 4u);
      rdma::Traffic cost;
      insert_until_split(151, &cost);
      ASSERT_EQ(levels(), h);
      const uint64_t more = cached ? h - 2 : h - 1;  // the way to the parent, or to the leaf and the parent
      expect_traffic(7 + more, 9 + more, 5152 + 1024 * more, cost);
    });
  }
}

TEST_P(ShermanBudget, OfASplitOfTheRoot) {
  on_tree(6, [&] {
    load(5);
    ASSERT_EQ(levels(), 1u);
    // And the call for the client's first chunk.
    expect_cost(6 + 1, 7 + 1, 4120 + kCallBytes, [&] { return client_->insert(key(6), "abcdefgh"); });
    EXPECT_EQ(levels(), 2u);
    // The other compute node has the old root: one list for the new root word, once.
    expect_cost(1 + 1 + 2, 1 + 1 + 2, 1024 + 8 + 2 * 1024, [&] { return other_->get(key(6), &value_); });
    expect_cost(1, 1, 1024, [&] { return other_->get(key(6), &value_); });
  });
}

TEST_P(ShermanBudget, OfAScan) {
  on_tree(SIZE_MAX, [&] {
    load(400);
    std::vector<ShermanClient::Found> found;
    const uint64_t per_leaf = (node_options_.tree.layout.records_max(0) + 1) / 2;  // of keys in rising order
    const uint64_t leaves = 100 / (node_options_.tree.layout.records_max(0) * 69 / 100) + 1;
    ASSERT_LE(leaves, 100 / per_leaf + 1);
    EXPECT_EQ("OK", text(client_->scan(key(1), 100, &found)));  // the cache is warm
    const rdma::Traffic before = connection_->worker().traffic();
    EXPECT_EQ("OK", text(client_->scan(key(1), 100, &found)));
    const rdma::Traffic used = connection_->worker().traffic() - before;
    expect_traffic(used.round_trips, used.round_trips, 1024 * used.round_trips, used);
    EXPECT_EQ(used.round_trips, (100 + per_leaf - 1) / per_leaf);
    ASSERT_EQ(found.size(), 100u);
    for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(found[i].key, key(1 + i));
  });
}

// Coroutines of one thread and one compute node that wait for one lock, which is passed on.
class ShermanHandover : public ShermanBudget {
 protected:
  // The total cost of `waiters` updates of one key, from the moment when the first of them gets the lock.
  rdma::Traffic of_updates(size_t waiters) {
    node_options_.tree = {.layout = {.form = GetParam().form}, .locks_per_node = 1};
    ComputeNode node(node_options_);
    Rig rig({.sim = GetParam().sim, .bytes = size_t{2} << 20, .fixed_bytes = fixed_bytes(node_options_.tree)});
    make_tree(node_options_.tree, rig.nodes());
    rig.run_one([&](Connection* connection) {
      const auto client = client_of(connection, &node);
      for (uint64_t number = 1; number <= 100; ++number) EXPECT_EQ("OK", text(client->insert(key(number), "12345678")));
    });
    rdma::Traffic used;
    size_t done = 0;
    bool begun = false;
    rig.run({.coroutines = waiters + 1}, [&](const Seat& seat) {
      const auto client = client_of(seat.connection, &node);
      if (seat.client > 0) {
        while (!begun) base::Scheduler::yield();
        EXPECT_EQ("OK", text(client->update(key(50), "abcdefgh")));
        EXPECT_EQ(client->counters().handovers, 1u);
        ++done;
        return;
      }
      LocalLocks& locks = *node.locks();
      EXPECT_FALSE(locks.acquire(0));
      begun = true;
      base::word_at(rig.nodes()[0]->data() + kFirstLockAt).store(node.tag());
      while (locks.queued(0) < waiters) base::Scheduler::yield();
      const rdma::Traffic before = seat.connection->worker().traffic();
      EXPECT_TRUE(locks.passes_on(0));
      locks.release(0, true);
      while (done < waiters) base::Scheduler::yield();
      used = seat.connection->worker().traffic() - before;
    });
    EXPECT_EQ(base::word_at(rig.nodes()[0]->data() + kFirstLockAt).load(), 0u);
    return used;
  }
};
INSTANTIATE_TEST_SUITE_P(Fabrics, ShermanHandover, kEverywhere, name_of);

TEST_P(ShermanHandover, CostsLess) {
  const uint64_t record = Layout{.form = GetParam().form}.record_bytes(0);
  const uint64_t last = 1024 + record + 8, handed_on = 1024 + record;
  expect_traffic(2, 3, last, of_updates(1));
  expect_traffic(2 + 2, 3 + 2, last + handed_on, of_updates(2));
  expect_traffic(2 + 6, 3 + 6, last + 3 * handed_on, of_updates(4));
}

}  // namespace
}  // namespace bonsai::bench::rivals::sherman
