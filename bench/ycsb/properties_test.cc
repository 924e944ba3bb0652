// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/properties.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/random.h"

namespace bonsai::bench {
namespace {

std::string value_of(const Properties& properties, const std::string& name) {
  const Property* found = properties.find(name);
  return found == nullptr ? "(absent)" : found->value;
}

TEST(Properties, ReadsEveryFormOfALine) {
  Properties properties;
  const Status status = properties.parse(
      "# comment\n! comment too\n\n  \t\na=1\nb = two words  \nc: 3\nd 4\n  e\t=\t5\r\nf=a=b\ng=one,\\\n   two\nh=6",
      "x");
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(value_of(properties, "a"), "1");
  EXPECT_EQ(value_of(properties, "b"), "two words");
  EXPECT_EQ(value_of(properties, "c"), "3");
  EXPECT_EQ(value_of(properties, "d"), "4");
  EXPECT_EQ(value_of(properties, "e"), "5");
  EXPECT_EQ(value_of(properties, "f"), "a=b");
  EXPECT_EQ(value_of(properties, "g"), "one,two");
  EXPECT_EQ(value_of(properties, "h"), "6");
  EXPECT_EQ(properties.all().size(), 8U);
}

TEST(Properties, KeepsTheLastValueAndItsPlace) {
  Properties properties;
  ASSERT_TRUE(properties.parse("a=1\nb=2\na=3\n", "file").ok());
  EXPECT_EQ(value_of(properties, "a"), "3");
  EXPECT_EQ(properties.find("a")->where, "file:3");
  EXPECT_EQ(properties.find("b")->where, "file:2");
}

TEST(Properties, CountsContinuedLines) {
  Properties properties;
  ASSERT_TRUE(properties.parse("a=1\\\n2\\\n3\nb=4", "file").ok());
  EXPECT_EQ(value_of(properties, "a"), "123");
  EXPECT_EQ(properties.find("b")->where, "file:4");
}

// Each bad text, and what its message must hold: the line and the remedy.
struct BadText {
  const char* text;
  const char* where;
  const char* says;
};

class BadProperties : public ::testing::TestWithParam<BadText> {};

TEST_P(BadProperties, NamesLineAndRemedyAndChangesNothing) {
  Properties properties;
  ASSERT_TRUE(properties.parse("kept=1", "before").ok());
  const Status status = properties.parse(GetParam().text, "file");
  ASSERT_TRUE(status.IsInvalidArgument());
  EXPECT_NE(status.message().find(GetParam().where), std::string::npos) << status.ToString();
  EXPECT_NE(status.message().find(GetParam().says), std::string::npos) << status.ToString();
  EXPECT_EQ(properties.all().size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Texts, BadProperties,
                         ::testing::Values(BadText{"a=1\n=2", "file:2:", "write name=value"},
                                           BadText{"a=1\n\nb", "file:3:", "write b=value"},
                                           BadText{"a=", "file:1:", "has no value"},
                                           BadText{"<xml>=1", "file:1:", "no property name"},
                                           BadText{"a=1\nb=2\\", "file:2:", "remove the backslash"}));

TEST(Properties, RefusesBinaryAndMissingAndHugeFiles) {
  Properties properties;
  EXPECT_TRUE(properties.parse(std::string_view("a=\0b", 4), "file").IsInvalidArgument());
  const Status missing = properties.read_file("/nowhere/at-all");
  EXPECT_TRUE(missing.IsIoError());
  EXPECT_NE(missing.message().find("/nowhere/at-all"), std::string::npos);
  EXPECT_FALSE(properties.read_file("/tmp").ok());

  const std::string path = ::testing::TempDir() + "/bench_huge.properties";
  std::ofstream(path) << std::string(kPropertyFileBytesMax + 1, '#');
  const Status huge = properties.read_file(path);
  EXPECT_NE(huge.message().find("1 MiB"), std::string::npos) << huge.ToString();
  std::remove(path.c_str());
}

// Any bytes get an answer, and an accepted text has names and values.
TEST(Properties, SurvivesRandomBytes) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  base::Random random(seed);
  constexpr std::string_view kBytes("abA1=: \t\\\n\r#!.\0\xff", 17);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random.below(40), ' ');
    for (char& c : text) c = kBytes[random.below(kBytes.size())];
    Properties properties;
    if (!properties.parse(text, "x").ok()) continue;
    for (const auto& [name, property] : properties.all()) {
      EXPECT_FALSE(name.empty());
      EXPECT_FALSE(property.value.empty());
    }
  }
}

}  // namespace
}  // namespace bonsai::bench
