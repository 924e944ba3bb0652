// SPDX-License-Identifier: Apache-2.0
// The programs' main commands in hosts that are hostile to them: an exit code and a message, no signal, nothing lost.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/check.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "bonsai/db.h"
#include "testing/hostile.h"

namespace bonsai {
namespace {

using testing::Hostility;
using testing::TempFolder;

constexpr int kRecords = 300;

struct Ran {
  int exit = -1;  // 128 + the signal that ended it
  std::string out, err;
};

// Starts a program in a child in which `hostility` was imposed.
pid_t start(const std::vector<std::string>& words, const Hostility& hostility, const TempFolder& outputs) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string out = outputs.file("out"), err = outputs.file("err");
  const pid_t child = ::fork();
  BONSAI_CHECK(child >= 0);
  if (child != 0) return child;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
  const int in_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int out_fd = ::open(out.c_str(), kFlags | O_CLOEXEC, 0666),
            err_fd = ::open(err.c_str(), kFlags | O_CLOEXEC, 0666);
  if (::dup2(in_fd, 0) < 0 || ::dup2(out_fd, 1) < 0 || ::dup2(err_fd, 2) < 0) ::_exit(126);
  ::alarm(60);
  if (!hostility.impose()) ::_exit(125);
  ::execv(arguments[0], arguments.data());
  ::_exit(124);
}

int exit_of(pid_t child) {
  int status = 0;
  BONSAI_CHECK(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

const Hostility kFriendly = {"nothing", [] { return true; }};

Ran run(const std::vector<std::string>& words, const Hostility& hostility = kFriendly) {
  const TempFolder outputs;
  Ran ran;
  ran.exit = exit_of(start(words, hostility, outputs));
  ran.out = testing::read_file(outputs.file("out"));
  ran.err = testing::read_file(outputs.file("err"));
  return ran;
}

// The limits that a program inherits; a part of them, as the budget grants.
std::vector<Hostility> some_limits() {
  std::vector<Hostility> some;
  size_t number = 0;
  for (const Hostility& each : testing::tight_limits()) {
    if (each.name.find("granted") == std::string::npos && number++ % testing::budget<size_t>(3, 2, 1) == 0) {
      some.push_back(each);
    }
  }
  return some;
}

class HostilePrograms : public ::testing::Test {
 protected:
  ~HostilePrograms() override { testing::add_figure("hostile_hosts", calls_); }

  [[nodiscard]] std::string pool() const { return folder_->file("pool"); }

  void SetUp() override {
    if (*BONSAI_PROGRAM == '\0') GTEST_SKIP() << "this build has no programs (BONSAI_PROGRAMS)";
  }

  void prepare() {
    folder_ = std::make_unique<TempFolder>();
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = uint64_t{4} << 20;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options, pool(), &db).ok());
    for (int i = 0; i < kRecords; ++i) ASSERT_TRUE(db->Put("key " + std::to_string(i), "value").ok());
    ASSERT_TRUE(db->Close().ok());
    std::filesystem::permissions(folder_->path(), std::filesystem::perms::all);
    std::filesystem::permissions(pool(), std::filesystem::perms(0666));
  }

  // Each of the commands of bonsai; of which the ones that print nothing are marked.
  [[nodiscard]] std::vector<std::vector<std::string>> commands() const {
    const std::string at = "--pool=" + pool();
    return {{"get", at, "key 7"},
            {"scan", at},
            {"count", at},
            {"exists", at, "key 7"},
            {"stat", at},
            {"check", at},
            {"put", at, "new", "value"},
            {"del", at, "new"},
            {"checkpoint", at, folder_->file("copy")},
            {"salvage", at, folder_->file("salvaged")},
            {"create", "--pool=" + folder_->file("made"), "--bytes=1M"},
            {"remove", "--pool=" + folder_->file("made")}};
  }

  void judge() {
    CheckReport report;
    const Status status = Check(pool(), &report);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(report.ok());
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(Options(), pool(), &db).ok());
    std::string value;
    for (int i = 0; i < kRecords; ++i)
      EXPECT_TRUE(db->Get("key " + std::to_string(i), &value).ok() && value == "value");
    EXPECT_TRUE(db->Close().ok());
    for (const auto& entry : std::filesystem::directory_iterator(folder_->path())) {
      EXPECT_NE(entry.path().extension(), ".partial") << "was left";
    }
  }

  // `heard`: whether the printed text arrives somewhere.
  void run_all(const Hostility& hostility, bool out_open, bool err_open) {
    SCOPED_TRACE(hostility.name);
    prepare();
    for (const std::vector<std::string>& command : commands()) {
      std::vector<std::string> words = {BONSAI_PROGRAM};
      words.insert(words.end(), command.begin(), command.end());
      const Ran ran = run(words, hostility);
      if (ran.exit == 125) return;
      ++calls_;
      EXPECT_LT(ran.exit, 128) << command[0] << " was ended by a signal: " << ran.err;
      if (ran.exit == 127 && ran.err.find("shared librar") != std::string::npos) continue;  // it did not begin
      EXPECT_NE(ran.exit, 4) << command[0] << " cries damage: " << ran.err;
      if (ran.exit != 0 && err_open) {
        EXPECT_NE(ran.err, "") << command[0];
      }
      if (!out_open && prints(command[0])) {
        EXPECT_NE(ran.exit, 0) << command[0] << " printed to nobody";
      }
      if (out_open && ran.exit == 0 && prints(command[0])) {
        EXPECT_NE(ran.out, "") << command[0];
      }
    }
    judge();
  }
  static bool prints(const std::string& command) {
    return command == "get" || command == "scan" || command == "count" || command == "stat" || command == "check";
  }

  std::unique_ptr<TempFolder> folder_;
  uint64_t calls_ = 0;
};

TEST_F(HostilePrograms, BonsaiWithoutStandardDescriptors) {
  for (const Hostility& each : testing::closed_descriptors()) {
    run_all(each, each.name.find('1') == std::string::npos, each.name.find('2') == std::string::npos);
  }
}

TEST_F(HostilePrograms, BonsaiWithTightLimits) {
  for (const Hostility& each : some_limits()) {
    const bool heard = each.name.find("of a file limited to 0") == std::string::npos;  // what is printed goes to files
    run_all(each, heard, heard);
  }
}

TEST_F(HostilePrograms, HelpAndVersionReportThatNobodyCouldReadThem) {
  for (const Hostility& each : testing::closed_descriptors()) {
    if (each.name.find('1') == std::string::npos) continue;
    for (const char* program : {BONSAI_PROGRAM, BONSAID_PROGRAM, BENCH_PROGRAM}) {
      if (*program == '\0') continue;
      EXPECT_NE(run({program, "--help"}, each).exit, 0) << program << ", " << each.name;
      ++calls_;
    }
  }
}

TEST_F(HostilePrograms, TheMemoryNodeServesOrSaysWhyNot) {
  std::vector<Hostility> all = testing::closed_descriptors();
  for (const Hostility& each : some_limits()) all.push_back(each);
  for (const Hostility& each : all) {
    SCOPED_TRACE(each.name);
    const TempFolder outputs;
    prepare();
    ::setenv("BONSAI_SHM_FOLDER", folder_->path().c_str(), 1);
    std::filesystem::permissions(folder_->path(), std::filesystem::perms(0700));
    const pid_t node =
        start({BONSAID_PROGRAM, "--folder=" + folder_->path(), "--listen=shm://node", "--domain=adr", "--litmus_ms=5"},
              each, outputs);
    int exit = -1;
    for (base::BoundedWait wait("node", 5'000); !std::filesystem::exists(folder_->file("node")); wait.pause()) {
      int status = 0;
      if (::waitpid(node, &status, WNOHANG) == node)
        exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (exit >= 0 || wait.expired()) break;
    }
    if (exit < 0) {
      const Ran got = run({BONSAI_PROGRAM, "get", "--pool=shm://node/pool", "key 7"});
      EXPECT_TRUE(got.exit == 3 || got.out == "value\n") << got.exit << got.out << got.err;
      ::kill(node, SIGTERM);
      exit = exit_of(node);
    }
    ++calls_;
    EXPECT_LT(exit, 128) << testing::read_file(outputs.file("err"));
    judge();
  }
  ::unsetenv("BONSAI_SHM_FOLDER");
}

// The reader of the program's log leaves.
TEST_F(HostilePrograms, TheMemoryNodeOutlivesTheReaderOfItsLog) {
  const TempFolder outputs;
  prepare();
  ::setenv("BONSAI_SHM_FOLDER", outputs.path().c_str(), 1);
  const Hostility no_reader = {"a pipe without a reader", [] {
                                 int ends[2];
                                 return ::pipe(ends) == 0 && ::dup2(ends[1], 2) == 2 && ::close(ends[0]) == 0;
                               }};
  const pid_t node = start({BONSAID_PROGRAM, "--folder=" + folder_->path(), "--listen=shm://node", "--domain=adr"},
                           no_reader, outputs);
  Ran got;
  for (base::BoundedWait wait("node", 10'000); got.exit != 0 && !wait.expired(); wait.pause()) {
    got = run({BONSAI_PROGRAM, "get", "--pool=shm://node/pool", "key 7"});
  }
  EXPECT_EQ(got.out, "value\n") << got.err;
  ::kill(node, SIGTERM);
  EXPECT_EQ(exit_of(node), 0);
  ::unsetenv("BONSAI_SHM_FOLDER");
}

TEST_F(HostilePrograms, TheBenchmarkReportsWhatItWasRefused) {
  if (*BENCH_PROGRAM == '\0') GTEST_SKIP() << "there is no benchmark in this build";
  prepare();
  for (const Hostility& each : testing::tight_limits()) {
    if (each.name.find("process") == std::string::npos && each.name.find("descriptors") == std::string::npos) continue;
    SCOPED_TRACE(each.name);
    const Ran ran = run({BENCH_PROGRAM, "run", "--engines=bonsai", "--records=1000", "--operations=1000", "--threads=2",
                         "--workloads=load,c", "--pool_dir=" + folder_->path()},
                        each);
    if (ran.exit == 125) continue;
    ++calls_;
    if (ran.exit == 127) continue;  // the loader found no descriptor
    EXPECT_LT(ran.exit, 124) << ran.err;
    if (ran.exit != 0) {
      EXPECT_NE(ran.err + ran.out, "");
    }
  }
}

}  // namespace
}  // namespace bonsai
