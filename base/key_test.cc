// SPDX-License-Identifier: Apache-2.0
#include "base/key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"

namespace bonsai::base {
namespace {

std::vector<std::string> awkward_keys() {
  std::vector<std::string> keys = {std::string("a"),        std::string("a\0", 2),        std::string("a\0\0", 3),
                                   std::string(8, '\0'),    std::string(9, '\0'),         std::string(7, '\xff'),
                                   std::string(8, '\xff'),  std::string(9, '\xff'),       std::string("\x80"),
                                   std::string("\x7f\xff"), std::string(1024, 'k'),       std::string(1023, 'k'),
                                   std::string("12345678"), std::string("12345678\0", 9), std::string("123456789")};
  Random random(seed_from_env_or(1));
  for (int i = 0; i < 200; ++i) {
    std::string key(1 + random.below(12), '\0');
    for (char& byte : key) byte = static_cast<char>(random.chance(1, 2) ? 0 : random.below(3) * 127);
    keys.push_back(key);
  }
  return keys;
}

TEST(Key, OrdersAndEqualsAsByteStringsDo) {
  const std::vector<std::string> keys = awkward_keys();
  for (const std::string& a : keys) {
    for (const std::string& b : keys) {
      const Key x = Key::of(a), y = Key::of(b);
      const int expected = a.compare(b);
      ASSERT_EQ(compare(x, y) < 0, expected < 0) << ::testing::PrintToString(a) << " " << ::testing::PrintToString(b);
      ASSERT_EQ(compare(x, y) > 0, expected > 0);
      ASSERT_EQ(x == y, expected == 0);
      ASSERT_EQ(x < y, expected < 0);
      ASSERT_TRUE(expected != 0 || x.hash() == y.hash());
    }
  }
}

TEST(Key, HeadIsTheBigEndianInteger) {
  EXPECT_EQ(key_head(std::string("\x01\x02\x03\x04\x05\x06\x07\x08", 8)), 0x0102030405060708u);
  EXPECT_EQ(key_head("\x01"), uint64_t{1} << 56);
  EXPECT_EQ(key_head(""), 0u);
}

// All keys between two fences share the common prefix of the fences, and the fences differ in the next bit.
TEST(Key, CommonPrefixBitsHoldForAllKeysBetween) {
  const auto bit_of = [](const std::string& key, size_t i) {
    return i / 8 < key.size() ? static_cast<unsigned char>(key[i / 8]) >> (7 - i % 8) & 1 : 0;
  };
  EXPECT_EQ(common_prefix_bits("", "a"), 0u);
  EXPECT_EQ(common_prefix_bits("ab", "abc"), 16u);
  EXPECT_EQ(common_prefix_bits("a\x10", "a\x1f"), 12u);
  EXPECT_EQ(common_prefix_bits("a", "\xff"), 0u);
  std::vector<std::string> keys = awkward_keys();
  std::sort(keys.begin(), keys.end());
  for (size_t lo = 0; lo < keys.size(); ++lo) {
    for (size_t hi = lo + 1; hi < std::min(keys.size(), lo + 20); ++hi) {
      const size_t bits = common_prefix_bits(keys[lo], keys[hi]);
      for (size_t between = lo; between <= hi; ++between) {
        for (size_t i = 0; i < bits; ++i) ASSERT_EQ(bit_of(keys[between], i), bit_of(keys[lo], i));
      }
      const bool ended = bits / 8 == std::min(keys[lo].size(), keys[hi].size());
      ASSERT_TRUE(ended || bit_of(keys[lo], bits) != bit_of(keys[hi], bits));
    }
  }
}

TEST(Key, HashDistinguishesPaddingFromContent) {
  EXPECT_NE(Key::of(std::string("a")).hash(), Key::of(std::string("a\0", 2)).hash());
}

TEST(Fence, BoundsKeysFromAbove) {
  const Fence fence("m"), end = Fence::infinite();
  EXPECT_TRUE(fence.above(Key::of("l")));
  EXPECT_FALSE(fence.above(Key::of("m")));
  EXPECT_TRUE(end.above(Key::of(std::string_view("\xff\xff"))));
  EXPECT_TRUE(fence < end);
  EXPECT_FALSE(end < fence);
  EXPECT_TRUE(end == Fence::infinite());
  EXPECT_TRUE(Fence() < fence);
}

TEST(Fence, BecomesWhatItIsAssigned) {
  Fence fence = Fence::infinite();
  for (const std::string key : {"a", "", "a key that is longer than eight bytes"}) {
    fence.assign(key);
    EXPECT_TRUE(fence == Fence(key)) << key;
    EXPECT_EQ(fence.key().head, Fence(key).key().head);
  }
}

TEST(Printable, EscapesAndShortens) {
  EXPECT_EQ(printable("ab\"\x01"), "\"ab\\x22\\x01\"");
  EXPECT_EQ(printable(std::string(40, 'k')), "\"" + std::string(32, 'k') + "\"...");
  EXPECT_EQ(printable_range(Fence(), Fence::infinite()), "[first key, end)");
  EXPECT_EQ(printable_range(Fence("a"), Fence("b")), "[\"a\", \"b\")");
}

}  // namespace
}  // namespace bonsai::base
