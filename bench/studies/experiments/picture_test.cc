// SPDX-License-Identifier: Apache-2.0
// Tests of an experiment's pictures: curves or bars, logarithmic axes where figures are far apart, missing figures, and
// references.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "bench/report/testing/count.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/testing/experiment.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(
    const ExperimentResult& result, Reference (*reference)() = [] { return Reference(); }) {
  Experiment made_up = experiment();
  made_up.reference = reference;
  return experiment_json(made_up, result, Manifest());
}

// Rows (x, y) of one series.
ExperimentResult rows_of(const std::vector<std::pair<double, std::optional<double>>>& rows) {
  ExperimentResult result{
      .columns = {{"thread", "threads"}, {"ours", "Mop/s", true}}, .rows = {}, .labels = {}, .medium = {}};
  for (const auto& [x, y] : rows) result.rows.push_back({x, y});
  return result;
}

// The x of each point of the curve, from left to right.
std::vector<double> places_of(const std::string& svg) {
  std::vector<double> places;
  const std::regex curve("<polyline points=\"([^\"]*)\"");
  std::smatch found;
  if (!std::regex_search(svg, found, curve)) return places;
  const std::string points = found[1];
  const std::regex point("([0-9.-]+),([0-9.-]+)");
  for (std::sregex_iterator at(points.begin(), points.end(), point), end; at != end; ++at) {
    places.push_back(std::stod((*at)[1]));
  }
  return places;
}

TEST(Picture, HasACurveForEachSeriesThatHasFigures) {
  ExperimentResult result = rows_of({{1, 2}, {2, 3}, {4, 5}});
  EXPECT_EQ(count(experiment_svg(json_of(result)), "class=\"curve\""), 1U);
  result.columns.push_back({"theirs", "Mop/s", true});
  for (Row& row : result.rows) row.emplace_back(1);
  EXPECT_EQ(count(experiment_svg(json_of(result)), "class=\"curve\""), 2U);
  result.columns.push_back({"nobody's", "Mop/s", true, "not built"});
  for (Row& row : result.rows) row.emplace_back();
  const std::string picture = experiment_svg(json_of(result));
  EXPECT_EQ(count(picture, "class=\"curve\""), 2U);
  EXPECT_EQ(count(picture, ">nobody&#39;s") + count(picture, ">nobody's \xe2\x80\x93 not measured<"), 1U) << picture;
  for (const char* key : {"strong\">1<", "strong\">2<", "strong\">3<"}) EXPECT_EQ(count(picture, key), 1U) << key;
}

TEST(Picture, SpreadsPlacesThatAreFarApartByTheirLogarithm) {
  const std::vector<double> near = places_of(experiment_svg(json_of(rows_of({{1, 1}, {2, 1}, {3, 1}}))));
  ASSERT_EQ(near.size(), 3U);
  EXPECT_NEAR(near[1] - near[0], near[2] - near[1], 0.2) << "in proportion";
  const std::vector<double> far = places_of(experiment_svg(json_of(rows_of({{16, 1}, {1024, 1}, {65536, 1}}))));
  ASSERT_EQ(far.size(), 3U);
  EXPECT_NEAR(far[1] - far[0], far[2] - far[1], 0.2) << "each 64 times the one before";
}

TEST(Picture, StandsOddFigures) {
  const std::vector<std::pair<const char*, ExperimentResult>> odd = {
      {"one row", rows_of({{1, 5}})},
      {"a figure of zero", rows_of({{1, 0}, {2, 0}})},
      {"figures below zero", rows_of({{1, -3}, {2, 4}})},
      {"gaps", rows_of({{1, {}}, {2, 1}, {3, {}}, {4, 2}})},
      {"no figure at all", rows_of({{1, {}}, {2, {}}})},
      {"far apart", rows_of({{1, 1e-9}, {2, 1e9}})},
      {"places of zero", rows_of({{0, 1}, {0.5, 2}})}};
  for (const auto& [what, result] : odd) {
    const std::string picture = experiment_svg(json_of(result));
    for (const char* wrong : {"nan", "inf", "-nan"}) EXPECT_EQ(count(picture, wrong), 0U) << what << "\n" << picture;
    EXPECT_EQ(count(picture, "<svg"), 1U) << what;
    EXPECT_EQ(count(picture, "</svg>"), 1U) << what;
    const std::string section = experiment_section(json_of(result));
    EXPECT_EQ(count(section, "<tr>"), 1 + result.rows.size()) << what;
  }
}

TEST(Picture, ShowsWhatItIsComparedWith) {
  const ExperimentResult result = rows_of({{1, 2}, {2, 3}});
  EXPECT_EQ(count(experiment_svg(json_of(result)), "on other hardware"), 0U) << "nothing to compare with";
  const Json published = json_of(result, [] { return Reference{{"thread", "ours"}, {{1, 4}, {2, 5}}}; });
  EXPECT_EQ(count(experiment_svg(published), ">Published, on other hardware<"), 1U);
  EXPECT_EQ(count(experiment_section(published), "<b>Published figures (seed 0), measured on other hardware</b>"), 1U);
  const Json goals = json_of(result, [] {
    return Reference{{"thread", "ours"}, {{1, 4}, {2, 5}}, ReferenceKind::kGoals};
  });
  EXPECT_EQ(count(experiment_svg(goals), ">Goals<"), 1U);
  EXPECT_EQ(count(experiment_section(goals), "<b>Goals (seed 0)</b>"), 1U);
  EXPECT_EQ(count(experiment_section(goals), "<table>"), 2U);
}

TEST(Picture, OfNamedRowsHasABarForEach) {
  ExperimentResult result{
      .columns = {{"line", "", false, {}, {"Load", "A", "B"}}, {"ours", "Mop/s", true}, {"theirs", "Mop/s", true}},
      .rows = {{0, 1, 2}, {1, 3, {}}, {2, 5, 6}},
      .labels = {},
      .medium = {}};
  const std::string picture = experiment_svg(json_of(result));
  EXPECT_EQ(count(picture, "class=\"bar\""), 5U) << picture;
  EXPECT_EQ(count(picture, "class=\"curve\""), 0U);
  for (const char* name : {">Load<", ">A<", ">B<"}) EXPECT_EQ(count(picture, name), 1U) << name;
  for (const char* series : {">ours<", ">theirs<"})
    EXPECT_EQ(count(picture, series), 3U) << "a bar has its series' name";
}

TEST(Picture, BringsOutTheBarsOfBonsai) {
  ExperimentResult result{
      .columns = {{"line", "", false, {}, {"Load", "A"}}, {"RACE-like", "Mop/s", true}, {"Bonsai (D)", "Mop/s", true}},
      .rows = {{0, 1, 2}, {1, 3, 4}},
      .labels = {},
      .medium = {}};
  const std::string picture = experiment_svg(json_of(result));
  const std::regex filled("fill=\"var\\(--c([0-9])\\)\"><title>([^<]*)");
  std::vector<std::string> tips;
  for (std::sregex_iterator at(picture.begin(), picture.end(), filled), end; at != end; ++at) tips.push_back((*at)[2]);
  EXPECT_EQ(tips, (std::vector<std::string>{"Load, Bonsai (D)", "A, Bonsai (D)"})) << picture;
}

TEST(Picture, NamesItsAxis) {
  const auto title_of = [](const char* column, const char* unit) {
    ExperimentResult result = rows_of({{1, 2}, {2, 3}});
    result.columns[0] = {column, unit};
    const std::string picture = experiment_svg(json_of(result, [] { return Reference(); }));
    const std::regex title("small middle\">([^<]*)<");
    std::smatch found;
    return std::regex_search(picture, found, title) ? std::string(found[1]) : std::string();
  };
  EXPECT_EQ(title_of("thread", "threads"), "threads");
  EXPECT_EQ(title_of("threads", "threads"), "threads");
  EXPECT_EQ(title_of("operations in flight", "operations"), "operations in flight");
  EXPECT_EQ(title_of("fill", "%"), "fill (%)");
  EXPECT_EQ(title_of("line", ""), "line");
}

TEST(Picture, KeepsWarningsApartFromNotes) {
  ExperimentResult result = rows_of({{1, 2}});
  result.labels = {"MODELLED in virtual time", "YCSB-C, zipfian", "CONCLUSION, C: one above another",
                   "NOT JUDGED: noisy"};
  const std::string section = experiment_section(json_of(result));
  EXPECT_EQ(count(section, "<div class=\"label\">MODELLED in virtual time<br>NOT JUDGED: noisy<br></div>"), 1U)
      << section;
  EXPECT_EQ(count(section, "<li>"), 2U);
  result.labels = {"YCSB-C"};
  EXPECT_EQ(count(experiment_section(json_of(result)), "class=\"label\""), 0U) << "an empty box";
}

// A result with `rows` named rows of series with these units; each figure is the number of its row.
ExperimentResult named(size_t rows, const std::vector<std::string>& units, bool same_names = false) {
  ExperimentResult result{
      .columns = {{"line", "", false, {}, {}}, {"size", "KiB"}}, .rows = {}, .labels = {}, .medium = {}};
  for (size_t i = 0; i < rows; ++i) result.columns[0].words.push_back(same_names ? "same" : "row " + std::to_string(i));
  for (size_t s = 0; s < units.size(); ++s) result.columns.push_back({"s" + std::to_string(s), units[s], true});
  for (size_t i = 0; i < rows; ++i) {
    result.rows.push_back({static_cast<double>(i), static_cast<double>(i + 7)});
    result.rows.back().resize(2 + units.size(), static_cast<double>(i + 1));
  }
  return result;
}

TEST(Picture, TablesHaveUnitsAndFitThePage) {
  ExperimentResult wide = named(3, std::vector<std::string>(12, "M/s"));
  const std::string lying = experiment_section(json_of(wide));
  EXPECT_EQ(count(lying, "<tr>"), 1 + 1 + 12U) << "a row for each column";
  EXPECT_EQ(count(lying, "s3 <span class=\"unit\">M/s</span>"), 1U);
  const std::string upright = experiment_section(json_of(named(20, std::vector<std::string>(12, "M/s"))));
  EXPECT_EQ(count(upright, "<tr>"), 2 * (1 + 20U)) << "thirteen columns, eight of them in a table";
  EXPECT_EQ(count(upright, "<td>row 7</td>"), 2U) << "each with the names of the rows";
  EXPECT_EQ(count(upright, "s3 <span class=\"unit\">M/s</span>"), 1U);
}

size_t charts_of(const ExperimentResult& result) { return count(experiment_svg(json_of(result)), "class=\"strong\""); }

TEST(Picture, SeriesShareAChartIfTheyCanBeComparedAndItIsNotTooLong) {
  EXPECT_EQ(charts_of(named(9, {"M/s", "M/s", "M/s"})), 1U);
  EXPECT_EQ(charts_of(named(3, {"M/s", "s"})), 2U) << "one of each unit";
  EXPECT_EQ(charts_of(named(3, {"", "", ""})), 3U) << "no units";
  EXPECT_EQ(charts_of(named(20, {"M/s", "M/s"})), 2U) << "long: one of each series";
  EXPECT_EQ(charts_of(named(20, {"M/s", "M/s", "M/s", "M/s", "M/s"})), 20U) << "many series: one of each row";
}

TEST(Picture, EveryBarStatesItsRowAndItsSeries) {
  for (const size_t rows : {size_t{3}, size_t{20}}) {
    const std::string picture = experiment_svg(json_of(named(rows, {"M/s", "M/s", "M/s", "M/s", "M/s"})));
    for (const char* tip : {">row 2, s0<", ">row 2, s4<"}) EXPECT_EQ(count(picture, tip), 1U) << rows << ": " << tip;
  }
}

TEST(Picture, SeriesWithoutFiguresHaveNoChart) {
  ExperimentResult result = named(3, {"", ""});
  for (Row& row : result.rows) row[3] = {};
  result.rows[1][2] = {};
  EXPECT_EQ(charts_of(result), 1U);
  EXPECT_EQ(count(experiment_svg(json_of(result)), ">row 1<"), 0U) << "a row without a figure";
  for (Row& row : result.rows) row[2] = {};
  EXPECT_EQ(count(experiment_section(json_of(result)), "<figure"), 0U);
  EXPECT_EQ(count(experiment_section(json_of(result)), "<table>"), 1U);
}

TEST(Picture, RowsOfOneNameGetTheNextColumnToo) {
  const std::string picture = experiment_svg(json_of(named(2, {"M/s"}, true)));
  for (const char* name : {">same, 7<", ">same, 8<"}) EXPECT_EQ(count(picture, name), 1U) << picture;
}

// Rows of two kinds, and charts of the first four and the last four.
ExperimentResult with_charts() {
  ExperimentResult result{.columns = {{"kind", "", false, {}, {"one", "two"}},
                                      {"size", "bytes"},
                                      {"ours", "us", true},
                                      {"theirs", "us", true}},
                          .rows = {{0, 4096, 3, {}}, {0, 8, 1, 2}, {0, 64, 2, 4}, {1, 8, 5, {}}, {1, 64, {}, {}}},
                          .labels = {},
                          .medium = {}};
  result.charts = {{"First <four>", "size", "kind", "ours", "theirs", {0, 1, 2, 3}},
                   {"Last four", "size", "kind", "ours", "theirs", {1, 2, 3, 4}}};
  return result;
}

TEST(Picture, HasTheChartsThatTheExperimentDescribes) {
  const std::string picture = experiment_svg(json_of(with_charts()));
  EXPECT_EQ(count(picture, ">First &lt;four&gt;<"), 1U) << picture;
  EXPECT_EQ(count(picture, ">Last four<"), 1U);
  EXPECT_EQ(count(picture, "class=\"curve\""), 6U) << "two of ours and one of theirs in each";
  EXPECT_EQ(count(picture, "stroke-dasharray"), 2U) << "theirs";
  EXPECT_EQ(count(picture, "class=\"bar\""), 0U);
  const std::vector<double> places = places_of(picture);
  ASSERT_EQ(places.size(), 3U) << "of one, from left to right";
  EXPECT_NEAR(places[1] - places[0], places[2] - places[1], 0.2) << "evenly spaced";
  EXPECT_GT(places[1], places[0]);
}

TEST(Picture, StandsChartsOfOddFigures) {
  ExperimentResult odd = with_charts();
  for (Row& row : odd.rows) row[2] = row[2] ? std::optional(0.0) : std::nullopt;
  odd.charts[1].rows = {};
  odd.charts.push_back({"One", "size", "kind", "ours", "theirs", {0}});
  const std::string picture = experiment_svg(json_of(odd));
  for (const char* wrong : {"nan", "inf"}) EXPECT_EQ(count(picture, wrong), 0U) << picture;
  Json older = json_of(odd);
  older.erase("charts");  // as before there were any
  EXPECT_GT(count(experiment_svg(older), "class=\"bar\""), 0U);
}

TEST(Picture, ReasonsStandOnce) {
  ExperimentResult result = rows_of({{1, 2}});
  for (const char* name : {"x", "y"}) result.columns.push_back({name, "J", true, "no counter"});
  result.rows[0].resize(4);
  EXPECT_EQ(count(experiment_section(json_of(result)), " x, y: no counter."), 1U);
}

TEST(CellText, IsWordNumberOrDash) {
  const Column plain{"figure", "unit"}, words{"word", "", false, {}, {"no", "yes"}};
  EXPECT_EQ(cell_text(plain, {}), "-");
  EXPECT_EQ(cell_text(words, {}), "-");
  EXPECT_EQ(cell_text(words, 1), "yes");
  for (const auto& [figure, text] : std::vector<std::pair<double, const char*>>{{0, "0"},
                                                                                {1, "1"},
                                                                                {1234.5, "1234"},
                                                                                {12345, "12345"},
                                                                                {-32768, "-32768"},
                                                                                {12345.5, "1.235e+04"},
                                                                                {1e6, "1e+06"},
                                                                                {0.00012345, "0.0001234"},
                                                                                {-2.5, "-2.5"}}) {
    EXPECT_EQ(cell_text(plain, figure), text);
  }
}

// JSON that is_experiment() accepts must not break the page.
TEST(IsExperiment, RefusesWhatLacksAPart) {
  const Json whole = json_of(rows_of({{1, 2}}));
  ASSERT_TRUE(is_experiment(whole));
  for (const char* part :
       {"version", "name", "manifest", "absent", "labels", "columns", "charted", "rows", "reference"}) {
    Json broken = whole;
    broken.erase(part);
    EXPECT_FALSE(is_experiment(broken)) << part;
    if (std::string(part) == "name" || std::string(part) == "manifest" || std::string(part) == "absent") continue;
    broken[part] = "text";
    EXPECT_FALSE(is_experiment(broken)) << part << " of another type";
  }
  for (const char* other : {"null", "1", "\"text\"", "[]", "{}", "[{}]"}) {
    EXPECT_FALSE(is_experiment(Json::parse(other))) << other;
  }
}

}  // namespace
}  // namespace bonsai::bench
