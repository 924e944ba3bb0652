// SPDX-License-Identifier: Apache-2.0
// The world "verbs" or "verbs:DEVICE" of the tests of the fabric: the nodes of one process share its RDMA device.
#include <cstdio>
#include <cstdlib>

#include "rdma/testing/world.h"
#include "rdma/verbs.h"

namespace bonsai::rdma {
namespace {

constexpr uint32_t kPort = 18'500;

class VerbsWorld final : public World {
 public:
  explicit VerbsWorld(const std::string& device) {
    options_.device = device;
    options_.unreachable_ms = 1'000;  // tests wait for it often
    host_ = open()->host();
  }
  std::unique_ptr<Fabric> make_fabric() override { return open(); }
  std::string address(uint32_t node) override { return host_ + ":" + std::to_string(kPort + node); }

 private:
  std::unique_ptr<VerbsFabric> open() {
    std::unique_ptr<VerbsFabric> fabric;
    const Status status = VerbsFabric::open(options_, &fabric);
    if (status.ok()) return fabric;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(2);
  }

  VerbsOptions options_;
  std::string host_;
};

[[maybe_unused]] const bool added = add_world(
    "verbs", [](const std::string& device) -> std::unique_ptr<World> { return std::make_unique<VerbsWorld>(device); });

}  // namespace
}  // namespace bonsai::rdma
