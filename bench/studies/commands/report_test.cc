// SPDX-License-Identifier: Apache-2.0
// Tests of the sections of experiments in report.html.
#include "bench/pages/report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/report/testing/count.h"
#include "bench/studies/testing/experiment.h"

namespace bonsai::bench {
namespace {

TEST(Report, HasASectionForEachExperiment) {
  const std::string directory = ::testing::TempDir() + "/bench_report";
  std::filesystem::remove_all(directory);
  EXPECT_TRUE(write_report(directory).IsNotFound());
  ASSERT_TRUE(write_experiment(directory, experiment_json(experiment(), result(), Manifest())).ok());
  std::ofstream(directory + "/other.json") << "no JSON";
  ASSERT_TRUE(write_report(directory).ok());
  std::ifstream in(directory + "/report.html");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(page.find("Experiment made-up"), std::string::npos);
  EXPECT_NE(page.find("A &lt;title&gt;"), std::string::npos);
  EXPECT_NE(page.find("theirs: not built"), std::string::npos);
  std::ofstream(directory + "/results.json") << R"({"version": 99})";
  EXPECT_EQ(write_report(directory).code(), Status::Code::kNotSupported);
  std::ofstream(directory + "/results.json") << R"({"version": 1, "runs": [{}]})";
  EXPECT_EQ(write_report(directory).code(), Status::Code::kCorruption);
  std::ofstream(directory + "/results.json") << "{";
  EXPECT_EQ(write_report(directory).code(), Status::Code::kCorruption);
  std::filesystem::remove_all(directory);
}

TEST(Report, RefusesAnExperimentWithoutAName) {
  const std::string directory = ::testing::TempDir() + "/bench_report_nameless";
  for (const nlohmann::ordered_json& name : {nlohmann::ordered_json(7), nlohmann::ordered_json(nullptr)}) {
    std::filesystem::remove_all(directory);
    ASSERT_TRUE(write_experiment(directory, experiment_json(experiment(), result(), Manifest())).ok());
    nlohmann::ordered_json other = experiment_json(experiment(), result(), Manifest());
    other["name"] = name;
    std::ofstream(directory + "/other.json") << other;
    EXPECT_EQ(write_report(directory).code(), Status::Code::kCorruption) << name;
  }
  std::filesystem::remove_all(directory);
}

TEST(Report, ListsManyExperimentsInTheOrderOfTheProgramsOwnList) {
  const std::string directory = ::testing::TempDir() + "/bench_report_contents";
  std::filesystem::remove_all(directory);
  const std::vector<Experiment>& all = experiment_list();
  const std::vector<std::string_view> names = {all[0].name, all[2].name, "zz-of-another-build", all[1].name};
  std::string page;
  for (size_t i = 0; i < names.size(); ++i) {
    Experiment named = experiment();
    named.name = names[i];
    ASSERT_TRUE(write_experiment(directory, experiment_json(named, result(), Manifest())).ok());
    ASSERT_TRUE(write_report(directory).ok());
    std::ifstream in(directory + "/report.html");
    page.assign(std::istreambuf_iterator<char>(in), {});
    EXPECT_EQ(page.find("<nav") != std::string::npos, i == 3) << "more than can be seen at once";
  }
  size_t at = 0;
  for (const std::string_view name : {names[0], names[3], names[1], names[2]}) {
    const size_t link = page.find("<a href=\"#" + std::string(name) + "\">", at);
    ASSERT_NE(link, std::string::npos) << name << " is not there, or before its place";
    EXPECT_NE(page.find("<h2 id=\"" + std::string(name) + "\">"), std::string::npos);
    at = link;
  }
  std::filesystem::remove_all(directory);
}

TEST(Report, HasTheLabelsOfExperimentsInTheirSections) {
  ExperimentResult modelled = result();
  modelled.labels = {"EMULATED tmpfs; no statement about a real device", "NVM is modelled: preset optane"};
  const std::string page = report_html(nlohmann::ordered_json(), {experiment_json(experiment(), modelled, Manifest())});
  for (const char* text : {"EMULATED tmpfs; no statement about a real device<br>",
                           "NVM is modelled: preset optane</li>", "Experiment made-up"}) {
    EXPECT_EQ(count(page, text), 1U) << text;
  }
}

// Any text of a study is plain text on the page, and the page loads nothing.
TEST(Report, ShowsWhatAStudySaysAsText) {
  const std::string hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&";
  Experiment made_up = experiment();
  made_up.title = made_up.source = hostile;
  ExperimentResult measured = result();
  measured.labels = {hostile};
  measured.columns[1].name = hostile;
  measured.columns[2].absent = hostile;
  const std::string page = report_html(nlohmann::ordered_json(), {experiment_json(made_up, measured, Manifest())});
  EXPECT_EQ(count(page, "<script"), 0U);
  EXPECT_EQ(count(page, "<img"), 0U);
  EXPECT_GT(count(page, "&lt;script&gt;"), 4U);
}

}  // namespace
}  // namespace bonsai::bench
