// Registered memory in pieces that are used again: what reads of remote targets come to, and what waits to be written
// to them. Registering costs a device far more than a read.
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
  static std::shared_ptr<RegisteredPool> make(std::shared_ptr<rdma::Fabric> fabric);

  // At least `bytes`, as they are; they come back when the last holder has let go, and keep the pool until then. Memory
  // that cannot be registered is returned all the same: requests on it fail.
  std::shared_ptr<std::byte> take(size_t bytes);
  // Of memory that was taken. One that is in no region if it could not be registered.
  [[nodiscard]] rdma::Slice slice(const std::byte* at, size_t bytes) const;

 private:
  static constexpr size_t kPieceBytesMin = 4096, kSlabBytes = size_t{1} << 20;

  struct Slab {
    std::unique_ptr<rdma::RegisteredMemory> memory;
    size_t bytes;
  };

  explicit RegisteredPool(std::shared_ptr<rdma::Fabric> fabric) : fabric_(std::move(fabric)) {}
  void add_slab(size_t piece_bytes, std::vector<std::byte*>* free);

  const std::shared_ptr<rdma::Fabric> fabric_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Slab> slabs_;        // by their beginning
  std::array<std::vector<std::byte*>, 64> free_;  // by the logarithm of their size
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_REGISTERED_POOL_H_
