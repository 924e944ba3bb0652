// SPDX-License-Identifier: Apache-2.0
#include "persist/pool.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "persist/sites.h"
#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using base::HookedMedium;
using testing::kPoolId;
using testing::MemoryMedium;
using testing::Rig;

using base::kMiB;

Status read(std::vector<HookedMedium*> media, Pool* pool = nullptr) {
  scale::VolumeOf<HookedMedium> volume(media);
  Pool unused;
  return read_pool(volume, std::vector<std::string>(media.size(), "some.pool"), pool != nullptr ? pool : &unused);
}

Superblock superblock_of(const MemoryMedium& medium) {
  Superblock sb;
  std::memcpy(&sb, medium.view(), sizeof sb);
  return sb;
}

template <class Change>
void change_both_copies(MemoryMedium* medium, bool fix_crc, Change change) {
  for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
    Superblock sb;
    std::memcpy(&sb, medium->view() + copy * kPageBytes, sizeof sb);
    change(&sb);
    if (fix_crc) sb.seal();
    std::memcpy(medium->view() + copy * kPageBytes, &sb, sizeof sb);
  }
}

void expect_says(const Status& status, Status::Code code, std::string_view text) {
  EXPECT_EQ(status.code(), code) << status.ToString();
  EXPECT_NE(status.message().find(text), std::string_view::npos) << status.ToString();
}

class PoolTest : public ::testing::Test {
 protected:
  PoolTest() { EXPECT_TRUE(Rig({&medium_}).format().ok()); }
  MemoryMedium medium_{kPoolBytesMin};
};

TEST_F(PoolTest, ReadsBackWhatFormatWrote) {
  Pool pool;
  ASSERT_TRUE(read({&medium_}, &pool).ok());
  EXPECT_EQ(pool.superblocks[0].pool_id[0], kPoolId[0]);
  EXPECT_EQ(pool.key_format(), KeyFormat::kBytes);
  EXPECT_EQ(pool.segments().size(), 4U);
  EXPECT_EQ(pool.log_bytes(), 4U * 4096);
}

// ---- growth

// A pool of 128 KiB with a record in it, in a target that was enlarged to 512 KiB; after the old end there is garbage.
std::unique_ptr<MemoryMedium> enlarged_pool() {
  MemoryMedium small(128 << 10);
  EXPECT_TRUE(Rig({&small}).format().ok());
  Rig rig({&small});
  EXPECT_TRUE(rig.open().ok());
  Update update;
  update.key = "key";
  update.value = "value";
  update.gen = 2;
  uint32_t segment = kNoSegment;
  EXPECT_EQ(rig.log->append(update, Log::Use::kOrdinary, &segment), Log::Result::kOk);
  auto large = std::make_unique<MemoryMedium>(size_t{512} << 10);
  std::memset(large->view(), 0x47, large->bytes());
  std::memcpy(large->view(), small.view(), small.bytes());
  return large;
}

uint64_t data_bytes_of(const Pool& pool) { return pool.superblocks[0].extents * pool.superblocks[0].extent_bytes; }

Status grow(MemoryMedium* medium, Pool* pool) {
  scale::VolumeOf<HookedMedium> volume({medium});
  if (Status status = read_pool(volume, {"some.pool"}, pool); !status.ok()) return status;
  return testing::grow(volume, pool);
}

void expect_content_kept(MemoryMedium* medium) {
  Rig rig({medium});
  ASSERT_TRUE(rig.open().ok());
  EXPECT_EQ(testing::recovered_content(rig), (testing::Content{{"key", "value"}}));
  // All of the data area can be taken, and is found again.
  DnodeWriter writer(*rig.store);
  testing::Entries entries;
  entries.put("key", std::string(100, 'v'));
  Dnode* dnode = nullptr;
  while (!rig.space.allocate(4096, Space::Use::kOrdinary).is_nil()) continue;
  EXPECT_TRUE(writer.add(base::Fence(), base::Fence::infinite(), 50, nullptr, entries.list(), &dnode).ok());
  static_cast<void>(testing::committed(writer));
  Rig again({medium});
  EXPECT_TRUE(again.open().ok());
}

TEST_F(PoolTest, GrowthEnlargesTheDataAreaAndKeepsTheRest) {
  const auto medium = enlarged_pool();
  Pool before, after;
  ASSERT_TRUE(read({medium.get()}, &before).ok());
  ASSERT_TRUE(grow(medium.get(), &after).ok());
  EXPECT_EQ(after.superblocks[0].target_bytes, medium->bytes());
  EXPECT_EQ(data_bytes_of(after), data_bytes_of(before) + (384 << 10));
  EXPECT_EQ(after.log_bytes(), before.log_bytes());
  Pool twice;
  medium->record(true);
  ASSERT_TRUE(grow(medium.get(), &twice).ok());
  EXPECT_TRUE(medium->events().empty()) << "there is nothing more to do";
  EXPECT_EQ(data_bytes_of(twice), data_bytes_of(after));
  expect_content_kept(medium.get());
}

// The crash is cut between any two stores, and in a superblock between any two words.
TEST_F(PoolTest, ACrashInGrowthLeavesTheOldSizeOrTheNew) {
  Pool old_size, new_size, pool;
  const auto whole = enlarged_pool();
  const std::vector<std::byte> before = whole->image();
  ASSERT_TRUE(read({whole.get()}, &old_size).ok());
  ASSERT_TRUE(grow(whole.get(), &new_size).ok());
  for (uint64_t copies = 0; copies < kSuperblockCopies; ++copies) {
    for (uint64_t words = 0; words <= sizeof(Superblock) / 8; ++words) {
      MemoryMedium torn(before);
      for (uint64_t copy = 0; copy <= copies; ++copy) {
        const uint64_t at = copy * kPageBytes;
        std::memcpy(torn.view() + at, whole->view() + at, copy < copies ? sizeof(Superblock) : 8 * words);
      }
      const Superblock& sb = new_size.superblocks[0];  // the words of new extents are there before
      std::memcpy(torn.view() + sb.extent_table_offset, whole->view() + sb.extent_table_offset, 8 * sb.extents);
      ASSERT_TRUE(read({&torn}, &pool).ok()) << copies << " copies and " << words << " words";
      const uint64_t bytes = data_bytes_of(pool);
      EXPECT_TRUE(bytes == data_bytes_of(old_size) || bytes == data_bytes_of(new_size));
      EXPECT_TRUE(copies == 0 || bytes == data_bytes_of(new_size)) << "the first copy is complete";
      ASSERT_TRUE(grow(&torn, &pool).ok());
      EXPECT_EQ(data_bytes_of(pool), data_bytes_of(new_size));
      for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
        EXPECT_EQ(std::memcmp(torn.view() + copy * kPageBytes, whole->view(), sizeof(Superblock)), 0);
      }
      if (words % 5 == 0) expect_content_kept(&torn);
    }
  }
}

// Each copy is durable before the other is touched.
TEST_F(PoolTest, GrowthFencesBetweenTheCopies) {
  const auto medium = enlarged_pool();
  medium->record(true);
  Pool pool;
  ASSERT_TRUE(grow(medium.get(), &pool).ok());
  std::string order;
  for (const auto& event : medium->events()) {
    if (event.op != 's' || order.empty()) order += event.op;  // a word for each new extent
  }
  EXPECT_EQ(order, "sf|n|n|");
}

// Copies that an interrupted growth tore are repaired before the next growth touches the whole copy.
TEST_F(PoolTest, ACrashInGrowthAfterACrashInGrowthLosesNothing) {
  const auto medium = enlarged_pool();
  const std::vector<std::byte> before = medium->image();
  for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
    for (uint64_t stores = 0; stores < 4; ++stores) {
      MemoryMedium torn(before);
      torn.flip(copy * kPageBytes + 70, 1);
      torn.record(true);
      Pool pool;
      const uint64_t words = ((512 << 10) - (128 << 10)) / 4096;  // of new extents
      torn.cut_power_after(stores == 0 ? 0 : stores + words);
      ASSERT_TRUE(grow(&torn, &pool).ok());
      std::string order;
      std::vector<uint64_t> copies;  // offsets
      for (const auto& event : torn.events()) {
        if (event.op != 's' || order.back() != 's') order += event.op;
        if (event.op == 'n') copies.push_back(event.offset);
      }
      EXPECT_EQ(order, "n|sf|n|n|");
      EXPECT_EQ(torn.events()[0].offset, copy * kPageBytes);
      torn.flip(copies[std::min<uint64_t>(stores, 2)] + 70, 2);  // the store of the cut is torn
      ASSERT_TRUE(read({&torn}, &pool).ok()) << "copy " << copy << ", power for " << stores << " stores";
    }
  }
}

TEST_F(PoolTest, GrowthHasABoundAndSaysSo) {
  auto medium = enlarged_pool();
  MemoryMedium huge(size_t{64} << 20);
  std::memcpy(huge.view(), medium->view(), medium->bytes());
  Pool pool;
  const Status status = grow(&huge, &pool);
  expect_says(status, Status::Code::kInvalidArgument, "checkpoint");
  EXPECT_LT(data_bytes_of(pool), uint64_t{128} << 10) << "nothing has changed";
}

TEST_F(PoolTest, ADamagedCopyIsRepaired) {
  medium_.flip(kPageBytes + 70, 1);
  Pool pool;
  scale::VolumeOf<HookedMedium> volume({&medium_});
  ASSERT_TRUE(read_pool(volume, {"some.pool"}, &pool).ok());
  ASSERT_TRUE(settle_superblocks(volume, &pool).ok());
  EXPECT_EQ(std::memcmp(medium_.view(), medium_.view() + kPageBytes, sizeof(Superblock)), 0);
}

TEST_F(PoolTest, AForeignFileIsNotSupported) {
  MemoryMedium foreign(kPoolBytesMin);
  expect_says(read({&foreign}), Status::Code::kNotSupported, "not a Bonsai pool");
  std::memset(foreign.view(), 'x', kPoolBytesMin);
  expect_says(read({&foreign}), Status::Code::kNotSupported, "not a Bonsai pool");
}

TEST_F(PoolTest, ATinyFileIsNotSupported) {
  MemoryMedium tiny(4000);
  expect_says(read({&tiny}), Status::Code::kNotSupported, "too small");
}

TEST_F(PoolTest, ANewerVersionIsNotSupported) {
  change_both_copies(&medium_, true, [](Superblock* sb) { sb->version = kFormatVersion + 1; });
  expect_says(read({&medium_}), Status::Code::kNotSupported, "newer Bonsai");
}

TEST_F(PoolTest, AnOlderVersionIsNotSupported) {
  change_both_copies(&medium_, true, [](Superblock* sb) { sb->version = kFormatVersionMin - 1; });
  expect_says(read({&medium_}), Status::Code::kNotSupported, "never released");
}

TEST_F(PoolTest, ATruncatedFileIsCorruption) {
  for (const uint64_t bytes : {kPoolBytesMin - kPageBytes, 2 * kPageBytes, kPageBytes}) {
    MemoryMedium shorter(std::span<const std::byte>(medium_.view(), bytes));
    expect_says(read({&shorter}), Status::Code::kCorruption, "truncated");
  }
}

TEST_F(PoolTest, OneCopySuffices) {
  for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
    MemoryMedium damaged{medium_.image()};
    std::memset(damaged.view() + copy * kPageBytes, 0xff, sizeof(Superblock));
    Pool pool;
    EXPECT_TRUE(read({&damaged}, &pool).ok());
    EXPECT_EQ(pool.superblocks[0].pool_id[0], kPoolId[0]);
  }
}

TEST_F(PoolTest, EveryFlipOfBothCopiesIsRefused) {
  for (size_t bit = 0; bit < 8 * sizeof(Superblock); ++bit) {
    for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) medium_.flip(copy * kPageBytes + bit / 8, bit % 8);
    EXPECT_FALSE(read({&medium_}).ok()) << "bit " << bit;
    for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) medium_.flip(copy * kPageBytes + bit / 8, bit % 8);
  }
  change_both_copies(&medium_, false, [](Superblock* sb) { sb->segments += 1; });
  expect_says(read({&medium_}), Status::Code::kCorruption, "checksum");
}

// Its checksum is right, so a program wrote it so.
TEST_F(PoolTest, ALayoutThatNoPoolHasIsCorruption) {
  const Superblock sound = superblock_of(medium_);
  const std::vector<std::pair<uint64_t Superblock::*, std::vector<uint64_t>>> wrong = {
      {&Superblock::target_bytes, {0, kPageBytes}},
      {&Superblock::extent_bytes, {0, 100, 3 * kPageBytes, uint64_t{1} << 63}},
      {&Superblock::extent_table_offset, {0, sound.extent_table_offset + 8, UINT64_MAX}},
      {&Superblock::extents, {0, sound.extents + 1, uint64_t{1} << 52, UINT64_MAX}},
      {&Superblock::log_table_offset, {0, sound.log_offset, UINT64_MAX}},
      {&Superblock::log_offset, {0, sound.data_offset, UINT64_MAX}},
      {&Superblock::segment_bytes, {0, 1, 2 * sound.segment_bytes, uint64_t{1} << 63}},
      {&Superblock::segments, {0, 1, sound.segments + 100, UINT64_MAX}},
      {&Superblock::data_offset, {0, sound.data_offset + 1, sound.target_bytes, UINT64_MAX}}};
  for (size_t field = 0; field < wrong.size(); ++field) {
    for (const uint64_t value : wrong[field].second) {
      change_both_copies(&medium_, true, [&](Superblock* sb) { sb->*wrong[field].first = value; });
      EXPECT_FALSE(read({&medium_}).ok()) << "field " << field << " = " << value;
      expect_says(read({&medium_}), Status::Code::kCorruption, "restore the whole file");
      change_both_copies(&medium_, true, [&](Superblock* sb) { *sb = sound; });
    }
  }
  EXPECT_TRUE(read({&medium_}).ok());
}

TEST_F(PoolTest, TargetsMustBeAllThereInOrderAndOfOnePool) {
  MemoryMedium a(kMiB);
  MemoryMedium b(kMiB);
  ASSERT_TRUE(Rig({&a, &b}).format().ok());
  EXPECT_TRUE(read({&a, &b}).ok());
  expect_says(read({&b, &a}), Status::Code::kInvalidArgument, "in the order");
  expect_says(read({&a}), Status::Code::kInvalidArgument, "one of 2 targets");
  expect_says(read({&a, &b, &b}), Status::Code::kInvalidArgument, "one of 2 targets");
  expect_says(read({&a, &a}), Status::Code::kInvalidArgument, "in the order");
  MemoryMedium c(kMiB);
  MemoryMedium d(kMiB);
  ASSERT_TRUE(Rig({&c, &d}).format().ok());
  change_both_copies(&d, true, [](Superblock* sb) { sb->pool_id[1] = 99; });
  expect_says(read({&a, &d}), Status::Code::kInvalidArgument, "one pool");
}

// Corrupt in one field that all must have in common.
TEST_F(PoolTest, TargetsThatContradictEachOtherAreCorruption) {
  MemoryMedium a(kMiB), b(kMiB);
  ASSERT_TRUE(Rig({&a, &b}).format().ok());
  const Superblock sound = superblock_of(b);
  const std::vector<std::function<void(Superblock*)>> wrong = {
      [](Superblock* sb) { sb->key_format ^= 1; }, [](Superblock* sb) { sb->segments -= 1; },
      [](Superblock* sb) { sb->segment_bytes /= 2; },
      [](Superblock* sb) {
        sb->extent_bytes *= 2, sb->extents /= 2, sb->data_offset = 3 * sb->log_offset / 8192 * 8192;
      }};
  for (size_t i = 0; i < wrong.size(); ++i) {
    change_both_copies(&b, true, wrong[i]);
    EXPECT_TRUE(read({&a, &b}).IsCorruption()) << "change " << i << ": " << read({&a, &b}).ToString();
    change_both_copies(&b, true, [&](Superblock* sb) { *sb = sound; });
  }
  EXPECT_TRUE(read({&a, &b}).ok());
}

TEST_F(PoolTest, ReplicasAreRefused) {
  for (const size_t word : {size_t{0}, std::size(Superblock().replicas) - 1}) {
    change_both_copies(&medium_, true, [&](Superblock* sb) { sb->replicas[word] = 1; });
    expect_says(read({&medium_}), Status::Code::kNotSupported, "newer Bonsai");
    change_both_copies(&medium_, true, [&](Superblock* sb) { sb->replicas[word] = 0; });
  }
  EXPECT_TRUE(read({&medium_}).ok());
}

TEST_F(PoolTest, SegmentsOfSeveralTargetsTakeTurns) {
  MemoryMedium a(kMiB);
  MemoryMedium b(2 * kMiB);  // the smaller one decides
  ASSERT_TRUE(Rig({&a, &b}).format().ok());
  Pool pool;
  ASSERT_TRUE(read({&a, &b}, &pool).ok());
  const auto segments = pool.segments();
  for (size_t i = 0; i < segments.size(); ++i) EXPECT_EQ(segments[i].target(), i % 2);
  EXPECT_EQ(superblock_of(a).target_bytes, superblock_of(b).target_bytes);
  Space space;
  pool.add_targets(&space);
  EXPECT_EQ(space.capacity_bytes(), 2 * superblock_of(a).extents * superblock_of(a).extent_bytes);
  EXPECT_GT(space.reserve_bytes(), 0U);
}

void expect_sound_geometry(uint64_t bytes, uint64_t log_bytes) {
  MemoryMedium medium(bytes);
  const Status status = Rig({&medium}).format(log_bytes);
  ASSERT_TRUE(status.ok()) << status.ToString() << " " << bytes;
  const Superblock sb = superblock_of(medium);
  EXPECT_LE(sb.target_bytes, bytes);
  EXPECT_EQ(sb.extent_table_offset, kExtentTableOffset);
  EXPECT_GE(sb.log_offset, sb.extent_table_offset + 8 * sb.extents);
  EXPECT_EQ(sb.log_offset % kPageBytes, 0U);
  EXPECT_GE(sb.segments, 4U);
  EXPECT_GE(sb.segment_bytes, 4096U);
  EXPECT_LE(sb.segment_bytes, kMiB);
  EXPECT_GE(sb.data_offset, sb.log_offset + sb.segments * sb.segment_bytes);
  EXPECT_EQ(sb.data_offset % sb.extent_bytes, 0U);
  EXPECT_GE(sb.extents, 4U);
  EXPECT_LE(sb.data_offset + sb.extents * sb.extent_bytes, sb.target_bytes);
  EXPECT_GT(sb.data_offset + (sb.extents + 1) * sb.extent_bytes, sb.target_bytes) << "an extent is wasted";
  EXPECT_LT(sb.segments, uint64_t{kNoSegment});
  EXPECT_TRUE(log_bytes < 4 * 4096 || sb.segments * sb.segment_bytes <= log_bytes);
  Pool pool;
  ASSERT_TRUE(read({&medium}, &pool).ok());
  const Limits limits = pool.limits();
  EXPECT_LE(4 * limits.large_value_bytes_min, sb.segment_bytes);
  EXPECT_GE(limits.dnode_bytes_max, 4096U);
  Rig rig({&medium});
  ASSERT_TRUE(rig.open().ok());
  ASSERT_EQ(rig.ranges.size(), 1U);
  EXPECT_TRUE(rig.ranges[0].dnode->lo() == base::Fence());
  EXPECT_TRUE(rig.ranges[0].dnode->hi().is_infinite());
}

TEST(Geometry, IsSoundFrom64KiBTo64GiB) {
  for (uint64_t bytes = kPoolBytesMin; bytes <= uint64_t{64} << 30; bytes *= 4) {
    expect_sound_geometry(bytes, 0);
    expect_sound_geometry(bytes + 12'345, 0);
    expect_sound_geometry(bytes, bytes / 4);
  }
  expect_sound_geometry(16 * kMiB - 1, 0);
  expect_sound_geometry(16 * kMiB, 0);
}

TEST(Geometry, WhatHasNoRoomForDataIsRefusedAndHarmsNothing) {
  for (const auto& [bytes, log_bytes] : std::vector<std::pair<uint64_t, uint64_t>>{{4096, 0},
                                                                                   {32'768, 0},
                                                                                   {kPoolBytesMin, kPoolBytesMin},
                                                                                   {kMiB, kMiB},
                                                                                   {kMiB, UINT64_MAX},
                                                                                   {64 * kMiB, 64 * kMiB}}) {
    MemoryMedium medium(bytes);
    medium.record(true);
    expect_says(Rig({&medium}).format(log_bytes), Status::Code::kInvalidArgument, "pool_bytes");
    EXPECT_TRUE(medium.events().empty());
  }
  MemoryMedium huge(uint64_t{16} << 30);
  huge.record(true);
  expect_says(Rig({&huge}).format(UINT64_MAX), Status::Code::kInvalidArgument, "log_bytes");
  EXPECT_TRUE(huge.events().empty());
}

TEST(Creation, TheSuperblockIsWrittenWhenAllElseIsDurable) {
  if (!testing::stores_are_recorded()) GTEST_SKIP() << "what the fabric writes is no operation of the medium";
  MemoryMedium medium(kPoolBytesMin);
  medium.record(true);
  ASSERT_TRUE(Rig({&medium}).format().ok());
  const auto& events = medium.events();
  const size_t superblock = medium.first('n', kSiteFirstSuperblock);
  EXPECT_LT(medium.last('n', kSiteFill), medium.first('|', kSiteHeaderFence));
  EXPECT_LT(medium.last('|', kSiteHeaderFence), superblock);
  EXPECT_LT(medium.last('|', kSiteStateFence), superblock);
  EXPECT_EQ(medium.last('|', kSiteSuperblockFence), events.size() - 1);
}

TEST(Creation, RunStateIsAChoiceOfThree) {
  testing::MemoryPool pool;
  for (const RunState state : {RunState::kClean, RunState::kOpenDurable, RunState::kOpenBuffered}) {
    const bool clean = state == RunState::kClean;
    ASSERT_TRUE((clean ? write_clean_state(pool.rig.volume, pool.rig.pool)
                       : write_run_state(pool.rig.volume, pool.rig.pool, state))
                    .ok());
    Rig again({&pool.medium});
    ASSERT_TRUE(again.analyse_only().ok());
    EXPECT_EQ(again.analysis.clean, state == RunState::kClean);
    EXPECT_TRUE(again.analysis.damages.empty());
  }
  pool.medium.flip(kStateRunOffset, 3);
  Rig again({&pool.medium});
  ASSERT_TRUE(again.analyse_only().ok());
  EXPECT_FALSE(again.analysis.clean);
  EXPECT_FALSE(again.analysis.damages.empty());
}

}  // namespace
}  // namespace bonsai::persist
