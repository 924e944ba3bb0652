// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/counters.h"

#include <memory>
#include <mutex>
#include <vector>

namespace bonsai::base {
namespace nvm_internal {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<CounterBlock>> blocks;
  std::vector<CounterBlock*> idle;
};

// Never destroyed: threads may count until the process ends.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

// Gives the block back when its thread ends. If a later thread-local destructor counts again, the thread takes a second
// block, which no other thread ever uses; the counts are still right.
struct Release {
  ~Release() {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    all.idle.push_back(mine);
    mine = nullptr;
  }
};

}  // namespace

CounterBlock& adopt_block() {
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    if (all.idle.empty()) {
      all.blocks.push_back(std::make_unique<CounterBlock>());
      all.blocks.back()->ordinal = static_cast<uint32_t>(all.blocks.size() - 1);
      mine = all.blocks.back().get();
    } else {
      mine = all.idle.back();
      all.idle.pop_back();
      mine->combining.fill(0);
    }
  }
  thread_local Release release;
  static_cast<void>(release);
  return *mine;
}

}  // namespace nvm_internal

NvmCounters nvm_counters() {
  nvm_internal::Registry& all = nvm_internal::registry();
  const std::lock_guard lock(all.mutex);
  NvmCounters sum;
  for (const auto& block : all.blocks) {
    sum.bytes_stored += block->bytes_stored.load(std::memory_order_relaxed);
    sum.lines_flushed += block->lines_flushed.load(std::memory_order_relaxed);
    sum.fences += block->fences.load(std::memory_order_relaxed);
    sum.media_bytes += block->media_blocks.load(std::memory_order_relaxed) * kMediaBlockBytes;
  }
  return sum;
}

}  // namespace bonsai::base
