// SPDX-License-Identifier: Apache-2.0
// Slots and bnodes: one slot per key, no word changes once it is frozen, claims.
#include "index/bnode.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <set>

#include "base/testing/budget.h"
#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using base::Fence;
using bonsai::testing::budget;

Bnode* any_bnode(uint32_t capacity = Slots::kCapacityMin) {
  return new Bnode(Fence(), Fence::infinite(), 3, Base(), capacity);
}

bool push(Slots* slots, const std::string& key, uint32_t token, bool* reached_high_mark) {
  Node* node = Node::make(key, "v", 0, nullptr);
  node->token = token;
  const uint64_t hash = node->key().hash();
  for (;;) {
    const Slots::Place place = slots->find(node->key(), hash);
    if (place.index == Slots::kNowhere || place.frozen()) break;
    node->next = place.head();
    if (slots->push(place, node, hash, reached_high_mark)) return true;
  }
  Node::destroy(node);
  return false;
}

bool push(Slots* slots, const std::string& key, uint32_t token) {
  bool reached_high_mark = false;
  return push(slots, key, token, &reached_high_mark);
}

Node* head_of(const Slots* slots, const std::string& key) {
  const Key k = Key::of(key);
  return slots->find(k, k.hash()).head();
}

TEST(Slots, AKeyHasOneChainNewestFirst) {
  Bnode* bnode = any_bnode();
  bool made = false;
  Slots* slots = bnode->slots_or_make(0, &made);
  EXPECT_TRUE(made);
  EXPECT_EQ(bnode->slots_or_make(0, &made), slots);
  EXPECT_FALSE(made);
  EXPECT_EQ(head_of(slots, "a"), nullptr);
  ASSERT_TRUE(push(slots, "a", 1));
  ASSERT_TRUE(push(slots, "b", 2));
  ASSERT_TRUE(push(slots, "a", 3));
  EXPECT_EQ(slots->used(), 2u);
  EXPECT_EQ(head_of(slots, "a")->token, 3u);
  EXPECT_EQ(head_of(slots, "a")->next.load()->token, 1u);
  EXPECT_EQ(head_of(slots, "b")->token, 2u);
  EXPECT_EQ(head_of(slots, "c"), nullptr);
  bnode->unref();
}

TEST(Slots, FullTableHasNoPlaceForANewKey) {
  Bnode* bnode = any_bnode(16);
  bool made = false;
  Slots* slots = bnode->slots_or_make(0, &made);
  for (uint64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(slots->above_high_mark(), i >= 14) << i;
    EXPECT_EQ(slots->full(), i >= 15) << i;
    bool reached_high_mark = false;
    ASSERT_TRUE(push(slots, key_of(i), 1, &reached_high_mark));
    EXPECT_EQ(reached_high_mark, i == 13) << "reported once: " << i;
    ASSERT_TRUE(push(slots, key_of(i), 2, &reached_high_mark));
    EXPECT_FALSE(reached_high_mark) << "no new key: " << i;
  }
  const Key other = Key::of("other");
  EXPECT_EQ(slots->find(other, other.hash()).index, Slots::kNowhere);
  EXPECT_EQ(slots->find(other, other.hash()).head(), nullptr);
  for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(head_of(slots, key_of(i))->key_view(), key_of(i));
  EXPECT_GT(bnode->dram_bytes(), 16 * sizeof(Node));
  bnode->unref();
}

TEST(Slots, StalePlaceIsRefused) {
  Bnode* bnode = any_bnode();
  bool made = false;
  Slots* slots = bnode->slots_or_make(0, &made);
  const Key key = Key::of("k");
  const Slots::Place empty = slots->find(key, key.hash());
  ASSERT_TRUE(push(slots, "k", 1));
  Node* node = Node::make("k", "late", 0, nullptr);
  bool reached_high_mark = false;
  EXPECT_FALSE(slots->push(empty, node, key.hash(), &reached_high_mark));
  const Slots::Place open = slots->find(key, key.hash());
  slots->freeze(open.index);
  EXPECT_FALSE(slots->push(open, node, key.hash(), &reached_high_mark)) << "the frozen bit is in the exchanged word";
  EXPECT_TRUE(slots->find(key, key.hash()).frozen());
  EXPECT_EQ(slots->find(key, key.hash()).head()->token, 1u);
  Node::destroy(node);
  bnode->unref();
}

// Keys that share the first slots of their search: slots that were found occupied before a key stay occupied.
TEST(Slots, ASearchGoesOnWhereItWas) {
  const auto slots = Slots::make(16);
  std::vector<Node*> nodes;
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 12; ++i) {
      const std::string text = key_of(i);
      const Key key = Key::of(text);
      const Slots::Place before = slots->find(key, key.hash());
      ASSERT_NE(before.index, Slots::kNowhere);
      if (round == 0) {  // another key takes the place meanwhile
        const std::string other = "other" + text;
        const uint64_t hash = Key::of(other).hash();
        if (i % 3 == 0) {
          nodes.push_back(Node::make(other, "v", 0, nullptr));
          bool reached_high_mark = false;
          ASSERT_TRUE(slots->push(before, nodes.back(), hash, &reached_high_mark));
        }
      }
      Slots::Place place = slots->find_again(before, key, key.hash());
      EXPECT_EQ(place.index == before.index, round > 0 || i % 3 != 0);
      EXPECT_EQ(place.index, slots->find(key, key.hash()).index);
      nodes.push_back(Node::make(text, "v", 0, nullptr));
      nodes.back()->next = place.head();
      bool reached_high_mark = false;
      ASSERT_TRUE(slots->push(place, nodes.back(), key.hash(), &reached_high_mark));
      place = slots->find_again(place, key, key.hash());
      EXPECT_EQ(place.head(), nodes.back());
      EXPECT_EQ(Slots::find(slots.get(), 16, key, key.hash()).head(), nodes.back());
    }
  }
  for (Node* node : nodes) Node::destroy(node);
}

TEST(Slots, OnePrunerPerChain) {
  const auto slots = Slots::make(16);
  EXPECT_TRUE(slots->try_lock(3));
  EXPECT_FALSE(slots->try_lock(3));
  EXPECT_TRUE(slots->try_lock(4));
  slots->unlock(3);
  EXPECT_TRUE(slots->try_lock(3));
}

TEST(Bnode, FreezeClosesEmptySlotsToo) {
  Bnode* bnode = any_bnode();
  bool made = false;
  Slots* slots = bnode->slots_or_make(0, &made);
  ASSERT_TRUE(push(slots, "a", 1));
  bnode->freeze();
  bnode->freeze();
  EXPECT_FALSE(push(slots, "a", 2));
  EXPECT_FALSE(push(slots, "new", 3));
  bnode->unref();
}

TEST(Bnode, FrozenBeforeItsFirstPut) {
  Bnode* bnode = any_bnode();
  const uint64_t dram_bytes = bnode->dram_bytes();
  bnode->freeze();
  bool made = true;
  Slots* slots = bnode->slots_or_make(0, &made);
  EXPECT_FALSE(made);
  EXPECT_EQ(slots, Layer::closed_slots());
  for (uint32_t capacity = 1; capacity <= Slots::kRisingCapacityMax; capacity *= 2) {
    for (uint64_t i = 0; i < 64; ++i) {
      const std::string text = key_of(i);
      const Key key = Key::of(text);
      EXPECT_EQ(Slots::find(slots, capacity, key, key.hash()).head(), nullptr) << "read as a table of " << capacity;
      EXPECT_TRUE(slots->find(key, key.hash()).frozen());
    }
  }
  EXPECT_FALSE(push(slots, "a", 1));
  bnode->freeze();
  EXPECT_EQ(bnode->dram_bytes(), dram_bytes) << "the closed table is nobody's";
  bnode->unref();
}

TEST(BnodeDeathTest, WhatIsNotClaimedIsNotGivenBack) {
  Bnode* bnode = any_bnode();
  EXPECT_DEATH(bnode->unclaim(), "broken invariant");
  bnode->unref();
}

TEST(Bnode, Claims) {
  Bnode* bnode = any_bnode();
  EXPECT_FALSE(bnode->claim_pending()) << "not pending";
  EXPECT_TRUE(bnode->claim());
  EXPECT_FALSE(bnode->claim());
  bnode->unclaim();
  bnode->set_pending();
  EXPECT_FALSE(bnode->claim()) << "its predecessor is not offloaded";
  EXPECT_TRUE(bnode->pending());
  EXPECT_FALSE(bnode->settle());
  EXPECT_FALSE(bnode->pending());
  EXPECT_TRUE(bnode->claim());
  EXPECT_TRUE(bnode->queue_installed()) << "the planner queues its layer itself";
  bnode->set_pending();
  EXPECT_TRUE(bnode->claim_pending());
  EXPECT_TRUE(bnode->pending()) << "claimed by a batch, and its predecessor still not offloaded";
  EXPECT_FALSE(bnode->settle()) << "the layer is not installed, so that the planner queues it";
  EXPECT_FALSE(bnode->pending());
  EXPECT_FALSE(bnode->claim()) << "a batch that claimed a pending bnode keeps it";
  EXPECT_TRUE(bnode->queue_installed());
  bnode->set_pending();
  EXPECT_TRUE(bnode->claim_pending());
  EXPECT_FALSE(bnode->queue_installed());
  EXPECT_TRUE(bnode->pending());
  EXPECT_TRUE(bnode->settle()) << "installed before: who settles it queues the layer";
  EXPECT_FALSE(bnode->pending());
  bnode->unref();
}

TEST(Bnode, BaseIsOneOfThree) {
  Layer layer;
  Bnode* residue = any_bnode();
  const std::unique_ptr<const persist::Dnode> dnode = persist::Dnode::make({});
  EXPECT_EQ(Base::of(dnode.get()).dnode(), dnode.get());
  EXPECT_EQ(Base::of(dnode.get()).layer(), nullptr);
  EXPECT_EQ(Base::of(dnode.get()).residue(), nullptr);
  EXPECT_EQ(Base::of(&layer).layer(), &layer);
  EXPECT_EQ(Base::of(&layer).dnode(), nullptr);
  EXPECT_EQ(Base::of(residue).residue(), residue);
  EXPECT_EQ(Base::of(residue).layer(), nullptr);
  residue->unref();
}

TEST(Layer, FindsTheBnodeOfAKey) {
  Layer layer;
  for (const auto& [lo, hi] :
       {std::pair{Fence(), Fence("b")}, {Fence("b"), Fence("d")}, {Fence("d"), Fence::infinite()}}) {
    layer.news.push_back(new Bnode(lo, hi, 1, Base(), 16));
  }
  EXPECT_EQ(layer.new_for(Key::of("a")), layer.news[0]);
  EXPECT_EQ(layer.new_for(Key::of("b")), layer.news[1]);
  EXPECT_EQ(layer.new_for(Key::of("cz")), layer.news[1]);
  EXPECT_EQ(layer.new_for(Key::of("d")), layer.news[2]);
  for (Bnode* bnode : layer.news) bnode->unref();
}

// Threads push while another one freezes. Acknowledged pushes are there, refused ones are not, and nothing changes
// after the freeze.
TEST(Bnode, PushesRaceWithTheFreeze) {
  const uint64_t seed = test_seed();
  for (uint64_t round = 0; round < budget<uint64_t>(40, 200, 10'000); ++round) {
    Bnode* bnode = any_bnode(64);
    std::vector<std::set<uint32_t>> pushed(3);
    std::vector<std::pair<uint64_t, uint64_t>> frozen;  // counts of nodes, taken twice after the freeze
    const auto count = [&] {
      uint64_t n = 0;
      const Slots* slots = bnode->slots();
      for (uint32_t i = 0; i < slots->capacity(); ++i) {
        for (const Node* node = slots->head(i); node != nullptr; node = node->next.load()) ++n;
      }
      return n;
    };
    in_threads(4, [&](size_t t) {
      base::Random random(seed + 4 * round + t);
      if (t == 3) {
        for (uint64_t i = random.below(300); i > 0; --i) std::this_thread::yield();
        bnode->freeze();
        const uint64_t before = count();
        std::this_thread::yield();
        frozen.emplace_back(before, count());
        return;
      }
      bool made = false;
      Slots* slots = bnode->slots_or_make(0, &made);
      for (int i = 0; i < 200; ++i) {
        bool reached_high_mark = false;
        const uint32_t token = bnode->reserve(slots, 0, &reached_high_mark).token;
        if (push(slots, key_of(random.below(20)), token)) pushed[t].insert(token);
      }
    });
    std::set<uint32_t> all, found;
    for (const auto& own : pushed) all.insert(own.begin(), own.end());
    std::set<std::string> keys;
    const Slots* slots = bnode->slots();
    for (uint32_t i = 0; i < slots->capacity(); ++i) {
      const Node* head = slots->head(i);
      EXPECT_TRUE(head == nullptr || keys.insert(std::string(head->key_view())).second) << "two slots of one key";
      for (const Node* node = head; node != nullptr; node = node->next.load()) found.insert(node->token);
    }
    EXPECT_EQ(found, all);
    EXPECT_EQ(frozen[0].first, frozen[0].second);
    EXPECT_EQ(frozen[0].first, all.size());
    bnode->unref();
  }
}

struct Cells {
  std::map<uint32_t, void*> by_token;
  std::set<const std::byte*> distinct;
  size_t reached_high_mark = 0;  // so often it was reported
};

// The cells that several threads get if each reserves `each` nodes.
Cells reserve_in_threads(Bnode* bnode, size_t node_bytes, int each) {
  Slots* slots = bnode->slots();
  std::array<std::vector<Bnode::Reserved>, 3> reserved;
  std::array<size_t, 3> reached_high_mark = {};
  in_threads(reserved.size(), [&](size_t t) {
    for (int i = 0; i < each; ++i) {
      bool above_high_mark = false;
      reserved[t].push_back(bnode->reserve(slots, node_bytes, &above_high_mark));
      reached_high_mark[t] += above_high_mark ? 1 : 0;
    }
  });
  Cells cells;
  for (size_t t = 0; t < reserved.size(); ++t) {
    cells.reached_high_mark += reached_high_mark[t];
    for (const auto& [token, cell] : reserved[t]) {
      EXPECT_TRUE(cells.by_token.emplace(token, cell).second) << "token " << token << " given twice";
      if (cell == nullptr) continue;
      EXPECT_TRUE(cells.distinct.insert(static_cast<std::byte*>(cell)).second) << "a place given twice";
      std::memset(cell, static_cast<int>(token), node_bytes);
    }
  }
  EXPECT_EQ(cells.by_token.rbegin()->first, bnode->tokens_used());
  return cells;
}

TEST(Bnode, TheArenaAndChunksGiveEachNodeAPlaceOfItsOwn) {
  const std::string key = "12345678", value = "abcdefgh";
  const size_t node_bytes = Node::arena_bytes(key, value);
  Bnode* bnode = any_bnode(64);
  bool made = false;
  Slots* slots = bnode->slots_or_make(node_bytes, &made);
  const uint64_t dram_bytes = bnode->dram_bytes();
  EXPECT_EQ(slots->arena_bytes(), 60 * node_bytes) << "a node for each key until the table is full";
  const Cells cells = reserve_in_threads(bnode, node_bytes, 60);
  EXPECT_EQ(cells.distinct.size(), 180U);
  EXPECT_EQ(cells.reached_high_mark, 0U);
  size_t in_arena = 0;
  std::vector<const std::byte*> sorted(cells.distinct.begin(), cells.distinct.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    EXPECT_TRUE(i == 0 || sorted[i - 1] + node_bytes <= sorted[i]) << "two places overlap";
    if (sorted[i] < slots->arena() || sorted[i] >= slots->arena() + slots->arena_bytes()) continue;
    EXPECT_EQ(static_cast<size_t>(sorted[i] - slots->arena()) % node_bytes, 0U);
    ++in_arena;
  }
  EXPECT_GE(in_arena, 58U) << "all of the arena is used, but where reservations for its end met";
  EXPECT_GE(bnode->dram_bytes(), dram_bytes + 120 * node_bytes);
  EXPECT_LE(bnode->dram_bytes(), dram_bytes + 3 * (Slots::kChunkBytes + base::kLineBytes));
  bool reached_high_mark = false;
  Node* node = Node::make_in(bnode->reserve(slots, node_bytes, &reached_high_mark).cell, key, value, 0);
  node->token = bnode->tokens_used();
  EXPECT_TRUE(node->in_arena());
  EXPECT_EQ(node->value(), value);
  const uint64_t hash = node->key().hash();
  EXPECT_TRUE(slots->push(slots->find(node->key(), hash), node, hash, &reached_high_mark));
  EXPECT_FALSE(slots->has_blocks());
  EXPECT_TRUE(push(slots, key, 1000));
  EXPECT_TRUE(slots->has_blocks()) << "to be freed one by one";
  bnode->unref();
}

TEST(Bnode, BehindTheLastChunkNodesAreBlocks) {
  const size_t node_bytes = 48;
  Bnode* bnode = any_bnode(16);
  bool made = false;
  Slots* slots = bnode->slots_or_make(node_bytes, &made);
  const Cells cells = reserve_in_threads(bnode, node_bytes, 400);
  EXPECT_EQ(cells.reached_high_mark, 1U) << "whoever makes the last chunk learns of it";
  const size_t room = slots->arena_bytes() / node_bytes + Slots::kChunksMax * (Slots::kChunkBytes / node_bytes);
  EXPECT_LE(cells.distinct.size(), room);
  EXPECT_GE(cells.distinct.size(), room - 3 * (Slots::kChunksMax + 1)) << "of each chunk its end may be left";
  EXPECT_LT(cells.distinct.size(), cells.by_token.size());
  bool reached_high_mark = true;
  EXPECT_EQ(bnode->reserve(slots, node_bytes, &reached_high_mark).cell, nullptr);
  EXPECT_FALSE(reached_high_mark);
  for (uint64_t i = 0; i < 16; ++i) {
    ASSERT_TRUE(push(slots, key_of(i), 1, &reached_high_mark));
    EXPECT_FALSE(reached_high_mark) << "it was reported that the bnode is above the high-water mark";
  }
  bnode->unref();
}

TEST(Bnode, LargeNodesAndBatchesHaveNoPlaceInTheTable) {
  const size_t node_bytes = Node::arena_bytes("key", std::string(1000, 'v'));
  Bnode* bnode = any_bnode(64);
  bool made = false, reached_high_mark = true;
  Slots* slots = bnode->slots_or_make(node_bytes, &made);
  EXPECT_EQ(slots->arena_bytes(), 0U);
  EXPECT_EQ(bnode->reserve(slots, node_bytes, &reached_high_mark).cell, nullptr);
  EXPECT_FALSE(reached_high_mark);
  EXPECT_EQ(bnode->reserve(slots, 0, &reached_high_mark).cell, nullptr);
  EXPECT_EQ(bnode->tokens_used(), 2U);
  EXPECT_NE(bnode->reserve(slots, 48, &reached_high_mark).cell, nullptr) << "small ones have chunks";
  bnode->unref();
}

TEST(CompactionQueue, KeepsWhatItHasRoomForAndNothingAtItsEnd) {
  auto* bnode = new Bnode(base::Fence(), base::Fence::infinite(), 1, Base(), 8);
  {
    CompactionQueue queue;
    EXPECT_TRUE(queue.empty());
    for (int i = 0; i < 10'000; ++i) queue.ask(bnode);
    uint64_t taken = 0;
    for (; Bnode* next = queue.next(); ++taken) {
      EXPECT_EQ(next, bnode);
      next->unref();
    }
    EXPECT_GT(taken, 1'000U);
    EXPECT_LT(taken, 10'000U);
    EXPECT_TRUE(queue.empty());
    queue.ask(bnode);
    queue.ask(bnode);
  }
  bnode->unref();  // the last reference: a leak or a second free shows under AddressSanitizer
}

}  // namespace
}  // namespace bonsai::index::testing
