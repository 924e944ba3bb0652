// SPDX-License-Identifier: Apache-2.0
// Reusable pieces of registered memory: destinations of reads of remote targets, and sources of writes that wait.
// Registering costs a device far more than a read.
//
// Thread-safety: all methods.
#ifndef BONSAI_SCALE_REGISTERED_POOL_H_
#define BONSAI_SCALE_REGISTERED_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "rdma/registered_memory.h"

namespace bonsai::scale {

class RegisteredPool : public std::enable_shared_from_this<RegisteredPool> {
 public:
  // Registers the reserve. Errors: those of Fabric::register_region().
  static Status make(std::shared_ptr<rdma::Fabric> fabric, std::shared_ptr<RegisteredPool>* pool);

  // At least `bytes`, as they are; they come back when the last holder has let go, and keep the pool until then. Memory
  // that cannot be registered is returned all the same: requests on it fail.
  std::shared_ptr<std::byte> take(size_t bytes);
  // The slice of memory that was taken. It is in no region if the memory could not be registered.
  [[nodiscard]] rdma::Slice slice(const std::byte* at, size_t bytes) const;

  // A piece of kReserveBytes that is certainly registered. Bytes in memory that could not be registered are written
  // through such pieces. It returns to the pool like other memory. Null: all are in use.
  std::shared_ptr<std::byte> take_reserve();
  static constexpr size_t kReserveBytes = size_t{16} << 10;

  // Bytes that are registered now: the taken memory, the rest of its slabs, and at most kIdleBytesMax more.
  [[nodiscard]] size_t registered_bytes() const;

  static constexpr size_t kIdleBytesMax = size_t{16} << 20;

 private:
  static constexpr size_t kPieceBytesMin = 4096, kSlabBytes = size_t{1} << 20, kReserveSlabBytes = size_t{256} << 10;

  // Pieces of one size. Registered at once, and given back at once.
  struct Slab {
    std::unique_ptr<rdma::RegisteredMemory> memory;
    size_t bytes, pieces;
    std::vector<std::byte*> free;

    [[nodiscard]] bool idle() const { return free.size() == pieces; }
  };

  explicit RegisteredPool(std::shared_ptr<rdma::Fabric> fabric) : fabric_(std::move(fabric)) {}
  Status add_slab(size_t piece_bytes, size_t slab_bytes, std::vector<Slab*>* with_room);
  std::shared_ptr<std::byte> take_from(std::vector<Slab*>* with_room);
  void give_back(std::byte* piece, Slab* slab, std::vector<Slab*>* with_room);

  const std::shared_ptr<rdma::Fabric> fabric_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Slab> slabs_;        // by their beginning
  std::array<std::vector<Slab*>, 64> with_room_;  // by the logarithm of their pieces' size; the last is used first
  std::vector<Slab*> reserve_;                    // the slab of reserve pieces, as long as it has room
  size_t registered_bytes_ = 0, idle_bytes_ = 0;  // of all slabs, of idle ones
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_REGISTERED_POOL_H_
