// SPDX-License-Identifier: Apache-2.0
#include "rdma/testing/world.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/random.h"
#include "rdma/shm/shm.h"
#include "rdma/sim/sim.h"

namespace bonsai::rdma {
namespace {

class ShmWorld final : public World {
 public:
  explicit ShmWorld(const std::string& folder) : network_(ShmOptions{folder}) {}
  std::unique_ptr<Fabric> make_fabric() override { return network_.make_fabric(); }
  std::string address(uint32_t node) override { return "node" + std::to_string(node); }

 private:
  ShmNetwork network_;
};

// Packets are late, lost or torn, as on a network, but nothing breaks.
class SimWorld final : public World {
 public:
  std::unique_ptr<Fabric> make_fabric() override { return network_.make_fabric(); }
  std::string address(uint32_t node) override { return "node" + std::to_string(node); }

 private:
  SimNetwork network_{{.seed = base::seed_from_env_or(1)}};
};

struct Maker {
  const char* name;
  MakeWorld make;
};

std::vector<Maker>& makers() {
  static std::vector<Maker> known = {
      {"shm", [](const std::string& folder) -> std::unique_ptr<World> { return std::make_unique<ShmWorld>(folder); }},
      {"sim", [](const std::string&) -> std::unique_ptr<World> { return std::make_unique<SimWorld>(); }},
  };
  return known;
}

}  // namespace

bool add_world(const char* name, MakeWorld make) {
  makers().push_back({name, make});
  return true;
}

std::unique_ptr<World> make_world(const std::string& provider) {
  const size_t colon = provider.find(':');
  const std::string name = provider.substr(0, colon);
  for (const Maker& maker : makers()) {
    if (name == maker.name) return maker.make(colon == std::string::npos ? "" : provider.substr(colon + 1));
  }
  std::fprintf(stderr, "no fabric provider is called '%s'; known are:", name.c_str());
  for (const Maker& maker : makers()) std::fprintf(stderr, " %s", maker.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace bonsai::rdma
