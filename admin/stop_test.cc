// SPDX-License-Identifier: Apache-2.0
// The files that exist after a signal stops a command: its sources, and nothing else. Also those after a refused load.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admin/testing/run_program.h"
#include "base/child_process.h"
#include "base/testing/temp_folder.h"

namespace bonsai::admin {
namespace {

namespace fs = std::filesystem;

class Stop : public ::testing::Test {
 protected:
  static std::string dump_of(int records) {
    std::string text = "bonsai-dump 1 bytes\n";
    for (int i = 0; i < records; ++i) text += "key" + std::to_string(i) + "\t" + std::string(100, 'v') + "\n";
    return text + "end " + std::to_string(records) + "\n";
  }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  // Starts the program, sends it the signal twice after `after_ms`, and returns its exit code as in a shell once it has
  // ended, so that it holds no pool any more. What it printed is in said().
  int stop(const std::vector<std::string>& command, int signal, uint64_t after_ms) const {
    std::vector<std::string> words = {BONSAI_PROGRAM};
    words.insert(words.end(), command.begin(), command.end());
    std::unique_ptr<base::ChildProcess> child;
    EXPECT_EQ("OK", base::ChildProcess::start(words, {.out = said_}, &child).ToString());
    if (child == nullptr) return -1;
    if (const std::optional<int> code = child->wait(after_ms)) return *code;
    child->signal(signal);
    child->signal(signal);
    return child->wait(kProgramSecondsMax * 1'000).value_or(-1);
  }

  // A copy that was complete when the signal came may have its name already. `load` is the one that undoes its work.
  void expect_nothing_or_a_whole_copy(const std::string& command, const std::vector<std::string>& before) {
    if (command == "load" || !fs::exists(new_)) {
      EXPECT_EQ(files(), before) << command << said();
      return;
    }
    const ProgramResult checked = run_program({"check", "--pool=" + new_});
    EXPECT_EQ(checked.exit_code, 0) << command << ": " << checked.out << checked.err << said();
    const ProgramResult counted = run_program({"count", "--pool=" + new_});
    EXPECT_EQ(counted.out, command == "create" ? "0\n" : "60000\n") << command << ": " << counted.err << said();
    EXPECT_EQ(files().size(), before.size() + 1) << command << said();
  }

  [[nodiscard]] std::string said() const { return "; it printed: " + testing::read_file(said_); }

  testing::TempFolder folder_;
  const testing::TempFolder elsewhere_;
  const std::string said_ = elsewhere_.file("said");
  const std::string pool_ = "--pool=" + folder_.file("pool"), new_ = folder_.file("new");
};

TEST_F(Stop, NoSignalLeavesAPartOfANewPool) {
  const std::string dump = folder_.write("dump", dump_of(60'000));
  const ProgramResult loaded = run_program({"load", pool_, "--create", "--bytes=32M", dump});
  ASSERT_EQ(loaded.exit_code, 0) << loaded.err;
  const std::vector<std::string> before = files();
  int stopped = 0;
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"checkpoint", pool_, new_},
                                             {"salvage", pool_, new_},
                                             {"create", "--pool=" + new_, "--bytes=256M"},
                                             {"load", "--pool=" + new_, "--create", "--bytes=32M", dump}}) {
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGKILL}) {
      if (signal == SIGKILL && command[0] == "load") continue;  // loaded records are kept
      const int code = stop(command, signal, static_cast<uint64_t>(10 + 4 * signal));
      stopped += code != 0 ? 1 : 0;
      EXPECT_TRUE(code == 0 || code == 128 + signal) << command[0] << ", signal " << signal << ": " << code << said();
      if (code != 0) expect_nothing_or_a_whole_copy(command[0], before);
      fs::remove(new_);
    }
  }
  std::printf("%d of 19 commands were stopped\n", stopped);
  EXPECT_GT(stopped, 0);
  EXPECT_EQ(run_program({"count", pool_}).out, "60000\n");
}

TEST_F(Stop, ASignalThatIsIgnoredStaysSo) {
  const std::string dump = folder_.write("dump", dump_of(20'000));
  const std::vector<std::string> load = {"load", pool_, "--create", "--bytes=32M", dump};
  ASSERT_NE(std::signal(SIGHUP, SIG_IGN), SIG_ERR);  // inherited by the program, as from nohup
  const int code = stop(load, SIGHUP, 20);
  ASSERT_NE(std::signal(SIGHUP, SIG_DFL), SIG_ERR);
  EXPECT_EQ(code, 0) << said();
  EXPECT_EQ(run_program({"count", pool_}).out, "20000\n");
}

TEST_F(Stop, ARefusedLoadMakesNoPool) {
  const std::string numbers = "bonsai-dump 1 fixed8\n1\ta\n2\tb\nend 2\n";
  ProgramResult result = run_program({"load", pool_, "--create", "--bytes=4M", "--key=bytes"}, numbers);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("--key=fixed8"), std::string::npos) << result.err;
  EXPECT_TRUE(files().empty());
  result = run_program({"load", pool_, "--create", "--bytes=4M", "--key=fixed8"}, numbers);
  EXPECT_EQ(result.exit_code, 0) << "its advice works: " << result.err;
  fs::remove(folder_.file("pool"));
  result = run_program({"load", pool_, "--create", "--bytes=4M"}, numbers);
  EXPECT_EQ(result.exit_code, 0) << "without a flag the dump decides: " << result.err;
  EXPECT_EQ(run_program({"load", pool_, "--create"}, "bonsai-dump 1 bytes\na\tb\nend 1\n").exit_code, 2);
  EXPECT_EQ(run_program({"count", pool_}).out, "2\n");
  fs::remove(folder_.file("pool"));
  for (const char* bad : {"", "no dump", "bonsai-dump 1 words\n", "bonsai-dump 1 bytes\na\t1\n",
                          "bonsai-dump 1 bytes\na\t1\nend 2\n", "bonsai-dump 1 bytes\n\t1\nend 1\n"}) {
    result = run_program({"load", pool_, "--create", "--bytes=4M"}, bad);
    EXPECT_EQ(result.exit_code, 2) << bad;
    EXPECT_TRUE(files().empty()) << bad;
  }
  ASSERT_EQ(run_program({"create", pool_, "--bytes=4M"}).exit_code, 0);
  result = run_program({"load", pool_, "--create"}, "bonsai-dump 1 bytes\na\t1\n");
  EXPECT_NE(result.err.find("the 1 record before is in the pool"), std::string::npos) << result.err;
  EXPECT_EQ(run_program({"count", pool_}).out, "1\n") << "a pool that was there keeps them";
}

}  // namespace
}  // namespace bonsai::admin
