// SPDX-License-Identifier: Apache-2.0
// The worlds in which the tests of the fabric run: a provider, and how its nodes are addressed.
#ifndef BONSAI_RDMA_TESTING_WORLD_H_
#define BONSAI_RDMA_TESTING_WORLD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "rdma/fabric.h"

namespace bonsai::rdma {

// Thread-safety: any thread. Requires: outlives its fabrics.
class World {
 public:
  World() = default;
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // A new node.
  virtual std::unique_ptr<Fabric> make_fabric() = 0;
  // The address at which a node of this process listens. Different numbers have different addresses.
  virtual std::string address(uint32_t node) = 0;
};

// Adds a provider that only some test programs link. Call it before main().
using MakeWorld = std::unique_ptr<World> (*)(const std::string& argument);
bool add_world(const char* name, MakeWorld make);

// The world of a provider: "NAME" or "NAME:ARGUMENT". Ends the program, naming the known ones, when there is none.
std::unique_ptr<World> make_world(const std::string& provider);

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_WORLD_H_
