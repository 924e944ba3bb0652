// SPDX-License-Identifier: Apache-2.0
// The parts of a simulated node that others access: its regions and its workers' receive rings. Internal to rdma/sim/.
#ifndef BONSAI_RDMA_SIM_MEMORY_H_
#define BONSAI_RDMA_SIM_MEMORY_H_

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "rdma/sim/core.h"

namespace bonsai::rdma {

// One WRITE or READ that takes effect in parts.
struct SimAccess {
  struct Part {
    size_t offset, bytes;
  };
  // Carries out the remaining parts now.
  void finish() {
    while (!left.empty()) take(left.size() - 1);
  }
  void take(size_t index);

  SimCore& core;
  uint64_t connection;
  bool write;
  std::byte* target;
  std::vector<std::byte>* bytes;  // of its request
  std::vector<Part> left;
};

// A node's device, as SimDevice models it: when each of its queues is free again.
struct SimStations {
  double engine = 0, atomic_unit = 0, sending = 0, receiving = 0;
  std::vector<double> nvm;                             // by device
  std::unordered_map<const std::byte*, double> words;  // of atomics
};

// A node's registered memory.
class SimRegions {
 public:
  [[nodiscard]] SimStations& stations() { return stations_; }
  uint64_t add(SimCore& core, std::span<std::byte> memory, Rights rights);
  // First finishes the accesses in flight there.
  void remove(uint64_t key);
  // Whether the request may access its target bytes, and where they are.
  [[nodiscard]] Outcome find(const WorkRequest& request, size_t bytes, std::byte** target) const;
  // The offset of `target` in its region, and the number of that region in the order of registration. Requires: find()
  // returned `target`.
  struct RegionOffset {
    uint64_t offset, region;
  };
  [[nodiscard]] RegionOffset offset_in_region(const WorkRequest& request, const std::byte* target) const {
    const Entry& entry = entries_.at(request.remote.key);
    BONSAI_CHECK(target >= entry.memory.data() && target <= entry.memory.data() + entry.memory.size());
    return {static_cast<uint64_t>(target - entry.memory.data()), entry.number};
  }
  // Makes remove() finish the access before the region is gone. Requires: find() returned its target.
  void watch(uint64_t key, const std::shared_ptr<SimAccess>& access) { entries_.at(key).open.push_back(access); }

 private:
  struct Entry {
    std::span<std::byte> memory;
    Rights rights;
    uint64_t number;
    std::vector<std::weak_ptr<SimAccess>> open;
  };
  std::map<uint64_t, Entry> entries_;
  uint64_t added_ = 0;
  SimStations stations_;
};

class SimRegion final : public Region {
 public:
  SimRegion(SimCore& core, std::shared_ptr<SimRegions> regions, std::span<std::byte> memory, Rights rights)
      : Region(memory, rights,
               {regions->add(core, memory, rights), reinterpret_cast<uintptr_t>(memory.data()), memory.size()}),
        regions_(std::move(regions)) {}
  ~SimRegion() override { regions_->remove(remote().key); }
  [[nodiscard]] bool is_of(const SimRegions* regions) const { return regions_.get() == regions; }

 private:
  std::shared_ptr<SimRegions> regions_;
};

// A worker's receive ring and what arrived in it.
struct SimInbox {
  struct Arrival {
    size_t slot, bytes;
    uint32_t from;
  };
  Outcome deliver(uint32_t from, std::span<const std::byte> message);

  Slice ring;
  size_t slot_bytes = 0;
  std::deque<size_t> free;
  std::deque<Arrival> arrived;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SIM_MEMORY_H_
