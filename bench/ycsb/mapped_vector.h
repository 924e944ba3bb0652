// SPDX-License-Identifier: Apache-2.0
// A vector with a mapping of its own, which is returned to the system with it. So the memory of requests is neither
// part of the process's memory before and after a phase, nor kept by an allocator for the engines to use.
#ifndef BONSAI_BENCH_YCSB_MAPPED_VECTOR_H_
#define BONSAI_BENCH_YCSB_MAPPED_VECTOR_H_

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

#include "base/huge_range.h"

namespace bonsai::bench {

template <class T>
struct MappingAllocator {
  using value_type = T;
  MappingAllocator() = default;
  template <class U>
  MappingAllocator(const MappingAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor): allocators convert
  [[nodiscard]] T* allocate(size_t n) {
    std::byte* const range = base::map_huge(n * sizeof(T));
    if (range == nullptr) throw std::bad_alloc();
    return reinterpret_cast<T*>(range);
  }
  void deallocate(T* range, size_t n) { ::munmap(range, n * sizeof(T)); }
  friend bool operator==(const MappingAllocator&, const MappingAllocator&) { return true; }
};

template <class T>
using MappedVector = std::vector<T, MappingAllocator<T>>;

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_YCSB_MAPPED_VECTOR_H_
