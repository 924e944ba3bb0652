// SPDX-License-Identifier: Apache-2.0
// A worker that takes calls and answers them: a call is a SEND, its answer is WRITTEN into the caller's memory, which
// polls for it. The answer's words may arrive in any order, so each answer has a check.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_CALL_SERVER_H_
#define BONSAI_BENCH_STUDIES_RIVALS_CALL_SERVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rdma/fabric.h"
#include "rdma/registered_memory.h"

namespace bonsai::bench::rivals {

// Thread-safety: one thread.
class CallServer {
 public:
  // Calls of up to call_bytes_max, answers of answer_bytes. Errors: those of the fabric.
  static Status make(rdma::Fabric* fabric, const std::string& address, size_t call_bytes_max, size_t answer_bytes,
                     std::unique_ptr<CallServer>* server);
  ~CallServer();

  struct Call {
    size_t bytes = 0;
    uint32_t caller = 0;  // Hello::node
  };
  // Takes connections, and copies one call to `to`. Requires: room for call_bytes_max. Errors: Unavailable (none came
  // within the bound; the usual case of an idle server).
  Status take(uint64_t limit_ms, std::byte* to, Call* call);
  // Posts the answer and does not wait for it. Errors: Unavailable (the caller has left).
  Status answer(const void* bytes, rdma::Remote to, uint32_t caller);

 private:
  static constexpr size_t kCallsMax = 512;  // of hundreds of clients at once
  static constexpr size_t kAnswersMax = 16;

  explicit CallServer(size_t answer_bytes) : answer_bytes_(answer_bytes) {}

  void accept_all();
  rdma::Peer* peer_of(uint32_t caller);

  const size_t answer_bytes_;
  std::unique_ptr<rdma::RegisteredMemory> calls_, answers_;
  std::unique_ptr<rdma::Worker> worker_;
  std::vector<std::unique_ptr<rdma::Peer>> peers_;
  std::array<rdma::WorkList, kAnswersMax> lists_;
  size_t answered_ = 0;
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_CALL_SERVER_H_
