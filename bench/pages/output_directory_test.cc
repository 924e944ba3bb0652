// SPDX-License-Identifier: Apache-2.0
// The files of a run on disk: one per run and kind of request, no file of an earlier run, and errors with a remedy.
#include "bench/pages/output_directory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "bench/testing/run.h"

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;

class OutputDirectoryTest : public ::testing::Test {
 protected:
  ~OutputDirectoryTest() override { fs::remove_all(path_); }

  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), path_).string());
    }
    return names;
  }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(path_ + "/" + name).rdbuf();
    return text.str();
  }

  const std::string path_ = ::testing::TempDir() + "output-" + std::to_string(::getpid());
};

TEST_F(OutputDirectoryTest, HoldsOneTextPerRunAndOneLogPerKindThatWasTimed) {
  OutputDirectory output(path_);
  ASSERT_TRUE(output.open().ok());
  RunResult run = full_run();
  run.engine = "dummy", run.workload = "a";
  for (Histogram& latency : run.latency) latency = {};
  run.latency[static_cast<size_t>(OpKind::kRead)].record(1'000);
  run.latency[static_cast<size_t>(OpKind::kScan)].record(2'000);
  ASSERT_TRUE(output.add(run).ok());
  EXPECT_EQ(files(), (std::set<std::string>{"ycsb/dummy-a.txt", "hdr/dummy-a-read.hdr", "hdr/dummy-a-scan.hdr"}));
  EXPECT_NE(text_of("ycsb/dummy-a.txt").find("[OVERALL]"), std::string::npos);
  EXPECT_NE(text_of("hdr/dummy-a-read.hdr").find("dummy, workload a, read"), std::string::npos);
}

TEST_F(OutputDirectoryTest, ASecondRunOfANameKeepsTheFirst) {
  OutputDirectory output(path_);
  ASSERT_TRUE(output.open().ok());
  RunResult run = full_run();
  run.engine = "dummy", run.workload = "a";
  for (Histogram& latency : run.latency) latency = {};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(output.add(run).ok());
  EXPECT_EQ(files(), (std::set<std::string>{"ycsb/dummy-a.txt", "ycsb/dummy-a-2.txt", "ycsb/dummy-a-3.txt"}));
}

TEST_F(OutputDirectoryTest, AnEarlierRunsFilesGoAndOthersStay) {
  fs::create_directories(path_ + "/ycsb");
  std::ofstream(path_ + "/ycsb/old.txt") << "old";
  std::ofstream(path_ + "/ycsb/notes.md") << "mine";
  OutputDirectory output(path_);
  ASSERT_TRUE(output.open().ok());
  EXPECT_EQ(files(), std::set<std::string>{"ycsb/notes.md"});
}

TEST_F(OutputDirectoryTest, WritesTheResultsInThreeForms) {
  OutputDirectory output(path_);
  ASSERT_TRUE(output.open().ok());
  Results results;
  results.runs.push_back(full_run());
  ASSERT_TRUE(output.add(results.runs[0]).ok());
  ASSERT_TRUE(output.write(results).ok());
  for (const char* name : {"results.json", "results.csv", "report.html"}) {
    EXPECT_EQ(files().count(name), 1U) << name;
    EXPECT_NE(text_of(name).find(results.runs[0].engine), std::string::npos) << name;
  }
}

TEST_F(OutputDirectoryTest, APlaceThatCannotBeWrittenIsRefusedWithTheFlag) {
  std::ofstream(path_) << "a file where the directory should be";
  const Status status = OutputDirectory(path_).open();
  EXPECT_TRUE(status.IsIoError()) << status.ToString();
  EXPECT_NE(status.message().find("--out"), std::string_view::npos);
}

}  // namespace
}  // namespace bonsai::bench
