// SPDX-License-Identifier: Apache-2.0
#include "persist/dnode_store.h"

#include <gtest/gtest.h>

#include <set>

#include "base/units.h"
#include "persist/sites.h"
#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using base::Fence;
using base::Key;
using scale::Addr;
using testing::Entries;
using testing::MemoryMedium;
using testing::MemoryPool;
using testing::Rig;

using base::kMiB;

Entries some_entries(int count = 20, const std::string& prefix = "k") {
  Entries entries;
  for (int i = 0; i < count; ++i) entries.put(prefix + std::to_string(1000 + i), "value");
  return entries;
}

class DnodeStoreTest : public ::testing::Test {
 protected:
  // Takes header extents in advance, so that no test depends on when the store claims one.
  DnodeStoreTest() {
    std::vector<Addr> slots(100);
    for (Addr& slot : slots) EXPECT_TRUE(rig().store->take_slot(&slot).ok());
    for (const Addr slot : slots) rig().store->give_slot(slot);
  }
  std::unique_ptr<Dnode> write(const Fence& lo, const Fence& hi, uint64_t gen, const Entries& entries) {
    DnodeWriter writer(*rig().store);
    Dnode* dnode = nullptr;
    EXPECT_TRUE(writer.add(lo, hi, gen, nullptr, entries.list(), &dnode).ok());
    return std::move(testing::committed(writer).front());
  }
  [[nodiscard]] bool reads(const Dnode& dnode, bool* retired) {
    const SlotRead::State state = read_slot(rig().volume, dnode.header(), kFormatVersion).state;
    *retired = state == SlotRead::State::kRetired;
    return *retired || state == SlotRead::State::kLive;
  }
  Rig& rig() { return pool_.rig; }
  MemoryMedium& medium() { return pool_.medium; }

  MemoryPool pool_{kMiB};
};

TEST_F(DnodeStoreTest, HeadersFollowTheFenceOfAllRuns) {
  if (!testing::stores_are_recorded()) GTEST_SKIP() << "what the fabric writes is no operation of the medium";
  const std::string long_key(200, 'm');
  DnodeWriter writer(*rig().store);
  medium().record(true);
  Dnode* dnode = nullptr;
  ASSERT_TRUE(writer.add(Fence(), Fence(long_key), 5, nullptr, some_entries().list(), &dnode).ok());
  ASSERT_TRUE(writer.add(Fence(long_key), Fence::infinite(), 5, nullptr, {}, &dnode).ok());
  const auto dnodes = testing::committed(writer);
  ASSERT_EQ(dnodes.size(), 2U);
  const MemoryMedium& m = medium();
  EXPECT_LT(m.last('n', kSiteRun), m.first('|', kSiteRunFence));
  EXPECT_LT(m.first('|', kSiteRunFence), m.first('n', kSiteHeader));
  EXPECT_LT(m.last('n', kSiteHeader), m.first('|', kSiteHeaderFence));
  EXPECT_EQ(m.first('|', kSiteHeaderFence), m.events().size() - 1);
  size_t fences = 0;
  for (const auto& event : m.events()) fences += event.op == '|' ? 1 : 0;
  EXPECT_EQ(fences, 2U) << "two for a commit, however many dnodes it holds";
}

TEST_F(DnodeStoreTest, ADnodeReadsBack) {
  const std::string lo(100, 'j');
  const std::string hi(1024, 'l');
  for (const auto& [from, to] : {std::pair{Fence(), Fence::infinite()},
                                 {Fence("k"), Fence("l")},
                                 {Fence(std::string(32, 'j')), Fence(std::string(32, 'l'))},
                                 {Fence(lo), Fence(hi)}}) {
    const auto written = write(from, to, 7, some_entries());
    EXPECT_EQ(read_slot(rig().volume, written->header(), kFormatVersionMin - 1).dnode, nullptr);
    const std::unique_ptr<Dnode> read = read_slot(rig().volume, written->header(), kFormatVersion).dnode;
    ASSERT_NE(read, nullptr);
    EXPECT_TRUE(read->lo() == from && read->hi() == to);
    EXPECT_EQ(read->gen(), 7U);
    EXPECT_EQ(read->header(), written->header());
    EXPECT_EQ(read->long_fences(), written->long_fences());
    EXPECT_EQ(read->long_fence_bytes(), written->long_fence_bytes());
    EXPECT_EQ(read->long_fences().is_nil(), from.bytes().size() + to.bytes().size() <= kInlineFenceBytes);
    ASSERT_EQ(read->runs().size(), 1U);
    Entry entry;
    const Key key = Key::of("k1007");
    RunReader reader(rig().volume);
    EXPECT_EQ(DnodeSearch().run(&reader, *read, key, key.hash(), &entry), Find::kFound);
  }
}

TEST_F(DnodeStoreTest, EveryFlipOfAHeaderIsRejected) {
  if (bonsai::testing::other_side_asked()) GTEST_SKIP() << "what is resident is not read from the other side again";
  const auto inlined = write(Fence("k"), Fence("l"), 7, some_entries());
  const auto with_long = write(Fence(), Fence(std::string(200, 'x')), 7, some_entries());
  bool retired = false;
  for (const Dnode* dnode : {inlined.get(), with_long.get()}) {
    ASSERT_TRUE(reads(*dnode, &retired));
    for (uint64_t bit = 0; bit < 8 * kDnodeHeaderBytes; ++bit) {
      medium().flip(dnode->header().offset() + bit / 8, bit % 8);
      EXPECT_FALSE(reads(*dnode, &retired)) << "bit " << bit;
      medium().flip(dnode->header().offset() + bit / 8, bit % 8);
    }
  }
  for (uint64_t bit = 0; bit < 8 * with_long->long_fence_bytes(); ++bit) {
    medium().flip(with_long->long_fences().offset() + bit / 8, bit % 8);
    EXPECT_FALSE(reads(*with_long, &retired)) << "long fence, bit " << bit;
    medium().flip(with_long->long_fences().offset() + bit / 8, bit % 8);
  }
}

TEST_F(DnodeStoreTest, RollbackGivesEverythingBack) {
  static_cast<void>(write(Fence(), Fence::infinite(), 5, some_entries()));  // so that a header extent is there
  const uint64_t used = rig().space.used_bytes();
  const std::string long_key(200, 'm');
  DnodeWriter writer(*rig().store);
  Dnode* dnode = nullptr;
  ASSERT_TRUE(writer.add(Fence(), Fence("m"), 6, nullptr, some_entries().list(), &dnode).ok());
  const Addr first_slot = dnode->header();
  const uint64_t used_by_first = rig().space.used_bytes();
  const auto mark = writer.mark();
  ASSERT_TRUE(writer.add(Fence("m"), Fence(long_key), 6, nullptr, some_entries(50, "m").list(), &dnode).ok());
  const Addr second_slot = dnode->header();
  EXPECT_GT(rig().space.used_bytes(), used_by_first);
  writer.rollback(mark);
  EXPECT_EQ(rig().space.used_bytes(), used_by_first);
  ASSERT_TRUE(writer.add(Fence("m"), Fence::infinite(), 6, nullptr, {}, &dnode).ok());
  EXPECT_EQ(dnode->header(), second_slot);
  EXPECT_NE(second_slot, first_slot);
  {
    DnodeWriter abandoned(*rig().store);
    ASSERT_TRUE(abandoned.add(Fence(), Fence::infinite(), 9, nullptr, some_entries().list(), &dnode).ok());
  }
  EXPECT_EQ(rig().space.used_bytes(), used_by_first);
  writer.rollback({0, 0});
  EXPECT_EQ(rig().space.used_bytes(), used);
}

TEST_F(DnodeStoreTest, AMovedRunReadsAsBefore) {
  const std::string long_key(200, 'z');
  const auto first = write(Fence(), Fence(long_key), 5, some_entries(100));
  DnodeWriter writer(*rig().store);
  Dnode* dnode = nullptr;
  ASSERT_TRUE(writer.add(first->lo(), first->hi(), 6, first.get(), some_entries(3).list(), &dnode).ok());
  const auto old_dnode = std::move(testing::committed(writer).front());
  const uint64_t used = rig().space.used_bytes();
  const Addr to = rig().space.allocate(old_dnode->runs()[0].bytes, Space::Use::kReserve);
  ASSERT_TRUE(writer.add_moved(*old_dnode, 0, to, &dnode).ok());
  writer.rollback({0, 0});
  EXPECT_EQ(rig().space.used_bytes(), used + round_up(old_dnode->runs()[0].bytes, kBlockBytes)) << "the caller's place";
  ASSERT_TRUE(writer.add_moved(*old_dnode, 0, to, &dnode).ok());
  const auto moved = std::move(testing::committed(writer).front());
  EXPECT_TRUE(moved->lo() == old_dnode->lo() && moved->hi() == old_dnode->hi());
  EXPECT_EQ(moved->gen(), old_dnode->gen());
  EXPECT_EQ(moved->runs()[0].addr, to.bits());
  EXPECT_EQ(moved->runs()[0].bytes, old_dnode->runs()[0].bytes);
  EXPECT_EQ(moved->runs()[1].addr, old_dnode->runs()[1].addr);
  testing::retire(*rig().store, {old_dnode.get()});
  rig().store->free(*old_dnode, moved->runs(), moved->long_fences());
  EXPECT_EQ(rig().space.used_bytes(), used) << "also the long fences are there once";
  DnodeCursor was(rig().volume, *old_dnode), is(rig().volume, *moved);
  was.seek({});
  for (is.seek({}); is.valid(); is.next(), was.next()) {
    ASSERT_TRUE(was.valid());
    EXPECT_EQ(is.entry().key.bytes, was.entry().key.bytes);
    EXPECT_EQ(is.entry().value, was.entry().value);
  }
  EXPECT_TRUE(!was.valid() && was.trouble() == Trouble::kNone && is.trouble() == Trouble::kNone);
  medium().flip(to.offset() + 40, 1);
  EXPECT_TRUE(writer.add_moved(*moved, 0, to, &dnode).IsCorruption()) << "damage is not copied";
}

TEST_F(DnodeStoreTest, RetireIsFlushedAndFencedAndReadsAsRetired) {
  if (bonsai::testing::other_side_asked()) GTEST_SKIP() << "what is resident is not read from the other side again";
  const auto a = write(Fence(), Fence("m"), 5, some_entries());
  const auto b = write(Fence("m"), Fence::infinite(), 5, {});
  medium().record(true);
  testing::retire(*rig().store, {a.get(), b.get()});
  const auto& events = medium().events();
  ASSERT_EQ(events.size(), 7U) << "two marks, and how often the slots of their extent were written";
  EXPECT_LT(medium().first('f', kSiteExtentNote), 6U);
  EXPECT_EQ(medium().first('|', kSiteRetireFence), 6U);
  bool retired = false;
  EXPECT_TRUE(reads(*a, &retired));
  EXPECT_TRUE(retired);
  medium().flip(a->header().offset() + offsetof(DnodeHeader, mark), 2);
  EXPECT_FALSE(reads(*a, &retired)) << "a damaged mark makes no dnode live again";
}

TEST_F(DnodeStoreTest, FreeGivesSpaceAndSlotBackButForKeptRuns) {
  const uint64_t used_before = rig().space.used_bytes();
  const auto old_dnode = write(Fence(), Fence(std::string(200, 'z')), 5, some_entries(100));
  const uint64_t used = rig().space.used_bytes();
  DnodeWriter writer(*rig().store);
  Dnode* dnode = nullptr;
  ASSERT_TRUE(writer.add(old_dnode->lo(), old_dnode->hi(), 6, old_dnode.get(), some_entries(1).list(), &dnode).ok());
  const auto successor = std::move(testing::committed(writer).front());
  EXPECT_EQ(successor->runs().size(), 2U);
  const uint64_t added = kBlockBytes;  // the run; the fence keys are taken over
  EXPECT_EQ(rig().space.used_bytes(), used + added);
  testing::retire(*rig().store, {old_dnode.get()});
  rig().store->free(*old_dnode, successor->runs(), successor->long_fences());
  EXPECT_EQ(rig().space.used_bytes(), used + kBlockBytes) << "the appended run only";
  Addr slot;
  ASSERT_TRUE(rig().store->take_slot(&slot).ok());
  EXPECT_EQ(slot, old_dnode->header());
  rig().store->give_slot(slot);
  testing::retire(*rig().store, {successor.get()});
  rig().store->free(*successor, {});
  EXPECT_EQ(rig().space.used_bytes(), used_before);
}

TEST_F(DnodeStoreTest, ExtentsAreZeroedThenClaimedAndFoundAgain) {
  if (!testing::stores_are_recorded()) GTEST_SKIP() << "what the fabric writes is no operation of the medium";
  const uint64_t extent_bytes = rig().pool.superblocks[0].extent_bytes;
  const uint64_t slots_each = extent_bytes / kDnodeHeaderBytes;
  const uint64_t used = rig().space.used_bytes();
  std::set<uint64_t> slots;
  medium().record(true);
  while (slots.size() < 100 || rig().space.used_bytes() == used) {
    Addr slot;
    ASSERT_TRUE(rig().store->take_slot(&slot).ok());
    EXPECT_EQ(slot.offset() % kDnodeHeaderBytes, 0U);
    EXPECT_TRUE(slots.insert(slot.bits()).second) << "given twice";
  }
  const MemoryMedium& m = medium();
  const size_t slots_written = m.first('|', kSiteExtentSlotsFence);
  EXPECT_LT(m.first('n', kSiteExtentSlots), slots_written);
  EXPECT_LT(slots_written, m.first('f', kSiteExtent));
  EXPECT_LT(m.first('f', kSiteExtent), m.first('|', kSiteExtentFence));
  Rig again({&medium()});
  ASSERT_TRUE(again.open().ok());
  EXPECT_EQ(again.analysis.free_slots.size(), again.analysis.header_extents.size() * slots_each - 1)
      << "all but the root";
  EXPECT_EQ(again.space.used_bytes(), again.analysis.header_extents.size() * extent_bytes);
  EXPECT_EQ(again.space.used_bytes(), rig().space.used_bytes()) << "every extent is found again";
}

TEST_F(DnodeStoreTest, FullIsAnAnswer) {
  DnodeWriter writer(*rig().store);
  Dnode* dnode = nullptr;
  Status status;
  const Entries entries = some_entries(300);
  for (int i = 0; i < 10'000 && status.ok(); ++i) {
    status = writer.add(Fence(), Fence::infinite(), 5, nullptr, entries.list(), &dnode);
  }
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  writer.rollback({0, 0});
  EXPECT_TRUE(writer.add(Fence(), Fence::infinite(), 5, nullptr, entries.list(), &dnode).ok());
  writer.rollback({0, 0});
  while (!rig().space.allocate(kBlockBytes, Space::Use::kReserve).is_nil()) {
  }
  status = Status::OK();
  Addr slot;
  for (int i = 0; i < 10'000 && status.ok(); ++i) status = rig().store->take_slot(&slot);
  EXPECT_TRUE(status.IsNoSpace());
  status = writer.add(Fence(), Fence(std::string(200, 'x')), 5, nullptr, {}, &dnode);
  EXPECT_TRUE(status.IsNoSpace()) << "no room for long fences";
}

}  // namespace
}  // namespace bonsai::persist
