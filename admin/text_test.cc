// SPDX-License-Identifier: Apache-2.0
#include "admin/text.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace bonsai::admin {
namespace {

TEST(Text, UnescapeTakesBackWhatEscapeWrites) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  std::string bytes;
  ASSERT_TRUE(unescape(escape(all), &bytes).ok());
  EXPECT_EQ(bytes, all);
  ASSERT_TRUE(unescape("plain \xc3\xa4", &bytes).ok());
  EXPECT_EQ(bytes, "plain \xc3\xa4");
  for (const char* bad : {"\\", "a\\q", "\\x", "\\x1", "\\xg0", "\\X00"}) {
    EXPECT_TRUE(unescape(bad, &bytes).IsInvalidArgument()) << bad;
  }
}

// A truncated text is never decoded to other bytes.
TEST(Text, UnescapeOfAPrefixIsAPrefixOrRefused) {
  std::string all, bytes;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::string text = escape(all);
  for (size_t size = 0; size < text.size(); ++size) {
    if (unescape(text.substr(0, size), &bytes).ok()) {
      EXPECT_EQ(bytes, all.substr(0, bytes.size())) << size;
    }
  }
}

TEST(Escape, KeepsPrintableAsciiAndNamesTheRest) {
  EXPECT_EQ(escape("apple ~!"), "apple ~!");
  EXPECT_EQ(escape("a\tb\nc\rd\\e"), "a\\tb\\nc\\rd\\\\e");
  EXPECT_EQ(escape(std::string("\0\x7f\xc3\xa9", 4)), "\\x00\\x7f\\xc3\\xa9");
}

TEST(Escape, IsOneToOneAndFitsOnALine) {
  std::set<std::string> seen;
  for (int i = 0; i < 256; ++i) {
    const std::string one = escape(std::string(1, static_cast<char>(i)));
    EXPECT_TRUE(seen.insert(one).second) << one;
    EXPECT_EQ(one.find_first_of("\t\n\r"), std::string::npos) << i;
  }
}

TEST(Hex, RoundTrips) {
  std::string bytes, all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  ASSERT_TRUE(from_hex(to_hex(all), &bytes).ok());
  EXPECT_EQ(bytes, all);
  ASSERT_TRUE(from_hex("DEADbeef", &bytes).ok());
  EXPECT_EQ(bytes, "\xde\xad\xbe\xef");
  ASSERT_TRUE(from_hex("", &bytes).ok());
  EXPECT_EQ(bytes, "");
}

TEST(Hex, RefusesWhatIsNone) {
  std::string bytes;
  EXPECT_TRUE(from_hex("abc", &bytes).IsInvalidArgument());
  EXPECT_TRUE(from_hex("0g", &bytes).IsInvalidArgument());
  EXPECT_TRUE(from_hex("0x12", &bytes).IsInvalidArgument());
  EXPECT_NE(from_hex("0\n", &bytes).ToString().find("'0\\n'"), std::string::npos);
}

TEST(Size, TakesUnitsOf1024) {
  const std::pair<const char*, uint64_t> cases[] = {{"0", 0},
                                                    {"65536", 65536},
                                                    {"64K", 65536},
                                                    {"64k", 65536},
                                                    {"64KiB", 65536},
                                                    {"64KB", 65536},
                                                    {"7B", 7},
                                                    {"1G", 1ull << 30},
                                                    {"2T", 2ull << 40},
                                                    {"16777215T", 16777215ull << 40},
                                                    {"18446744073709551615", UINT64_MAX}};
  for (const auto& [text, expected] : cases) {
    uint64_t bytes = 1;
    EXPECT_TRUE(parse_size(text, "--bytes", &bytes).ok()) << text;
    EXPECT_EQ(bytes, expected) << text;
  }
}

TEST(Size, RefusesNonsenseAndOverflow) {
  for (const char* text : {"", "G", "1X", "1GG", "-1", "+1", "1.5G", " 1", "1 G", "16777216T", "18446744073709551616",
                           "1KM", "1iB", "BK"}) {
    uint64_t bytes = 0;
    const Status status = parse_size(text, "--bytes", &bytes);
    EXPECT_TRUE(status.IsInvalidArgument()) << text;
    EXPECT_NE(status.message().find("--bytes is '"), std::string_view::npos) << status.ToString();
  }
}

TEST(Row, HasTwoColumnsWhateverTheName) {
  EXPECT_EQ(row("pool", "a"), "pool                  a\n");
  EXPECT_EQ(row("a name of exactly 22 b", "x"), "a name of exactly 22 b x\n");
}

TEST(HumanSize, ChoosesTheUnit) {
  EXPECT_EQ(human_size(0), "0 B");
  EXPECT_EQ(human_size(1023), "1023 B");
  EXPECT_EQ(human_size(1536), "1.5 KiB");
  EXPECT_EQ(human_size(uint64_t{64} << 20), "64.0 MiB");
  EXPECT_EQ(human_size(UINT64_MAX), "16777216.0 TiB");
}

TEST(CountOf, IsInTheRightNumber) {
  EXPECT_EQ(count_of(0, "record"), "0 records");
  EXPECT_EQ(count_of(1, "record"), "1 record");
  EXPECT_EQ(count_of(2, "record"), "2 records");
}

TEST(KeyText, ByteStringsGoAsTheyAre) {
  const KeyText keys;
  std::string key;
  ASSERT_TRUE(keys.parse("a\\b", &key).ok());
  EXPECT_EQ(key, "a\\b");
  EXPECT_EQ(keys.show("a\tb"), "a\\tb");
}

TEST(KeyText, Fixed8IsDecimalInNumericOrder) {
  const KeyText keys{KeyFormat::kFixed8, false};
  std::string previous;
  for (const char* number : {"0", "1", "255", "256", "4294967296", "18446744073709551615"}) {
    std::string key;
    ASSERT_TRUE(keys.parse(number, &key).ok()) << number;
    EXPECT_EQ(key.size(), 8u);
    EXPECT_LT(previous, key);
    EXPECT_EQ(keys.show(key), number);
    previous = key;
  }
  for (const char* text : {"", "-1", "0x10", "apple", "18446744073709551616", "1 "}) {
    std::string key;
    EXPECT_TRUE(keys.parse(text, &key).IsInvalidArgument()) << text;
  }
  EXPECT_EQ(keys.show("odd"), "odd");  // cannot happen in a sound pool; shown all the same
}

TEST(KeyText, HexWinsOverTheFormat) {
  const KeyText keys{KeyFormat::kFixed8, true};
  std::string key;
  ASSERT_TRUE(keys.parse("000000000000002a", &key).ok());
  EXPECT_EQ(keys.show(key), "000000000000002a");
  EXPECT_EQ((KeyText{KeyFormat::kFixed8, false}.show(key)), "42");
}

}  // namespace
}  // namespace bonsai::admin
