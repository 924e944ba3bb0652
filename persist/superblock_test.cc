// SPDX-License-Identifier: Apache-2.0
// Pools whose targets have roles: how they are laid out, and where log and data go.
#include "persist/superblock.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using testing::MemoryMedium;
using testing::Rig;

using base::kMiB;

TEST(Roles, LayOutWhatTheyNeedAndNoMore) {
  Options options;
  options.pool_bytes = 64 * kMiB;
  const std::vector<uint64_t> roles = {kRoleDnodes, kRoleLog, kRoleLog, kRolesAll};
  std::vector<uint64_t> bytes(roles.size());
  for (size_t i = 0; i < roles.size(); ++i) ASSERT_TRUE(new_target_bytes(options, roles, i, &bytes[i]).ok());
  EXPECT_EQ(bytes[0], options.pool_bytes);
  EXPECT_EQ(bytes[3], options.pool_bytes);
  EXPECT_EQ(bytes[1], bytes[2]);
  const uint64_t share = options.pool_bytes * 2 / 10 / 3;  // two have data, three have a log
  EXPECT_GE(bytes[1], share - 64 * 1024);
  EXPECT_LE(bytes[1], share + 128 * 1024) << "tables and rounding";
  std::vector<Superblock> superblocks;
  ASSERT_TRUE(lay_out_pool(options, bytes, roles, &superblocks).ok());
  for (size_t i = 0; i < roles.size(); ++i) {
    const Superblock& sb = superblocks[i];
    EXPECT_TRUE(sound_layout(sb)) << i;
    EXPECT_EQ(sb.roles, roles[i]);
    EXPECT_EQ(sb.segments, sb.has(kRoleLog) ? superblocks[1].segments : 0) << i;
    EXPECT_EQ(sb.extents == 0, !sb.has(kRoleDnodes)) << i;
    EXPECT_EQ(sb.segment_bytes, superblocks[0].segment_bytes);
  }
  EXPECT_GT(superblocks[0].extents, superblocks[3].extents) << "its log has no place there";
}

TEST(Roles, OfAPoolOfTheLeastSize) {
  Options options;
  options.pool_bytes = kPoolBytesMin;
  const std::vector<uint64_t> roles = {kRoleLog, kRoleDnodes};
  std::vector<uint64_t> bytes(2);
  for (size_t i = 0; i < 2; ++i) ASSERT_TRUE(new_target_bytes(options, roles, i, &bytes[i]).ok());
  EXPECT_EQ(bytes[0], kPoolBytesMin);
  MemoryMedium log(bytes[0]), data(bytes[1]);
  ASSERT_TRUE(Rig({&log, &data}).format(0, roles).ok());
  Rig rig({&log, &data});
  EXPECT_EQ("OK", rig.open().ToString());
}

// Fields with right checksums over sizes that no target has. The target has its bytes and no more.
TEST(Superblocks, SizesNearTheEndOfTheirRangeAreRefused) {
  MemoryMedium medium(kMiB);
  ASSERT_TRUE(Rig({&medium}).format().ok());
  Superblock sound;
  std::memcpy(&sound, medium.view(), sizeof sound);
  uint64_t Superblock::*const kSizes[] = {
      &Superblock::target_bytes, &Superblock::extent_bytes, &Superblock::extent_table_offset,
      &Superblock::extents,      &Superblock::log_offset,   &Superblock::segment_bytes,
      &Superblock::segments,     &Superblock::data_offset,  &Superblock::log_table_offset};
  constexpr uint64_t kHalf = uint64_t{1} << 63;
  for (uint64_t Superblock::*const field : kSizes) {
    for (const uint64_t value : {uint64_t{0}, kHalf - 1, kHalf, kHalf + 1, UINT64_MAX / 16 + 1, UINT64_MAX - 4096,
                                 UINT64_MAX - 4095, UINT64_MAX - 1, UINT64_MAX, 0 - (sound.*field)}) {
      Superblock forged = sound;
      forged.*field = value;
      forged.seal();
      for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
        std::memcpy(medium.view() + copy * kPageBytes, &forged, sizeof forged);
      }
      Rig rig({&medium});
      const Status status = rig.open();
      EXPECT_TRUE(status.IsCorruption()) << value << ": " << status.ToString();
    }
  }
}

TEST(Roles, SharesOfManyLargeTargetsDoNotWrapAround) {
  const std::vector<uint64_t> roles(scale::kTargetsMax, kRolesAll), bytes(scale::kTargetsMax, kPoolBytesMax);
  std::vector<Superblock> superblocks;
  ASSERT_TRUE(lay_out_pool(Options(), bytes, roles, &superblocks).ok());
  // A tenth is due; of 64 such targets together it has more than 64 bits.
  EXPECT_GT(superblocks[0].segments * superblocks[0].segment_bytes, kPoolBytesMax / 200);
}

TEST(Roles, BothMustBeThereAndFit) {
  Options options;
  const std::vector<uint64_t> bytes = {kMiB, kMiB};
  std::vector<Superblock> superblocks;
  const auto says = [&](std::vector<uint64_t> roles, const std::string& text) {
    const Status status = lay_out_pool(options, bytes, roles, &superblocks);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_NE(status.message().find(text), std::string::npos) << status.ToString();
  };
  says({kRoleLog, kRoleLog}, "role=dnodes");
  says({kRoleDnodes, kRoleDnodes}, "role=log");
  options.log_bytes = 2 * kMiB;
  says({kRoleLog, kRoleDnodes}, "no room for the log");
}

// One field after the other is wrong for the role.
TEST(Roles, ALayoutThatDoesNotFitThemIsNone) {
  const std::vector<uint64_t> bytes = {kMiB, kMiB, kMiB};
  std::vector<Superblock> sound;
  ASSERT_TRUE(lay_out_pool({}, bytes, std::vector<uint64_t>{kRoleLog, kRoleDnodes, kRolesAll}, &sound).ok());
  for (const Superblock& sb : sound) {
    for (const uint64_t roles : {uint64_t{0}, kRoleLog, kRoleDnodes, kRolesAll, uint64_t{4}, uint64_t{7}}) {
      Superblock other = sb;
      other.roles = roles;
      EXPECT_EQ(sound_layout(other), roles == sb.roles) << sb.roles << " as " << roles;
    }
  }
}

TEST(Roles, SayWhereLogAndDataGo) {
  MemoryMedium a(kMiB), b(kMiB), c(kMiB), d(kMiB);
  const std::vector<uint64_t> roles = {kRoleDnodes, kRoleLog, kRoleDnodes, kRoleLog};
  ASSERT_TRUE(Rig({&a, &b, &c, &d}).format(0, roles).ok());
  Rig rig({&a, &b, &c, &d});
  ASSERT_TRUE(rig.open().ok());
  EXPECT_EQ(rig.pool.log_home(), 1U);
  const std::vector<scale::Addr> segments = rig.pool.segments();
  for (size_t i = 0; i < segments.size(); ++i) EXPECT_EQ(segments[i].target(), i % 2 == 0 ? 1U : 3U);
  bool data[4] = {};
  for (;;) {
    const scale::Addr at = rig.space.allocate(4096, Space::Use::kReserve);
    if (at.is_nil()) break;
    data[at.target()] = true;
  }
  EXPECT_TRUE(data[0] && data[2] && !data[1] && !data[3]);
}

// A record goes to a target with a log, and nothing to the others. (The first one of a segment opens it, which all
// targets note: old_copy.h.)
TEST(Roles, ARecordTouchesNoTargetWithoutALog) {
  for (const bool buffered : {false, true}) {
    MemoryMedium data(kMiB), log(kMiB);
    ASSERT_TRUE(Rig({&data, &log}).format(0, {kRoleDnodes, kRoleLog}).ok());
    Rig rig({&data, &log}, buffered);
    ASSERT_TRUE(rig.open().ok());
    Update update;
    update.key = "key";
    update.value = "first";
    update.gen = 2;
    uint32_t segment = kNoSegment;
    ASSERT_EQ(rig.log->append(update, Log::Use::kOrdinary, &segment), Log::Result::kOk);
    data.record(true);
    update.value = "value";
    update.token = 1;
    ASSERT_EQ(rig.log->append(update, Log::Use::kOrdinary, &segment), Log::Result::kOk);
    ASSERT_TRUE(rig.log->close_epoch().ok());
    for (const auto& event : data.events()) EXPECT_EQ(event.op, '|') << event.site;
    Rig again({&data, &log}, buffered);
    ASSERT_TRUE(again.open().ok());
    EXPECT_EQ(testing::recovered_content(again), (testing::Content{{"key", "value"}}));
  }
}

TEST(Roles, GrowthEnlargesTheTargetsWithDnodes) {
  MemoryMedium small(kMiB), log(kMiB);
  ASSERT_TRUE(Rig({&small, &log}).format(0, {kRoleDnodes, kRoleLog}).ok());
  MemoryMedium large(2 * kMiB);
  std::memcpy(large.view(), small.view(), small.bytes());
  scale::VolumeOf<base::HookedMedium> volume({&large, &log});
  Pool pool;
  ASSERT_TRUE(read_pool(volume, {"data", "log"}, &pool).ok());
  const Superblock before = pool.superblocks[1];
  ASSERT_TRUE(testing::grow(volume, &pool).ok());
  EXPECT_EQ(pool.superblocks[0].target_bytes, 2 * kMiB);
  EXPECT_EQ(std::memcmp(&pool.superblocks[1], &before, sizeof before), 0);
  Rig rig({&large, &log});
  EXPECT_TRUE(rig.open().ok());
}

}  // namespace
}  // namespace bonsai::persist
