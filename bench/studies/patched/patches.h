// SPDX-License-Identifier: Apache-2.0
// The questions that the patched sources of the store ask. The lists beside this file say where (FOLDER/FILE.patches;
// scripts/mutate.py states their form). The copies that they give replace the originals in libbonsai-clusters.so alone,
// so the product's text knows no experiment.
//
// Thread-safety: any thread.
#ifndef BONSAI_BENCH_STUDIES_PATCHED_PATCHES_H_
#define BONSAI_BENCH_STUDIES_PATCHED_PATCHES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/studies/patched/store.h"
#include "index/index.h"
#include "store/tiers.h"

namespace bonsai::bench::patched {

// Changes only while no store is in use: open().
extern Patches current;

// As Patches::gets_fetch_ahead.
[[nodiscard]] inline bool gets_fetch_ahead() { return current.gets_fetch_ahead; }
// As Patches::gets_in_coroutines; `as_product`: what the product does.
[[nodiscard]] inline bool gets_in_coroutines(bool as_product) {
  return current.gets_in_coroutines.value_or(as_product);
}

// As Patches::updates_in_place: how many of the puts, from the first on, were made in their dnodes. Requires: no other
// thread uses the store.
[[nodiscard]] size_t put_in_place(const store::Tiers& tiers, std::span<const index::Index::Put> puts);
// How many these were since open(), and the time that they took.
[[nodiscard]] uint64_t in_place_updates();
[[nodiscard]] uint64_t in_place_ns();

}  // namespace bonsai::bench::patched

#endif  // BONSAI_BENCH_STUDIES_PATCHED_PATCHES_H_
