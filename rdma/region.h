// SPDX-License-Identifier: Apache-2.0
// Registered memory: the memory that the fabric may access, and how another node names it.
#ifndef BONSAI_RDMA_REGION_H_
#define BONSAI_RDMA_REGION_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace bonsai::rdma {

// The access of other nodes to a region. The owner's own work requests may always use it as their local end.
struct Rights {
  bool read = false;
  bool write = false;
  bool atomic = false;

  static constexpr Rights none() { return {}; }
  static constexpr Rights all() { return {true, true, true}; }
};

// A byte of another node's region.
struct Remote {
  uint64_t key = 0;
  uint64_t address = 0;
};

// Describes a region to a peer that accesses it. Plain data of fixed size, to be sent over any channel. Its holder has
// the region's rights as long as the region is registered and a connection exists.
struct RemoteRegion {
  uint64_t key = 0;
  uint64_t base = 0;
  uint64_t bytes = 0;

  // Not checked here: the peer's fabric checks every access, so that a wrong offset ends as Outcome::kRemoteAccess.
  [[nodiscard]] Remote at(uint64_t offset) const { return {key, base + offset}; }
};
static_assert(sizeof(RemoteRegion) == 24);

class Region;

// Bytes of a local region.
class Slice {
 public:
  Slice() = default;
  Slice(const Region* region, std::byte* data, size_t bytes) : region_(region), data_(data), bytes_(bytes) {}
  [[nodiscard]] const Region* region() const { return region_; }
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  const Region* region_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Memory that is registered for as long as the object lives (Fabric::register_region).
// Guarantees: when the destructor has returned no other node reads or changes the memory any more; their later requests
// end as Outcome::kRemoteAccess. This is how an owner fences others off. On shm a process that is stopped amid an
// access is waited for a second at most: for the file of a pool see Fabric::register_file().
// Requires: destroyed before its fabric, and after all local work on its slices is complete.
// Thread-safety: const members from any thread.
class Region {
 public:
  virtual ~Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  [[nodiscard]] Rights rights() const { return rights_; }
  // The description for peers. Keys cannot be guessed where the device allows it.
  [[nodiscard]] RemoteRegion remote() const { return remote_; }
  // Requires: [offset, offset + bytes) is in the region.
  [[nodiscard]] Slice slice(size_t offset, size_t bytes) const {
    BONSAI_CHECK(offset <= memory_.size() && bytes <= memory_.size() - offset);
    return {this, memory_.data() + offset, bytes};
  }

 protected:
  Region(std::span<std::byte> memory, Rights rights, RemoteRegion remote)
      : memory_(memory), rights_(rights), remote_(remote) {
    BONSAI_CHECK(!memory.empty() && remote.bytes == memory.size());
  }

 private:
  std::span<std::byte> memory_;
  Rights rights_;
  RemoteRegion remote_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_REGION_H_
