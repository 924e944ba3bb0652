// SPDX-License-Identifier: Apache-2.0
#include "bench/report/charts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "bench/report/testing/count.h"

namespace bonsai::bench {
namespace {

TEST(Svg, EscapesWhatPeopleWrite) {
  EXPECT_EQ(escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
  Svg svg(10, 10, "<label>");
  svg.text(1, 2.25, "1 < 2", "class=\"x\"");
  svg.rect(0, 0, 5, 5, "class=\"bar\"", "tip & more");
  const std::string text = svg.element();
  EXPECT_NE(text.find("aria-label=\"&lt;label&gt;\""), std::string::npos) << text;
  EXPECT_NE(text.find("<text x=\"1\" y=\"2.2\" class=\"x\">1 &lt; 2</text>"), std::string::npos) << text;
  EXPECT_NE(text.find("<title>tip &amp; more</title></rect>"), std::string::npos) << text;
  EXPECT_EQ(text.find("<style>"), std::string::npos);
  EXPECT_NE(svg.file().find("<style>"), std::string::npos) << "a file has its own colours";
}

TEST(ShortNumber, KeepsThreeDigits) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(0.0123), "0.0123");
  EXPECT_EQ(short_number(7.254), "7.25");
  EXPECT_EQ(short_number(999.4), "999");
  EXPECT_EQ(short_number(999.9), "1 k");
  EXPECT_EQ(short_number(1234567), "1.23 M");
  EXPECT_EQ(short_number(5e9), "5 G");
}

TEST(BarChart, DrawsABarOrADashPerRow) {
  const std::string chart = bar_chart("t", {{.label = "fast", .colour = 0, .value = 4e6},
                                            {.label = "slow", .colour = 1, .outlined = true, .value = 2e6},
                                            {.label = "none", .colour = 2, .absent = "has no scan"}})
                                .element();
  EXPECT_EQ(count(chart, "class=\"bar\""), 2U) << chart;
  EXPECT_EQ(count(chart, "\xe2\x80\x93 has no scan"), 1U) << chart;
  EXPECT_EQ(count(chart, "fill-opacity"), 1U) << chart;
  // The longest bar fills the room, the other half of it.
  EXPECT_NE(chart.find("width=\"178\" height=\"15\""), std::string::npos) << chart;
  EXPECT_NE(chart.find("width=\"89\" height=\"15\""), std::string::npos) << chart;
}

TEST(BarChart, ShowsTheSpread) {
  const std::string chart = bar_chart("t", {{.label = "x", .value = 2, .spread = {{1, 4}}}}).element();
  EXPECT_EQ(count(chart, "spread"), 1U);
  EXPECT_NE(chart.find("x1=\"148.5\""), std::string::npos) << chart;
  EXPECT_NE(chart.find("x2=\"282\""), std::string::npos) << chart;
}

TEST(BarChart, IsAsWideAsItsLabelsNeed) {
  const Svg usual = bar_chart("t", {{.label = "fast", .value = 1}});
  const Svg wide = bar_chart("t", {{.label = "what is said at some length", .value = 1}});
  EXPECT_GT(wide.width(), usual.width() + 60);
  EXPECT_EQ(wide.height(), usual.height());
}

TEST(BarChart, HasHeadingsForBarsThatBelongTogether) {
  const std::string chart =
      bar_chart("t", {{.label = "a row of some length that needs no room for its name", .heading = true},
                      {.label = "ours", .value = 1},
                      {.label = "theirs", .outlined = true, .value = 2}})
          .element();
  EXPECT_EQ(count(chart, "class=\"bar\""), 2U);
  EXPECT_EQ(count(chart, "class=\"strong head\">a row"), 1U) << chart;
  EXPECT_EQ(bar_chart("t", {{.label = "a long heading over short bars", .heading = true}}).width(),
            bar_chart("t", {{.label = "x", .value = 1}}).width());
}

TEST(BarChart, StandsZeroAndNothing) {
  EXPECT_EQ(count(bar_chart("t", {{.label = "x", .value = 0}}).element(), "class=\"bar\""), 1U);
  EXPECT_EQ(count(bar_chart("t", {}).element(), "class=\"bar\""), 0U);
}

TEST(MemoryChart, StacksDramAndNvmAndSaysWhoDoesNotTell) {
  const std::string chart =
      memory_chart(
          "t",
          {{"ours", 5, 25, ""}, {"volatile", 20, {}, ""}, {"file", {}, 40, ""}, {"mute", {}, {}, "does not report"}},
          16)
          .element();
  EXPECT_EQ(count(chart, "class=\"stack\""), 4U) << chart;
  EXPECT_EQ(count(chart, "does not report"), 1U);
  EXPECT_EQ(count(chart, ">30</text>"), 1U) << "the sum";
  EXPECT_EQ(count(chart, ">40 + ?</text>"), 1U) << "DRAM unknown";
  EXPECT_EQ(count(chart, "keys and values: 16"), 1U);
}

TEST(MemoryChart, SaysNothingOfUserBytesThatAreNotKnown) {
  const std::string chart = memory_chart("t", {{"ours", 5, 25, ""}}, std::nullopt).element();
  EXPECT_EQ(count(chart, "keys and values"), 0U) << chart;
  EXPECT_EQ(count(chart, "class=\"stack\""), 2U) << chart;
}

TEST(LineChart, KeepsNamesApart) {
  LineChart chart;
  chart.y_log = true;
  chart.x_max = 2;
  chart.x_ticks = {{0, "0"}, {1, "90"}, {2, "99"}};
  for (int i = 0; i < 6; ++i)
    chart.curves.push_back({"name" + std::to_string(i), i, false, {{0, 1}, {2, 5 + i * 0.01}}});
  const std::string text = line_chart(chart).element();
  std::vector<double> places;
  for (int i = 0; i < 6; ++i) {
    const size_t name = text.find(">name" + std::to_string(i) + "<");
    ASSERT_NE(name, std::string::npos);
    places.push_back(std::stod(text.substr(text.rfind("y=\"", name) + 3)));
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) EXPECT_GE(places[i] - places[i - 1], 12.9);
  EXPECT_EQ(count(text, "class=\"curve\""), 6U);
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
}

TEST(LineChart, HasAnAxisForWhatIsBelowZero) {
  LineChart chart;
  chart.x_max = 2;
  chart.curves = {{"A", 0, false, {{1, -21}, {2, 3}}}};
  const std::string picture = line_chart(chart).element();
  for (const char* tick : {">-25<", ">-20<", ">-5<", ">0<", ">5<"}) EXPECT_EQ(count(picture, tick), 1U) << picture;
}

TEST(LineChart, NamesNoTwoTicksInOnePlace) {
  LineChart chart;
  chart.x_max = 1024;
  for (const int at : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
    chart.x_ticks.push_back({static_cast<double>(at), std::to_string(at) + " k"});
  }
  chart.curves = {{"A", 0, false, {{1, 1}, {1024, 3}}}};
  const std::string picture = line_chart(chart).element();
  EXPECT_EQ(count(picture, "class=\"grid\""), 11U + 6U) << "each has its line";
  for (const char* there : {">1 k<", ">256 k<", ">512 k<", ">1024 k<"}) EXPECT_EQ(count(picture, there), 1U) << there;
  for (const char* crowded : {">2 k<", ">4 k<", ">32 k<"}) EXPECT_EQ(count(picture, crowded), 0U) << crowded;
}

TEST(LineChart, StandsCurvesWithoutPoints) {
  LineChart chart;
  chart.x_max = 1;
  chart.curves = {{"empty", 0, false, {}}};
  EXPECT_EQ(line_chart(chart).element().find("inf"), std::string::npos);
}

}  // namespace
}  // namespace bonsai::bench
