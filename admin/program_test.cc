// SPDX-License-Identifier: Apache-2.0
// The program as a user runs it: every command on real pools, its output and exit codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "admin/testing/run_program.h"
#include "base/testing/temp_folder.h"
#include "bonsai/db.h"
#include "bonsai/stats_fields.h"

namespace bonsai::admin {
namespace {

class Program : public ::testing::Test {
 protected:
  [[nodiscard]] std::string pool() const { return folder_.file("pool"); }
  // Runs a command on the pool.
  ProgramResult bonsai(const std::string& command, std::vector<std::string> rest = {}, const std::string& in = "") {
    rest.insert(rest.begin(), {command, "--pool=" + pool()});
    return run_program(rest, in);
  }
  void must(const std::string& command, const std::vector<std::string>& rest = {}) {
    const ProgramResult result = bonsai(command, rest);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    ASSERT_EQ(result.err, "");
  }
  void create(const std::vector<std::string>& rest = {}) {
    std::vector<std::string> all = {"--bytes=64M"};
    all.insert(all.end(), rest.begin(), rest.end());
    must("create", all);
  }

  testing::TempFolder folder_;
};

TEST_F(Program, CreateSaysWhatItMade) {
  const ProgramResult result = bonsai("create", {"--bytes=64M", "--key=fixed8"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.rfind(pool() + ": 64.0 MiB on ", 0), 0u) << result.out;
  EXPECT_NE(result.out.find("fixed8 keys"), std::string::npos) << result.out;
}

TEST_F(Program, PutGetDel) {
  create();
  must("put", {"apple", "red"});
  ProgramResult got = bonsai("get", {"apple"});
  EXPECT_EQ(got.exit_code, 0);
  EXPECT_EQ(got.out, "red\n");
  must("put", {"apple", ""});
  EXPECT_EQ(bonsai("get", {"apple"}).out, "\n");
  must("del", {"apple"});
  must("del", {"apple"});  // deleting an absent key is no error
  got = bonsai("get", {"apple"});
  EXPECT_EQ(got.exit_code, 1);
  EXPECT_EQ(got.out + got.err, "");
}

TEST_F(Program, PutMakesThePoolOnlyOnRequest) {
  EXPECT_EQ(bonsai("put", {"a", "1"}).exit_code, 3);
  EXPECT_FALSE(std::filesystem::exists(pool()));
  must("put", {"--create", "--bytes=64M", "a", "1"});
  must("put", {"--create", "b", "2"});  // and keeps the pool if it exists
  EXPECT_EQ(bonsai("scan").out, "a\t1\nb\t2\n");
}

// What only reads opens the pool read-only: no byte changes, and several may do so at once.
TEST_F(Program, ReadingNeedsNoPermissionAndChangesNoByte) {
  create();
  must("put", {"apple", "red"});
  std::filesystem::permissions(pool(), std::filesystem::perms::owner_read);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const std::string before = testing::read_file(pool());
  const auto written = std::filesystem::last_write_time(pool());
  std::unique_ptr<DB> reader;
  Options reading;
  reading.read_only = true;
  ASSERT_TRUE(DB::Open(reading, pool(), &reader).ok());
  EXPECT_EQ(bonsai("get", {"apple"}).out, "red\n");
  EXPECT_EQ(bonsai("exists", {"apple"}).exit_code, 0);
  EXPECT_EQ(bonsai("scan").out, "apple\tred\n");
  EXPECT_EQ(bonsai("count").out, "1\n");
  EXPECT_EQ(bonsai("dump").out, "bonsai-dump 1 bytes\napple\tred\nend 1\n");
  EXPECT_NE(bonsai("stat").out.find(", read-only\n"), std::string::npos);
  const testing::TempFolder other;
  EXPECT_EQ(bonsai("checkpoint", {other.file("copy")}).exit_code, 0);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(testing::read_file(pool()) == before && std::filesystem::last_write_time(pool()) == written);
  std::filesystem::permissions(pool(), std::filesystem::perms::owner_all);
  const ProgramResult put = bonsai("put", {"pear", "green"});
  EXPECT_EQ(put.exit_code, 3);
  EXPECT_NE(put.err.find("which only reads it"), std::string::npos) << put.err;
  reader.reset();
  must("put", {"pear", "green"});
  std::unique_ptr<DB> owner;
  ASSERT_TRUE(DB::Open(Options(), pool(), &owner).ok());
  const ProgramResult got = bonsai("get", {"apple"});
  EXPECT_EQ(got.exit_code, 3);
  EXPECT_NE(got.err.find("is open in another process, "), std::string::npos) << got.err;
}

// Those that cannot be opened read-only are opened as for updates.
TEST_F(Program, StripedPoolsAreReadToo) {
  const std::string both = "--pool=" + folder_.file("a") + "," + folder_.file("b");
  ASSERT_EQ(run_program({"create", both, "--bytes=16M", "--layout=software"}).exit_code, 0);
  ASSERT_EQ(run_program({"put", both, "apple", "red"}).exit_code, 0);
  EXPECT_EQ(run_program({"get", both, "apple"}).out, "red\n");
  EXPECT_EQ(run_program({"get", both, "pear"}).exit_code, 1);
}

TEST_F(Program, ConditionsDecideAndTellByTheExitCode) {
  create();
  must("put", {"--if-absent", "lock", "me"});
  EXPECT_EQ(bonsai("put", {"--if-absent", "lock", "you"}).exit_code, 1);
  EXPECT_EQ(bonsai("put", {"--if-present", "none", "x"}).exit_code, 1);
  must("put", {"--if-equals=me", "lock", "you"});
  EXPECT_EQ(bonsai("del", {"--if-equals=me", "lock"}).exit_code, 1);
  EXPECT_EQ(bonsai("del", {"--if-equals=me", "lock"}).err, "");
  EXPECT_EQ(bonsai("put", {"--if-equals=", "lock", "them"}).exit_code, 1) << "a value of no bytes is a condition";
  must("put", {"--if-present", "--hex", "6c6f636b", "00ff"});
  must("put", {"--if-equals=00FF", "--hex", "6c6f636b", "31"});
  EXPECT_EQ(bonsai("scan").out, "lock\t1\n");
  must("del", {"--if-equals=1", "lock"});
  EXPECT_EQ(bonsai("put", {"--if-absent", "--if-present", "a", "b"}).exit_code, 2);
  EXPECT_EQ(bonsai("scan").out, "");
}

TEST_F(Program, IncrementPrintsTheSum) {
  create();
  EXPECT_EQ(bonsai("increment", {"hits"}).out, "1\n");
  EXPECT_EQ(bonsai("increment", {"hits", "41"}).out, "42\n");
  EXPECT_EQ(bonsai("increment", {"hits", "--", "-50"}).out, "-8\n");
  EXPECT_EQ(bonsai("increment", {"hits", "many"}).exit_code, 2);
  EXPECT_EQ(bonsai("increment", {"hits", "9223372036854775808"}).exit_code, 2);
  must("put", {"hits", "red"});
  EXPECT_EQ(bonsai("increment", {"hits"}).exit_code, 2);
  EXPECT_EQ(bonsai("get", {"hits"}).out, "red\n");
}

TEST_F(Program, ValuesComeFromFilesAndStandardInput) {
  create();
  const std::string value("line\n\0\xff", 7);
  const ProgramResult put = bonsai("put", {"k", "--value-file=-"}, value);
  ASSERT_EQ(put.exit_code, 0) << put.err;
  EXPECT_EQ(bonsai("get", {"k"}).out, value + "\n");
  must("put", {"f", "--value_file", folder_.write("value", "from a file")});
  EXPECT_EQ(bonsai("get", {"f"}).out, "from a file\n");
}

TEST_F(Program, LargestKeyAndValueGoThrough) {
  create();
  const std::string key(1024, 'k'), value(kValueBytesMax, 'v');
  const ProgramResult put = bonsai("put", {key, "--value_file=-"}, value);
  ASSERT_EQ(put.exit_code, 0) << put.err;
  EXPECT_TRUE(bonsai("get", {key}).out == value + "\n");
}

TEST_F(Program, HexTakesAnyBytes) {
  create();
  must("put", {"--hex", "00ff", "0a0d"});
  EXPECT_EQ(bonsai("get", {"--hex", "00FF"}).out, "0a0d\n");
  EXPECT_EQ(bonsai("scan").out, "\\x00\\xff\t\\n\\r\n");
  EXPECT_EQ(bonsai("scan", {"--hex"}).out, "00ff\t0a0d\n");
  must("del", {"--hex", "00ff"});
  EXPECT_EQ(bonsai("scan").out, "");
}

TEST_F(Program, ScanKeepsItsBounds) {
  create();
  for (const char* key : {"d", "b", "a", "c"}) must("put", {key, std::string("v") + key});
  EXPECT_EQ(bonsai("scan").out, "a\tva\nb\tvb\nc\tvc\nd\tvd\n");
  EXPECT_EQ(bonsai("scan", {"--from=b", "--end=d"}).out, "b\tvb\nc\tvc\n");
  EXPECT_EQ(bonsai("scan", {"--from=bb", "--limit=1"}).out, "c\tvc\n");
  EXPECT_EQ(bonsai("scan", {"--limit=0"}).out, "");
  EXPECT_EQ(bonsai("scan", {"--after=b"}).out, "c\tvc\nd\tvd\n");
  EXPECT_EQ(bonsai("scan", {"--after=bb", "--limit=1"}).out, "c\tvc\n");
  EXPECT_EQ(bonsai("scan", {"--after=b", "--from=b"}).exit_code, 2);
  EXPECT_EQ(bonsai("count").out, "4\n");
  EXPECT_EQ(bonsai("count", {"--from=b", "--end=d"}).out, "2\n");
  EXPECT_EQ(bonsai("count", {"--after=b", "--limit=9"}).out, "2\n");
}

TEST_F(Program, DeleteRangeDeletesWhatScanPrints) {
  create();
  for (const char* key : {"d", "b", "a", "c"}) must("put", {key, "v"});
  const ProgramResult unnamed = bonsai("delete-range");
  EXPECT_EQ(unnamed.exit_code, 2);
  EXPECT_NE(unnamed.err.find("give --from or --after, and --end; all records: --from="), std::string::npos);
  EXPECT_EQ(bonsai("delete-range", {"--from=b", "--after=b"}).exit_code, 2);
  EXPECT_EQ(bonsai("delete-range", {"--from=x"}).out, "0\n");
  EXPECT_EQ(bonsai("delete-range", {"--after=a", "--end=d"}).out, "2\n");
  EXPECT_EQ(bonsai("scan").out, "a\tv\nd\tv\n");
  EXPECT_EQ(bonsai("delete-range", {"--from=", "--limit=1"}).out, "1\n");
  EXPECT_EQ(bonsai("delete-range", {"--from="}).out, "1\n");
  EXPECT_EQ(bonsai("count").out, "0\n");
}

TEST_F(Program, ExistsAnswersByItsExitCode) {
  create();
  must("put", {"apple", "red"});
  must("exists", {"apple"});
  const ProgramResult result = bonsai("exists", {"pear"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out + result.err, "");
}

TEST_F(Program, Fixed8KeysAreDecimalNumbers) {
  create({"--key=fixed8"});
  for (const char* key : {"300", "2", "18446744073709551615", "0"}) must("put", {key, "v"});
  EXPECT_EQ(bonsai("scan").out, "0\tv\n2\tv\n300\tv\n18446744073709551615\tv\n");
  EXPECT_EQ(bonsai("scan", {"--from=1", "--end=1000"}).out, "2\tv\n300\tv\n");
  EXPECT_EQ(bonsai("get", {"300"}).out, "v\n");
  EXPECT_EQ(bonsai("get", {"--hex", "000000000000012c"}).out, "76\n");
  EXPECT_EQ(bonsai("get", {"301"}).exit_code, 1);
}

TEST_F(Program, BufferedPutsAreThereWhenItReturns) {
  create();
  must("put", {"--durability=buffered", "a", "1"});
  EXPECT_EQ(bonsai("get", {"a"}).out, "1\n");
}

TEST_F(Program, PoolsMayHaveSeveralTargets) {
  const std::string two = "--pool=" + folder_.file("t0") + "," + folder_.file("t1");
  ASSERT_EQ(run_program({"create", two, "--bytes=32M"}).exit_code, 0);
  ASSERT_EQ(run_program({"put", two, "a", "1"}).exit_code, 0);
  EXPECT_EQ(run_program({"get", two, "a"}).out, "1\n");
  EXPECT_EQ(run_program({"check", two}).exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(run_program({"stat", two, "--json"}).out)["targets"], 2);
}

TEST_F(Program, PoolsMayBeStriped) {
  const std::string two = "--pool=" + folder_.file("t0") + "," + folder_.file("t1");
  EXPECT_EQ(run_program({"create", two, "--bytes=16M", "--layout=both"}).exit_code, 2);
  EXPECT_EQ(run_program({"create", two, "--bytes=16M", "--layout=software", "--unit=12K"}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("t0")));
  ASSERT_EQ(run_program({"create", two, "--bytes=16M", "--layout=software", "--unit=8K"}).exit_code, 0);
  ASSERT_EQ(run_program({"put", two, "a", "1"}).exit_code, 0);
  EXPECT_EQ(run_program({"get", two, "a"}).out, "1\n");
  EXPECT_NE(run_program({"stat", two}).out.find("software, units of 8.0 KiB"), std::string::npos);
  const auto json = nlohmann::json::parse(run_program({"stat", two, "--json"}).out);
  EXPECT_EQ(json["layout"], "software");
  EXPECT_EQ(json["stripe_unit_bytes"], 8192);
  EXPECT_EQ(run_program({"check", two}).exit_code, 0);
}

TEST_F(Program, RemoveTakesAPoolAndNothingElse) {
  create();
  const std::string other = folder_.write("other", std::string(1 << 16, 'x'));
  const ProgramResult refused = run_program({"remove", "--pool=" + other});
  EXPECT_EQ(refused.exit_code, 3) << refused.err;
  EXPECT_TRUE(std::filesystem::exists(other));
  EXPECT_EQ(bonsai("remove").out, pool() + ": removed\n");
  EXPECT_FALSE(std::filesystem::exists(pool()));
  EXPECT_EQ(bonsai("remove").exit_code, 3);
}

TEST_F(Program, StatTellsPeopleAndPrograms) {
  create();
  must("put", {"a", "1"});
  const ProgramResult table = bonsai("stat");
  EXPECT_EQ(table.exit_code, 0) << table.err;
  for (const char* word : {"medium", "log", "data", "DRAM", "dnodes", "64.0 MiB"}) {
    EXPECT_NE(table.out.find(word), std::string::npos) << word << " in\n" << table.out;
  }
  const auto json = nlohmann::json::parse(bonsai("stat", {"--json"}).out);
  for (const StatsField& field : kStatsFields) EXPECT_TRUE(json.contains(field.name)) << field.name;
  EXPECT_EQ(json["key_format"], "bytes");
  EXPECT_EQ(json["pool_bytes"], 64 << 20);
}

TEST_F(Program, CheckPassesASoundPoolAndChangesNothing) {
  create();
  must("put", {"a", "1"});
  const std::string before = testing::read_file(pool());
  const ProgramResult table = bonsai("check");
  EXPECT_EQ(table.exit_code, 0) << table.out << table.err;
  EXPECT_NE(table.out.find("nothing is damaged"), std::string::npos);
  EXPECT_EQ(table.err, "") << "progress is for terminals";
  const auto json = nlohmann::json::parse(bonsai("check", {"--json"}).out);
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["clean"], true);
  EXPECT_TRUE(json["damages"].empty());
  EXPECT_TRUE(testing::read_file(pool()) == before);
}

TEST_F(Program, CheckSaysWhatOpeningWillRepair) {
  create();
  must("put", {"a", "1"});
  std::string bytes = testing::read_file(pool());
  std::fill_n(bytes.begin(), 4096, '\0');
  std::ofstream(pool(), std::ios::binary) << bytes;
  const ProgramResult table = bonsai("check");
  EXPECT_EQ(table.exit_code, 0) << "no key is affected: " << table.err;
  EXPECT_EQ(table.out.find("nothing is damaged"), std::string::npos) << table.out;
  for (const char* text :
       {"first superblock at target 0", "opening the pool for updates repairs it", "no key is affected"}) {
    EXPECT_NE(table.out.find(text), std::string::npos) << text << " in\n" << table.out;
  }
  const auto json = nlohmann::json::parse(bonsai("check", {"--json"}).out);
  EXPECT_EQ(json["ok"], true);
  ASSERT_EQ(json["repairs"].size(), 1U);
  EXPECT_EQ(bonsai("get", {"a"}).out, "1\n");
  EXPECT_EQ(bonsai("check").out, table.out) << "what only reads repairs nothing";
  must("put", {"a", "2"});
  EXPECT_NE(bonsai("check").out.find("nothing is damaged"), std::string::npos);
}

TEST_F(Program, DoctorTellsPeopleAndPrograms) {
  const ProgramResult table = run_program({"doctor"});
  EXPECT_EQ(table.err, "");
  for (const char* name : {"flush instruction", "/dev/shm", "rdma_rxe", "energy counters", "memlock"}) {
    EXPECT_NE(table.out.find(name), std::string::npos) << name;
  }
  const auto json = nlohmann::json::parse(run_program({"doctor", "--json"}).out);
  EXPECT_EQ(table.exit_code, json["can_run"] == true ? 0 : 3);
  EXPECT_EQ(json["findings"].size(), 15u);
}

TEST_F(Program, DoctorLooksAtAnotherRoot) {
  folder_.write("proc/sys/kernel/osrelease", "1.2.3-fake\n");
  const ProgramResult result = run_program({"doctor", "--root=" + folder_.path()});
  EXPECT_EQ(result.exit_code, 3) << "no place for a pool";
  EXPECT_NE(result.out.find("/lib/modules/1.2.3-fake is missing"), std::string::npos) << result.out;
}

TEST_F(Program, ScrubNeedsNoGroups) {
  ASSERT_EQ(run_program({"create", "--pool=" + folder_.file("p"), "--bytes=1M"}).exit_code, 0);
  const ProgramResult result = run_program({"scrub", "--pool=" + folder_.file("p")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("nothing to compare"), std::string::npos) << result.out;
}

TEST_F(Program, HelpIsSelfWrittenEverywhere) {
  const ProgramResult help = run_program({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.out, run_program({"help"}).out);
  for (const char* name :
       {"create", "put",   "get",        "exists",  "del",    "scan", "count", "delete-range", "stat", "groups",
        "scrub",  "check", "checkpoint", "salvage", "remove", "grow", "dump",  "load",         "plan", "doctor"}) {
    EXPECT_NE(help.out.find(std::string("\n  ") + name + " "), std::string::npos) << name;
    const ProgramResult one = run_program({name, "--help"});
    EXPECT_EQ(one.exit_code, 0) << name;
    EXPECT_EQ(one.out, run_program({"help", name}).out);
    EXPECT_EQ(one.out.rfind(std::string("bonsai ") + name + ": ", 0), 0u);
    EXPECT_NE(one.out.find(std::string("\n  bonsai ") + name), std::string::npos) << "an example";
    EXPECT_EQ(one.out.find("gflags"), std::string::npos);
  }
}

TEST_F(Program, VersionIsTheProjects) {
  EXPECT_EQ(run_program({"--version"}).out, "bonsai " BONSAI_PROJECT_VERSION "\n");
  EXPECT_EQ(run_program({"version"}).out, "bonsai " BONSAI_PROJECT_VERSION "\n");
}

}  // namespace
}  // namespace bonsai::admin
