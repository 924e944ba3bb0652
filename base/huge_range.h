// SPDX-License-Identifier: Apache-2.0
// Address ranges that can have huge pages.
#ifndef BONSAI_BASE_HUGE_RANGE_H_
#define BONSAI_BASE_HUGE_RANGE_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#ifndef MADV_COLLAPSE  // C libraries older than Linux 6.1
#define MADV_COLLAPSE 25
#endif

namespace bonsai::base {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Reserves an address range of `bytes`, aligned to `align`, a power of two. It has no access rights: the caller maps
// over it or grants access, and unmaps it. Null when there is none.
[[nodiscard]] inline std::byte* reserve_range(size_t bytes, size_t align) {
  const size_t wanted = bytes + align;
  void* const range = ::mmap(nullptr, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(range);
  const size_t skipped = (align - reinterpret_cast<uintptr_t>(begin) % align) % align;
  if (skipped > 0) ::munmap(begin, skipped);
  if (skipped < align) ::munmap(begin + skipped + bytes, align - skipped);
  return begin + skipped;
}

// Maps zeroed memory of the process, on huge pages if possible. The caller unmaps it. Null when there is none.
[[nodiscard]] inline std::byte* map_huge(size_t bytes) {
  std::byte* const range = reserve_range(bytes, kHugePageBytes);
  if (range == nullptr) return nullptr;
  if (::mprotect(range, bytes, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(range, bytes);
    return nullptr;
  }
  static_cast<void>(::madvise(range, bytes, MADV_HUGEPAGE));
  return range;
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_HUGE_RANGE_H_
