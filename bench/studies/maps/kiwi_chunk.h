// SPDX-License-Identifier: Apache-2.0
// A chunk of KiWi's: the records of a key range, in arrays. See kiwi.h.
#ifndef BONSAI_BENCH_STUDIES_MAPS_KIWI_CHUNK_H_
#define BONSAI_BENCH_STUDIES_MAPS_KIWI_CHUNK_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "bench/studies/maps/memory.h"

namespace bonsai::bench::maps::kiwi {

struct Chunk;
struct Rebalance;

inline constexpr uint64_t kNoVersion = 0;
inline constexpr uint64_t kFrozen = (uint64_t{1} << 40) - 1;  // the version of a put that a rebalance refused
inline constexpr uint64_t kNewest = kFrozen - 1;              // above all versions
inline constexpr uint32_t kNone = UINT32_MAX;                 // no cell

// Cell i and place i of the values are allocated together (values have one size), so that one number stands for both.
// The number of a value, and whether it stands for a removal.
struct ValueWord {
  uint32_t word;
  static ValueWord of(uint32_t place, bool removes) { return {place << 1 | (removes ? 1U : 0U)}; }
  [[nodiscard]] uint32_t place() const { return word >> 1; }
  [[nodiscard]] bool removes() const { return (word & 1) != 0; }
};

// An entry of the pending put array: version and cell, or nothing.
struct Pending {
  uint64_t word = 0;
  static Pending of(uint64_t version, ValueWord value) { return {version << 24 | (value.word + 2)}; }
  [[nodiscard]] uint64_t version() const { return word >> 24; }
  [[nodiscard]] bool has_cell() const { return (word & 0xffffff) != 0; }
  [[nodiscard]] ValueWord value() const { return {static_cast<uint32_t>(word & 0xffffff) - 2}; }
  [[nodiscard]] Pending with_version(uint64_t version) const { return {version << 24 | (word & 0xffffff)}; }
  [[nodiscard]] bool is_put() const { return version() != kNoVersion && version() != kFrozen && has_cell(); }
};

struct Cell {
  uint64_t key;
  uint64_t version;             // set before the cell is linked
  std::atomic<uint32_t> value;  // a ValueWord; later puts of the same key and version replace it
  std::atomic<uint32_t> next;   // the cell of the next key, or of an older version; kNone

  [[nodiscard]] ValueWord value_word() const { return {value.load(std::memory_order_acquire)}; }
};

// A version of a key.
struct Item {
  uint64_t key;
  uint64_t version;
  ValueWord order;  // among equal versions the later place is the newer put
  uint64_t value;
};

struct Chunk {
  static constexpr uintptr_t kMark = 1;   // of `next`: it will not change any more
  static constexpr uintptr_t kUnset = 2;  // `next` of the last chunk of a section that is not linked yet

  const uint64_t min_key;
  const uint32_t cells_max;
  const uint32_t pending_max;
  Rebalance* const parent;  // that made it; null for the first one
  uint32_t batched = 0;     // cells [0, batched) are sorted, and linked in that order
  std::atomic<uint32_t> allocated{0};
  std::atomic<uint32_t> linked{0};
  std::atomic<uint32_t> first{kNone};
  std::atomic<bool> frozen{false};
  std::atomic<Rebalance*> rebalance{nullptr};  // that replaces it
  std::atomic<uintptr_t> next;
  Cell* cells = nullptr;
  uint64_t* values = nullptr;
  std::atomic<uint64_t>* pending = nullptr;  // Pending, one for each slot

  static Chunk* make(Memory* memory, uint64_t min_key, uint32_t cells_max, uint32_t pending_max, Rebalance* parent,
                     uintptr_t next);
  void free(Memory* memory) { memory->free(this, bytes()); }
  [[nodiscard]] size_t bytes() const;

  static Chunk* of(uintptr_t link) { return reinterpret_cast<Chunk*>(link & ~kMark); }
  static uintptr_t link_to(const Chunk* chunk) { return reinterpret_cast<uintptr_t>(chunk); }
  [[nodiscard]] Chunk* successor() const { return of(next.load()); }

  // The first cell that is not before (key, version), versions falling; *before is the link to it.
  uint32_t find(uint64_t key, uint64_t version, std::atomic<uint32_t>** before);
  // Links cell i, or lets it take the place of an older put of the same version.
  void insert(uint32_t i, ValueWord value);
  // All that is in it. Requires: frozen, so that no further put gets a version.
  void collect(std::vector<Item>* items) const;
  // Fills an empty chunk that no other thread has seen.
  void fill(const Item* begin, const Item* end);

  [[nodiscard]] Item item_of(const Cell& cell) const {
    const ValueWord value = cell.value_word();
    return {cell.key, cell.version, value, values[value.place()]};
  }
  [[nodiscard]] Item item_of(Pending put) const {
    const uint32_t place = put.value().place();
    return {cells[place].key, put.version(), put.value(), values[place]};
  }
};

// Newest first within a key.
inline bool is_before(const Item& a, const Item& b) {
  if (a.key != b.key) return a.key < b.key;
  return a.version != b.version ? a.version > b.version : a.order.place() > b.order.place();
}

}  // namespace bonsai::bench::maps::kiwi

#endif  // BONSAI_BENCH_STUDIES_MAPS_KIWI_CHUNK_H_
