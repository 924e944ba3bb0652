// SPDX-License-Identifier: Apache-2.0
// Stores and clients of the tests of the Clover-like engine.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_TESTING_CLOVER_RIG_H_
#define BONSAI_BENCH_STUDIES_RIVALS_TESTING_CLOVER_RIG_H_

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/studies/rivals/clover.h"
#include "bench/studies/rivals/clover_metadata.h"
#include "bench/studies/rivals/clover_node.h"
#include "bench/studies/rivals/testing/rig.h"

namespace bonsai::bench::rivals::clover {

inline std::string text(const Status& status) { return status.ToString(); }
inline std::string key(uint64_t number) { return Judge::key_of(number); }

inline std::unique_ptr<CloverClient> client_of(Connection* connection, ComputeNode* node,
                                               const ClientOptions& options = {}) {
  std::unique_ptr<CloverClient> client;
  EXPECT_EQ("OK", text(CloverClient::make(connection, node, options, &client)));
  return client;
}

// Memory nodes, a metadata server, and the shared state of each compute node.
class CloverRig {
 public:
  struct Options {
    bool sim = true;
    uint64_t seed = 1;
    StoreOptions store = {};
    uint64_t retire_ns = 4'000;
    uint64_t epoch_ns = 0;  // 0: the published one in virtual time, kUnhurriedMs in real time
    uint32_t versions_end = kVersionsEnd;
    size_t cursors_max = SIZE_MAX;
    size_t reports_max = 4'096;
    size_t compute_nodes = 1;
    bool flushes = false;
  };
  explicit CloverRig(const Options& options)
      : rig_({.sim = options.sim,
              .seed = options.seed,
              .memory_nodes = options.store.memory_nodes,
              .bytes = options.store.node_bytes,
              .fixed_bytes = options.store.node_bytes,
              .flushes = options.flushes}),
        fabric_(rig_.make_fabric()) {
    const uint64_t unhurried_ns = options.sim ? kEpochNs : kUnhurriedMs * base::kNsPerMs;
    const uint64_t epoch_ns = options.epoch_ns == 0 ? unhurried_ns : options.epoch_ns;
    std::vector<MemoryNodeName> names;
    for (MemoryNode* const node : rig_.nodes()) names.push_back(node->name());
    std::vector<std::string> addresses(options.store.metadata_workers);
    for (std::string& address : addresses) address = rig_.make_address();
    const MetadataServer::Options server{.store = options.store,
                                         .retire_ns = options.retire_ns,
                                         .epoch_ns = epoch_ns,
                                         .versions_end = options.versions_end};
    EXPECT_EQ("OK", text(MetadataServer::make(fabric_.get(), std::move(addresses), server, names, &server_)));
    for (size_t worker = 0; worker < server_->workers(); ++worker) {
      rig_.add_server(server_->name(worker),
                      [this, worker](uint64_t limit_ms) { return server_->serve(worker, limit_ms); });
    }
    for (size_t i = 0; i < options.compute_nodes; ++i) {
      nodes_.push_back(std::make_unique<ComputeNode>(ComputeNode::Options{.store = options.store,
                                                                          .cursors_max = options.cursors_max,
                                                                          .epoch_ns = epoch_ns,
                                                                          .reports_max = options.reports_max}));
    }
  }

  [[nodiscard]] MetadataServer& server() { return *server_; }
  [[nodiscard]] ComputeNode* node(size_t i) { return nodes_[i].get(); }
  [[nodiscard]] std::byte* memory(size_t i) { return rig_.nodes()[i]->data(); }

  // Runs `body` for each client, with a collector for each compute node.
  void run(const Shape& shape, const std::function<void(const Seat&)>& body) {
    Shape with_collectors = shape;
    ++with_collectors.threads;
    std::atomic<size_t> acting{shape.clients()};
    rig_.run(with_collectors, [&](const Seat& seat) {
      const size_t of_node = seat.client - seat.compute_node * with_collectors.threads * shape.coroutines;
      if (of_node < shape.threads * shape.coroutines) {
        body({seat.compute_node * shape.threads * shape.coroutines + of_node, seat.compute_node, seat.connection});
        --acting;
      } else {
        collect(seat.connection, nodes_[seat.compute_node].get(), [&] { return acting.load() == 0; });
      }
    });
  }
  void run_without_collectors(const Shape& shape, const std::function<void(const Seat&)>& body) {
    rig_.run(shape, body);
  }
  // The compute node dies now. Requires: sim, amid a run.
  void kill(size_t compute_node) { rig_.kill(compute_node); }
  // Runs `body` with one connection, and no collector.
  void run_one(const std::function<void(Connection*)>& body) { rig_.run_one(body); }

  // Reports all updates of a compute node.
  static void collect(
      Connection* connection, ComputeNode* node, const std::function<bool()>& stop = [] { return true; }) {
    std::unique_ptr<Collector> collector;
    EXPECT_EQ("OK", text(Collector::make(connection, node, &collector)));
    EXPECT_EQ("OK", text(collector->run(stop)));
  }

 private:
  Rig rig_;
  std::unique_ptr<rdma::Fabric> fabric_;  // the server's
  std::unique_ptr<MetadataServer> server_;
  std::vector<std::unique_ptr<ComputeNode>> nodes_;
};

}  // namespace bonsai::bench::rivals::clover

#endif  // BONSAI_BENCH_STUDIES_RIVALS_TESTING_CLOVER_RIG_H_
