// SPDX-License-Identifier: Apache-2.0
// checkpoint, salvage, dump and load, as a user runs them.
#include <gtest/gtest.h>

#include <string>

#include "admin/testing/run_program.h"
#include "base/testing/temp_folder.h"
#include "bonsai/db.h"

namespace bonsai::admin {
namespace {

class Backup : public ::testing::Test {
 protected:
  [[nodiscard]] std::string flag(const std::string& name) const { return "--pool=" + folder_.file(name); }
  void make(const std::string& name, const std::vector<std::pair<std::string, std::string>>& records,
            KeyFormat format = KeyFormat::kBytes) {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = 4 << 20;
    options.key_format = format;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options, folder_.file(name), &db).ok());
    for (const auto& [key, value] : records) ASSERT_TRUE(db->Put(key, value).ok());
    ASSERT_TRUE(db->Drain().ok());
    ASSERT_TRUE(db->Close().ok());
  }
  ProgramResult load(const std::string& text, const std::string& key = "bytes", const std::string& name = "loaded") {
    return run_program({"load", flag(name), "--create", "--bytes=4M", "--key=" + key}, text);
  }

  testing::TempFolder folder_;
};

TEST_F(Backup, ArbitraryBytesGoThroughDumpAndLoad) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  make("pool", {{all, all}, {"empty", ""}, {"\\x41", "\\"}, {"end 3", "bonsai-dump 1 bytes"}, {"tab\t", "\t\n\r"}});
  const ProgramResult dump = run_program({"dump", flag("pool")});
  ASSERT_EQ(dump.exit_code, 0) << dump.err;
  EXPECT_EQ(dump.out.rfind("bonsai-dump 1 bytes\n", 0), 0u);
  EXPECT_NE(dump.out.find("\\\\x41\t\\\\\n"), std::string::npos) << dump.out;
  EXPECT_TRUE(dump.out.ends_with("\nend 5\n")) << dump.out;
  const ProgramResult loaded = load(dump.out);
  ASSERT_EQ(loaded.exit_code, 0) << loaded.err;
  EXPECT_NE(loaded.out.find("5 records"), std::string::npos);
  EXPECT_EQ(run_program({"dump", flag("loaded")}).out, dump.out);
  const ProgramResult of_file = run_program({"load", flag("loaded"), folder_.write("dump", dump.out)});
  EXPECT_EQ(of_file.exit_code, 0) << of_file.err;
  EXPECT_EQ(run_program({"dump", flag("loaded")}).out, dump.out) << "loading twice changes nothing";
}

TEST_F(Backup, Fixed8KeysAreDecimal) {
  make("pool", {{std::string(8, '\0'), "zero"}, {std::string(8, '\xff'), "max"}}, KeyFormat::kFixed8);
  const std::string text = "bonsai-dump 1 fixed8\n0\tzero\n18446744073709551615\tmax\nend 2\n";
  EXPECT_EQ(run_program({"dump", flag("pool")}).out, text);
  EXPECT_EQ(load(text, "fixed8").exit_code, 0);
  EXPECT_EQ(run_program({"dump", flag("loaded")}).out, text);
  const ProgramResult wrong = load(text, "bytes", "other");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("--key=fixed8"), std::string::npos) << wrong.err;
}

TEST_F(Backup, BadDumpsAreRefusedWithTheirLine) {
  struct Bad {
    const char* text;
    const char* says;
  };
  for (const Bad& bad : {Bad{"", "line 1"}, Bad{"bonsai-dump 2 bytes\nend 0\n", "bonsai-dump 1"},
                         Bad{"bonsai-dump 1 bytes\n", "ends early"},
                         Bad{"bonsai-dump 1 bytes\na\t1\n", "the 1 record before is gone with the new pool"},
                         Bad{"bonsai-dump 1 bytes\na\t1\nend 2\n", "end 1"},
                         Bad{"bonsai-dump 1 bytes\na\\\t1\nend 1\n", "line 2: a backslash"},
                         Bad{"bonsai-dump 1 bytes\n\t1\nend 1\n", "line 2: a key of 0 bytes"},
                         Bad{"bonsai-dump 1 bytes\nend 0\nmore\n", "follows"}}) {
    const ProgramResult result = load(bad.text);
    EXPECT_EQ(result.exit_code, 2) << bad.text;
    EXPECT_NE(result.err.find(bad.says), std::string::npos) << bad.text << ": " << result.err;
  }
  EXPECT_EQ(run_program({"load", flag("loaded"), folder_.file("none")}).exit_code, 2);
}

// Records go in groups; an error is of the first line that has one, and counts what is before it.
TEST_F(Backup, ABadLineAmidAGroupIsNamedAndWhatIsBeforeItIsThere) {
  make("loaded", {});
  const std::string long_key(kKeyBytesMax + 1, 'k');
  for (const int bad : {0, 1, 255, 256, 257, 600}) {
    std::string text = "bonsai-dump 1 bytes\n";
    for (int i = 0; i < 700; ++i) text += (i == bad ? long_key : "k" + std::to_string(1'000 + i)) + "\tv\n";
    const ProgramResult result = run_program({"load", flag("loaded")}, text + "end 700\n");
    EXPECT_EQ(result.exit_code, 2);
    const std::string says = "line " + std::to_string(bad + 2) + ": a key of 1025 bytes";
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("the " + std::to_string(bad) + " record"), std::string::npos) << result.err;
    if (bad > 0) {
      const std::string last = "k" + std::to_string(1'000 + bad - 1);
      EXPECT_EQ(run_program({"get", flag("loaded"), last}).out, "v\n");
    }
  }
}

TEST_F(Backup, CheckpointCopiesAndKeepsTheSource) {
  make("pool", {{"a", "1"}, {"b", "2"}});
  const ProgramResult result = run_program({"checkpoint", flag("pool"), folder_.file("copy"), "--bytes=4M"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("2 records"), std::string::npos);
  EXPECT_EQ(run_program({"scan", flag("copy")}).out, "a\t1\nb\t2\n");
  EXPECT_EQ(run_program({"scan", flag("pool")}).out, "a\t1\nb\t2\n");
  EXPECT_EQ(run_program({"checkpoint", flag("pool"), folder_.file("copy")}).exit_code, 2) << "it exists";
}

TEST_F(Backup, GrowEnlargesAPool) {
  make("pool", {{"a", "1"}});
  const ProgramResult result = run_program({"grow", flag("pool"), "--bytes=8M"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("8.0 MiB"), std::string::npos) << result.out;
  EXPECT_EQ(testing::read_file(folder_.file("pool")).size(), size_t{8} << 20);
  EXPECT_EQ(run_program({"scan", flag("pool")}).out, "a\t1\n");
  EXPECT_EQ(run_program({"check", flag("pool")}).exit_code, 0);
  EXPECT_EQ(run_program({"grow", flag("pool")}).exit_code, 2) << "no size";
  EXPECT_EQ(run_program({"grow", flag("pool"), "--bytes=1G"}).exit_code, 2) << "beyond the bound";
}

TEST_F(Backup, SalvageSaysWhatIsLost) {
  make("pool", {{"a", std::string(5000, 'A')}, {"b", std::string(5000, 'B')}, {"c", "small"}});
  std::string bytes = testing::read_file(folder_.file("pool"));
  bytes[bytes.find(std::string(4000, 'B')) + 100] = 'X';
  folder_.write("pool", bytes);
  EXPECT_EQ(run_program({"check", flag("pool")}).exit_code, 4);
  const ProgramResult result = run_program({"salvage", flag("pool"), folder_.file("copy"), "--bytes=4M"});
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_NE(result.out.find("2 records"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("keys: \"b\""), std::string::npos) << result.out;
  EXPECT_EQ(run_program({"get", flag("copy"), "c"}).out, "small\n");
  EXPECT_EQ(run_program({"get", flag("copy"), "b"}).exit_code, 1);
  EXPECT_EQ(run_program({"check", flag("copy")}).exit_code, 0);
  EXPECT_TRUE(testing::read_file(folder_.file("pool")) == bytes) << "the damaged pool is not changed";
}

}  // namespace
}  // namespace bonsai::admin
