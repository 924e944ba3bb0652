// SPDX-License-Identifier: Apache-2.0
// The object on which the helpers of one rebalance agree. See kiwi.h.
#ifndef BONSAI_BENCH_STUDIES_MAPS_KIWI_REBALANCE_H_
#define BONSAI_BENCH_STUDIES_MAPS_KIWI_REBALANCE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "bench/studies/maps/kiwi_chunk.h"

namespace bonsai::bench::maps::kiwi {

// The chunks that are replaced, and their successors.
struct Section {
  std::vector<Chunk*> old;
  std::vector<Chunk*> fresh;  // at least one; the first has the key of the first old one
};

struct Rebalance {
  static constexpr uintptr_t kClaim = 1;  // of `next`: agreed that it is to be claimed, if nobody else has it

  Chunk* const first;
  // The chunk that may come to it next; 0 = it is agreed that no more will.
  std::atomic<uintptr_t> next;
  std::atomic<Section*> section{nullptr};
  std::atomic<bool> linked{false};
  std::atomic<bool> normalized{false};  // the new chunks take puts
  std::atomic<uint32_t> holders{0};     // chunks, old and new, that name it
};

// Whether the chunk takes puts, as long as it is not frozen.
inline bool is_infant(const Chunk* chunk) { return chunk->parent != nullptr && !chunk->parent->normalized.load(); }

}  // namespace bonsai::bench::maps::kiwi

#endif  // BONSAI_BENCH_STUDIES_MAPS_KIWI_REBALANCE_H_
