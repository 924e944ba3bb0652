// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/memory_node.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace bonsai::bench::rivals {

uint64_t ChunkAnswer::check_of(uint64_t token, uint64_t offset) {
  return base::splitmix64(base::splitmix64(token) ^ offset);
}

Status MemoryNode::make(rdma::Fabric* fabric, const std::string& address, size_t bytes, size_t fixed_bytes,
                        std::unique_ptr<MemoryNode>* node) {
  std::unique_ptr<rdma::SharedMemory> memory;
  BONSAI_RETURN_IF_ERROR(rdma::SharedMemory::make(bytes, &memory));
  BONSAI_RETURN_IF_ERROR(make(fabric, address, memory->bytes().first(bytes), fixed_bytes, {}, node));
  (*node)->memory_ = std::move(memory);
  return Status::OK();
}

Status MemoryNode::make(rdma::Fabric* fabric, const std::string& address, std::span<std::byte> memory,
                        size_t fixed_bytes, Flush flush, std::unique_ptr<MemoryNode>* node) {
  if (fixed_bytes > memory.size()) {
    return Status::InvalidArgument("a memory node of fewer bytes than its engine's fixed part");
  }
  std::unique_ptr<MemoryNode> made(new MemoryNode(address, memory.size(), std::max<size_t>(fixed_bytes, 64)));
  made->flush_ = std::move(flush);
  BONSAI_RETURN_IF_ERROR(fabric->register_region(memory, rdma::Rights::all(), &made->region_));
  BONSAI_RETURN_IF_ERROR(CallServer::make(fabric, address, kCallBytes, sizeof(ChunkAnswer), &made->calls_));
  *node = std::move(made);
  return Status::OK();
}

Status MemoryNode::serve(uint64_t limit_ms) {
  std::array<std::byte, kCallBytes> bytes{};
  CallServer::Call call;
  BONSAI_RETURN_IF_ERROR(calls_->take(limit_ms, bytes.data(), &call));
  if (call.bytes == kCallBytes) return take_chunk(std::bit_cast<ChunkCall>(bytes), call.caller);
  if (call.bytes != kFlushCallBytes) return Status::InvalidArgument("a call of a wrong size was dropped");
  FlushCall flush_call;
  std::memcpy(static_cast<void*>(&flush_call), bytes.data(), sizeof flush_call);
  return answer_flush(flush_call, call.caller);
}

Status MemoryNode::take_chunk(const ChunkCall& call, uint32_t caller) {
  uint64_t offset = 0;
  if (call.bytes <= bytes_ - chunks_first_) {
    offset = chunks_first_;
    chunks_first_ += (call.bytes + 63) / 64 * 64;
    chunks_first_ = std::min(chunks_first_, bytes_);
  }
  return answer(call.token, offset, call.answer, caller);
}

Status MemoryNode::answer_flush(const FlushCall& call, uint32_t caller) {
  if (!flush_ || call.offset > bytes_ || call.bytes > bytes_ - call.offset) {
    return Status::InvalidArgument("a call to flush what is not persistent memory of this node was dropped");
  }
  flush_(call.offset, call.bytes);
  return answer(call.token, call.offset, call.answer, caller);
}

Status MemoryNode::answer(uint64_t token, uint64_t offset, rdma::Remote to, uint32_t caller) {
  const ChunkAnswer answer{offset, ChunkAnswer::check_of(token, offset)};
  return calls_->answer(&answer, to, caller);
}

namespace {

Status make_call_memory(Connection* connection, size_t call_bytes, std::unique_ptr<rdma::RegisteredMemory>* memory) {
  const size_t bytes = call_bytes + connection->memory_nodes() * sizeof(ChunkAnswer);
  return rdma::RegisteredMemory::make(connection->fabric(), bytes, {.write = true}, memory);
}

size_t answer_at(size_t call_bytes, uint16_t node) { return call_bytes + node * sizeof(ChunkAnswer); }

}  // namespace

Status ChunkCaller::make(Connection* connection, std::unique_ptr<ChunkCaller>* caller) {
  std::unique_ptr<ChunkCaller> made(new ChunkCaller(connection));
  BONSAI_RETURN_IF_ERROR(make_call_memory(connection, kCallBytes, &made->memory_));
  *caller = std::move(made);
  return Status::OK();
}

Status ChunkCaller::call(uint16_t node, uint64_t bytes, Address* chunk) {
  ChunkCall call;
  call.bytes = bytes;
  call.token = ++tokens_;
  call.answer = memory_->remote().at(answer_at(kCallBytes, node));
  std::memcpy(memory_->data(), &call, sizeof call);
  batch_.send(node, memory_->slice(0, kCallBytes));
  BONSAI_RETURN_IF_ERROR(batch_.run());
  ChunkAnswer answer;
  BONSAI_RETURN_IF_ERROR(connection_->worker().await("rival.chunk", Connection::kWaitMs, [&] {
    base::racy_load(&answer, memory_->data() + answer_at(kCallBytes, node), sizeof answer);
    return answer.check == ChunkAnswer::check_of(call.token, answer.offset);
  }));
  if (answer.offset == 0) return Status::NoSpace("the memory node has no chunk left; give it more memory");
  *chunk = {node, answer.offset};
  return Status::OK();
}

Status FlushCaller::make(Connection* connection, std::unique_ptr<FlushCaller>* caller) {
  std::unique_ptr<FlushCaller> made(new FlushCaller(connection));
  BONSAI_RETURN_IF_ERROR(make_call_memory(connection, kFlushCallBytes, &made->memory_));
  *caller = std::move(made);
  return Status::OK();
}

void FlushCaller::add(Batch* batch, Address first, uint64_t bytes) {
  node_ = first.node;
  call_ = {first.offset, bytes, call_.token + 1, memory_->remote().at(answer_at(kFlushCallBytes, node_))};
  std::memcpy(memory_->data(), &call_, sizeof call_);
  batch->send(first.node, memory_->slice(0, kFlushCallBytes));
}

Status FlushCaller::await(uint64_t limit_ms) {
  return connection_->worker().await("rival.flush", limit_ms, [&] {
    ChunkAnswer answer;
    base::racy_load(&answer, memory_->data() + answer_at(kFlushCallBytes, node_), sizeof answer);
    return answer.offset == call_.offset && answer.check == ChunkAnswer::check_of(call_.token, call_.offset);
  });
}

}  // namespace bonsai::bench::rivals
