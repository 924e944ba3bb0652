// SPDX-License-Identifier: Apache-2.0
// The program as a person meets it: what it says, which files it writes, and its exit codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "bench/cli/testing/program.h"

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;

using Cli = Program;

TEST_P(BadCommandLines, ExitWithTwoAndTheRemedyAndLeaveNothing) { expect_refusal(); }

INSTANTIATE_TEST_SUITE_P(
    Lines, BadCommandLines,
    ::testing::Values(
        BadLine{"", "no command", "the commands are run, load, report"},
        BadLine{"walk", "unknown command 'walk'", "the commands are run, load, report"},
        BadLine{"help walk", "unknown command 'walk'", "the commands are run, load, report"},
        BadLine{"run --seconds=2 --workloads=d", "inserts", "--target or --operations"},
        BadLine{"run --hash=md5", "--hash=md5 is unknown", "default or city"},
        BadLine{"report --out=.", "no results in .", "run something with --out=."},
        BadLine{"run --recrods=5", "unknown flag '--recrods=5'", "--records"},
        BadLine{"run --flagfile=x", "unknown flag '--flagfile=x'", "--records"},
        BadLine{"run --records=0", "--records=0", "give 1 to"},
        BadLine{"run --records=many", "--records=many", "number"},
        BadLine{"run --records=-5", "--records=-5", "number"},
        BadLine{"run --operations=0", "--operations=0", "give 1"},
        BadLine{"run --records=99999999999999999999999", "no value", "whole number"},
        BadLine{"run --threads=5000", "--threads=5000", "give 0 to 1024"},
        BadLine{"run --depth=0", "--depth=0", "give 1 to"}, BadLine{"run --records", "--records", "for example"},
        BadLine{"run 5", "unknown engine '5'", "absl_btree"}, BadLine{"run dummy 5", "'5' is no flag", "--name=value"},
        BadLine{"run dummy --engines=bonsai", "both name engines", "one of them"},
        BadLine{"run --", "'--' is no flag", "--name=value"},
        BadLine{"run --engines=rocksdbb", "unknown engine 'rocksdbb'", "absl_btree"},
        BadLine{"run --workloads=z", "unknown workload 'z'", "load a b c d e f"},
        BadLine{"run --workloads=,", "--workloads is empty", "for example"},
        BadLine{"run --workloads=./none", "cannot open ./none", "check the path"},
        BadLine{"run --key=int", "--key=int", "fixed8 or string"},
        BadLine{"run --value-bytes=-1", "--value-bytes=-1", "or 'file'"},
        BadLine{"run --value-bytes=99999999", "--value-bytes=99999999", "give 0 to"},
        BadLine{"run --durability=maybe", "--durability=maybe", "durable or buffered"},
        BadLine{"run --draw=late", "--draw=late", "ahead or live"},
        BadLine{"run --latency=some", "--latency=some", "sampled or all"},
        BadLine{"run --pin=maybe", "-pin=maybe", "true or false"},
        BadLine{"run --target=-1", "--target=-1", "whole number"}, BadLine{"run -target", "--target", "for example"},
        BadLine{"run --repeat=0", "--repeat=0", "give 1 to"},
        BadLine{"run --warmup=99999999999", "--warmup", "give 0 to"},
        BadLine{"run --operations=9000000000", "MiB", "--draw=live"},
        BadLine{"run --draw=live --record=x", "--record", "--draw=ahead"}, BadLine{"run -P", "-P needs", "-P FILE"},
        BadLine{"run -P none", "cannot open none", "check the path"}, BadLine{"run -p", "-p needs", "name=value"},
        BadLine{"run -p recordcount", "-p: 'recordcount'", "name=value"},
        BadLine{"run -p recordcount=0", "-p: recordcount=0", "from 1 to"},
        BadLine{"run -p threadcount=x", "-p: threadcount=x", "from 0 to 1024"},
        BadLine{"run -p readpropotion=1", "-p: unknown", "spelling"},
        BadLine{"run --workloads=./none.trace", "cannot open", "check the path"},
        BadLine{"run --out=/proc/none --engines=dummy", "cannot make /proc/none", "--out"},
        BadLine{"run --out=", "--out is empty", "directory"}));

// A program without the studies knows that they exist, and only they are missing.
TEST_F(Cli, SaysHowToGetTheStudiesThatABuildLeavesOut) {
  const char* core = std::getenv("BONSAI_BENCH_CORE");
  ASSERT_NE(core, nullptr) << "set BONSAI_BENCH_CORE to the program without studies";
  program_ = core;
  for (const char* study : {"experiment", "experiment kiwi", "sweep --samples=1", "fabric"}) {
    const Outcome outcome = run(study);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    EXPECT_NE(outcome.output.find("-DBONSAI_STUDIES=ON"), std::string::npos) << outcome.output;
    EXPECT_TRUE(fs::is_empty(directory_));
  }
  const Outcome help = run("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.output.find("Not in this build: experiment, fabric and sweep;\nconfigure"), std::string::npos);
  EXPECT_NE(run("help sweep").output.find("-DBONSAI_STUDIES=ON"), std::string::npos);
  EXPECT_NE(run("walk").output.find("unknown command 'walk'; the commands are run, load, report and list"),
            std::string::npos);
  EXPECT_EQ(run("list").output.find("\nexperiments\n"), std::string::npos);
  EXPECT_EQ(run("run --engines=dummy,bonsai --records=200 --operations=100 --workloads=a").exit_code, 0);
}

TEST_F(Cli, NamesTheLineOfABadWorkload) {
  const std::string path = write("w.properties", "readproportion=1\nrequestdistribution=zipf\n");
  const Outcome outcome = run("run --engines=dummy --workloads=" + path);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.output.find("w.properties:2: requestdistribution=zipf: give one of"), std::string::npos)
      << outcome.output;
}

// Expects each of `words`, and no line that a terminal of 80 columns would break.
void expect_help(const Outcome& help, const std::vector<const char*>& words) {
  EXPECT_EQ(help.exit_code, 0) << help.output;
  for (const char* word : words) EXPECT_NE(help.output.find(word), std::string::npos) << word << "\n" << help.output;
  std::istringstream lines(help.output);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST_F(Cli, HelpIsAPageOfCommandsAndAPageForEach) {
  for (const char* form : {"--help", "-h", "help", "help --help"}) {
    const Outcome outcome = run(form);
    expect_help(outcome, {"bonsai-bench run", "bonsai-bench load", "bonsai-bench help COMMAND", "Exit codes"});
    EXPECT_LT(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 40) << "it is read at once";
    EXPECT_EQ(outcome.output.find("--records"), std::string::npos);
  }
  for (const char* form : {"run --help", "help run", "run --records=5 -h"}) {
    const Outcome outcome = run(form);
    expect_help(outcome, {"Examples", "--records", "--engines", "--pool-dir", "-P FILE", "Exit codes"});
    EXPECT_EQ(outcome.output.find("flagfile"), std::string::npos);
  }
  expect_help(run("help load"), {"bonsai-bench load", "Examples", "bonsai-bench help run"});
  expect_help(run("report --help"), {"bonsai-bench report", "--out=DIR"});
  std::istringstream lines(run("--help").output);
  size_t commands = 0;
  for (std::string line, program, name; std::getline(lines, line);) {
    std::istringstream words(line);
    if (!line.starts_with("  bonsai-bench ") || !(words >> program >> name) || name == "help") continue;
    if (name.starts_with("-")) continue;
    expect_help(run("help " + name), {("bonsai-bench " + name).c_str()});
    ++commands;
  }
  EXPECT_GE(commands, 4U);
}

TEST_F(Cli, NamesItsVersion) {
  for (const char* form : {"version", "--version", "run --version", "-version"}) {
    const Outcome outcome = run(form);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_TRUE(std::regex_match(outcome.output, std::regex("bonsai-bench [0-9]+\\.[0-9]+\\.[0-9]+\n")))
        << outcome.output;
  }
}

TEST_F(Cli, SaysWhenItsOutputDidNotArrive) {
  expect_lost_output_is_an_error({"--help", "version", "list", "run --engines=dummy --records=100 --operations=100",
                                  "report --out=results/latest"});
}

TEST_F(Cli, ListsEnginesAndWorkloads) {
  const Outcome outcome = run("list");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* word : {"absl_btree", "dummy", "load", "short ranges"}) {
    EXPECT_NE(outcome.output.find(word), std::string::npos) << word << "\n" << outcome.output;
  }
}

TEST_F(Cli, RunsTheMainJobInSmall) {
  const Outcome outcome = run("run --records=2000 --operations 2000 -threads=2 --value_bytes=16 --seed=9");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("Mop/s"), std::string::npos);
  EXPECT_EQ(outcome.output.find('\r'), std::string::npos) << "a status line without a terminal";
  const nlohmann::json json = json_of("results/latest/results.json");
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["manifest"]["seed"], 9);
  EXPECT_EQ(json["manifest"]["flags"]["value-bytes"], "16");
  std::map<std::string, int> phases;
  for (const auto& run : json["runs"]) {
    ++phases[run["workload"]];
    EXPECT_EQ(run["failures"], 0) << run;
    EXPECT_EQ(run["value_size"], 16);
  }
  for (const char* phase : {"load", "a", "b", "c", "d", "e", "f"}) {
    EXPECT_GE(phases[phase], 1) << phase;
    EXPECT_EQ(phases[phase], phases["load"]) << phase;
  }
}

TEST_F(Cli, TakesYcsbsOptions) {
  const std::string first = write("workloadmine", "readproportion=1\nupdateproportion=0\nrecordcount=100\n");
  const std::string second = write("large.dat", "recordcount=2000\noperationcount=500\nthreadcount=1\ntarget=9\n");
  const Outcome outcome = run("run -P " + first + " -P " + second +
                              " -s -p operationcount=700 -p target=100000 -threads 2 --engines=dummy");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output.find("not obeyed"), std::string::npos) << outcome.output;
  const nlohmann::json json = json_of("results/latest/results.json");
  ASSERT_FALSE(json.is_discarded());
  ASSERT_EQ(json["runs"].size(), 2U);
  const auto& run = json["runs"][1];
  EXPECT_EQ(run["workload"], "mine");
  EXPECT_EQ(run["records"], 2000);    // the later file
  EXPECT_EQ(run["operations"], 700);  // -p beats files
  EXPECT_EQ(run["threads"], 2);       // a flag beats both
  EXPECT_EQ(run["operations_of"]["read"], 700);
  EXPECT_EQ(json["manifest"]["flags"]["p"], "operationcount=700\ntarget=100000");
}

// The files are found from a folder that does not have them, as YCSB's users have theirs in workloads/.
TEST_F(Cli, LoadsAndRunsAsYcsbsUsersTypeIt) {
  const Outcome load = run("load std_map -P workloads/workloada -p recordcount=300 -p fieldlength=7 -threads 1 -s");
  EXPECT_EQ(load.exit_code, 0) << load.output;
  nlohmann::json runs = json_of("results/latest/results.json").at("runs");
  ASSERT_EQ(runs.size(), 1U) << load.output;
  EXPECT_EQ(runs[0]["engine"], "std_map");
  EXPECT_EQ(runs[0]["workload"], "load");
  EXPECT_EQ(runs[0]["operations"], 300);
  EXPECT_EQ(runs[0]["value_size"], 70);
  EXPECT_NE(load.output.find("[INSERT], Operations, 300"), std::string::npos) << load.output;

  const Outcome both = run("run dummy,std_map -P workloads/workloadb -p recordcount=300 -p operationcount=200");
  EXPECT_EQ(both.exit_code, 0) << both.output;
  runs = json_of("results/latest/results.json").at("runs");
  ASSERT_EQ(runs.size(), 4U) << both.output;
  EXPECT_EQ(runs[3]["engine"], "std_map");
  EXPECT_EQ(runs[3]["workload"], "b");
  EXPECT_EQ(runs[3]["operations"], 200);
  EXPECT_EQ(runs[3]["value_size"], 1000) << "the file names its fields";
  EXPECT_EQ(run("load std_map -P workloads/workloadz").exit_code, 2);
}

TEST_F(Cli, PropertiesOfTheCommandLineGoForEveryWorkload) {
  const Outcome outcome =
      run("run --workloads=a,b -p recordcount=300 -p requestdistribution=plain_zipf -p plain_zipf_alpha=1.5 "
          "--operations=200 --engines=dummy");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const nlohmann::json json = json_of("results/latest/results.json");
  ASSERT_EQ(json["runs"].size(), 3U);
  EXPECT_EQ(json["runs"][0]["records"], 300);
  EXPECT_EQ(json["runs"][2]["distribution"], "plain_zipf 1.5");
}

// The system refuses to look up a name of that length. (Found by bench_flags_fuzz.)
TEST_F(Cli, TakesANameThatIsTooLongForAFileAsUnknown) {
  const Outcome outcome = run("run --workload-dir=" + std::string(300, 'x'));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_NE(outcome.output.find("unknown workload 'a'"), std::string::npos) << outcome.output;
}

TEST_F(Cli, RefusesTwoWaysToNameTheWork) {
  const std::string path = write("workloadmine", "readproportion=1\n");
  const Outcome outcome = run("run -P " + path + " --workloads=a");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.output.find("give one of them"), std::string::npos);
}

TEST_F(Cli, RecordsAndReplaysTraces) {
  EXPECT_EQ(run("run --engines=dummy,absl_btree --records=500 --operations=300 --workloads=a,d --record=t --repeat=2")
                .exit_code,
            0);
  const Outcome outcome = run("run --engines=absl_btree --workloads=t/load.trace,t/a.trace,t/d.trace");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const nlohmann::json json = json_of("results/latest/results.json");
  ASSERT_EQ(json["runs"].size(), 4U);
  EXPECT_EQ(json["runs"][0]["records"], 500);
  EXPECT_EQ(json["runs"][3]["workload"], "d");
  EXPECT_EQ(json["runs"][3]["operations"], 300);
  const std::string bad = write("bad.trace", "READ 1\nREAD one\n");
  EXPECT_NE(run("run --workloads=" + bad).output.find("bad.trace:2: 'one' is no key"), std::string::npos);
}

TEST_F(Cli, RepeatsAndTakesMedians) {
  const Outcome outcome = run("run --engines=dummy,absl_btree --workloads=c --records=500 --operations=300 --repeat=3");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const nlohmann::json json = json_of("results/latest/results.json");
  ASSERT_EQ(json["runs"].size(), 4U);
  for (const auto& run : json["runs"]) EXPECT_GT(run["throughput_ops_per_s"], 0);
}

TEST_F(Cli, TellsWhatItDoesNotObey) {
  const std::string path = write("mine.properties", "readproportion=1\nwriteallfields=false\ntarget=5\n");
  const Outcome outcome = run("run --engines=dummy --records=100 --operations=100 --workloads=" + path);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("mine.properties:3: target=5 is not obeyed"), std::string::npos) << outcome.output;
}

// A machine that stalls spoils one try; five in a row are the program's doing.
TEST_F(Cli, EndsAWorkloadWhenItsTimeIsOver) {
  nlohmann::ordered_json run_of_b;
  double operations = 0, seconds = 0;
  for (int tries = 0; tries < 5; ++tries) {
    const Outcome outcome =
        run("run --engines=std_map --workloads=load,b -p maxexecutiontime=1 --records=1000 --target=20000 "
            "--interval-ms=25 --out=out");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    run_of_b = json_of("out/results.json").at("runs").at(1);
    operations = run_of_b.at("operations").get<double>();
    seconds = run_of_b.at("seconds").get<double>();
    if (std::abs(operations - 20'000) <= 400 && std::abs(seconds - 1) <= 0.02) break;
  }
  EXPECT_NEAR(operations, 20'000, 400);
  EXPECT_NEAR(seconds, 1, 0.02);
  EXPECT_TRUE(run_of_b.at("complete").get<bool>());
  EXPECT_GT(run_of_b.at("memory").at("samples").get<int>(), 5);
  EXPECT_LT(run_of_b.at("cpu_seconds").get<double>(), 0.5);
}

}  // namespace
}  // namespace bonsai::bench
