// SPDX-License-Identifier: Apache-2.0
// Memory of a map: counted, and given back when no reader can see it any more.
#ifndef BONSAI_BENCH_STUDIES_MAPS_MEMORY_H_
#define BONSAI_BENCH_STUDIES_MAPS_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "base/epoch.h"
#include "base/thread.h"

namespace bonsai::bench::maps {

// Thread-safety: everything from any thread, but the destructor.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] base::EpochDomain::Guard enter() { return domain_.enter(); }

  [[nodiscard]] void* allocate(size_t bytes) {
    count(bytes);
    return ::operator new(bytes);
  }
  // Frees at once. Requires: no other thread has seen it.
  void free(void* object, size_t bytes) {
    count(-bytes);
    ::operator delete(object);
  }
  // Calls reclaim(object, context) when all guards of this moment have ended.
  void retire(void* object, base::EpochDomain::Reclaim reclaim, void* context, size_t bytes) {
    domain_.retire(object, reclaim, context, bytes);
  }

  // allocate() and free() for objects of a fixed size with a trivial destructor.
  template <class T, class... Arguments>
  [[nodiscard]] T* make(Arguments&&... arguments) {
    return new (allocate(sizeof(T))) T{std::forward<Arguments>(arguments)...};
  }
  template <class T>
  void destroy(T* object) {
    object->~T();
    free(object, sizeof(T));
  }
  template <class T>
  void retire_object(T* object) {
    retire(
        object, [](void* dead, void* memory) { static_cast<Memory*>(memory)->destroy(static_cast<T*>(dead)); }, this,
        sizeof(T));
  }

  [[nodiscard]] uint64_t bytes() const {
    uint64_t sum = 0;
    for (const Stripe& stripe : stripes_) sum += stripe.bytes.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Stripe {
    std::atomic<uint64_t> bytes{0};  // what one stripe frees another may have allocated: only the sum is meant
  };

  void count(size_t bytes) {
    stripes_[base::thread_ordinal() % stripes_.size()].bytes.fetch_add(bytes, std::memory_order_relaxed);
  }

  std::array<Stripe, 16> stripes_;
  base::EpochDomain domain_;  // last: its destructor frees
};

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_MEMORY_H_
