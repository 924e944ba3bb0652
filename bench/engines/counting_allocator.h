// SPDX-License-Identifier: Apache-2.0
// The memory that a store in DRAM requests: its containers allocate through this, and nothing is estimated.
//
// The counted bytes are those requested from the allocator, which may round up (process_bytes of the results shows by
// how much).
#ifndef BONSAI_BENCH_ENGINES_COUNTING_ALLOCATOR_H_
#define BONSAI_BENCH_ENGINES_COUNTING_ALLOCATOR_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>

#include "base/thread.h"

namespace bonsai::bench {

// The bytes of one store. Thread-safety: all methods from any thread. Memory ordering: relaxed; a sum that is read
// while others allocate is of no single moment. Threads count apart, so that counting does not make them wait for one
// another.
class MemoryAccount {
 public:
  // Whether the counted containers allocate by malloc. Requires: nothing is counted yet.
  void use_system_memory(bool use) { system_memory_ = use; }
  [[nodiscard]] bool system_memory() const { return system_memory_; }

  void add(uint64_t bytes) { mine().fetch_add(bytes, std::memory_order_relaxed); }
  void subtract(uint64_t bytes) { mine().fetch_sub(bytes, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t bytes() const {
    uint64_t sum = 0;  // of parts that may be negative: what one thread allocates another may free
    for (const Part& part : parts_) sum += part.bytes.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Part {
    std::atomic<uint64_t> bytes{0};
  };

  std::atomic<uint64_t>& mine() { return parts_[base::thread_ordinal() % parts_.size()].bytes; }

  std::array<Part, 16> parts_;
  bool system_memory_ = false;
};

// As containers want it. One that was made without an account counts nothing; assigning a container hands its account
// on.
template <class T>
struct CountingAllocator {
  using value_type = T;
  // Types that containers older than std::allocator_traits need.
  using pointer = T*;
  using const_pointer = const T*;
  using reference = T&;
  using const_reference = const T&;
  using size_type = size_t;
  using difference_type = ptrdiff_t;
  template <class U>
  struct rebind {
    using other = CountingAllocator<U>;
  };
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  CountingAllocator() = default;
  explicit CountingAllocator(MemoryAccount* counted_in) : account(counted_in) {}
  template <class U>
  CountingAllocator(const CountingAllocator<U>& other) : account(other.account) {}  // NOLINT: as allocators do

  T* allocate(size_t n) {
    if (account == nullptr) return std::allocator<T>().allocate(n);
    account->add(n * sizeof(T));
    if (!account->system_memory()) return std::allocator<T>().allocate(n);
    void* const block = std::aligned_alloc(alignof(T), (n * sizeof(T) + alignof(T) - 1) / alignof(T) * alignof(T));
    if (block == nullptr) std::abort();
    return static_cast<T*>(block);
  }
  void deallocate(T* at, size_t n) {
    if (account != nullptr) account->subtract(n * sizeof(T));
    if (account != nullptr && account->system_memory()) return std::free(at);
    std::allocator<T>().deallocate(at, n);
  }
  [[nodiscard]] size_t max_size() const { return SIZE_MAX / 2 / sizeof(T); }
  template <class U>
  bool operator==(const CountingAllocator<U>& other) const {
    return account == other.account;
  }

  MemoryAccount* account = nullptr;
};

// Bytes whose memory is counted.
using CountedString = std::basic_string<char, std::char_traits<char>, CountingAllocator<char>>;

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_COUNTING_ALLOCATOR_H_
