// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/fabric/end.h"

#include <cstring>

#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"
#ifdef BONSAI_BENCH_WITH_VERBS
#include "rdma/verbs.h"
#endif

namespace bonsai::bench {
namespace {

Status open_verbs(const FabricChoice& choice, std::unique_ptr<rdma::Fabric>* fabric, std::string* device,
                  std::string* host) {
#ifdef BONSAI_BENCH_WITH_VERBS
  rdma::VerbsOptions options;
  options.device = choice.device;
  options.spin_us = choice.blocks ? 0 : UINT64_MAX;
  std::unique_ptr<rdma::VerbsFabric> opened;
  BONSAI_RETURN_IF_ERROR(rdma::VerbsFabric::open(options, &opened));
  *device = opened->device();
  *host = opened->host();
  *fabric = std::move(opened);
  return Status::OK();
#else
  static_cast<void>(choice), static_cast<void>(fabric), static_cast<void>(device), static_cast<void>(host);
  return Status::NotSupported("this program was built without RDMA devices (scripts/setup.sh build, then build again)");
#endif
}

}  // namespace

Status FabricEnd::open(const FabricChoice& choice, std::unique_ptr<FabricEnd>* end) {
  std::unique_ptr<FabricEnd> made(new FabricEnd);
  made->blocks_ = choice.blocks;
  switch (choice.provider->far_side) {
    case FarSide::kSameThread:
      made->sim_ = choice.sim;
      made->fabric_ = made->sim_->make_fabric();
      break;
    case FarSide::kProcess:
      made->shm_ = std::make_unique<rdma::ShmNetwork>(rdma::ShmOptions{choice.folder});
      BONSAI_RETURN_IF_ERROR(made->shm_->make_fabric(&made->fabric_));
      break;
    case FarSide::kNetwork:
      BONSAI_RETURN_IF_ERROR(open_verbs(choice, &made->fabric_, &made->device_, &made->host_));
      break;
  }
  constexpr uint64_t kRingBytes = kSlots * kFabricBytesMax;
  BONSAI_RETURN_IF_ERROR(rdma::RegisteredMemory::make(*made->fabric_, kBytes, rdma::Rights::all(), &made->memory_));
  BONSAI_RETURN_IF_ERROR(rdma::RegisteredMemory::make(*made->fabric_, kRingBytes, rdma::Rights::none(), &made->ring_));
  BONSAI_RETURN_IF_ERROR(made->fabric_->make_worker(&made->worker_));
  BONSAI_RETURN_IF_ERROR(made->worker_->set_receive_ring(made->ring_->slice(0, kRingBytes), kFabricBytesMax));
  *end = std::move(made);
  return Status::OK();
}

uint64_t FabricEnd::word(uint64_t at) const {
  return base::word_at(memory_->data() + at).load(std::memory_order_acquire);
}

void FabricEnd::set_word(uint64_t at, uint64_t value) {
  base::word_at(memory_->data() + at).store(value, std::memory_order_release);
}

Status FabricEnd::tell(rdma::Peer& peer, const FabricOrder& order, uint64_t limit_ms) {
  std::memcpy(memory_->data() + kOrderAt, &order, sizeof order);
  order_.clear();
  order_.send(peer, slice(kOrderAt, sizeof order));
  return worker_->run(&order_, limit_ms);
}

bool FabricEnd::read_order(const rdma::Message& message, FabricOrder* order) {
  if (message.bytes().size() != sizeof *order) return false;
  std::memcpy(order, message.bytes().data(), sizeof *order);
  return true;
}

}  // namespace bonsai::bench
