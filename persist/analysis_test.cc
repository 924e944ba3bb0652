// SPDX-License-Identifier: Apache-2.0
// The analysis: the outcome does not depend on threads, keys find their tiles, progress is reported.
#include "persist/analysis.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/nvm/far.h"
#include "base/thread.h"
#include "persist/testing.h"
#include "persist/words.h"

namespace bonsai::persist {
namespace {

using base::Fence;
using base::Key;
using testing::Entries;
using testing::MemoryPool;
using testing::Rig;

// Keys of which many share their first eight bytes, which tables of heads cannot distinguish.
std::string key_of(uint64_t i) { return (i % 2 == 0 ? "a" : "the same head ") + std::to_string(100'000 + i); }

// A pool of many dnodes, the log of which has records for each.
class AnalysisTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kKeys = 600;

  AnalysisTest() : pool_(uint64_t{4} << 20) {
    std::vector<std::string> cuts = {""};
    for (uint64_t i = 0; i < kKeys; i += 7) cuts.push_back(key_of(i));
    std::sort(cuts.begin(), cuts.end());
    DnodeWriter writer(*pool_.rig.store);
    for (size_t i = 0; i < cuts.size(); ++i) {
      const Fence hi = i + 1 < cuts.size() ? Fence(cuts[i + 1]) : Fence::infinite();
      Dnode* dnode = nullptr;
      EXPECT_TRUE(writer.add(Fence(cuts[i]), hi, 5 + i % 3, nullptr, {}, &dnode).ok());
    }
    dnodes_ = testing::committed(writer);
    for (uint64_t i = 0; i < kKeys; ++i) {
      const std::string key = key_of(i);
      Update update;
      update.key = key;
      update.value = "value";
      update.gen = 5 + i % 4;  // some are older than the dnode of their range
      update.token = static_cast<uint32_t>(i);
      uint32_t segment = kNoSegment;
      EXPECT_EQ(pool_.rig.log->append(update, Log::Use::kOrdinary, &segment), Log::Result::kOk);
    }
  }

  Analysis analysed(const AnalysisOptions& options = {}) {
    Rig& rig = *rigs_.emplace_back(std::make_unique<Rig>(std::vector<base::HookedMedium*>{&pool_.medium}));
    EXPECT_TRUE(read_pool(rig.volume, {"pool"}, &rig.pool).ok());
    Analysis analysis;
    EXPECT_TRUE(analyse(rig.volume, rig.pool, &analysis, options).ok());
    return analysis;
  }

  MemoryPool pool_;
  std::vector<std::unique_ptr<Rig>> rigs_;  // that analysed; what they found are views
  std::vector<std::unique_ptr<Dnode>> dnodes_;
};

void expect_same(const Analysis& a, const Analysis& b) {
  EXPECT_EQ(a.gen_max, b.gen_max);
  EXPECT_EQ(a.sequence_max, b.sequence_max);
  EXPECT_EQ(a.log_records, b.log_records);
  EXPECT_EQ(a.free_slots, b.free_slots);
  EXPECT_EQ(a.header_extents, b.header_extents);
  ASSERT_EQ(a.damages.size(), b.damages.size());
  for (size_t i = 0; i < a.damages.size(); ++i) EXPECT_EQ(a.damages[i].where, b.damages[i].where);
  ASSERT_EQ(a.tiles.size(), b.tiles.size());
  for (size_t i = 0; i < a.tiles.size(); ++i) {
    EXPECT_EQ(a.dnodes[a.tiles[i].dnode]->header(), b.dnodes[b.tiles[i].dnode]->header());
    ASSERT_EQ(a.tiles[i].records.size(), b.tiles[i].records.size());
    for (size_t j = 0; j < a.tiles[i].records.size(); ++j) {
      EXPECT_EQ(a.tiles[i].records[j].update.key, b.tiles[i].records[j].update.key);
      EXPECT_EQ(a.tiles[i].records[j].update.token, b.tiles[i].records[j].update.token);
    }
  }
  for (size_t i = 0; i < a.segments.size(); ++i) {
    EXPECT_EQ(a.segments[i].live_records, b.segments[i].live_records);
    EXPECT_EQ(a.segments[i].end, b.segments[i].end);
  }
}

TEST_F(AnalysisTest, ThreadsChangeNothing) {
  for (const bool damaged : {false, true}) {
    if (damaged) {
      pool_.medium.flip(dnodes_[3]->header().offset() + 20, 0);
      pool_.medium.flip(pool_.rig.pool.segments()[0].offset() + kSegmentHeaderBytes + 30, 0);
    }
    const Analysis alone = analysed();
    EXPECT_EQ(alone.damages.size(), damaged ? 1U : 0U) << "the root, which is not retired, covers the first";
    for (const unsigned threads : {2U, 5U}) expect_same(alone, analysed({threads, {}}));
  }
}

// The log of a far target: the segments' words, and what was appended.
TEST_F(AnalysisTest, OfAFarLogOnlyWhatWasAppendedIsCarried) {
  const Analysis here = analysed();
  base::FarMedium far(pool_.medium, {.seed = 5});
  scale::VolumeOf<base::HookedMedium> volume({&far});
  Pool pool;
  ASSERT_TRUE(read_pool(volume, {"pool"}, &pool).ok());
  const uint64_t before = far.counts().bytes;
  Analysis there;
  ASSERT_TRUE(analyse(volume, pool, &there).ok());
  expect_same(here, there);
  const uint64_t headers = there.header_extents.size() * pool.superblocks[0].extent_bytes;
  const uint64_t carried = far.counts().bytes - before - headers;
  uint64_t appended = 0;
  for (const SegmentState& segment : there.segments) appended += segment.end - kSegmentHeaderBytes;
  EXPECT_GE(carried, appended);
  EXPECT_LE(carried, appended + 4096 + 8 * pool.segments().size()) << "of " << pool.log_bytes();
  far.fail_reads(1);
  EXPECT_TRUE(analyse(volume, pool, &there).IsUnavailable());
}

// ---- bytes that were put where they do not belong

class MisplacedBytes : public ::testing::Test {
 protected:
  // Two values of a key in two segments that are full, the older one in the first; then the pool is closed.
  MisplacedBytes() {
    for (uint32_t token = 1; token <= 2; ++token) append("key", std::to_string(token) + std::string(1500, 'v'), token);
    append("other", std::string(2500, 'v'), 3);
    EXPECT_TRUE(pool_.rig.log->seal_all().ok());
    EXPECT_TRUE(write_clean_state(pool_.rig.volume, pool_.rig.pool).ok());
    expect_reported(false, "nothing was done yet");
  }

  uint32_t append(const std::string& key, const std::string& value, uint32_t token) {
    Update update;
    update.key = key;
    update.value = value;
    update.gen = 5;
    update.token = token;
    uint32_t segment = kNoSegment;
    EXPECT_EQ(pool_.rig.log->append(update, Log::Use::kOrdinary, &segment), Log::Result::kOk);
    return segment;
  }
  [[nodiscard]] std::byte* segment(size_t i) { return pool_.medium.view() + pool_.rig.pool.segments()[i].offset(); }
  void expect_reported(bool reported, const std::string& what) {
    Rig rig({&pool_.medium});
    ASSERT_TRUE(rig.analyse_only().ok());
    EXPECT_EQ(!rig.analysis.damages.empty(), reported) << what;
  }

  MemoryPool pool_;
};

TEST_F(MisplacedBytes, ZerosAreNeverTakenForUnused) {
  const Superblock& sb = pool_.rig.pool.superblocks[0];
  const std::vector<std::byte> image = pool_.medium.image();
  for (const uint64_t bytes : {8, 64, 4096}) {
    for (const uint64_t at : {pool_.rig.pool.segments()[0].offset(), kStateRunOffset, kStateEpochOffset,
                              sb.log_table_offset, sb.log_table_offset + kSegmentEntriesOffset}) {
      std::memset(pool_.medium.view() + at, 0, bytes);
      expect_reported(true, std::to_string(bytes) + " zeros at " + std::to_string(at));
      std::memcpy(pool_.medium.view(), image.data(), image.size());
    }
  }
}

TEST_F(MisplacedBytes, ASegmentElsewhereIsReported) {
  std::memcpy(segment(1), segment(0), pool_.rig.pool.segment_bytes());
  expect_reported(true, "a copy of another segment");
}

// Above the noted end a record counts as one of this opening only where one can have been appended since.
TEST_F(MisplacedBytes, AChanceHitFarBehindATornTailIsNoDamage) {
  Rig rig({&pool_.medium});
  ASSERT_TRUE(rig.open().ok());
  Update update;
  update.key = "key";
  update.value = "3";
  update.gen = 6;
  uint32_t opened = kNoSegment;
  ASSERT_EQ(rig.log->append(update, Log::Use::kBatch, &opened), Log::Result::kOk);
  const uint64_t sequence = *load_word(rig.volume, rig.pool.segments()[opened]);
  const uint64_t near = kSegmentHeaderBytes + note_bytes(rig.pool.segment_bytes()) - 8;
  for (const uint64_t at : {near, near + 8}) {
    const std::vector<std::byte> image = pool_.medium.image();
    const uint64_t seed = place_seed(rig.volume, rig.pool.segments()[opened]);
    encode_update(update, record_seed(seed, sequence, at), segment(opened) + at);
    expect_reported(at == near, "a record at " + std::to_string(at));
    std::memcpy(pool_.medium.view(), image.data(), image.size());
  }
}

TEST_F(AnalysisTest, KeysFindTheTileThatCoversThem) {
  Analysis analysis = analysed();
  for (const bool gap : {false, true}) {
    if (gap) {  // two tiles are taken away, one of them the last
      analysis.tiles.erase(analysis.tiles.begin() + 40);
      analysis.tiles.pop_back();
    }
    const TileTable table(analysis.tiles, analysis.dnodes);
    for (uint64_t i = 0; i < kKeys + 10; ++i) {
      for (const std::string& bytes : {key_of(i), key_of(i) + "0", std::string(1, static_cast<char>(i))}) {
        const Key key = Key::of(bytes);
        size_t wanted = 0;
        while (wanted < analysis.tiles.size() &&
               (key < analysis.tiles[wanted].lo.key() || !analysis.tiles[wanted].hi.above(key))) {
          ++wanted;
        }
        ASSERT_EQ(table.find(key), wanted) << bytes;
        if (wanted < table.size()) {
          EXPECT_EQ(table.gen(wanted), analysis.dnodes[analysis.tiles[wanted].dnode]->gen());
        }
      }
    }
  }
}

TEST_F(AnalysisTest, ProgressRisesToOne) {
  for (const unsigned threads : {1U, 3U}) {
    std::vector<double> reported;
    const uint32_t caller = base::thread_ordinal();
    static_cast<void>(analysed({threads, [&](double done) {
                                  EXPECT_EQ(base::thread_ordinal(), caller);
                                  reported.push_back(done);
                                }}));
    EXPECT_GE(reported.size(), threads == 1 ? 2U : 1U);
    EXPECT_TRUE(std::is_sorted(reported.begin(), reported.end()));
    EXPECT_GT(reported.front(), 0.0);
    EXPECT_EQ(reported.back(), 1.0);
  }
}

}  // namespace
}  // namespace bonsai::persist
