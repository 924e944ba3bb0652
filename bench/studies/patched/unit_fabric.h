// SPDX-License-Identifier: Apache-2.0
// A fabric for the patched store (patches.h).
#ifndef BONSAI_BENCH_STUDIES_PATCHED_UNIT_FABRIC_H_
#define BONSAI_BENCH_STUDIES_PATCHED_UNIT_FABRIC_H_

#include <cstdint>

#include "rdma/fabric.h"

namespace bonsai::bench::patched {

// A fabric on which a READ of a remote target ends where a unit of the target does, as if a client split its reads over
// several devices (software striping).
class UnitFabric : public rdma::Fabric {
 public:
  // The size of a unit; 0: a READ ends anywhere.
  [[nodiscard]] virtual uint64_t read_unit_bytes() const = 0;
};

}  // namespace bonsai::bench::patched

#endif  // BONSAI_BENCH_STUDIES_PATCHED_UNIT_FABRIC_H_
