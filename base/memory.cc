// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#if BONSAI_SCALABLE_MEMORY
#include "base/check.h"

namespace bonsai::base {
namespace {

// Never destroyed, because threads that end after main() may still free blocks.
Heap& heap_of(Lifetime lifetime) {
  static auto* const updates = new Heap();
  static auto* const ranges = new Heap();
  return lifetime == Lifetime::kUpdates ? *updates : *ranges;
}

}  // namespace

void* internal::allocate_from_heap(size_t bytes, Lifetime lifetime) {
  void* const block = heap_of(lifetime).allocate(bytes);
  BONSAI_CHECK(block != nullptr);
  return block;
}

void give_back_memory() {
  heap_of(Lifetime::kUpdates).give_back();
  heap_of(Lifetime::kRanges).give_back();
}

Heap::Use memory_use() {
  const Heap::Use updates = heap_of(Lifetime::kUpdates).use(), ranges = heap_of(Lifetime::kRanges).use();
  return {updates.held_bytes + ranges.held_bytes, updates.used_bytes + ranges.used_bytes};
}

}  // namespace bonsai::base
#else
namespace bonsai::base {

void give_back_memory() {}
Heap::Use memory_use() { return {}; }

}  // namespace bonsai::base
#endif
