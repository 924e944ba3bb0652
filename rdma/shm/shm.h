// SPDX-License-Identifier: Apache-2.0
// The shm provider: true one-sided access between processes of one machine, and between nodes of one process. Nodes
// that share a folder reach each other; without a folder those of the same ShmNetwork object do.
//
// The posting thread carries out one-sided work while it posts, in list order; its next poll() reports it as complete.
// WRITE and READ are copies (base/nvm/racy_copy.h), CAS and FAA the processor's own atomics. Nodes of one process use
// the owner's addresses. Another process receives the file that backs a region over a unix socket, at its first request
// with the region's key, and maps it with exactly the region's rights.
//
// When a region is destroyed its owner waits until no access is in flight; later accesses are refused. This binds
// honest processes only: a process that has a mapping keeps it until it ends (docs/security.md).
// The socket shows that a peer has died. An access that it had begun is whole or torn at 8 bytes.
//
// Memory ordering: CAS, FAA and SEND publish earlier writes of the same thread (seq_cst); a WRITE alone publishes
// nothing.
//
// The model (optional) delays completions as if the bytes had crossed a network, without spinning. Capabilities::text
// labels its results.
#ifndef BONSAI_RDMA_SHM_SHM_H_
#define BONSAI_RDMA_SHM_SHM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "rdma/fabric.h"

namespace bonsai::rdma {

struct ShmOptions {
  // The folder in which processes find each other. It must exist, and only its users may enter it (for example, mode
  // 0700). An address is a file name in it. Empty: nodes of this process only, over any memory.
  std::string folder;
  // The model: a list is complete this long after it was posted, ...
  uint64_t latency_ns = 0;
  // ... or later, when its worker's lists exceed this; 0 = no limit.
  uint64_t bytes_per_second = 0;
};

class ShmState;

// Thread-safety: any thread. Requires: outlives its fabrics.
class ShmNetwork {
 public:
  explicit ShmNetwork(const ShmOptions& options = {});
  ~ShmNetwork();
  ShmNetwork(const ShmNetwork&) = delete;
  ShmNetwork& operator=(const ShmNetwork&) = delete;

  // A new node. Region registration refuses private memory with rights when there is a folder.
  // Errors: NoSpace, IoError (no further thread, descriptor or memory).
  [[nodiscard]] Status make_fabric(std::unique_ptr<Fabric>* fabric);
  // As above, for tests: a failure ends the process.
  std::unique_ptr<Fabric> make_fabric();

 private:
  std::shared_ptr<ShmState> state_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SHM_SHM_H_
