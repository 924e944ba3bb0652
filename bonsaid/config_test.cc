// SPDX-License-Identifier: Apache-2.0
// Settings: their sources, which source wins, and the message for each invalid one.
#include "bonsaid/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "base/testing/temp_folder.h"
#include "scale/fabrics.h"

namespace bonsai::bonsaid {
namespace {

class ConfigTest : public ::testing::Test {
 protected:
  Status read(const std::string& text) {
    config_ = {};
    return read_config(folder_.write("conf.toml", text), &config_);
  }
  void expect_refused(const std::string& text, const std::string& says) {
    const Status status = read(text);
    EXPECT_TRUE(status.IsInvalidArgument()) << text << ": " << status.ToString();
    EXPECT_NE(status.message().find(says), std::string_view::npos) << text << ": " << status.ToString();
    EXPECT_NE(status.message().find("conf.toml, line "), std::string_view::npos) << status.ToString();
  }

  testing::TempFolder folder_;
  Config config_;
};

std::string annotated_example() {
  std::ifstream in(BONSAI_SOURCE_DIR "/conf/bonsaid.toml");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST_F(ConfigTest, TheExampleServesThisMachine) {
  ASSERT_EQ("OK", read(annotated_example()).ToString());
  EXPECT_EQ("OK", check(config_).ToString());
  ASSERT_EQ(config_.listen.size(), 1u);
  EXPECT_EQ(config_.listen[0].text(), "shm://laptop");
  EXPECT_EQ(config_.domain, rdma::RemoteDomain::kAdr);
}

// The lines that are commented out are settings, too, with their defaults. The example has every setting.
TEST_F(ConfigTest, TheExampleNamesEverySetting) {
  const std::string text = std::regex_replace(annotated_example(), std::regex("\n# (\\w+ = )"), "\n$1");
  ASSERT_EQ("OK", read(text).ToString());
  for (const std::string_view name : setting_names()) {
    EXPECT_NE(text.find("\n" + std::string(name) + " = "), std::string::npos) << name;
  }
  EXPECT_EQ(config_.test.medium, Config().test.medium);
  EXPECT_EQ(config_.litmus_ms, Config().litmus_ms);
}

TEST_F(ConfigTest, EverySettingIsReadAndFlagsWin) {
  ASSERT_EQ("OK", read("folder = '/a'\nlisten = ['shm://n', 'rdma://10.0.0.1:7471']\ndomain = 'eadr'\n"
                       "secret_file = '/s'\nmedium = 'emulator'\nlitmus_ms = 7\nmetrics = '9122'\n")
                      .ToString());
  EXPECT_EQ(config_.folder, "/a");
  ASSERT_EQ(config_.listen.size(), 2u);
  EXPECT_EQ(config_.listen[1].scheme, "rdma");
  EXPECT_EQ(config_.listen[1].node, "10.0.0.1:7471");
  EXPECT_EQ(config_.domain, rdma::RemoteDomain::kEadr);
  EXPECT_EQ(config_.secret_file, "/s");
  EXPECT_EQ(config_.test.medium, TestMedium::kEmulator);
  EXPECT_EQ(config_.litmus_ms, 7u);
  EXPECT_EQ(config_.metrics, "9122");
  EXPECT_EQ(fixed_settings_that_differ(config_, Config()), "folder, listen, domain, medium, metrics, litmus_ms");
  EXPECT_EQ("OK", check(config_).ToString());
  ASSERT_TRUE(set("listen", "shm://other", &config_).ok());
  ASSERT_EQ(config_.listen.size(), 1u) << "a flag replaces the list";
  ASSERT_TRUE(set("open_to_all", "true", &config_).ok());
  EXPECT_TRUE(check(config_).IsInvalidArgument()) << "a secret, and open to all";
  EXPECT_TRUE(set("folders", "x", &config_).IsInvalidArgument());
  ASSERT_TRUE(set("medium", "shadow-without-flushes", &config_).ok());
  EXPECT_EQ(config_.test.medium, TestMedium::kShadow);
  EXPECT_TRUE(config_.test.shadow_drops_flushes);
  ASSERT_TRUE(set("medium", "shadow", &config_).ok());
  EXPECT_FALSE(config_.test.shadow_drops_flushes);
}

TEST_F(ConfigTest, WrongFilesAreAnsweredWithTheLine) {
  expect_refused("folder = ", "line 1");
  expect_refused("folder = '/a'\nfolders = '/b'\n", "known: folder, listen");
  expect_refused("\nlisten = 'shm://n'\n", "line 2: listen must be a list of strings");
  expect_refused("listen = [1]", "list of strings");
  expect_refused("litmus_ms = 'x'", "whole number");
  expect_refused("litmus_ms = 0", "1 to 10000");
  expect_refused("open_to_all = 1", "true or false");
  expect_refused("domain = 3", "string in quotes");
  expect_refused("domain = 'adrenaline'", "adr-direct");
  expect_refused("medium = 'paper'", "auto, shadow, shadow-without-flushes or emulator");
  for (const char* address : {"laptop", "shm://", "://x", "shm://a/b", "shm:/a"}) {
    expect_refused("listen = ['" + std::string(address) + "']", "shm://NAME");
  }
  expect_refused("listen = ['shm://a', 'shm://a']", "twice");
  const Status missing = read_config(folder_.file("none"), &config_);
  EXPECT_TRUE(missing.IsIoError());
  EXPECT_NE(missing.message().find("conf/bonsaid.toml"), std::string_view::npos) << missing.ToString();
  EXPECT_TRUE(read_config(folder_.path(), &config_).IsIoError()) << "a folder";
}

TEST_F(ConfigTest, WhatIsMissingIsNamedWithItsFlag) {
  const auto says = [&](const char* flag) {
    const Status status = check(config_);
    EXPECT_TRUE(status.IsInvalidArgument());
    EXPECT_NE(status.message().find(flag), std::string_view::npos) << status.ToString();
  };
  says("--folder");
  config_.folder = "/a";
  says("--listen");
  ASSERT_TRUE(set("listen", "rdma://h:1", &config_).ok());
  says("--domain");
  config_.domain = rdma::RemoteDomain::kAdr;
  says("--secret_file");
  config_.open_to_all = true;
  EXPECT_TRUE(check(config_).ok());
  config_.open_to_all = false;
  ASSERT_TRUE(set("listen", "shm://n", &config_).ok());
  EXPECT_TRUE(check(config_).ok()) << "processes of this user need none";
  // The provider's capabilities decide, and not its name.
  ASSERT_TRUE(set("listen", "config-test://n", &config_).ok());
  says("--secret_file");
  const auto none = [](std::shared_ptr<rdma::Fabric>*) { return Status::Unavailable("none"); };
  scale::register_fabric("config-test", none, scale::FabricReach::kMachine);
  EXPECT_TRUE(check(config_).ok());
}

// The deepest possible file, for each kind of nesting, gives an error and does not overflow the stack.
TEST_F(ConfigTest, DeepNestingIsRefused) {
  const auto repeat = [](size_t times, const std::string& text) {
    std::string all;
    for (size_t i = 0; i < times; ++i) all += text;
    return all;
  };
  for (const size_t depth : {300U, 8'000U, 200'000U}) {
    const std::string dotted = repeat(depth, "a.") + "a";
    for (const std::string& text :
         {dotted + " = 1\n", "[" + dotted + "]\n", "[[" + dotted + "]]\nb = 1\n", "folder." + dotted + " = 1\n",
          "listen = " + repeat(depth, "[") + repeat(depth, "]"), "listen = " + repeat(depth, "{a="),
          repeat(depth / 100, "x = [{" + repeat(50, "a.") + "a = \n")}) {
      const Status status = read(text);
      EXPECT_TRUE(status.IsInvalidArgument()) << depth << ": " << status.ToString();
    }
  }
  expect_refused(std::string(1 << 20, '#'), "bytes");
}

}  // namespace
}  // namespace bonsai::bonsaid
