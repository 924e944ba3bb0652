// SPDX-License-Identifier: Apache-2.0
// The metrics of a store: names by the conventions of Prometheus, and values of the store.
#include <gtest/gtest.h>
#include <prometheus/check_names.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <memory>
#include <string>

#include "base/testing/temp_folder.h"
#include "bonsai/prometheus.h"

namespace bonsai::metrics {
namespace {

using Families = std::map<std::string, prometheus::MetricFamily>;

Families by_name(const prometheus::Collectable& source) {
  Families families;
  for (prometheus::MetricFamily& each : source.Collect()) {
    EXPECT_TRUE(prometheus::CheckMetricName(each.name)) << each.name;
    EXPECT_TRUE(each.help.ends_with(".")) << each.name;
    EXPECT_TRUE(families.emplace(each.name, std::move(each)).second) << "twice";
  }
  return families;
}

TEST(StoreMetrics, NamesEndInTheUnitAndTotal) {
  const std::map<std::string_view, std::string> expected = {{"puts", "bonsai_puts_total"},
                                                            {"log_bytes_used", "bonsai_log_used_bytes"},
                                                            {"stall_us", "bonsai_stall_seconds_total"},
                                                            {"window_us_max", "bonsai_window_max_seconds"},
                                                            {"user_bytes_written", "bonsai_user_written_bytes_total"},
                                                            {"dnodes", "bonsai_dnodes"}};
  size_t found = 0;
  for (const StatsField& field : kStatsFields) {
    double scale = 0;
    const std::string name = MetricName(field, &scale);
    EXPECT_EQ(name.ends_with("_total"), field.kind == StatsKind::kCounter) << name;
    EXPECT_EQ(scale, field.name.find("_us") + 3 == field.name.size() || field.name == "window_us_max" ? 1e-6 : 1)
        << name;
    if (const auto each = expected.find(field.name); each != expected.end()) {
      EXPECT_EQ(name, each->second);
      ++found;
    }
  }
  EXPECT_EQ(found, expected.size());
}

TEST(StoreMetrics, HaveTheStoresValuesAndLabels) {
  const auto scratch = testing::TempFolder::on_tmpfs();
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = uint64_t{4} << 20;
  std::unique_ptr<DB> db;
  ASSERT_EQ("OK", DB::Open(options, scratch.file("pool"), &db).ToString());
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(db->Put("key" + std::to_string(i), "value").ok());
  const Families families = by_name(StoreMetrics(db.get(), {{"pool", "fruit"}}));
  EXPECT_EQ(families.size(), std::size(kStatsFields) + 1) << "of groups there are none";
  const prometheus::MetricFamily& puts = families.at("bonsai_puts_total");
  EXPECT_EQ(puts.type, prometheus::MetricType::Counter);
  EXPECT_EQ(puts.metric.at(0).counter.value, 7);
  EXPECT_EQ(puts.metric.at(0).label.at(0).value, "fruit");
  EXPECT_EQ(families.at("bonsai_pool_bytes").metric.at(0).gauge.value, 4 << 20);
  const prometheus::MetricFamily& info = families.at("bonsai_store_info");
  EXPECT_EQ(info.metric.at(0).label.size(), 3u);
  EXPECT_EQ(info.metric.at(0).label.at(1).value, db->GetStats().medium);
}

}  // namespace
}  // namespace bonsai::metrics
