// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/fabric/providers.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"

namespace bonsai::bench {
namespace {

constexpr const char* kNoNetwork = "NO NETWORK is crossed, only the processor's caches";
constexpr const char* kSimulated =
    "SIMULATED: virtual time of a model, no statement about any device; shows how round trips add up";
constexpr const char* kSoftware =
    "SOFTWARE RDMA (Soft-RoCE): behaviour and counts are real, times are those of a kernel's network stack; only "
    "ratios on the same machine mean anything";

constexpr std::array<FabricProvider, 3> kProviders = {
    {{"shm", FarSide::kProcess, 20 * base::kNsPerMs, kNoNetwork, kNoNetwork},
     {"sim", FarSide::kSameThread, 100 * base::kNsPerUs, kSimulated, kSimulated},
     {"verbs", FarSide::kNetwork, 200 * base::kNsPerMs, "an RDMA device", kSoftware}}};

}  // namespace

const std::array<FabricProvider, 3>& fabric_providers() { return kProviders; }

const FabricProvider* find_fabric_provider(std::string_view name) {
  for (const FabricProvider& each : kProviders) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

const FabricProvider& fabric_provider(FarSide far_side) {
  const auto* const found = std::find_if(kProviders.begin(), kProviders.end(),
                                         [&](const FabricProvider& each) { return each.far_side == far_side; });
  BONSAI_CHECK(found != kProviders.end());
  return *found;
}

std::string fabric_provider_names() {
  std::string names;
  for (const FabricProvider& each : kProviders) names.append(names.empty() ? "" : ",").append(each.name);
  return names;
}

}  // namespace bonsai::bench
