// SPDX-License-Identifier: Apache-2.0
#include "bonsaid/metrics.h"

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include "base/nvm/descriptor.h"
#include "bonsai/c.h"
#include "bonsai/prometheus.h"

namespace bonsai::bonsaid {
namespace {

using Families = std::vector<prometheus::MetricFamily>;
using Report = scale::PoolServer::Report;

prometheus::MetricFamily gauge(std::string_view name, std::string_view help) {
  return MakeMetric(StatsKind::kGauge, name, help);
}

// Of a device, whose size its file does not have, there is no size.
void add_pools(const Config& config, const std::map<std::string, Report::Owned>& owned, Families* families) {
  prometheus::MetricFamily pools = gauge("bonsaid_pools", "Pools of the folder.");
  prometheus::MetricFamily bytes = gauge("bonsaid_pool_bytes", "Size of the pool's file.");
  prometheus::MetricFamily owners = gauge("bonsaid_pool_owned", "1: a store has the pool open; 0: it is free.");
  prometheus::MetricFamily lease =
      gauge("bonsaid_pool_lease_seconds", "Time left until another store may have the pool.");
  size_t count = 0;
  for (const std::string& name : base::names_in(config.folder)) {
    std::error_code failed;
    const std::string path = config.folder + "/" + name;
    if (!scale::is_pool_name(name) || std::filesystem::is_directory(path, failed)) continue;
    ++count;
    const MetricLabels labels = {{"pool", name}};
    const auto found = owned.find(name);
    AddSample(&owners, labels, found != owned.end() ? 1 : 0);
    AddSample(&lease, labels, found != owned.end() ? static_cast<double>(found->second.lease_ns) * 1e-9 : 0);
    const uint64_t size = std::filesystem::is_regular_file(path, failed) ? std::filesystem::file_size(path, failed) : 0;
    if (size != 0 && !failed) AddSample(&bytes, labels, static_cast<double>(size));
  }
  AddSample(&pools, {}, static_cast<double>(count));
  for (auto* const each : {&pools, &bytes, &owners, &lease}) families->push_back(std::move(*each));
}

void add_traffic(const Report& report, const MetricLabels& labels, prometheus::MetricFamily* messages,
                 prometheus::MetricFamily* bytes) {
  for (size_t i = 0; i < rdma::kVerbs; ++i) {
    const auto verb = static_cast<rdma::Verb>(i);
    MetricLabels with_verb = labels;
    with_verb.push_back({"verb", rdma::verb_name(verb)});
    AddSample(messages, with_verb, static_cast<double>(report.traffic.of(verb).messages));
    AddSample(bytes, with_verb, static_cast<double>(report.traffic.of(verb).bytes));
  }
}

void add_services(const Services& services, const std::vector<Report>& reports, Families* families) {
  const auto counter = [](std::string_view name, std::string_view help) {
    return MakeMetric(StatsKind::kCounter, name, help);
  };
  prometheus::MetricFamily all[] = {
      gauge("bonsaid_attachments",
            "Stores that are connected, once for each of their pools; who has left may count for some seconds."),
      counter("bonsaid_pool_requests_total", "Requests about pools: open, create, renew a lease, leave."),
      counter("bonsaid_flush_requests_total", "Requests of owners to make written bytes durable."),
      counter("bonsaid_flushed_bytes_total", "Bytes that flush requests named."),
      counter("bonsaid_failed_flushes_total", "Flush requests that the medium failed."),
      counter("bonsaid_malformed_requests_total", "Requests that were dropped because they have no known form."),
      counter("bonsaid_unanswered_requests_total", "Requests without an answer, because there was no memory."),
      counter("bonsaid_received_messages_total", "Messages of stores that were taken."),
      counter("bonsaid_received_bytes_total", "Bytes of these messages.")};
  prometheus::MetricFamily messages = counter("bonsaid_sent_messages_total", "Requests that this node posted.");
  prometheus::MetricFamily bytes = counter("bonsaid_sent_bytes_total", "Payload of these requests.");
  for (size_t i = 0; i < services.size(); ++i) {
    const Report& report = reports[i];
    const MetricLabels labels = {{"address", services[i]->address().text()}};
    const uint64_t values[] = {
        report.attachments,           report.pool_requests,   report.flush_requests,   report.flushed_bytes,
        report.failed_flushes,        services[i]->dropped(), services[i]->unserved(), report.traffic.received.messages,
        report.traffic.received.bytes};
    static_assert(std::size(values) == std::size(all));
    for (size_t k = 0; k < std::size(all); ++k) AddSample(&all[k], labels, static_cast<double>(values[k]));
    add_traffic(report, labels, &messages, &bytes);
  }
  for (prometheus::MetricFamily& each : all) families->push_back(std::move(each));
  for (auto* const each : {&messages, &bytes}) families->push_back(std::move(*each));
}

}  // namespace

Families NodeMetrics::Collect() const {
  Families families;
  families.push_back(gauge("bonsaid_info", "1. The labels say which version runs, and what makes writes durable."));
  AddSample(&families.back(),
            {{"version", BONSAI_VERSION_STRING}, {"domain", std::string(rdma::domain_name(config_.domain))}}, 1);
  std::vector<Report> reports;
  std::map<std::string, Report::Owned> owned;
  for (const auto& service : services_) {
    reports.push_back(service->report());
    owned.insert(reports.back().pools.begin(), reports.back().pools.end());
  }
  add_pools(config_, owned, &families);
  add_services(services_, reports, &families);
  return families;
}

}  // namespace bonsai::bonsaid
