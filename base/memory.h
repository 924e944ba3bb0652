// SPDX-License-Identifier: Apache-2.0
// Memory for the blocks of the DRAM tier (tables of updates, update nodes, dnode metadata, bnodes), which foreground
// threads allocate and background threads free: two heaps of the process (heap.h), one for blocks that are freed when a
// range is offloaded and one for the others. They are on huge pages where the kernel gives them, since lookups access
// them at random. Builds with sanitizers use operator new instead, which sanitizers check.
//
// When memory runs out. The heaps have a reserve while a MemoryReserve is held. Once a block comes from it, memory is
// scarce: operations that would fill more memory wait, or are refused, and work that frees memory goes on. So an
// operation in flight does not run out of memory in its middle, unless the reserve is used up, too: then std::bad_alloc
// is thrown.
//
// Thread-safety: everything from any thread; any thread may free a block.
#ifndef BONSAI_BASE_MEMORY_H_
#define BONSAI_BASE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <new>

#include "base/heap.h"
#include "bonsai/status.h"

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
// Never null; throws std::bad_alloc.
void* allocate_from_heap(size_t bytes, Lifetime lifetime);
}  // namespace internal
#endif

// A block aligned to `alignment`, 16 or 64; for free_block(). Throws std::bad_alloc when there is no memory and the
// reserve is used up.
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

// Why a store gives up that ran out of memory in the middle of its work, and what to do.
inline constexpr char kOutOfMemory[] =
    "memory ran out in the middle of an operation, so the store takes no more updates; give the process more memory "
    "(ulimit -v, the memory limit of the container), close the store and open it again";

// Returns free memory that was kept for later blocks to the system.
void give_back_memory();

// Memory use of all blocks of the process; zeros under a sanitizer.
[[nodiscard]] Heap::Use memory_use();

// Holds the reserve of the two heaps, 12 MiB of addresses which take no memory: all holders of the process share it.
class MemoryReserve {
 public:
  MemoryReserve() = default;
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  // Idempotent. Errors: out_of_memory().
  [[nodiscard]] Status take();

 private:
  bool taken_ = false;
};

// Whether blocks come from the reserve. Never under a sanitizer. Cost: one load.
[[nodiscard]] inline bool memory_is_scarce() { return BONSAI_SCALABLE_MEMORY != 0 && Heap::any_short(); }
// Tries to fill the reserve with what was freed, or what the system has again. True: memory is not scarce any more.
bool refill_memory();
// The standard library found no memory: some of the reserve goes to it, so that the caller can report that. Memory is
// scarce from now on.
void memory_ran_out();
// NoSpace, with the remedy.
[[nodiscard]] Status out_of_memory();
// Whether there is memory for a step of work that frees some, such as offloading: part of the reserve, and some for
// containers of the standard library. Errors: out_of_memory().
[[nodiscard]] Status memory_for_work();
// Whether there is memory for blocks of `bytes` together. A hint: others may take it.
[[nodiscard]] bool memory_has(size_t bytes);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_MEMORY_H_
