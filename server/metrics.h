// SPDX-License-Identifier: Apache-2.0
// The metrics of bonsai-server: its counters, and those of its store. docs/metrics.md lists them.
#ifndef BONSAI_SERVER_METRICS_H_
#define BONSAI_SERVER_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <memory>
#include <string>
#include <vector>

#include "admin/metrics/service.h"
#include "bonsai/status.h"
#include "server/state.h"

namespace bonsai::server {

// Thread-safety: all methods. Requires: the state outlives it.
class ServerMetrics : public prometheus::Collectable {
 public:
  explicit ServerMetrics(const State& state) : state_(state) {}
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const State& state_;
};

// Serves both. Requires: the state outlives the service. Errors: as metrics::Service::start(), with the flag.
Status serve_metrics(const State& state, const std::string& address, std::unique_ptr<metrics::Service>* service);

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_METRICS_H_
