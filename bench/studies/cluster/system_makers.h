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
// Sherman-like whose compute nodes have no local locks, so that each client asks for the global one: no system of the
// list, but what shows why clients are grouped.
[[nodiscard]] std::unique_ptr<System> make_sherman_without_local_locks(const StoreSize& size);
// One compute node, whose page cache has room for half of the records unless a size is given.
[[nodiscard]] std::unique_ptr<System> make_pactree(const StoreSize& size);

// One compute node, whose threads share a store; its pool is on servers of its own, one for each memory node.
[[nodiscard]] std::unique_ptr<System> make_bonsai(const StoreSize& size);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_CLUSTER_SYSTEM_MAKERS_H_
