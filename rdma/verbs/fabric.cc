// SPDX-License-Identifier: Apache-2.0
#include "base/status_macros.h"
#include "rdma/verbs.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/link.h"
#include "rdma/verbs/region.h"
#include "rdma/verbs/worker.h"

namespace bonsai::rdma {
namespace {

class DeviceFabric final : public VerbsFabric {
 public:
  DeviceFabric(std::unique_ptr<verbs::Device> device, std::unique_ptr<verbs::Events> events)
      : device_(std::move(device)), events_(std::move(events)) {}

  [[nodiscard]] const Capabilities& capabilities() const override { return device_->capabilities(); }
  [[nodiscard]] const std::string& host() const override { return device_->host(); }
  [[nodiscard]] const std::string& device() const override { return device_->name(); }
  Status register_region(std::span<std::byte> memory, Rights rights, std::unique_ptr<Region>* region) override {
    return verbs::VerbsRegion::make(*device_, memory, rights, region);
  }
  Status make_worker(std::unique_ptr<Worker>* worker) override {
    return verbs::VerbsWorker::make(*device_, *events_, worker);
  }

 private:
  std::unique_ptr<verbs::Device> device_;
  std::unique_ptr<verbs::Events> events_;
};

}  // namespace

Status VerbsFabric::open(const VerbsOptions& options, std::unique_ptr<VerbsFabric>* fabric) {
  std::unique_ptr<verbs::Device> device;
  BONSAI_RETURN_IF_ERROR(verbs::Device::open(options, &device));
  std::unique_ptr<verbs::Events> events;
  BONSAI_RETURN_IF_ERROR(verbs::Events::make(&events));
  *fabric = std::make_unique<DeviceFabric>(std::move(device), std::move(events));
  return Status::OK();
}

}  // namespace bonsai::rdma
