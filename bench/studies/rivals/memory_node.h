// SPDX-License-Identifier: Apache-2.0
// A memory node: memory that compute nodes access one-sided, and a worker that answers the few calls that need one.
//
// Its memory is [0, fixed_bytes), whose layout is the engine's, and after it chunks that clients request by a call. A
// call is a SEND of kCallBytes; its answer is WRITTEN into the caller's memory, which polls for it. A node of
// persistent memory is also called to make bytes durable: its processor flushes them.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_MEMORY_NODE_H_
#define BONSAI_BENCH_STUDIES_RIVALS_MEMORY_NODE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "bench/studies/rivals/call_server.h"
#include "bench/studies/rivals/connection.h"
#include "rdma/fabric.h"
#include "rdma/registered_memory.h"
#include "rdma/shared_memory.h"

namespace bonsai::bench::rivals {

inline constexpr size_t kCallBytes = 96;

// Asks for `bytes` of fresh, zeroed memory.
struct ChunkCall {
  uint64_t bytes = 0;
  uint64_t token = 0;
  rdma::Remote answer;
  std::array<std::byte, kCallBytes - 4 * sizeof(uint64_t)> padding{};
};
static_assert(sizeof(ChunkCall) == kCallBytes);

// Requests a flush of `bytes` bytes from `offset` on. Answered by a ChunkAnswer of that offset.
struct FlushCall {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t token = 0;
  rdma::Remote answer;
};
inline constexpr size_t kFlushCallBytes = sizeof(FlushCall);
static_assert(kFlushCallBytes != kCallBytes);

// The answer's words may arrive in any order: it is there once `check` fits.
struct ChunkAnswer {
  uint64_t offset = 0;  // 0: no space
  uint64_t check = 0;

  static uint64_t check_of(uint64_t token, uint64_t offset);
};

class MemoryNode {
 public:
  // Makes bytes of the node's memory durable.
  using Flush = std::function<void(size_t offset, size_t bytes)>;

  // Errors: those of the fabric; InvalidArgument (fixed_bytes exceed bytes).
  static Status make(rdma::Fabric* fabric, const std::string& address, size_t bytes, size_t fixed_bytes,
                     std::unique_ptr<MemoryNode>* node);
  // A node over memory of the caller, which outlives the node. Bytes after fixed_bytes go out in chunks unchanged.
  static Status make(rdma::Fabric* fabric, const std::string& address, std::span<std::byte> memory, size_t fixed_bytes,
                     Flush flush, std::unique_ptr<MemoryNode>* node);

  [[nodiscard]] MemoryNodeName name() const { return {address_, region_->remote()}; }
  // For set-up before clients come, and for tests. Shared: use base/nvm/racy_copy.h while there are clients.
  [[nodiscard]] std::byte* data() { return region_->memory().data(); }

  // Bytes in use: the fixed part, and the chunks of clients.
  [[nodiscard]] size_t used_bytes() const { return chunks_first_; }
  // Makes bytes durable, where the memory can be. For set-up.
  void flush(size_t offset, size_t bytes) {
    if (flush_) flush_(offset, bytes);
  }

  // Takes connections and answers one call. Thread-safety: one thread. Errors: Unavailable (none came within the bound;
  // the usual case of an idle node), InvalidArgument (a malformed call, which was dropped).
  Status serve(uint64_t limit_ms);

 private:
  MemoryNode(std::string address, size_t bytes, size_t fixed_bytes)
      : address_(std::move(address)), bytes_(bytes), chunks_first_(fixed_bytes) {}

  Status take_chunk(const ChunkCall& call, uint32_t caller);
  Status answer_flush(const FlushCall& call, uint32_t caller);
  Status answer(uint64_t token, uint64_t offset, rdma::Remote to, uint32_t caller);

  const std::string address_;
  const size_t bytes_;
  size_t chunks_first_;  // what is below is in use
  Flush flush_;
  std::unique_ptr<rdma::SharedMemory> memory_;  // unless it is somebody else's
  std::unique_ptr<rdma::Region> region_;
  std::unique_ptr<CallServer> calls_;
};

// One coroutine's calls. Requires: destroyed before the connection.
class ChunkCaller {
 public:
  static Status make(Connection* connection, std::unique_ptr<ChunkCaller>* caller);

  // Errors: NoSpace (the node has no such chunk left), Unavailable.
  Status call(uint16_t node, uint64_t bytes, Address* chunk);

 private:
  explicit ChunkCaller(Connection* connection) : connection_(connection), batch_(connection) {}

  Connection* const connection_;
  Batch batch_;
  uint64_t tokens_ = 0;
  // The call, then an answer of each node. Nothing orders the WRITEs of several nodes: a shared place could get a word
  // of one answer while the words of another one say that it is complete.
  std::unique_ptr<rdma::RegisteredMemory> memory_;
};

// One coroutine's calls to flush. Requires: destroyed before the connection.
class FlushCaller {
 public:
  static Status make(Connection* connection, std::unique_ptr<FlushCaller>* caller);

  // Adds the call to a batch, after the WRITEs of the bytes.
  void add(Batch* batch, Address first, uint64_t bytes);
  // Once the batch has run: waits until they are durable. Errors: Unavailable.
  Status await(uint64_t limit_ms);

 private:
  explicit FlushCaller(Connection* connection) : connection_(connection) {}

  Connection* const connection_;
  FlushCall call_;
  uint16_t node_ = 0;                               // that was called
  std::unique_ptr<rdma::RegisteredMemory> memory_;  // as ChunkCaller's
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_MEMORY_NODE_H_
