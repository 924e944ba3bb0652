// SPDX-License-Identifier: Apache-2.0
// A simulated compute node's process: the product's store over local NVM and remote pools, from opening to its end.
//
// Thread-safety: coroutines of one scheduler.
#ifndef BONSAI_TESTING_SIM_STORE_NODE_H_
#define BONSAI_TESTING_SIM_STORE_NODE_H_

#include <memory>
#include <vector>

#include "rdma/sim/sim.h"
#include "scale/remote_link.h"
#include "scale/target_name.h"
#include "store/db_impl.h"
#include "testing/sim/memory_node.h"
#include "testing/sim/node_nvm.h"

namespace bonsai::testing::sim {

// One target of the pool: exactly one of both.
struct Target {
  NodeNvm* local = nullptr;
  MemoryNode* remote = nullptr;
};

class StoreNode {
 public:
  // Requires: all outlive it. `checks_lease`: of its remote targets.
  StoreNode(rdma::SimNetwork* network, std::vector<Target> targets, uint64_t limit_ms, bool checks_lease = false)
      : network_(*network),
        fabric_(network->make_fabric()),
        targets_(std::move(targets)),
        limit_ms_(limit_ms),
        checks_lease_(checks_lease) {}

  // `roles`: of the targets, by number; those that are not named are for all, or what they were created for.
  // Errors: of the product.
  Status open(const Options& options, bool create, const std::vector<scale::TargetRole>& roles = {});
  // The process ends: orderly, or as far as it can.
  Status close();
  // Its local NVM freezes, and nothing that it does is heard any more. It goes on until close().
  void power_cut(base::Random& dice);
  // Its process ends, as by SIGKILL: as a power cut, but others hear of it at once. Requires: it has no local targets.
  void kill_process();
  // Its machine loses power. Requires: as kill_process().
  void lose_power();

  [[nodiscard]] store::DbImpl* db() { return db_.get(); }
  [[nodiscard]] bool has_power() const { return has_power_; }
  [[nodiscard]] const rdma::Fabric& fabric() const { return *fabric_; }
  // Its requests to other nodes so far. Requires: it is open.
  [[nodiscard]] rdma::Traffic traffic() const { return link_->traffic(); }

 private:
  Status open_target(size_t index, uint64_t create_bytes, std::unique_ptr<base::HookedMedium>* medium);

  rdma::SimNetwork& network_;
  const std::shared_ptr<rdma::Fabric> fabric_;
  const std::vector<Target> targets_;
  const uint64_t limit_ms_;
  const bool checks_lease_;
  bool has_power_ = true;
  std::unique_ptr<scale::Leases> leases_;
  std::unique_ptr<scale::RemoteLink> link_;
  std::unique_ptr<store::DbImpl> db_;
};

// The name of a target's pool on its memory node, and with the node's.
inline std::string pool_name(size_t index) { return "pool." + std::to_string(index); }
[[nodiscard]] scale::TargetName name_of(const MemoryNode& node, size_t index);

}  // namespace bonsai::testing::sim

#endif  // BONSAI_TESTING_SIM_STORE_NODE_H_
