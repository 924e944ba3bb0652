// SPDX-License-Identifier: Apache-2.0
// Tests of the studies' commands as programs: their output, files and exit codes, also when a sweep is stopped in the
// middle.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/cli/testing/interrupted.h"

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Studies = Program;

TEST_P(BadCommandLines, ExitWithTwoAndTheRemedyAndLeaveNothing) { expect_refusal(); }

INSTANTIATE_TEST_SUITE_P(
    Studies, BadCommandLines,
    ::testing::Values(
        BadLine{"walk", "unknown command 'walk'", "run, load, report, list, experiment, fabric and sweep"},
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
        BadLine{"experiment fabric --providers=ib", "'ib' is unknown", "shm,sim,verbs"},
        BadLine{"experiment fabric --requests=flush", "'flush' is no request", "read,write,cas,faa,send"},
        BadLine{"experiment fabric --sizes=65", "'65' is out of bounds", "multiples of 8 from 8 to 65536"},
        BadLine{"experiment fabric --batches=33", "'33' is out of bounds", "numbers from 1 to 32"},
        BadLine{"experiment fabric --depths=1,,2", "'' is out of bounds", "from 1 to 64"},
        BadLine{"experiment fabric --waits=sleep", "--waits=sleep", "poll or block"},
        BadLine{"experiment fabric --peer=there", "--peer=there is no address", "FOLDER/NAME"},
        BadLine{"fabric", "no address to serve", "bonsai-bench experiment fabric"},
        BadLine{"fabric --providers=shm", "no address to serve", "--serve=ADDR"},
        BadLine{"fabric --serve=here", "--serve=here is no address", "FOLDER/NAME"},
        BadLine{"experiment fabric --serve=a:1", "is for the far side", "bonsai-bench fabric --serve=a:1"},
        BadLine{"fabric --serve=a:1 --peer=b:1", "--serve and --peer", "one of them"},
        BadLine{"experiment fabric --peer=b:1 --providers=shm", "--peer and --providers", "one of them"},
        BadLine{"experiment fabric --cell-ms=9999999", "--cell-ms", "give 0 to"}));

TEST_F(Studies, ListTheExperiments) {
  EXPECT_NE(run("list").output.find("\nexperiments\n  as-left"), std::string::npos);
  EXPECT_NE(run("list").output.find("index-technique"), std::string::npos);
}

TEST_F(Studies, MeasuresTheFabricBetweenProcesses) {
  const Outcome outcome =
      run("experiment fabric --providers=shm,sim --repeat=2 --cell-ms=1 --sizes=64 --batches=1,4 --depths=1 "
          "--requests=read,send --out=here");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* word : {"litmus tests", "NO NETWORK", "SIMULATED", "Medians of 2 runs", "here/report.html"}) {
    EXPECT_NE(outcome.output.find(word), std::string::npos) << word << "\n" << outcome.output;
  }
  const Json found = json_of("here/fabric.json");
  ASSERT_EQ(found["rows"].size(), 8U);
  for (const auto& row : found["rows"]) EXPECT_GT(row["messages_per_s"], 0);
  const Outcome nobody = run("experiment fabric --peer=10.255.255.1:1 --device=none");
  EXPECT_EQ(nobody.exit_code, 1) << nobody.output;
}

TEST_F(Studies, SayWhenTheirOutputDidNotArrive) {
  expect_lost_output_is_an_error(
      {"experiment put-tails --scale=trial",
       "sweep --engines=dummy --workloads=c --records=100 --seconds=1 --samples=1 "
       "--rate-max=1000000 --threads=1",
       "experiment fabric --providers=sim --repeat=1 --cell-ms=1 --sizes=64 --batches=1 --depths=1"});
}

TEST_F(Studies, SweepsAndGoesOn) {
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

// The page of published figures names only commands that exist, one in each row, and names every experiment.
TEST_F(Studies, KnowsEveryCommandOfTheReproductionPage) {
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

const std::vector<std::string> kSweep = {
    "sweep",       "--engines=unordered_map", "--workloads=c",    "--records=500",  "--threads=1", "--seconds=1",
    "--samples=2", "--rate-first=1000",       "--rate-step=1000", "--rate-max=2000"};

TEST_F(Interrupted, ASweepGoesOnWhereItWasKilled) {
  begin(kSweep);
  ASSERT_TRUE(until([this] { return samples() >= 1; })) << log();
  EXPECT_EQ(stop(SIGKILL), 128 + SIGKILL);
  const Json before = json_of("out/samples.json");
  ASSERT_TRUE(before.is_object());
  begin(kSweep);
  EXPECT_EQ(wait_for_end(), 0) << log();
  EXPECT_NE(log().find("has " + std::to_string(before.at("samples").size()) + " samples; those that fit are used"),
            std::string::npos)
      << log();
  const Json after = json_of("out/samples.json");
  ASSERT_EQ(after.at("samples").size(), 4U);
  for (size_t i = 0; i < before.at("samples").size(); ++i) {
    EXPECT_EQ(after["samples"][i], before["samples"][i]) << "what was measured is not measured again";
  }
}

TEST_F(Interrupted, ASweepRefusesSamplesOfOthersAndKeepsThem) {
  fs::create_directories(file("out"));
  const std::string theirs = R"({"version": 1, "samples": [{"latency_counts": {"read": [[1, "x"]]}}]})";
  std::ofstream(file("out/samples.json")) << theirs;
  begin(kSweep);
  EXPECT_EQ(wait_for_end(), 2) << log();
  EXPECT_NE(log().find("samples.json is none of this program's; move it, or give another --out"), std::string::npos)
      << log();
  EXPECT_EQ(text_of("out/samples.json"), theirs);
}

TEST_F(Interrupted, AStudysCommandLineThatIsRefusedTouchesNothing) {
  expect_untouched({{"sweep", "--samples=0"},
                    {"sweep", "--seconds=0"},
                    {"experiment", "none"},
                    {"experiment", "kiwi", "--scale=none"},
                    {"experiment", "fabric", "--providers=none"},
                    {"fabric"}});
}

}  // namespace
}  // namespace bonsai::bench
