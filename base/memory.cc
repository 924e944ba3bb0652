// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <cstdlib>
#include <mutex>
#include <new>

#include "base/check.h"
#include "base/huge_range.h"

namespace bonsai::base {
namespace {

// Memory of the standard library that a step of background work may take.
constexpr size_t kWorkBytes = size_t{64} << 10;
// Blocks of an update group or a batch up to this size come from the reserve, should the system have none.
constexpr size_t kReserveServesBytes = size_t{1} << 20;

bool standard_library_has(size_t bytes) {
  void* volatile block = std::malloc(bytes);
  const bool has = block != nullptr;
  std::free(block);
  return has;
}

}  // namespace

Status out_of_memory() {
  return Status::NoSpace("out of memory; give the process more (ulimit -v, the memory limit of the container)");
}

#if BONSAI_SCALABLE_MEMORY
namespace {

constexpr size_t kReserveOfUpdates = 4, kReserveOfRanges = 2;  // regions

// Never destroyed, because threads that end after main() may still free blocks.
Heap& heap_of(Lifetime lifetime) {
  static auto* const updates = new Heap();
  static auto* const ranges = new Heap();
  return lifetime == Lifetime::kUpdates ? *updates : *ranges;
}

std::mutex reserve_mutex;
size_t reserve_users = 0;  // under it

bool set_reserves(bool wanted) {
  const bool updates = heap_of(Lifetime::kUpdates).set_reserve(wanted ? kReserveOfUpdates : 0);
  return heap_of(Lifetime::kRanges).set_reserve(wanted ? kReserveOfRanges : 0) && updates;
}

}  // namespace

void* internal::allocate_from_heap(size_t bytes, Lifetime lifetime) {
  void* const block = heap_of(lifetime).allocate(bytes);
  if (block == nullptr) [[unlikely]]
    throw std::bad_alloc();
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

Status MemoryReserve::take() {
  const std::lock_guard lock(reserve_mutex);
  if (taken_) return Status::OK();
  if (reserve_users == 0 && !set_reserves(true)) {
    set_reserves(false);
    return out_of_memory();
  }
  ++reserve_users;
  taken_ = true;
  return Status::OK();
}

MemoryReserve::~MemoryReserve() {
  const std::lock_guard lock(reserve_mutex);
  if (taken_ && --reserve_users == 0) set_reserves(false);
}

bool refill_memory() {
  give_back_memory();  // what one heap keeps another may need
  const bool updates = heap_of(Lifetime::kUpdates).refill();
  return heap_of(Lifetime::kRanges).refill() && updates && standard_library_has(kWorkBytes);
}

Status memory_for_work() {
  const bool reserve_left = !Heap::any_short() || heap_of(Lifetime::kRanges).reserve_regions() >= kReserveOfRanges / 2;
  if (!reserve_left) return out_of_memory();
  if (standard_library_has(kWorkBytes)) return Status::OK();
  memory_ran_out();
  return standard_library_has(kWorkBytes) ? Status::OK() : out_of_memory();
}

void memory_ran_out() { static_cast<void>(heap_of(Lifetime::kUpdates).spend_reserve()); }

bool memory_has(size_t bytes) {
  if (bytes <= kReserveServesBytes) return true;
  std::byte* const probe = map_huge(bytes);
  if (probe == nullptr) return false;
  ::munmap(probe, bytes);
  return true;
}

#else

void give_back_memory() {}
Heap::Use memory_use() { return {}; }
Status MemoryReserve::take() { return Status::OK(); }
MemoryReserve::~MemoryReserve() = default;
bool refill_memory() { return true; }
void memory_ran_out() {}
Status memory_for_work() { return standard_library_has(kWorkBytes) ? Status::OK() : out_of_memory(); }
bool memory_has(size_t bytes) { return bytes <= kReserveServesBytes || standard_library_has(bytes); }

#endif

}  // namespace bonsai::base
