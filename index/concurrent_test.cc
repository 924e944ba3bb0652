// SPDX-License-Identifier: Apache-2.0
// Threads over one index tier while offloading runs: the values that each may read, and the values that remain.
#include <gtest/gtest.h>

#include <atomic>

#include "base/testing/sanitized.h"
#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

using Which = Index::Which;
using Updates = std::map<std::string, std::optional<std::string>>;

constexpr int kScale = bonsai::testing::kSanitized ? 3 : 15;

// Offloads, tidies and collects until it is destroyed.
class Offloader {
 public:
  explicit Offloader(Tier& tier) : thread_([this, &tier] { run(tier); }) {}
  ~Offloader() {
    stop_ = true;
    thread_.join();
  }
  Offloader(const Offloader&) = delete;
  Offloader& operator=(const Offloader&) = delete;

 private:
  void run(Tier& tier) {
    for (uint64_t round = 0; !stop_.load(); ++round) {
      static_cast<void>(tier.offload(round % 3 == 0 ? Which::kAll : Which::kUrgent, 3));
      static_cast<void>(tier.index().tidy(5));
      if (round % 8 == 0) static_cast<void>(tier.index().defragment());
      if (round % 4 == 0) std::this_thread::yield();
    }
  }

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

uint64_t number(const std::optional<std::string>& value) { return value ? std::stoull(*value) : 0; }

// Nothing is lost in a crash, nothing in draining, and no byte of space.
void expect_settled(Tier& tier) {
  const Model before = tier.scan_now();
  EXPECT_TRUE(tier.scan_backwards(kLatest) == before);
  tier.crash();
  EXPECT_TRUE(tier.scan_now() == before);
  ASSERT_TRUE(tier.drain().ok());
  EXPECT_TRUE(tier.scan_now() == before);
  EXPECT_EQ(tier.residues(), 0u);
  EXPECT_EQ(tier.space().used_bytes(), tier.bytes_in_use());
}

TEST(Concurrent, MemoryAndRecoveryOrderAHotKeyAlike) {
  for (int round = 0; round < 8; ++round) {
    Tier tier;
    in_threads(4, [&](size_t t) {
      for (int i = 0; i < 100 * kScale; ++i) ASSERT_TRUE(tier.put("hot", std::to_string(t) + "." + std::to_string(i)));
    });
    expect_settled(tier);
  }
}

// Each writer writes i to its left key and then to its right key, far away: no snapshot sees right ahead of left.
TEST(Concurrent, SnapshotsSeeCausesBeforeEffects) {
  Tier tier({.pool_bytes = size_t{16} << 20});
  const uint64_t rounds = 400 * kScale;
  constexpr size_t kWriters = 3;
  const auto left = [](size_t w) { return key_of(w); };
  const auto right = [](size_t w) { return key_of(9'000 + w); };
  std::atomic<size_t> writing{kWriters};
  std::atomic<uint64_t> checked{0};
  {
    const Offloader offloader(tier);
    in_threads(kWriters + 2, [&](size_t t) {
      if (t < kWriters) {
        base::Random random(t);
        for (uint64_t i = 1; i <= rounds; ++i) {
          ASSERT_TRUE(tier.put(left(t), std::to_string(i)));
          ASSERT_TRUE(tier.put(key_of(10 + random.below(8'000)), "filler"));
          ASSERT_TRUE(tier.put(right(t), std::to_string(i)));
          ASSERT_GE(number(tier.get(left(t))), i);
        }
        --writing;
        return;
      }
      std::array<uint64_t, kWriters> last{};
      while (writing.load() != 0) {
        const Versions::Registration own = tier.index().register_scan();
        ASSERT_TRUE(static_cast<bool>(own));
        const Model seen = t % 2 == 0 ? tier.scan(own.version()) : tier.scan_backwards(own.version());
        for (size_t w = 0; w < kWriters; ++w) {
          const uint64_t l = seen.contains(left(w)) ? std::stoull(seen.at(left(w))) : 0;
          const uint64_t r = seen.contains(right(w)) ? std::stoull(seen.at(right(w))) : 0;
          ASSERT_GE(l, r);
          ASSERT_LE(l, r + 1);
          ASSERT_GE(l, last[w]) << "snapshots of one thread go forward";
          last[w] = l;
          ASSERT_EQ(number(tier.get(left(w), own.version())), l) << "a snapshot reads the same twice";
        }
        checked.fetch_add(1);
      }
    });
  }
  EXPECT_GT(checked.load(), 0u);
  expect_settled(tier);
}

TEST(Concurrent, ReadsOfAKeyNeverGoBack) {
  Tier tier({.pool_bytes = size_t{8} << 20});
  constexpr uint64_t kKeys = 60;
  std::atomic<bool> stop{false};
  {
    const Offloader offloader(tier);
    in_threads(4, [&](size_t t) {
      base::Random random(t + 77);
      if (t < 2) {  // writers of disjoint keys
        for (uint64_t i = 1; i <= 1'500u * kScale; ++i) {
          ASSERT_TRUE(tier.put(key_of(2 * random.below(kKeys / 2) + t), std::to_string(i)));
        }
        stop = true;
        return;
      }
      std::map<uint64_t, uint64_t> last;
      while (!stop.load()) {
        const uint64_t key = random.below(kKeys);
        const uint64_t seen = number(tier.get(key_of(key)));
        ASSERT_GE(seen, last[key]);
        last[key] = seen;
      }
    });
  }
  expect_settled(tier);
}

// Batches over the same keys, which are in many ranges and are frozen all the time: every snapshot sees one batch.
TEST(Concurrent, ConflictingBatchesStayWhole) {
  Tier tier({.pool_bytes = size_t{16} << 20});
  constexpr uint64_t kKeys = 12;
  const auto key = [](uint64_t i) { return key_of(i * 500); };
  std::atomic<size_t> writing{3};
  {
    const Offloader offloader(tier);
    in_threads(5, [&](size_t t) {
      base::Random random(t);
      if (t < 3) {
        for (int i = 0; i < 150 * kScale; ++i) {
          Updates updates;
          for (uint64_t k = 0; k < kKeys; ++k) updates[key(k)] = std::to_string(t) + "." + std::to_string(i);
          ASSERT_TRUE(tier.write(updates));
          ASSERT_TRUE(tier.put(key_of(random.below(6'000) | 1), "filler"));
        }
        --writing;
        return;
      }
      while (writing.load() != 0) {
        const Versions::Registration own = tier.index().register_scan();
        const auto first = tier.get(key(0), own.version());
        for (uint64_t k = 1; k < kKeys; ++k) ASSERT_EQ(tier.get(key(k), own.version()), first);
      }
    });
  }
  const Model end = tier.scan_now();
  for (uint64_t k = 1; k < kKeys; ++k) EXPECT_EQ(end.at(key(k)), end.at(key(0)));
  expect_settled(tier);
}

// Batches of many new keys of one range race with puts that fill the same bnodes.
TEST(Concurrent, BatchesAndPutsFillTheSameRange) {
  for (int round = 0; round < 4 * kScale; ++round) {
    Tier tier({.pool_bytes = size_t{8} << 20, .log_bytes = uint64_t{4} << 20});
    const Offloader offloader(tier);
    in_threads(4, [&](size_t t) {
      if (t < 2) {
        for (uint64_t i = 0; i < 4; ++i) {
          Updates updates;
          for (uint64_t k = 0; k < 60; ++k) updates[key_of(k * 8 + i * 2 + t)] = std::to_string(t);
          ASSERT_TRUE(tier.write(updates));
        }
        return;
      }
      for (uint64_t k = 0; k < 240; ++k) ASSERT_TRUE(tier.put(key_of(10'000 + 2 * k + t), "x"));
    });
    EXPECT_EQ(tier.scan_now().size(), 2u * 240 + 2u * 240);
  }
}

// A log of few segments: updates wait for offloading, and all get through.
TEST(Concurrent, AFullLogStallsAndLetsGo) {
  Tier tier({.pool_bytes = size_t{4} << 20, .log_bytes = uint64_t{64} << 10});
  std::array<std::atomic<uint64_t>, 3> done{};
  in_threads(3, [&](size_t t) {
    base::Random random(t);
    for (uint64_t i = 1; i <= 200u * kScale; ++i) {
      if (i % 5 == 0) {
        ASSERT_TRUE(tier.write({{key_of(t), std::to_string(i)}, {key_of(5'000 + random.below(300)), "batch"}}));
      } else {
        ASSERT_TRUE(tier.put(key_of(t), std::to_string(i)));
        ASSERT_TRUE(tier.put(key_of(100 + random.below(3'000)), std::string(100, 'x')));
      }
      done[t] = i;
    }
  });
  for (size_t t = 0; t < 3; ++t) EXPECT_EQ(number(tier.get(key_of(t))), done[t].load());
  expect_settled(tier);
}

}  // namespace
}  // namespace bonsai::index::testing
