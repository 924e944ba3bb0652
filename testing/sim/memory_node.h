// SPDX-License-Identifier: Apache-2.0
// A simulated memory node: the product's PoolServer over the sim fabric, whose pools are NVM of the simulation. A power
// cut immediately discards bytes that were written to it and are not durable yet (rdma/sim/sim.h).
//
// Its pools' files are husks: they hold the content of the NVM when its pool was last closed.
//
// Thread-safety: coroutines of one scheduler.
#ifndef BONSAI_TESTING_SIM_MEMORY_NODE_H_
#define BONSAI_TESTING_SIM_MEMORY_NODE_H_

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/coro/machine.h"
#include "base/nvm/media.h"
#include "base/thread.h"
#include "rdma/sim/sim.h"
#include "scale/pool_server.h"

namespace bonsai::testing::sim {

class MemoryNode {
 public:
  // `fence_blocks`: as base::Media. `machine`: that it runs on; null: one that is never stopped, and whose clock is
  // right. Requires: network and machine outlive it; the folder exists.
  MemoryNode(rdma::SimNetwork* network, std::string address, std::string folder, uint32_t number,
             bool fence_blocks = false, base::Machine* machine = nullptr);
  ~MemoryNode();
  MemoryNode(const MemoryNode&) = delete;
  MemoryNode& operator=(const MemoryNode&) = delete;

  // Serves from now on. Requires: it does not, and its last service has ended (stop()).
  void start();
  // Returns when the service has ended: of a node that has power orderly, of another one as the dead end.
  void stop();
  void power_cut();
  // Its process ends, as by SIGKILL; what was written to its pools stays. As after a power cut it is then stopped and
  // started.
  void kill_process();
  // Removes the record of a pool's owner. Requires: it does not serve.
  void lose_record(const std::string& pool);
  // Until then it serves no client; or, if its fences block, none of them ends.
  void be_slow_until(uint64_t deadline_ns) { slow_until_ns_ = deadline_ns; }

  [[nodiscard]] bool has_power() const { return fabric_ != nullptr && !dead_; }
  // Requires: started once.
  [[nodiscard]] const rdma::Fabric& fabric() const { return *fabric_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  // The most that a power cut now would leave.
  [[nodiscard]] std::span<const std::byte> pool(const std::string& name) const;

 private:
  class Served;

  void serve();
  bool wait_until_fast();
  Status make_media(const base::Mapping& mapping, base::Media* media);

  rdma::SimNetwork& network_;
  const std::string address_, folder_;
  const uint32_t number_;
  const bool fence_blocks_;
  base::Machine* const machine_;
  std::map<std::string, std::unique_ptr<rdma::SimNvm>> nvms_;  // by name of the pool
  std::unique_ptr<rdma::Fabric> fabric_;
  bool dead_ = false, stopping_ = false;
  uint64_t slow_until_ns_ = 0;
  base::Thread server_;
};

}  // namespace bonsai::testing::sim

#endif  // BONSAI_TESTING_SIM_MEMORY_NODE_H_
