// SPDX-License-Identifier: Apache-2.0
// Every engine in the program itself, whose operator new is not that of the other tests. The size is one at which the
// structures have grown: tables rehash and nodes split within the first thousands of records, the block cache is used
// from the first block on, and a memtable of 64 MiB is full at 60,000 records of 1,000 bytes.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/testing/budget.h"
#include "bench/cli/testing/program.h"

namespace bonsai::bench {
namespace {

class EveryEngine : public Program {
 protected:
  [[nodiscard]] std::vector<std::string> engines() const {
    std::vector<std::string> names;
    std::istringstream lines(run("list").output);
    for (std::string line, name; std::getline(lines, line) && line != "workloads";) {
      if (std::istringstream words(line); line.starts_with("  ") && words >> name) names.push_back(name);
    }
    return names;
  }

  // Requires: no failure in any phase of any engine.
  void run_all(uint64_t records, const std::string& value_bytes) {
    std::string list;
    const std::vector<std::string> names = engines();
    ASSERT_GT(names.size(), 5U);
    for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
    const Outcome outcome =
        run("run --engines=" + list + " --workloads=load,c --durability=buffered --records=" + std::to_string(records) +
            " --operations=" + std::to_string(records) + " --text=table --value-bytes=" + value_bytes +
            " --pool-dir=" + directory_);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    const nlohmann::json results = json_of("results/latest/results.json");
    ASSERT_FALSE(results.is_discarded());
    EXPECT_TRUE(results["errors"].empty()) << results["errors"];
    std::map<std::string, size_t> phases;
    for (const auto& one : results["runs"]) {
      EXPECT_EQ(one["failures"], 0) << one["engine"] << one["first_failure"];
      EXPECT_TRUE(one["complete"]) << one["engine"];
      ++phases[one["engine"]];
    }
    for (const auto& one : results["left_out"]) phases[one["engine"]] = 2;  // of words only
    for (const std::string& name : names) EXPECT_EQ(phases[name], 2U) << name;
  }
};

TEST_F(EveryEngine, RunsOnManySmallValues) { run_all(testing::budget(200'000, 200'000, 1'000'000), "8"); }
TEST_F(EveryEngine, RunsOnLargeValues) { run_all(testing::budget(20'000, 70'000, 700'000), "1000"); }

}  // namespace
}  // namespace bonsai::bench
