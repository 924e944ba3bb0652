// SPDX-License-Identifier: Apache-2.0
// Rounds of batches from several threads over ranges that are full, pending or being offloaded, with concurrent puts,
// deletes and scans, power cuts during the rounds and crashes between them. The results are compared with a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/clock.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/sanitized.h"
#include "base/units.h"
#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using base::kMiB;
using bonsai::testing::add_figure;
using bonsai::testing::budget;
using Updates = std::map<std::string, std::optional<std::string>>;

constexpr int kSlower = bonsai::testing::kSanitized ? 12 : 1;

struct Shape {
  size_t threads;
  uint64_t keys;                      // of each thread
  uint64_t updates_min, updates_max;  // of a batch
  uint64_t pool_bytes;
  uint64_t log_bytes;     // little, so that large batches take several segments of it
  uint64_t rounds_a_cut;  // about so many for each power cut
  int rounds;
};

// The acts of one thread in a round. Others may read the counts meanwhile.
struct Deeds {
  Model before;
  std::vector<Updates> updates;  // of its own keys, a batch or a single one
  std::atomic<size_t> begun{0}, done{0};
};

// The state that a power cut amid a round leaves.
struct Cut {
  std::vector<std::byte> image;
  std::vector<size_t> done, begun;  // by each thread: before the cut, at least; after it, at most
};

struct Totals {
  uint64_t rounds = 0, batches = 0, updates = 0, largest = 0, cuts = 0, cuts_amid = 0;
};

void carry_out(const Updates& updates, Model* model) {
  for (const auto& [key, value] : updates) {
    if (value) {
      (*model)[key] = *value;
    } else {
      model->erase(key);
    }
  }
}

// A tier that lives through rounds. In each the threads write keys of their own, which are between each other's, and
// one pair of keys that they share and that each batch gives one value.
class Rounds {
 public:
  Rounds(uint64_t seed, const Shape& shape, Totals* totals)
      : shape_(shape), random_(seed), totals_(*totals), models_(shape.threads), deeds_(shape.threads) {}

  void run() {
    for (int round = 0; round < shape_.rounds && !::testing::Test::HasFailure(); ++round) {
      play(random_.chance(1, shape_.rounds_a_cut), round);
      ++totals_.rounds;
      if (random_.chance(1, 4)) expect_model("after round", round);
      if (random_.chance(1, 20)) {
        tier_->crash();
        expect_model("recovered after round", round);
      }
      if (random_.chance(1, 8)) expect_drained();
    }
    expect_model("after all rounds", shape_.rounds);
    expect_drained();
    expect_model("drained after all rounds", shape_.rounds);
    EXPECT_EQ(tier_->space().used_bytes(), tier_->bytes_in_use());
  }

 private:
  std::string own_key(size_t t, uint64_t i) const { return key_of(i * shape_.threads + t); }
  [[nodiscard]] size_t owner_of(const std::string& key) const { return std::stoull(key.substr(3)) % shape_.threads; }

  // The threads' work, and perhaps a power cut amid it, before some operation of the seam.
  void play(bool cut, int round) {
    for (size_t t = 0; t < shape_.threads; ++t) {
      deeds_[t].updates.clear();
      deeds_[t].begun = deeds_[t].done = 0;
      if (cut) deeds_[t].before = models_[t];
    }
    cut_at_ = cut ? 1 + random_.below(operations_last_) : 0;
    operations_ = 0;
    cut_.image.clear();
    in_threads(shape_.threads, [&](size_t t) {
      base::Random random(seed_ + t);
      work(t, random);
    });
    cut_at_ = 0;
    operations_last_ = 1 + operations_.load();
    seed_ = random_.next();
    for (const Deeds& deeds : deeds_) {
      for (const Updates& updates : deeds.updates) {
        totals_.batches += updates.size() > 1 ? 1 : 0;
        totals_.updates += updates.size();
        totals_.largest = std::max<uint64_t>(totals_.largest, updates.size());
      }
    }
    if (!cut_.image.empty() && !::testing::Test::HasFailure()) expect_cut(round);
  }

  // One thread's work in a round: one or more batches of any size, and single operations between them.
  void work(size_t t, base::Random& random) {
    for (uint64_t batches = 1 + random.below(3); batches > 0; --batches) {
      const double least = std::log2(shape_.updates_min), most = std::log2(shape_.updates_max);
      const double bits = least + static_cast<double>(random.below(1000)) / 1000 * (most - least);
      write(t, random, static_cast<uint64_t>(std::exp2(bits)));
      for (uint64_t puts = random.below(20); puts > 0; --puts) put(t, random);
      if (random.chance(1, 4)) static_cast<void>(tier_->offload(Index::Which::kUrgent, 1 + random.below(4)));
      if (random.chance(1, 16)) static_cast<void>(tier_->offload(Index::Which::kAll, 2));
      if (random.chance(1, 8)) expect_whole(t);
    }
  }

  // Does `call`, which makes the updates, as a deed of a thread.
  template <class Call>
  void act(size_t t, Updates updates, Call call) {
    Deeds& deeds = deeds_[t];
    carry_out(updates, &models_[t]);
    deeds.updates.push_back(std::move(updates));
    deeds.begun.fetch_add(1);
    ASSERT_TRUE(call());
    deeds.done.fetch_add(1);
  }

  // From one key on, side by side or spread.
  void write(size_t t, base::Random& random, uint64_t count) {
    const std::string value = std::to_string(random.below(1'000'000));
    const uint64_t first = random.below(shape_.keys), stride = 1 + random.below(4);
    Updates updates;
    for (uint64_t i = 0; i < count; ++i) {
      updates[own_key(t, (first + i * stride) % shape_.keys)] =
          random.chance(1, 10) ? std::nullopt : std::optional(value);
    }
    Updates all = updates;
    all["a pair"] = all["pair"] = value;
    act(t, std::move(updates), [&] { return tier_->write(all); });
  }

  void put(size_t t, base::Random& random) {
    const std::string key = own_key(t, random.below(shape_.keys));
    if (random.chance(1, 4)) return act(t, {{key, std::nullopt}}, [&] { return tier_->del(key); });
    const std::string value = std::to_string(random.below(1'000'000));
    act(t, {{key, value}}, [&] { return tier_->put(key, value); });
  }

  // A scan returns all of a batch or none of it, and all of its own thread's updates.
  void expect_whole(size_t t) {
    Model seen = tier_->scan_now();
    EXPECT_EQ(seen["a pair"], seen["pair"]) << "half a batch";
    const Model& own = models_[t];
    for (const auto& [key, value] : own) ASSERT_EQ(seen[key], value) << key << " of thread " << t;
  }

  // All records of a tier but the pair.
  static Model content_of(Tier* tier) {
    Model seen = tier->scan_now();
    EXPECT_EQ(seen["a pair"], seen["pair"]) << "half a batch";
    seen.erase("a pair");
    seen.erase("pair");
    return seen;
  }

  void expect_model(const char* when, int round) {
    const Model seen = content_of(tier_.get());
    Model all;
    for (const Model& own : models_) all.insert(own.begin(), own.end());
    ASSERT_TRUE(seen == all) << when << ' ' << round << ": " << seen.size() << " records of " << all.size();
  }

  void expect_drained() { EXPECT_TRUE(tier_->drain().ok()); }

  void turn() {
    if (operations_.fetch_add(1) + 1 != cut_at_) return;
    cut_.done.clear();
    cut_.begun.clear();
    for (const Deeds& deeds : deeds_) cut_.done.push_back(deeds.done.load());
    cut_.image = tier_->durable();
    for (const Deeds& deeds : deeds_) cut_.begun.push_back(deeds.begun.load());
  }

  // Everything that a thread finished must be there, and of what it began a prefix, each batch whole.
  void expect_cut(int round) {
    const Cut& cut = cut_;
    Tier recovered({.pool_bytes = shape_.pool_bytes, .log_bytes = shape_.log_bytes}, cut.image);
    const Model seen = content_of(&recovered);
    std::vector<Model> parts(shape_.threads);
    for (const auto& record : seen) parts[owner_of(record.first)].insert(parts[owner_of(record.first)].end(), record);
    bool amid = false;
    for (size_t t = 0; t < shape_.threads; ++t) {
      amid = amid || cut.begun[t] != cut.done[t];
      Model model = deeds_[t].before;
      size_t there = 0;
      while (there < cut.done[t]) carry_out(deeds_[t].updates[there++], &model);
      while (parts[t] != model && there < cut.begun[t]) carry_out(deeds_[t].updates[there++], &model);
      ASSERT_TRUE(parts[t] == model) << "power cut amid round " << round << ": of thread " << t << ", which had done "
                                     << cut.done[t] << " and begun " << cut.begun[t];
    }
    ++totals_.cuts;
    totals_.cuts_amid += amid ? 1 : 0;
    ASSERT_TRUE(recovered.drain().ok());
    EXPECT_TRUE(content_of(&recovered) == seen) << "power cut amid round " << round << ", drained";
  }

  const Shape shape_;
  base::Random random_;
  Totals& totals_;
  uint64_t seed_ = random_.next();
  std::atomic<uint64_t> operations_{0};  // of the seam, in this round
  uint64_t operations_last_ = 200;       // about as many as in the last one
  uint64_t cut_at_ = 0;                  // the one before which the power is cut; 0: none
  Cut cut_;
  std::vector<Model> models_;
  std::vector<Deeds> deeds_;
  const std::unique_ptr<Tier> tier_ = std::make_unique<Tier>(
      Sizes{.pool_bytes = shape_.pool_bytes, .log_bytes = shape_.log_bytes, .turn = [this] { turn(); }});
};

// Rounds of a shape, on a fresh pool after some.
void play(const Shape& shape, base::Random* random) {
  constexpr int kLifeRounds = 200;
  Totals totals;
  const uint64_t begin_ns = base::now_ns();
  const int rounds = std::max(std::min(1, shape.rounds), shape.rounds / kSlower);
  for (int left = rounds; left > 0 && !::testing::Test::HasFailure(); left -= kLifeRounds) {
    Shape life = shape;
    life.rounds = std::min(left, kLifeRounds);
    Rounds(random->next(), life, &totals).run();
  }
  if (totals.rounds == 0) return;
  add_figure("batch_rounds", totals.rounds);
  add_figure("batch_cuts", totals.cuts);
  const auto print = [](const char* what, uint64_t n) {
    std::printf("%llu %s", static_cast<unsigned long long>(n), what);
  };
  print(" threads: ", shape.threads);
  print(" rounds, ", totals.rounds);
  print(" batches up to ", totals.batches);
  print(" updates, ", totals.largest);
  print(" updates in all, ", totals.updates);
  print(" power cuts, ", totals.cuts);
  print(" of them amid an update, ", totals.cuts_amid);
  print(" ms\n", (base::now_ns() - begin_ns) / base::kNsPerMs);
}

TEST(BatchRounds, AgreeWithTheModel) {
  base::Random random(test_seed());
  const Shape shapes[] = {
      {1, 3'000, 1, 1'000, 24 * kMiB, 4 * kMiB, 10, budget(20, 600, 20'000)},
      {4, 100, 1, 100, 4 * kMiB, kMiB, 10, budget(200, 8'500, 200'000)},
      {4, 1'000, 1, 1'000, 24 * kMiB, 4 * kMiB, 10, budget(20, 600, 20'000)},
      {16, 20, 1, 20, 4 * kMiB, 2 * kMiB, 10, budget(20, 600, 20'000)},
      {16, 400, 1, 400, 24 * kMiB, 4 * kMiB, 10, budget(5, 100, 3'000)},
  };
  for (const Shape& shape : shapes) play(shape, &random);
}

// Under sanitizers they are that large by night only.
TEST(BatchRounds, OfALargePartOfTheLogAgreeWithTheModel) {
  base::Random random(test_seed());
  const uint64_t most = kSlower == 1 ? 100'000 : budget(25'000, 25'000, 100'000);
  const Shape shapes[] = {
      {1, most, most / 10, most, 96 * kMiB, 32 * kMiB, 1, budget(1, 4, 600)},
      {4, most, most / 10, most, 160 * kMiB, 48 * kMiB, 1, budget(1, 2, 300)},
      {16, most / 5, most / 100, most / 5, 160 * kMiB, 48 * kMiB, 1, budget(1, 2, 300)},
      {16, most, most / 10, most, 512 * kMiB, 96 * kMiB, 1, budget(0, 0, 60)},
  };
  for (const Shape& shape : shapes) play(shape, &random);
}

}  // namespace
}  // namespace bonsai::index::testing
