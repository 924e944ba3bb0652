#include "persist/dnode.h"

#include <gtest/gtest.h>

#include <map>

#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using base::Fence;
using base::Key;
using testing::Entries;
using testing::MemoryPool;
using testing::seeded_random;

// Writes runs into a pool and puts them together to dnodes.
class DnodeTest : public ::testing::Test {
 protected:
  RunDesc write(const Entries& entries) {
    std::vector<std::byte> bytes;
    uint64_t room = 4 * entries.list().size();
    for (const Entry& entry : entries.list()) room += entry_bytes(entry);
    const scale::Addr addr = pool_.rig.space.allocate(room, Space::Use::kReserve);
    EXPECT_FALSE(addr.is_nil());
    const RunDesc desc = encode_run(entries.list(), addr.bits(), &bytes);
    pool_.rig.volume.copy(addr, bytes.data(), bytes.size());
    return desc;
  }
  [[nodiscard]] const scale::Volume& volume() const { return pool_.rig.volume; }
  void damage(const RunDesc& run, uint64_t offset) {
    pool_.medium.flip(scale::Addr::of_bits(run.addr).offset() + offset, 3);
  }

  MemoryPool pool_{uint64_t{4} << 20};
};

using Model = std::map<std::string, std::pair<std::string, bool>>;  // key -> (value, tombstone)

void expect_find(const scale::Volume& volume, const Dnode& dnode, const Model& model, const std::string& key) {
  Entry entry;
  const Find found = dnode.find(volume, Key::of(key), &entry);
  const auto it = model.find(key);
  ASSERT_EQ(found, it != model.end() ? Find::kFound : Find::kAbsent) << base::printable(key);
  if (found != Find::kFound) return;
  EXPECT_EQ(entry.value, it->second.first);
  EXPECT_EQ(entry.tombstone, it->second.second);
}

void expect_cursor(const scale::Volume& volume, const Dnode& dnode, const Model& model, const std::string& from) {
  DnodeCursor cursor(volume, dnode);
  auto it = model.lower_bound(from);
  for (cursor.seek(Key::of(from)); cursor.valid(); cursor.next(), ++it) {
    ASSERT_NE(it, model.end());
    ASSERT_EQ(cursor.entry().key.bytes, it->first);
    ASSERT_EQ(cursor.entry().value, it->second.first);
    ASSERT_EQ(cursor.entry().tombstone, it->second.second);
  }
  EXPECT_FALSE(cursor.damaged());
  EXPECT_EQ(it, model.end());
}

TEST_F(DnodeTest, ANewerRunHidesAnOlderOne) {
  Entries old_run;
  old_run.put("a", "1");
  old_run.put("b", "1");
  old_run.put("c", "1");
  Entries new_run;
  new_run.put("b", "2");
  new_run.del("c");
  new_run.put("d", "2");
  Dnode dnode(Fence(), Fence::infinite(), 3);
  dnode.add_run(write(old_run));
  dnode.add_run(write(new_run));
  EXPECT_EQ(dnode.entries(), 6U);
  const Model model = {{"a", {"1", false}}, {"b", {"2", false}}, {"c", {"", true}}, {"d", {"2", false}}};
  for (const bool uploaded : {false, true}) {
    ASSERT_TRUE(!uploaded || dnode.upload(volume()));
    EXPECT_EQ(dnode.uploaded(), uploaded);
    for (const char* key : {"", "a", "aa", "b", "c", "d", "e"}) expect_find(volume(), dnode, model, key);
    for (const char* from : {"", "a", "aa", "c", "d", "e"}) expect_cursor(volume(), dnode, model, from);
  }
}

TEST_F(DnodeTest, WithoutRunsEverythingIsAbsent) {
  Dnode dnode(Fence(), Fence::infinite(), 1);
  expect_find(volume(), dnode, {}, "a");
  ASSERT_TRUE(dnode.upload(volume()));
  expect_find(volume(), dnode, {}, "a");
  expect_cursor(volume(), dnode, {}, "");
}

std::string random_key(base::Random& random, const std::string& prefix) {
  std::string key = prefix;
  for (uint64_t i = random.below(12); i-- > 0;) key.push_back(static_cast<char>("\0\1ab\xff"[random.below(5)]));
  return key;
}

// Several runs of random keys that share a prefix longer than a head, with tombstones; with and without metadata.
TEST_F(DnodeTest, AgreesWithAModelWithAndWithoutMetadata) {
  base::Random random = seeded_random(3);
  for (const std::string prefix : {"", "k", "user:12345:session:"}) {
    for (int round = 0; round < 12; ++round) {
      const Fence hi = prefix.empty()
                           ? Fence::infinite()
                           : Fence(prefix.substr(0, prefix.size() - 1) + static_cast<char>(prefix.back() + 1));
      Dnode dnode(Fence(prefix), hi, 9);
      Model model;
      for (uint64_t runs = 1 + random.below(kRunsMax); runs-- > 0;) {
        const bool uniform = random.chance(1, 3);
        Model run;
        for (uint64_t n = 1 + random.below(60); n-- > 0;) {
          std::string key = uniform ? prefix + std::to_string(100000 + random.below(100)) : random_key(random, prefix);
          if (key.empty()) key = "k";
          const bool tombstone = !uniform && random.chance(1, 4);
          run[key] = {tombstone ? "" : uniform ? "12345678" : std::string(random.below(20), 'v'), tombstone};
        }
        Entries entries;
        for (const auto& [key, value] : run) {
          value.second ? entries.del(key) : entries.put(key, value.first);
          model[key] = value;
        }
        dnode.add_run(write(entries));
      }
      for (const bool uploaded : {false, true}) {
        ASSERT_TRUE(!uploaded || dnode.upload(volume()));
        for (const auto& [key, value] : model) expect_find(volume(), dnode, model, key);
        for (int i = 0; i < 50; ++i) expect_find(volume(), dnode, model, random_key(random, prefix));
      }
      for (int i = 0; i < 5; ++i) expect_cursor(volume(), dnode, model, random_key(random, prefix));
      for (const RunDesc& run : dnode.runs()) pool_.rig.space.free(scale::Addr::of_bits(run.addr), run.bytes);
    }
  }
}

TEST_F(DnodeTest, MetadataOfKeptRunsIsTakenOver) {
  Entries first;
  for (int i = 100; i < 200; ++i) first.put("k" + std::to_string(i), "1");
  Entries second;
  second.put("k150", "2");
  Dnode old_dnode(Fence(), Fence::infinite(), 1);
  old_dnode.add_run(write(first));
  ASSERT_TRUE(old_dnode.upload(volume()));
  Dnode dnode(Fence(), Fence::infinite(), 2);
  dnode.add_run(old_dnode.runs()[0]);
  dnode.add_run(write(second));
  damage(dnode.runs()[0], 5);  // would be noticed if the kept run were read again
  ASSERT_TRUE(dnode.upload(volume(), &old_dnode));
  EXPECT_GT(dnode.dram_bytes(), sizeof dnode);
  Entry entry;
  ASSERT_EQ(dnode.find(volume(), Key::of("k150"), &entry), Find::kFound);
  EXPECT_EQ(entry.value, "2");
  EXPECT_EQ(dnode.find(volume(), Key::of("k151"), &entry), Find::kFound);
  EXPECT_EQ(dnode.find(volume(), Key::of("k100"), &entry), Find::kDamaged);
  EXPECT_EQ(dnode.find(volume(), Key::of("k1"), &entry), Find::kAbsent);
}

TEST_F(DnodeTest, MetadataOfAnotherRangeIsNotTakenOver) {
  Entries entries;
  for (int i = 100; i < 140; ++i) entries.put("prefix-" + std::to_string(i), "1");
  Dnode old_dnode(Fence("prefix-1"), Fence("prefix-2"), 1);
  old_dnode.add_run(write(entries));
  ASSERT_TRUE(old_dnode.upload(volume()));
  Dnode dnode(Fence("prefix-1"), Fence("q"), 2);  // its keys have no common prefix
  dnode.add_run(old_dnode.runs()[0]);
  ASSERT_TRUE(dnode.upload(volume(), &old_dnode));
  for (const Entry& wanted : entries.list()) {
    Entry entry;
    EXPECT_EQ(dnode.find(volume(), wanted.key, &entry), Find::kFound);
  }
}

TEST_F(DnodeTest, DamageIsToldEverywhere) {
  Entries entries;
  for (int i = 100; i < 140; ++i) entries.put("k" + std::to_string(i), "value" + std::to_string(i));
  Dnode dnode(Fence(), Fence::infinite(), 1);
  dnode.add_run(write(entries));
  Dnode other(Fence(), Fence::infinite(), 1);
  other.add_run(dnode.runs()[0]);
  ASSERT_TRUE(dnode.upload(volume()));
  const uint32_t bytes_each = dnode.runs()[0].bytes / 40;
  damage(dnode.runs()[0], 20 * bytes_each + bytes_each - 1);  // the value of k120
  Entry entry;
  EXPECT_EQ(dnode.find(volume(), Key::of("k120"), &entry), Find::kDamaged);
  EXPECT_EQ(dnode.find(volume(), Key::of("k121"), &entry), Find::kFound);
  EXPECT_EQ(other.find(volume(), Key::of("k120"), &entry), Find::kDamaged);
  EXPECT_FALSE(other.upload(volume()));
  EXPECT_FALSE(other.uploaded());
  DnodeCursor cursor(volume(), dnode);
  int seen = 0;
  for (cursor.seek(Key()); cursor.valid(); cursor.next()) ++seen;
  EXPECT_TRUE(cursor.damaged());
  EXPECT_EQ(seen, 20);
  cursor.seek(Key::of("k130"));  // its search probes the damaged entry in the middle
  EXPECT_EQ(cursor.valid(), !cursor.damaged());
}

}  // namespace
}  // namespace bonsai::persist
