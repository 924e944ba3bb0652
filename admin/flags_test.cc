// SPDX-License-Identifier: Apache-2.0
#include "admin/flags.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>

namespace bonsai::admin {
namespace {

class Flags : public ::testing::Test {
 protected:
  Status parse(const std::vector<std::string>& arguments) {
    operands_ = {};
    return parse_flags(arguments, {"pool", "hex", "limit"}, &operands_);
  }
  std::string error(const std::vector<std::string>& arguments) {
    const Status status = parse(arguments);
    EXPECT_TRUE(status.IsInvalidArgument()) << arguments[0];
    return std::string(status.message());
  }

  gflags::FlagSaver saver_;
  Operands operands_;
};

TEST_F(Flags, TakeBothFormsAnywhere) {
  ASSERT_TRUE(parse({"one", "--pool=a=b", "two", "--limit", "7", "--hex", "three"}).ok());
  EXPECT_EQ(FLAGS_pool, "a=b");
  EXPECT_EQ(FLAGS_limit, 7u);
  EXPECT_TRUE(FLAGS_hex);
  EXPECT_EQ(operands_.words, (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_FALSE(operands_.help);
}

TEST_F(Flags, BooleansCanBeNegated) {
  ASSERT_TRUE(parse({"--hex"}).ok());
  for (const char* off : {"--nohex", "--no-hex", "--hex=false"}) {
    FLAGS_hex = true;
    ASSERT_TRUE(parse({off}).ok()) << off;
    EXPECT_FALSE(FLAGS_hex) << off;
  }
  EXPECT_NE(error({"--nopool"}).find("unknown flag '--nopool'"), std::string::npos);
}

TEST_F(Flags, EndAtTwoDashes) {
  ASSERT_TRUE(parse({"--hex", "--", "--pool=x", "-k", "--"}).ok());
  EXPECT_EQ(operands_.words, (std::vector<std::string>{"--pool=x", "-k", "--"}));
  ASSERT_TRUE(parse({"-"}).ok());
  EXPECT_EQ(operands_.words, std::vector<std::string>{"-"});
}

TEST_F(Flags, UnknownOnesListTheKnown) {
  const std::string message = error({"--pol=x"});
  EXPECT_NE(message.find("'--pol=x'"), std::string::npos);
  EXPECT_NE(message.find("--pool --hex --limit --help"), std::string::npos);
  // Flags of other commands and gflags' own do not exist here.
  error({"--json"});
  error({"--helpfull"});
  error({"--flagfile=/etc/passwd"});
  EXPECT_NE(error({"-x"}).find("put -- before"), std::string::npos);
}

TEST_F(Flags, ValuesAreChecked) {
  EXPECT_NE(error({"--pool"}).find("--pool=..."), std::string::npos);
  EXPECT_NE(error({"--limit=many"}).find("a whole number"), std::string::npos);
  EXPECT_NE(error({"--limit=-1"}).find("'-1'"), std::string::npos);
  EXPECT_NE(error({"--hex=perhaps"}).find("true or false"), std::string::npos);
}

TEST_F(Flags, HelpIsSeenEverywhere) {
  for (const char* flag : {"--help", "-h"}) {
    ASSERT_TRUE(parse({"word", flag}).ok());
    EXPECT_TRUE(operands_.help);
  }
}

TEST_F(Flags, KnowWhetherTheyWereGiven) {
  EXPECT_FALSE(flag_given("pool"));
  ASSERT_TRUE(parse({"--pool=p"}).ok());
  EXPECT_TRUE(flag_given("pool"));
  EXPECT_FALSE(flag_given("limit"));
}

TEST(FlagHelp, ShowsTheFormOfTheValue) {
  EXPECT_EQ(flag_help("key").rfind("  --key=bytes|fixed8  ", 0), 0u) << flag_help("key");
  EXPECT_EQ(flag_help("json"), "  --json                      print JSON\n");
}

}  // namespace
}  // namespace bonsai::admin
