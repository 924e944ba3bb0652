// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "bonsai/c.h"
#include "bonsai/prometheus.h"

namespace bonsai::server {
namespace {

using Families = std::vector<prometheus::MetricFamily>;

double value_of(const std::atomic<uint64_t>& counter) {
  return static_cast<double>(counter.load(std::memory_order_relaxed));
}

void add_metric(Families* families, StatsKind kind, std::string_view name, std::string_view help, double value) {
  families->push_back(MakeMetric(kind, name, help));
  AddSample(&families->back(), {}, value);
}

void add_gauges(const State& state, Families* families) {
  families->push_back(MakeMetric(StatsKind::kGauge, "bonsai_server_info", "1. The labels say what OK means."));
  AddSample(&families->back(),
            {{"version", BONSAI_VERSION_STRING}, {"ok_means", state.config.buffered ? "buffered" : "durable"}}, 1);
  const auto gauge = [families](std::string_view name, std::string_view help, double value) {
    add_metric(families, StatsKind::kGauge, name, help, value);
  };
  gauge("bonsai_server_uptime_seconds", "Time since the start.",
        static_cast<double>(base::now_ns() - state.started_ns) / base::kNsPerSecond);
  gauge("bonsai_server_connections", "Connections of clients.", value_of(state.counters.connections));
  gauge("bonsai_server_connections_max", "Further connections are refused.", state.config.connections_max);
  gauge("bonsai_server_watching_clients", "Clients that watch keys.", value_of(state.watchers));
  gauge("bonsai_server_snapshots", "Snapshots with a name.", static_cast<double>(state.snapshots.size()));
}

void add_counters(const Counters& counters, Families* families) {
  const std::pair<const char*, std::pair<const char*, const std::atomic<uint64_t>*>> all[] = {
      {"bonsai_server_connections_accepted_total", {"Connections that were accepted.", &counters.accepted}},
      {"bonsai_server_connections_refused_total",
       {"Connections that were refused: too many, or no descriptor.", &counters.refused}},
      {"bonsai_server_requests_total", {"Requests of clients.", &counters.commands}},
      {"bonsai_server_error_replies_total", {"Replies that are errors.", &counters.errors}},
      {"bonsai_server_wrong_passwords_total", {"Passwords that were wrong.", &counters.wrong_passwords}},
      {"bonsai_server_keyspace_hits_total", {"Reads of keys that found a value.", &counters.hits}},
      {"bonsai_server_keyspace_misses_total", {"Reads of keys that found none.", &counters.misses}},
      {"bonsai_server_expired_keys_total", {"Keys that were removed because they had expired.", &counters.expired}},
      {"bonsai_server_operation_groups_total", {"Groups of operations that shared fences.", &counters.groups}},
      {"bonsai_server_grouped_operations_total", {"Operations in these groups.", &counters.operations}},
      {"bonsai_server_store_failures_total", {"Errors that say that the store may be lost.", &counters.store_failures}},
      {"bonsai_server_received_bytes_total", {"Bytes of requests.", &counters.bytes_in}},
      {"bonsai_server_sent_bytes_total", {"Bytes of replies.", &counters.bytes_out}}};
  for (const auto& [name, what] : all) {
    add_metric(families, StatsKind::kCounter, name, what.first, value_of(*what.second));
  }
  families->push_back(
      MakeMetric(StatsKind::kCounter, "bonsai_server_connections_closed_total",
                 "Connections that the server closed: idle, slow to take replies, or not the protocol."));
  AddSample(&families->back(), {{"reason", "idle"}}, value_of(counters.closed_idle));
  AddSample(&families->back(), {{"reason", "slow"}}, value_of(counters.closed_slow));
  AddSample(&families->back(), {{"reason", "protocol"}}, value_of(counters.closed_broken));
}

void add_latencies(const Counters& counters, Families* families) {
  prometheus::MetricFamily family;
  family.name = "bonsai_server_request_seconds";
  family.help = "Time from when a thread took a request to when its reply was written, with those of its turn.";
  family.type = prometheus::MetricType::Histogram;
  prometheus::ClientMetric::Histogram histogram;
  for (size_t i = 0; i < counters.latencies.size(); ++i) {
    histogram.sample_count += counters.latencies[i].load(std::memory_order_relaxed);
    const double bound = i < kLatencyBoundsUs.size() ? static_cast<double>(kLatencyBoundsUs[i]) * 1e-6
                                                     : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  histogram.sample_sum = value_of(counters.latency_ns) * 1e-9;
  family.metric.emplace_back();
  family.metric.back().histogram = std::move(histogram);
  families->push_back(std::move(family));
}

}  // namespace

Families ServerMetrics::Collect() const {
  Families families;
  add_gauges(state_, &families);
  add_counters(state_.counters, &families);
  add_latencies(state_.counters, &families);
  return families;
}

Status serve_metrics(const State& state, const std::string& address, std::unique_ptr<metrics::Service>* service) {
  metrics::Sources sources = {std::make_shared<ServerMetrics>(state), std::make_shared<StoreMetrics>(state.db)};
  return metrics::Service::start(address, std::move(sources), service);
}

}  // namespace bonsai::server
