// SPDX-License-Identifier: Apache-2.0
// The data nodes of the PACTree-like index: 1,240 bytes each, three to a page.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_PACTREE_LAYOUT_H_
#define BONSAI_BENCH_STUDIES_RIVALS_PACTREE_LAYOUT_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace bonsai::bench::rivals::pactree {

inline constexpr size_t kPairsMax = 64;

struct Pair {
  uint64_t key, value;
};

// Names a data node; 0 is none.
using NodeRef = uint64_t;

struct DataNode {
  uint64_t min_key;  // keys from here on
  uint64_t max_key;  // ... up to here, without it; of the last node: all
  NodeRef current, next, previous;
  uint64_t deleted;                // never: nodes are not merged
  std::array<uint64_t, 2> bitmap;  // of pairs; the second word is unused, as published
  std::array<uint8_t, kPairsMax> fingerprints;
  uint64_t version_lock;
  std::array<Pair, kPairsMax> pairs;
  uint64_t scan_version;
  uint64_t lock;
  std::array<uint8_t, kPairsMax> permutation;  // of a scan

  [[nodiscard]] static uint8_t fingerprint(uint64_t key) { return static_cast<uint8_t>(base::splitmix64(key)); }
  [[nodiscard]] bool last() const { return next == 0; }
  [[nodiscard]] bool covers(uint64_t key) const { return last() || key < max_key; }
  [[nodiscard]] size_t size() const { return static_cast<size_t>(std::popcount(bitmap[0])); }
  [[nodiscard]] bool used(size_t slot) const { return (bitmap[0] >> slot & 1) != 0; }

  // The key's slot; kPairsMax if there is none.
  [[nodiscard]] size_t find(uint64_t key) const {
    for (size_t slot = 0; slot < kPairsMax; ++slot) {
      if (used(slot) && fingerprints[slot] == fingerprint(key) && pairs[slot].key == key) return slot;
    }
    return kPairsMax;
  }
  // Requires: a free slot, and the key has none.
  void add(const Pair& pair) {
    const auto slot = static_cast<size_t>(std::countr_one(bitmap[0]));
    pairs[slot] = pair;
    fingerprints[slot] = fingerprint(pair.key);
    bitmap[0] |= uint64_t{1} << slot;
    ++version_lock;
  }
  void remove(size_t slot) {
    bitmap[0] &= ~(uint64_t{1} << slot);
    ++version_lock;
  }
  // The slots in use, by key.
  [[nodiscard]] std::vector<size_t> in_order() const {
    std::vector<size_t> slots;
    for (size_t slot = 0; slot < kPairsMax; ++slot) {
      if (used(slot)) slots.push_back(slot);
    }
    std::sort(slots.begin(), slots.end(), [&](size_t a, size_t b) { return pairs[a].key < pairs[b].key; });
    return slots;
  }
};
static_assert(sizeof(DataNode) == 1'240);

inline constexpr size_t kNodesPerPage = 4'096 / sizeof(DataNode);
static_assert(kNodesPerPage == 3);

}  // namespace bonsai::bench::rivals::pactree

#endif  // BONSAI_BENCH_STUDIES_RIVALS_PACTREE_LAYOUT_H_
