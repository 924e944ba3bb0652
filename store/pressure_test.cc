// SPDX-License-Identifier: Apache-2.0
// Back-pressure: what waits does not block what it waits for, and no call waits longer than it may.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/far.h"
#include "base/testing/running_time.h"
#include "base/testing/sanitized.h"
#include "base/units.h"
#include "bonsai/db.h"
#include "bonsai/session.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using base::kKiB;
using base::kMiB;

constexpr uint64_t kSlower = bonsai::testing::kSanitized ? 5 : 1;

std::string key_of(uint64_t i) { return "key" + std::to_string(100'000 + i); }

class PressureTest : public ::testing::Test {
 protected:
  void open(uint64_t pool_bytes, uint64_t log_bytes, uint32_t stall_ms_max) {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = pool_bytes;
    options.log_bytes = log_bytes;
    options.stall_ms_max = stall_ms_max;
    const Status status = open_db(options, path_, &db_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  // Runs body(0..n-1) on threads of their own until each has returned.
  template <class Body>
  static void in_threads(size_t n, Body body) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < n; ++i) threads.emplace_back([body, i] { body(i); });
    for (std::thread& thread : threads) thread.join();
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.pool(1);
  std::unique_ptr<DB> db_;
};

// Members of one group wait for the log that only offloading frees: the group must not hold it.
TEST_F(PressureTest, GroupsOnASmallLogAllSucceed) {
  constexpr size_t kThreads = 8, kGroup = 32;
  constexpr uint64_t kKeys = 4'000;
  open(8'192 * kKiB, 16 * kKiB, 60'000);  // only a deadlock takes as long
  const int calls = budget(300, 1'000, 20'000);
  std::atomic<uint64_t> failures{0};
  in_threads(kThreads, [&](size_t thread) {
    base::Random random(thread + 1);
    const auto session = db_->NewSession(kGroup);
    for (int call = 0; call < calls && failures.load() == 0; ++call) {
      std::vector<std::string> keys;
      for (size_t i = 0; i < kGroup; ++i) keys.push_back(key_of(random.below(kKeys)));
      std::vector<Status> statuses(kGroup);
      if (call % 2 == 0) {
        const std::vector<std::string_view> views(keys.begin(), keys.end());
        db_->MultiPut(views, views, statuses);
      } else {
        for (size_t i = 0; i < kGroup; ++i) {
          i % 4 == 0 ? session->Delete(keys[i], &statuses[i]) : session->Put(keys[i], keys[i], &statuses[i]);
        }
        session->Wait();
      }
      for (const Status& status : statuses) {
        if (!status.ok() && failures.fetch_add(1) == 0) ADD_FAILURE() << status.ToString();
      }
    }
  });
  EXPECT_EQ(failures.load(), 0U);
  ASSERT_TRUE(db_->Close().ok());
}

// Others delete all the time, in many ranges, so that there is always something to be offloaded, which succeeds and
// gives no space: a put that finds none waits for as long as it may, no longer, and gets an error.
TEST_F(PressureTest, APutBesideDeletersReturnsInTime) {
  constexpr uint64_t kStallMs = 300;
  // More that a call may take: a step of offloading on a busy machine. On a node, two processes take turns for it.
  const uint64_t kStepMs = 700 * kSlower * (shm_asked() ? 5 : 1);
  const uint64_t kGiveUpMs = 20 * (kStallMs + kStepMs);  // then the deleters end: what has no bound fails
  open(16 * kMiB, 0, kStallMs);
  uint64_t records = 0;
  while (db_->Put(key_of(records), std::string(500, 'v')).ok()) ++records;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> deletes{0}, refused{0};
  const RunningTime time;
  std::vector<std::thread> deleters;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    deleters.emplace_back([&, thread] {
      base::Random random(thread + 1);
      while (!stop.load() && time.ms() < kGiveUpMs) {
        const Status deleted = db_->Delete(key_of(random.below(records)) + "absent");
        EXPECT_TRUE(deleted.ok() || deleted.IsNoSpace()) << deleted.ToString();
        (deleted.ok() ? deletes : refused).fetch_add(1);
      }
    });
  }
  while (deletes.load() < 100) std::this_thread::yield();
  const int puts = budget(3, 6, 40), puts_max = 40;
  int done = 0, waited = 0;
  uint64_t longest_ms = 0;
  for (; done < puts || (waited == 0 && done < puts_max); ++done) {
    const uint64_t put_ns = base::now_ns(), put_ms = time.ms();
    const Status status = db_->Put("new", std::string(done % 2 == 0 ? 500 : 300'000, 'w'));
    longest_ms = std::max(longest_ms, time.ms() - put_ms);
    waited += base::now_ns() - put_ns >= kStallMs * base::kNsPerMs ? 1 : 0;
    EXPECT_TRUE(status.ok() || status.IsNoSpace()) << status.ToString();
  }
  std::printf("%llu records, %llu deletes; of %d puts %d waited for all of %llu ms, the longest took %llu ms\n",
              static_cast<unsigned long long>(records), static_cast<unsigned long long>(deletes.load()), done, waited,
              static_cast<unsigned long long>(kStallMs), static_cast<unsigned long long>(longest_ms));
  EXPECT_GT(waited, 0) << "no put waits: this shows nothing";
  EXPECT_LE(longest_ms, kStallMs + kStepMs);
  // A drain that updates outrun gives up after a count of ranges, which takes as long as the medium takes for them.
  const Stats before = db_->GetStats();
  const uint64_t drain_begin_ms = time.ms();
  const Status drained = db_->Drain();
  const uint64_t drain_ms = time.ms() - drain_begin_ms, offloads = db_->GetStats().offloads - before.offloads;
  const uint64_t offloads_max = 2 * (2 * before.bnodes + 1'000);  // twice, as background threads offload as well
  std::printf("the drain: %llu ms, %llu offloads; %llu bnodes\n", static_cast<unsigned long long>(drain_ms),
              static_cast<unsigned long long>(offloads), static_cast<unsigned long long>(before.bnodes));
  EXPECT_TRUE(drain_ms <= kStallMs + kStepMs || offloads <= offloads_max) << drained.ToString();
  EXPECT_TRUE(drained.ok() || drained.IsUnavailable()) << drained.ToString();
  stop.store(true);
  for (std::thread& deleter : deleters) deleter.join();
  EXPECT_LE(refused.load(), deletes.load() / 100) << "a busy machine may keep a delete from the log for kStallMs";
  const Status after = db_->Drain();
  EXPECT_TRUE(after.ok()) << after.ToString();
}

}  // namespace
}  // namespace bonsai::testing
