// SPDX-License-Identifier: Apache-2.0
#include "persist/merge_lists.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "persist/merge_forms.h"
#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using testing::seeded_random;

using ByKey = std::map<uint64_t, std::optional<uint64_t>>;  // values by key; none: a tombstone
using Made = std::vector<std::pair<uint64_t, uint64_t>>;

constexpr char kUntouched = 0x5a;

std::string bytes_of(uint64_t word) { return {reinterpret_cast<const char*>(&word), sizeof word}; }
uint64_t word_at(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Keys and values of eight bytes.
struct OfWords {
  using Item = WordItem;
  static constexpr size_t kKeyBytes = 8;
  static constexpr WordItemForm kItems{};
  static constexpr WordRowForm kRows{};

  static std::string key(uint64_t key) { return bytes_of(__builtin_bswap64(key)); }
  static Item item(const char* row, bool tombstone) {
    return {{word_at(row), word_at(row + kKeyBytes)}, tombstone ? 0 : kWordRowBytes};
  }
};

// Keys of sixteen bytes, the heads of 64 of them the same; values of eight.
struct OfEntries {
  using Item = EntryItem;
  static constexpr uint32_t kKeyBytes = 16;
  static constexpr OrderOfEntries<false> kOrder{kKeyBytes};
  static constexpr EntryItemForm<false> kItems{kOrder};
  static constexpr EntryRowForm<false> kRows{kOrder, 0, 8, kKeyBytes + 8, nullptr};

  static std::string key(uint64_t key) { return OfWords::key(key / 64) + OfWords::key(key); }
  static Item item(const char* row, bool tombstone) {
    return {base::key_head({row, kKeyBytes}), row, row + kKeyBytes, 8, tombstone ? 0 : kKeyBytes + 8U};
  }
};

template <class Form>
class ListMergeTest : public ::testing::Test {
 protected:
  static constexpr size_t kRowBytes = Form::kKeyBytes + 8;

  // The merge of `rows`, each in `stride_bytes` bytes, and of the lists; the output has exactly the required room.
  Made made(const ByKey& rows, size_t stride_bytes, const std::vector<ByKey>& lists, uint64_t rows_max) {
    std::string oldest;
    for (const auto& [key, value] : rows) {
      oldest += Form::key(key) + bytes_of(*value) + std::string(stride_bytes - kRowBytes, '#');
    }
    uint64_t most = rows.size();
    std::deque<std::string> bytes;
    merge_.clear();
    for (const ByKey& list : lists) {
      const auto room = merge_.add(list.size());
      size_t i = 0;
      for (const auto& [key, value] : list) {
        bytes.push_back(Form::key(key) + bytes_of(value.value_or(0)));
        room[i++] = Form::item(bytes.back().data(), !value);
      }
      most += list.size();
    }
    std::string room(std::min(most, rows_max < most ? rows_max + 1 : most) * kRowBytes + 1, kUntouched);
    Made all;
    const char* end = room.data();
    merge_.merge({oldest.data(), rows.size(), stride_bytes}, Form::kItems, Form::kRows, rows_max, room.data(),
                 [&](std::span<const char> stretch) {
                   EXPECT_GE(stretch.data(), end);
                   end = stretch.data() + stretch.size();
                   for (const char* row = stretch.data(); row != end; row += kRowBytes) {
                     all.emplace_back(OrderOfWords::head(row + Form::kKeyBytes - 8), word_at(row + Form::kKeyBytes));
                   }
                 });
    EXPECT_EQ(room.back(), kUntouched);
    return all;
  }

  static Made wanted(const ByKey& rows, const std::vector<ByKey>& lists, uint64_t rows_max) {
    ByKey all = rows;
    for (const ByKey& list : lists) {
      for (const auto& [key, value] : list) all[key] = value;
    }
    Made made;
    for (const auto& [key, value] : all) {
      if (value && made.size() < rows_max) made.emplace_back(key, *value);
    }
    return made;
  }

  ListMerge<typename Form::Item> merge_;
};
using Forms = ::testing::Types<OfWords, OfEntries>;
TYPED_TEST_SUITE(ListMergeTest, Forms);

TYPED_TEST(ListMergeTest, TheNewestOfEachKeyCounts) {
  base::Random random = seeded_random(5);
  for (int round = 0; round < 3'000; ++round) {
    const uint64_t keys = 1 + random.below(400);  // of few keys most are in several lists
    const uint64_t first = random.chance(1, 2) ? 0 : UINT64_MAX - keys + 1;
    const auto some = [&](uint64_t most, uint64_t from, uint64_t to, bool deletes) {
      ByKey model;
      for (uint64_t left = random.below(most + 1); left > 0; --left) {
        std::optional<uint64_t> value = random.next();
        if (deletes && random.chance(1, 4)) value.reset();
        model[first + from + random.below(to - from)] = value;
      }
      return model;
    };
    const ByKey rows = some(random.chance(1, 4) ? 5 : 300, 0, keys, false);
    std::vector<ByKey> lists(random.below(9));
    for (ByKey& list : lists) {
      const uint64_t from = random.chance(1, 2) ? 0 : random.below(keys);  // evenly, or all in one lane
      list = some(random.chance(1, 4) ? 3 : 100, from,
                  random.chance(1, 2) ? keys : from + 1 + random.below(keys - from), random.chance(1, 2));
    }
    const uint64_t rows_max = random.chance(1, 2) ? UINT64_MAX : random.below(400);
    const size_t stride_bytes = this->kRowBytes + (random.chance(1, 2) ? 0 : 4);
    ASSERT_EQ(this->made(rows, stride_bytes, lists, rows_max), this->wanted(rows, lists, rows_max))
        << "round " << round;
  }
}

TYPED_TEST(ListMergeTest, ListsThatEndAtACutAreComplete) {
  ByKey rows;
  for (uint64_t key = 0; key < 400; ++key) rows[key] = key;
  // The first rows of the lanes: a quarter each, and no head in two of them.
  for (const uint64_t cut : {uint64_t{64}, uint64_t{100}, uint64_t{192}, uint64_t{200}, uint64_t{256}, uint64_t{300}}) {
    for (const uint64_t key : {cut - 1, cut, cut + 1}) {
      const std::vector<ByKey> lists{{{key, 7}}, {{key, std::nullopt}}, {{key, 8}, {key + 500, 9}}};
      for (size_t i = 0; i <= lists.size(); ++i) {
        const std::vector<ByKey> some(lists.begin(), lists.begin() + static_cast<ptrdiff_t>(i));
        EXPECT_EQ(this->made(rows, this->kRowBytes + 4, some, UINT64_MAX), this->wanted(rows, some, UINT64_MAX))
            << key << ", " << i;
      }
    }
  }
}

TYPED_TEST(ListMergeTest, NothingIsMadeOfNothing) {
  const size_t stride_bytes = this->kRowBytes;
  EXPECT_TRUE(this->made({}, stride_bytes, {}, UINT64_MAX).empty());
  EXPECT_TRUE(this->made({{1, 1}}, stride_bytes, {{{1, std::nullopt}}}, UINT64_MAX).empty());
  EXPECT_TRUE(this->made({{1, 1}}, stride_bytes, {{{2, 2}}}, 0).empty());
  EXPECT_EQ(this->made({}, stride_bytes, {{{1, 1}}, {{1, 2}}}, UINT64_MAX), (Made{{1, 2}}));
}

// An entry that is no row is where it belongs among those that are, and counts as one of rows_max.
TEST(EntryRowForm, OtherEntriesAreNotedInTheirPlaces) {
  constexpr size_t kRowBytes = 9;
  const std::string rows = "b_______1c_______1d_______1";
  const std::string newer = "a_______longb_______longd_______long";
  for (const uint64_t rows_max : {uint64_t{1}, uint64_t{3}, UINT64_MAX}) {
    ListMerge<EntryItem> merge;
    const auto items = merge.add(3);
    for (size_t i = 0; i < 3; ++i) {
      const char* const key = newer.data() + 12 * i;
      items[i] = {base::key_head({key, 8}), key, key + 8, 4, i == 0 ? kLargeBytes : kOtherSizeBytes};
    }
    std::vector<OtherEntry> others;
    const OrderOfEntries<true> order{8};
    std::string room(6 * kRowBytes, ' '), seen;
    size_t other = 0;
    merge.merge({rows.data(), 3, kRowBytes}, EntryItemForm<true>{order},
                EntryRowForm<true>{order, 0, 1, kRowBytes, &others}, rows_max, room.data(),
                [&](std::span<const char> made) {
                  for (const char* row = made.data(); row != made.data() + made.size(); row += kRowBytes) {
                    const bool is_other = other < others.size() && others[other].at == row;
                    seen += is_other ? std::string{*others[other++].item->key, '+'} : std::string(1, *row);
                  }
                });
    EXPECT_EQ(seen, std::string("a+b+cd+").substr(0, rows_max == 1 ? 2 : rows_max == 3 ? 5 : 7));
    EXPECT_EQ(other, others.size());
  }
}

}  // namespace
}  // namespace bonsai::persist
