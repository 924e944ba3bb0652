// SPDX-License-Identifier: Apache-2.0
// The tree compared with std::map, alone and with concurrent readers.
#include "index/tree.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using base::Fence;

// A key of few bytes after a head that most keys share: separators then differ only after their first eight bytes.
std::string random_key(base::Random& random) {
  std::string key = random.chance(1, 8) ? "" : "samehead";
  const size_t tail = 1 + random.below(5);
  for (size_t i = 0; i < tail; ++i) key.push_back(static_cast<char>(random.below(random.chance(1, 2) ? 3 : 256)));
  return key;
}

Bnode* bnode_between(const Fence& lo, const Fence& hi) { return new Bnode(lo, hi, 1, Base(), Slots::kCapacityMin); }

// A tree and what it must hold. Changes happen on one thread.
class Rig {
 public:
  explicit Rig(uint64_t seed, const std::vector<std::string>& cuts = {}) : random_(seed) {
    std::vector<Fence> fences{Fence()};
    for (const std::string& cut : cuts) fences.emplace_back(cut);
    fences.push_back(Fence::infinite());
    std::vector<Bnode*> bnodes;
    for (size_t i = 0; i + 1 < fences.size(); ++i) {
      bnodes.push_back(bnode_between(fences[i], fences[i + 1]));
      model_[fences[i].bytes()] = bnodes.back();
    }
    tree_.build(bnodes);
  }
  ~Rig() {
    for (const Pair& pair : pairs_) delete pair.layer;
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  Tree& tree() { return tree_; }
  base::EpochDomain& epochs() { return epochs_; }
  [[nodiscard]] size_t size() const { return model_.size(); }

  // The bnode whose range has `key`.
  Bnode* expected(const std::string& key) { return std::prev(model_.upper_bound(key))->second; }

  void split() {
    Bnode* old = expected(random_key(random_));
    if (old->layer() != nullptr) return;
    std::map<std::string, Bnode*> cuts;
    for (int i = 0; i < 3; ++i) {
      const std::string key = random_.chance(1, 2) ? random_key(random_) : old->lo().bytes() + random_key(random_);
      if (old->lo().key() < Key::of(key) && old->hi().above(Key::of(key))) cuts[key] = nullptr;
    }
    Layer::Bnodes news;
    Fence lo = old->lo();
    for (const auto& [key, none] : cuts) {
      news.push_back(bnode_between(lo, Fence(key)));
      lo = Fence(key);
    }
    news.push_back(bnode_between(lo, old->hi()));
    change({old}, news);
  }

  // Ties a bnode to its right sibling, to be merged later.
  void tie() {
    Bnode* left = expected(random_key(random_));
    if (left->layer() != nullptr) return;
    tree_.with_right_sibling(*left, [&](Bnode* right) {
      EXPECT_EQ(right->lo(), left->hi());
      if (right->layer() != nullptr) return;
      auto* layer = new Layer();
      left->set_layer(layer);
      right->set_layer(layer);
      pairs_.push_back({layer, left, right});
    });
  }

  void merge() {
    if (pairs_.empty()) return;
    const size_t i = random_.below(pairs_.size());
    const Pair pair = pairs_[i];
    pairs_.erase(pairs_.begin() + static_cast<ptrdiff_t>(i));
    change({pair.left, pair.right}, {bnode_between(pair.left->lo(), pair.right->hi())});
    epochs_.retire_delete(pair.layer);
  }

  void step() {
    const uint64_t dice = random_.below(10);
    if (dice < (growing_ ? 5u : 1u)) {
      split();
    } else if (dice < 7) {
      tie();
    } else {
      merge();
    }
    if (size() > 1500) growing_ = false;
    if (size() < 20) growing_ = true;
  }

  void check() {
    auto it = model_.begin();
    size_t seen = 0;
    tree_.for_each([&](Bnode* bnode) {
      ASSERT_NE(it, model_.end());
      EXPECT_EQ(bnode, it->second);
      ++it, ++seen;
    });
    EXPECT_EQ(seen, model_.size());
    check_following();
    for (const auto& [lo, bnode] : model_) {
      EXPECT_EQ(tree_.find(Key::of(lo)), bnode);
      EXPECT_EQ(tree_.find(Key::of(lo + '\0')), expected(lo + '\0'));
      EXPECT_EQ(tree_.find_below(bnode->hi()), bnode);
    }
    for (int i = 0; i < 200; ++i) {
      const std::string key = random_key(random_);
      EXPECT_EQ(tree_.find(Key::of(key)), expected(key));
      EXPECT_EQ(tree_.find_below(Fence(key)), std::prev(model_.lower_bound(key))->second);
    }
  }

  // A scan that begins anywhere comes to every bnode from there on, and searches the tree for some of them alone.
  void check_following() {
    ScanAhead following;
    size_t searches = 0, steps = 0;
    const Bnode* begin = expected(random_key(random_));
    for (base::Fence at = begin->lo(); !at.is_infinite(); ++steps) {
      if (const Fence& end = expected(at.bytes())->hi(); !end.is_infinite()) {
        EXPECT_EQ(following.take(end.key()), nullptr) << "of another range";
      }
      const Bnode* bnode = following.take(at.key());
      if (bnode == nullptr) {
        bnode = tree_.find_to_scan(at.key(), &following);
        ++searches;
      }
      ASSERT_EQ(bnode, expected(at.bytes()));
      at = bnode->hi();
    }
    EXPECT_TRUE(steps < 100 || searches < steps / 3) << searches << " of " << steps;
  }

 private:
  struct Pair {
    Layer* layer;
    Bnode *left, *right;
  };

  void change(const Layer::Bnodes& olds, const Layer::Bnodes& news) {
    tree_.replace(olds, news);
    for (Bnode* old : olds) {
      model_.erase(old->lo().bytes());
      epochs_.retire(old, [](void* object, void*) { static_cast<Bnode*>(object)->unref(); });
    }
    for (Bnode* bnode : news) model_[bnode->lo().bytes()] = bnode;
  }

  base::Random random_;
  base::EpochDomain epochs_;
  Tree tree_{epochs_};
  std::map<std::string, Bnode*> model_;
  std::vector<Pair> pairs_;
  bool growing_ = true;
};

TEST(Tree, OneBnodeHasEveryKey) {
  Rig rig(1);
  EXPECT_EQ(rig.tree().find(Key::of("")), rig.expected(""));
  EXPECT_EQ(rig.tree().find(Key::of(std::string(1024, '\xff'))), rig.expected(""));
  EXPECT_EQ(rig.tree().find_below(Fence::infinite()), rig.expected(""));
  rig.check();
}

TEST(Tree, SeparatorsWithEqualHeads) {
  Rig rig(1, {"samehead", std::string("samehead\0", 9), "sameheada", "sameheadaa", "sameheadb"});
  EXPECT_EQ(rig.tree().find(Key::of("samehea")), rig.expected(""));
  EXPECT_EQ(rig.tree().find(Key::of("samehead")), rig.expected("samehead"));
  EXPECT_EQ(rig.tree().find(Key::of("sameheada")), rig.expected("sameheada"));
  EXPECT_EQ(rig.tree().find(Key::of("sameheadab")), rig.expected("sameheadaa"));
  EXPECT_EQ(rig.tree().find_below(Fence("sameheada")), rig.expected(std::string("samehead\0", 9)));
  rig.check();
}

TEST(Tree, BuildsManyLevels) {
  std::vector<std::string> cuts;
  for (uint64_t i = 0; i < 5000; ++i) cuts.push_back(key_of(i));
  Rig rig(1, cuts);
  rig.check();
  EXPECT_GT(rig.tree().dram_bytes(), 5000u * 16);
}

TEST(Tree, RandomChangesMatchAMap) {
  Rig rig(test_seed());
  size_t largest = 0;
  for (int i = 0; i < 20'000; ++i) {
    rig.step();
    largest = std::max(largest, rig.size());
    if (i % 2'000 == 0) rig.check();
  }
  rig.check();
  EXPECT_GT(largest, 500u);
}

TEST(Tree, NoSiblingAcrossInnerNodes) {
  Rig rig(1);
  bool offered = false;
  rig.tree().with_right_sibling(*rig.expected(""), [&](Bnode*) { offered = true; });
  EXPECT_FALSE(offered) << "the last bnode has no right sibling";
}

TEST(Tree, ReadersBesideChanges) {
  const uint64_t seed = test_seed();
  Rig rig(seed);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (uint64_t r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      base::Random random(seed + r + 1);
      while (!stop.load()) {
        const auto guard = rig.epochs().enter();
        const std::string key = random_key(random);
        const Bnode* bnode = rig.tree().find(Key::of(key));
        ASSERT_FALSE(Key::of(key) < bnode->lo().key());
        ASSERT_TRUE(bnode->hi().above(Key::of(key)));
        const Fence fence(key);
        bnode = rig.tree().find_below(fence);
        ASSERT_TRUE(bnode->lo() < fence);
        ASSERT_FALSE(bnode->hi() < fence);
      }
    });
  }
  for (int i = 0; i < 6'000; ++i) rig.step();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  rig.check();
}

}  // namespace
}  // namespace bonsai::index::testing
