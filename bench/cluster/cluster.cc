#include "bench/cluster/cluster.h"

#include <string>
#include <utility>

#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace bonsai::bench {

namespace {

constexpr size_t kStackBytes = size_t{128} << 10;

}  // namespace

Cluster::Cluster(const Options& options)
    : options_(options), network_(rdma::SimOptions::with_device(options.device, base::splitmix64(options.seed))) {}

Cluster::~Cluster() { nodes_.clear(); }

Status Cluster::make(const Options& options, std::unique_ptr<Cluster>* cluster) {
  if (!options.device.modelled()) {
    return Status::InvalidArgument("a cluster without a model of its devices; take SimDevice::cx5() or cx6()");
  }
  std::unique_ptr<Cluster> made(new Cluster(options));
  BONSAI_RETURN_IF_ERROR(made->make_nodes());
  *cluster = std::move(made);
  return Status::OK();
}

Status Cluster::make_nodes() {
  for (size_t i = 0; i < options_.memory_nodes; ++i) {
    rdma::Fabric* const fabric = memory_fabrics_.emplace_back(network_.make_fabric()).get();
    const std::string address = "memory" + std::to_string(i);
    std::unique_ptr<rivals::MemoryNode> node;
    if (options_.flushes) {
      BONSAI_RETURN_IF_ERROR(rdma::SharedMemory::make(options_.bytes, &memories_.emplace_back()));
      BONSAI_RETURN_IF_ERROR(rivals::MemoryNode::make(
          fabric, address, memories_.back()->bytes(), options_.fixed_bytes, [](size_t, size_t) {}, &node));
    } else {
      BONSAI_RETURN_IF_ERROR(rivals::MemoryNode::make(fabric, address, options_.bytes, options_.fixed_bytes, &node));
    }
    nodes_.push_back(std::move(node));
  }
  return Status::OK();
}

std::vector<rivals::MemoryNode*> Cluster::nodes() const {
  std::vector<rivals::MemoryNode*> nodes;
  for (const auto& node : nodes_) nodes.push_back(node.get());
  return nodes;
}

size_t Cluster::used_bytes() const {
  size_t used = 0;
  for (const auto& node : nodes_) used += node->used_bytes();
  return used;
}

Status Cluster::connect(size_t compute_node, size_t thread, std::unique_ptr<rivals::Connection>* connection) const {
  std::vector<rivals::MemoryNodeName> names;
  for (const auto& node : nodes_) names.push_back(node->name());
  const auto number = static_cast<uint32_t>(runs_ << 18 | compute_node << 10 | thread);
  return rivals::Connection::make(compute_fabrics_[compute_node].get(), number, names, connection);
}

Status Cluster::run(const rivals::Shape& shape, const std::function<void(const rivals::Seat&)>& body) {
  while (compute_fabrics_.size() < shape.compute_nodes) compute_fabrics_.push_back(network_.make_fabric());
  ++runs_;
  base::Scheduler scheduler({.pick = base::Scheduler::Pick::kFifo,
                             .virtual_time = true,
                             .virtual_ns_per_switch = 0,
                             .stack_bytes = kStackBytes});
  size_t clients_left = shape.clients();
  for (const auto& node : nodes_) {
    scheduler.spawn(
        [&clients_left, server = node.get()] {
          while (clients_left > 0) static_cast<void>(server->serve(1));
        },
        "memory node");
  }
  Status failed;
  std::vector<std::unique_ptr<rivals::Connection>> connections(shape.compute_nodes * shape.threads);
  for (size_t thread = 0; thread < connections.size(); ++thread) {
    scheduler.spawn(
        [&, thread] {
          const size_t compute_node = thread / shape.threads;
          if (Status status = connect(compute_node, thread % shape.threads, &connections[thread]); !status.ok()) {
            failed = std::move(status);
            clients_left -= shape.coroutines;
            return;
          }
          for (size_t i = 0; i < shape.coroutines; ++i) {
            const rivals::Seat seat{thread * shape.coroutines + i, compute_node, connections[thread].get()};
            scheduler.spawn(
                [&, seat] {
                  body(seat);
                  --clients_left;
                },
                "client");
          }
        },
        "thread");
  }
  BONSAI_RETURN_IF_ERROR(scheduler.run());
  return failed;
}

}  // namespace bonsai::bench
