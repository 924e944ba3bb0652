// The loopback provider: nodes inside one process, over plain memory. The smallest thing that keeps every promise of
// fabric.h; tests and single-process set-ups use it. It models no time, no loss and no torn READs.
//
// One-sided work is carried out by the poster's thread while it posts, and is seen as complete by its next poll().
// Requests of one list are carried out in list order. WRITE and READ copy as base/nvm/racy_copy.h does, CAS and FAA are
// the processor's own atomics, so they are atomic with the peer's processor as well.
//
// Memory ordering: CAS, FAA and SEND publish what the same thread wrote before (seq_cst, mutex); a WRITE alone
// publishes nothing.
#ifndef BONSAI_RDMA_LOOPBACK_H_
#define BONSAI_RDMA_LOOPBACK_H_

#include <memory>

#include "rdma/fabric.h"

namespace bonsai::rdma {

// The nodes that can reach each other. Addresses are any non-empty strings. Thread-safety: any thread.
// Requires: outlives its fabrics.
class LoopbackNetwork {
 public:
  LoopbackNetwork();
  ~LoopbackNetwork();
  LoopbackNetwork(const LoopbackNetwork&) = delete;
  LoopbackNetwork& operator=(const LoopbackNetwork&) = delete;

  // A new node.
  std::unique_ptr<Fabric> make_fabric();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_LOOPBACK_H_
