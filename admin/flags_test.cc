// SPDX-License-Identifier: Apache-2.0
// The flag front end of all programs, with the flags of `bonsai`.
#include "admin/flags.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>

DEFINE_string(x, "", "FILE...|a flag of one letter that may be repeated");
DEFINE_uint32(depth, 7, "a flag whose description has no form");

namespace bonsai::admin {
namespace {

class Flags : public ::testing::Test {
 protected:
  Status parse(const std::vector<std::string>& arguments) {
    help_ = false;
    operands_.clear();
    return parse_flags(arguments, {"pool", "hex", "limit", "log-bytes", "x", "depth"}, &help_, &operands_);
  }
  std::string error(const std::vector<std::string>& arguments) {
    const Status status = parse(arguments);
    EXPECT_TRUE(status.IsInvalidArgument()) << arguments[0];
    return std::string(status.message());
  }

  gflags::FlagSaver saver_;
  bool help_ = false;
  std::vector<std::string> operands_;
};

TEST_F(Flags, TakeBothFormsAnywhere) {
  ASSERT_TRUE(parse({"one", "--pool=a=b", "two", "--limit", "7", "--hex", "three"}).ok());
  EXPECT_EQ(FLAGS_pool, "a=b");
  EXPECT_EQ(FLAGS_limit, 7u);
  EXPECT_TRUE(FLAGS_hex);
  EXPECT_EQ(operands_, (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_FALSE(help_);
}

TEST_F(Flags, MayHaveOneDashAndBothKindsOfSeparators) {
  for (const char* form : {"--log_bytes=5", "--log-bytes=5", "-log_bytes=5", "-log-bytes=5"}) {
    FLAGS_log_bytes = "0";
    ASSERT_TRUE(parse({form}).ok()) << form;
    EXPECT_EQ(FLAGS_log_bytes, "5") << form;
  }
  EXPECT_NE(error({"---hex"}).find("unknown flag '---hex'"), std::string::npos);
}

TEST_F(Flags, KeepTheLastValueOrAllOfThem) {
  ASSERT_TRUE(parse({"--pool=a", "-x", "one", "--pool=b", "-x=two"}).ok());
  EXPECT_EQ(FLAGS_pool, "b");
  EXPECT_EQ(FLAGS_x, std::string("one") + kRepeated + "two");
  for (const char* value : {"", "two\nlines"}) {
    EXPECT_NE(error({"-x", value}).find("-x needs a value: -x FILE..."), std::string::npos);
  }
}

TEST_F(Flags, CanBeAllThereIs) {
  const auto message = [](const std::vector<std::string>& arguments) {
    return std::string(parse_flags(arguments, {"pool", "hex"}, nullptr, nullptr).message());
  };
  EXPECT_EQ(message({"--pool", "a", "--hex"}), "");
  for (const char* word : {"word", "-", "--", "---hex", ""}) {
    EXPECT_NE(message({"--hex", word}).find("'" + std::string(word) + "' is no flag; write --name=value"),
              std::string::npos);
  }
  EXPECT_NE(message({"--help"}).find("unknown flag '--help'"), std::string::npos);
}

TEST_F(Flags, BooleansCanBeNegated) {
  ASSERT_TRUE(parse({"--hex"}).ok());
  for (const char* off : {"--nohex", "--no-hex", "-no_hex", "--hex=false"}) {
    FLAGS_hex = true;
    ASSERT_TRUE(parse({off}).ok()) << off;
    EXPECT_FALSE(FLAGS_hex) << off;
  }
  EXPECT_NE(error({"--nopool"}).find("unknown flag '--nopool'"), std::string::npos);
}

TEST_F(Flags, EndAtTwoDashes) {
  ASSERT_TRUE(parse({"--hex", "--", "--pool=x", "-k", "--"}).ok());
  EXPECT_EQ(operands_, (std::vector<std::string>{"--pool=x", "-k", "--"}));
  ASSERT_TRUE(parse({"-"}).ok());
  EXPECT_EQ(operands_, std::vector<std::string>{"-"});
}

TEST_F(Flags, UnknownOnesListTheKnown) {
  const std::string message = error({"--pol=x"});
  EXPECT_NE(message.find("'--pol=x'"), std::string::npos);
  EXPECT_NE(message.find("known here: --pool --hex --limit --log-bytes -x --depth --help"), std::string::npos);
  // Flags of other commands and gflags' own do not exist here.
  error({"--json"});
  error({"--helpfull"});
  error({"--flagfile=/etc/passwd"});
  EXPECT_NE(error({"-y"}).find("put -- before"), std::string::npos);
}

TEST_F(Flags, ValuesAreChecked) {
  EXPECT_NE(error({"--pool"}).find("--pool needs a value: --pool=PATH[,PATH...]"), std::string::npos);
  EXPECT_NE(error({"--depth"}).find("--depth needs a value, for example --depth=7"), std::string::npos);
  for (const char* value : {"many", "", "-1", " -1", "1.5", "99999999999999999999999"}) {
    const std::string limit = std::string("--limit=") + value;
    EXPECT_NE(error({limit}).find(limit + " is no value for it; give a whole number: --limit=N"), std::string::npos);
  }
  EXPECT_NE(error({"--depth=x"}).find("--depth=x is no value for it; give a whole number, for example --depth=7"),
            std::string::npos);
  EXPECT_NE(error({"--hex=perhaps"}).find("true or false"), std::string::npos);
}

TEST_F(Flags, HelpIsSeenEverywhere) {
  for (const char* flag : {"--help", "-h", "-help"}) {
    ASSERT_TRUE(parse({"word", flag}).ok());
    EXPECT_TRUE(help_);
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
  EXPECT_EQ(flag_help("x"), "  -x FILE...                  a flag of one letter that may be repeated\n");
}

}  // namespace
}  // namespace bonsai::admin
