// SPDX-License-Identifier: Apache-2.0
// The shm provider: true one-sided access between processes of one machine, and between nodes of one process. Nodes
// that share a folder reach each other; without a folder those of the same ShmNetwork object do.
//
// One-sided work is carried out by the poster's thread while it posts, in list order, and is seen as complete by its
// next poll(). WRITE and READ are copies (base/nvm/racy_copy.h), CAS and FAA the processor's own atomics. Between nodes
// of one process the owner's addresses are used; another process gets the file that backs a region over a unix socket
// the first time that it names its key, mapped with the region's rights and no more.
//
// A region that goes away: its owner waits until nobody is amid an access, later ones are refused. That binds the
// honest; a process that got a mapping keeps it until it ends (docs/security.md).
// A peer that dies is noticed by its socket. What it had begun is whole or torn at 8 bytes.
//
// Memory ordering: CAS, FAA and SEND publish what the same thread wrote before (seq_cst); a WRITE alone publishes
// nothing.
//
// The model (optional) delays completions as if the bytes had crossed a network; it never spins to burn time. Results
// with it are labelled by Capabilities::text.
#ifndef BONSAI_RDMA_SHM_SHM_H_
#define BONSAI_RDMA_SHM_SHM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "rdma/fabric.h"

namespace bonsai::rdma {

struct ShmOptions {
  // Where the processes meet: a folder of the file system that exists and only its users may enter (mode 0700, say). An
  // address is a file name in it. Empty: nodes of this process only, over any memory.
  std::string folder;
  // The model: a list is complete so long after it was posted, ...
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
  // The same for tests: a failure ends the process.
  std::unique_ptr<Fabric> make_fabric();

 private:
  std::shared_ptr<ShmState> state_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SHM_SHM_H_
