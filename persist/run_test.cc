// SPDX-License-Identifier: Apache-2.0
#include "persist/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>

#include "base/nvm/far.h"
#include "base/testing/figures.h"
#include "persist/fences.h"
#include "persist/run_reader.h"
#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using base::Key;
using testing::Entries;
using testing::seeded_random;

constexpr uint64_t kIdentity = 77;
constexpr uint64_t kAddr = 4096;
constexpr uint32_t kBirth = 5;

struct EncodedRun {
  explicit EncodedRun(const std::vector<Entry>& entries)
      : desc(encode_run(entries, {kIdentity, kAddr, kBirth}, &bytes)) {}
  [[nodiscard]] RunView view() const { return {bytes.data(), desc, kIdentity}; }
  std::vector<std::byte> bytes;
  RunDesc desc;
};

Entries uniform_entries() {
  Entries entries;
  for (int i = 10; i < 50; i += 2) entries.put("key0000" + std::to_string(i), "value-" + std::to_string(i));
  return entries;
}

Entries variable_entries() {
  Entries entries;
  entries.put("a", "");
  entries.put("ab", "short");
  entries.del("abc");
  entries.put("abcdefghijkl", std::string(300, 'x'));
  entries.put_large("b", {512, 5000, 1});
  entries.put(std::string(kKeyBytesMax, 'c'), "v");
  entries.del("d");
  return entries;
}

void expect_same(const Entry& found, const Entry& wanted) {
  EXPECT_EQ(found.key.bytes, wanted.key.bytes);
  EXPECT_EQ(found.value, wanted.value);
  EXPECT_EQ(found.tombstone, wanted.tombstone);
  EXPECT_EQ(found.large, wanted.large);
}

void expect_reads_back(const Entries& entries, bool uniform) {
  const EncodedRun run(entries.list());
  const RunView view = run.view();
  EXPECT_EQ(view.uniform(), uniform);
  EXPECT_TRUE(RunView::well_formed(run.desc));
  EXPECT_TRUE(view.verify());
  ASSERT_EQ(view.count(), entries.list().size());
  EXPECT_EQ(run.desc.bytes, encoded_run_bytes(entries.list()));
  for (uint32_t i = 0; i < view.count(); ++i) {
    const Entry& wanted = entries.list()[i];
    Entry entry;
    ASSERT_TRUE(view.entry(i, &entry));
    expect_same(entry, wanted);
    ASSERT_EQ(view.find(wanted.key, &entry), Find::kFound);
    expect_same(entry, wanted);
    uint32_t index = 0;
    ASSERT_TRUE(view.lower_bound(wanted.key, &index));
    EXPECT_EQ(index, i);
    const std::string behind = std::string(wanted.key.bytes) + '\0';
    ASSERT_TRUE(view.lower_bound(Key::of(behind), &index));
    EXPECT_EQ(index, i + 1);
    EXPECT_EQ(view.find(Key::of(behind), &entry), Find::kAbsent);
  }
  uint32_t index = 9;
  ASSERT_TRUE(view.lower_bound(Key(), &index));
  EXPECT_EQ(index, 0U);
}

TEST(Run, UniformEntriesReadBack) { expect_reads_back(uniform_entries(), true); }
TEST(Run, VariableEntriesReadBack) { expect_reads_back(variable_entries(), false); }

TEST(Run, OneEntryAndEmptyValues) {
  Entries entries;
  entries.put("k", "");
  expect_reads_back(entries, true);
  Entries tombstone;
  tombstone.del("k");
  expect_reads_back(tombstone, false);
}

TEST(Run, AValueTooLongForAUniformRunMakesItVariable) {
  Entries entries;
  entries.put("a", std::string(70'000, 'x'));
  entries.put("b", std::string(70'000, 'y'));
  expect_reads_back(entries, false);
}

// Rows that are verified in one go end before the first that is damaged.
TEST(Run, SoundEndIsAtTheDamage) {
  for (const size_t value_bytes : {size_t{8}, size_t{5}, size_t{100}}) {  // the first has a loop of its own
    constexpr uint32_t kEntries = 40;
    Entries entries;
    for (uint32_t i = 0; i < kEntries; ++i) {
      entries.put("key000" + std::to_string(10 + i), std::string(value_bytes, static_cast<char>('a' + i % 26)));
    }
    EncodedRun run(entries.list());
    EXPECT_EQ(run.view().sound_end(0, kEntries), kEntries);
    EXPECT_EQ(run.view().sound_end(7, 7), 7U);
    for (uint32_t i = 0; i < kEntries; ++i) {
      std::byte& byte = run.bytes[run.view().entry_offset(i) + 4 + 8 + value_bytes / 2];
      byte ^= std::byte{16};
      for (uint32_t from = 0; from <= i; ++from) {
        EXPECT_EQ(run.view().sound_end(from, kEntries), i);
        EXPECT_EQ(run.view().sound_end(from, i), i);
      }
      byte ^= std::byte{16};
    }
  }
}

// Counts its requests; no read is ever late.
class AskedMedium final : public base::HookedMedium {
 public:
  AskedMedium() : HookedMedium(nullptr, 0) { set_view(line_.data(), line_.size()); }

  void store8(std::byte*, uint64_t) override {}
  void copy(std::byte*, const void*, size_t) override {}
  void nt_copy(std::byte*, const void*, size_t, const base::Site&) override {}
  void flush(const std::byte*, size_t, const base::Site&) override {}
  bool fence(const base::Site&) override { return true; }
  [[nodiscard]] bool reads_wait() const override { return true; }
  [[nodiscard]] uint64_t read_deadline(uint64_t blocks_asked, uint64_t, uint64_t) override {
    ++asked;
    blocks += blocks_asked;
    return 0;
  }

  uint64_t asked = 0, blocks = 0;

 private:
  alignas(64) std::array<std::byte, 64> line_{};
};

// Entries of a block each. A search of n levels waits n times, or half as often if the next probes come along, for half
// as many blocks more.
TEST(Run, ProbesComeWithTheNextOnes) {
  constexpr int kEntries = 1023, kLevels = 10;
  Entries entries;
  for (int i = 0; i < kEntries; ++i) entries.put("key" + std::to_string(10'000 + 2 * i), std::string(244, 'v'));
  const EncodedRun run(entries.list());
  AskedMedium medium;
  const scale::VolumeOf<base::HookedMedium> volume({&medium});
  for (int i = 0; i < kEntries; ++i) {
    medium.asked = medium.blocks = 0;
    scale::ReadBatch reads(volume);
    Entry entry;
    const std::string key = "key" + std::to_string(10'000 + 2 * i), after = "key" + std::to_string(10'001 + 2 * i);
    ASSERT_EQ(run.view().find(Key::of(key), &entry, &reads), Find::kFound) << key;
    EXPECT_EQ(entry.key.bytes, key);
    EXPECT_EQ(medium.asked, kLevels / 2) << key;
    EXPECT_EQ(medium.blocks, kLevels / 2 * 3) << key;
    ASSERT_EQ(run.view().find(Key::of(after), &entry, &reads), Find::kAbsent) << after;
  }
}

TEST(Run, LowerBoundNearIsWhereTheKeyWouldBe) {
  constexpr uint32_t kEntries = 40;
  const auto key_of = [](uint32_t i) { return "thesame." + std::to_string(100 + i); };  // heads are equal
  Entries entries;
  for (uint32_t i = 0; i < kEntries; ++i) entries.put(key_of(2 * i), "value");
  const EncodedRun run(entries.list());
  for (uint32_t lo = 0; lo <= kEntries; ++lo) {
    for (uint32_t hi = lo; hi <= kEntries; ++hi) {
      for (uint32_t i = 0; i <= 2 * kEntries; ++i) {
        const std::string key = key_of(i);
        EXPECT_EQ(run.view().lower_bound_near(base::Key::of(key), lo, hi), std::clamp((i + 1) / 2, lo, hi));
      }
    }
  }
}

// A flipped bit anywhere: every key that is there is found with its value, or the damage is reported. Never another
// value, never "absent". And the run's own checksum always fails.
void expect_flips_detected(const Entries& entries) {
  EncodedRun run(entries.list());
  uint64_t detected = 0;
  for (size_t bit = 0; bit < 8 * run.bytes.size(); ++bit) {
    run.bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(run.view().verify()) << "bit " << bit;
    bool damaged = false;
    for (const Entry& wanted : entries.list()) {
      Entry entry;
      const Find found = run.view().find(wanted.key, &entry);
      ASSERT_NE(found, Find::kAbsent) << "bit " << bit;
      if (found == Find::kFound) expect_same(entry, wanted);
      damaged = damaged || found == Find::kDamaged;
    }
    const bool in_trailer = bit / 8 >= run.bytes.size() - kRunTrailerBytes;
    EXPECT_EQ(damaged, !in_trailer) << "bit " << bit;  // runs have no slack: each byte belongs to some entry
    detected += damaged ? 1 : 0;
    run.bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
  bonsai::testing::add_figure("bit_flips", 8 * run.bytes.size());
  EXPECT_EQ(detected, 8 * (run.bytes.size() - kRunTrailerBytes));
}

TEST(Run, EveryFlipInAUniformRunIsDetected) { expect_flips_detected(uniform_entries()); }

TEST(Run, EveryFlipInAVariableRunIsDetected) {
  Entries entries;
  entries.put("a", "");
  entries.put("ab", "short");
  entries.del("abc");
  entries.put("abcdefghijkl", std::string(40, 'x'));
  entries.put_large("b", {512, 5000, 1});
  expect_flips_detected(entries);
}

// Entries of one size, 256 bytes and 256 entries apart: no pair of run and number shares a seed.
TEST(Run, NoTwoPlacesShareASeed) {
  std::set<uint32_t> seeds;
  uint64_t seen = 0;
  for (uint64_t block = 1; block <= 16; ++block) {
    for (uint32_t i = 0; i <= 16; ++i, ++seen)
      seeds.insert(entry_seed(run_seed({kIdentity, 256 * block, kBirth}), 256 * i));
  }
  EXPECT_EQ(seeds.size(), seen);
}

TEST(Run, AnEntryIsValidInItsOwnPlaceOnly) {
  EncodedRun run(uniform_entries().list());
  Entry entry;
  RunDesc elsewhere = run.desc;
  elsewhere.addr += 256;
  EXPECT_FALSE(RunView(run.bytes.data(), elsewhere, kIdentity).entry(0, &entry));
  EXPECT_FALSE(RunView(run.bytes.data(), elsewhere, kIdentity).verify());
  RunDesc later = run.desc;
  later.birth += 1;
  EXPECT_FALSE(RunView(run.bytes.data(), later, kIdentity).entry(0, &entry)) << "what lay here before";
  EXPECT_FALSE(RunView(run.bytes.data(), later, kIdentity).verify());
  EXPECT_FALSE(RunView(run.bytes.data(), run.desc, kIdentity + 2).entry(0, &entry)) << "of another pool";
  EXPECT_FALSE(run.view().entry_at(0, run.view().entry_offset(1), &entry));
}

// If DRAM has the entries' places, the bytes after an entry may not have been read. Here an entry with a right check
// claims the next one as part of its value.
TEST(Run, WithKnownPlacesAnEntryEndsWhereTheNextBegins) {
  EncodedRun run(variable_entries().list());
  std::vector<uint32_t> offsets;
  for (uint32_t i = 0; i < run.desc.count; ++i) offsets.push_back(run.view().entry_offset(i));
  RunView view = run.view();
  EXPECT_FALSE(view.knows_places());
  view.use_offsets(offsets.data());
  EXPECT_TRUE(view.knows_places());
  Entry entry;
  for (uint32_t i = 0; i < run.desc.count; ++i) {
    EXPECT_EQ(view.begin_of(i), offsets[i]);
    ASSERT_TRUE(view.entry(i, &entry)) << i;
    expect_same(entry, variable_entries().list()[i]);
  }
  std::vector<Entry> all(run.desc.count);
  ASSERT_TRUE(view.variable_entries(0, run.desc.count, all.data()));
  for (uint32_t i = 0; i < run.desc.count; ++i) expect_same(all[i], variable_entries().list()[i]);
  EXPECT_EQ(view.begin_of(run.desc.count), run.desc.bytes - kRunTrailerBytes);
  std::byte* const at = run.bytes.data() + offsets[1];
  uint32_t value_bytes;
  std::memcpy(&value_bytes, at + 4, sizeof value_bytes);
  value_bytes += offsets[3] - offsets[2];
  std::memcpy(at + 4, &value_bytes, sizeof value_bytes);
  const uint32_t crc =
      base::crc32c(at + 4, offsets[3] - offsets[1] - 4, entry_seed(run_seed({kIdentity, kAddr, kBirth}), 1));
  std::memcpy(at, &crc, sizeof crc);
  EXPECT_TRUE(run.view().entry(1, &entry));
  EXPECT_FALSE(view.entry(1, &entry));
  EXPECT_TRUE(run.view().variable_entries(1, 2, &entry));
  EXPECT_FALSE(view.variable_entries(0, 2, all.data()));
}

TEST(Run, ADescriptorThatDoesNotFitIsNotWellFormed) {
  const EncodedRun uniform(uniform_entries().list());
  const EncodedRun variable(variable_entries().list());
  const auto well_formed = [](RunDesc desc, auto change) {
    change(&desc);
    return RunView::well_formed(desc);
  };
  for (const RunDesc& desc : {uniform.desc, variable.desc}) {
    EXPECT_TRUE(well_formed(desc, [](RunDesc*) {}));
    EXPECT_TRUE(RunView::well_formed(desc, kFormatVersionMin));
    EXPECT_FALSE(RunView::well_formed(desc, kFormatVersionMin - 1)) << "of a version that is not read";
    EXPECT_FALSE(RunView::well_formed(desc, kFormatVersion + 1));
    EXPECT_FALSE(well_formed(desc, [](RunDesc* d) { d->count = 0; }));
    EXPECT_FALSE(well_formed(desc, [](RunDesc* d) { d->bytes = 0; }));
    EXPECT_FALSE(well_formed(desc, [](RunDesc* d) { d->count = UINT32_MAX; }));
  }
  EXPECT_FALSE(well_formed(uniform.desc, [](RunDesc* d) { ++d->bytes; }));
  EXPECT_FALSE(well_formed(uniform.desc, [](RunDesc* d) { d->key_bytes = 0; }));
  EXPECT_FALSE(well_formed(uniform.desc, [](RunDesc* d) { d->key_bytes = kKeyBytesMax + 1; }));
}

TEST(Run, AnEntryTakesNoMoreThanItsBound) {
  for (const size_t value_bytes : {0, 1, 8, 300}) {
    Entries one, deleted;
    one.put("key", std::string(value_bytes, 'v'));
    deleted.del("key");
    EXPECT_LE(encoded_run_bytes(one.list()), entry_bytes(3, value_bytes) + kRunTrailerBytes);
    EXPECT_EQ(encoded_run_bytes(deleted.list()), entry_bytes(3, 0) + kRunTrailerBytes) << "a variable run";
    EXPECT_EQ(entry_bytes(one.list()[0]), entry_bytes(3, value_bytes));
  }
}

// It is the key, or the least beginning of a long key that is above the key below.
TEST(Fences, AreBetweenTheirNeighbours) {
  const std::string longest(kInlineFenceBytes / 2, 'k');
  EXPECT_EQ(fence_between("a", "b"), "b");
  EXPECT_EQ(fence_between("a", longest), longest);
  const std::string key = longest + "xyz";
  EXPECT_EQ(fence_between("a", key), "k");
  EXPECT_EQ(fence_between(longest, key), longest + "x");
  EXPECT_EQ(fence_between(longest + "xyyyyy", key), key);
  EXPECT_EQ(fence_between("kk", key), "kkk");
  EXPECT_TRUE(fits_inline(longest));
  EXPECT_FALSE(fits_inline(key));
}

TEST(Run, ArbitraryBytesAreSafe) {
  base::Random random = seeded_random(2);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes(1 + random.below(300));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.chance(2, 3) ? random.below(64) : random.next());
    RunDesc desc{};
    desc.addr = kAddr;
    desc.bytes = static_cast<uint32_t>(bytes.size());
    desc.count = static_cast<uint32_t>(1 + random.below(20));
    desc.key_bytes = random.chance(1, 2) ? kVariableRun : static_cast<uint16_t>(random.below(20));
    desc.value_bytes = static_cast<uint16_t>(random.below(20));
    if (!RunView::well_formed(desc)) continue;
    const RunView view(bytes.data(), desc, kIdentity);
    Entry entry;
    EXPECT_NE(view.find(Key::of("key"), &entry), Find::kFound);
    for (uint32_t i = 0; i < view.count(); ++i) EXPECT_FALSE(view.entry(i, &entry));
  }
}

// A run that is in the place of another one is not that.
TEST(RunReader, FindsARunByItsPlaceAndBirth) {
  testing::MemoryMedium near(1 << 16);
  base::FarMedium far(near, {});
  scale::VolumeOf<base::HookedMedium> volume({&far});
  volume.bind(kIdentity);
  const EncodedRun run(uniform_entries().list());
  std::memcpy(near.view() + kAddr, run.bytes.data(), run.bytes.size());
  RunDesc later = run.desc;
  later.birth = kBirth + 1;
  RunReader reader(volume);
  EXPECT_TRUE(reader.carries());
  reader.expect(run.desc);
  EXPECT_EQ(reader.bytes(run.desc), reader.run(run.desc).bytes());
  ASSERT_TRUE(reader.wait().ok());
  EXPECT_EQ(far.counts().reads, 1U);
  ASSERT_NE(reader.find(run.desc), nullptr);
  EXPECT_EQ(std::memcmp(reader.find(run.desc), run.bytes.data(), run.bytes.size()), 0);
  EXPECT_EQ(reader.find(later), nullptr);
  EXPECT_TRUE(reader.has(std::array{run.desc}));
  EXPECT_FALSE(reader.has(std::array{run.desc, later}));
  EXPECT_FALSE(reader.has(std::array<RunDesc, 0>()));
  std::vector<Entry> entries;
  EXPECT_EQ(read_entries(&reader, run.desc, &entries), Trouble::kNone);
  EXPECT_EQ(entries.size(), run.desc.count);
  EXPECT_EQ(far.counts().reads, 1U) << "it is here";
}

// Parts of a run are at their distances from where it would begin; they are one list, and do not stand for the whole.
TEST(RunReader, BringsPartsInOneList) {
  testing::MemoryMedium near(1 << 16);
  base::FarMedium far(near, {});
  scale::VolumeOf<base::HookedMedium> volume({&far});
  const EncodedRun run(uniform_entries().list());
  std::memcpy(near.view() + kAddr, run.bytes.data(), run.bytes.size());
  const RunView whole = run.view();
  const std::array<RunReader::ByteRange, 2> parts{
      {{whole.begin_of(1), whole.begin_of(2)}, {whole.begin_of(whole.count() - 1), whole.begin_of(whole.count())}}};
  RunReader reader(volume);
  const std::byte* const bytes = reader.parts(run.desc, parts);
  ASSERT_TRUE(reader.wait().ok());
  for (const auto& [begin, end] : parts)
    EXPECT_EQ(std::memcmp(bytes + begin, run.bytes.data() + begin, end - begin), 0);
  EXPECT_EQ(reader.find(run.desc), nullptr);
  EXPECT_FALSE(reader.has(std::array{run.desc}));
  EXPECT_EQ(reader.parts(run.desc, {}), nullptr);
}

// A mapped run is read where it is, and nothing of it is kept.
TEST(RunReader, GivesMappedRunsWhereTheyAre) {
  testing::MemoryMedium near(1 << 16);
  scale::VolumeOf<base::HookedMedium> volume({&near});
  const EncodedRun run(uniform_entries().list());
  std::memcpy(near.view() + kAddr, run.bytes.data(), run.bytes.size());
  RunReader reader(volume);
  reader.expect(run.desc);
  EXPECT_EQ(reader.bytes(run.desc), near.view() + kAddr);
  EXPECT_EQ(reader.mapped(run.desc.addr), near.view() + kAddr);
  EXPECT_TRUE(reader.wait().ok());
  EXPECT_EQ(reader.find(run.desc), nullptr);
  EXPECT_FALSE(reader.has(std::array{run.desc}));
  EXPECT_FALSE(reader.carries());
  EXPECT_EQ(reader.searches_together(4, 32), 32U);
}

// A target that does not answer takes nothing of what another one sent.
TEST(RunReader, KeepsWhatOtherTargetsSent) {
  testing::MemoryMedium near(1 << 16), silent_near(1 << 16);
  base::FarMedium far(near, {.limit_ms = 100}), silent(silent_near, {.limit_ms = 100});
  scale::VolumeOf<base::HookedMedium> volume({&far, &silent});
  const EncodedRun run(uniform_entries().list());
  std::memcpy(near.view() + kAddr, run.bytes.data(), run.bytes.size());
  RunDesc lost = run.desc;
  lost.addr = scale::Addr(1, scale::Addr::of_bits(run.desc.addr).offset()).bits();
  RunReader reader(volume);
  silent.silence(true);
  reader.expect(run.desc);
  reader.expect(lost);
  EXPECT_TRUE(reader.wait().IsUnavailable());
  EXPECT_NE(reader.find(run.desc), nullptr);
  EXPECT_FALSE(reader.lost(run.desc.addr));
  EXPECT_EQ(reader.find(lost), nullptr);
  EXPECT_TRUE(reader.lost(lost.addr));
  silent.silence(false);
  reader.expect(lost);
  EXPECT_TRUE(reader.wait().ok()) << "asked for again";
  EXPECT_NE(reader.find(lost), nullptr);
}

}  // namespace
}  // namespace bonsai::persist
