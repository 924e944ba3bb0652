// SPDX-License-Identifier: Apache-2.0
// One address at which bonsaid serves its folder: a fabric, its start-up check, a pool server and the server's thread.
#ifndef BONSAI_BONSAID_SERVICE_H_
#define BONSAI_BONSAID_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/thread.h"
#include "bonsai/status.h"
#include "bonsaid/config.h"
#include "rdma/credentials.h"
#include "rdma/fabric.h"
#include "scale/pool_server.h"

namespace bonsai::bonsaid {

// Thread-safety: const members from any thread.
class Service {
 public:
  // Opens the address's fabric, tests it (rdma/litmus.h), and serves. `secret`: null admits every node. `owners`: of
  // the folder, for all services. Errors: those of scale::open_fabric(), of rdma::check_at_start_up() (the fabric
  // breaks a guarantee that Bonsai relies on) and of scale::PoolServer::make(), each beginning with the address.
  static Status start(const Config& config, const Address& address, const rdma::Secret* secret,
                      std::shared_ptr<scale::PoolOwners> owners, std::unique_ptr<Service>* service);
  // Stops serving: owners lose their pools, which are closed in order.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  [[nodiscard]] const Address& address() const { return address_; }
  // The fabric, and the result of its check; one line.
  [[nodiscard]] const std::string& text() const { return text_; }
  // As scale::PoolServer::report(), a moment ago.
  [[nodiscard]] scale::PoolServer::Report report() const;
  // As scale::PoolServer::take_notes().
  [[nodiscard]] std::vector<std::string> take_notes() { return server_->take_notes(); }
  // As scale::PoolServer::admit_by().
  void admit_by(const rdma::Secret* secret) { server_->admit_by(secret); }
  // Requests since the start that got no answer, because there was no memory for it.
  [[nodiscard]] uint64_t unserved() const { return unserved_.load(std::memory_order_relaxed); }
  // Malformed requests since the start.
  [[nodiscard]] uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  explicit Service(const Address& address) : address_(address) {}

  Status open(const Config& config, const rdma::Secret* secret, std::shared_ptr<scale::PoolOwners> owners);
  Status try_fabric(const rdma::Hello& tester, uint64_t phase_ms);
  void run();
  Status serve();

  const Address address_;
  std::string text_;
  std::shared_ptr<rdma::Fabric> fabric_;
  std::unique_ptr<scale::PoolServer> server_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> dropped_{0}, unserved_{0};
  mutable std::mutex mutex_;
  scale::PoolServer::Report report_;  // under the mutex: the latest one of the thread
  base::Thread thread_;
};

using Services = std::vector<std::unique_ptr<Service>>;

}  // namespace bonsai::bonsaid

#endif  // BONSAI_BONSAID_SERVICE_H_
