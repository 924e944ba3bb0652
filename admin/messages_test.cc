// SPDX-License-Identifier: Apache-2.0
// The program's messages on errors: each situation, and the words that show the user what to do.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "admin/testing/run_program.h"
#include "base/testing/temp_folder.h"

namespace bonsai::admin {
namespace {

namespace fs = std::filesystem;

class Messages : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_program({"put", "--create", "--bytes=4M", "--pool=" + pool_, "apple", "red"}).exit_code, 0);
  }
  // Runs the command, and expects some words in its output, and not others.
  void says(const std::vector<std::string>& command, int exit_code, const std::vector<std::string>& words,
            const std::vector<std::string>& not_words = {}) {
    const ProgramResult result = run_program(command);
    const std::string text = result.out + result.err;
    EXPECT_EQ(result.exit_code, exit_code) << command[0] << ": " << text;
    for (const std::string& word : words) {
      EXPECT_NE(text.find(word), std::string::npos) << command[0] << " does not say '" << word << "': " << text;
    }
    for (const std::string& word : not_words) {
      EXPECT_EQ(text.find(word), std::string::npos) << command[0] << " says '" << word << "': " << text;
    }
  }
  void damage() {
    std::string bytes = testing::read_file(pool_);
    bytes[bytes.rfind("applered") != std::string::npos ? bytes.rfind("applered") : bytes.rfind("red")] ^= 1;
    folder_.write("pool", bytes);
  }

  testing::TempFolder folder_;
  const std::string pool_ = folder_.file("pool"), none_ = folder_.file("none");
};

TEST_F(Messages, NobodyIsAdvisedToRemoveWhatIsNoPool) {
  for (const std::string& content : {std::string("root:x:0:0\n"), std::string(1 << 16, 'x')}) {
    const std::string file = folder_.write("passwd", content);
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"get", "--pool=" + file, "k"},
                                               {"put", "--create", "--pool=" + file, "k", "v"},
                                               {"create", "--pool=" + file, "--bytes=1M"},
                                               {"checkpoint", "--pool=" + pool_, file},
                                               {"salvage", "--pool=" + pool_, file},
                                               {"check", "--pool=" + file},
                                               {"remove", "--pool=" + file},
                                               {"salvage", "--pool=" + file, none_},
                                               {"load", "--create", "--pool=" + file, "/dev/null"}}) {
      const ProgramResult result = run_program(command);
      EXPECT_NE(result.exit_code, 0) << command[0];
      for (const std::string& word : {std::string("remove it"), "rm " + file, std::string("delete")}) {
        EXPECT_EQ(result.err.find(word), std::string::npos) << command[0] << ": " << result.err;
      }
      EXPECT_TRUE(testing::read_file(file) == content);
    }
  }
}

TEST_F(Messages, AFullPoolNamesGrow) {
  const std::string full = "--pool=" + folder_.file("full"), value(200'000, 'v');
  ASSERT_EQ(run_program({"create", full, "--bytes=1M"}).exit_code, 0);
  ProgramResult result;
  for (int i = 0; i < 20 && result.exit_code <= 0; ++i) {
    result = run_program({"put", full, "key" + std::to_string(i), "--value_file=-"}, value);
  }
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("bonsai grow " + full + " --bytes=2M"), std::string::npos) << result.err;
  EXPECT_EQ(run_program({"grow", full, "--bytes=2M"}).exit_code, 0) << "and that helps";
  EXPECT_EQ(run_program({"put", full, "key", "--value_file=-"}, value).exit_code, 0);
  says({"checkpoint", full, none_, "--bytes=64K"}, 3, {"larger --bytes"}, {"bonsai grow --pool=" + none_});
}

TEST_F(Messages, DamageNamesSalvage) {
  damage();
  says({"get", "--pool=" + pool_, "apple"}, 4, {"bonsai salvage --pool=" + pool_}, {"bonsai scan"});
  says({"check", "--pool=" + pool_}, 4, {"salvage --pool=" + pool_}, {"bonsai scan"});
  says({"checkpoint", "--pool=" + pool_, none_}, 4, {"bonsai salvage --pool=" + pool_}, {"--pool=" + none_});
}

TEST_F(Messages, WhatIsMissingIsNamedAsWhatItIs) {
  const std::string create = "bonsai create --pool";
  says({"remove", "--pool=" + none_}, 3, {"there is no pool " + none_}, {create, "--create"});
  says({"salvage", "--pool=" + none_, folder_.file("copy")}, 3, {none_}, {folder_.file("copy")});
  says({"checkpoint", "--pool=" + pool_, folder_.file("no/copy")}, 3, {"mkdir -p " + folder_.file("no")});
  for (const std::string command : {"create", "get"}) {
    std::vector<std::string> words = {command, "--pool=/dev/bonsai9.9"};
    if (command == "get") words.emplace_back("k");
    says(words, 3, {"there is no device /dev/bonsai9.9", "bonsai doctor"}, {create});
  }
  says({"put", "--create", "--pool=/dev/bonsai9.9", "k", "v"}, 3, {"there is no device /dev/bonsai9.9"}, {create});
  EXPECT_FALSE(fs::exists("/dev/bonsai9.9"));
  const std::string link = folder_.file("link");
  fs::create_symlink(none_, link);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"get", "--pool=" + link, "k"},
                                             {"create", "--pool=" + link},
                                             {"put", "--create", "--pool=" + link, "k", "v"},
                                             {"check", "--pool=" + link},
                                             {"checkpoint", "--pool=" + pool_, link}}) {
    says(command, 3, {link + " is a link to " + none_, "rm " + link}, {create});
  }
  EXPECT_FALSE(fs::exists(none_));
}

TEST_F(Messages, EveryMissingTargetOfAPoolIsNamed) {
  const std::string a = folder_.file("a.part"), b = folder_.file("b.part"), c = folder_.file("c.part");
  const std::string all = "--pool=" + a + "," + b + "," + c;
  ASSERT_EQ(run_program({"create", all, "--bytes=4M"}).exit_code, 0);
  std::filesystem::rename(b, b + ".away");
  says({"check", all}, 3, {"1 of the pool's 3 targets cannot be read: " + b + "\n", "put this one back"},
       {"bonsai create"});
  std::filesystem::rename(c, c + ".away");
  for (const char* command : {"check", "salvage"}) {
    std::vector<std::string> words = {command, all};
    if (words[0] == "salvage") words.push_back(folder_.file("saved"));
    says(words, 3, {"2 of the pool's 3 targets cannot be read: " + b + ", " + c + "\n"}, {"bonsai create"});
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.file("saved")));
  std::filesystem::rename(b + ".away", b);
  std::filesystem::rename(c + ".away", c);
  EXPECT_EQ(run_program({"check", all}).exit_code, 0);
}

TEST_F(Messages, SecretsAndHostsAreNamedAsWhatTheyAre) {
  const std::string secret = "--secret_file=" + none_, remote = "--pool=shm://nobody/p";
  for (const std::string command : {"stat", "check", "remove"}) {
    says({command, remote, secret}, 3, {"the secret file " + none_, "openssl rand"},
         {"bonsai create --pool", "bonsaid on"});
  }
  says({"stat", remote, "--fabric_wait_ms_max=50"}, 3, {"start bonsaid"}, {"bonsai create --pool"});
}

TEST_F(Messages, SizesThatDoNotCountAreReported) {
  const std::string grow = "bonsai grow --pool=" + pool_ + " --bytes=8M";
  says({"put", "--create", "--bytes=8M", "--pool=" + pool_, "a", "b"}, 0, {pool_, "4.0 MiB", grow});
  says({"put", "--create", "--bytes=4M", "--pool=" + pool_, "a", "b"}, 0, {}, {"bonsai grow"});
  says({"grow", "--pool=" + pool_, "--bytes=2M"}, 2, {"4.0 MiB", "does not shrink", "checkpoint"});
  says({"grow", "--pool=" + pool_, "--bytes=4M"}, 0, {"4.0 MiB"});
  EXPECT_EQ(fs::file_size(pool_), 4U << 20);
}

TEST_F(Messages, DoctorSeesThatThereIsNoPool) {
  says({"doctor", "--pool=" + none_}, 3, {"no pool yet", "bonsai create --pool=" + none_});
  const ProgramResult there = run_program({"doctor", "--pool=" + pool_});
  EXPECT_EQ(there.out.find("no pool"), std::string::npos) << there.out;
}

}  // namespace
}  // namespace bonsai::admin
