// SPDX-License-Identifier: Apache-2.0
// Targets of other pools, of other times and of earlier versions.
#include "persist/opening.h"

#include <gtest/gtest.h>

#include <array>

#include "base/units.h"
#include "persist/testing.h"
#include "persist/words.h"

namespace bonsai::persist {
namespace {

using base::HookedMedium;
using testing::MemoryMedium;
using testing::Rig;

using base::kMiB;
constexpr size_t kTargets = 3;
using Images = std::array<std::vector<std::byte>, kTargets>;

class Openings : public ::testing::Test {
 protected:
  Openings() { EXPECT_TRUE(Rig(media()).format(0, {kRoleDnodes, kRolesAll, kRoleLog}).ok()); }

  std::vector<HookedMedium*> media() { return {&media_[0], &media_[1], &media_[2]}; }
  Images images() const { return {media_[0].image(), media_[1].image(), media_[2].image()}; }
  void restore(size_t target, const Images& from) {
    std::memcpy(media_[target].view(), from[target].data(), from[target].size());
  }
  void restore(const Images& from) {
    for (size_t i = 0; i < kTargets; ++i) restore(i, from);
  }
  void open() {
    Rig rig(media());
    const Status status = rig.open();
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  Status read() {
    Pool pool;
    scale::VolumeOf<HookedMedium> volume(media());
    return read_pool(volume, {"first", "home", "third"}, &pool);
  }
  void expect_refused(const std::string& says) {
    const Status status = read();
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_NE(status.message().find(says), std::string::npos) << status.ToString();
  }

  std::array<MemoryMedium, kTargets> media_{MemoryMedium(kMiB), MemoryMedium(kMiB), MemoryMedium(kMiB)};
};

TEST_F(Openings, ATargetFromBeforeTheLastOneIsRefusedAndNamed) {
  open();
  const Images older = images();
  open();
  const Images newer = images();
  const char* const names[] = {"first", "home", "third"};
  for (size_t target = 0; target < kTargets; ++target) {
    restore(target, older);
    expect_refused(std::string(names[target]) + " is of an older state of the pool than");
    restore(target, newer);
    EXPECT_TRUE(read().ok());
  }
  restore(older);
  EXPECT_TRUE(read().ok()) << "all of one time are a pool";
}

// The medium fails amid the notes of an opening: those that were made stay. Each failure of a target's fence.
TEST_F(Openings, AfterOneThatFailedAmidItsNotesCopiesOfAllTargetsAreAccepted) {
  open();
  const Images before = images();
  int refused = 0;
  for (size_t failing = 0; failing < kTargets; ++failing) {
    for (uint64_t fences = 0; fences < 4; ++fences) {
      restore(before);
      {
        Pool pool;
        scale::VolumeOf<HookedMedium> volume(media());
        ASSERT_TRUE(read_pool(volume, {"first", "home", "third"}, &pool).ok());
        media_[failing].fail_after(fences);
        EXPECT_FALSE(note_opening(volume, pool).ok()) << failing << ", " << fences;
        media_[failing].fail_after(UINT64_MAX);
      }
      EXPECT_TRUE(read().ok()) << "what is there is still a pool: " << read().ToString();
      const Images failed = images();
      for (size_t target = 0; target < kTargets; ++target) {
        restore(target, before);
        const Status status = read();
        if (!status.ok()) {
          ++refused;
          EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
          EXPECT_NE(status.message().find("put back copies of all targets that were made at one time"),
                    std::string::npos)
              << status.ToString();
        }
        restore(failed);
      }
      restore(before);
      EXPECT_TRUE(read().ok()) << failing << ", " << fences << ": " << read().ToString();
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_F(Openings, CopiesThatWereUsedApartAreRefused) {
  open();
  const Images before = images();
  open();
  const Images one = images();
  restore(before);
  open();
  for (size_t target = 0; target < kTargets; ++target) {
    const Images other = images();
    restore(target, one);
    expect_refused("were used apart from each other");
    restore(other);
  }
  EXPECT_TRUE(read().ok());
}

// Each word is stored or not, in the order that fences leave free.
TEST_F(Openings, ACrashInOneLeavesAPoolThatOpens) {
  open();
  for (MemoryMedium& medium : media_) medium.record(true);
  Pool pool;
  scale::VolumeOf<HookedMedium> volume(media());
  ASSERT_TRUE(read_pool(volume, {"first", "home", "third"}, &pool).ok());
  const Images before = images();
  ASSERT_TRUE(note_opening(volume, pool).ok());
  const Images after = images();
  struct Word {
    size_t target;
    uint64_t offset;
    size_t fence;  // before which it is stored
  };
  std::vector<Word> words;
  size_t fences = 0;
  for (size_t target = 0; target < kTargets; ++target) {
    fences = 0;
    for (const auto& event : media_[target].events()) {
      if (event.op == 's') words.push_back({target, event.offset, fences});
      fences += event.op == '|' ? 1 : 0;
    }
    media_[target].record(false);
  }
  ASSERT_EQ(fences, 4U);
  ASSERT_EQ(words.size(), 7U) << "three that are settled, the next one, two others, the home";
  for (size_t fence = 1; fence < fences; ++fence) {  // before the first nothing changes
    for (uint64_t stored = 0; stored < 4; ++stored) {
      restore(before);
      uint64_t bit = 1;
      for (const Word& word : words) {
        if (word.fence == 0 || word.fence > fence) continue;
        const bool is_stored = word.fence < fence || (stored & bit) != 0;
        if (word.fence == fence) bit <<= 1;
        if (is_stored) {
          std::memcpy(media_[word.target].view() + word.offset, after[word.target].data() + word.offset, 8);
        }
      }
      EXPECT_TRUE(read().ok()) << read().ToString() << ": fence " << fence << ", words " << stored;
      const Images crashed = images();
      open();
      const Images reopened = images();
      for (size_t target = 0; target < kTargets; ++target) {
        restore(target, crashed);
        EXPECT_TRUE(read().IsInvalidArgument()) << "target " << target << " was not there when it was opened again";
        restore(reopened);
      }
    }
  }
}

TEST_F(Openings, ADamagedWordIsDamage) {
  open();
  for (size_t target = 0; target < kTargets; ++target) {
    media_[target].flip(kStateOpeningOffset + 3, 2);
    Rig rig(media());
    ASSERT_TRUE(rig.analyse_only().ok());
    ASSERT_EQ(rig.analysis.damages.size(), 1U) << "target " << target;
    EXPECT_NE(rig.analysis.damages[0].where.find("opening"), std::string::npos) << rig.analysis.damages[0].where;
    EXPECT_TRUE(Rig(media()).open().IsCorruption());
    media_[target].flip(kStateOpeningOffset + 3, 2);
  }
  media_[1].flip(kStateNextOpeningOffset, 1);
  open();  // nobody is in the middle of an opening
  EXPECT_TRUE(read().ok());
}

TEST(OneTarget, HasNoOpenings) {
  testing::MemoryPool pool;
  EXPECT_EQ(load_word(pool.rig.volume, {0, kStateOpeningOffset}), 0U);
}

// ---- versions

// Restores the format of version 3: superblocks of 128 bytes, and neither roles nor openings.
void make_version_3(MemoryMedium* medium) {
  for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
    Superblock sb{};
    std::memcpy(&sb, medium->view() + copy * kPageBytes, kSuperblockBytesV3);
    sb.version = 3;
    sb.crc = sb.computed_crc();
    std::memcpy(medium->view() + copy * kPageBytes, &sb, sizeof sb);
  }
  std::memset(medium->view() + kStateOpeningOffset, 0, 2 * base::kLineBytes);
}

std::array<uint64_t, kSuperblockCopies> versions_on(const MemoryMedium& medium) {
  std::array<uint64_t, kSuperblockCopies> versions{};
  for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
    std::memcpy(&versions[copy], medium.view() + copy * kPageBytes + offsetof(Superblock, version), sizeof(uint64_t));
  }
  return versions;
}

TEST(Version3, IsReadAsItIsAndBecomesTheNewestWhenItIsOpened) {
  MemoryMedium a(kMiB), b(kMiB);
  ASSERT_TRUE(Rig({&a, &b}).format().ok());
  for (MemoryMedium* const medium : {&a, &b}) make_version_3(medium);
  const std::vector<std::byte> old_b = b.image();
  Rig reader({&a, &b});
  ASSERT_TRUE(reader.analyse_only().ok());
  EXPECT_TRUE(reader.analysis.damages.empty());
  EXPECT_TRUE(reader.pool.superblocks[1].has(kRoleLog) && reader.pool.superblocks[1].has(kRoleDnodes));
  EXPECT_EQ(versions_on(a)[0], 3U);
  Rig rig({&a, &b});
  ASSERT_EQ("OK", rig.open().ToString());
  for (const MemoryMedium* const medium : {&a, &b}) {
    for (const uint64_t version : versions_on(*medium)) EXPECT_EQ(version, kFormatVersion);
  }
  std::memcpy(b.view(), old_b.data(), old_b.size());
  const Status older = Rig({&a, &b}).open();
  EXPECT_TRUE(older.IsInvalidArgument()) << "a copy from before: " << older.ToString();
}

// Between any two stores, and with any prefix of a superblock's words.
TEST(Version3, ACrashInTheUpgradeLeavesAPoolThatOpens) {
  MemoryMedium a(kMiB), b(kMiB);
  ASSERT_TRUE(Rig({&a, &b}).format().ok());
  for (MemoryMedium* const medium : {&a, &b}) make_version_3(medium);
  const std::vector<std::byte> before_a = a.image(), before_b = b.image();
  scale::VolumeOf<HookedMedium> volume({&a, &b});
  Pool pool;
  ASSERT_TRUE(read_pool(volume, {"a", "b"}, &pool).ok());
  a.record(true);
  ASSERT_TRUE(settle_superblocks(volume, &pool).ok());
  std::string order;
  for (const auto& event : a.events()) order += event.op;
  EXPECT_EQ(order, "sfsf|n|n|") << "words of openings, one copy, the other";
  a.record(false);
  const std::vector<std::byte> after = a.image();
  for (uint64_t copies = 0; copies < kSuperblockCopies; ++copies) {
    for (size_t words = 0; words <= sizeof(Superblock) / 8; ++words) {
      std::memcpy(a.view(), before_a.data(), before_a.size());
      std::memcpy(b.view(), before_b.data(), before_b.size());
      std::memcpy(a.view() + kStateOpeningOffset, after.data() + kStateOpeningOffset, 2 * base::kLineBytes);
      for (uint64_t copy = 0; copy <= copies; ++copy) {
        std::memcpy(a.view() + copy * kPageBytes, after.data() + copy * kPageBytes,
                    copy < copies ? sizeof(Superblock) : 8 * words);
      }
      Rig rig({&a, &b});
      ASSERT_EQ("OK", rig.open().ToString()) << copies << " copies, " << words << " words";
      EXPECT_EQ(versions_on(a)[0] + versions_on(a)[1] + versions_on(b)[0] + versions_on(b)[1], 4 * kFormatVersion);
    }
  }
}

// ---- identity

TEST_F(Openings, AForeignOrRepeatedTargetIsNamed) {
  std::array<MemoryMedium, kTargets> others{MemoryMedium(kMiB), MemoryMedium(kMiB), MemoryMedium(kMiB)};
  std::vector<HookedMedium*> foreign = {&others[0], &others[1], &others[2]};
  Options options;
  const uint64_t id[2] = {5, 6};
  scale::VolumeOf<HookedMedium> volume(foreign);
  ASSERT_TRUE(format_pool(volume, options, id, {kRoleDnodes, kRolesAll, kRoleLog}).ok());
  const auto says = [&](std::vector<HookedMedium*> named, const std::string& text) {
    scale::VolumeOf<HookedMedium> mixed(std::move(named));
    Pool pool;
    const Status status = read_pool(mixed, {"a", "b", "c"}, &pool);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_NE(status.message().find(text), std::string::npos) << status.ToString();
  };
  says({&media_[0], &others[1], &media_[2]}, "b is of another pool than a");
  says({&media_[0], &media_[1], &media_[1]}, "c and b are one target, named twice");
  says({&media_[0], &media_[2], &media_[1]}, "b is target 2 of its pool");
}

}  // namespace
}  // namespace bonsai::persist
