// SPDX-License-Identifier: Apache-2.0
#include "base/coro/stack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <vector>

#include "base/check.h"
#include "base/coro/sanitizers.h"

namespace bonsai::base {
namespace {

constexpr size_t kFreeStacksMax = 4096;  // per size

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Never destroyed, because coroutines may be used during static destruction.
struct StackPool {
  std::mutex mutex;
  std::map<size_t, std::vector<Stack>> free;  // by size
  size_t created = 0;

  static StackPool& instance() {
    static auto* pool = new StackPool;
    return *pool;
  }
};

Stack map_stack(size_t bytes) {
  const size_t guard = page_bytes();
  void* map = mmap(nullptr, guard + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (map == MAP_FAILED) return {};
  if (mprotect(map, guard, PROT_NONE) != 0) {
    munmap(map, guard + bytes);
    return {};
  }
  return {static_cast<std::byte*>(map) + guard, bytes};
}

void unmap_stack(const Stack& stack) {
  const size_t guard = page_bytes();
  BONSAI_CHECK(munmap(stack.bottom - guard, guard + stack.bytes) == 0);
}

}  // namespace

Stack take_stack(size_t bytes) {
  bytes = (bytes * kSanitizerStackFactor + page_bytes() - 1) / page_bytes() * page_bytes();
  StackPool& pool = StackPool::instance();
  std::lock_guard lock(pool.mutex);
  std::vector<Stack>& free = pool.free[bytes];
  if (!free.empty()) {
    const Stack stack = free.back();
    free.pop_back();
    return stack;
  }
  const Stack stack = map_stack(bytes);
  if (stack.bottom != nullptr) ++pool.created;
  return stack;
}

void give_back_stack(const Stack& stack) {
  sanitizer_stack_left(stack.bottom, stack.bytes);
  StackPool& pool = StackPool::instance();
  std::lock_guard lock(pool.mutex);
  std::vector<Stack>& free = pool.free[stack.bytes];
  if (free.size() >= kFreeStacksMax) return unmap_stack(stack);
  free.push_back(stack);
}

size_t stacks_created() {
  StackPool& pool = StackPool::instance();
  std::lock_guard lock(pool.mutex);
  return pool.created;
}

}  // namespace bonsai::base
