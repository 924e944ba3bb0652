// SPDX-License-Identifier: Apache-2.0
// Owning handles of libibverbs: each object is destroyed once, after the objects made from it. Also the text of its
// errors.
#ifndef BONSAI_RDMA_VERBS_HANDLES_H_
#define BONSAI_RDMA_VERBS_HANDLES_H_

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <system_error>

namespace bonsai::rdma::verbs {

template <auto destroy>
struct Destroy {
  template <class Object>
  void operator()(Object* object) const {
    static_cast<void>(destroy(object));
  }
};

using ProtectionDomain = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Destroy<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using ReceiveQueue = std::unique_ptr<ibv_srq, Destroy<ibv_destroy_srq>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;

// The message of an error number of these calls.
inline std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace bonsai::rdma::verbs

#endif  // BONSAI_RDMA_VERBS_HANDLES_H_
