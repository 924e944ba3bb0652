// SPDX-License-Identifier: Apache-2.0
#include "persist/dnode.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "persist/sites.h"
#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using base::Fence;
using base::Key;
using testing::Entries;
using testing::MemoryPool;
using testing::seeded_random;

Find find_in(const scale::Volume& volume, const Dnode& dnode, const std::string& key, Entry* entry) {
  RunReader reader(volume);
  return DnodeSearch().run(&reader, dnode, Key::of(key), Key::of(key).hash(), entry);
}

// Writes runs into a pool and puts them together to dnodes.
class DnodeTest : public ::testing::Test {
 protected:
  RunDesc write(const Entries& entries) {
    std::vector<std::byte> bytes;
    uint64_t room = 4 * entries.list().size();
    for (const Entry& entry : entries.list()) room += entry_bytes(entry);
    const scale::Addr addr = pool_.rig.space.allocate(room, Space::Use::kReserve);
    EXPECT_FALSE(addr.is_nil());
    const RunDesc desc = encode_run(entries.list(), {pool_.rig.volume.identity(), addr.bits(), ++births_}, &bytes);
    bytes.resize((bytes.size() + 7) / 8 * 8);
    pool_.rig.volume.nt_copy(addr, bytes.data(), bytes.size(), kSiteRun);
    EXPECT_TRUE(pool_.rig.volume.fence(kSiteRunFence));
    return desc;
  }
  uint32_t births_ = 0;
  static Dnode::Parts parts(const Fence& lo, const Fence& hi, uint64_t gen, const Runs& runs) {
    Dnode::Parts parts;
    std::tie(parts.lo, parts.hi, parts.gen, parts.runs) = std::tie(lo, hi, gen, runs);
    return parts;
  }
  // The plain dnode, and one with metadata that was read from the runs.
  [[nodiscard]] std::vector<std::unique_ptr<Dnode>> both(const Dnode::Parts& parts) const {
    std::vector<std::unique_ptr<Dnode>> dnodes;
    dnodes.push_back(Dnode::make(parts));
    RunReader reader(volume());
    dnodes.push_back(dnodes[0]->uploaded_copy(&reader));
    EXPECT_FALSE(dnodes[0]->uploaded());
    EXPECT_TRUE(dnodes[1] != nullptr && dnodes[1]->uploaded());
    return dnodes;
  }
  [[nodiscard]] Find find(const Dnode& dnode, const std::string& key, Entry* entry) const {
    return find_in(volume(), dnode, key, entry);
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
  const Find found = find_in(volume, dnode, key, &entry);
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
  EXPECT_EQ(cursor.trouble(), Trouble::kNone);
  EXPECT_EQ(it, model.end());
}

// Compares stretch by stretch: random bounds and sizes, and both ways to verify.
void expect_stretches(const scale::Volume& volume, const Dnode& dnode, const Model& model, const std::string& from,
                      base::Random& random) {
  DnodeCursor cursor(volume, dnode);
  auto it = model.lower_bound(from);
  const Key key = Key::of(from);
  const uint64_t entries = random.chance(1, 2) ? UINT64_MAX : random.below(20);
  const bool inside = !from.empty() && !(key < dnode.lo().key()) && dnode.hi().above(key);
  Dnode::Located located;
  if (inside && random.chance(2, 3)) dnode.prefetch_scan(volume, key, entries, &located);
  inside ? cursor.seek_inside(key, entries, located) : cursor.seek(key, entries);
  while (cursor.valid()) {
    ASSERT_NE(it, model.end());
    ASSERT_EQ(cursor.key().bytes, it->first);
    const auto ahead = std::min<uint64_t>(1 + random.below(8), static_cast<uint64_t>(std::distance(it, model.end())));
    const auto bound = std::next(it, static_cast<ptrdiff_t>(ahead));
    const Key below = bound == model.end() ? Key() : Key::of(bound->first);
    const bool bounded = bound != model.end() && random.chance(1, 2);
    const uint64_t max = random.chance(1, 2) ? UINT64_MAX : 1 + random.below(5);
    const auto stretch = cursor.take(bounded ? &below : nullptr, max);
    ASSERT_GE(stretch.rows.count, 1U);
    ASSERT_LE(stretch.rows.count, bounded ? std::min(max, ahead) : max);
    for (size_t i = 0; i < stretch.rows.count; ++i, ++it) {
      ASSERT_NE(it, model.end());
      ASSERT_EQ(stretch.rows.key(i), it->first);
      ASSERT_EQ(stretch.rows.value(i), it->second.first);
      ASSERT_EQ(stretch.tombstone, it->second.second);
    }
  }
  EXPECT_EQ(cursor.trouble(), Trouble::kNone);
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
  const auto dnodes = both(parts(Fence(), Fence::infinite(), 3, {write(old_run), write(new_run)}));
  EXPECT_EQ(dnodes[0]->entries(), 6U);
  const Model model = {{"a", {"1", false}}, {"b", {"2", false}}, {"c", {"", true}}, {"d", {"2", false}}};
  for (const auto& dnode : dnodes) {
    for (const char* key : {"", "a", "aa", "b", "c", "d", "e"}) expect_find(volume(), *dnode, model, key);
    for (const char* from : {"", "a", "aa", "c", "d", "e"}) expect_cursor(volume(), *dnode, model, from);
  }
}

TEST_F(DnodeTest, WithoutRunsEverythingIsAbsent) {
  for (const auto& dnode : both(parts(Fence(), Fence::infinite(), 1, {}))) {
    expect_find(volume(), *dnode, {}, "a");
    expect_cursor(volume(), *dnode, {}, "");
  }
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
      Runs written;
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
        written.push_back(write(entries));
      }
      const auto dnodes = both(parts(Fence(prefix), hi, 9, written));
      for (const auto& dnode : dnodes) {
        for (const auto& [key, value] : model) expect_find(volume(), *dnode, model, key);
        for (int i = 0; i < 50; ++i) expect_find(volume(), *dnode, model, random_key(random, prefix));
        for (int i = 0; i < 20; ++i) {
          expect_cursor(volume(), *dnode, model, random_key(random, prefix));
          expect_stretches(volume(), *dnode, model, random_key(random, prefix), random);
        }
        for (const char* outside : {"", "\1", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "user", "zzz", "\xff\xff"}) {
          expect_cursor(volume(), *dnode, model, outside);
        }
      }
      for (const RunDesc& run : written) pool_.rig.space.free(scale::Addr::of_bits(run.addr), run.bytes);
    }
  }
}

TEST_F(DnodeTest, MetadataOfKeptRunsAndOfFreshEntriesIsNotReadAgain) {
  for (const bool uniform : {false, true}) {
    Entries first;
    for (int i = 100; i < 200; ++i) first.put("k" + std::to_string(i), uniform ? "1" : std::string(i % 5, 'v'));
    Entries second;
    for (int i = 150; i < 190; ++i) second.put("k" + std::to_string(i), uniform ? "2" : std::string(i % 3, 'w'));
    const RunDesc kept_run = write(first);
    const auto kept = both(parts(Fence(), Fence::infinite(), 1, {kept_run}));
    const RunDesc fresh_run = write(second);
    damage(kept_run, kept_run.bytes - kRunTrailerBytes - 1);  // both would be noticed if the runs were read
    damage(fresh_run, fresh_run.bytes - kRunTrailerBytes - 1);
    const std::span<const Entry> fresh[] = {{}, second.list()};
    RunReader reader(volume());
    const auto dnode = Dnode::make_uploaded(parts(Fence(), Fence::infinite(), 2, {kept_run, fresh_run}), &reader,
                                            kept[1].get(), fresh);
    ASSERT_NE(dnode, nullptr);
    EXPECT_GT(dnode->dram_bytes(), kept[0]->dram_bytes());
    Entry entry;
    for (const Entry& wanted : second.list()) {
      if (wanted.key.bytes == "k189") continue;
      ASSERT_EQ(find(*dnode, std::string(wanted.key.bytes), &entry), Find::kFound) << wanted.key.bytes;
      EXPECT_EQ(entry.value, wanted.value);
    }
    EXPECT_EQ(find(*dnode, "k149", &entry), Find::kFound);
    EXPECT_EQ(find(*dnode, "k189", &entry), Find::kDamaged);
    EXPECT_EQ(find(*dnode, "k199", &entry), Find::kDamaged);
    EXPECT_EQ(find(*dnode, "k1", &entry), Find::kAbsent);
  }
}

TEST_F(DnodeTest, MetadataOfAnotherRangeIsNotTakenOver) {
  Entries entries;
  for (int i = 100; i < 140; ++i) entries.put("prefix-" + std::to_string(i), "1");
  const RunDesc run = write(entries);
  const auto old_dnodes = both(parts(Fence("prefix-1"), Fence("prefix-2"), 1, {run}));
  // Keys between these fences have no common prefix.
  RunReader reader(volume());
  const auto dnode =
      Dnode::make_uploaded(parts(Fence("prefix-1"), Fence("q"), 2, {run}), &reader, old_dnodes[1].get(), {});
  ASSERT_NE(dnode, nullptr);
  for (const Entry& wanted : entries.list()) {
    Entry entry;
    EXPECT_EQ(find(*dnode, std::string(wanted.key.bytes), &entry), Find::kFound);
  }
}

// The fences of an open range do not bound the prefix that its keys share: its runs determine it, and each appended run
// may shorten it. Readers may search keys without the prefix all the same.
TEST_F(DnodeTest, AnOpenRangeIsSearchedByWhatItsKeysShare) {
  for (const auto& [lo, hi] : {std::pair{Fence(), Fence::infinite()}, {Fence(), Fence("v")}, {Fence("c"), Fence()}}) {
    const Fence end = hi == Fence() ? Fence::infinite() : hi;
    Entries users, more, others;
    for (int i = 1'000; i < 1'400; ++i) users.put("user" + std::to_string(i), "1");
    for (int i = 1'100; i < 1'140; ++i) more.put("user" + std::to_string(i) + "x", "2");
    for (const char* key : {"d", "g", "u", "usez"}) others.put(key, "3");
    const auto place = [&](const Entries* each) { return each == &users ? 0 : each == &more ? 1 : 2; };
    Runs runs = {write(users)};
    RunReader reader(volume());
    auto dnode = Dnode::make_uploaded(parts(lo, end, 1, runs), &reader, nullptr, {});
    for (const Entries* appended : {&users, &more, &others}) {
      if (appended != &users) {
        runs.push_back(write(*appended));
        const std::vector<std::span<const Entry>> fresh(runs.size() - 1);
        dnode = Dnode::make_uploaded(parts(lo, end, 1, runs), &reader, dnode.get(), fresh);
      }
      ASSERT_NE(dnode, nullptr);
      Entry entry;
      for (const Entries* there : {&users, &more, &others}) {
        for (const Entry& each : there->list())
          ASSERT_EQ(find(*dnode, std::string(each.key.bytes), &entry),
                    place(there) <= place(appended) ? Find::kFound : Find::kAbsent);
      }
      for (const char* key : {"c", "use", "user", "user1", "user1400", "user2", "uses", "ut"})
        EXPECT_EQ(find(*dnode, key, &entry), Find::kAbsent) << key;
      uint64_t seen = 0;
      DnodeCursor cursor(volume(), *dnode);
      for (cursor.seek(Key::of("ge")); cursor.valid(); cursor.next()) ++seen;
      EXPECT_EQ(seen, 400U + (appended == &users ? 0 : 40) + (appended == &others ? 2 : 0));
    }
  }
}

// Samples begin after the bits that all keys of the range share, however many: in the keys' heads, across their end,
// and far after it.
TEST_F(DnodeTest, SamplesBeginBehindTheCommonBits) {
  for (const std::string prefix : {"", "p", "prefix", "prefix-", "prefix-of", "a much longer prefix "}) {
    for (const int digit : {0, 1, 4, 7}) {  // keys differ from this bit of the byte after the prefix on
      Entries entries;
      const int step = 0x80 >> digit;
      for (int i = 0; i < 200; ++i) {
        const std::string tail = {static_cast<char>(i < 100 ? 0 : step), static_cast<char>(i % 100), 't'};
        entries.put(prefix + tail, std::to_string(i));
      }
      const std::string hi = prefix + static_cast<char>(step) + '\xff';
      const auto dnodes = both(parts(Fence(prefix + '\0'), Fence(hi), 1, {write(entries)}));
      for (const Entry& wanted : entries.list()) {
        Entry entry;
        ASSERT_EQ(find(*dnodes[1], std::string(wanted.key.bytes), &entry), Find::kFound);
        ASSERT_EQ(entry.value, wanted.value);
        DnodeCursor cursor(volume(), *dnodes[1]);
        cursor.seek(wanted.key);
        ASSERT_TRUE(cursor.valid() && cursor.key() == wanted.key);
      }
    }
  }
}

// Many keys with one sample: 2 bytes after the common prefix do not distinguish them.
TEST_F(DnodeTest, SamplesMayTie) {
  Entries entries;
  for (const char* head : {"aaaa", "bbbb", "\xff\xff\xff\xff"}) {
    for (int i = 100; i < 180; ++i) entries.put(head + std::to_string(i), std::to_string(i));
  }
  const auto dnodes = both(parts(Fence(), Fence::infinite(), 1, {write(entries)}));
  for (const Entry& wanted : entries.list()) {
    Entry entry;
    ASSERT_EQ(find(*dnodes[1], std::string(wanted.key.bytes), &entry), Find::kFound);
    EXPECT_EQ(entry.value, wanted.value);
  }
  Entry entry;
  for (const char* absent : {"a", "aaaa", "aaaa099", "bbbb2", "c", "\xff\xff\xff\xff\xff"})
    EXPECT_EQ(find(*dnodes[1], absent, &entry), Find::kAbsent) << absent;
}

TEST_F(DnodeTest, DamageIsReportedEverywhere) {
  Entries entries;
  for (int i = 100; i < 140; ++i) entries.put("k" + std::to_string(i), "value" + std::to_string(i));
  const auto dnodes = both(parts(Fence(), Fence::infinite(), 1, {write(entries)}));
  const RunDesc& run = dnodes[0]->runs()[0];
  const uint32_t bytes_each = run.bytes / 40;
  damage(run, 20 * bytes_each + bytes_each - 1);  // the value of k120
  Entry entry;
  EXPECT_EQ(find(*dnodes[1], "k120", &entry), Find::kDamaged);
  EXPECT_EQ(find(*dnodes[1], "k121", &entry), Find::kFound);
  EXPECT_EQ(find(*dnodes[0], "k120", &entry), Find::kDamaged);
  RunReader reader(volume());
  EXPECT_EQ(dnodes[0]->uploaded_copy(&reader), nullptr);
  DnodeCursor cursor(volume(), *dnodes[1]);
  int seen = 0;
  for (cursor.seek(Key()); cursor.valid(); cursor.next()) ++seen;
  EXPECT_EQ(cursor.trouble(), Trouble::kDamaged);
  EXPECT_EQ(seen, 20);
  cursor.seek(Key::of("k130"));  // its search probes the damaged entry in the middle
  EXPECT_EQ(cursor.valid(), cursor.trouble() == Trouble::kNone);
}

TEST_F(DnodeTest, StretchesEndBeforeTheDamage) {
  Entries old_run;
  Entries new_run;
  for (int i = 100; i < 140; ++i) old_run.put("k" + std::to_string(i), "old");
  for (int i = 110; i < 140; i += 10) new_run.put("k" + std::to_string(i), "new");
  const auto dnodes = both(parts(Fence(), Fence::infinite(), 1, {write(old_run), write(new_run)}));
  const RunDesc newer = dnodes[1]->runs()[1];
  damage(newer, newer.bytes / 3 + 4);  // the key of k120: where the new entry belongs nobody knows
  for (const uint64_t entries : {uint64_t{1}, UINT64_MAX}) {
    DnodeCursor cursor(volume(), *dnodes[1]);
    std::vector<std::string> seen;
    for (cursor.seek(Key(), entries); cursor.valid();) {
      const auto stretch = cursor.take(nullptr, UINT64_MAX);
      for (size_t i = 0; i < stretch.rows.count; ++i) seen.emplace_back(stretch.rows.key(i));
      ASSERT_TRUE(seen.back() != "k110" || stretch.rows.value(0) == "new");
    }
    EXPECT_EQ(cursor.trouble(), Trouble::kDamaged);
    EXPECT_EQ(seen.size(), 11U) << "up to k110; an old k120 may not be shown";
  }
}

TEST_F(DnodeTest, AStretchDoesNotPassADamagedEntryOfAnOlderRun) {
  Entries old_run;
  Entries new_run;
  for (int i = 100; i < 140; ++i) old_run.put("k" + std::to_string(i), "old");
  for (int i = 110; i < 120; ++i) new_run.put("k" + std::to_string(i), "new");
  const auto dnodes = both(parts(Fence(), Fence::infinite(), 1, {write(old_run), write(new_run)}));
  const RunDesc older = dnodes[1]->runs()[0];
  damage(older, 11 * (older.bytes / 40) + 4 + 1);  // k111 now says k911
  for (const uint64_t entries : {uint64_t{1}, UINT64_MAX}) {
    DnodeCursor cursor(volume(), *dnodes[1]);
    size_t seen = 0;
    for (cursor.seek(Key(), entries); cursor.valid();) seen += cursor.take(nullptr, UINT64_MAX).rows.count;
    EXPECT_EQ(cursor.trouble(), Trouble::kDamaged);
    EXPECT_EQ(seen, 11U);
  }
}

// Expects Merge::copy_rows() to return the model's first puts, as rows and others. `together`: whether they are to be
// merged. False: they are not, or the oldest run has no rows.
bool expect_rows(const scale::Volume& volume, const Dnode& dnode, const std::string& from, const Key* below,
                 const Entries& updates, bool together, const Model& model, base::Random* random) {
  const uint64_t rows_max = random->chance(1, 2) ? random->below(200) : UINT64_MAX;
  Merge merge;
  DnodeCursor cursor(volume, dnode);
  cursor.seek(Key::of(from));
  const RunView& body = *cursor.body();
  EXPECT_EQ(cursor.take_all(below, updates.list(), &merge), together);
  if (!together || !body.uniform()) return false;
  const size_t key_bytes = body.key_bytes(), row_bytes = key_bytes + body.rows(0, 1).value_bytes;
  std::vector<char> room((cursor.entries() + updates.list().size() + 1) * row_bytes);
  std::vector<std::pair<std::string, std::string>> seen, wanted;
  const auto see_rows = [&](std::span<const char> rows) {
    for (const char* row = rows.data(); row != rows.data() + rows.size(); row += row_bytes)
      seen.emplace_back(std::string(row, key_bytes), std::string(row + key_bytes, row_bytes - key_bytes));
  };
  merge.copy_rows(rows_max, room.data(), see_rows, [&](const Entry& entry) {
    EXPECT_NE(entry.value.size(), row_bytes - key_bytes) << "it is like the others";
    seen.emplace_back(entry.key.bytes, entry.value);
  });
  for (const auto& [key, value] : model) {
    if (!value.second && wanted.size() < rows_max) wanted.emplace_back(key, value.first);
  }
  EXPECT_EQ(seen, wanted);
  return true;
}

struct Taken {
  [[nodiscard]] uint64_t left() const { return wanted - seen.size(); }
  void add(const Entry& update) { seen.push_back(std::string(update.key.bytes).append(update.value)); }
  void add(const DnodeCursor::Stretch& s) {
    for (size_t i = 0; i < s.rows.count; ++i) seen.push_back(std::string(s.rows.key(i)).append(s.rows.value(i)));
  }
  size_t wanted;
  std::vector<std::string> seen;
};

TEST_F(DnodeTest, AMergeEndsWhereEnoughWasTaken) {
  Entries older, updates;
  for (const char* key : {"b", "c", "e", "f"}) older.put(key, "1");
  for (const char* key : {"a", "c", "h"}) updates.put(key, "2");
  const std::vector<std::string> all{"a2", "b1", "c2", "e1", "f1"};  // "h" is after all entries
  const auto dnodes = both(parts(Fence(), Fence::infinite(), 1, {write(older)}));
  for (size_t wanted = 0; wanted <= all.size() + 1; ++wanted) {
    DnodeCursor cursor(volume(), *dnodes[wanted % 2]);
    cursor.seek(Key());
    std::span<const Entry> left = updates.list();
    Taken taken{wanted, {}};
    cursor.merge(nullptr, &left, &taken);
    EXPECT_EQ(taken.seen, std::vector(all.begin(), all.begin() + std::min(wanted, all.size())));
    EXPECT_EQ(left.size(), wanted < 1 ? 3U : wanted < 3 ? 2U : 1U);
  }
}

// Random runs and updates give each key's newest, through a merge where keys are of one size.
TEST_F(DnodeTest, RunsAndUpdatesComeTogether) {
  base::Random random = seeded_random(4);
  enum Kind { kShort, kEight, kLong, kDeletes, kSizes, kValues, kWords, kKinds };
  int copied = 0;
  for (int round = 0; round < 280; ++round) {
    const int kind = round % kKinds;
    const std::string prefix = kind == kLong ? "a prefix of all keys that is long, " : "";
    const auto key_of = [&](uint64_t i) {
      std::string digits = std::to_string(10'000'000 + i);
      if (kind == kShort) digits = digits.substr(4);
      if (kind == kSizes && i % 3 == 0) digits += "and more";
      return prefix + digits;
    };
    Model model;
    bool alike = true;  // keys of one size
    const auto some = [&](size_t n, bool deletes) {
      std::map<std::string, std::pair<std::string, bool>> chosen;
      for (size_t i = 0; i < n; ++i) {
        const bool deleted = deletes && random.chance(1, 4);
        std::string value = std::to_string(1'000 + random.below(9'000));
        if (kind == kWords || (kind == kValues && random.chance(1, 4))) value += value;
        chosen[key_of(random.below(500))] = {deleted ? "" : value, deleted};
      }
      if (kind == kSizes) chosen[key_of(498)] = chosen[key_of(499)] = {"1234", false};  // both sizes, not by chance
      Entries entries;
      for (const auto& [key, value] : chosen) {
        value.second ? entries.del(key) : entries.put(key, value.first);
        alike = alike && key.size() == (model.empty() ? key : model.begin()->first).size();
        model[key] = value;
      }
      return entries;
    };
    Runs runs;
    for (size_t i = 1 + random.below(kRunsMax); i > 0; --i)
      runs.push_back(write(some(1 + random.below(80), kind == kDeletes || (kind == kWords && !runs.empty()))));
    const Fence hi = random.chance(1, 2) ? Fence(prefix + "2") : Fence::infinite();
    const auto dnodes = both(parts(Fence(prefix + "0"), hi, 1, runs));
    const std::string from = key_of(random.below(600));
    const std::string below = random.chance(1, 2) ? key_of(random.below(600)) : "";
    const Model stored = model;
    const Entries updates = some(random.below(60), true);
    Model wanted;
    for (const auto& [key, value] : model) {
      const bool updated = std::any_of(updates.list().begin(), updates.list().end(),
                                       [&, k = &key](const Entry& each) { return each.key.bytes == *k; });
      if (updated || (!(key < from) && (below.empty() || key < below))) wanted[key] = value;
    }
    for (const auto& dnode : dnodes) {
      Merge merge;
      DnodeCursor cursor(volume(), *dnode);
      cursor.seek(Key::of(from));
      const bool together = alike && cursor.valid();
      const Key bound = Key::of(below);
      Model seen;
      std::string last;
      const Key* const end = below.empty() ? nullptr : &bound;
      cursor.visit_all(end, updates.list(), &merge, [&](const Entry& entry) {
        EXPECT_LT(last, entry.key.bytes);
        last = entry.key.bytes;
        seen[last] = {std::string(entry.value), entry.tombstone};
      });
      EXPECT_EQ(seen, wanted);
      copied += expect_rows(volume(), *dnode, from, end, updates, together, wanted, &random) ? 1 : 0;
      const auto behind = below.empty() ? stored.end() : stored.lower_bound(std::max(from, below));
      EXPECT_EQ(cursor.valid() ? cursor.key().bytes : "none", behind != stored.end() ? behind->first : "none");
    }
  }
  EXPECT_GT(copied, 100);
}

// Whatever was read before, and however much is read now, damage is reported: each time, or with sampled verification
// by about one cursor in kSampledOneIn.
TEST_F(DnodeTest, WhatWasFoundSoundIsVerifiedAgain) {
  constexpr uint64_t kEntries = 200, kDamaged = 100;
  Entries entries, newer;
  for (uint64_t i = 1'000; i < 1'000 + kEntries; ++i) entries.put("k" + std::to_string(i), "v" + std::to_string(i));
  for (uint64_t i = 1'010; i < 1'000 + kEntries; i += 20) newer.put("k" + std::to_string(i), "w" + std::to_string(i));
  const RunDesc run = write(entries);
  const auto dnodes = both(parts(Fence(), Fence::infinite(), 1, {run, write(newer)}));
  Merge merge;
  const auto detected_of = [&](DnodeCursor::Verify verify, uint64_t wanted, uint32_t reads) {
    uint32_t detected = 0;
    for (uint32_t i = 0; i < reads; ++i) {
      const Dnode& dnode = *dnodes[i % 2];
      DnodeCursor cursor(volume(), dnode, verify);
      const uint64_t first = wanted == UINT64_MAX ? 1'000 : 1'000 + kDamaged - wanted / 2;
      cursor.seek(Key::of("k" + std::to_string(first)), wanted);
      uint64_t seen = 0;
      if (i % 3 == 0 && cursor.valid() && !cursor.take_all(nullptr, {}, &merge)) {
        ++detected;
        continue;
      }
      while (cursor.valid() && seen < wanted) seen += cursor.take(nullptr, wanted - seen).rows.count;
      detected += cursor.trouble() == Trouble::kNone ? 0 : 1;
    }
    return detected;
  };
  for (const uint64_t wanted : {uint64_t{1}, uint64_t{20}, uint64_t{120}, UINT64_MAX}) {
    EXPECT_EQ(detected_of(DnodeCursor::Verify::kAlways, wanted, 100), 0U);
    damage(run, kDamaged * (run.bytes / kEntries) + 5);
    EXPECT_EQ(detected_of(DnodeCursor::Verify::kAlways, wanted, 100), 100U) << wanted;
    const uint32_t detected = detected_of(DnodeCursor::Verify::kSampled, wanted, 100 * DnodeCursor::kSampledOneIn);
    EXPECT_GT(detected, 50U);
    EXPECT_LT(detected, 200U);
    damage(run, kDamaged * (run.bytes / kEntries) + 5);  // it is sound again
  }
}

// The whole run is verified, or each entry where only the run's own checksum is damaged.
TEST_F(DnodeTest, AllEntriesOfARunAreReadVerified) {
  for (const bool variable : {false, true}) {
    Entries entries;
    for (int i = 0; i < 50; ++i) entries.put("key" + std::to_string(100 + i), std::string(variable ? 1 + i : 8, 'v'));
    const RunDesc run = write(entries);
    std::vector<Entry> read(3);  // what was in it goes
    const auto read_run = [&] {
      RunReader reader(volume());
      return read_entries(&reader, run, &read);
    };
    const auto expect_all = [&] {
      EXPECT_EQ(read_run(), Trouble::kNone);
      ASSERT_EQ(read.size(), entries.list().size());
      for (size_t i = 0; i < read.size(); ++i) {
        EXPECT_TRUE(read[i].key == entries.list()[i].key && read[i].value == entries.list()[i].value) << i;
      }
    };
    expect_all();
    damage(run, run.bytes - 1);
    expect_all();
    damage(run, run.bytes / 2);
    EXPECT_EQ(read_run(), Trouble::kDamaged);
  }
}

TEST_F(DnodeTest, ReadsOfSeveralRunsAskForCompaction) {
  Entries entries;
  entries.put("a", "1");
  const RunDesc run = write(entries);
  const auto one = Dnode::make(parts(Fence(), Fence::infinite(), 1, {run}));
  const auto two = Dnode::make(parts(Fence(), Fence::infinite(), 1, {run, run}));
  int asked = 0, asked_for_updates = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(one->note_scan(31));
    asked += two->note_scan(0) ? 1 : 0;
    asked_for_updates += one->note_scan(32) ? 1 : 0;
  }
  EXPECT_TRUE(0 < asked && asked < 50) << asked;
  EXPECT_EQ(asked_for_updates, asked);
  const uint64_t gets = 10'000;
  uint64_t asked_by_gets = 0;
  for (uint64_t i = 0; i < gets; ++i) {
    const uint64_t hash = Key::of(std::to_string(i)).hash();
    EXPECT_FALSE(one->note_get(hash));
    asked_by_gets += two->note_get(hash) ? 1 : 0;
  }
  EXPECT_GT(asked_by_gets, gets / 256);
  EXPECT_LT(asked_by_gets, gets / 64) << "a get gains little by it";
}

}  // namespace
}  // namespace bonsai::persist
