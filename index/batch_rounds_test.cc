// SPDX-License-Identifier: Apache-2.0
// Rounds of batches from several threads, over ranges that are full, pending or being offloaded, beside puts, deletes
// and scans, with crashes between them, against a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using bonsai::testing::add_figure;
using bonsai::testing::budget;
using Updates = std::map<std::string, std::optional<std::string>>;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSlower = 12;
#else
constexpr int kSlower = 1;
#endif

struct Shape {
  size_t threads;
  uint64_t keys;         // of each thread
  uint64_t updates_max;  // of a batch
  uint64_t log_bytes;    // little, so that large batches take several segments of it
  int rounds;
};

// A tier that lives through rounds. In each the threads write keys of their own, which are between each other's, and
// one pair of keys that they share and that each batch gives one value.
class Rounds {
 public:
  Rounds(uint64_t seed, const Shape& shape) : shape_(shape), random_(seed), models_(shape.threads) {}

  void run() {
    for (int round = 0; round < shape_.rounds && !::testing::Test::HasFailure(); ++round) {
      in_threads(shape_.threads, [&](size_t t) {
        base::Random random(seed_ + t);
        work(t, random);
      });
      seed_ = random_.next();
      if (random_.chance(1, 4)) expect_model("after round", round);
      if (random_.chance(1, 20)) {
        tier_.crash();
        expect_model("recovered after round", round);
      }
      if (random_.chance(1, 8)) expect_drained();
    }
    expect_model("after all rounds", shape_.rounds);
    expect_drained();
    expect_model("drained after all rounds", shape_.rounds);
    EXPECT_EQ(tier_.space().used_bytes(), tier_.bytes_in_use());
  }

 private:
  std::string own_key(size_t t, uint64_t i) const { return key_of(i * shape_.threads + t); }

  // What one thread does in a round: a batch or some, of any size, and something between them.
  void work(size_t t, base::Random& random) {
    Model& model = models_[t];
    for (uint64_t batches = 1 + random.below(3); batches > 0; --batches) {
      const auto bits = static_cast<double>(random.below(1000)) / 1000 * std::log2(shape_.updates_max);
      write(t, random, static_cast<uint64_t>(std::exp2(bits)), &model);
      for (uint64_t puts = random.below(20); puts > 0; --puts) put(t, random, &model);
      if (random.chance(1, 4)) static_cast<void>(tier_.offload(Index::Which::kUrgent, 1 + random.below(4)));
      if (random.chance(1, 16)) static_cast<void>(tier_.offload(Index::Which::kAll, 2));
      if (random.chance(1, 8)) expect_whole(t);
    }
  }

  // From one key on, side by side or spread.
  void write(size_t t, base::Random& random, uint64_t count, Model* model) {
    const std::string value = std::to_string(random.below(1'000'000));
    const uint64_t first = random.below(shape_.keys), stride = 1 + random.below(4);
    Updates updates;
    for (uint64_t i = 0; i < count; ++i) {
      const std::string key = own_key(t, (first + i * stride) % shape_.keys);
      if (random.chance(1, 10)) {
        updates[key] = std::nullopt;
        model->erase(key);
      } else {
        updates[key] = value;
        (*model)[key] = value;
      }
    }
    updates["a pair"] = updates["pair"] = value;
    ASSERT_TRUE(tier_.write(updates));
  }

  void put(size_t t, base::Random& random, Model* model) {
    const std::string key = own_key(t, random.below(shape_.keys));
    if (random.chance(1, 4)) {
      ASSERT_TRUE(tier_.del(key));
      model->erase(key);
    } else {
      const std::string value = std::to_string(random.below(1'000'000));
      ASSERT_TRUE(tier_.put(key, value));
      (*model)[key] = value;
    }
  }

  // A scan sees of each batch all or nothing, and of one's own updates all.
  void expect_whole(size_t t) {
    Model seen = tier_.scan_now();
    EXPECT_EQ(seen["a pair"], seen["pair"]) << "half a batch";
    const Model& own = models_[t];
    for (const auto& [key, value] : own) ASSERT_EQ(seen[key], value) << key << " of thread " << t;
  }

  void expect_model(const char* when, int round) {
    Model seen = tier_.scan_now();
    EXPECT_EQ(seen["a pair"], seen["pair"]) << "half a batch";
    seen.erase("a pair");
    seen.erase("pair");
    Model all;
    for (const Model& own : models_) all.insert(own.begin(), own.end());
    ASSERT_TRUE(seen == all) << when << ' ' << round << ": " << seen.size() << " records of " << all.size();
  }

  void expect_drained() { EXPECT_TRUE(tier_.drain().ok()); }

  const Shape shape_;
  base::Random random_;
  uint64_t seed_ = random_.next();
  std::vector<Model> models_;
  Tier tier_{{.pool_bytes = size_t{24} << 20, .log_bytes = shape_.log_bytes}};
};

TEST(BatchRounds, AgreeWithTheModel) {
  base::Random random(test_seed());
  const Shape shapes[] = {
      {1, 3'000, 1'000, uint64_t{4} << 20, budget(20, 600, 20'000)},
      {4, 100, 100, uint64_t{1} << 20, budget(200, 8'500, 200'000)},
      {4, 1'000, 1'000, uint64_t{4} << 20, budget(20, 600, 20'000)},
      {16, 20, 20, uint64_t{2} << 20, budget(20, 600, 20'000)},
      {16, 400, 400, uint64_t{4} << 20, budget(5, 100, 3'000)},
  };
  uint64_t rounds = 0;
  for (const Shape& shape : shapes) {
    constexpr int kLifeRounds = 200;  // then a fresh pool
    for (int left = std::max(1, shape.rounds / kSlower); left > 0 && !HasFailure(); left -= kLifeRounds) {
      Shape life = shape;
      life.rounds = std::min(left, kLifeRounds);
      Rounds(random.next(), life).run();
      rounds += static_cast<uint64_t>(life.rounds);
    }
  }
  add_figure("batch_rounds", rounds);
  std::printf("%llu rounds\n", static_cast<unsigned long long>(rounds));
}

}  // namespace
}  // namespace bonsai::index::testing
