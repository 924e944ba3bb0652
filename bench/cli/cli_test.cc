// SPDX-License-Identifier: Apache-2.0
// The program as a person meets it: what it says, which files it writes, and its exit codes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "bench/cli/testing/program.h"

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;

using Cli = Program;

struct BadLine {
  const char* arguments;
  const char* says;
  const char* remedy;
};

class BadCommandLines : public Program, public ::testing::WithParamInterface<BadLine> {};

TEST_P(BadCommandLines, ExitWithTwoAndTheRemedyAndLeaveNothing) {
  const Outcome outcome = run(GetParam().arguments);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_NE(outcome.output.find(GetParam().says), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find(GetParam().remedy), std::string::npos) << outcome.output;
  EXPECT_TRUE(fs::is_empty(directory_));
}

INSTANTIATE_TEST_SUITE_P(
    Lines, BadCommandLines,
    ::testing::Values(
        BadLine{"", "no command", "run, experiment, sweep, fabric, report and list"},
        BadLine{"walk", "unknown command 'walk'", "run, experiment, sweep, fabric, report and list"},
        BadLine{"experiment", "no experiment is named", "index-technique"},
        BadLine{"experiment index", "unknown experiment 'index'", "index-technique"},
        BadLine{"experiment index-technique --scale=big", "--scale=big", "trial, small or paper"},
        BadLine{"sweep --workloads=load", "no workload is named", "--workloads"},
        BadLine{"sweep --samples=0", "no samples to take", "--samples=1"},
        BadLine{"sweep --seconds=0", "measures nothing", "--seconds=1"},
        BadLine{"sweep --rate-step=0", "never rises", "--rate-step"},
        BadLine{"sweep --rate-first=9 --rate-max=5", "below the first", "--rate-max"},
        BadLine{"sweep --seconds=1 --interval-ms=2000", "longer than a sample", "--interval-ms"},
        BadLine{"sweep --engines=none", "unknown engine 'none'", "the engines are"},
        BadLine{"run --seconds=2 --workloads=d", "inserts", "--target or --operations"},
        BadLine{"run --hash=md5", "--hash=md5 is unknown", "default or city"},
        BadLine{"fabric --providers=ib", "'ib' is unknown", "shm,sim,verbs"},
        BadLine{"fabric --requests=flush", "'flush' is no request", "read,write,cas,faa,send"},
        BadLine{"fabric --sizes=65", "'65' is out of bounds", "multiples of 8 from 8 to 65536"},
        BadLine{"fabric --batches=33", "'33' is out of bounds", "numbers from 1 to 32"},
        BadLine{"fabric --depths=1,,2", "'' is out of bounds", "from 1 to 64"},
        BadLine{"fabric --waits=sleep", "--waits=sleep", "poll or block"},
        BadLine{"fabric --peer=there", "--peer=there is no address", "FOLDER/NAME"},
        BadLine{"fabric --serve=a:1 --peer=b:1", "--serve and --peer", "one of them"},
        BadLine{"fabric --peer=b:1 --providers=shm", "--peer and --providers", "one of them"},
        BadLine{"fabric --cell-ms=9999999", "--cell-ms", "give 0 to"},
        BadLine{"report --out=.", "no results in .", "run something with --out=."},
        BadLine{"run --recrods=5", "unknown flag --recrods", "--records"},
        BadLine{"run --flagfile=x", "unknown flag --flagfile", "--records"},
        BadLine{"run --records=0", "--records=0", "give 1 to"},
        BadLine{"run --records=many", "--records=many", "number"},
        BadLine{"run --records=-5", "--records=-5", "number"},
        BadLine{"run --operations=0", "--operations=0", "give 1"},
        BadLine{"run --records=99999999999999999999999", "no value", "whole number"},
        BadLine{"run --threads=5000", "--threads=5000", "give 0 to 1024"},
        BadLine{"run --depth=0", "--depth=0", "give 1 to"}, BadLine{"run --records", "--records", "for example"},
        BadLine{"run 5", "'5' is no flag", "--name=value"}, BadLine{"run --", "'--' is no flag", "--name=value"},
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
        BadLine{"run --draw=live --record=x", "--record", "--draw=ahead"},
        BadLine{"run -P", "-P needs", "property file"}, BadLine{"run -P none", "cannot open none", "check the path"},
        BadLine{"run -p", "-p needs", "name=value"}, BadLine{"run -p recordcount", "-p: 'recordcount'", "name=value"},
        BadLine{"run -p recordcount=0", "-p: recordcount=0", "from 1 to"},
        BadLine{"run -p threadcount=x", "-p: threadcount=x", "from 0 to 1024"},
        BadLine{"run -p readpropotion=1", "-p: unknown", "spelling"},
        BadLine{"run --workloads=./none.trace", "cannot open", "check the path"},
        BadLine{"run --out=/proc/none --engines=dummy", "cannot make /proc/none", "--out"},
        BadLine{"run --out=", "--out is empty", "directory"}));

TEST_F(Cli, NamesTheLineOfABadWorkload) {
  const std::string path = write("w.properties", "readproportion=1\nrequestdistribution=zipf\n");
  const Outcome outcome = run("run --engines=dummy --workloads=" + path);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.output.find("w.properties:2: requestdistribution=zipf: give one of"), std::string::npos)
      << outcome.output;
}

TEST_F(Cli, HelpTeaches) {
  for (const char* form : {"--help", "-h", "help", "run --help"}) {
    const Outcome outcome = run(form);
    EXPECT_EQ(outcome.exit_code, 0);
    for (const char* word : {"Examples", "--records", "--engines", "--pool-dir", "Exit codes"}) {
      EXPECT_NE(outcome.output.find(word), std::string::npos) << word;
    }
    EXPECT_EQ(outcome.output.find("flagfile"), std::string::npos);
  }
}

TEST_F(Cli, NamesItsVersion) {
  for (const char* form : {"version", "--version"}) {
    const Outcome outcome = run(form);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_TRUE(std::regex_match(outcome.output, std::regex("bonsai-bench [0-9]+\\.[0-9]+\\.[0-9]+\n")))
        << outcome.output;
  }
}

TEST_F(Cli, SaysWhenItsOutputDidNotArrive) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "/dev/full is not here";
  for (const char* line : {"--help", "version", "list", "run --engines=dummy --records=100 --operations=100",
                           "experiment put-tails --scale=trial",
                           "sweep --engines=dummy --workloads=c --records=100 "
                           "--seconds=1 --samples=1 --rate-max=1000000 --threads=1",
                           "fabric --providers=sim --repeat=1 --cell-ms=1 --sizes=64 --batches=1 --depths=1",
                           "report --out=results/latest"}) {
    const Outcome outcome = run(std::string(line) + " >/dev/full 2>err; code=$?; cat err; exit $code #");
    EXPECT_EQ(outcome.exit_code, 1) << line << ": " << outcome.output;
    EXPECT_NE(outcome.output.find("standard output cannot be written"), std::string::npos) << line << outcome.output;
  }
}

TEST_F(Cli, ListsEnginesAndWorkloads) {
  const Outcome outcome = run("list");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* word : {"absl_btree", "dummy", "load", "short ranges", "index-technique"}) {
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

TEST_F(Cli, MeasuresTheFabricBetweenProcesses) {
  const Outcome outcome =
      run("fabric --providers=shm,sim --repeat=2 --cell-ms=1 --sizes=64 --batches=1,4 --depths=1 "
          "--requests=read,send --out=here");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* word : {"litmus tests", "NO NETWORK", "SIMULATED", "Medians of 2 runs", "here/report.html"}) {
    EXPECT_NE(outcome.output.find(word), std::string::npos) << word << "\n" << outcome.output;
  }
  const nlohmann::json json = json_of("here/fabric.json");
  ASSERT_EQ(json["rows"].size(), 8U);
  for (const auto& row : json["rows"]) EXPECT_GT(row["messages_per_s"], 0);
  const Outcome nobody = run("fabric --peer=10.255.255.1:1 --device=none");
  EXPECT_EQ(nobody.exit_code, 1) << nobody.output;
}

TEST_F(Cli, TellsWhatItDoesNotObey) {
  const std::string path = write("mine.properties", "readproportion=1\nwriteallfields=false\ntarget=5\n");
  const Outcome outcome = run("run --engines=dummy --records=100 --operations=100 --workloads=" + path);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("mine.properties:3: target=5 is not obeyed"), std::string::npos) << outcome.output;
}

TEST_F(Cli, SweepsAndGoesOn) {
  const std::string line =
      "sweep --engines=unordered_map --workloads=b --records=1000 --seconds=1 --rate-first=1000 --rate-step=1000 "
      "--rate-max=2000 --samples=1 --threads=2 --out=out";
  const Outcome first = run(line);
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_NE(first.output.find("unordered_map"), std::string::npos) << first.output;
  std::ifstream csv(directory_ + "/out/samples.csv");
  std::string row;
  int rows = 0;
  while (std::getline(csv, row)) ++rows;
  EXPECT_EQ(rows, 3) << "a header and two samples";
  const Outcome again = run(line);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_NE(again.output.find("has 2 samples"), std::string::npos) << again.output;
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

// The page of published figures names only commands that there are, one in each row, and every experiment is on it.
TEST_F(Cli, KnowsEveryCommandOfTheReproductionPage) {
  const char* page = std::getenv("BONSAI_REPRODUCTION_PAGE");
  ASSERT_NE(page, nullptr) << "set BONSAI_REPRODUCTION_PAGE to docs/reproduction.md";
  std::ifstream in(page);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::string list = run("list").output;
  std::set<std::string> known, named;
  const size_t experiments = list.find("\nexperiments\n");
  ASSERT_NE(experiments, std::string::npos) << list;
  std::istringstream lines(list.substr(experiments));
  for (std::string line, name; std::getline(lines, line);) {
    if (std::istringstream(line) >> name && line.rfind("  ", 0) == 0) known.insert(name);
  }
  const std::regex command("`bonsai-bench (\\w+)(?: ([^` ]+))?[^`]*`");
  for (std::sregex_iterator at(text.begin(), text.end(), command), end; at != end; ++at) {
    if ((*at)[1] == "experiment" && (*at)[2] != "all") named.insert((*at)[2]);
    if ((*at)[1] != "experiment") {
      EXPECT_NE(run("--help").output.find("bonsai-bench " + (*at)[1].str()), std::string::npos) << (*at)[0];
    }
  }
  for (const std::string& name : named) EXPECT_TRUE(known.contains(name)) << name << " is in no list";
  for (const std::string& name : known) EXPECT_TRUE(named.contains(name)) << name << " is not on the page";
  EXPECT_GT(named.size(), 40U);
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row);) {
    const bool is_figure = row.starts_with("| ") && row.find("| command |") == std::string::npos;
    EXPECT_TRUE(!is_figure || std::regex_search(row, command)) << "without a command: " << row;
  }
}

}  // namespace
}  // namespace bonsai::bench
