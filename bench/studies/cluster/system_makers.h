// SPDX-License-Identifier: Apache-2.0
// The systems whose classes are in files of their own.
#ifndef BONSAI_BENCH_STUDIES_CLUSTER_SYSTEM_MAKERS_H_
#define BONSAI_BENCH_STUDIES_CLUSTER_SYSTEM_MAKERS_H_

#include <memory>

#include "bench/studies/cluster/system.h"

namespace bonsai::bench {

// A metadata server of eight threads, four collectors for each compute node, as published.
[[nodiscard]] std::unique_ptr<System> make_clover(const StoreSize& size);
[[nodiscard]] std::unique_ptr<System> make_clover_persist(const StoreSize& size);
// Sherman-like without local locks on the compute nodes, so that each client requests the global lock. It is not in the
// list of systems; it shows why clients are grouped.
[[nodiscard]] std::unique_ptr<System> make_sherman_without_local_locks(const StoreSize& size);
// One compute node. Its page cache holds half of the records unless a size is given.
[[nodiscard]] std::unique_ptr<System> make_pactree(const StoreSize& size);

// One compute node, whose threads share a store. Its pool is on Bonsai's own servers, one for each memory node.
[[nodiscard]] std::unique_ptr<System> make_bonsai(const StoreSize& size);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_CLUSTER_SYSTEM_MAKERS_H_
