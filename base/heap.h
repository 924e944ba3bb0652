// SPDX-License-Identifier: Apache-2.0
// Memory in blocks of any size that is returned to the system once it is free.
//
// Regions of 2 MiB, on huge pages where the kernel gives them, are cut into slabs of 64 KiB, and a slab into blocks of
// one size; a larger block takes several slabs. An empty slab may get another block size; an empty region is unmapped,
// except for a few that are kept. A slab is taken from the region with the lowest address that has room, so that other
// regions become empty. Allocators with free lists per thread return nothing to the system when one thread allocates
// and another frees.
//
// Long-lived blocks should not share a heap with short-lived ones: one block keeps a whole region.
//
// Reserve. A heap can keep some regions mapped that nothing touches, so they take addresses and no memory. When the
// system gives no further region, blocks come from the reserve, and the heap is short until the reserve is full again:
// by regions that become empty, or by refill(). So callers learn that memory runs out while they can still act.
// Freeing never needs memory.
//
// Thread-safety: everything from any thread; any thread may free a block. Allocating waits for a preempted thread only
// when it needs a new slab; freeing may wait at any time. Cost: some 20 ns; a new region costs 10 us plus the kernel's
// time to clear it.
#ifndef BONSAI_BASE_HEAP_H_
#define BONSAI_BASE_HEAP_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace bonsai::base {

class Heap {
 public:
  static constexpr size_t kSlabBytes = size_t{64} << 10;
  static constexpr size_t kRegionBytes = size_t{2} << 20;

  Heap();
  // Requires: all blocks are free.
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // A block of at least `bytes` bytes, aligned to 16, and to 64 if `bytes` is a multiple of 64. Null: there is no
  // memory, and none in the reserve. A block of more than a region never comes from the reserve.
  [[nodiscard]] void* allocate(size_t bytes);
  // Requires: a block of any heap.
  static void free(void* block);

  // The bytes that the block really has. Requires: a block of any heap.
  [[nodiscard]] static size_t block_bytes(const void* block);

  // Returns the empty regions that were kept to the system, but not the reserve.
  void give_back();

  static constexpr size_t kReserveRegionsMax = 8;
  // Sets the size of the reserve in regions; initially 0. False: the system gives no memory, and the heap is short.
  bool set_reserve(size_t regions);
  // Tries to fill the reserve. True: it is full.
  bool refill();
  // Returns a region of the reserve to the system, for others of the process. False: there is none.
  bool spend_reserve();
  // The regions that are in the reserve now.
  [[nodiscard]] size_t reserve_regions() const;
  // Whether some heap of the process is short. Cost: one load.
  [[nodiscard]] static bool any_short() { return short_heaps_.load(std::memory_order_relaxed) != 0; }

  struct Use {
    uint64_t held_bytes = 0;  // from the system, without the reserve
    uint64_t used_bytes = 0;  // in blocks, including the rounding of their sizes
  };
  [[nodiscard]] Use use() const;

  // For tests: how many more regions the system gives; negative: as many as it has.
  static inline constinit std::atomic<int64_t> regions_granted_for_test{-1};

 private:
  struct Region;
  struct Slab;
  class Regions;
  class Shard;
  static Slab* slab_of(const void* block);
  static inline constinit std::atomic<uint32_t> short_heaps_{0};
  std::unique_ptr<Regions> regions_;
  // Several, so that threads seldom wait for the same lock.
  static constexpr size_t kShards = 4;
  std::array<std::unique_ptr<Shard>, kShards> shards_;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_HEAP_H_
