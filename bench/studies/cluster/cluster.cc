// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/cluster/cluster.h"

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
    add_server(node->name(), [server = node.get()](uint64_t limit_ms) { return server->serve(limit_ms); });
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

rdma::Fabric* Cluster::compute_fabric(size_t compute_node) {
  while (compute_fabrics_.size() <= compute_node) compute_fabrics_.push_back(network_.make_fabric());
  return compute_fabrics_[compute_node].get();
}

void Cluster::add_server(const rivals::MemoryNodeName& name, std::function<Status(uint64_t limit_ms)> serve) {
  names_.push_back(name);
  servers_.push_back(std::move(serve));
}

Status Cluster::connect(size_t compute_node, size_t thread, std::unique_ptr<rivals::Connection>* connection) {
  const auto number = static_cast<uint32_t>(runs_ << 18 | compute_node << 10 | thread);
  BONSAI_RETURN_IF_ERROR(rivals::Connection::make(compute_fabric(compute_node), number, names_, connection));
  (*connection)->set_backoff(options_.backoff_ns);
  return Status::OK();
}

// Servers serve until the clients are done, and then until the background is done.
class Cluster::Run {
 public:
  Run(Cluster* cluster, const rivals::Shape& shape, const std::function<void(const rivals::Seat&)>& body,
      const Background& background)
      : cluster_(*cluster),
        shape_(shape),
        body_(body),
        background_(background),
        clients_left_(shape.clients()),
        backgrounds_left_(shape.compute_nodes * background.threads),
        scheduler_({.pick = base::Scheduler::Pick::kFifo,
                    .virtual_time = true,
                    .virtual_ns_per_switch = cluster->options_.switch_ns,
                    .stack_bytes = kStackBytes}) {}

  Status run() {
    for (const auto& serve : cluster_.servers_) {
      scheduler_.spawn(
          [this, &serve] {
            while (clients_left_ + backgrounds_left_ > 0) static_cast<void>(serve(1));
          },
          "server");
    }
    connections_.resize(shape_.compute_nodes * shape_.threads + backgrounds_left_);
    for (size_t node = 0; node < shape_.compute_nodes; ++node) {
      for (size_t thread = 0; thread < shape_.threads; ++thread) {
        scheduler_.spawn([this, node, thread] { start_clients(node, thread); }, "thread");
      }
      for (size_t thread = 0; thread < background_.threads; ++thread) {
        scheduler_.spawn([this, node, thread] { act_beside(node, thread); }, "background");
      }
    }
    BONSAI_RETURN_IF_ERROR(scheduler_.run());
    return failed_;
  }

 private:
  void start_clients(size_t node, size_t of_node) {
    const size_t thread = node * shape_.threads + of_node;
    if (!note(cluster_.connect(node, of_node, &connections_[thread]))) {
      clients_left_ -= shape_.coroutines;
      return;
    }
    for (size_t i = 0; i < shape_.coroutines; ++i) {
      const rivals::Seat seat{thread * shape_.coroutines + i, node, connections_[thread].get()};
      scheduler_.spawn(
          [this, seat] {
            body_(seat);
            --clients_left_;
          },
          "client");
    }
  }
  void act_beside(size_t node, size_t thread) {
    auto& connection = connections_[shape_.compute_nodes * shape_.threads + node * background_.threads + thread];
    if (note(cluster_.connect(node, shape_.threads + thread, &connection))) {
      note(background_.act({SIZE_MAX, node, connection.get()}, [this] { return clients_left_ == 0; }));
    }
    --backgrounds_left_;
  }
  bool note(Status status) {
    const bool ok = status.ok();
    if (!ok && failed_.ok()) failed_ = std::move(status);
    return ok;
  }

  Cluster& cluster_;
  const rivals::Shape& shape_;
  const std::function<void(const rivals::Seat&)>& body_;
  const Background& background_;
  size_t clients_left_, backgrounds_left_;
  Status failed_;
  base::Scheduler scheduler_;
  std::vector<std::unique_ptr<rivals::Connection>> connections_;  // gone before the scheduler
};

Status Cluster::run(const rivals::Shape& shape, const std::function<void(const rivals::Seat&)>& body,
                    const Background& background) {
  ++runs_;
  return Run(this, shape, body, background).run();
}

}  // namespace bonsai::bench
