// SPDX-License-Identifier: Apache-2.0
// Memory on huge pages for every engine of the program: what they ask of operator new, in this program or in a library,
// is in one pool whose regions are. Bonsai's pools and its DRAM are on huge pages, so the others get them, too.
//
// Sanitizers watch operator new: their builds keep it.
#include "base/memory.h"

#if BONSAI_SCALABLE_MEMORY
#include <oneapi/tbb/scalable_allocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/huge_range.h"

namespace bonsai::bench {
namespace {

constexpr size_t kRegionBytes = size_t{8} << 20;

void* grow(std::intptr_t /*pool*/, size_t& bytes) {
  bytes = (bytes + kRegionBytes - 1) / kRegionBytes * kRegionBytes;
  return base::map_huge(bytes);
}

int shrink(std::intptr_t /*pool*/, void* range, size_t bytes) { return ::munmap(range, bytes); }

// Lives as long as the process.
rml::MemoryPool* pool() {
  static rml::MemoryPool* const made = [] {
    const rml::MemPoolPolicy policy(grow, shrink, kRegionBytes);
    rml::MemoryPool* fresh = nullptr;
    if (rml::pool_create_v1(0, &policy, &fresh) != rml::POOL_OK) std::abort();
    return fresh;
  }();
  return made;
}

void* allocate(size_t bytes, size_t alignment) {
  bytes = std::max<size_t>(bytes, 1);
  void* const block = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                          ? rml::pool_malloc(pool(), bytes)
                          : rml::pool_aligned_malloc(pool(), bytes, alignment);
  if (block == nullptr) std::abort();
  return block;
}

void give_back(void* block) noexcept {
  if (block != nullptr) rml::pool_free(pool(), block);
}

size_t bytes_of(void* block) noexcept { return block != nullptr ? rml::pool_msize(pool(), block) : 0; }

}  // namespace
}  // namespace bonsai::bench

// The other forms, for arrays and without exceptions, come to these.
void* operator new(size_t bytes) { return bonsai::bench::allocate(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return bonsai::bench::allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { bonsai::bench::give_back(block); }
void operator delete(void* block, size_t /*bytes*/) noexcept { bonsai::bench::give_back(block); }
void operator delete(void* block, std::align_val_t /*alignment*/) noexcept { bonsai::bench::give_back(block); }
void operator delete(void* block, size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  bonsai::bench::give_back(block);
}
// RocksDB asks how large its blocks are, all of them of operator new.
extern "C" size_t malloc_usable_size(void* block) noexcept { return bonsai::bench::bytes_of(block); }
#endif
