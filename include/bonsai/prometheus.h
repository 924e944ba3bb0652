// SPDX-License-Identifier: Apache-2.0
// The metrics of an open store for prometheus-cpp, which a program that includes this header links: Debian's
// prometheus-cpp-dev, `pkg-config --libs prometheus-cpp-core`. libbonsai.so does not need it.
//
//   auto metrics = std::make_shared<bonsai::StoreMetrics>(db.get());
//   prometheus::Exposer exposer("127.0.0.1:9121");
//   exposer.RegisterCollectable(metrics);
//
// docs/metrics.md lists them. A scrape costs what DB::GetStats() and GetGroups() cost, and no operation waits for it.
#ifndef BONSAI_PROMETHEUS_H_
#define BONSAI_PROMETHEUS_H_

#include "bonsai/cxx20.h"
// First the check of the standard: the headers of prometheus-cpp may be missing.
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bonsai/db.h"
#include "bonsai/groups.h"
#include "bonsai/stats_fields.h"

namespace bonsai {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// A family without samples.
[[nodiscard]] inline prometheus::MetricFamily MakeMetric(StatsKind kind, std::string_view name, std::string_view help) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = kind == StatsKind::kCounter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  return family;
}

// One more sample of a counter or gauge.
inline void AddSample(prometheus::MetricFamily* family, MetricLabels labels, double value) {
  prometheus::ClientMetric sample;
  sample.label = std::move(labels);
  (family->type == prometheus::MetricType::Counter ? sample.counter.value : sample.gauge.value) = value;
  family->metric.push_back(std::move(sample));
}

// The name of a field by the conventions of Prometheus: base units, the unit at the end, `_total` behind a counter.
// log_bytes_used: bonsai_log_used_bytes; stall_us: bonsai_stall_seconds_total. *scale: of a value in base units.
[[nodiscard]] inline std::string MetricName(const StatsField& field, double* scale) {
  std::string name = "bonsai_" + std::string(field.name);
  *scale = 1;
  if (const size_t us = name.find("_us"); us != std::string::npos && (us + 3 == name.size() || name[us + 3] == '_')) {
    name = name.erase(us, 3) + "_seconds";
    *scale = 1e-6;
  }
  if (const size_t bytes = name.find("_bytes_"); bytes != std::string::npos) name = name.erase(bytes, 6) + "_bytes";
  return field.kind == StatsKind::kCounter ? name + "_total" : name;
}

// Thread-safety: all methods. Requires: the store outlives it, and is open when it is asked.
class StoreMetrics : public prometheus::Collectable {
 public:
  // `labels`: of all samples, to tell the stores of a process apart.
  explicit StoreMetrics(const DB* db, MetricLabels labels = {}) : db_(*db), labels_(std::move(labels)) {}

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    AddStats(&families);
    AddGroups(&families);
    return families;
  }

 private:
  [[nodiscard]] MetricLabels With(MetricLabels more) const {
    more.insert(more.begin(), labels_.begin(), labels_.end());
    return more;
  }

  void AddStats(std::vector<prometheus::MetricFamily>* families) const {
    const Stats stats = db_.GetStats();
    families->push_back(MakeMetric(StatsKind::kGauge, "bonsai_store_info",
                                   "1. The labels say where the bytes are, and how they become durable."));
    AddSample(&families->back(), With({{"medium", stats.medium}, {"emulated", stats.emulated ? "yes" : "no"}}), 1);
    for (const StatsField& field : kStatsFields) {
      double scale = 1;
      const std::string name = MetricName(field, &scale);
      families->push_back(MakeMetric(field.kind, name, field.help));
      AddSample(&families->back(), With({}), static_cast<double>(stats.*field.member) * scale);
    }
  }

  void AddGroups(std::vector<prometheus::MetricFamily>* families) const {
    static constexpr std::pair<MemberState, std::string_view> kStates[] = {{MemberState::kInSync, "in sync"},
                                                                           {MemberState::kAway, "away"},
                                                                           {MemberState::kJoining, "joining"},
                                                                           {MemberState::kOut, "out"}};
    const std::vector<GroupInfo> groups = GetGroups(db_);
    if (groups.empty()) return;
    using Family = prometheus::MetricFamily;
    const auto gauge = [](std::string_view name, std::string_view help) {
      return MakeMetric(StatsKind::kGauge, name, help);
    };
    Family needed = gauge("bonsai_group_replicas_min", "Each acknowledged update is on so many members at least.");
    Family epoch = gauge("bonsai_group_epoch", "Epoch of the owner of the group; it grows with each opening.");
    Family page = gauge("bonsai_group_page", "Version of the page that says which members are in sync.");
    Family bytes = gauge("bonsai_group_bytes", "Size of each member.");
    Family state =
        gauge("bonsai_group_member_state", "1 for the state that the member, or the witness, is in, 0 for the others.");
    Family lag = gauge("bonsai_group_member_lag_bytes",
                       "Bytes that the member still has to get; without a sample where nobody knows.");
    const auto add_state = [this, &state](const GroupInfo& group, const GroupMember& member) {
      for (const auto& [each, text] : kStates) {
        MetricLabels labels = With({{"group", group.name}, {"member", member.name}});
        labels.push_back({"state", std::string(text)});
        AddSample(&state, std::move(labels), each == member.state ? 1 : 0);
      }
    };
    Family repaired = MakeMetric(StatsKind::kCounter, "bonsai_group_member_repaired_bytes_total",
                                 "Damaged bytes of the member that were repaired from others.");
    Family passes = MakeMetric(StatsKind::kCounter, "bonsai_group_scrub_passes_total",
                               "Times that all bytes of the members were compared.");
    Family compared = gauge("bonsai_group_scrub_compared_bytes", "Bytes of each member that this pass has compared.");
    Family unsettled = gauge("bonsai_group_scrub_unsettled_bytes",
                             "Bytes that differ, and nobody knows which are right, as the last pass left them.");
    Family missed = gauge("bonsai_group_scrub_missed_bytes", "Bytes that the last pass could not compare or repair.");
    for (const GroupInfo& group : groups) {
      AddSample(&passes, With({{"group", group.name}}), static_cast<double>(group.scrub_passes));
      AddSample(&compared, With({{"group", group.name}}), static_cast<double>(group.scrub_compared_bytes));
      AddSample(&unsettled, With({{"group", group.name}}), static_cast<double>(group.scrub_unsettled_bytes));
      AddSample(&missed, With({{"group", group.name}}), static_cast<double>(group.scrub_missed_bytes));
      AddSample(&needed, With({{"group", group.name}}), static_cast<double>(group.needed));
      AddSample(&epoch, With({{"group", group.name}}), static_cast<double>(group.epoch));
      AddSample(&page, With({{"group", group.name}}), static_cast<double>(group.page));
      AddSample(&bytes, With({{"group", group.name}}), static_cast<double>(group.bytes));
      for (const GroupMember& member : group.members) {
        add_state(group, member);
        const MetricLabels labels = With({{"group", group.name}, {"member", member.name}});
        AddSample(&repaired, labels, static_cast<double>(member.repaired_bytes));
        const bool joins = member.state == MemberState::kJoining && group.bytes >= member.copied_bytes;
        if (joins) AddSample(&lag, labels, static_cast<double>(group.bytes - member.copied_bytes));
        if (member.state == MemberState::kInSync) AddSample(&lag, labels, 0);
      }
      if (group.witness) add_state(group, *group.witness);
    }
    for (Family* const each :
         {&needed, &epoch, &page, &bytes, &state, &lag, &repaired, &passes, &compared, &unsettled, &missed}) {
      families->push_back(std::move(*each));
    }
  }

  const DB& db_;
  const MetricLabels labels_;
};

}  // namespace bonsai

#endif  // BONSAI_PROMETHEUS_H_
