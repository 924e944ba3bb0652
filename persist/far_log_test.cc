// SPDX-License-Identifier: Apache-2.0
// The log of a pool on a far target: which of its bytes this node holds, and which an analysis reads. Each rule is left
// out once (testing/mutants.h), and this must notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/nvm/far.h"
#include "base/testing/planted_fault.h"
#include "base/thread.h"
#include "base/units.h"
#include "persist/log.h"
#include "persist/sites.h"
#include "persist/testing.h"
#include "persist/testing/mutants.h"
#include "persist/words.h"

namespace bonsai::persist {
namespace {

using Result = Log::Result;
using Use = Log::Use;
using base::kMiB;
using testing::Content;
using testing::MemoryMedium;
using testing::MemoryPool;
using testing::Rig;

Update put(std::string_view key, std::string_view value, uint32_t token = 0) {
  Update update;
  update.key = key;
  update.value = value;
  update.gen = 100;  // above the root dnode's
  update.token = token;
  return update;
}

// Calls `before` before each fence.
class WatchedFences final : public base::HookedMedium {
 public:
  explicit WatchedFences(base::HookedMedium& to) : HookedMedium(to.view(), to.bytes()), to_(to) {}
  void store8(std::byte* dst, uint64_t value) override { to_.store8(dst, value); }
  void copy(std::byte* dst, const void* src, size_t n) override { to_.copy(dst, src, n); }
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site& site) override {
    to_.nt_copy(dst, src, n, site);
  }
  void flush(const std::byte* dst, size_t n, const base::Site& site) override { to_.flush(dst, n, site); }
  bool fence(const base::Site& site) override {
    if (before) before(site);
    return to_.fence(site);
  }
  [[nodiscard]] base::FarReads* far() override { return to_.far(); }

  std::function<void(const base::Site& site)> before;

 private:
  base::HookedMedium& to_;
};

// A pool on a far target. What is lost on the way there, or is not read from there, is missing in found().
struct FarPool {
  explicit FarPool(bool buffered = false) : rig({&watched}, buffered) {
    BONSAI_CHECK(rig.format(/*log_bytes=*/4 * kMiB).ok() && rig.open().ok());
  }
  // What another node finds there, reading it over the fabric; a text instead if it is damaged.
  [[nodiscard]] std::pair<Content, std::string> found() {
    base::FarMedium reading(memory, {.seed = 5});
    Rig again({&reading});
    if (const Status status = again.analyse_only(); !status.ok()) return {{}, status.ToString()};
    if (!again.analysis.damages.empty()) return {{}, damage_status(again.analysis.damages).ToString()};
    return {analysed_content(again).value_or(Content()), ""};
  }

  MemoryMedium memory{16 * kMiB};
  base::FarMedium far{memory, {.seed = 3}};
  WatchedFences watched{far};
  Rig rig;
};

// Of the log only segments that are open are in this node's memory, and those that wait for an epoch's end.
void expect_open_segments_resident(bool buffered) {
  FarPool pool(buffered);
  Rig& rig = pool.rig;
  Log& log = *rig.log;
  const uint64_t without_log = rig.volume.resident_bytes();
  EXPECT_LT(without_log, rig.pool.superblocks[0].log_offset + 4 * rig.pool.superblocks[0].extent_bytes);
  const std::string value(log.segment_bytes() / 4, 'v');
  uint64_t resident_max = 0;
  uint32_t last = kNoSegment, segment = kNoSegment;
  for (uint32_t i = 1; i <= 8 * log.segments(); ++i) {
    ASSERT_EQ(log.append(put("key", value, i), Use::kOrdinary, &segment), Result::kOk);
    if (last != kNoSegment) log.release(last);
    last = segment;
    resident_max = std::max(resident_max, rig.volume.resident_bytes());
    if (i % 3 == 0) {
      ASSERT_TRUE(log.close_epoch().ok());
    }
  }
  ASSERT_TRUE(log.close_epoch().ok());
  EXPECT_GT(resident_max, without_log);
  EXPECT_LE(resident_max, without_log + (buffered ? 3 : 2) * log.segment_bytes());
  EXPECT_LE(rig.volume.resident_bytes(), without_log + log.segment_bytes());
  const auto [content, damage] = pool.found();
  EXPECT_EQ(damage, "");
  EXPECT_EQ(content, (Content{{"key", value}}));
}

TEST(FarLog, OpenSegmentsAloneAreResident) { expect_open_segments_resident(false); }
TEST(FarLog, SegmentsStayUntilAnEpochIsClosed) { expect_open_segments_resident(true); }

// An epoch's closer has begun to flush an open segment. Before its fence an append on another thread seals the segment.
bool keeps_what_a_closer_flushes() {
  FarPool pool(/*buffered=*/true);
  Log& log = *pool.rig.log;
  const std::string value(log.segment_bytes() / 4, 'v');
  Content expected{{"0", value}};
  uint32_t first = kNoSegment, segment = kNoSegment;
  EXPECT_EQ(log.append(put("0", value), Use::kOrdinary, &first), Result::kOk);
  const auto seal_first = [&] {
    for (segment = first; segment == first;) {
      const std::string key = std::to_string(expected.size());
      ASSERT_EQ(log.append(put(key, value), Use::kOrdinary, &segment), Result::kOk);
      expected[key] = value;
    }
  };
  std::atomic<bool> flushed{false}, sealed{false};
  pool.watched.before = [&](const base::Site& site) {
    if (site.name != kSiteEpochFlushFence.name) return;
    flushed = true;
    while (!sealed.load()) base::yield_thread();
  };
  std::thread closer([&] { EXPECT_TRUE(log.close_epoch().ok()); });
  while (!flushed.load()) base::yield_thread();
  seal_first();
  sealed = true;
  closer.join();
  EXPECT_GT(expected.size(), 2u);
  EXPECT_TRUE(log.close_epoch().ok());
  const auto [content, damage] = pool.found();
  return damage.empty() && content == expected;
}

// The last record follows the noted end, so that a window ends within it.
bool reads_records_longer_than_a_window() {
  FarPool pool;
  Log& log = *pool.rig.log;
  const std::string value(log.record_bytes_max() / 16, 'v');
  std::vector<Update> updates;
  std::vector<std::string> keys;
  for (int i = 0; i < 12; ++i) keys.push_back("key " + std::to_string(i));
  Content expected{{"before", "1"}};
  for (const std::string& key : keys) {
    updates.push_back(put(key, value));
    expected[key] = value;
  }
  EXPECT_GT(updates.size() * value.size(), 4096u) << "the smallest window";
  uint32_t segment = kNoSegment;
  EXPECT_EQ(log.append(put("before", "1"), Use::kOrdinary, &segment), Result::kOk);
  EXPECT_EQ(log.append_batch(updates, Use::kOrdinary, &segment), Result::kOk);
  const auto [content, damage] = pool.found();
  return damage.empty() && content == expected;
}

// In a pool that was closed a seal is exchanged for that of a segment without records: both are sound by themselves.
bool notices_a_changed_seal() {
  MemoryPool pool;
  Rig& rig = pool.rig;
  uint32_t segment = kNoSegment;
  EXPECT_EQ(rig.log->append(put("key", "value"), Use::kOrdinary, &segment), Result::kOk);
  EXPECT_TRUE(rig.log->seal_all().ok());
  EXPECT_TRUE(write_clean_state(rig.volume, rig.pool).ok());
  Rig closed({&pool.medium});
  EXPECT_TRUE(closed.analyse_only().ok());
  EXPECT_TRUE(closed.analysis.clean && closed.analysis.damages.empty());
  EXPECT_EQ(closed.analysis.log_records, 1u);
  const scale::Addr entry = rig.pool.entries()[segment];
  store_entry(rig.volume, entry, closed.analysis.segments[segment].sequence, kSegmentHeaderBytes, true);
  Rig changed({&pool.medium});
  EXPECT_TRUE(changed.analyse_only().ok());
  EXPECT_EQ(changed.analysis.log_records, 0u);
  return !changed.analysis.damages.empty();
}

TEST(FarLog, ASealAmidTheEndOfAnEpochLosesNothing) { EXPECT_TRUE(keeps_what_a_closer_flushes()); }
TEST(FarLog, RecordsLongerThanAWindowAreRead) { EXPECT_TRUE(reads_records_longer_than_a_window()); }
TEST(FarLog, AChangedSealOfAClosedPoolIsDamage) { EXPECT_TRUE(notices_a_changed_seal()); }

TEST(FarLog, TheLossOfEachRuleIsNoticed) {
  bonsai::testing::expect_found({
      {"a sealed segment is given back early", kBlankClosedEarly, [] { return !keeps_what_a_closer_flushes(); }},
      {"a window that is too small", kWindowNotWidened, [] { return !reads_records_longer_than_a_window(); }},
      {"a summary without sealed segments", kSealedNotSummed, [] { return !notices_a_changed_seal(); }},
  });
}

// The seal of a free segment says that it has no records. Once the pool was closed, nothing of it is read any more.
TEST(FarLog, AClosedPoolsFreeSegmentsAreNotTouched) {
  MemoryPool pool;
  Rig& rig = pool.rig;
  uint32_t dead = kNoSegment, live = kNoSegment;
  const std::string value(rig.log->segment_bytes() / 2, 'v');
  ASSERT_EQ(rig.log->append(put("a", value), Use::kOrdinary, &dead), Result::kOk);
  ASSERT_EQ(rig.log->append(put("a", value, 1), Use::kOrdinary, &live), Result::kOk);
  ASSERT_NE(dead, live);
  rig.log->release(dead);
  ASSERT_TRUE(rig.log->seal_all().ok());
  std::byte* const bytes = pool.medium.view() + rig.pool.segments()[dead].offset();
  std::memset(bytes + kSegmentHeaderBytes, 0xee, 100);
  const auto expect_content = [&](bool clean) {
    Rig found({&pool.medium});
    ASSERT_TRUE(found.analyse_only().ok());
    EXPECT_EQ(found.analysis.clean, clean);
    EXPECT_EQ(analysed_content(found), (Content{{"a", value}}));
    EXPECT_EQ(found.analysis.segments[dead].end, kSegmentHeaderBytes);
    EXPECT_EQ(found.analysis.log_records, 1U);
  };
  expect_content(false);
  ASSERT_TRUE(write_clean_state(rig.volume, rig.pool).ok());
  expect_content(true);
  std::memset(bytes, 0xee, kSegmentHeaderBytes);
  expect_content(true);
  ASSERT_TRUE(write_run_state(rig.volume, rig.pool, RunState::kOpenDurable).ok());
  Rig open({&pool.medium});
  ASSERT_TRUE(open.analyse_only().ok());
  EXPECT_EQ(open.analysis.damages.size(), 1u) << "the word of one that may be in use";
}

}  // namespace
}  // namespace bonsai::persist
