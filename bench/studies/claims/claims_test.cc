// SPDX-License-Identifier: Apache-2.0
// Tests of claims: each sentence with a figure has a row, and each row has its outcome, by results made up here.
#include "bench/studies/claims/claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "bench/pages/page_part.h"
#include "bench/report/charts.h"
#include "testing/scratch.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The text with each run of blanks, and each break of a line, as one blank.
std::string flowing(const std::string& text) { return std::regex_replace(text, std::regex("\\s+"), " "); }

fs::path tree() {
  const char* const root = std::getenv("BONSAI_SOURCE");
  return root == nullptr ? fs::path() : fs::path(root);
}

// ---- each sentence with a figure has a row

// Numbers of speed, time, space and cost. A line of a table of numbers has no units; its section says that it counts.
const std::regex& figure_pattern() {
  static const std::regex kPattern(
      R"(\d[\d.,^]*\s?(times|%|(ns|us|ms|s|K/s|M/s|MB/s|GB/s)\b|Mop|Kop|Mkeys|seconds|minutes|hours|bytes per|)"
      R"(media bytes)|at (most|least) \d|10\^\d+ crash)");
  return kPattern;
}

// Pages whose figures are settings, examples and times of tests: what they promise, tests of their own rooms show.
const std::set<std::string> kPagesOfSettings = {
    "docs/nodes.md",   "docs/operating.md", "docs/server.md", "docs/metrics.md",      "docs/security.md",
    "docs/results.md", "docs/dump.md",      "docs/format.md", "docs/put-protocol.md", "docs/testing.md"};

// The pages that are read: the README, and those of docs/.
std::vector<std::string> pages_of(const fs::path& root) {
  std::vector<std::string> pages = {"README.md"};
  for (const auto& entry : fs::directory_iterator(root / "docs")) {
    const std::string page = "docs/" + entry.path().filename().string();
    if (entry.path().extension() == ".md" && !kPagesOfSettings.contains(page)) pages.push_back(page);
  }
  return pages;
}

// Lines of the page with a figure that no claim quotes, and no other entry either.
std::vector<std::string> unclaimed(const std::string& page, const std::string& text, const Claims& all) {
  std::vector<std::string> quotes;
  for (const Claim& claim : all.claims) {
    if (claim.from == page) quotes.push_back(claim.quote);
  }
  for (const NotClaimed& other : all.others) {
    if (other.from == page) quotes.push_back(other.quote);
  }
  std::vector<std::string> found;
  std::istringstream lines(text);
  bool numbers = false;  // in the section of the goals, rows of tables count
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) numbers = line == "## 6. Numbers";
    const bool row = numbers && line.starts_with("| ") && line.find_first_of("0123456789") != std::string::npos;
    if (!row && !std::regex_search(line, figure_pattern())) continue;
    const auto covers = [&](const std::string& quote) { return line.find(quote) != std::string::npos; };
    if (std::none_of(quotes.begin(), quotes.end(), covers)) found.push_back(page + ": " + line);
  }
  return found;
}

TEST(Claims, HaveARowForEachSentenceWithAFigure) {
  const fs::path root = tree();
  ASSERT_FALSE(root.empty()) << "set BONSAI_SOURCE to the source tree";
  std::string missing;
  for (const std::string& page : pages_of(root)) {
    for (const std::string& line : unclaimed(page, text_of(root / page), claims())) missing += line + "\n";
  }
  EXPECT_EQ(missing, "") << "a sentence with a figure needs a row in bench/studies/claims/claims.json: under `claims` "
                            "with what measures it, or under `not_claims` with why it promises nothing";
}

TEST(Claims, OfARowThatIsTakenAwayAreNoticed) {
  const fs::path root = tree();
  ASSERT_FALSE(root.empty());
  const std::string page = "docs/design.md", text = text_of(root / page);
  for (const Claim& claim : claims().claims) {
    if (claim.from != page) continue;
    Claims fewer = claims();
    std::erase_if(fewer.claims, [&](const Claim& each) { return each.quote == claim.quote; });
    EXPECT_EQ(unclaimed(page, text, fewer).size(), 1U) << claim.quote;
  }
  EXPECT_EQ(unclaimed("README.md", "Bonsai is 7.5 times as fast.\nIt is good.\n", claims()).size(), 1U);
}

TEST(Claims, QuoteTheirTexts) {
  const fs::path root = tree();
  ASSERT_FALSE(root.empty());
  const char* const papers = std::getenv("BONSAI_SEEDS");
  const auto has = [&](const std::string& from, const std::string& quote) {
    if (from.ends_with(".md")) return text_of(root / from).find(quote) != std::string::npos;
    const auto paper = claims().papers.find(from);
    if (paper == claims().papers.end()) return false;
    if (papers == nullptr) return true;
    for (const auto& entry : fs::directory_iterator(papers)) {
      const std::string file = entry.path().filename();
      const auto starts = [&](const std::string& number) { return file.starts_with(number + "_"); };
      if (std::none_of(paper->second.begin(), paper->second.end(), starts)) continue;
      if (flowing(text_of(entry.path())).find(flowing(quote)) != std::string::npos) return true;
    }
    return false;
  };
  for (const Claim& claim : claims().claims) EXPECT_TRUE(has(claim.from, claim.quote)) << claim.from << claim.quote;
  for (const NotClaimed& each : claims().others) EXPECT_TRUE(has(each.from, each.quote)) << each.from << each.quote;
  if (papers == nullptr) std::printf("the papers' sentences: not compared, this tree has no shared/seeds\n");
}

// What is wrong with a row of claims.json; empty = nothing.
std::string fault_of(const Claim& claim) {
  if (claim.says.empty() || claim.quote.empty() || claim.command.empty()) return "says, quote or command is missing";
  const int ways = (claim.figure ? 1 : 0) + (claim.test.empty() ? 0 : 1) + (claim.why.empty() ? 0 : 1);
  if (ways != 1) return "it needs one of figure, test and why";
  if (!claim.figure) return {};
  const std::string& experiment = claim.figure->experiment;
  const bool in_model = experiment == "synthesis-rates" || experiment.starts_with("striping");
  if (in_model && claim.kind == ClaimKind::kTimed) return "it is modelled, and says nothing of it";
  if (!std::isfinite(claim.expected)) return "nothing is expected";
  if (claim.command.find("bonsai-bench experiment ") != 0) return "no command measures it";
  return {};
}

// The bounds of the project's goals are typed here a second time: they must be those of the page.
TEST(Claims, AboutGoalsHaveTheNumbersOfThePage) {
  const auto has = [](const std::string& text, double number) {
    return text.find(short_number(number)) != std::string::npos;
  };
  for (const Claim& claim : claims().claims) {
    if (claim.from != "docs/design.md" || !claim.figure || claim.bound == Claim::Bound::kAbout) continue;
    EXPECT_TRUE(has(claim.quote, claim.expected) || has(claim.quote, 100 * claim.expected))
        << claim.says << ": " << claim.expected << " is not in " << claim.quote;
  }
}

TEST(Claims, SayHowTheyAreShown) {
  std::set<std::string> seen;
  for (const Claim& claim : claims().claims) {
    EXPECT_EQ(fault_of(claim), "") << claim.says;
    EXPECT_TRUE(seen.insert(claim.from + claim.says).second) << "twice: " << claim.says;
  }
  Claim modelled{.says = "s", .from = "f", .quote = "q", .command = "bonsai-bench experiment x"};
  EXPECT_NE(fault_of(modelled), "");
  modelled.figure = ClaimedFigure{.experiment = "striping-scans"};
  EXPECT_NE(fault_of(modelled), "");
  modelled.kind = ClaimKind::kModelled;
  EXPECT_EQ(fault_of(modelled), "");
}

// ---- each row has its outcome

// A result with three rounds, whose mean ratio is about 2.
Json result_of_rounds(std::vector<double> ratios = {1.9, 2.0, 2.1}) {
  Json rows = Json::array();
  for (size_t i = 0; i < ratios.size(); ++i) {
    rows.push_back({{"line", "round " + std::to_string(i)}, {"ratio", ratios[i]}, {"low", 1.5}, {"high", 2.5}});
  }
  return {{"columns", {"line", "ratio", "low", "high"}},
          {"rows", rows},
          {"manifest", {{"commit", "abc"}, {"flags", {{"scale", "paper"}}}}}};
}

Claim made_up(Claim::Bound bound, double expected) {
  return {.says = "made up",
          .figure = ClaimedFigure{.experiment = "x", .columns = {"ratio"}, .row = {{"line", "round 1"}}},
          .bound = bound,
          .expected = expected};
}

Outcome outcome_of(const Claim& claim, const Json& result) {
  return judge(claim, [&](const std::string& name) { return name == "x" ? &result : nullptr; }).outcome;
}

TEST(Claims, HoldOrFail) {
  const Json result = result_of_rounds();
  using Bound = Claim::Bound;
  EXPECT_EQ(outcome_of(made_up(Bound::kAtLeast, 2), result), Outcome::kHolds);
  EXPECT_EQ(outcome_of(made_up(Bound::kAtLeast, 2.01), result), Outcome::kFails);
  EXPECT_EQ(outcome_of(made_up(Bound::kAtMost, 2), result), Outcome::kHolds);
  EXPECT_EQ(outcome_of(made_up(Bound::kAtMost, 1.99), result), Outcome::kFails);
  EXPECT_EQ(outcome_of(made_up(Bound::kAbout, 2.5), result), Outcome::kHolds) << "within a quarter";
  EXPECT_EQ(outcome_of(made_up(Bound::kAbout, 1.5), result), Outcome::kFails);
  EXPECT_EQ(outcome_of(made_up(Bound::kAbout, 2.7), result), Outcome::kFails);
}

TEST(Claims, AreUndecidedWithinTheInterval) {
  const Json result = result_of_rounds();
  Claim claim = made_up(Claim::Bound::kAtLeast, 1.6);
  claim.figure->low = "low";
  claim.figure->high = "high";
  EXPECT_EQ(outcome_of(claim, result), Outcome::kOpen) << "2 is above, 1.5 is not";
  claim.expected = 1.5;
  EXPECT_EQ(outcome_of(claim, result), Outcome::kHolds);
  claim.expected = 2.6;
  EXPECT_EQ(outcome_of(claim, result), Outcome::kFails);
  claim.bound = Claim::Bound::kAtMost;
  claim.expected = 2.4;
  EXPECT_EQ(outcome_of(claim, result), Outcome::kOpen);
  Claim median = made_up(Claim::Bound::kAtLeast, 1.9);
  median.figure->row.clear();
  median.figure->of = "median";
  EXPECT_EQ(outcome_of(median, result), Outcome::kOpen) << "three rounds that far apart do not show it";
  EXPECT_EQ(outcome_of(median, result_of_rounds({1.999, 2, 2.001})), Outcome::kHolds);
}

TEST(Claims, AreNotJudgedOnANoisyMachineOrByLessData) {
  Json result = result_of_rounds();
  Claim claim = made_up(Claim::Bound::kAtLeast, 3);
  result["manifest"]["noise"] = "12 % of the time was stolen";
  EXPECT_EQ(outcome_of(claim, result), Outcome::kNoisy);
  claim.kind = ClaimKind::kCounted;
  EXPECT_EQ(outcome_of(claim, result), Outcome::kFails) << "a count is the same on any machine";
  claim.full_size = true;
  EXPECT_EQ(outcome_of(claim, result), Outcome::kFails);
  result["manifest"]["flags"]["scale"] = "small";
  EXPECT_EQ(outcome_of(claim, result), Outcome::kLessData);
}

TEST(Claims, OfModelsAreNamedSo) {
  Json result = result_of_rounds();
  result["manifest"]["noise"] = "busy";
  Claim claim = made_up(Claim::Bound::kAtLeast, 3);
  claim.kind = ClaimKind::kModelled;
  EXPECT_EQ(outcome_of(claim, result), Outcome::kModelledFails);
  claim.expected = 1;
  EXPECT_EQ(outcome_of(claim, result), Outcome::kModelledHolds);
}

TEST(Claims, WithoutAResultAreNotMeasured) {
  const Json result = result_of_rounds();
  Claim claim = made_up(Claim::Bound::kAtLeast, 2);
  claim.figure->experiment = "y";
  EXPECT_EQ(outcome_of(claim, result), Outcome::kNotMeasured);
  claim = made_up(Claim::Bound::kAtLeast, 2);
  claim.figure->row["line"] = "round 9";
  EXPECT_EQ(outcome_of(claim, result), Outcome::kNotMeasured);
  claim = made_up(Claim::Bound::kAtLeast, 2);
  claim.figure->columns = {"nothing"};
  const Judged judged = judge(claim, [&](const std::string&) { return &result; });
  EXPECT_EQ(judged.outcome, Outcome::kNotMeasured);
  EXPECT_NE(judged.reason.find("no column 'nothing'"), std::string::npos);
  claim = made_up(Claim::Bound::kAtLeast, 2);
  claim.over = ClaimedFigure{.experiment = "y", .columns = {"ratio"}};
  EXPECT_EQ(outcome_of(claim, result), Outcome::kNotMeasured);
  claim.over->experiment = "x";
  claim.over->of = "first";
  const Judged quotient = judge(claim, [&](const std::string&) { return &result; });
  EXPECT_NEAR(*quotient.measured, 2 / 1.9, 1e-9);
  claim.why = "no counters";
  EXPECT_EQ(outcome_of(claim, result), Outcome::kUnmeasured);
  claim.why.clear();
  claim.test = "a_test";
  EXPECT_EQ(outcome_of(claim, result), Outcome::kByTest);
}

TEST(Claims, ChooseRowsAsTheySay) {
  const Json result = result_of_rounds({3, 1, 2});
  ClaimedFigure figure{.experiment = "x", .columns = {"ratio"}};
  for (const auto& [of, value] : {std::pair("last", 2.), {"first", 3.}, {"least", 1.}, {"most", 3.}, {"median", 2.}}) {
    figure.of = of;
    EXPECT_EQ(find_figure(result, figure).value, value) << of;
  }
  figure.columns = {"ratio", "low"};
  figure.of = "last";
  EXPECT_EQ(find_figure(result, figure).value, 3.5) << "the sum of both";
}

// ---- files and the page

TEST(Claims, LeaveEveryRowInItsFilesAndOnThePage) {
  const testing::ScratchFolder folder;
  const std::string directory = folder.file("out");
  std::vector<Judged> judged;
  ASSERT_TRUE(judge_claims(directory, &judged).ok());
  ASSERT_EQ(judged.size(), claims().claims.size());
  EXPECT_NE(tally(judged).find("not measured"), std::string::npos) << tally(judged);
  const Json json = Json::parse(text_of(directory + "/claims.json"));
  const PagePart* part = nullptr;
  for (const PagePart& each : Registered<PagePart>::all()) part = each.is_mine(json) ? &each : part;
  ASSERT_NE(part, nullptr) << "the report does not know them";
  EXPECT_EQ(part->place(json), 0U) << "they come first";
  const std::string page = part->section(json);
  for (const Judged& each : judged) {
    EXPECT_EQ(each.reason.empty(), each.outcome == Outcome::kHolds) << "nothing is here to be judged by";
    EXPECT_NE(page.find(std::string(outcome_name(each.outcome))), std::string::npos);
  }
  size_t rows = 0;
  for (size_t at = page.find("<tr>"); at != std::string::npos; at = page.find("<tr>", at + 1)) ++rows;
  EXPECT_EQ(rows, 1 + judged.size());
  std::ofstream(folder.file("taken")) << "a file";
  EXPECT_TRUE(judge_claims(folder.file("taken"), &judged).code() == Status::Code::kIoError);
}

TEST(Claims, ThatFailAreAtTheTopAndShownAsSuch) {
  Json json = {
      {"version", 1}, {"kind", "claims"}, {"name", "claims"}, {"title", "2 claims"}, {"claims", Json::array()}};
  for (const Outcome outcome : {Outcome::kHolds, Outcome::kFails}) {
    json["claims"].push_back({{"claim", "<" + std::string(outcome_name(outcome)) + ">"},
                              {"from", "f"},
                              {"command", "c"},
                              {"expected", "at least 2"},
                              {"origin", ""},
                              {"measured", 1.5},
                              {"low", 1.25},
                              {"high", 1.75},
                              {"outcome", outcome_name(outcome)},
                              {"reason", ""}});
  }
  const PagePart* part = nullptr;
  for (const PagePart& each : Registered<PagePart>::all()) part = each.is_mine(json) ? &each : part;
  ASSERT_NE(part, nullptr);
  const std::string page = part->section(json);
  EXPECT_LT(page.find("&lt;fails&gt;"), page.find("&lt;holds&gt;")) << page;
  EXPECT_NE(page.find("say bad\">fails"), std::string::npos);
  EXPECT_EQ(page.find("say bad\">holds"), std::string::npos);
  EXPECT_NE(page.find("1.5 (1.25 to 1.75)"), std::string::npos);
}

}  // namespace
}  // namespace bonsai::bench
