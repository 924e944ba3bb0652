// SPDX-License-Identifier: Apache-2.0
// Analysis and recovery on pools made by hand: which dnodes are live, which records count, which bytes are damaged. A
// second or an interrupted recovery is harmless.
#include "persist/recovery.h"

#include <gtest/gtest.h>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/units.h"
#include "persist/testing.h"
#include "persist/words.h"

namespace bonsai::persist {
namespace {

using base::Fence;
using scale::Addr;
using testing::Content;
using testing::Entries;
using testing::MemoryMedium;
using testing::MemoryPool;
using testing::Rig;

using base::kMiB;

constexpr uint64_t kSmallRecordBytes = 16;  // of a key and a value that have up to 7 bytes together

class RecoveryTest : public ::testing::Test {
 protected:
  struct Range {
    std::string lo, hi;  // hi empty = infinite
    uint64_t gen;
    Content content;
  };

  explicit RecoveryTest(bool buffered = false) : pool_(kMiB, buffered) {}

  // Commits dnodes together.
  std::vector<std::unique_ptr<Dnode>> write(const std::vector<Range>& ranges) {
    DnodeWriter writer(*pool_.rig.store);
    std::vector<Entries> keep(ranges.size());
    for (size_t i = 0; i < ranges.size(); ++i) {
      for (const auto& [key, value] : ranges[i].content) keep[i].put(key, value);
      Dnode* dnode = nullptr;
      const Fence hi = ranges[i].hi.empty() ? Fence::infinite() : Fence(ranges[i].hi);
      EXPECT_TRUE(writer.add(Fence(ranges[i].lo), hi, ranges[i].gen, nullptr, keep[i].list(), &dnode).ok());
    }
    return testing::committed(writer);
  }

  uint32_t append(std::string_view key, std::string_view value, uint64_t gen, uint32_t token, bool tombstone = false) {
    Update update;
    update.key = key;
    update.value = value;
    update.gen = gen;
    update.token = token;
    update.tombstone = tombstone;
    uint32_t segment = kNoSegment;
    EXPECT_EQ(pool_.rig.log->append(update, Log::Use::kOrdinary, &segment), Log::Result::kOk);
    return segment;
  }
  uint64_t segment_offset(uint32_t segment) { return pool_.rig.pool.segments()[segment].offset(); }

  // The analysis of the unchanged pool.
  std::unique_ptr<Rig> analysed() {
    auto rig = std::make_unique<Rig>(std::vector<base::HookedMedium*>{&pool_.medium});
    EXPECT_TRUE(rig->analyse_only().ok());
    return rig;
  }
  void expect_content(const Content& wanted) {
    const auto rig = analysed();
    EXPECT_TRUE(rig->analysis.damages.empty()) << damage_status(rig->analysis.damages).ToString();
    EXPECT_EQ(testing::analysed_content(*rig), wanted);
  }
  void expect_damage(std::string_view where, std::string_view range = "") {
    const auto rig = analysed();
    ASSERT_FALSE(rig->analysis.damages.empty());
    const auto& damage = rig->analysis.damages.front();
    EXPECT_NE(damage.where.find(where), std::string::npos) << damage.where;
    EXPECT_TRUE(range.empty() || damage.key_range == range) << damage.key_range;
    EXPECT_TRUE(damage_status(rig->analysis.damages).IsCorruption());
    EXPECT_TRUE(Rig({&pool_.medium}).open().IsCorruption());
  }
  // Recovers a copy of the pool, twice, and after a power cut at each of its stores.
  void expect_recovers_to(const Content& wanted) {
    uint64_t stores = 0;
    {
      MemoryMedium copy(pool_.medium.image());
      copy.record(true);
      Rig first({&copy});
      const Status status = first.open();
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(testing::recovered_content(first) == wanted);
      for (const auto& event : copy.events()) stores += event.op == 's' || event.op == 'n' || event.op == 'c' ? 1 : 0;
      expect_tiles(first);
      const uint64_t used = first.space.used_bytes();
      Rig second({&copy});
      ASSERT_TRUE(second.open().ok());
      EXPECT_EQ(testing::recovered_content(second), wanted);
      EXPECT_EQ(second.space.used_bytes(), used) << "a second recovery finds the same owners";
      for (const bool whole : second.analysis.dnode_whole) EXPECT_TRUE(whole);
    }
    for (uint64_t cut = 0; cut <= stores; ++cut) {
      MemoryMedium copy(pool_.medium.image());
      copy.cut_power_after(cut);
      static_cast<void>(Rig({&copy}).open());
      copy.cut_power_after(UINT64_MAX);
      Rig again({&copy});
      ASSERT_TRUE(again.open().ok()) << "cut after " << cut;
      EXPECT_EQ(testing::recovered_content(again), wanted) << "cut after " << cut;
      expect_tiles(again);
    }
  }
  static void expect_tiles(const Rig& rig) {
    Fence at;
    for (const RecoveredRange& range : rig.ranges) {
      EXPECT_TRUE(range.dnode->lo() == at);
      at = range.dnode->hi();
    }
    EXPECT_TRUE(at.is_infinite());
  }

  MemoryPool pool_;
};

class BufferedRecoveryTest : public RecoveryTest {
 protected:
  BufferedRecoveryTest() : RecoveryTest(true) {}
};

// ---- dnodes

TEST_F(RecoveryTest, ANewPoolIsOneEmptyRange) {
  expect_content({});
  expect_recovers_to({});
}

TEST_F(RecoveryTest, TheHighestGenerationThatCoversAKeyIsLive) {
  static_cast<void>(write({{"", "", 5, {{"a", "5"}, {"m", "5"}, {"z", "5"}}}}));
  static_cast<void>(write({{"g", "p", 7, {{"m", "7"}}}}));
  static_cast<void>(write({{"h", "j", 6, {{"i", "6"}}}}));
  const auto rig = analysed();
  ASSERT_EQ(rig->analysis.tiles.size(), 3U);
  EXPECT_EQ(rig->analysis.gen_max, 7U);
  expect_content({{"a", "5"}, {"m", "7"}, {"z", "5"}});
  expect_recovers_to({{"a", "5"}, {"m", "7"}, {"z", "5"}});
}

TEST_F(RecoveryTest, AnEmptiedRangeNeedsANewerEmptyCover) {
  static_cast<void>(write({{"", "", 5, {{"a", "5"}, {"z", "5"}}}}));
  static_cast<void>(write({{"", "m", 6, {}}}));
  expect_recovers_to({{"z", "5"}});
}

TEST_F(RecoveryTest, HalvesOfASplitThatAreBothThereHideTheOldDnode) {
  const auto old_dnode = write({{"", "", 5, {{"a", "old"}, {"z", "old"}}}});
  static_cast<void>(write({{"", "m", 6, {{"a", "new"}}}, {"m", "", 6, {{"z", "new"}}}}));
  const auto rig = analysed();
  EXPECT_EQ(rig->analysis.tiles.size(), 2U);
  EXPECT_EQ(rig->analysis.dnodes.size(), 4U) << "the root and the old one are not retired yet";
  expect_recovers_to({{"a", "new"}, {"z", "new"}});
}

TEST_F(RecoveryTest, ManyRandomDnodesAgreeWithAModel) {
  base::Random random = testing::seeded_random(6);
  Content model;
  for (uint64_t gen = 5; gen < 25; ++gen) {
    uint64_t lo = random.below(30);
    uint64_t hi = lo + 1 + random.below(10);
    const auto name = [](uint64_t i) { return "k" + std::to_string(100 + i); };
    Range range{name(lo), random.chance(1, 8) ? "" : name(hi), gen, {}};
    if (range.hi.empty()) hi = 100;
    model.erase(model.lower_bound(range.lo), range.hi.empty() ? model.end() : model.lower_bound(range.hi));
    for (uint64_t i = lo; i < std::min<uint64_t>(hi, 50); ++i) {
      if (random.chance(1, 2)) range.content[name(i)] = std::to_string(gen);
    }
    for (const auto& [key, value] : range.content) model[key] = value;
    static_cast<void>(write({range}));
    expect_content(model);
  }
  expect_recovers_to(model);
}

TEST_F(RecoveryTest, ARangeCoveredByRetiredOrInvalidDnodesOnlyIsDamage) {
  Rig* const rig = &pool_.rig;
  const auto halves = write({{"", "m", 6, {}}, {"m", "", 6, {{"z", "1"}}}});
  testing::retire(*rig->store, {rig->ranges[0].dnode.get()});
  expect_content({{"z", "1"}});
  pool_.medium.flip(halves[1]->header().offset() + 20, 0);
  expect_damage("dnode headers", base::printable_range(Fence("m"), Fence::infinite()));
}

// The slot of a retired dnode is written again, and of the new header one word survives: the dnode stays dead. Its
// parts, which recovery has made, have the same generation, and its runs are no more.
TEST_F(RecoveryTest, NoWordOfTheNextHeaderMakesARetiredDnodeLive) {
  const auto whole = write({{"", "", 5, {{"a", "whole"}, {"h", "whole"}, {"z", "whole"}}}});
  const auto newer = write({{"g", "p", 7, {{"h", "newer"}}}});
  const Content wanted = {{"a", "whole"}, {"h", "newer"}, {"z", "whole"}};
  Rig again({&pool_.medium});
  ASSERT_TRUE(again.open().ok());
  EXPECT_EQ(testing::recovered_content(again), wanted);
  for (uint64_t i = 0; i < whole[0]->runs()[0].bytes; ++i) {
    pool_.medium.flip(Addr::of_bits(whole[0]->runs()[0].addr).offset() + i, 1);
  }
  const uint64_t slot = whole[0]->header().offset();
  for (uint64_t word = 0; word <= kDnodeHeaderBytes; word += 8) {  // of another header, or zero
    MemoryMedium torn(pool_.medium.image());
    if (word < kDnodeHeaderBytes)
      std::memcpy(torn.view() + slot + word, torn.view() + newer[0]->header().offset() + word, 8);
    if (word == kDnodeHeaderBytes) std::memset(torn.view() + slot + offsetof(DnodeHeader, mark), 0, 8);
    Rig rig({&torn});
    ASSERT_TRUE(rig.open().ok()) << word;
    EXPECT_EQ(testing::recovered_content(rig), wanted) << word;
  }
}

// A commit is torn in two, so that its generation is unknown. Recovery leaves no part of it that a second torn commit
// in the same slot could complete.
TEST_F(RecoveryTest, ATornHeaderIsNotCompletedByALaterOne) {
  static_cast<void>(write({{"", "", 5, {{"a", "old"}}}}));
  const auto lost = write({{"", "", 900, {{"a", "lost"}}}});
  const uint64_t slot = lost[0]->header().offset();
  for (uint64_t word = 0; word < kDnodeHeaderBytes; word += 8) {
    MemoryMedium torn(pool_.medium.image());
    std::byte complete[8];
    std::memcpy(complete, torn.view() + slot + word, 8);
    for (const bool marked : {false, true}) {  // by zeros, or by what the last owner of the slot has left
      std::memset(torn.view() + slot + word, marked ? 0x21 : 0, 8);
      if (std::memcmp(torn.view() + slot + word, complete, 8) == 0) continue;
      Rig rig({&torn});
      ASSERT_TRUE(rig.open().ok()) << word;
      EXPECT_EQ(testing::recovered_content(rig), (Content{{"a", "old"}})) << word;
      if (word == offsetof(DnodeHeader, crc)) continue;  // no other header has this checksum
      std::memcpy(torn.view() + slot + word, complete, 8);
      Rig second({&torn});
      ASSERT_TRUE(second.open().ok()) << word;
      EXPECT_EQ(testing::recovered_content(second), (Content{{"a", "old"}})) << word;
    }
  }
}

// The lost half had shrunk to nothing, and every block that an offload may take is taken. The part of the old dnode is
// rewritten into the space that the last recovery has set aside.
TEST_F(RecoveryTest, AFullPoolIsRecoveredAllTheSame) {
  Range whole{"", "m", 5, {}}, left{"", "g", 6, {}};
  for (uint64_t bytes = 0; bytes < pool_.rig.pool.limits().dnode_bytes_max; bytes += 1014) {
    whole.content["h" + std::to_string(100 + bytes / 1014)] = std::string(1000, 'h');
  }
  static_cast<void>(write({whole}));
  const auto halves = write({left, {"g", "m", 6, {}}});
  Content wanted = whole.content;
  Space& space = pool_.rig.space;
  for (const std::string lo : {"m", "n"}) {
    uint64_t bytes = space.capacity_bytes();
    Addr piece;
    while (bytes > 0 && (piece = space.allocate(bytes, Space::Use::kReserve)).is_nil()) bytes -= kBlockBytes;
    space.free(piece, bytes);
    Range filler{lo, lo == "n" ? "" : std::string(1, static_cast<char>(lo[0] + 1)), 6, {}};
    for (uint64_t i = 0; (i + 1) * 1022 < bytes; ++i) {
      filler.content[lo + std::to_string(1000 + i)] = std::string(1000, 'f');
    }
    wanted.insert(filler.content.begin(), filler.content.end());
    static_cast<void>(write({filler}));
  }
  EXPECT_LT(space.capacity_bytes() - space.used_bytes() - pool_.rig.pool.recovery_bytes(), 10'000U);
  pool_.medium.flip(halves[1]->header().offset() + 20, 0);
  expect_recovers_to(wanted);
}

TEST_F(RecoveryTest, TwoOwnersOfABlockAreCorruption) {
  const auto dnodes = write({{"", "m", 5, {{"a", "1"}}}});
  DnodeWriter writer(*pool_.rig.store);
  Dnode* dnode = nullptr;
  ASSERT_TRUE(writer.add(Fence("m"), Fence::infinite(), 5, dnodes[0].get(), {}, &dnode).ok());
  static_cast<void>(testing::committed(writer));
  const Status status = Rig({&pool_.medium}).open();
  EXPECT_TRUE(status.IsCorruption());
  EXPECT_NE(status.message().find("two owners"), std::string_view::npos);
}

TEST_F(RecoveryTest, LargeValuesAreClaimedWhereTheyAreLive) {
  LargeRef in_dnode{};
  LargeRef hidden{};
  LargeRef in_log{};
  ASSERT_TRUE(pool_.rig.large->write(std::string(5000, 'd'), &in_dnode).ok());
  ASSERT_TRUE(pool_.rig.large->write(std::string(6000, 'h'), &hidden).ok());
  ASSERT_TRUE(pool_.rig.large->write(std::string(7000, 'l'), &in_log).ok());
  DnodeWriter writer(*pool_.rig.store);
  Entries entries;
  entries.put_large("a", in_dnode);
  entries.put_large("z", hidden);
  Dnode* dnode = nullptr;
  ASSERT_TRUE(writer.add(Fence(), Fence::infinite(), 5, nullptr, entries.list(), &dnode).ok());
  EXPECT_TRUE(dnode->has_large());
  const auto old_dnode = testing::committed(writer);
  int visited = 0;
  EXPECT_TRUE(for_each_large(pool_.rig.volume, *old_dnode[0], [&](const LargeRef&) { ++visited; }));
  EXPECT_EQ(visited, 2);
  static_cast<void>(write({{"m", "", 6, {}}}));
  Update update;
  const std::string ref(bytes_of(in_log));
  update.key = "b";
  update.value = ref;
  update.large = true;
  update.gen = 9;
  uint32_t segment = kNoSegment;
  ASSERT_EQ(pool_.rig.log->append(update, Log::Use::kOrdinary, &segment), Log::Result::kOk);
  expect_recovers_to({{"a", std::string(5000, 'd')}, {"b", std::string(7000, 'l')}});
  Rig again({&pool_.medium});
  ASSERT_TRUE(again.open().ok());
  EXPECT_FALSE(again.space.reserve(Addr::of_bits(in_dnode.addr), 1));
  EXPECT_FALSE(again.space.reserve(Addr::of_bits(in_log.addr), 1));
  const uint64_t parts_run = kBlockBytes;
  const uint64_t headers = analysed()->analysis.header_extents.size() * pool_.rig.pool.superblocks[0].extent_bytes;
  EXPECT_EQ(again.space.used_bytes(), headers + parts_run + round_up(5000, kBlockBytes) + round_up(7000, kBlockBytes))
      << "the hidden value is nobody's any more";
}

TEST_F(RecoveryTest, ALargeValueOutsideThePoolIsCorruption) {
  const std::string ref(bytes_of({Addr(7, 4096).bits(), 5000, 1}));
  Update update;
  update.key = "b";
  update.value = ref;
  update.large = true;
  update.gen = 9;
  uint32_t segment = kNoSegment;
  ASSERT_EQ(pool_.rig.log->append(update, Log::Use::kOrdinary, &segment), Log::Result::kOk);
  const Status status = Rig({&pool_.medium}).open();
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
}

TEST_F(RecoveryTest, ADamagedExtentEntryIsRepairedByWhatTheExtentHolds) {
  static_cast<void>(write({{"", "", 5, {{"a", "1"}}}}));
  const uint64_t table = pool_.rig.pool.superblocks[0].extent_table_offset;
  const Superblock& sb = pool_.rig.pool.superblocks[0];
  const auto extents = analysed()->analysis.header_extents;
  const uint64_t index = (pool_.rig.ranges[0].dnode->header().offset() - sb.data_offset) / sb.extent_bytes;
  const uint64_t unused = index == 0 ? 1 : 0;  // of an extent that holds no headers
  pool_.medium.flip(table + 8 * index, 4);
  expect_recovers_to({{"a", "1"}});
  pool_.medium.flip(table + 8 * unused, 4);
  EXPECT_EQ(analysed()->analysis.damaged_extent_entries.size(), 2U);
  Rig again({&pool_.medium});
  ASSERT_TRUE(again.open().ok());
  EXPECT_TRUE(analysed()->analysis.damaged_extent_entries.empty());
  expect_content({{"a", "1"}});
  EXPECT_EQ(analysed()->analysis.header_extents.size(), extents.size()) << "an entry that says data";
}

// ---- the log

TEST_F(RecoveryTest, RecordsAboveTheLiveDnodeCountAndTheHighestWins) {
  static_cast<void>(
      write({{"", "m", 5, {{"a", "dnode"}, {"b", "dnode"}, {"c", "dnode"}}}, {"m", "", 9, {{"x", "dnode"}}}}));
  append("a", "too old", 5, 99);
  append("b", "gen 7", 7, 1);
  append("b", "gen 6", 6, 50);
  append("c", "", 6, 2, true);
  append("c", "lower token", 6, 1);
  append("x", "below the other half", 8, 1);
  append("y", "new", 10, 3);
  expect_recovers_to({{"a", "dnode"}, {"b", "gen 7"}, {"x", "dnode"}, {"y", "new"}});
  const auto rig = analysed();
  EXPECT_EQ(rig->analysis.log_records, 7U);
  EXPECT_EQ(rig->analysis.gen_max, 10U);
}

TEST_F(RecoveryTest, ATornTailIsCutSilently) {
  append("a", "1", 5, 1);
  const uint32_t segment = append("b", "2", 5, 2);
  const uint64_t record = kSmallRecordBytes;
  pool_.medium.flip(segment_offset(segment) + kSegmentHeaderBytes + record + 3, 1);
  expect_content({{"a", "1"}});
  expect_recovers_to({{"a", "1"}});
  Rig again({&pool_.medium});
  ASSERT_TRUE(again.open().ok());
  const auto rig = analysed();
  EXPECT_TRUE(rig->analysis.segments[segment].sealed);
  EXPECT_EQ(rig->analysis.segments[segment].end, kSegmentHeaderBytes + record);
}

TEST_F(RecoveryTest, ADamagedRecordWithAValidOneBehindItIsDamage) {
  const uint32_t segment = append("a", "1", 5, 1);
  append("b", "2", 5, 2);
  pool_.medium.flip(segment_offset(segment) + kSegmentHeaderBytes + 9, 1);
  expect_damage("log record");
}

TEST_F(RecoveryTest, ADamagedRecordBeforeTheSealedEndIsDamage) {
  append("a", "1", 5, 1);
  const uint32_t segment = append("b", "2", 5, 2);
  EXPECT_TRUE(pool_.rig.log->seal_all().ok());
  pool_.medium.flip(segment_offset(segment) + kSegmentHeaderBytes + kSmallRecordBytes + 3, 1);
  expect_damage("log record");
}

TEST_F(RecoveryTest, EveryFlipOfASealedSegmentHeaderIsReportedOrHarmless) {
  const uint32_t segment = append("a", "1", 5, 1);
  EXPECT_TRUE(pool_.rig.log->seal_all().ok());
  int reported = 0;
  for (uint64_t bit = 0; bit < 8 * kSegmentHeaderBytes; ++bit) {
    pool_.medium.flip(segment_offset(segment) + bit / 8, bit % 8);
    const auto rig = analysed();
    reported += rig->analysis.damages.empty() ? 0 : 1;
    const auto content = testing::analysed_content(*rig);
    EXPECT_TRUE(!content || *content == (Content{{"a", "1"}})) << "bit " << bit;
    EXPECT_TRUE(!content || bit / 8 >= offsetof(SegmentHeader, magic)) << "bit " << bit;
    pool_.medium.flip(segment_offset(segment) + bit / 8, bit % 8);
  }
  EXPECT_EQ(reported, 64);
}

// A crash leaves the segment's word written and its entry in the log table not: nothing was appended yet. The old
// records are still there and count no more, and no sequence is given again.
TEST_F(RecoveryTest, ASegmentThatWasBeingOpenedIsEmpty) {
  if (bonsai::testing::other_side_asked()) GTEST_SKIP() << "stores that were not fenced are not on the other side";
  const uint32_t segment = append("a", "stale", 5, 1);
  static_cast<void>(write({{"", "", 5, {{"a", "dnode"}}}}));
  const uint64_t sequence = analysed()->analysis.sequence_max;
  store_word(pool_.rig.volume, pool_.rig.pool.segments()[segment], sequence + 1);
  expect_recovers_to({{"a", "dnode"}});
  EXPECT_EQ(analysed()->analysis.sequence_max, sequence + 1);
  Rig again({&pool_.medium});
  ASSERT_TRUE(again.open().ok());
  Update update;
  update.key = "b";
  update.value = "2";
  update.gen = 6;
  uint32_t opened = kNoSegment;
  ASSERT_EQ(again.log->append(update, Log::Use::kOrdinary, &opened), Log::Result::kOk);
  EXPECT_GT(analysed()->analysis.segments[opened].sequence, sequence + 1);
}

// ---- mode buffered

TEST_F(BufferedRecoveryTest, OpenEpochsAreCutAndStayCut) {
  if (bonsai::testing::other_side_asked()) GTEST_SKIP() << "stores that were not fenced are not on the other side";
  append("a", "closed", 5, 1);
  ASSERT_TRUE(pool_.rig.log->close_epoch().ok());
  const uint32_t segment = append("b", "open", 5, 2);
  expect_content({{"a", "closed"}});
  EXPECT_TRUE(analysed()->analysis.segments[segment].truncate);
  expect_recovers_to({{"a", "closed"}});
  Rig again({&pool_.medium}, true);
  ASSERT_TRUE(again.open().ok());
  Content wanted = {{"a", "closed"}};
  for (uint32_t i = 0; i < 4; ++i) {  // the numbers of later epochs pass that of the one that was cut
    const std::string key = "later" + std::to_string(i);
    Update update;
    update.key = key;
    update.gen = 6;
    update.token = i;
    uint32_t unused = kNoSegment;
    ASSERT_EQ(again.log->append(update, Log::Use::kOrdinary, &unused), Log::Result::kOk);
    ASSERT_TRUE(again.log->close_epoch().ok());
    wanted[key] = "";
    expect_content(wanted);
  }
}

TEST_F(BufferedRecoveryTest, PiecesOfOpenEpochsAreNoDamage) {
  append("a", "closed", 5, 1);
  ASSERT_TRUE(pool_.rig.log->close_epoch().ok());
  const uint32_t segment = append("b", "open", 5, 2);
  append("c", "open", 5, 3);
  const uint64_t first_open = kSegmentHeaderBytes + kEpochRecordBytes + kSmallRecordBytes;
  for (const uint64_t at : {uint64_t{0}, kEpochRecordBytes}) {  // its mark, or its first record, did not survive
    pool_.medium.flip(segment_offset(segment) + first_open + at + 4, 1);
    expect_content({{"a", "closed"}});
    pool_.medium.flip(segment_offset(segment) + first_open + at + 4, 1);
  }
}

TEST_F(BufferedRecoveryTest, DamageInAClosedEpochIsReportedByTheMarkAfterIt) {
  const uint32_t segment = append("a", "closed", 5, 1);
  append("b", "closed", 5, 2);
  ASSERT_TRUE(pool_.rig.log->close_epoch().ok());
  append("c", "open", 5, 3);
  pool_.medium.flip(segment_offset(segment) + kSegmentHeaderBytes + kEpochRecordBytes + 4, 1);
  expect_damage("log record");
}

TEST_F(BufferedRecoveryTest, ADamagedEpochWordIsDamage) {
  append("a", "closed", 5, 1);
  ASSERT_TRUE(pool_.rig.log->close_epoch().ok());
  pool_.medium.flip(kStateEpochOffset + 1, 1);
  expect_damage("closed epoch");
}

// ---- several targets, damage anywhere

TEST(Recovery, TwoTargets) {
  MemoryMedium a(kMiB);
  MemoryMedium b(kMiB);
  ASSERT_TRUE(Rig({&a, &b}).format().ok());
  Content wanted;
  for (int round = 0; round < 10; ++round) {
    Rig rig({&a, &b});
    ASSERT_TRUE(rig.open().ok());
    ASSERT_EQ(testing::recovered_content(rig), wanted);
    for (uint32_t i = 0; i < 5; ++i) {
      const std::string key = "k" + std::to_string(round) + std::to_string(i);
      Update update;
      update.key = key;
      update.value = "v";
      update.gen = 100 + static_cast<uint64_t>(round);
      uint32_t segment = kNoSegment;
      ASSERT_EQ(rig.log->append(update, Log::Use::kOrdinary, &segment), Log::Result::kOk);
      wanted[key] = "v";
    }
    Entries entries;  // the upper half moves to a dnode
    for (const auto& [key, value] : wanted) {
      if (key >= "k5") entries.put(key, value);
    }
    DnodeWriter writer(*rig.store);
    Dnode* dnode = nullptr;
    ASSERT_TRUE(
        writer.add(Fence("k5"), Fence::infinite(), 100 + static_cast<uint64_t>(round), nullptr, entries.list(), &dnode)
            .ok());
    static_cast<void>(testing::committed(writer));
  }
}

// Opened on a copy: the same content, or a refusal.
void expect_recovery_right_or_refused(const MemoryMedium& damaged, const Content& wanted) {
  MemoryMedium copy(damaged.image());
  Rig rig({&copy});
  if (!rig.open().ok()) return;
  const auto content = testing::recovered_content(rig);
  EXPECT_TRUE(!content || *content == wanted);
}

// A pool with everything in it, replaced dnodes too, one bit flipped: the same content, or damage that is reported;
// never other content.
TEST_F(RecoveryTest, AFlipAnywhereIsReportedOrHarmless) {
  base::Random random = testing::seeded_random(7);
  const std::string long_key(200, 'n');
  LargeRef large{};
  ASSERT_TRUE(pool_.rig.large->write(std::string(3000, 'L'), &large).ok());
  Entries older;
  for (const char* key : {"a", "c", "gone"}) older.put(key, "old");
  DnodeWriter older_writer(*pool_.rig.store);
  Dnode* replaced = nullptr;
  ASSERT_TRUE(older_writer.add(Fence(), Fence::infinite(), 4, nullptr, older.list(), &replaced).ok());
  const auto replaced_dnodes = testing::committed(older_writer);
  Entries entries;
  entries.put("a", "1");
  entries.put_large("b", large);
  entries.put("c", std::string(500, 'c'));
  DnodeWriter writer(*pool_.rig.store);
  Dnode* dnode = nullptr;
  ASSERT_TRUE(writer.add(Fence(), Fence("m"), 5, nullptr, entries.list(), &dnode).ok());
  ASSERT_TRUE(writer.add(Fence("m"), Fence(long_key), 5, nullptr, {}, &dnode).ok());
  ASSERT_TRUE(writer.add(Fence(long_key), Fence::infinite(), 5, nullptr, {}, &dnode).ok());
  const auto dnodes = testing::committed(writer);
  testing::retire(*pool_.rig.store, {pool_.rig.ranges[0].dnode.get(), replaced});
  for (uint32_t i = 0; i < 300; ++i) append("key" + std::to_string(i % 40), std::string(i % 60, 'v'), 6, i);
  EXPECT_TRUE(pool_.rig.log->seal_all().ok());
  Content wanted;
  {
    const auto content = testing::analysed_content(*analysed());
    ASSERT_TRUE(content.has_value());
    wanted = *content;
    ASSERT_EQ(wanted.size(), 43U);
  }
  std::vector<uint64_t> used;  // bytes that are not zero, and some that are
  for (uint64_t i = 0; i < pool_.medium.bytes(); ++i) {
    if (pool_.medium.view()[i] != std::byte{0} || random.chance(1, 200)) used.push_back(i);
  }
  const int flips = bonsai::testing::budget(500, 12'000, 100'000);
  int reported = 0;
  for (int i = 0; i < flips; ++i) {
    const uint64_t at = used[random.below(used.size())];
    const auto bit = static_cast<unsigned>(random.below(8));
    pool_.medium.flip(at, bit);
    Rig rig({&pool_.medium});
    if (rig.analyse_only().ok()) {
      const auto content = testing::analysed_content(rig);
      reported += content ? 0 : 1;
      ASSERT_TRUE(!content || *content == wanted) << "offset " << at << " bit " << bit;
    }
    if (i % 4 == 0) expect_recovery_right_or_refused(pool_.medium, wanted);
    if (HasFailure()) FAIL() << "offset " << at << " bit " << bit;
    pool_.medium.flip(at, bit);
  }
  EXPECT_GT(reported, flips / 4);
  bonsai::testing::add_figure("bit_flips", static_cast<uint64_t>(flips));
}

}  // namespace
}  // namespace bonsai::persist
