// SPDX-License-Identifier: Apache-2.0
// Memory nodes and compute nodes on a simulated network whose devices are modelled: the engines' own code in virtual
// time, hundreds of clients on one thread.
//
// What takes time: rdma/sim/sim.h, SimDevice. All rates and times are modelled.
#ifndef BONSAI_BENCH_STUDIES_CLUSTER_CLUSTER_H_
#define BONSAI_BENCH_STUDIES_CLUSTER_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/studies/rivals/memory_node.h"
#include "bench/studies/rivals/seat.h"
#include "rdma/shared_memory.h"
#include "rdma/sim/sim.h"

namespace bonsai::bench {

// Thread-safety: one thread.
class Cluster {
 public:
  struct Options {
    rdma::SimDevice device = rdma::SimDevice::cx5();
    uint64_t seed = 1;
    size_t memory_nodes = 1;
    size_t bytes = size_t{1} << 20;  // of each memory node
    size_t fixed_bytes = 0;          // ... that the system lays out
    bool flushes = false;            // the nodes answer calls to flush, though their memory is volatile
    uint64_t backoff_ns = 0;         // Connection::set_backoff() of every seat
    uint64_t switch_ns = 0;          // Scheduler::Options::virtual_ns_per_switch
  };
  // Errors: those of the fabric; InvalidArgument (fixed_bytes exceed bytes, a device without a name).
  static Status make(const Options& options, std::unique_ptr<Cluster>* cluster);
  ~Cluster();

  [[nodiscard]] std::vector<rivals::MemoryNode*> nodes() const;
  // Bytes in use on all memory nodes.
  [[nodiscard]] size_t used_bytes() const;
  // The fabric of a compute node, for state that its clients share.
  [[nodiscard]] rdma::Fabric* compute_fabric(size_t compute_node);
  // A node for one more server, which calls `serve` while clients act, as the memory nodes do. Connections see it as
  // the node after the memory nodes. `list_cpu_ns`: as in SimNetwork::make_fabric(). Requires: no run yet.
  [[nodiscard]] std::unique_ptr<rdma::Fabric> make_fabric(std::optional<double> list_cpu_ns = {}) {
    return network_.make_fabric(list_cpu_ns);
  }
  void add_server(const rivals::MemoryNodeName& name, std::function<Status(uint64_t limit_ms)> serve);
  // Adds a server that seats do not connect to.
  void serve_beside(std::function<Status(uint64_t limit_ms)> serve) { servers_.push_back(std::move(serve)); }

  // As in SimNetwork.
  void set_instant(bool instant) { network_.set_instant(instant); }
  void set_device(const rdma::SimDevice& device) { network_.set_device(device); }

  // Background work of a compute node, on its own threads and connections. It ends when `stop` reports that the clients
  // are done.
  struct Background {
    size_t threads;  // of each compute node
    std::function<Status(const rivals::Seat& seat, const std::function<bool()>& stop)> act;
  };
  // Runs `body` for every client of the shape at the same time, while the memory nodes serve. Returns when all clients
  // are done. The same calls give the same run. Errors: Unavailable (a thread could not connect, or the clients did not
  // finish), those of `background`.
  Status run(const rivals::Shape& shape, const std::function<void(const rivals::Seat&)>& body,
             const Background& background = {});

 private:
  explicit Cluster(const Options& options);
  Status make_nodes();
  class Run;
  Status connect(size_t compute_node, size_t thread, std::unique_ptr<rivals::Connection>* connection);

  const Options options_;
  rdma::SimNetwork network_;
  std::vector<std::unique_ptr<rdma::Fabric>> memory_fabrics_, compute_fabrics_;
  std::vector<std::unique_ptr<rdma::SharedMemory>> memories_;  // of nodes that flush
  std::vector<std::unique_ptr<rivals::MemoryNode>> nodes_;
  std::vector<rivals::MemoryNodeName> names_;  // of servers that seats connect to
  std::vector<std::function<Status(uint64_t limit_ms)>> servers_;
  uint32_t runs_ = 0;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_CLUSTER_CLUSTER_H_
