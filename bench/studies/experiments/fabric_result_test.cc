// SPDX-License-Identifier: Apache-2.0
// The table, the charts and the labels of the experiment `fabric`, of figures that are made up.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/report/testing/count.h"
#include "bench/studies/experiments/fabric.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;
using rdma::Verb;

FabricFigures made_up() {
  const FabricProvider* const verbs = find_fabric_provider("verbs");
  const FabricProvider* const shm = find_fabric_provider("shm");
  FabricFigures figures;
  figures.subjects = {{verbs, "verbs, rxe0", "SOFTWARE <RDMA>", "lost additions 0 of 5"},
                      {shm, "shared memory", "NO NETWORK", ""}};
  figures.rows = {
      {verbs, {Verb::kRead, 64, 1, 1}, {{10, 20, 900, {}}, {12, 30, 800, {}}, {11, 25, 850, {}}}, {8, 9, 10}},
      {verbs, {Verb::kWrite, 64, 1, 1}, {{10, 20, 900, 5.0}}, {5}},
      {verbs, {Verb::kRead, 64, 1, 16}, {{100, 200, 4000, {}}}, {8000}},
      {verbs, {Verb::kRead, 512, 1, 1}, {{13, 20, 700, {}}}, {}},
      {shm, {Verb::kRead, 64, 1, 1}, {{1, 2, 9e6, {}}}, {}}};
  figures.notes = {"ib_read_lat, READ 512 B: made up"};
  return figures;
}

Json json_of(const FabricConfig& config, const FabricFigures& figures) {
  return experiment_json(*find_experiments("fabric").at(0), fabric_result(config, figures), Manifest());
}

TEST(FabricResult, ComparesTimesAndRates) {
  const Json json = json_of({}, made_up());
  const Json& rows = json.at("rows");
  EXPECT_EQ(rows[0].at("provider"), "verbs");
  EXPECT_EQ(rows[0].at("request"), "READ");
  EXPECT_EQ(rows[0].at("p50_us"), 11);
  EXPECT_EQ(rows[0].at("p50_us_least"), 10);
  EXPECT_EQ(rows[0].at("p50_us_most"), 12);
  EXPECT_EQ(rows[0].at("messages_per_s_least"), 800);
  EXPECT_EQ(rows[0].at("messages_per_s_most"), 900);
  EXPECT_EQ(rows[0].at("perftest"), "ib_read_lat");
  EXPECT_EQ(rows[0].at("perftest_us"), 9);
  EXPECT_NEAR(rows[0].at("ratio").get<double>(), 11.0 / 9, 1e-9);
  EXPECT_NEAR(rows[0].at("ratio_least").get<double>(), 10.0 / 9, 1e-9);
  EXPECT_NEAR(rows[0].at("ratio_most").get<double>(), 12.0 / 9, 1e-9);
  EXPECT_EQ(rows[0].at("goal"), 1.3);
  EXPECT_EQ(rows[0].at("reached"), "yes");
  EXPECT_EQ(rows[1].at("time_us"), 5) << "one way";
  EXPECT_EQ(rows[1].at("ratio"), 1) << "one way is compared with one way";
  EXPECT_EQ(rows[2].at("perftest_messages_per_s"), 8000);
  EXPECT_EQ(rows[2].at("ratio"), 0.5);
  EXPECT_EQ(rows[2].at("goal"), 0.8);
  EXPECT_EQ(rows[2].at("reached"), "no") << "half the rate";
  EXPECT_EQ(rows[2].at("time_us"), nullptr) << "a time of a queue";
  EXPECT_EQ(rows[2].at("in_flight"), 16);
  EXPECT_EQ(rows[4].at("ratio"), nullptr);
  EXPECT_TRUE(json.at("absent").empty()) << json.at("absent");
}

TEST(FabricResult, ChartsTimesBySizeAndRatesByRequestsInFlight) {
  const Json json = json_of({}, made_up());
  const Json& charts = json.at("charts");
  ASSERT_EQ(charts.size(), 4U) << "two of each provider";
  EXPECT_EQ(charts[0].at("rows"), Json::parse("[0,1,3]")) << "alone, in each size";
  EXPECT_EQ(charts[1].at("rows"), Json::parse("[0,1,2]")) << "in the smallest size";
  EXPECT_EQ(charts[2].at("rows"), Json::parse("[4]"));
  EXPECT_EQ(charts[1].at("axis"), "in_flight");
  const std::string picture = experiment_svg(json);
  for (const char* text : {">verbs: time of one request; dashed: perftest<", ">shm: requests per second<", ">512<",
                           ">requests in flight<", ">READ<", ">WRITE<"}) {
    EXPECT_GE(count(picture, text), 1U) << text << " in " << picture;
  }
  EXPECT_EQ(count(picture, "stroke-dasharray"), 3U) << "perftest's times of READ and WRITE, its rate of READ";
}

TEST(FabricResult, SaysWhatAReaderMustKnow) {
  FabricConfig config;
  config.runs = 3;
  const std::string section = experiment_section(json_of(config, made_up()));
  for (const char* text : {"verbs: SOFTWARE &lt;RDMA&gt; (verbs, rxe0); litmus tests: lost additions 0 of 5<br>",
                           "shm: NO NETWORK (shared memory)<br>", "Medians of 3 runs", "waits: poll",
                           "2 of 3 cells are within the goal", "READ 512 B: made up"}) {
    EXPECT_EQ(count(section, text), 1U) << text << " in " << section;
  }
}

TEST(FabricResult, ExplainsWhatIsMissing) {
  FabricFigures figures = made_up();
  figures.rows.erase(figures.rows.begin(), figures.rows.begin() + 4);
  figures.subjects.erase(figures.subjects.begin());
  FabricConfig config;
  config.blocks = true;
  Json json = json_of(config, figures);
  EXPECT_EQ(json.at("absent").at("one_way_us"), "only WRITE and SEND alone are timed one way");
  for (const char* column : {"perftest_us", "perftest_messages_per_s", "ratio", "perftest", "goal", "reached"}) {
    EXPECT_NE(json.at("absent").value(column, "").find("needs an RDMA device"), std::string::npos) << column;
  }
  EXPECT_NE(json.at("labels").dump().find("waits: block"), std::string::npos);
  EXPECT_NE(json.at("labels").dump().find("No comparison with perftest."), std::string::npos);
  FabricFigures alone = made_up();
  alone.rows.resize(2);
  EXPECT_EQ(json_of(config, alone).at("absent").at("perftest_messages_per_s"), "perftest measured no such cell");
  config.perftest = false;
  EXPECT_NE(json_of(config, figures).at("absent").at("ratio").get<std::string>().find("not asked for"),
            std::string::npos);
}

}  // namespace
}  // namespace bonsai::bench
