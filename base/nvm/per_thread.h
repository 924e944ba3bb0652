// SPDX-License-Identifier: Apache-2.0
// State of one object for each thread that uses it: a medium's pending flushes.
//
// A state belongs to a thread ordinal, and ordinals of ended threads are used again: a new thread may find what an
// ended one left. For pending flushes that is harmless, since a line that was flushed may reach the medium at
// any time.
//
// Thread-safety: mine() from any thread. Cost: a thread-local comparison; a mutex at the first use by a thread, and
// when a thread takes turns between many objects.
#ifndef BONSAI_BASE_NVM_PER_THREAD_H_
#define BONSAI_BASE_NVM_PER_THREAD_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/nvm/counters.h"

namespace bonsai::base {

namespace nvm_internal {

struct CachedState {
  uint64_t owner = 0;
  uint32_t ordinal = 0;
  void* state = nullptr;
};

inline constexpr size_t kCachedStates = 8;
inline constinit thread_local std::array<CachedState, kCachedStates> cached_states{};
inline constinit std::atomic<uint64_t> next_owner{1};  // numbers are never used again, so a stale entry never matches

}  // namespace nvm_internal

// Requires: State is constructible from the thread's ordinal.
template <class State>
class PerThread {
 public:
  State& mine() {
    const uint32_t ordinal = counter_block_ordinal();
    nvm_internal::CachedState& cached = nvm_internal::cached_states[owner_ % nvm_internal::kCachedStates];
    if (cached.owner != owner_ || cached.ordinal != ordinal) cached = {owner_, ordinal, &find(ordinal)};
    return *static_cast<State*>(cached.state);
  }

 private:
  State& find(uint32_t ordinal) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<State>& state = states_[ordinal];
    if (!state) state = std::make_unique<State>(ordinal);
    return *state;
  }

  const uint64_t owner_ = nvm_internal::next_owner.fetch_add(1, std::memory_order_relaxed);
  std::mutex mutex_;
  std::unordered_map<uint32_t, std::unique_ptr<State>> states_;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_PER_THREAD_H_
