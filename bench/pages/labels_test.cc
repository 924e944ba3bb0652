// SPDX-License-Identifier: Apache-2.0
// The labels of report.html: whatever was emulated, failed or ended early, or is no commit, is labelled so everywhere,
// and nothing else is. The page says why a bar is missing. Text of others is shown as text only.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "bench/pages/report.h"
#include "bench/report/testing/count.h"
#include "bench/testing/run.h"
#include "testing/scratch.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

// Two engines, one of them volatile, in two workloads; nothing is wrong.
Results sound() {
  Results results;
  results.manifest.commit = "0123456789abcdef0123";
  results.manifest.cpu = "a processor";
  results.manifest.seed = 42;
  results.manifest.processors = 2;
  results.manifest.started = "2026-01-02T03:04:05Z";
  results.manifest.flags = {{"records", "1000"}, {"value-bytes", "8"}};
  for (const char* workload : {"load", "a"}) {
    for (const char* engine : {"bonsai", "std_map"}) {
      RunResult run = full_run();
      run.workload = workload;
      run.engine = engine;
      run.failures = 0;
      run.first_failure.clear();
      run.operations_of[static_cast<size_t>(OpKind::kRead)] = run.operations;
      run.repeats_ops_per_s = {run.throughput_ops_per_s};
      if (run.engine == "std_map") {
        run.durability.reset();
        run.nvm.reset();
        run.memory.nvm_bytes.reset();
      } else {
        run.medium = MediumUse{"devdax, domain ADR", false};
      }
      results.runs.push_back(run);
    }
  }
  return results;
}

std::string page_of(const Results& results) { return report_html(Json::parse(results_json(results)), {}); }

struct Label {
  const char* name;
  std::function<void(Results*)> change;  // that the page must state
  std::vector<const char*> says;         // then, and not otherwise
};

std::ostream& operator<<(std::ostream& out, const Label& label) { return out << label.name; }

const std::vector<Label> kLabels = {
    {"Emulated",
     [](Results* results) {
       for (RunResult& run : results->runs) {
         if (run.engine != "bonsai") continue;
         run.medium = MediumUse{"tmpfs (emulated NVM), flush clwb, domain ADR", true};
         tell_medium(run.engine, *run.medium, &results->manifest);
       }
     },
     {"<strong>EMULATED</strong>", "bonsai: tmpfs (emulated NVM)", "no figure here is a statement about a real device",
      "; EMULATED medium: bonsai</figcaption>"}},
    {"Failures",
     [](Results* results) {
       results->runs[3].failures = 7;
       results->runs[3].first_failure = "a record is missing";
     },
     {"<strong>FAILURES:</strong> 7 operations failed", "<td class=\"bad\">7</td>"}},
    {"EndedEarly",
     [](Results* results) {
       results->errors = {{"rocksdb", "no space left"}};
     },
     {"<strong>ENDED EARLY:</strong> rocksdb: no space left"}},
    {"NoCommit",
     [](Results* results) { results->manifest.commit = "0123456789abcdef0123-dirty"; },
     {"<strong>NOT A COMMIT:</strong>"}},
    {"LeftOut",
     [](Results* results) {
       results->left_out = {{"libcuckoo", "a", "has no ordered scan"}};
     },
     {"\xe2\x80\x93 has no ordered scan", "\xe2\x80\x93 not run", "3 stores under one harness"}},
    {"FewerThreads",
     [](Results* results) {
       for (RunResult& run : results->runs) run.threads = run.engine == "std_map" ? 1 : 4;
     },
     {"; UNEQUAL threads: compare those that took as many", ">bonsai, 4 threads<", ">std_map, 1 thread<"}},
    {"Repeated",
     [](Results* results) {
       results->runs[0].repeats_ops_per_s = {1e6, 1.5e6, 2e6};
     },
     {"class=\"mark spread\""}},
    {"SeveralShapes",
     [](Results* results) {
       results->runs[1].key = "string";
       results->runs[1].value_size = 100;
     },
     {"fixed8 and others + 8 to 100 B"}},
    {"AskedFor",
     [](Results* results) {
       for (RunResult& run : results->runs) run.intended_latency = run.latency;
     },
     {">bonsai*<"}},
};

class Labels : public ::testing::TestWithParam<Label> {};
INSTANTIATE_TEST_SUITE_P(Report, Labels, ::testing::ValuesIn(kLabels),
                         [](const auto& label) { return std::string(label.param.name); });

TEST_P(Labels, AreThereWhereTheyApplyAndNowhereElse) {
  Results results = sound();
  const std::string before = page_of(results);
  GetParam().change(&results);
  const std::string after = page_of(results);
  for (const char* text : GetParam().says) {
    EXPECT_EQ(count(before, text), 0U) << text;
    EXPECT_GT(count(after, text), 0U) << text;
  }
}

TEST(Labels, OfAnEmulatedMediumAreInEveryChartOfThatEngine) {
  Results results = sound();
  for (RunResult& run : results.runs) {
    if (run.engine == "bonsai") run.medium = MediumUse{"tmpfs (emulated NVM)", true};
  }
  EXPECT_EQ(count(page_of(results), "; EMULATED medium: bonsai"), 2U) << "of two workloads";
  results.runs.erase(results.runs.begin());  // bonsai's load
  EXPECT_EQ(count(page_of(results), "; EMULATED medium: bonsai"), 1U);
}

TEST(Page, HasAPlaceForEveryRunAndEveryFactOfTheManifest) {
  const Results results = sound();
  const std::string page = page_of(results);
  for (const char* text :
       {"2 stores under one harness", "commit 0123456789ab<", ">Load, operations/s<", ">Workload A, operations/s<",
        ">After Workload A, bytes per record<", ">Workload A, read<", "<dt>seed</dt><dd>42</dd>",
        "<dt>cpu</dt><dd>a processor</dd>", "<dt>kernel</dt><dd>\xe2\x80\x93</dd>", "<dt>--records</dt><dd>1000</dd>",
        "<dt>--value-bytes</dt><dd>8</dd>"}) {
    EXPECT_EQ(count(page, text), 1U) << text;
  }
  EXPECT_EQ(count(page, ">100 % read; zipfian<"), 2U);
  EXPECT_EQ(count(page, "<td class=\"l\">volatile</td>"), 2U);
  EXPECT_EQ(count(page, "<td class=\"l\">durable</td>"), 2U);
  EXPECT_EQ(count(page, "<tr class=\"first\">"), 2U);
}

TEST(Page, OfNoRunSaysSo) {
  Results results = sound();
  results.runs.clear();
  results.errors = {{"bonsai", "cannot open"}};
  const std::string page = page_of(results);
  EXPECT_EQ(count(page, "No run has ended yet."), 1U);
  EXPECT_EQ(count(page, "ENDED EARLY"), 1U);
}

// Whatever a file, a flag or a store says is text on the page, and the page loads nothing.
TEST(Page, ShowsWhatOthersWroteAsText) {
  const std::string hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&";
  Results results = sound();
  results.manifest.cpu = results.manifest.medium = results.manifest.commit = results.manifest.kernel = hostile;
  results.manifest.flags["out"] = hostile;
  results.manifest.emulated = {hostile};
  results.manifest.started = hostile;
  for (RunResult& run : results.runs) {
    run.engine += hostile;
    run.workload += hostile;
    run.distribution = run.durability.emplace(hostile);
    run.key = hostile;
    run.failures = 1;
    run.first_failure = hostile;
    run.medium = MediumUse{hostile, true};
  }
  results.left_out = {{hostile, hostile, hostile}};
  results.errors = {{hostile, hostile}};
  const std::string page = page_of(results);
  EXPECT_EQ(count(page, "<script"), 0U);
  EXPECT_EQ(count(page, "<img"), 0U);
  EXPECT_GT(count(page, "&lt;script&gt;"), 20U);
  EXPECT_FALSE(
      std::regex_search(page.substr(page.find("<body>")), std::regex("(src|href|url|@import)\\s*[=(]\\s*[\"'h]")));
}

// A kind of file of a build with other parts: left out, and not taken for a result.
TEST(WriteReport, LeavesOutFilesOfKindsThatThisBuildDoesNotHave) {
  const testing::ScratchFolder folder;
  const std::string directory = folder.file("out");
  EXPECT_TRUE(write_report(directory).IsNotFound());
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/another.json") << R"({"name": "of another build", "title": "t"})";
  EXPECT_TRUE(write_report(directory).IsNotFound());
  std::ofstream(directory + "/results.json") << results_json(sound());
  ASSERT_TRUE(write_report(directory).ok());
  EXPECT_EQ(testing::read_file(directory + "/report.html").find("of another build"), std::string::npos);
}

// A results.json that lacks something is refused, and the page that was there stays as it was.
TEST(WriteReport, RefusesWhatLacksAnything) {
  const testing::ScratchFolder folder;
  const std::string directory = folder.file("out");
  std::filesystem::create_directories(directory);
  const auto write = [&](const Json& json) { std::ofstream(directory + "/results.json") << json.dump(); };
  const auto page = [&] {
    std::ifstream in(directory + "/report.html");
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  const Json whole = Json::parse(results_json(sound()));
  write(whole);
  ASSERT_TRUE(write_report(directory).ok());
  const std::string before = page();
  size_t refused = 0;
  const auto try_without = [&](const Json& broken, const std::string& what) {
    write(broken);
    const Status status = write_report(directory);
    if (status.ok()) {  // a part that the page does not show
      write(whole);
      ASSERT_TRUE(write_report(directory).ok());
      return;
    }
    ++refused;
    EXPECT_TRUE(status.code() == Status::Code::kCorruption || status.code() == Status::Code::kNotSupported) << what;
    EXPECT_NE(status.message().find("run again"), std::string::npos) << what << ": " << status.ToString();
    EXPECT_EQ(page(), before) << what << ": the page that was there is lost";
  };
  for (const auto& [name, member] : whole.items()) {
    Json broken = whole;
    broken.erase(name);
    try_without(broken, name);
    broken[name] = "text";
    try_without(broken, name + " of another type");
  }
  for (const char* part : {"runs", "manifest"}) {
    const Json& parts = std::string(part) == "runs" ? whole.at("runs").at(0) : whole.at(part);
    for (const auto& [name, member] : parts.items()) {
      Json broken = whole;
      Json& mine = std::string(part) == "runs" ? broken["runs"][0] : broken[part];
      mine.erase(name);
      try_without(broken, std::string(part) + "." + name);
      mine[name] = Json::array({Json::object()});
      try_without(broken, std::string(part) + "." + name + " of another type");
    }
  }
  EXPECT_GT(refused, 30U);
}

}  // namespace
}  // namespace bonsai::bench
