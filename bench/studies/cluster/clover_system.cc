// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/studies/cluster/system_makers.h"
#include "bench/studies/rivals/clover.h"
#include "bench/studies/rivals/clover_metadata.h"
#include "bench/studies/rivals/clover_node.h"

namespace bonsai::bench {

namespace {

namespace clover = rivals::clover;

// As published: threads of the metadata server that answer calls, and threads of a compute node that collect.
constexpr size_t kMetadataWorkers = 8, kCollectors = 4;
// A worker's processor time for a list. The paper has 8.5 us for an insert at light load, and clients and wires alone
// take more in the model. So this is the least that the model has: a thread that only posts.
constexpr double kWorkerListNs = 250;

// Each record, up to a million, has three more slabs, so that clients seldom wait for free ones.
class CloverSystem final : public System {
 public:
  CloverSystem(const StoreSize& size, clover::Persist persist) : persist_(persist) {
    constexpr uint64_t kSpareOfRecord = 3, kSpareMax = 3'000'000, kSlabsOfClients = 32'768;
    store_.keys_max = size.records_max;
    store_.memory_nodes = size.memory_nodes;
    store_.metadata_workers = kMetadataWorkers;
    const uint64_t slabs = size.records_max + std::min(size.records_max * kSpareOfRecord, kSpareMax) + kSlabsOfClients;
    store_.node_bytes = (slabs * (store_.slab_bytes + sizeof(uint64_t)) / size.memory_nodes / 4'096 + 1) * 4'096;
    clover::ComputeNode::Options node{.store = store_};
    if (size.cache_bytes) node.cursors_max = *size.cache_bytes / clover::CursorCache::kEntryBytes;
    for (size_t i = 0; i < size.compute_nodes; ++i) nodes_.push_back(std::make_unique<clover::ComputeNode>(node));
  }
  [[nodiscard]] size_t fixed_bytes() const override { return store_.node_bytes; }
  [[nodiscard]] size_t bytes() const override { return store_.node_bytes; }
  Status make_empty(Cluster* cluster) override {
    std::vector<rivals::MemoryNodeName> names;
    for (const rivals::MemoryNode* node : cluster->nodes()) names.push_back(node->name());
    fabric_ = cluster->make_fabric(kWorkerListNs);
    std::vector<std::string> addresses;
    for (size_t worker = 0; worker < kMetadataWorkers; ++worker)
      addresses.push_back("metadata" + std::to_string(worker));
    Status status =
        clover::MetadataServer::make(fabric_.get(), std::move(addresses), {.store = store_}, names, &server_);
    if (!status.ok()) return status;
    for (size_t worker = 0; worker < server_->workers(); ++worker) {
      cluster->add_server(server_->name(worker),
                          [this, worker](uint64_t limit_ms) { return server_->serve(worker, limit_ms); });
    }
    return Status::OK();
  }
  Status make_client(const rivals::Seat& seat, std::unique_ptr<rivals::Client>* client) override {
    std::unique_ptr<clover::CloverClient> made;
    Status status =
        clover::CloverClient::make(seat.connection, nodes_[seat.compute_node].get(), {.persist = persist_}, &made);
    *client = std::move(made);
    return status;
  }
  [[nodiscard]] size_t background_threads() const override { return kCollectors; }
  [[nodiscard]] uint64_t server_busy_ns() const override { return server_->busy_ns(); }
  Status background(const rivals::Seat& seat, const std::function<bool()>& stop) override {
    std::unique_ptr<clover::Collector> collector;
    Status status = clover::Collector::make(seat.connection, nodes_[seat.compute_node].get(), &collector);
    return status.ok() ? collector->run(stop) : status;
  }
  [[nodiscard]] size_t used_bytes(const Cluster&) const override {
    const clover::MetadataServer::Counters& counters = server_->counters();
    return counters.keys * sizeof(uint64_t) + counters.slabs_used * store_.slab_bytes;
  }
  [[nodiscard]] size_t cache_bytes(const rivals::Shape&) const override { return nodes_.front()->cache_bytes(); }

 private:
  const clover::Persist persist_;
  clover::StoreOptions store_;
  std::unique_ptr<rdma::Fabric> fabric_;  // the server's
  std::unique_ptr<clover::MetadataServer> server_;
  std::vector<std::unique_ptr<clover::ComputeNode>> nodes_;
};

}  // namespace

std::unique_ptr<System> make_clover(const StoreSize& size) {
  return std::make_unique<CloverSystem>(size, clover::Persist::kNone);
}

std::unique_ptr<System> make_clover_persist(const StoreSize& size) {
  return std::make_unique<CloverSystem>(size, clover::Persist::kFlushingRead);
}

}  // namespace bonsai::bench
