// SPDX-License-Identifier: Apache-2.0
// What experiments change in the store: the patched sources call these functions. The lists beside this file say where
// (FOLDER/FILE.patches; scripts/mutate.py states their form). The copies that they give replace the originals in
// libbonsai-clusters.so alone, so the product's text knows no experiment.
//
// Thread-safety: any thread.
#ifndef BONSAI_BENCH_STUDIES_PATCHED_PATCHES_H_
#define BONSAI_BENCH_STUDIES_PATCHED_PATCHES_H_

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

// The size of a unit on this fabric; 0 if it has no units.
[[nodiscard]] uint64_t read_unit_bytes(const rdma::Fabric& fabric);

}  // namespace bonsai::bench::patched

#endif  // BONSAI_BENCH_STUDIES_PATCHED_PATCHES_H_
