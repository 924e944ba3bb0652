// SPDX-License-Identifier: Apache-2.0
// The program stopped amid its work, by Ctrl-C and by a kill: what was measured is on disk and can be read, and pools
// are gone after Ctrl-C.
#include "bench/cli/testing/interrupted.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A load that ends soon, and a workload that would take a day.
const std::vector<std::string> kDay = {"run",         "--engines=bonsai", "--workloads=load,c", "--records=2000",
                                       "--threads=1", "--target=1000",    "--seconds=86400"};

TEST_F(Interrupted, ByCtrlCARunKeepsWhatItMeasuredAndLeavesNoPool) {
  for (const int signal : {SIGINT, SIGTERM}) {
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

TEST_F(Interrupted, ACommandLineThatIsRefusedTouchesNothing) {
  expect_untouched({{"run", "--engines=none"}, {"run", "--workloads=none"}, {"run", "--records=0"}, {"none"}});
}

}  // namespace
}  // namespace bonsai::bench
