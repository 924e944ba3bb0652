// SPDX-License-Identifier: Apache-2.0
// Counts NVM writes: the counters that every medium updates, and their sums.
//
// Each thread counts in a block of its own, so an increment is an addition to a line that no other thread writes
// (about 1 ns). Blocks are never freed: the block of an ended thread keeps its counts and serves the next new thread.
//
// media_bytes is a model. A device writes blocks of 256 bytes and merges neighbouring lines in a write-combining
// buffer of 64 blocks. Here every thread has such a buffer, direct-mapped by block number: a line that is flushed or
// copied past the cache into a block that its slot does not hold costs one block written. The count is therefore exact
// for one writer that streams, an upper bound when threads share blocks, and a lower bound when many threads together
// need more than 64 blocks at once. Under eADR a flush is counted in the same way: it marks where write-back is due.
//
// Thread-safety: all functions, from any thread.
#ifndef BONSAI_BASE_NVM_COUNTERS_H_
#define BONSAI_BASE_NVM_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/nvm/medium.h"

namespace bonsai::base {

inline constexpr size_t kCombiningBlocks = 64;

namespace nvm_internal {

// Memory ordering: one thread writes, relaxed; sums read relaxed. A sum taken after joining a thread includes all of
// its counts, because joining orders them.
struct alignas(kLineBytes) CounterBlock {
  std::atomic<uint64_t> bytes_stored{0};
  std::atomic<uint64_t> lines_flushed{0};
  std::atomic<uint64_t> fences{0};
  std::atomic<uint64_t> media_blocks{0};
  std::array<uintptr_t, kCombiningBlocks> combining{};  // block number held by each slot; the owner's alone
  uint32_t ordinal = 0;                                 // constant once listed
};

inline constinit thread_local CounterBlock* mine = nullptr;

CounterBlock& adopt_block();

inline CounterBlock& my_block() { return mine != nullptr ? *mine : adopt_block(); }

inline void add(std::atomic<uint64_t>& counter, uint64_t n) {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// Accounts for the media blocks that hold [address, address + n) in the thread's combining buffer.
inline void combine(CounterBlock& block, const std::byte* address, size_t n) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t last = (begin + n - 1) / kMediaBlockBytes;
  for (uintptr_t number = begin / kMediaBlockBytes; number <= last; ++number) {
    uintptr_t& held = block.combining[number % kCombiningBlocks];
    if (held == number) continue;
    held = number;
    add(block.media_blocks, 1);
  }
}

}  // namespace nvm_internal

// Number of lines that hold [address, address + n). Requires n > 0.
inline size_t lines_of(const std::byte* address, size_t n) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return (begin + n - 1) / kLineBytes - begin / kLineBytes + 1;
}

inline void count_stored(size_t n) { nvm_internal::add(nvm_internal::my_block().bytes_stored, n); }

inline void count_flush(const std::byte* address, size_t n) {
  if (n == 0) return;
  auto& block = nvm_internal::my_block();
  nvm_internal::add(block.lines_flushed, lines_of(address, n));
  nvm_internal::combine(block, address, n);
}

inline void count_nt(const std::byte* address, size_t n) {
  if (n == 0) return;
  auto& block = nvm_internal::my_block();
  nvm_internal::add(block.bytes_stored, n);
  nvm_internal::combine(block, address, n);
}

inline void count_fence() { nvm_internal::add(nvm_internal::my_block().fences, 1); }

// The sums over all threads, ended ones included, since the process started.
[[nodiscard]] NvmCounters nvm_counters();

// A small number, unique among live threads. Numbers of ended threads are used again.
[[nodiscard]] inline uint32_t counter_block_ordinal() { return nvm_internal::my_block().ordinal; }

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_COUNTERS_H_
