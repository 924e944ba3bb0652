// SPDX-License-Identifier: Apache-2.0
// The files that exist after a signal stops a command: its sources, and nothing else. Also those after a refused load.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "admin/testing/run_program.h"
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
  // Starts the program and sends it the signal after `after_ms`. Returns the exit code as in a shell; what the program
  // printed is in said().
  int stop(const std::vector<std::string>& command, int signal, int after_ms, const std::string& before = "") const {
    const std::string after = "0." + std::to_string(1000 + after_ms).substr(1);
    std::vector<std::string> words = {
        "timeout", "--preserve-status",           "-s",          std::to_string(signal), after, "sh",
        "-c",      before + "exec \"$0\" \"$@\"", BONSAI_PROGRAM};
    words.insert(words.end(), command.begin(), command.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      const int said = ::open(said_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
      if (::dup2(said, 1) < 0 || ::dup2(said, 2) < 0) ::_exit(126);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
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
      const int code = stop(command, signal, 10 + 4 * signal);
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
  const int code = stop(load, SIGHUP, 20, "trap '' HUP; ");  // as nohup does
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
  EXPECT_NE(result.err.find("1 records before are in the pool"), std::string::npos) << result.err;
  EXPECT_EQ(run_program({"count", pool_}).out, "1\n") << "a pool that was there keeps them";
}

}  // namespace
}  // namespace bonsai::admin
