// SPDX-License-Identifier: Apache-2.0
// One client's blocks of remote memory, in units of 64 bytes, from chunks that it requests of the memory nodes in turn.
//
// A freed block is reused only `reuse_after_ms` later. So if a reader finds a block's address in shared memory, and
// receives the block's bytes within that time, the bytes are from before the reuse. It measures the time by its own
// clock: clocks need not agree, they need only run at the same rate.
//
// Requires: a request is carried out, if at all, within reuse_after_ms of its posting.
// Thread-safety: one coroutine at a time. Any client may free a block that another one allocated.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_REMOTE_HEAP_H_
#define BONSAI_BENCH_STUDIES_RIVALS_REMOTE_HEAP_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/clock.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/memory_node.h"

namespace bonsai::bench::rivals {

class RemoteHeap {
 public:
  static constexpr size_t kUnitBytes = 64;
  static constexpr size_t kUnitsMax = 64;

  struct Options {
    size_t chunk_bytes = size_t{64} << 10;
    uint64_t reuse_after_ms = 100;
  };
  static Status make(Connection* connection, const Options& options, std::unique_ptr<RemoteHeap>* heap);

  // Requires: 1 <= units <= kUnitsMax. Errors: NoSpace, Unavailable.
  Status allocate(size_t units, Address* block);
  // A block that others may still read.
  void free(Address block, size_t units);
  // A block whose address was never in use before.
  void give_back(Address block, size_t units);

  [[nodiscard]] uint64_t reuse_after_ns() const { return reuse_after_ns_; }

 private:
  struct Freed {
    Address block;
    uint64_t reusable_ns;
  };
  RemoteHeap(Connection* connection, const Options& options)
      : connection_(connection),
        chunk_bytes_(options.chunk_bytes),
        reuse_after_ns_(options.reuse_after_ms * base::kNsPerMs) {}

  Connection* const connection_;
  const size_t chunk_bytes_;
  const uint64_t reuse_after_ns_;
  std::unique_ptr<ChunkCaller> caller_;
  uint32_t next_node_ = 0;
  Address chunk_;  // the rest of the newest one
  size_t chunk_rest_bytes_ = 0;
  std::array<std::deque<Freed>, kUnitsMax + 1> freed_;  // by units, the oldest first
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_REMOTE_HEAP_H_
