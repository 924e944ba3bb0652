// SPDX-License-Identifier: Apache-2.0
// Memory on huge pages for every engine of the program: the blocks of operator new, in this program and in its
// libraries, come from one pool whose regions are huge pages. Bonsai's pools and its DRAM are on huge pages, so the
// other engines get them, too. malloc and its family stay those of the C library. malloc_usable_size, which RocksDB
// calls for blocks of both, answers for the allocator that owns the block.
//
// Sanitizers watch operator new: their builds keep it.
#include "base/memory.h"

#if BONSAI_SCALABLE_MEMORY
#include <dlfcn.h>
#include <oneapi/tbb/scalable_allocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "base/check.h"
#include "base/huge_range.h"

namespace bonsai::bench {
namespace {

constexpr size_t kRegionBytes = size_t{8} << 20;

// The pages of the address space that are in regions of the pool: a bit for each huge page.
class Pages {
 public:
  void mark(const void* range, size_t bytes, bool ours) {
    const size_t first = page_of(range);
    for (size_t page = first; page < first + bytes / base::kHugePageBytes; ++page) {
      BONSAI_CHECK(page < kPages);
      if (ours) words_[page / kWordBits].fetch_or(bit_of(page), std::memory_order_relaxed);
      if (!ours) words_[page / kWordBits].fetch_and(~bit_of(page), std::memory_order_relaxed);
    }
  }
  // Relaxed order suffices: the caller got the block from a thread that read the region's mark.
  [[nodiscard]] bool have(const void* block) const {
    const size_t page = page_of(block);
    return page < kPages && (words_[page / kWordBits].load(std::memory_order_relaxed) & bit_of(page)) != 0;
  }

 private:
  static constexpr size_t kPages = (size_t{1} << 47) / base::kHugePageBytes;  // a process has addresses of 47 bits
  static constexpr size_t kWordBits = 64;

  static size_t page_of(const void* address) { return reinterpret_cast<uintptr_t>(address) / base::kHugePageBytes; }
  static uint64_t bit_of(size_t page) { return uint64_t{1} << (page % kWordBits); }

  std::array<std::atomic<uint64_t>, kPages / kWordBits> words_{};
};

constinit Pages pages;

void* grow(std::intptr_t /*pool*/, size_t& bytes) {
  bytes = (bytes + kRegionBytes - 1) / kRegionBytes * kRegionBytes;
  void* const range = base::map_huge(bytes);
  if (range != nullptr) pages.mark(range, bytes, true);
  return range;
}

int shrink(std::intptr_t /*pool*/, void* range, size_t bytes) {
  pages.mark(range, bytes, false);
  return ::munmap(range, bytes);
}

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
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void give_back(void* block) noexcept {
  if (block != nullptr) rml::pool_free(pool(), block);
}

size_t bytes_of(void* block) noexcept {
  if (block == nullptr) return 0;
  if (pages.have(block)) return rml::pool_msize(pool(), block);
  using BytesOf = size_t (*)(void*);
  static const auto bytes_of_malloc = reinterpret_cast<BytesOf>(::dlsym(RTLD_NEXT, "malloc_usable_size"));
  BONSAI_CHECK(bytes_of_malloc != nullptr);
  return bytes_of_malloc(block);
}

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
extern "C" size_t malloc_usable_size(void* block) noexcept { return bonsai::bench::bytes_of(block); }
#endif
