#include "base/memory.h"

#if BONSAI_SCALABLE_MEMORY
#include <oneapi/tbb/scalable_allocator.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/huge_range.h"

namespace bonsai::base::internal {
namespace {

constexpr size_t kGrowthBytes = size_t{8} << 20;

void* grow(std::intptr_t /*pool*/, size_t& bytes) {
  bytes = (bytes + kGrowthBytes - 1) / kGrowthBytes * kGrowthBytes;
  return map_huge(bytes);
}

int shrink(std::intptr_t /*pool*/, void* range, size_t bytes) { return ::munmap(range, bytes); }

// Lives as long as the process: blocks may be freed by threads that end after main().
rml::MemoryPool* pool() {
  static rml::MemoryPool* const made = [] {
    const rml::MemPoolPolicy policy(grow, shrink, kGrowthBytes);
    rml::MemoryPool* fresh = nullptr;
    BONSAI_CHECK(rml::pool_create_v1(0, &policy, &fresh) == rml::POOL_OK);
    return fresh;
  }();
  return made;
}

}  // namespace

void* allocate_from_pool(size_t bytes, size_t alignment) {
  void* const block = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                          ? rml::pool_malloc(pool(), bytes)
                          : rml::pool_aligned_malloc(pool(), bytes, alignment);
  BONSAI_CHECK(block != nullptr);
  return block;
}

void free_to_pool(void* block) { rml::pool_free(pool(), block); }

}  // namespace bonsai::base::internal
#endif
