// SPDX-License-Identifier: Apache-2.0
// rdma://HOST:PORT/POOL: what links this file reaches nodes over RDMA devices (rdma/verbs.h), which are looked for when
// the scheme is first used.
#include "rdma/verbs.h"
#include "scale/fabrics.h"

namespace bonsai::scale {
namespace {

const bool registered = [] {
  register_fabric("rdma", [](std::shared_ptr<rdma::Fabric>* fabric) {
    std::unique_ptr<rdma::VerbsFabric> made;
    Status status = rdma::VerbsFabric::open({}, &made);
    if (status.ok()) *fabric = std::move(made);
    return status;
  });
  return true;
}();

}  // namespace
}  // namespace bonsai::scale
