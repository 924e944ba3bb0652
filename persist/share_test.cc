// SPDX-License-Identifier: Apache-2.0
// Batches over several segments: all of one counts or nothing, its segments live and die together, and a share that is
// missing is distinguished from a crash.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "persist/sites.h"
#include "persist/testing.h"
#include "persist/words.h"

namespace bonsai::persist {
namespace {

using Result = Log::Result;
using testing::Content;
using testing::MemoryPool;
using testing::Rig;

constexpr uint64_t kShareGen = 100;  // above the root dnode's
constexpr size_t kUpdates = 40;

std::string key_of(size_t i) { return "key" + std::to_string(1000 + i); }

// A pool whose log has segments of 4 KiB, and a batch of several of them.
class Shares : public ::testing::TestWithParam<bool> {
 public:
  Shares() : pool(kPoolBytes, GetParam()) {
    for (size_t i = 0; i < kUpdates; ++i) {
      keys_.push_back(key_of(i));
      Update update;
      update.key = keys_.back();
      update.value = kValue;
      update.gen = kShareGen;
      update.token = static_cast<uint32_t>(i + 1);
      updates.push_back(update);
      all[keys_.back()] = kValue;
    }
  }

  // Writes the batch into segments of its own.
  void write() {
    Log::Packing packing(*pool.rig.log);
    for (const Update& update : updates) packing.add(update.key.size() + update.value.size() + kUpdateOverheadBytesMax);
    ASSERT_GT(packing.segments(), 2u);
    ASSERT_EQ(pool.rig.log->take(packing.segments() + 1, &segments), Result::kOk);
    const size_t free = pool.rig.log->segments_free();
    ASSERT_EQ(pool.rig.log->append_shares(updates, segments, &home), Result::kOk);
    EXPECT_EQ(home, segments.front());
    EXPECT_GE(pool.rig.log->segments_free(), free + 1) << "what is not needed is free again";
    segments.resize(segments.size() - (pool.rig.log->segments_free() - free));
    for (size_t i = 0; i < segments.size(); ++i) {  // so that tests can change them in place
      ASSERT_TRUE(pool.rig.volume.fetch(place(i), pool.rig.log->segment_bytes()).ok());
    }
  }
  // The content that an analysis finds; nothing if there is damage.
  std::optional<Content> content() {
    Rig fresh({&pool.medium});
    EXPECT_TRUE(fresh.analyse_only().ok());
    return analysed_content(fresh);
  }
  scale::Addr place(size_t share) { return pool.rig.pool.segments()[segments[share]]; }
  uint64_t sequence(size_t share) { return load_word(pool.rig.volume, place(share)).value_or(0); }
  // Makes the log table say that the share's segment was opened, and nothing more.
  void enter(size_t share, uint64_t sequence) {
    const scale::Addr entry = pool.rig.pool.entries()[segments[share]];
    store_entry(pool.rig.volume, entry, sequence, kSegmentHeaderBytes, false);
    bring(entry, sizeof(SegmentEntry));
  }
  // Makes the bytes stored there reach the other side, if there is one.
  void bring(scale::Addr at, uint64_t bytes) {
    pool.rig.volume.flush(at, bytes, kSiteSegmentOpen);
    EXPECT_TRUE(pool.rig.volume.fence(kSiteSegmentOpenFence));
  }

  static constexpr uint64_t kPoolBytes = uint64_t{1} << 20;
  inline static const std::string kValue = std::string(300, 'v');

  MemoryPool pool;
  std::vector<Update> updates;
  Content all;
  std::vector<uint32_t> segments;
  uint32_t home = kNoSegment;

 private:
  std::deque<std::string> keys_;
};

TEST_P(Shares, AllCountsOnceItsEpochIsClosed) {
  write();
  EXPECT_EQ(content(), GetParam() ? Content() : all) << "the epoch is open";
  ASSERT_TRUE(pool.rig.log->close_epoch().ok());
  EXPECT_EQ(content(), all);
}

// As a crash leaves it in which a share did not get there: no end is named yet, and no epoch closed.
TEST_P(Shares, OneThatIsMissingInACrashTakesTheOthersWithIt) {
  write();
  for (size_t i = 0; i < segments.size(); ++i) enter(i, sequence(i));
  const scale::Addr first_word = place(1) + kSegmentHeaderBytes + (GetParam() ? kEpochRecordBytes : 0);
  pool.rig.volume.store8(first_word, 0);
  bring(first_word, sizeof(uint64_t));
  EXPECT_EQ(content(), Content());
  Rig recovered({&pool.medium}, GetParam());
  ASSERT_TRUE(recovered.open().ok());
  EXPECT_EQ(content(), Content()) << "what is left is truncated for good";
  EXPECT_EQ(recovered.log->segments_free(), recovered.log->segments());
}

// Once sealed, all of them were durable: a missing one was lost.
TEST_P(Shares, OneThatIsMissingLaterIsDamage) {
  write();
  ASSERT_TRUE(pool.rig.log->close_epoch().ok());
  store_word(pool.rig.volume, place(2), sequence(0) + 100);  // as if it were used again
  bring(place(2), sizeof(uint64_t));
  enter(2, sequence(0) + 100);
  EXPECT_EQ(content(), std::nullopt);
}

TEST_P(Shares, OneThatIsUsedAgainIsNoDamageBecauseAllIsDead) {
  write();
  ASSERT_TRUE(pool.rig.log->close_epoch().ok());
  // A dnode has it all, and then the segments are free.
  testing::Entries entries;
  for (const auto& [key, value] : all) entries.put(key, value);
  DnodeWriter writer(*pool.rig.store);
  Dnode* dnode = nullptr;
  ASSERT_TRUE(writer.add(base::Fence(), base::Fence::infinite(), kShareGen, nullptr, entries.list(), &dnode).ok());
  std::vector<std::unique_ptr<Dnode>> fresh;
  ASSERT_TRUE(writer.commit(&fresh).ok());
  ASSERT_TRUE(pool.rig.store->retire({pool.rig.ranges[0].dnode.get()}).ok());
  const size_t free = pool.rig.log->segments_free();
  pool.rig.log->release(home, kUpdates - 1);
  EXPECT_EQ(pool.rig.log->segments_free(), free);
  pool.rig.log->release(home);
  ASSERT_TRUE(pool.rig.log->close_epoch().ok());
  EXPECT_EQ(pool.rig.log->segments_free(), free + segments.size()) << "all at once";
  uint32_t used = kNoSegment;
  ASSERT_EQ(pool.rig.log->append(updates[0], Log::Use::kOrdinary, &used), Result::kOk);
  EXPECT_EQ(std::set<uint32_t>(segments.begin(), segments.end()).count(used), 1u);
  EXPECT_EQ(content(), all);
}

TEST_P(Shares, RecoveryKeepsAllUntilTheLastRecordDies) {
  write();
  ASSERT_TRUE(pool.rig.log->close_epoch().ok());
  for (int life = 0; life < 2; ++life) {
    Rig recovered({&pool.medium}, GetParam());
    ASSERT_TRUE(recovered.open().ok());
    EXPECT_EQ(recovered_content(recovered), all);
    EXPECT_EQ(recovered.log->segments_free(), recovered.log->segments() - segments.size());
    for (const LiveRecord& record : recovered.ranges[0].records) EXPECT_EQ(record.segment, home);
    if (life == 0) continue;
    recovered.log->release(home, kUpdates);
    ASSERT_TRUE(recovered.log->close_epoch().ok());
    EXPECT_EQ(recovered.log->segments_free(), recovered.log->segments());
  }
}

TEST_P(Shares, NoneIsGivenWhileOthersAreReservedAndWhoWaitsIsHeard) {
  Log& log = *pool.rig.log;
  std::vector<uint32_t> first, second;
  ASSERT_EQ(log.take(log.batch_segments_max(), &first), Result::kOk);
  EXPECT_EQ(first.size(), log.batch_segments_max());
  EXPECT_EQ(log.take(log.batch_segments_max(), &second), Result::kFull);
  EXPECT_TRUE(second.empty());
  EXPECT_TRUE(log.low()) << "somebody waits";
  uint32_t segment = kNoSegment;
  EXPECT_EQ(log.append(updates[0], Log::Use::kOrdinary, &segment), Result::kFull) << "left to who waits";
  EXPECT_EQ(log.append(updates[0], Log::Use::kReserve, &segment), Result::kOk) << "deletes go on";
  log.give_back(first);
  EXPECT_EQ(log.take(log.batch_segments_max(), &second), Result::kOk);
  log.give_back(second);
  EXPECT_EQ(log.append(updates[0], Log::Use::kOrdinary, &segment), Result::kOk);
  EXPECT_FALSE(log.low());
}

INSTANTIATE_TEST_SUITE_P(, Shares, ::testing::Bool(),
                         [](const auto& level) { return level.param ? "Buffered" : "Durable"; });

// The bound is at least a quarter of any log, for updates of any size.
TEST(LogBatches, AreBoundedByAQuarterOfTheLogOrMore) {
  for (const uint64_t log_bytes : {16u << 10, 20u << 10, 28u << 10, 64u << 10, 1u << 20, 8u << 20, 32u << 20}) {
    MemoryPool pool(uint64_t{64} << 20, false, log_bytes);
    const Log& log = *pool.rig.log;
    EXPECT_GE(4 * log.batch_bytes_max(), log.segments() * log.segment_bytes()) << log_bytes;
    const uint64_t large = pool.rig.pool.limits().large_value_bytes_min;
    for (const uint64_t bytes : {uint64_t{33}, uint64_t{132}, large / 2, large + kKeyBytesMax + 31}) {
      Log::Packing packing(log);
      for (uint64_t sum = bytes; sum <= log.batch_bytes_max(); sum += bytes) packing.add(bytes);
      EXPECT_LE(packing.segments(), log.batch_segments_max()) << log_bytes << " in updates of " << bytes;
    }
  }
}

}  // namespace
}  // namespace bonsai::persist
