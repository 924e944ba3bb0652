// SPDX-License-Identifier: Apache-2.0
#include "persist/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "base/thread.h"
#include "base/units.h"
#include "persist/sites.h"
#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using Result = Log::Result;
using Use = Log::Use;
using testing::MemoryMedium;
using testing::MemoryPool;
using testing::Rig;

using base::kMiB;
constexpr uint64_t kGen = 100;  // above the root dnode's

Update put(std::string_view key, std::string_view value, uint32_t token = 0) {
  Update update;
  update.key = key;
  update.value = value;
  update.gen = kGen;
  update.token = token;
  return update;
}

// The live records of the pool as an analysis sees them now, as key -> value.
std::map<std::string, std::string> records_of(MemoryPool& pool, Rig* rig = nullptr) {
  Rig fresh({&pool.medium});
  Rig& used = rig != nullptr ? *rig : fresh;
  EXPECT_TRUE(used.analyse_only().ok());
  EXPECT_TRUE(used.analysis.damages.empty()) << damage_status(used.analysis.damages).ToString();
  std::map<std::string, std::string> found;
  for (const Tile& tile : used.analysis.tiles) {
    for (const LiveRecord& record : tile.records) found[std::string(record.update.key)] = record.update.value;
  }
  return found;
}

TEST(Log, AppendsComeBack) {
  MemoryPool pool;
  uint32_t segment = kNoSegment;
  ASSERT_EQ(pool.rig.log->append(put("a", "1"), Use::kOrdinary, &segment), Result::kOk);
  EXPECT_NE(segment, kNoSegment);
  ASSERT_EQ(pool.rig.log->append(put("b", "2"), Use::kOrdinary, &segment), Result::kOk);
  ASSERT_EQ(pool.rig.log->append_batch(std::vector{put("c", "3"), put("a", "4", 1)}, Use::kOrdinary, &segment),
            Result::kOk);
  EXPECT_EQ(records_of(pool), (std::map<std::string, std::string>{{"a", "4"}, {"b", "2"}, {"c", "3"}}));
}

TEST(Log, ARecordIsFencedBeforeAppendReturnsAndItsSegmentBefore) {
  if (!testing::stores_are_recorded()) GTEST_SKIP() << "what the fabric writes is no operation of the medium";
  MemoryPool pool;
  pool.medium.record(true);
  uint32_t segment = kNoSegment;
  ASSERT_EQ(pool.rig.log->append(put("a", "1"), Use::kOrdinary, &segment), Result::kOk);
  const MemoryMedium& m = pool.medium;
  EXPECT_LT(m.first('n', kSiteSegmentOpen), m.first('|', kSiteSegmentOpenFence));
  EXPECT_LT(m.first('|', kSiteSegmentOpenFence), m.first('n', kSiteLogAppend));
  EXPECT_LT(m.first('n', kSiteLogAppend), m.first('|', kSiteLogAppendFence));
  EXPECT_EQ(m.first('|', kSiteLogAppendFence), m.events().size() - 1);
  pool.medium.record(true);
  ASSERT_EQ(pool.rig.log->append(put("b", "1"), Use::kOrdinary, &segment), Result::kOk);
  EXPECT_EQ(m.events().size(), 2U) << "a put costs one non-temporal copy and one fence";
}

// Fills the log with ordinary records, then with reserved ones, then with batches; nothing is released meanwhile.
TEST(Log, EachUseFindsItFullAtItsOwnLimit) {
  MemoryPool pool(kMiB);
  Log& log = *pool.rig.log;
  const std::string value(900, 'v');
  const auto fill = [&](Use use) {
    std::set<uint32_t> segments;
    uint32_t segment = kNoSegment;
    for (int i = 0; i < 10'000; ++i) {
      const std::string key = "k" + std::to_string(i);
      const Result result = use == Use::kBatch ? log.append_batch(std::vector{put(key, value)}, use, &segment)
                                               : log.append(put(key, value), use, &segment);
      if (result == Result::kFull) break;
      segments.insert(segment);
    }
    return segments.size();
  };
  const size_t all = log.segments_free();
  EXPECT_EQ(all, log.segments());
  EXPECT_FALSE(log.full());
  EXPECT_EQ(fill(Use::kOrdinary), all - log.segments_reserved());
  EXPECT_TRUE(log.full());
  EXPECT_TRUE(log.low());
  fill(Use::kReserve);
  EXPECT_EQ(log.segments_free(), log.segments_reserved() / 2);
  fill(Use::kBatch);
  EXPECT_EQ(log.segments_free(), 0U);
  uint32_t segment = kNoSegment;
  pool.medium.record(true);
  EXPECT_EQ(log.append(put("k", value), Use::kOrdinary, &segment), Result::kFull);
  EXPECT_TRUE(pool.medium.events().empty()) << "full means that nothing was written";
}

// Wraps many times. Segments come back when their last record is released and no earlier, and live records are found.
// When the log is full, all of them are written again from the reserve, as offloading would make room.
TEST(Log, WrapsWhileRecordsDie) {
  base::Random random = testing::seeded_random(5);
  MemoryPool pool;
  Log& log = *pool.rig.log;
  std::map<std::string, std::pair<std::string, uint32_t>> alive;  // key -> value, segment
  uint32_t token = 0;
  const auto write = [&](const std::string& key, const std::string& value, Use use) {
    uint32_t segment = kNoSegment;
    if (log.append(put(key, value, ++token), use, &segment) == Result::kFull) return false;
    if (const auto it = alive.find(key); it != alive.end()) log.release(it->second.second);  // superseded
    alive[key] = {value, segment};
    return true;
  };
  int full = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = "k" + std::to_string(random.below(12));
    const std::string value(random.below(100), static_cast<char>('a' + i % 26));
    if (!write(key, value, Use::kOrdinary)) {
      ++full;
      const auto all = alive;
      for (const auto& [k, v] : all) ASSERT_TRUE(write(k, v.first, Use::kReserve)) << i;
      ASSERT_TRUE(write(key, value, Use::kOrdinary)) << i;
    }
    if (i % 20 != 0) continue;
    std::map<std::string, std::string> wanted;
    for (const auto& [k, v] : alive) wanted[k] = v.first;
    ASSERT_EQ(records_of(pool), wanted) << i;
  }
  EXPECT_GT(full, 3);
}

TEST(Log, ABatchKeepsItsSegmentUntilAllItsUpdatesAreDead) {
  MemoryPool pool;
  Log& log = *pool.rig.log;
  uint32_t segment = kNoSegment;
  ASSERT_EQ(log.append_batch(std::vector{put("a", "1"), put("b", "1"), put("c", "1")}, Use::kOrdinary, &segment),
            Result::kOk);
  EXPECT_TRUE(log.seal_all().ok());
  const size_t free = log.segments_free();
  log.release(segment, 2);
  EXPECT_EQ(log.segments_free(), free);
  log.release(segment);
  EXPECT_EQ(log.segments_free(), free + 1);
}

TEST(Log, SealAllNamesEveryEnd) {
  MemoryPool pool;
  uint32_t segment = kNoSegment;
  ASSERT_EQ(pool.rig.log->append(put("a", "1"), Use::kOrdinary, &segment), Result::kOk);
  Rig before({&pool.medium});
  records_of(pool, &before);
  EXPECT_FALSE(before.analysis.segments[segment].sealed);
  EXPECT_TRUE(pool.rig.log->seal_all().ok());
  Rig after({&pool.medium});
  EXPECT_EQ(records_of(pool, &after).size(), 1U);
  EXPECT_TRUE(after.analysis.segments[segment].sealed);
  EXPECT_EQ(after.analysis.segments[segment].end, kSegmentHeaderBytes + put("a", "1").record_bytes());
  EXPECT_EQ(after.analysis.segments[segment].live_records, 1);
}

TEST(Log, AdoptedSegmentsAreKeptUntilReleased) {
  MemoryPool pool;
  uint32_t segment = kNoSegment;
  ASSERT_EQ(pool.rig.log->append(put("a", "1"), Use::kOrdinary, &segment), Result::kOk);
  ASSERT_EQ(pool.rig.log->append(put("b", "1"), Use::kOrdinary, &segment), Result::kOk);
  Rig again({&pool.medium});
  ASSERT_TRUE(again.open().ok());
  const size_t all = again.log->segments();
  EXPECT_EQ(again.log->segments_free(), all - 1);
  uint32_t other = kNoSegment;
  ASSERT_EQ(again.log->append(put("c", "1"), Use::kOrdinary, &other), Result::kOk);
  EXPECT_NE(other, segment);
  again.log->release(segment);
  EXPECT_EQ(again.log->segments_free(), all - 2);
  again.log->release(segment);
  EXPECT_EQ(again.log->segments_free(), all - 1);
}

TEST(Log, ARecordOfTheLargestSizeFits) {
  MemoryPool pool;
  Log& log = *pool.rig.log;
  Update update = put("key", "");
  const std::string value(log.record_bytes_max() - update.record_bytes() - 8, 'v');
  update.value = value;
  uint32_t segment = kNoSegment;
  ASSERT_EQ(log.append(update, Use::kOrdinary, &segment), Result::kOk);
  EXPECT_EQ(records_of(pool)["key"], value);
}

// ---- mode buffered

TEST(LogDeathTest, ARecordIsReleasedOnceAndFromASegmentThatThereIs) {
  MemoryPool pool;
  Log& log = *pool.rig.log;
  EXPECT_DEATH(log.release(12'345), "broken invariant");
  EXPECT_DEATH(log.release(0, 0), "broken invariant");
  EXPECT_DEATH(log.release(0, 1), "broken invariant") << "nothing was appended there";
}

TEST(NoLog, TakesEverythingAndKeepsNothing) {
  Log::Config config;
  config.segment_bytes = 4096;
  const std::unique_ptr<Log> log = make_no_log(std::move(config));
  log->start(1, 1);
  const size_t segments = log->segments_free();
  const std::string large(1000, 'x');
  uint32_t segment = kNoSegment;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(log->append(put("key", large), Use::kOrdinary, &segment), Result::kOk);
    ASSERT_LT(segment, log->segments());
    if (i % 2 == 0) log->release(segment);
  }
  ASSERT_EQ(log->append_batch(std::vector{put("c", "3"), put("a", "4", 1)}, Use::kBatch, &segment), Result::kOk);
  log->release(segment, 2);
  EXPECT_EQ(log->segments_free(), segments);
  EXPECT_FALSE(log->low());
  EXPECT_FALSE(log->full());
  EXPECT_TRUE(log->close_epoch().ok());
  EXPECT_TRUE(log->seal_all().ok());
}

TEST(BufferedLog, AnAppendCostsNoFenceAndCountsOnceItsEpochIsClosed) {
  if (bonsai::testing::other_side_asked()) GTEST_SKIP() << "stores that were not fenced are not on the other side";
  MemoryPool pool(kPoolBytesMin, true);
  Log& log = *pool.rig.log;
  uint32_t segment = kNoSegment;
  ASSERT_EQ(log.append(put("a", "1"), Use::kOrdinary, &segment), Result::kOk);
  pool.medium.record(true);
  ASSERT_EQ(log.append(put("b", "1"), Use::kOrdinary, &segment), Result::kOk);
  EXPECT_EQ(pool.medium.events().size(), 1U);
  EXPECT_TRUE(records_of(pool).empty());
  pool.medium.record(true);
  ASSERT_TRUE(log.close_epoch().ok());
  const MemoryMedium& m = pool.medium;
  EXPECT_LT(m.first('f', kSiteEpochFlush), m.first('|', kSiteEpochFlushFence));
  EXPECT_LT(m.first('|', kSiteEpochFlushFence), m.first('f', kSiteEpochClose));
  EXPECT_LT(m.first('f', kSiteEpochClose), m.first('|', kSiteEpochCloseFence));
  EXPECT_EQ(records_of(pool).size(), 2U);
  ASSERT_EQ(log.append(put("c", "1"), Use::kOrdinary, &segment), Result::kOk);
  Rig rig({&pool.medium});
  EXPECT_EQ(records_of(pool, &rig).size(), 2U) << "an open epoch does not count";
  EXPECT_TRUE(rig.analysis.segments[segment].truncate);
}

TEST(BufferedLog, ActionsWaitForTheirEpoch) {
  MemoryPool pool(kPoolBytesMin, true);
  int ran = 0;
  pool.rig.log->when_durable([&] { ++ran; });
  EXPECT_EQ(ran, 0);
  ASSERT_TRUE(pool.rig.log->close_epoch().ok());
  EXPECT_EQ(ran, 1);
  ASSERT_TRUE(pool.rig.log->close_epoch().ok());
  EXPECT_EQ(ran, 1);
  MemoryPool durable;
  durable.rig.log->when_durable([&] { ++ran; });
  EXPECT_EQ(ran, 2) << "mode durable: at once";
  EXPECT_TRUE(durable.rig.log->close_epoch().ok());
}

TEST(BufferedLog, CountsUpdatesThatWaitedTooLongForTheirEpochsEnd) {
  MemoryPool pool(kPoolBytesMin, true);  // with a window of 0
  Log& log = *pool.rig.log;
  ASSERT_TRUE(log.close_epoch().ok());
  EXPECT_EQ(log.window_excesses(), 0U) << "nobody has waited";
  uint32_t segment = kNoSegment;
  ASSERT_EQ(log.append(put("a", "1"), Use::kOrdinary, &segment), Result::kOk);
  base::sleep_ms(2);
  ASSERT_TRUE(log.close_epoch().ok());
  EXPECT_EQ(log.window_excesses(), 1U);
  EXPECT_GE(log.window_us_max(), 2'000U);
  const uint64_t us = log.window_us_max();
  base::sleep_us(4 * us);
  ASSERT_TRUE(log.close_epoch().ok());
  EXPECT_EQ(log.window_excesses(), 1U);
  EXPECT_EQ(log.window_us_max(), us);
}

TEST(BufferedLog, ADeadSegmentIsFreeOnceTheEpochIsClosed) {
  MemoryPool pool(kPoolBytesMin, true);
  Log& log = *pool.rig.log;
  uint32_t segment = kNoSegment;
  ASSERT_EQ(log.append(put("a", "1"), Use::kOrdinary, &segment), Result::kOk);
  EXPECT_TRUE(log.seal_all().ok());
  const size_t free = log.segments_free();
  log.release(segment);
  EXPECT_EQ(log.segments_free(), free) << "the newer record that made it dead is not durable yet";
  ASSERT_TRUE(log.close_epoch().ok());
  EXPECT_EQ(log.segments_free(), free + 1);
}

// An append that is stalled inside the medium holds its stream: the closer gives up after its bound, leaves nothing
// flushed and not fenced (the next closer may be another thread), and a later close makes all of it durable.
class StallingMedium final : public base::HookedMedium {
 public:
  explicit StallingMedium(MemoryMedium* below) : HookedMedium(below->view(), below->bytes()), below_(*below) {}
  void store8(std::byte* dst, uint64_t value) override { below_.store8(dst, value); }
  void copy(std::byte* dst, const void* src, size_t n) override {
    if (stall.load()) {
      stalled.store(true);
      while (stall.load()) std::this_thread::yield();
    }
    below_.copy(dst, src, n);
  }
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site& s) override {
    below_.nt_copy(dst, src, n, s);
  }
  void flush(const std::byte* dst, size_t n, const base::Site& s) override { below_.flush(dst, n, s); }
  bool fence(const base::Site& s) override { return below_.fence(s); }
  std::atomic<bool> stall{false}, stalled{false};

 private:
  MemoryMedium& below_;
};

TEST(BufferedLog, AClosersBoundedWaitEndsWithAFence) {
  if (bonsai::testing::other_side_asked()) GTEST_SKIP() << "an append that stalls does so on this side";
  MemoryMedium memory(kMiB);
  StallingMedium medium(&memory);
  Rig rig({&medium}, true);
  ASSERT_TRUE(rig.format().ok());
  ASSERT_TRUE(rig.open().ok());
  const auto append_elsewhere = [&](const char* key) {
    uint32_t segment = kNoSegment;
    EXPECT_EQ(rig.log->append(put(key, "1"), Use::kOrdinary, &segment), Result::kOk);
  };
  static_cast<void>(base::thread_ordinal());
  append_elsewhere("a");  // stream of this thread, the first one
  medium.stall = true;
  std::thread held([&] { append_elsewhere("b"); });  // a later stream
  while (!medium.stalled.load()) std::this_thread::yield();
  memory.record(true);
  EXPECT_TRUE(rig.log->close_epoch().IsUnavailable());
  EXPECT_LT(memory.first('f', kSiteEpochFlush), memory.events().size()) << "the first stream was flushed";
  EXPECT_EQ(memory.first('|', kSiteEpochFlushFence), memory.events().size() - 1);
  medium.stall = false;
  held.join();
  EXPECT_TRUE(rig.log->close_epoch().ok());
  Rig again({&memory});
  ASSERT_TRUE(again.analyse_only().ok());
  ASSERT_EQ(again.analysis.tiles.size(), 1U);
  EXPECT_EQ(again.analysis.tiles[0].records.size(), 2U);
}

// ---- threads

void run_threads(bool buffered) {
  MemoryPool pool(4 * kMiB, buffered);
  Log& log = *pool.rig.log;
  constexpr uint32_t kThreads = 6;
  constexpr uint32_t kAppends = 2000;
  std::atomic<uint32_t> running{kThreads};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(t);
      uint32_t last_segment = kNoSegment;
      for (uint32_t i = 1; i <= kAppends;) {
        const std::string key = "thread" + std::to_string(t);
        const std::string value = std::to_string(i);
        uint32_t segment = kNoSegment;
        if (log.append(put(key, value, i), Use::kOrdinary, &segment) == Result::kFull) {
          ASSERT_TRUE(buffered) << "each thread keeps one record alive";
          base::yield_thread();
          continue;
        }
        if (last_segment != kNoSegment) log.release(last_segment);
        last_segment = segment;
        ++i;
      }
      running.fetch_sub(1);
    });
  }
  std::atomic<uint32_t> actions{0};
  do {
    EXPECT_TRUE(log.close_epoch().ok());
    log.when_durable([&] { actions.fetch_add(1); });
    base::yield_thread();
  } while (running.load() > 0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(log.close_epoch().ok());
  EXPECT_TRUE(log.seal_all().ok());
  EXPECT_GT(actions.load(), 0U);
  const auto records = records_of(pool);
  ASSERT_EQ(records.size(), kThreads);
  for (const auto& [key, value] : records) EXPECT_EQ(value, std::to_string(kAppends)) << key;
}

TEST(LogThreads, Durable) { run_threads(false); }
TEST(LogThreads, Buffered) { run_threads(true); }

}  // namespace
}  // namespace bonsai::persist
