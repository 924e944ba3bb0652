// SPDX-License-Identifier: Apache-2.0
// The page cache of the paging rivals: what faults, write-back and read-ahead cost, and that no byte is lost.
#include "bench/studies/rivals/page_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/thread.h"
#include "bench/studies/rivals/testing/rig.h"
#include "rdma/testing/budget.h"

namespace bonsai::bench::rivals {
namespace {

std::string text_of(const Status& status) { return status.ToString(); }

// One cache, one thread.
class PageCacheBudget : public ::testing::TestWithParam<bool> {
 protected:
  void on_cache(const PageCache::Options& options, const std::function<void(PageCache&)>& body) {
    Rig rig({.sim = GetParam(),
             .memory_nodes = options.memory_nodes,
             .bytes = options.node_bytes,
             .fixed_bytes = options.node_bytes});
    rig.run_one([&](Connection* connection) {
      connection_ = connection;
      Batch batch(connection);
      batch_ = &batch;
      std::unique_ptr<PageCache> cache;
      ASSERT_EQ("OK", text_of(PageCache::make(&connection->fabric(), options, &cache)));
      body(*cache);
    });
  }
  void expect_cost(const rdma::Cost& cost, const std::function<void()>& action) {
    rdma::Cost whole = cost;
    whole.doorbells = cost.round_trips;
    const rdma::Budget budget(connection_->worker(), whole);
    action();
    bonsai::testing::add_figure("verb_budgets", 1);
  }
  // Pages hold their numbers.
  void write(PageCache& cache, uint64_t number) {
    PageCache::Page page;
    ASSERT_EQ("OK", text_of(cache.hold(number, batch_, Limit("test", 1'000), &page)));
    std::memcpy(page.data() + 8 * (number % 512), &number, sizeof number);
    page.mark_dirty();
  }
  void read(PageCache& cache, uint64_t number, bool written = true) {
    PageCache::Page page;
    ASSERT_EQ("OK", text_of(cache.hold(number, batch_, Limit("test", 1'000), &page)));
    uint64_t found = 0;
    std::memcpy(&found, page.data() + 8 * (number % 512), sizeof found);
    EXPECT_EQ(found, written ? number : 0);
  }
  size_t write_back(PageCache& cache) {
    size_t written = 0;
    EXPECT_EQ("OK", text_of(cache.write_back(true, batch_, &written)));
    return written;
  }

  Connection* connection_ = nullptr;
  Batch* batch_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, PageCacheBudget, ::testing::Bool(), name_of_fabric);

TEST_P(PageCacheBudget, OfFaults) {
  on_cache({.frames = 8}, [&](PageCache& cache) {
    // Never written: zeros, without the fabric.
    expect_cost({}, [&] { read(cache, 0, false); });
    for (uint64_t number = 1; number <= 8; ++number) expect_cost({}, [&] { write(cache, number); });
    expect_cost({}, [&] { read(cache, 8); });
    // Eight frames, all dirty. One of them goes.
    expect_cost({.round_trips = 1, .messages = 1, .bytes = 4'096}, [&] { read(cache, 20, false); });
    expect_cost({.round_trips = 1, .messages = 2, .bytes = 8'192}, [&] { read(cache, 1); });
    EXPECT_EQ(cache.counters().dirty_victims, 2u);
    // Write-back leaves pages where they are. Then faults find clean victims.
    EXPECT_GT(write_back(cache), 0u);
    EXPECT_EQ(write_back(cache), 0u);
    for (uint64_t number = 30; number < 38; ++number) expect_cost({}, [&] { read(cache, number, false); });
    for (uint64_t number = 1; number <= 8; ++number) {
      expect_cost({.round_trips = 1, .messages = 1, .bytes = 4'096}, [&] { read(cache, number); });
    }
    for (uint64_t number = 1; number <= 8; ++number) expect_cost({}, [&] { read(cache, number); });
  });
}

TEST_P(PageCacheBudget, OfWriteBack) {
  on_cache({.frames = 64, .node_bytes = size_t{1} << 20}, [&](PageCache& cache) {
    for (uint64_t number = 0; number < 40; ++number) write(cache, number);
    expect_cost({.round_trips = 1, .messages = 32, .bytes = 131'072}, [&] { EXPECT_EQ(write_back(cache), 32u); });
    expect_cost({.round_trips = 1, .messages = 8, .bytes = 32'768}, [&] { EXPECT_EQ(write_back(cache), 8u); });
    expect_cost({}, [&] { EXPECT_EQ(write_back(cache), 0u); });
    EXPECT_EQ(cache.counters().written_back, 40u);
    // Pages that were used since the hand passed are left alone, unless `all` is given.
    write(cache, 1);
    size_t written = 1;
    ASSERT_EQ("OK", text_of(cache.write_back(false, batch_, &written)));
    EXPECT_EQ(written, 0u);
  });
}

TEST_P(PageCacheBudget, OfReadAhead) {
  on_cache({.frames = 16, .read_ahead_pages = 8}, [&](PageCache& cache) {
    for (uint64_t number = 0; number < 16; ++number) write(cache, number);
    write_back(cache);
    for (uint64_t number = 40; number < 56; ++number) read(cache, number, false);
    expect_cost({.round_trips = 1, .messages = 8, .bytes = 32'768}, [&] { read(cache, 3); });
    for (uint64_t number = 0; number < 8; ++number) expect_cost({}, [&] { read(cache, number); });
    EXPECT_EQ(cache.counters().read_ahead, 7u);
  });
}

TEST_P(PageCacheBudget, OfPagesOfSeveralNodes) {
  on_cache({.frames = 8, .memory_nodes = 3, .node_bytes = 10 * PageCache::kPageBytes}, [&](PageCache& cache) {
    EXPECT_EQ(cache.pages(), 30u);
    EXPECT_EQ(cache.bytes(), (8 + 8) * PageCache::kPageBytes + 3);
    for (uint64_t number = 0; number < 30; ++number) write(cache, number);
    for (uint64_t number = 0; number < 30; ++number) read(cache, number);
    // Bytes are those of faults and of victims.
    const PageCache::Counters counters = cache.counters();
    EXPECT_EQ(connection_->worker().traffic().bytes(),
              PageCache::kPageBytes * (counters.faults - 30 + counters.dirty_victims));
  });
}

TEST_P(PageCacheBudget, FaultsTakeTheirTime) {
  on_cache({.frames = 8, .fault_ns = 200'000}, [&](PageCache& cache) {
    const uint64_t before = base::now_ns();
    read(cache, 0, false);
    EXPECT_GE(base::now_ns() - before, 200'000u);
  });
}

TEST(PageCache, WaitsForPagesThatAreHeldAndGivesUp) {
  Rig rig({.sim = true, .bytes = size_t{1} << 20, .fixed_bytes = size_t{1} << 20});
  rig.run_one([&](Connection* connection) {
    Batch batch(connection);
    std::unique_ptr<PageCache> cache;
    ASSERT_EQ("OK", text_of(PageCache::make(&connection->fabric(), {.frames = 8}, &cache)));
    std::vector<PageCache::Page> held(8);
    for (size_t i = 0; i < 8; ++i) ASSERT_EQ("OK", text_of(cache->hold(i, &batch, Limit("test", 5), &held[i])));
    PageCache::Page page;
    EXPECT_TRUE(cache->hold(3, &batch, Limit("test", 5), &page).IsUnavailable());
    EXPECT_TRUE(cache->hold(9, &batch, Limit("test", 5), &page).IsUnavailable());
    EXPECT_FALSE(page.held());
    held[3] = PageCache::Page();
    EXPECT_EQ("OK", text_of(cache->hold(9, &batch, Limit("test", 5), &page)));
    held[4] = std::move(page);
    EXPECT_EQ(held[4].number(), 9u);
    EXPECT_EQ("OK", text_of(cache->hold(4, &batch, Limit("test", 5), &page)));
  });
}

// Clients count in the pages' words, more pages than frames, while write-back runs. No count is lost.
void count_in_pages(bool sim, uint64_t seed, size_t read_ahead_pages, uint64_t counts) {
  constexpr uint64_t kPages = 24;
  const size_t bytes = kPages * PageCache::kPageBytes;
  Rig rig({.sim = sim, .seed = seed, .bytes = bytes, .fixed_bytes = bytes});
  std::unique_ptr<PageCache> cache;
  rig.run_one([&](Connection* connection) {
    const PageCache::Options options{.frames = 10, .node_bytes = bytes, .read_ahead_pages = read_ahead_pages};
    ASSERT_EQ("OK", text_of(PageCache::make(&connection->fabric(), options, &cache)));
  });
  const Shape shape{.threads = 3, .coroutines = sim ? size_t{1} : size_t{2}};
  std::vector<std::vector<uint64_t>> counted(shape.clients(), std::vector<uint64_t>(kPages));
  rig.run(shape, [&](const Seat& seat) {
    Batch batch(seat.connection);
    base::Random dice(base::splitmix64(seed) + seat.client);
    PageCache::Page page;
    for (uint64_t i = 0; i < counts; ++i) {
      size_t written = 0;
      if (dice.chance(1, 20)) {
        ASSERT_EQ("OK", text_of(cache->write_back(dice.chance(1, 2), &batch, &written)));
      }
      const uint64_t number = dice.below(kPages);
      ASSERT_EQ("OK", text_of(cache->hold(number, &batch, Limit("test", 10'000), &page)));
      std::array<uint64_t, 2> words{};
      std::memcpy(words.data(), page.data() + 64 * number, sizeof words);
      ASSERT_EQ(words[0], words[1]);
      if (dice.chance(1, 3)) {
        ++counted[seat.client][number];
        words[0] = ++words[1];
        std::memcpy(page.data() + 64 * number, words.data(), sizeof words);
        page.mark_dirty();
      }
      page.drop();
    }
  });
  rig.run_one([&](Connection* connection) {
    Batch batch(connection);
    for (uint64_t number = 0; number < kPages; ++number) {
      PageCache::Page page;
      ASSERT_EQ("OK", text_of(cache->hold(number, &batch, Limit("test", 10'000), &page)));
      uint64_t found = 0, expected = 0;
      std::memcpy(&found, page.data() + 64 * number, sizeof found);
      for (const auto& of_client : counted) expected += of_client[number];
      EXPECT_EQ(found, expected) << "page " << number << ", BONSAI_SEED=" << seed;
    }
  });
  EXPECT_GT(cache->counters().dirty_victims, 0u);
  EXPECT_GT(cache->counters().hits, 0u);
}

TEST(PageCache, LosesNothingWhoeverCountsInIt) {
  const uint64_t seed = base::seed_from_env_or(1);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t i = 0; i < bonsai::testing::budget<uint64_t>(6, 50, 1'000); ++i) {
    count_in_pages(true, seed + i, i % 2 == 0 ? 1 : 4, 200);
  }
  for (uint64_t i = 0; i < bonsai::testing::budget<uint64_t>(2, 6, 50); ++i) {
    count_in_pages(false, seed + i, i % 2 == 0 ? 1 : 4, 2'000);
  }
}

TEST(PageCache, RefusesWhatCannotBe) {
  rdma::SimNetwork network;
  const auto fabric = network.make_fabric();
  std::unique_ptr<PageCache> cache;
  const PageCache::Options wrong[] = {
      {.frames = 7}, {.memory_nodes = 0}, {.node_bytes = 4'095}, {.read_ahead_pages = 0}, {.read_ahead_pages = 9}};
  for (const PageCache::Options& options : wrong) {
    const Status status = PageCache::make(fabric.get(), options, &cache);
    EXPECT_TRUE(status.IsInvalidArgument()) << text_of(status);
  }
}

}  // namespace
}  // namespace bonsai::bench::rivals
