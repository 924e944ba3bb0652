// A memory node: memory that compute nodes reach one-sided, and a worker that answers the few calls that need one.
//
// Its memory is [0, fixed_bytes), whose layout is the engine's, and after it chunks that clients ask for by a call.
// A call is a SEND of kCallBytes; its answer is WRITTEN into the caller's memory, which polls for it.
#ifndef BONSAI_BENCH_RIVALS_MEMORY_NODE_H_
#define BONSAI_BENCH_RIVALS_MEMORY_NODE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/rivals/connection.h"
#include "rdma/fabric.h"
#include "rdma/registered_memory.h"

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

// The answer's words may arrive in any order: it is there once `check` fits.
struct ChunkAnswer {
  uint64_t offset = 0;  // 0: no space
  uint64_t check = 0;

  static uint64_t check_of(uint64_t token, uint64_t offset);
};

class MemoryNode {
 public:
  // Errors: those of the fabric; InvalidArgument (fixed_bytes exceed bytes).
  static Status make(rdma::Fabric* fabric, const std::string& address, size_t bytes, size_t fixed_bytes,
                     std::unique_ptr<MemoryNode>* node);
  ~MemoryNode();

  [[nodiscard]] MemoryNodeName name() const { return {address_, memory_->remote()}; }
  // For set-up before clients come, and for tests. Shared: use base/nvm/racy_copy.h while there are clients.
  [[nodiscard]] std::byte* data() { return memory_->data(); }

  // Takes connections and answers one call. Thread-safety: one thread. Errors: Unavailable (none came within the bound;
  // the usual case of an idle node), InvalidArgument (a malformed call, which was dropped).
  Status serve(uint64_t limit_ms);

 private:
  static constexpr size_t kCallsMax = 64;
  static constexpr size_t kAnswersMax = 16;

  MemoryNode(std::string address, size_t bytes, size_t fixed_bytes)
      : address_(std::move(address)), bytes_(bytes), chunks_first_(fixed_bytes) {}

  rdma::Peer* peer_of(uint32_t number);
  Status answer(const ChunkCall& call, uint32_t caller);

  const std::string address_;
  const size_t bytes_;
  size_t chunks_first_;  // what is below is in use
  std::unique_ptr<rdma::RegisteredMemory> memory_, calls_, answers_;
  std::unique_ptr<rdma::Worker> worker_;
  std::vector<std::unique_ptr<rdma::Peer>> peers_;
  std::array<rdma::WorkList, kAnswersMax> lists_;
  size_t answered_ = 0;
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
  std::unique_ptr<rdma::RegisteredMemory> memory_;  // the call, then the answer
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_RIVALS_MEMORY_NODE_H_
