// SPDX-License-Identifier: Apache-2.0
// The NVM of a simulated compute node: outlives the stores that are opened on it, as a DIMM outlives a process.
//
// A power cut freezes it immediately: durable bytes stay, and chance chooses a legal remainder of the others
// (base/nvm/recorder.h). A store that has it open runs on without effect: no later store reads its writes, and its
// fences return false.
//
// Thread-safety: coroutines of one scheduler. Every operation may let siblings run.
#ifndef BONSAI_TESTING_SIM_NODE_NVM_H_
#define BONSAI_TESTING_SIM_NODE_NVM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/nvm/recorder.h"
#include "base/random.h"
#include "bonsai/options.h"

namespace bonsai::testing::sim {

class NodeNvm {
 public:
  NodeNvm(uint64_t bytes, PersistenceDomain domain);

  // As a store opens it. May outlive this object.
  std::unique_ptr<base::HookedMedium> open();
  // The n-th fence from now on fails.
  void fail_fence(uint64_t n);
  // The next fence at the site of this name fails.
  void fail_fence_at(std::string_view site);
  // Something happens before the n-th fence from now on; 0: it does not. Forgotten at a power cut.
  void before_fence(uint64_t n, std::function<void()> happens);
  void power_cut(base::Random& dice);

  // The least that a power cut now would leave.
  [[nodiscard]] std::span<const std::byte> durable() const;
  // The content that processors read.
  [[nodiscard]] std::span<const std::byte> view() const;

 private:
  class Opened;
  struct Memory;

  const PersistenceDomain domain_;
  std::shared_ptr<Memory> memory_;
};

}  // namespace bonsai::testing::sim

#endif  // BONSAI_TESTING_SIM_NODE_NVM_H_
