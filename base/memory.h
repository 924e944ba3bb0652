// SPDX-License-Identifier: Apache-2.0
// Memory for the blocks of the DRAM tier (tables of updates, update nodes, dnode metadata, bnodes), which foreground
// threads allocate and background threads free: two heaps of the process (heap.h), one for blocks that are freed when a
// range is offloaded and one for the others. They are on huge pages where the kernel gives them, since lookups access
// them at random. Builds with sanitizers use operator new instead, which sanitizers check.
//
// Thread-safety: everything from any thread; any thread may free a block.
#ifndef BONSAI_BASE_MEMORY_H_
#define BONSAI_BASE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <new>

#include "base/heap.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BONSAI_SCALABLE_MEMORY 1
#else
#define BONSAI_SCALABLE_MEMORY 0
#endif

namespace bonsai::base {

enum class Lifetime : uint8_t {
  kUpdates,  // until a range is offloaded
  kRanges,   // about as long as the range
};

#if BONSAI_SCALABLE_MEMORY
namespace internal {
// Never null: without memory the process ends.
void* allocate_from_heap(size_t bytes, Lifetime lifetime);
}  // namespace internal
#endif

// A block aligned to `alignment`, 16 or 64; for free_block(). Without memory the process ends, as with operator new in
// code without exceptions.
template <size_t alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__>
[[nodiscard]] void* allocate_block(size_t bytes, Lifetime lifetime) {
#if BONSAI_SCALABLE_MEMORY
  static_assert(alignment <= 64);
  return internal::allocate_from_heap((bytes + alignment - 1) / alignment * alignment, lifetime);
#else
  static_cast<void>(lifetime);
  return ::operator new (bytes, std::align_val_t{alignment});
#endif
}

// Requires: the alignment that the block was allocated with.
template <size_t alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__>
void free_block(void* block) {
#if BONSAI_SCALABLE_MEMORY
  Heap::free(block);
#else
  ::operator delete (block, std::align_val_t{alignment});
#endif
}

// The bytes that a block occupies, which was allocated for `bytes`.
inline size_t bytes_of_block([[maybe_unused]] const void* block, [[maybe_unused]] size_t bytes) {
#if BONSAI_SCALABLE_MEMORY
  return Heap::block_bytes(block);
#else
  return bytes;
#endif
}

// Returns free memory that was kept for later blocks to the system.
void give_back_memory();

// Memory use of all blocks of the process; zeros under a sanitizer.
[[nodiscard]] Heap::Use memory_use();

}  // namespace bonsai::base

#endif  // BONSAI_BASE_MEMORY_H_
