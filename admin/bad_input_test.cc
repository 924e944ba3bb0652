// SPDX-License-Identifier: Apache-2.0
// Bad input: each case ends with the right exit code and a message that names the cause and the remedy, and harms no
// file.
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "admin/testing/run_program.h"
#include "base/testing/temp_folder.h"
#include "bonsai/db.h"

namespace bonsai::admin {
namespace {

constexpr int kUsage = 2, kFailed = 3, kDamaged = 4;

class BadInput : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_program({"put", "--create", "--bytes=4M", pool_flag(), "apple", "red"}).exit_code, 0);
  }
  [[nodiscard]] std::string pool() const { return folder_.file("pool"); }
  [[nodiscard]] std::string pool_flag() const { return "--pool=" + pool(); }

  // Expects `arguments` to fail with `exit_code`, words in the message, no output, and the pool byte-identical.
  void refuses(const std::vector<std::string>& arguments, int exit_code, const std::vector<std::string>& words,
               const std::string& in = "") {
    const std::string before = testing::read_file(pool());
    const ProgramResult result = run_program(arguments, in);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& word : words) {
      EXPECT_NE(result.err.find(word), std::string::npos) << "'" << word << "' is not in: " << result.err;
    }
    EXPECT_EQ(result.err.rfind("bonsai", 0), 0u) << result.err;
    EXPECT_TRUE(testing::read_file(pool()) == before) << "the pool was changed";
  }
  // As above, for all commands that open the pool.
  void all_commands_refuse(int exit_code, const std::vector<std::string>& words) {
    refuses({"get", pool_flag(), "apple"}, exit_code, words);
    refuses({"put", pool_flag(), "apple", "green"}, exit_code, words);
    refuses({"put", "--create", pool_flag(), "apple", "green"}, exit_code, words);
    refuses({"del", pool_flag(), "apple"}, exit_code, words);
    refuses({"scan", pool_flag()}, exit_code, words);
    refuses({"stat", pool_flag()}, exit_code, words);
  }
  // Replaces the pool's bytes.
  void overwrite(const std::string& bytes) { folder_.write("pool", bytes); }
  // The pool still has its record.
  void expect_apple_is_red() {
    const ProgramResult result = run_program({"scan", pool_flag()});
    EXPECT_EQ(result.out, "apple\tred\n") << result.err;
  }

  testing::TempFolder folder_;
};

TEST_F(BadInput, SizesThatNoPoolHas) {
  for (const char* bytes : {"4611686018427387904", "9223372036854775807", "9223372036854775808", "8388608T",
                            "18446744073709547520", "18446744073709551615", "16777216T", "18446744073709551616"}) {
    const std::string flag = std::string("--bytes=") + bytes, new_pool = "--pool=" + folder_.file("new");
    refuses({"grow", pool_flag(), flag}, kUsage, {"bytes"});
    refuses({"create", new_pool, flag}, kUsage, {"bytes"});
    refuses({"put", "--create", new_pool, flag, "apple", "red"}, kUsage, {"bytes"});
    refuses({"load", "--create", new_pool, flag}, kUsage, {"bytes"}, "bonsai-dump 1 bytes\nend 0\n");
    refuses({"checkpoint", pool_flag(), flag, folder_.file("new")}, kUsage, {"bytes"});
    refuses({"salvage", pool_flag(), flag, folder_.file("new")}, kUsage, {"bytes"});
    EXPECT_FALSE(std::filesystem::exists(folder_.file("new"))) << bytes;
  }
  for (const char* bytes : {"9223372036854775808", "18446744073709551615"}) {
    refuses({"create", "--pool=" + folder_.file("new"), std::string("--log_bytes=") + bytes}, kUsage, {"log_bytes"});
  }
  refuses({"grow", pool_flag(), "--bytes=4611686018427387903"}, kFailed, {"no space"});
  expect_apple_is_red();
}

TEST_F(BadInput, Commands) {
  const std::vector<std::string> known = {
      "create put increment get exists del scan count delete-range stat list groups scrub check checkpoint salvage "
      "grow remove dump load "
      "plan doctor help version"};
  refuses({"frobnicate"}, kUsage, {"unknown command 'frobnicate'", known[0]});
  refuses({"--pool=x", "get"}, kUsage, {"the command comes first", known[0]});
  refuses({"help", "frobnicate"}, kUsage, {"unknown command", known[0]});
  refuses({""}, kUsage, {"unknown command ''"});
  EXPECT_EQ(run_program({}).exit_code, kUsage);
}

TEST_F(BadInput, APoolNamedWithoutItsFlagShowsTheRightCommand) {
  refuses({"put", pool(), "apple", "green"}, kUsage, {"is this meant? bonsai put " + pool_flag() + " apple green"});
  refuses({"get", pool(), "apple"}, kUsage, {"is this meant? bonsai get " + pool_flag() + " apple"});
  refuses({"stat", pool()}, kUsage, {"is this meant? bonsai stat " + pool_flag()});
  EXPECT_EQ(run_program({"get", pool_flag(), "a/b"}).exit_code, 1) << "a key may have a slash";
}

TEST_F(BadInput, Flags) {
  refuses({"get", "--pol=x", "k"}, kUsage, {"unknown flag '--pol=x'", "--pool"});
  refuses({"get", pool_flag(), "--limit=3", "k"}, kUsage, {"unknown flag '--limit=3'"});
  refuses({"scan", pool_flag(), "--limit=many"}, kUsage, {"--limit=many", "whole number"});
  refuses({"scan", "--pool"}, kUsage, {"--pool needs a value"});
  refuses({"put", pool_flag(), "--durability=maybe", "a", "b"}, kUsage, {"'maybe'", "durable, buffered"});
  refuses({"put", pool_flag(), "--domain=none", "a", "b"}, kUsage, {"'none'", "auto, adr, eadr"});
  refuses({"put", pool_flag(), "--medium=tape", "a", "b"}, kUsage, {"'tape'", "shadow"});
  refuses({"put", pool_flag(), "--key=text", "a", "b"}, kUsage, {"'text'", "bytes, fixed8"});
  refuses({"create", "--pool=" + folder_.file("new"), "--bytes=much"}, kUsage, {"--bytes is 'much'", "64K"});
  refuses({"get", "k"}, kUsage, {"no pool was named", "--pool="});
  refuses({"doctor", "--root=" + folder_.file("none")}, kUsage, {"does not exist"});
  EXPECT_FALSE(std::filesystem::exists(folder_.file("new")));
}

TEST_F(BadInput, Operands) {
  refuses({"get", pool_flag()}, kUsage, {"takes KEY", "bonsai help get"});
  refuses({"get", pool_flag(), "a", "b"}, kUsage, {"2 operands"});
  refuses({"scan", pool_flag(), "a"}, kUsage, {"no operands"});
  refuses({"put", pool_flag(), "a"}, kUsage, {"--value_file"});
  refuses({"put", pool_flag(), "a", "b", "--value_file=-"}, kUsage, {"not both"});
  refuses({"put", pool_flag(), "a", "--value_file=" + folder_.file("none")}, kUsage, {"No such file"});
  refuses({"put", pool_flag(), "--hex", "abc", "00"}, kUsage, {"two digits"});
  refuses({"put", pool_flag(), "--hex", "00", "zz"}, kUsage, {"no hex byte"});
}

TEST_F(BadInput, KeysAndValuesOutOfBounds) {
  // Opening for writing may touch the pool's state words, so here the records are compared instead of the bytes.
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& word,
                           const std::string& in = "") {
    const ProgramResult result = run_program(arguments, in);
    EXPECT_EQ(result.exit_code, kUsage) << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
    expect_apple_is_red();
  };
  const std::string long_key(1025, 'k');
  for (const std::string command : {"get", "del"}) {
    refused({command, pool_flag(), ""}, "1");
    refused({command, pool_flag(), long_key}, "1024");
  }
  refused({"put", pool_flag(), "", "v"}, "1");
  refused({"put", pool_flag(), long_key, "v"}, "1024");
  refused({"put", pool_flag(), "k", "--value_file=-"}, "16", std::string(kValueBytesMax + 1, 'v'));
}

TEST_F(BadInput, Fixed8Keys) {
  const std::string numbers = "--pool=" + folder_.file("numbers");
  ASSERT_EQ(run_program({"create", numbers, "--bytes=4M", "--key=fixed8"}).exit_code, 0);
  for (const char* key : {"apple", "-", "18446744073709551616", "1.5", ""}) {
    const ProgramResult result = run_program({"put", numbers, "--", key, "v"});
    EXPECT_EQ(result.exit_code, kUsage) << key;
    EXPECT_NE(result.err.find("whole number"), std::string::npos) << result.err;
  }
  EXPECT_EQ(run_program({"put", numbers, "--hex", "00", "00"}).exit_code, kUsage);
  EXPECT_EQ(run_program({"scan", numbers}).out, "");
}

TEST_F(BadInput, KeyFormatOfAnotherPool) {
  refuses({"put", pool_flag(), "--key=fixed8", "1", "v"}, kUsage, {"key"});
  refuses({"create", pool_flag(), "--key=fixed8"}, kUsage, {"exist"});
  expect_apple_is_red();
}

TEST_F(BadInput, PoolMissing) {
  const std::string missing = "--pool=" + folder_.file("none");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{{"get", missing, "k"},
                                                                                       {"put", missing, "k", "v"},
                                                                                       {"del", missing, "k"},
                                                                                       {"scan", missing},
                                                                                       {"stat", missing},
                                                                                       {"check", missing}}) {
    refuses(command, kFailed, {folder_.file("none"), "bonsai create " + missing});
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.file("none")));
  refuses({"create", "--pool=" + folder_.file("no/such/pool")}, kFailed, {"mkdir -p " + folder_.file("no/such")});
}

TEST_F(BadInput, PoolIsAFolder) {
  const std::string folder = folder_.file("folder");
  std::filesystem::create_directory(folder);
  for (const std::string command : {"create", "scan", "check"}) {
    refuses({command, "--pool=" + folder}, kFailed, {"name a file in it: --pool=" + folder + "/pool"});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(BadInput, PoolExistsAlready) {
  refuses({"create", pool_flag(), "--bytes=1M"}, kUsage, {pool(), "exist"});
  expect_apple_is_red();
}

TEST_F(BadInput, PoolTooSmall) {
  for (const char* bytes : {"0", "1", "65535"}) {
    const std::string path = folder_.file("small");
    refuses({"create", "--pool=" + path, std::string("--bytes=") + bytes}, kUsage, {"65536"});
    refuses({"put", "--create", "--pool=" + path, std::string("--bytes=") + bytes, "k", "v"}, kUsage, {"65536"});
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

TEST_F(BadInput, PoolIsNotWritable) {
  if (geteuid() == 0) {
    // Root may write anywhere, but not to procfs.
    refuses({"create", "--pool=/proc/bonsai.pool", "--bytes=1M"}, kFailed, {"/proc/bonsai.pool"});
    return;
  }
  std::filesystem::permissions(pool(), std::filesystem::perms::owner_read);
  refuses({"put", pool_flag(), "apple", "green"}, kFailed, {pool(), "ls -l"});
}

TEST_F(BadInput, PoolIsEmptyOrTruncated) {
  const std::string whole = testing::read_file(pool());
  for (const size_t bytes : {size_t{0}, size_t{7}, size_t{4096}, whole.size() / 2, whole.size() - 1}) {
    SCOPED_TRACE("truncated to " + std::to_string(bytes));
    overwrite(whole.substr(0, bytes));
    const std::string before = testing::read_file(pool());
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"get", pool_flag(), "apple"},
                                               {"put", "--create", pool_flag(), "apple", "green"},
                                               {"check", pool_flag()}}) {
      const ProgramResult result = run_program(command);
      EXPECT_TRUE(result.exit_code == kFailed || result.exit_code == kDamaged) << result.exit_code << result.err;
      EXPECT_NE((result.out + result.err).find(pool()), std::string::npos) << result.err;
    }
    EXPECT_TRUE(testing::read_file(pool()) == before);
  }
}

TEST_F(BadInput, PoolIsAForeignFile) {
  overwrite(std::string(4 << 20, 'x'));
  all_commands_refuse(kFailed, {pool(), "not supported"});
  refuses({"check", pool_flag()}, kFailed, {pool(), "not supported"});
  overwrite(std::string(4 << 20, '\0'));  // a file of zeros is a foreign file, not an empty pool
  refuses({"put", "--create", pool_flag(), "apple", "green"}, kFailed, {pool()});
}

// The superblock as far as every format version keeps it: it starts the first two pages, byte 8 holds the version and
// byte 120 the CRC-32C of all before. A pool of a later program has a higher version and a correct CRC.
constexpr size_t kVersionOffset = 8, kCrcOffset = 120, kSecondSuperblockOffset = 4096;
constexpr uint64_t kVersion = 4;

uint64_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82f63b78 & (0 - (crc & 1)));
  }
  return ~crc;
}

std::string with_version(std::string bytes, uint64_t version) {
  for (const size_t block : {size_t{0}, kSecondSuperblockOffset}) {
    std::memcpy(&bytes[block + kVersionOffset], &version, sizeof version);
    const uint64_t crc = crc32c(std::string_view(bytes).substr(block, kCrcOffset));
    std::memcpy(&bytes[block + kCrcOffset], &crc, sizeof crc);
  }
  return bytes;
}

TEST_F(BadInput, PoolIsOfANewerFormat) {
  const std::string sound = testing::read_file(pool());
  ASSERT_TRUE(with_version(sound, kVersion) == sound) << "the superblock has changed: adapt this test";
  overwrite(with_version(sound, kVersion + 1));
  all_commands_refuse(kFailed, {pool(), "not supported", "version 5"});
  refuses({"check", pool_flag()}, kFailed, {"not supported", "version 5"});
  overwrite(sound);
  expect_apple_is_red();
}

TEST_F(BadInput, PoolIsOpenElsewhere) {
  Options options;
  options.background_threads = 0;  // an idle store maintains its pool, which would look like a change by the commands
  std::unique_ptr<DB> owner;
  ASSERT_TRUE(DB::Open(options, pool(), &owner).ok());
  const std::string text = run_program({"stat", pool_flag()}).err;
  const std::string owner_text = "[" + std::to_string(::getpid()) + "], started 20";
  const bool named = text.find(owner_text) != std::string::npos;  // not on every file system and in every container
  all_commands_refuse(kFailed, {"busy", pool(), named ? owner_text : "fuser -v " + pool()});
  EXPECT_EQ(text.find("fuser") == std::string::npos, named) << text;
  ASSERT_TRUE(owner->Put("banana", "yellow").ok()) << "the owner is not disturbed";
  ASSERT_TRUE(owner->Close().ok());
  EXPECT_EQ(run_program({"scan", pool_flag()}).out, "apple\tred\nbanana\tyellow\n");
}

TEST_F(BadInput, DamagedRecordsAreFoundByCheck) {
  std::string bytes = testing::read_file(pool());
  const size_t at = bytes.rfind("applered") != std::string::npos ? bytes.rfind("applered") : bytes.rfind("red");
  ASSERT_NE(at, std::string::npos) << "the value is stored as it is";
  bytes[at] ^= 1;
  overwrite(bytes);
  const ProgramResult check = run_program({"check", pool_flag()});
  EXPECT_EQ(check.exit_code, kDamaged) << check.out << check.err;
  EXPECT_NE(check.out.find("DAMAGED"), std::string::npos) << check.out;
  EXPECT_TRUE(testing::read_file(pool()) == bytes);
  const ProgramResult get = run_program({"get", pool_flag(), "apple"});
  EXPECT_EQ(get.exit_code, kDamaged) << "never an older value, never 'not found': " << get.out << get.err;
}

TEST_F(BadInput, TargetsInTheWrongOrderOrTwice) {
  const std::string a = folder_.file("t0"), b = folder_.file("t1");
  ASSERT_EQ(run_program({"create", "--pool=" + a + "," + b, "--bytes=4M"}).exit_code, 0);
  const std::string before_a = testing::read_file(a), before_b = testing::read_file(b);
  for (const std::string& wrong : {b + "," + a, a, a + "," + a, a + "," + pool()}) {
    const ProgramResult result = run_program({"put", "--pool=" + wrong, "k", "v"});
    EXPECT_NE(result.exit_code, 0) << wrong;
    EXPECT_NE(result.err, "");
  }
  EXPECT_TRUE(testing::read_file(a) == before_a);
  EXPECT_TRUE(testing::read_file(b) == before_b);
}

TEST_F(BadInput, OutputThatCannotBeWritten) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "/dev/full is not here";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{{"get", pool_flag(), "apple"},
                                                                                       {"scan", pool_flag()},
                                                                                       {"count", pool_flag()},
                                                                                       {"stat", pool_flag()},
                                                                                       {"dump", pool_flag()},
                                                                                       {"check", pool_flag()},
                                                                                       {"doctor"},
                                                                                       {"help"},
                                                                                       {"--help"},
                                                                                       {"help", "put"},
                                                                                       {"put", "--help"},
                                                                                       {"version"},
                                                                                       {"--version"}}) {
    const ProgramResult result = run_program_into("/dev/full", command);
    EXPECT_EQ(result.exit_code, kFailed) << command[0];
    EXPECT_NE(result.err.find("standard output cannot be written"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace bonsai::admin
