// SPDX-License-Identifier: Apache-2.0
// The litmus tests pass on a correct fabric, and notice each breach. To simulate a broken device, a third party changes
// the scratch memory.
#include "rdma/litmus.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "rdma/shm/shm.h"

namespace bonsai::rdma {
namespace {

class LitmusTest : public ::testing::Test {
 protected:
  LitmusTest() {
    EXPECT_TRUE(server_->register_region(std::as_writable_bytes(std::span(words_)), Rights::all(), &region_).ok());
    EXPECT_TRUE(server_->make_worker(&worker_).ok());
    EXPECT_TRUE(worker_->listen("server", {}, {}).ok());
  }

  LitmusReport run(uint64_t ms = testing::budget<uint64_t>(20, 40, 1'000)) {
    LitmusReport report;
    const auto client = network_.make_fabric();
    EXPECT_TRUE(run_litmus(*client, "server", {}, region_->remote(), {.phase_ms = ms}, &report).ok());
    return report;
  }
  // Runs the tests, while another thread stores `value` at `at` all the time, and repeats them until `noticed`: the
  // scheduler decides whether a store happens at the critical moment.
  void expect_noticed(uint64_t at, uint64_t value, const std::function<bool(const LitmusReport&)>& noticed) {
    constexpr int kRunsMax = 50;
    std::atomic<bool> stop{false};
    base::Thread meddler("meddler", [&] {
      while (!stop.load()) set(at, value);
    });
    LitmusReport report;
    bool seen = false;
    for (int i = 0; i < kRunsMax && !seen; ++i) seen = noticed(report = run());
    stop = true;
    EXPECT_TRUE(seen) << report.text();
  }
  void set(uint64_t at, uint64_t value) {
    base::word_at(reinterpret_cast<std::byte*>(words_.data()) + at).store(value, std::memory_order_relaxed);
  }

  ShmNetwork network_;
  std::unique_ptr<Fabric> server_ = network_.make_fabric();
  std::vector<uint64_t> words_ = std::vector<uint64_t>(kLitmusBytes / 8);
  std::unique_ptr<Region> region_;
  std::unique_ptr<Worker> worker_;
};

TEST_F(LitmusTest, ASoundFabricPasses) {
  const LitmusReport report = run();
  EXPECT_TRUE(report.status().ok()) << report.status().ToString();
  EXPECT_GT(report.additions, 0u);
  EXPECT_GT(report.swaps, 0u);
  EXPECT_GT(report.reads_in_order, 0u);
  EXPECT_GT(report.reads, 0u);
  EXPECT_GT(report.unlocks, 0u);
  EXPECT_EQ(report.unlocks_lost, 0u) << "the processor's failed CAS stores nothing";
}

TEST_F(LitmusTest, NoTestIsEmptyHoweverShortTheTime) {
  const LitmusReport report = run(0);
  EXPECT_GE(report.additions, 2 * kLitmusRoundsMin);
  EXPECT_GT(report.swaps, 0u);
  EXPECT_GE(report.reads_in_order, kLitmusRoundsMin);
  EXPECT_GE(report.reads, kLitmusRoundsMin);
  EXPECT_GE(report.unlocks, kLitmusRoundsMin);
}

bool says(const LitmusReport& report, const char* what) {
  return report.status().IsNotSupported() && report.status().message().find(what) != std::string::npos;
}

TEST_F(LitmusTest, LostAdditionsAreNoticed) {
  expect_noticed(0, 0, [](const LitmusReport& report) { return says(report, "FAA is not atomic"); });
}

TEST_F(LitmusTest, LostSwapsAreNoticed) {
  expect_noticed(256, 0, [](const LitmusReport& report) { return says(report, "CAS is not atomic"); });
}

TEST_F(LitmusTest, BrokenOrderIsNoticed) {
  expect_noticed(1024, ~uint64_t{0}, [](const LitmusReport& report) { return says(report, "out of order"); });
}

TEST_F(LitmusTest, TornWordsAreNoticed) {
  expect_noticed(8184, 1, [](const LitmusReport& report) { return says(report, "words are torn"); });
}

TEST_F(LitmusTest, LostUnlocksAreNoticed) {
  expect_noticed(512, 1, [](const LitmusReport& report) { return report.unlocks_lost != 0; });
}

TEST_F(LitmusTest, ErrorsAreReported) {
  LitmusReport report;
  const auto client = network_.make_fabric();
  RemoteRegion small = region_->remote();
  small.bytes = 64;
  EXPECT_TRUE(run_litmus(*client, "server", {}, small, {}, &report).IsInvalidArgument());
  EXPECT_TRUE(
      run_litmus(*client, "nobody", {}, region_->remote(), {.phase_ms = 1, .limit_ms = 1}, &report).IsUnavailable());
  RemoteRegion stale = region_->remote();
  ++stale.key;
  EXPECT_TRUE(run_litmus(*client, "server", {}, stale, {}, &report).IsInvalidArgument());
}

}  // namespace
}  // namespace bonsai::rdma
