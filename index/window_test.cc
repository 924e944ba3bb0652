// SPDX-License-Identifier: Apache-2.0
// Windows, what scans read at a time: borders, both directions, ranges that are known before they are read.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "index/index.h"
#include "index/testing.h"

namespace bonsai::index::testing {
namespace {

TEST(Window, BordersAndDirections) {
  Tier tier({.pool_bytes = size_t{16} << 20});
  Model model;
  for (uint64_t i = 0; i < 1'500; ++i) {
    ASSERT_TRUE(tier.put(key_of(i), "d"));
    model[key_of(i)] = "d";
  }
  ASSERT_TRUE(tier.drain().ok());
  for (uint64_t i = 0; i < 1'500; i += 3) {  // layers over the dnodes, without offload where the room lasts
    ASSERT_TRUE(tier.put(key_of(i), "u"));
    model[key_of(i)] = "u";
  }
  EXPECT_EQ(tier.scan(kLatest), model);
  EXPECT_EQ(tier.scan_backwards(kLatest), model);
  for (uint64_t i = 0; i < 1'500; i += 113) {
    EXPECT_EQ(tier.scan(kLatest, key_of(i)), Model(model.lower_bound(key_of(i)), model.end()));
    const auto guard = tier.epochs().enter();
    Index::Window window;
    const std::string key = key_of(i);
    tier.read_window(Key::of(key), kLatest, true, UINT64_MAX, &window);
    EXPECT_FALSE(Key::of(key) < window.lo.key());
    EXPECT_TRUE(window.hi.above(Key::of(key)));
    size_t records = 0;
    for (const auto& piece : window.pieces) records += piece.rows.count;
    const auto end = window.hi.is_infinite() ? model.end() : model.lower_bound(window.hi.bytes());
    EXPECT_EQ(records, static_cast<size_t>(std::distance(model.lower_bound(window.lo.bytes()), end)));
    Index::Window below;
    tier.index().read_window_below(base::Fence(key), kLatest, &below);
    EXPECT_TRUE(below.lo < base::Fence(key));
    EXPECT_FALSE(below.hi < base::Fence(key));
  }
}

// Puts into both.
auto putter(Tier& tier, Model& model) {
  return [&](uint64_t i, const std::string& value) {
    model[key_of(i)] = value;
    return tier.put(key_of(i), value);
  };
}

// Records of several runs and of updates are returned side by side, but for those of other sizes.
TEST(Window, ScatteredRecordsArePutTogether) {
  constexpr uint64_t kRecords = 4'000;
  Tier tier({.pool_bytes = size_t{16} << 20});
  base::Random random(test_seed());
  Model model;
  const auto put = putter(tier, model);
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(put(i * 7'919 % kRecords, "before"));
  ASSERT_TRUE(tier.drain().ok());
  for (const std::string value : {"second", "+third", "fourth"}) {
    for (uint64_t i = 0; i < kRecords / 4; ++i) ASSERT_TRUE(put(random.below(kRecords), value));
    ASSERT_TRUE(value == "fourth" || tier.drain().ok());  // these stay in DRAM
  }
  const auto rows_per_piece = [&] {
    Index::Window window;
    size_t rows = 0, pieces = 0;
    const auto guard = tier.epochs().enter();
    for (base::Fence at(""); !at.is_infinite(); at = window.hi) {
      tier.read_window(at.key(), kLatest, false, UINT64_MAX, &window);
      pieces += window.pieces.size();
      for (const auto& piece : window.pieces) rows += piece.rows.count;
    }
    return static_cast<double>(rows) / static_cast<double>(pieces);
  };
  EXPECT_GT(rows_per_piece(), 50);
  EXPECT_EQ(tier.scan(kLatest), model);
  EXPECT_EQ(tier.scan_backwards(kLatest), model);
  const auto old = tier.index().register_scan();
  const Model then = model;
  for (uint64_t i = 0; i < kRecords; i += 40) {
    ASSERT_TRUE(put(i, "a value of another size"));
    ASSERT_TRUE(tier.del(key_of(i + 1)));
    model.erase(key_of(i + 1));
    ASSERT_TRUE(tier.put_large(key_of(i + 2), std::string(5'000, 'L')));
    model[key_of(i + 2)] = std::string(5'000, 'L');
  }
  EXPECT_EQ(tier.scan(kLatest), model);
  EXPECT_EQ(tier.scan(old.version()), then);
  for (int i = 0; i < 50; ++i) {  // so many from one key on, and no more
    Index::Window window;
    const std::string from = key_of(random.below(kRecords));
    const uint64_t records_max = 128 + random.below(200);
    const auto guard = tier.epochs().enter();
    tier.read_window(Key::of(from), kLatest, false, records_max, &window);
    auto wanted = model.lower_bound(from);
    uint64_t seen = 0;
    for (const auto& piece : window.pieces) {
      for (size_t row = 0; row < piece.rows.count; ++row, ++seen) ASSERT_EQ(piece.rows.key(row), (wanted++)->first);
    }
    ASSERT_LE(seen, records_max);
    ASSERT_TRUE(seen == records_max || wanted == model.end() || !window.hi.above(Key::of(wanted->first)));
  }
}

// A window of few records ends where it has enough. Updates that delete much, and such that come after its end or in
// place of records, in a run or still in the bnode, neither get lost nor come twice.
TEST(Window, FewRecordsEndAWindowEarly) {
  constexpr uint64_t kRecords = 3'000;
  Tier tier({.pool_bytes = size_t{16} << 20});
  base::Random random(test_seed());
  Model model;
  const auto put = putter(tier, model);
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(put(i * 2, "before"));
  ASSERT_TRUE(tier.drain().ok());
  size_t early = 0, short_of = 0;
  for (int round = 0; round < 300; ++round) {
    const uint64_t at = random.below(2 * kRecords);
    for (uint64_t i = at; i < at + 30; ++i) {
      if (random.chance(1, 2) && round % 2 == 0) {
        model.erase(key_of(i));
        ASSERT_TRUE(tier.del(key_of(i)));
      } else if (random.chance(1, 4)) {
        ASSERT_TRUE(put(i, "later " + std::to_string(round % 10)));
      }
    }
    if (random.chance(1, 40)) {
      ASSERT_TRUE(tier.drain().ok());
    }
    const std::string from = key_of(at - std::min<uint64_t>(at, random.below(30)));
    uint64_t left = 1 + random.below(100);
    auto wanted = model.lower_bound(from);
    const auto guard = tier.epochs().enter();
    Index::Window window;
    for (base::Fence next(from); left > 0 && !next.is_infinite(); next = window.hi) {
      tier.read_window(next.key(), kLatest, false, left, &window);
      uint64_t seen = 0;
      for (const auto& piece : window.pieces) {
        for (size_t row = 0; row < piece.rows.count; ++row, ++seen, ++wanted) {
          ASSERT_NE(wanted, model.end());
          ASSERT_EQ(piece.rows.key(row), wanted->first);
          ASSERT_EQ(piece.rows.value(row), wanted->second);
        }
      }
      ASSERT_LE(seen, left);
      left -= seen;
      const bool cut = !window.hi.is_infinite() && tier.index().tree().find(window.hi.key())->lo() != window.hi;
      early += cut ? 1 : 0;
      short_of += cut && left > 0 ? 1 : 0;
    }
    ASSERT_TRUE(left == 0 || wanted == model.end());
  }
  EXPECT_GT(early, 20U);
  EXPECT_GT(short_of, 0U) << "no window lacked what was deleted";
}

// The record where a window would end may be damaged, and not be verified: then it ends neither before its beginning
// nor after its range.
TEST(Window, ADamagedRecordEndsNone) {
  constexpr uint64_t kRecords = 2'000;
  Tier tier({.pool_bytes = size_t{16} << 20});
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(tier.put(key_of(i), "v"));
  ASSERT_TRUE(tier.drain().ok());
  const std::string first = key_of(0);
  const auto guard = tier.epochs().enter();
  Index::Window all;
  tier.read_window(Key::of(first), kLatest, true, UINT64_MAX, &all);  // finds its run sound
  ASSERT_EQ(all.pieces.size(), 1U);
  const Rows& rows = all.pieces[0].rows;
  ASSERT_GT(rows.count, 100U);
  const std::string from(rows.key(50));
  for (const char byte : {'\0', '\xff'}) {
    std::memset(const_cast<char*>(rows.key(100).data()), byte, rows.key_bytes);
    size_t sound = 0;
    for (int i = 0; i < 50; ++i) {
      Index::Window few;
      few.verify = persist::DnodeCursor::Verify::kSampled;
      tier.read_window(Key::of(from), kLatest, false, 50, &few);
      sound += few.trouble == persist::Trouble::kNone ? 1 : 0;
      ASSERT_TRUE(few.hi.above(Key::of(from)));
      ASSERT_FALSE(all.hi < few.hi);
    }
    EXPECT_GT(sound, 0U) << "always verified: the case did not occur";
  }
}

// A scan may fetch what its next window will return while its caller reads what this one does.
TEST(Window, ReportsWhereTheNextOnesRecordsAre) {
  if (bonsai::testing::other_side_asked()) GTEST_SKIP() << "they are nowhere before they are read";
  constexpr uint64_t kRecords = 20'000;
  Tier tier({.pool_bytes = size_t{16} << 20});
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(tier.put(key_of(i), "v"));
  ASSERT_TRUE(tier.drain().ok());
  const auto guard = tier.epochs().enter();
  ScanAhead ahead;
  Index::Window window;
  size_t windows = 0, known = 0;
  for (base::Fence at(""); !at.is_infinite(); at = window.hi, ++windows) {
    const std::span<const char> place = ahead.records();
    tier.index().read_window(at.key(), kLatest, false, UINT64_MAX, &window, &ahead);
    if (place.empty()) continue;
    ++known;
    const Rows& rows = window.pieces[0].rows;
    ASSERT_LT(static_cast<size_t>(rows.keys - place.data()), base::kLineBytes) << "of window " << windows;
    ASSERT_GE(place.data() + place.size(), rows.value(rows.count - 1).data() + rows.value_bytes);
  }
  EXPECT_GT(known, windows / 2) << windows;
  ahead.clear();
  tier.index().read_window(Key::of(key_of(0)), kLatest, false, UINT64_MAX, &window, &ahead);
  const size_t bytes = ahead.records().size();
  ASSERT_GT(bytes, base::kLineBytes);
  ahead.fetch_records(base::kLineBytes);
  EXPECT_EQ(ahead.records().size(), bytes - 2 * base::kLineBytes);
  ahead.fetch_records(bytes);
  EXPECT_TRUE(ahead.records().empty()) << "all were fetched";
  ahead.clear();
  tier.index().read_window(Key::of(key_of(0)), kLatest, false, UINT64_MAX, &window, &ahead);
  ASSERT_FALSE(ahead.records().empty());
  tier.index().read_window(Key::of(key_of(0)), kLatest, false, 10, &window, &ahead);
  EXPECT_TRUE(ahead.records().empty()) << "a scan of few records ends before";
}

void expect_same(const Index::Window& known, const Index::Window& wanted) {
  ASSERT_EQ(known.lo, wanted.lo);
  ASSERT_EQ(known.hi, wanted.hi);
  ASSERT_EQ(known.pieces.size(), wanted.pieces.size());
  for (size_t i = 0; i < wanted.pieces.size(); ++i) {
    const Rows& wanted_rows = wanted.pieces[i].rows;
    const Rows& rows = known.pieces[i].rows;
    ASSERT_EQ(rows.count, wanted_rows.count);
    ASSERT_EQ(rows.key(rows.count - 1), wanted_rows.key(wanted_rows.count - 1));
  }
}

// A scan knows ranges before it reaches them: a group before it begins, or one for its next windows. They may have been
// replaced, split and merged by then.
TEST(Window, RangesThatAreKnownMayHaveBeenReplaced) {
  constexpr uint64_t kRecords = 6'000, kLimit = 100;
  Tier tier({.pool_bytes = size_t{32} << 20});
  base::Random random(test_seed());
  for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(tier.put(key_of(i * 7'919 % kRecords), "before"));
  ASSERT_TRUE(tier.drain().ok());
  const uint64_t splits = tier.index().work().splits.load(), merges = tier.index().work().merges.load();
  size_t crossings = 0, followed = 0;
  for (int round = 0; round < 8; ++round) {
    const auto guard = tier.epochs().enter();
    std::array<std::string, Index::kStartsMax> keys;
    std::array<ScanAhead, Index::kStartsMax> starts;
    for (size_t i = 0; i < starts.size(); ++i) {
      keys[i] = key_of(random.below(kRecords));
      starts[i].expect(Key::of(keys[i]), kLimit);
    }
    tier.index().find_starts(starts);
    for (ScanAhead& start : starts) {
      for (size_t stage = 0; stage < Index::kStartStages; ++stage) tier.index().prefetch_start(&start, stage);
    }
    std::array<ScanAhead, Index::kStartsMax> followings;
    Index::Window window, known;
    for (size_t i = 0; i < starts.size(); ++i)
      tier.index().read_window(starts[i].from(), kLatest, false, kRecords, &window, &followings[i]);
    for (uint64_t i = 0; i < kRecords; ++i) {
      const std::string key = key_of(i);
      const bool kept = i % 16 == 0;
      ASSERT_TRUE(round % 2 == 0 ? tier.put(key, "new") && tier.put(key + "+", "new") && tier.put(key + "-", "new")
                                 : (kept || tier.del(key)) && tier.del(key + "+") && tier.del(key + "-"));
    }
    for (int again = 0; again < 3; ++again) {  // small ranges merge when they are next offloaded
      while (tier.index().dirty()) ASSERT_TRUE(tier.offload().status.ok());  // drain() would wait for the guard
      for (uint64_t i = 0; i < kRecords; i += 48) ASSERT_TRUE(tier.put(key_of(i), "again"));
    }
    for (ScanAhead& start : starts) {
      base::Fence at(start.from().bytes);
      for (int windows = 0; windows < 3 && !at.is_infinite(); ++windows, at = window.hi) {
        const Bnode* next = start.peek(0);
        crossings += windows > 0 && next != nullptr && next->lo() == at ? 1 : 0;
        tier.read_window(at.key(), kLatest, false, kLimit, &window);
        tier.index().read_window(at.key(), kLatest, false, kLimit, &known, &start);
        expect_same(known, window);
      }
    }
    for (ScanAhead& following : followings) {
      if (following.peek(0) == nullptr) continue;
      for (base::Fence at = following.peek(0)->lo(); !at.is_infinite(); at = window.hi) {
        const Bnode* next = following.peek(0);
        followed += next != nullptr && next->lo() == at ? 1 : 0;
        tier.read_window(at.key(), kLatest, false, UINT64_MAX, &window);
        tier.index().read_window(at.key(), kLatest, false, UINT64_MAX, &known, &following);
        expect_same(known, window);
      }
    }
  }
  EXPECT_GT(tier.index().work().splits.load(), splits);
  EXPECT_GT(tier.index().work().merges.load(), merges);
  EXPECT_GT(crossings, 0U);
  EXPECT_GT(followed, 0U);
}

}  // namespace
}  // namespace bonsai::index::testing
