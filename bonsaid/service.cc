// SPDX-License-Identifier: Apache-2.0
#include "bonsaid/service.h"

#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/wire_status.h"
#include "base/with_memory.h"
#include "rdma/litmus.h"
#include "rdma/registered_memory.h"
#include "scale/fabrics.h"

namespace bonsai::bonsaid {
namespace {

constexpr uint64_t kServeMs = 20;  // bound on the time until a stop is noticed
constexpr uint64_t kPauseMs = 1;   // when there was no memory

}  // namespace

Status Service::start(const Config& config, const Address& address, const rdma::Secret* secret,
                      std::shared_ptr<scale::PoolOwners> owners, std::unique_ptr<Service>* service) {
  std::unique_ptr<Service> made(new Service(address));
  const Status status = made->open(config, secret, std::move(owners));
  if (!status.ok()) {
    return base::status_from_wire(static_cast<int32_t>(status.code()),
                                  address.text() + ": " + std::string(status.message()));
  }
  *service = std::move(made);
  return Status::OK();
}

Status Service::open(const Config& config, const rdma::Secret* secret, std::shared_ptr<scale::PoolOwners> owners) {
  BONSAI_RETURN_IF_ERROR(scale::open_fabric(address_.scheme, &fabric_));
  rdma::Hello tester;
  tester.node = static_cast<uint32_t>(base::fresh_seed() | 1);
  scale::PoolServer::Config serving;
  serving.tester = tester.node;
  serving.folder = config.folder;
  serving.owners = std::move(owners);
  serving.address = address_.node;
  serving.secret = secret;
  serving.domain = config.domain;
  serving.cache_domain =
      config.domain == rdma::RemoteDomain::kEadr ? PersistenceDomain::kEadr : PersistenceDomain::kAdr;
  serving.media.test = config.test;
  BONSAI_RETURN_IF_ERROR(scale::PoolServer::make(fabric_.get(), serving, &server_));
  BONSAI_RETURN_IF_ERROR(try_fabric(tester, config.litmus_ms));
  server_->admit_owners();
  return base::Thread::start(
      "bonsaid", [this] { run(); }, &thread_);
}

// Runs the litmus tests over the server's own listener, so that the address is taken only once, even if others connect
// meanwhile.
Status Service::try_fabric(const rdma::Hello& tester, uint64_t phase_ms) {
  std::unique_ptr<rdma::RegisteredMemory> scratch;
  BONSAI_RETURN_IF_ERROR(rdma::RegisteredMemory::make(*fabric_, rdma::kLitmusBytes, rdma::Rights::all(), &scratch));
  std::string found;
  BONSAI_RETURN_IF_ERROR(
      rdma::check_at_start_up(*fabric_, address_.node, tester, scratch->remote(), {.phase_ms = phase_ms}, &found));
  text_ = fabric_->capabilities().text + "; " + found;
  return Status::OK();
}

void Service::run() {
  while (!stop_.load()) {
    const Status status = base::with_memory([this] { return serve(); });
    if (status.IsInvalidArgument()) dropped_.fetch_add(1, std::memory_order_relaxed);
    if (!status.IsNoSpace()) continue;
    unserved_.fetch_add(1, std::memory_order_relaxed);
    base::sleep_ms(kPauseMs);
  }
}

Status Service::serve() {
  Status served = server_->serve(kServeMs);
  scale::PoolServer::Report report = server_->report();
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
  return served;
}

Service::~Service() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

scale::PoolServer::Report Service::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

}  // namespace bonsai::bonsaid
