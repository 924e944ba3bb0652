// SPDX-License-Identifier: Apache-2.0
#include "persist/merge_words.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using testing::seeded_random;

using Words = std::map<uint64_t, std::optional<uint64_t>>;  // values by key; none: a tombstone
using Made = std::vector<std::pair<uint64_t, uint64_t>>;

constexpr char kUntouched = 0x5a;

// Rows as in a run: with something after each, of `stride_bytes` altogether.
std::string encoded(const Words& words, size_t stride_bytes) {
  std::string bytes;
  for (const auto& [key, value] : words) {
    const std::array<uint64_t, 2> row{__builtin_bswap64(key), *value};
    bytes.append(reinterpret_cast<const char*>(row.data()), sizeof row);
    bytes.append(stride_bytes - sizeof row, '#');
  }
  return bytes;
}

void add(const Words& words, WordsMerge* merge) {
  const std::span<NewerWord> room = merge->add(words.size());
  size_t i = 0;
  for (const auto& [key, value] : words) {
    room[i++] = {{__builtin_bswap64(key), value.value_or(0)}, value ? kWordRowBytes : 0};
  }
}

// What is made of `rows` and the lists, of exactly as much room as is asked for.
Made made(const Words& rows, size_t stride_bytes, const std::vector<Words>& lists, uint64_t rows_max,
          WordsMerge* merge) {
  const std::string bytes = encoded(rows, stride_bytes);
  uint64_t most = rows.size();
  merge->clear();
  for (const Words& list : lists) {
    add(list, merge);
    most += list.size();
  }
  const size_t room_bytes = std::min(most, rows_max < most ? rows_max + 1 : most) * kWordRowBytes;
  std::string room(room_bytes + 1, kUntouched);
  Made all;
  const char* end = room.data();
  merge->merge({bytes.data(), rows.size(), stride_bytes}, rows_max, room.data(), [&](std::span<const char> stretch) {
    EXPECT_GE(stretch.data(), end);
    for (size_t at = 0; at < stretch.size(); at += kWordRowBytes) {
      uint64_t value;
      std::memcpy(&value, stretch.data() + at + sizeof value, sizeof value);
      all.emplace_back(word_head(stretch.data() + at), value);
    }
    end = stretch.data() + stretch.size();
  });
  EXPECT_EQ(room.back(), kUntouched);
  return all;
}

Made wanted(const Words& rows, const std::vector<Words>& lists, uint64_t rows_max) {
  Words all = rows;
  for (const Words& list : lists) {
    for (const auto& [key, value] : list) all[key] = value;
  }
  Made made;
  for (const auto& [key, value] : all) {
    if (value && made.size() < rows_max) made.emplace_back(key, *value);
  }
  return made;
}

TEST(WordsMerge, TheNewestOfEachKeyCounts) {
  base::Random random = seeded_random(5);
  WordsMerge merge;
  for (int round = 0; round < 3'000; ++round) {
    const uint64_t keys = 1 + random.below(400);  // of few keys most are in several lists
    const uint64_t first = random.chance(1, 2) ? 0 : UINT64_MAX - keys + 1;
    const auto some = [&](uint64_t most, uint64_t from, uint64_t to, bool deletes) {
      Words words;
      for (uint64_t left = random.below(most + 1); left > 0; --left) {
        std::optional<uint64_t> value = random.next();
        if (deletes && random.chance(1, 4)) value.reset();
        words[first + from + random.below(to - from)] = value;
      }
      return words;
    };
    const Words rows = some(random.chance(1, 4) ? 5 : 300, 0, keys, false);
    std::vector<Words> lists(random.below(9));
    for (Words& list : lists) {
      const uint64_t from = random.chance(1, 2) ? 0 : random.below(keys);  // evenly, or all in one part
      list = some(random.chance(1, 4) ? 3 : 100, from,
                  random.chance(1, 2) ? keys : from + 1 + random.below(keys - from), random.chance(1, 2));
    }
    const uint64_t rows_max = random.chance(1, 2) ? UINT64_MAX : random.below(400);
    ASSERT_EQ(made(rows, random.chance(1, 2) ? 16 : 20, lists, rows_max, &merge), wanted(rows, lists, rows_max))
        << "round " << round;
  }
}

TEST(WordsMerge, ListsThatEndAtACutAreComplete) {
  Words rows;
  for (uint64_t key = 0; key < 400; ++key) rows[key] = key;
  WordsMerge merge;
  for (const uint64_t cut : {uint64_t{100}, uint64_t{200}, uint64_t{300}}) {  // the first rows of the parts
    for (const uint64_t key : {cut - 1, cut, cut + 1}) {
      const std::vector<Words> lists{{{key, 7}}, {{key, std::nullopt}}, {{key, 8}, {key + 500, 9}}};
      for (size_t i = 0; i <= lists.size(); ++i) {
        const std::vector<Words> some(lists.begin(), lists.begin() + static_cast<ptrdiff_t>(i));
        EXPECT_EQ(made(rows, 20, some, UINT64_MAX, &merge), wanted(rows, some, UINT64_MAX)) << key << ", " << i;
      }
    }
  }
}

TEST(WordsMerge, NothingIsMadeOfNothing) {
  WordsMerge merge;
  EXPECT_TRUE(made({}, 16, {}, UINT64_MAX, &merge).empty());
  EXPECT_TRUE(made({{1, 1}}, 16, {{{1, std::nullopt}}}, UINT64_MAX, &merge).empty());
  EXPECT_TRUE(made({{1, 1}}, 16, {{{2, 2}}}, 0, &merge).empty());
  EXPECT_EQ(made({}, 16, {{{1, 1}}, {{1, 2}}}, UINT64_MAX, &merge), (Made{{1, 2}}));
}

}  // namespace
}  // namespace bonsai::persist
