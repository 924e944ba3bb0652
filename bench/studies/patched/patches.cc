// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/patched/patches.h"

namespace bonsai::bench::patched {

uint64_t read_unit_bytes(const rdma::Fabric& fabric) {
  const auto* of_units = dynamic_cast<const UnitFabric*>(&fabric);
  return of_units != nullptr ? of_units->read_unit_bytes() : 0;
}

}  // namespace bonsai::bench::patched
