// Memory for the many small blocks of the DRAM tier (update nodes, tables, dnode metadata), which foreground threads
// allocate and background threads free: a pool of oneTBB's scalable allocator, which keeps free lists per thread and
// hands blocks back to the thread that allocated them. The C library's malloc took a quarter of a put's time. The pool
// lies on huge pages where the kernel gives them, since lookups go through it at random. Sanitizers watch operator new,
// so that is what they get.
//
// Thread-safety: everything from any thread; a block may be freed by another thread than allocated it.
#ifndef BONSAI_BASE_MEMORY_H_
#define BONSAI_BASE_MEMORY_H_

#include <cstddef>
#include <new>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BONSAI_SCALABLE_MEMORY 1
#else
#define BONSAI_SCALABLE_MEMORY 0
#endif

namespace bonsai::base {

#if BONSAI_SCALABLE_MEMORY
namespace internal {
// Never null: memory that has run out ends the process.
void* allocate_from_pool(size_t bytes, size_t alignment);
void free_to_pool(void* block);
}  // namespace internal
#endif

// A block aligned to `alignment`, a power of two; for free_block(). Requires: bytes >= alignment. Memory that has run
// out ends the process, as with operator new in code without exceptions.
template <size_t alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__>
[[nodiscard]] void* allocate_block(size_t bytes) {
#if BONSAI_SCALABLE_MEMORY
  return internal::allocate_from_pool(bytes, alignment);
#else
  return ::operator new (bytes, std::align_val_t{alignment});
#endif
}

// Requires: the alignment that the block was allocated with.
template <size_t alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__>
void free_block(void* block) {
#if BONSAI_SCALABLE_MEMORY
  internal::free_to_pool(block);
#else
  ::operator delete (block, std::align_val_t{alignment});
#endif
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_MEMORY_H_
