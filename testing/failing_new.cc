// SPDX-License-Identifier: Apache-2.0
#include "testing/failing_new.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace bonsai::testing {
namespace {

constexpr int64_t kNeverFails = INT64_MAX;

std::atomic<int64_t> until_failure{kNeverFails};

bool fails_now() {
  return until_failure.load(std::memory_order_relaxed) != kNeverFails &&
         until_failure.fetch_sub(1, std::memory_order_relaxed) == 0;
}

void* allocate(size_t bytes, size_t alignment) {
  if (fails_now()) throw std::bad_alloc();
  void* const block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

void fail_allocation_after(int64_t succeeding) { until_failure.store(succeeding); }
bool end_failing_allocations() { return until_failure.exchange(kNeverFails) < 0; }

}  // namespace bonsai::testing

[[gnu::noinline]] void* operator new(size_t bytes) {
  return bonsai::testing::allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  return bonsai::testing::allocate(bytes, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return bonsai::testing::allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t, std::align_val_t) noexcept { std::free(block); }
