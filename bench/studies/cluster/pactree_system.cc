// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "bench/studies/cluster/system_makers.h"
#include "bench/studies/rivals/pactree.h"

namespace bonsai::bench {

namespace {

namespace pactree = rivals::pactree;

class PactreeSystem final : public System {
 public:
  explicit PactreeSystem(const StoreSize& size) : compute_nodes_(size.compute_nodes) {
    constexpr size_t kLeastShare = 2;  // splits leave data nodes half full
    const size_t nodes = size.records_max * kLeastShare / pactree::kPairsMax + 64;
    const size_t pages = nodes / pactree::kNodesPerPage + 64;
    pages_.memory_nodes = size.memory_nodes;
    pages_.node_bytes = (pages / size.memory_nodes + 1) * rivals::PageCache::kPageBytes;
    // After a load in random order data nodes are 70 % full.
    const size_t filled = size.records_max * 10 / 7 / pactree::kPairsMax / pactree::kNodesPerPage;
    const size_t frames = size.cache_bytes ? *size.cache_bytes / rivals::PageCache::kPageBytes : filled / 2;
    // Every client may hold two pages.
    pages_.frames = std::max(frames, rivals::PageCache::kFramesMin);
    pages_.fault_ns = size.fault_ns;
  }
  [[nodiscard]] size_t fixed_bytes() const override { return pages_.node_bytes; }
  [[nodiscard]] size_t bytes() const override { return pages_.node_bytes; }
  Status make_empty(Cluster* cluster) override {
    if (compute_nodes_ > 1) {
      return Status::NotSupported("PACTree-paging-like has one compute node: paging does not share");
    }
    return pactree::ComputeNode::make(cluster->compute_fabric(0), pages_, &node_);
  }
  Status make_client(const rivals::Seat& seat, std::unique_ptr<rivals::Client>* client) override {
    *client = std::make_unique<pactree::PactreeClient>(seat.connection, node_.get(), pactree::PactreeClient::Options{});
    return Status::OK();
  }
  [[nodiscard]] size_t background_threads() const override { return 1; }
  Status background(const rivals::Seat& seat, const std::function<bool()>& stop) override {
    return pactree::Background(seat.connection, node_.get()).run(stop);
  }
  [[nodiscard]] size_t used_bytes(const Cluster&) const override {
    return node_->data_nodes() * sizeof(pactree::DataNode);
  }
  // The search layer is local memory, too.
  [[nodiscard]] size_t cache_bytes(const rivals::Shape&) const override {
    return node_->pages().bytes() + node_->search_layer_bytes();
  }

 private:
  const size_t compute_nodes_;
  rivals::PageCache::Options pages_;
  std::unique_ptr<pactree::ComputeNode> node_;
};

}  // namespace

std::unique_ptr<System> make_pactree(const StoreSize& size) { return std::make_unique<PactreeSystem>(size); }

}  // namespace bonsai::bench
