// SPDX-License-Identifier: Apache-2.0
// Stalls: they end when they must and not before, also when the process was stopped or a reader does not run.
#include "store/stall.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "bonsai/db.h"
#include "store/testing/failing_disk.h"

namespace bonsai::store {
namespace {

// The clock of this thread, while it exists.
class FakeClock {
 public:
  FakeClock() { base::virtual_now_ns = &now_ns_; }
  ~FakeClock() { base::virtual_now_ns = nullptr; }
  FakeClock(const FakeClock&) = delete;
  FakeClock& operator=(const FakeClock&) = delete;
  void jump_ms(uint64_t ms) { now_ns_ += ms * base::kNsPerMs; }

 private:
  uint64_t now_ns_ = base::kNsPerSecond;
};

// A process is stopped while an update waits: that is no reason to give up, and the bound alone is none before the
// update has tried once more.
TEST(Stall, OutlivesAJumpOfTheClockAndAllowsALastTry) {
  Options options;
  options.pool_bytes = testing::kPoolBytes;
  options.background_threads = 0;
  options.stall_ms_max = 1000;
  std::unique_ptr<base::Mapping> mapping;
  ASSERT_TRUE(base::Mapping::make_in_memory("the pool", testing::kPoolBytes, &mapping).ok());
  testing::Disk disk(std::vector<std::byte>(testing::kPoolBytes), 1);
  disk.attach(mapping->data());
  std::vector<std::unique_ptr<base::HookedMedium>> media;
  media.push_back(std::make_unique<testing::DirtyMedium>(&disk, *mapping));
  std::unique_ptr<Tiers> tiers;
  ASSERT_TRUE(open_tiers_on(options, std::move(media), true, &tiers).ok());
  Counters counters;
  Background background(options, *tiers, counters);
  FakeClock clock;
  Stall stall(options, background, counters);
  ASSERT_TRUE(stall.wait(false));
  clock.jump_ms(3'600'000);
  EXPECT_TRUE(stall.wait(false)) << "one stop of the process ended the stall";
  int more = 0;
  for (; stall.wait(false); ++more) clock.jump_ms(250);
  EXPECT_GE(more, 3) << "a quarter of the bound had passed";
  EXPECT_LE(more, 5);
  stall.progress();
  EXPECT_TRUE(stall.wait(false)) << "a stall of another update begins anew";
  clock.jump_ms(999);
  EXPECT_TRUE(stall.wait(false));
}

// One value is overwritten again and again. The replaced values wait for a reader that does not run for a while.
TEST(Stall, WaitsForAReaderThatHoldsBackSpace) {
  for (const size_t value_bytes : {size_t{10'000}, size_t{1} << 20}) {
    const testing::TempFolder folder;
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = uint64_t{16} << 20;
    options.stall_ms_max = 60'000;  // of a busy machine
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options, folder.file("pool"), &db).ok());
    ASSERT_TRUE(db->Put("key", std::string(value_bytes, 'v')).ok());
    std::atomic<bool> reading{false}, ended{false};
    std::thread reader([&] {
      EXPECT_TRUE(db->Scan(ScanOptions(), {}, [&](std::string_view, std::string_view) {
                      reading.store(true);
                      while (db->GetStats().stalls == 0 && !ended.load()) base::sleep_ms(1);
                      base::sleep_ms(400);
                      return true;
                    }).ok());
      ended.store(true);
    });
    while (!reading.load()) base::sleep_ms(1);
    uint64_t puts = 0;
    Status status;
    for (; status.ok() && !ended.load(); ++puts) {
      status = db->Put("key", std::string(value_bytes, static_cast<char>('a' + puts % 26)));
    }
    EXPECT_TRUE(status.ok()) << "put " << puts << ": " << status.ToString();
    ended.store(true);
    reader.join();
    EXPECT_GT(db->GetStats().stalls, 0U);
    EXPECT_TRUE(db->Close().ok());
  }
}

}  // namespace
}  // namespace bonsai::store
