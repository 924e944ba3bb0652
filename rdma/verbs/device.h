// SPDX-License-Identifier: Apache-2.0
// One port of one RDMA device, found or named, and what it can do.
#ifndef BONSAI_RDMA_VERBS_DEVICE_H_
#define BONSAI_RDMA_VERBS_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "bonsai/status.h"
#include "rdma/fabric.h"
#include "rdma/verbs.h"
#include "rdma/verbs/handles.h"

namespace bonsai::rdma::verbs {

// Thread-safety: const after open().
class Device {
 public:
  // Errors: as VerbsFabric::open.
  static Status open(const VerbsOptions& options, std::unique_ptr<Device>* device);

  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] const VerbsOptions& options() const { return options_; }
  [[nodiscard]] const Capabilities& capabilities() const { return capabilities_; }
  [[nodiscard]] uint8_t reads_in_flight_max() const { return reads_in_flight_max_; }
  // Depths of one worker's queues; no post that post() admits overruns them.
  [[nodiscard]] uint32_t receives_max() const { return receives_max_; }
  [[nodiscard]] uint32_t sends_max() const;
  [[nodiscard]] uint32_t inline_bytes_max() const { return static_cast<uint32_t>(capabilities_.inline_bytes_max); }

 private:
  Device() = default;
  Status choose_port();
  Status size_queues(const ibv_device_attr& limits);
  void describe(const ibv_device_attr& limits);
  [[nodiscard]] uint32_t probe_inline_bytes() const;

  VerbsOptions options_;
  ibv_context* context_ = nullptr;  // librdmacm's own, open until the process ends
  ProtectionDomain domain_;
  std::string name_, host_, gid_;
  uint32_t port_ = 0;
  ibv_port_attr port_state_ = {};
  uint8_t reads_in_flight_max_ = 0;
  uint32_t receives_max_ = 0;
  Capabilities capabilities_;
};

// The ibv_mtu of `bytes`, 0 when there is none.
[[nodiscard]] uint8_t mtu_code(uint32_t bytes);

}  // namespace bonsai::rdma::verbs

#endif  // BONSAI_RDMA_VERBS_DEVICE_H_
