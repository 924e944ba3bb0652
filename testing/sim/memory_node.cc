// SPDX-License-Identifier: Apache-2.0
#include "testing/sim/memory_node.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "base/probe.h"

namespace bonsai::testing::sim {
namespace {

base::Probe cut_with_owner{"world.memory_node_power_cut"};
base::Probe slow{"world.memory_node_slow"};
base::Probe slow_fence{"world.memory_node_fence_slow"};
base::Probe served_again{"world.memory_node_serves_again"};

constexpr uint64_t kServeMs = 2;

}  // namespace

// A pool that has an owner: NVM of the simulation over the file's mapping.
class MemoryNode::Served final : public base::HookedMedium {
 public:
  Served(MemoryNode* node, rdma::SimNvm* nvm, const base::Mapping& mapping)
      : HookedMedium(nvm->view().data(), nvm->view().size()), node_(*node), nvm_(*nvm), mapping_(mapping) {}
  ~Served() override { std::ranges::copy(nvm_.view(), mapping_.data()); }

  // Only the fabric stores here.
  void store8(std::byte*, uint64_t) override { BONSAI_CHECK(false); }
  void copy(std::byte*, const void*, size_t) override { BONSAI_CHECK(false); }
  void nt_copy(std::byte*, const void*, size_t, const base::Site&) override { BONSAI_CHECK(false); }
  void flush(const std::byte* dst, size_t n, const base::Site&) override {
    if (node_.fence_blocks_ && node_.wait_until_fast()) slow_fence.hit();
    nvm_.flush(static_cast<size_t>(dst - view()), n);
  }
  bool fence(const base::Site&) override { return true; }

 private:
  MemoryNode& node_;
  rdma::SimNvm& nvm_;
  const base::Mapping& mapping_;
};

MemoryNode::MemoryNode(rdma::SimNetwork* network, std::string address, std::string folder, uint32_t number,
                       bool fence_blocks, base::Machine* machine)
    : network_(*network),
      address_(std::move(address)),
      folder_(std::move(folder)),
      number_(number),
      fence_blocks_(fence_blocks),
      machine_(machine) {}

MemoryNode::~MemoryNode() = default;

void MemoryNode::start() {
  if (fabric_ != nullptr) served_again.hit();
  fabric_ = network_.make_fabric();
  dead_ = stopping_ = false;
  server_ = base::Thread("server", [this] {
    if (machine_ != nullptr) machine_->enter();
    serve();
  });
}

void MemoryNode::stop() {
  stopping_ = true;
  server_.join();
}

void MemoryNode::power_cut() {
  cut_with_owner.hit();
  dead_ = true;
  network_.kill(*fabric_);
  for (auto& [name, nvm] : nvms_) nvm->crash();
}

void MemoryNode::kill_process() {
  dead_ = true;
  network_.end_process(*fabric_);
}

void MemoryNode::lose_record(const std::string& pool) {
  std::filesystem::remove(scale::PoolOwner::record_path(folder_, pool));
}

std::span<const std::byte> MemoryNode::pool(const std::string& name) const { return nvms_.at(name)->view(); }

void MemoryNode::serve() {
  scale::PoolServer::Config config;
  config.folder = folder_;
  config.address = address_;
  config.node = number_;
  config.make_media = [this](const base::Mapping& mapping, base::Media* media) { return make_media(mapping, media); };
  std::unique_ptr<scale::PoolServer> server;
  const Status made = scale::PoolServer::make(fabric_.get(), config, &server);
  if (!made.ok()) ADD_FAILURE() << "a server does not start: " << made.ToString();
  while (made.ok() && !stopping_ && !dead_) {
    if (!fence_blocks_ && wait_until_fast()) slow.hit();
    static_cast<void>(server->serve(kServeMs));
  }
}

// False: it is.
bool MemoryNode::wait_until_fast() {
  const uint64_t until_ns = slow_until_ns_;
  if (until_ns <= base::now_ns()) return false;
  base::wait_closely_until(until_ns);
  return true;
}

Status MemoryNode::make_media(const base::Mapping& mapping, base::Media* media) {
  std::unique_ptr<rdma::SimNvm>& nvm = nvms_[std::filesystem::path(mapping.path()).filename()];
  if (nvm == nullptr) {
    nvm = network_.make_nvm(mapping.bytes(), rdma::RemoteDomain::kAdr);
    std::copy_n(mapping.data(), mapping.bytes(), nvm->view().data());
    nvm->flush(0, mapping.bytes());
  }
  media->hooked = std::make_unique<Served>(this, nvm.get(), mapping);
  media->fence_blocks = fence_blocks_;
  media->text = "simulated NVM";
  return Status::OK();
}

}  // namespace bonsai::testing::sim
