// SPDX-License-Identifier: Apache-2.0
// The metrics of bonsaid: pools and their owners, and what each address has served. docs/metrics.md lists them.
#ifndef BONSAI_BONSAID_METRICS_H_
#define BONSAI_BONSAID_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "bonsaid/config.h"
#include "bonsaid/service.h"

namespace bonsai::bonsaid {

// Thread-safety: all methods. Requires: configuration and services outlive it, and stay as they are.
class NodeMetrics : public prometheus::Collectable {
 public:
  NodeMetrics(const Config& config, const Services& services) : config_(config), services_(services) {}
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Config& config_;
  const Services& services_;
};

}  // namespace bonsai::bonsaid

#endif  // BONSAI_BONSAID_METRICS_H_
