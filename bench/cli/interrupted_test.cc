// SPDX-License-Identifier: Apache-2.0
// The program is stopped amid its work, by Ctrl-C and by a kill. The measurements made so far are on disk and can be
// read; after Ctrl-C the pools are gone.
#include "bench/cli/testing/interrupted.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A load that ends soon, and a workload that would take a day.
const std::vector<std::string> kDay = {"run",         "--engines=bonsai", "--workloads=load,c", "--records=2000",
                                       "--threads=1", "--target=1000",    "--seconds=86400"};

TEST_F(Interrupted, BySignalARunKeepsWhatItMeasuredAndLeavesNoPool) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    fs::remove_all(file("out"));
    begin(kDay);
    ASSERT_TRUE(until([this] { return runs() == 1; })) << log();
    EXPECT_EQ(stop(signal), 130) << log();
    EXPECT_EQ(left_behind(), "");
    const json results = json_of("out/results.json");
    ASSERT_TRUE(results.is_object());
    ASSERT_GE(results.at("runs").size(), 1U);
    EXPECT_EQ(results["runs"][0]["complete"], true);
    if (results.at("runs").size() == 1) continue;  // the workload had not begun
    EXPECT_EQ(results["runs"][1]["complete"], false) << "a part of a workload says that it is one";
    EXPECT_EQ(results["runs"][1]["failures"], 0);
    for (const char* name : {"out/report.html", "out/results.csv", "out/hdr", "out/ycsb/bonsai-load.txt"}) {
      EXPECT_TRUE(fs::exists(file(name))) << name;
    }
    EXPECT_NE(log().find("results: "), std::string::npos) << log();
  }
}

TEST_F(Interrupted, ByAKillARunHasWrittenWhatItMeasured) {
  begin(kDay);
  ASSERT_TRUE(until([this] { return runs() == 1; })) << log();
  EXPECT_EQ(stop(SIGKILL), 128 + SIGKILL);
  const json results = json_of("out/results.json");
  ASSERT_TRUE(results.is_object()) << "a file is written whole or not at all";
  EXPECT_EQ(results["runs"][0]["operations"], 2000);
}

// Process ids of the program's children.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (!std::isdigit(entry.path().filename().string()[0])) continue;
    std::ifstream in(entry.path() / "stat");
    std::string text;
    std::getline(in, text);
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream rest(text.substr(name_end + 1));
    char state = 0;
    pid_t its_parent = 0;
    if (rest >> state >> its_parent && its_parent == parent) children.push_back(std::stoi(text));
  }
  return children;
}

TEST_F(Interrupted, AnEngineThatCrashesTakesNoOthersResults) {
  begin({"run", "--engines=std_map,bonsai,unordered_map", "--workloads=load,c", "--records=2000", "--threads=1",
         "--target=1000", "--seconds=2", "--repeat=1"});
  ASSERT_TRUE(until([this] { return runs() == 3; })) << log();  // it measures bonsai's c
  const std::vector<pid_t> children = children_of(child_->pid());
  ASSERT_EQ(children.size(), 1U) << log();
  ASSERT_EQ(::kill(children[0], SIGSEGV), 0);
  EXPECT_EQ(wait_for_end(), 1) << log();
  EXPECT_NE(log().find("engine bonsai: unavailable: its process ended by SIGSEGV"), std::string::npos) << log();
  const json results = json_of("out/results.json");
  ASSERT_EQ(results.at("runs").size(), 5U) << log();
  for (const auto& run : results["runs"]) EXPECT_EQ(run["failures"], 0);
  EXPECT_EQ(results["runs"][4]["engine"], "unordered_map");
  EXPECT_EQ(results["errors"][0]["engine"], "bonsai");
  EXPECT_TRUE(fs::exists(file("out/results.csv")));
  EXPECT_EQ(left_behind(), "");
}

// The program and the child that runs its engine are killed after the load, so that nobody removes the pool.
class Killed : public Interrupted {
 protected:
  void kill_both() {
    ASSERT_TRUE(until([this] { return runs() == 1; })) << log();
    const std::vector<pid_t> children = children_of(child_->pid());
    ASSERT_EQ(children.size(), 1U);
    child_->signal(SIGSTOP);  // so that it does not see the end of its child
    ASSERT_EQ(::kill(children[0], SIGKILL), 0);
    EXPECT_EQ(stop(SIGKILL), 128 + SIGKILL);
  }
};

// When the program itself is killed its child removes its pool; when both are, the next run does.
TEST_F(Killed, NoPoolOutlivesTheNextRun) {
  begin(kDay);
  ASSERT_NO_FATAL_FAILURE(kill_both());
  EXPECT_NE(left_behind(), "");
  begin({"run", "--engines=dummy", "--workloads=load", "--records=100"});
  EXPECT_EQ(wait_for_end(), 0) << log();
  EXPECT_NE(log().find("which a run that was killed had left"), std::string::npos) << log();
  EXPECT_EQ(left_behind(), "");
}

// On a node the next run names what is left, and the command that removes it.
TEST_F(Killed, ThePoolsThatAreLeftOnANodeAreNamed) {
  const char* daemon = std::getenv("BONSAID");
  ASSERT_NE(daemon, nullptr) << "set BONSAID to the program";
  const std::string address = "shm://bench-left-" + std::to_string(::getpid());
  std::unique_ptr<base::ChildProcess> node;
  const std::vector<std::string> serve = {daemon, "--folder=" + file("pools"), "--listen=" + address, "--domain=adr"};
  ASSERT_EQ("OK", base::ChildProcess::start(serve, {.out = file("node")}, &node).ToString());
  for (base::BoundedWait wait("node.ready", kWaitMsMax); text_of("node").find("ready") == std::string::npos;
       wait.pause()) {
    ASSERT_FALSE(wait.expired() || node->ended()) << text_of("node");
  }
  std::vector<std::string> day = kDay;
  day.insert(day.end(), {"--out=" + file("out"), "--pool-dir=" + address});
  start(day);
  ASSERT_NO_FATAL_FAILURE(kill_both());
  start({"load", "dummy", "--records=100", "--out=" + file("out"), "--pool-dir=" + address});
  EXPECT_EQ(wait_for_end(), 0) << log();
  EXPECT_NE(log().find("bonsai remove --pool=" + address + "/bonsai-bench-"), std::string::npos) << log();
}

TEST_F(Interrupted, UnderNohupAHangUpIsNoReasonToEnd) {
  const auto before = ::signal(SIGHUP, SIG_IGN);
  begin(kDay);
  ::signal(SIGHUP, before);
  ASSERT_TRUE(until([this] { return runs() == 1; })) << log();
  child_->signal(SIGHUP);
  EXPECT_FALSE(children_of(child_->pid()).empty());
  EXPECT_EQ(stop(SIGTERM), 130) << log();
}

TEST_F(Interrupted, ACommandLineThatIsRefusedTouchesNothing) {
  expect_untouched({{"run", "--engines=none"}, {"run", "--workloads=none"}, {"run", "--records=0"}, {"none"}});
}

}  // namespace
}  // namespace bonsai::bench
