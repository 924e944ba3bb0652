// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/remote_heap.h"

#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"

namespace bonsai::bench::rivals {

Status RemoteHeap::make(Connection* connection, const Options& options, std::unique_ptr<RemoteHeap>* heap) {
  if (options.chunk_bytes < kUnitsMax * kUnitBytes) {
    return Status::InvalidArgument("chunk_bytes is less than the largest block");
  }
  std::unique_ptr<RemoteHeap> made(new RemoteHeap(connection, options));
  made->next_node_ = connection->number();
  BONSAI_RETURN_IF_ERROR(ChunkCaller::make(connection, &made->caller_));
  *heap = std::move(made);
  return Status::OK();
}

Status RemoteHeap::allocate(size_t units, Address* block) {
  BONSAI_CHECK(units >= 1 && units <= kUnitsMax);
  std::deque<Freed>& freed = freed_[units];
  if (!freed.empty() && freed.front().reusable_ns <= base::now_ns()) {
    *block = freed.front().block;
    freed.pop_front();
    return Status::OK();
  }
  if (chunk_rest_bytes_ < units * kUnitBytes) {
    const auto node = static_cast<uint16_t>(next_node_ % connection_->memory_nodes());
    BONSAI_RETURN_IF_ERROR(caller_->call(node, chunk_bytes_, &chunk_));
    chunk_rest_bytes_ = chunk_bytes_;
    ++next_node_;
  }
  *block = chunk_;
  chunk_.offset += units * kUnitBytes;
  chunk_rest_bytes_ -= units * kUnitBytes;
  return Status::OK();
}

void RemoteHeap::free(Address block, size_t units) {
  freed_[units].push_back({block, base::now_ns() + reuse_after_ns_});
}

void RemoteHeap::give_back(Address block, size_t units) { freed_[units].push_front({block, 0}); }

}  // namespace bonsai::bench::rivals
