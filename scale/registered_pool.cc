#include "scale/registered_pool.h"

#include <bit>

namespace bonsai::scale {

std::shared_ptr<RegisteredPool> RegisteredPool::make(std::shared_ptr<rdma::Fabric> fabric) {
  return std::shared_ptr<RegisteredPool>(new RegisteredPool(std::move(fabric)));
}

std::shared_ptr<std::byte> RegisteredPool::take(size_t bytes) {
  const size_t piece_bytes = std::bit_ceil(std::max(bytes, kPieceBytesMin));
  const auto size = static_cast<size_t>(std::countr_zero(piece_bytes));
  std::byte* piece = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (free_[size].empty()) add_slab(piece_bytes, &free_[size]);
    if (!free_[size].empty()) {
      piece = free_[size].back();
      free_[size].pop_back();
    }
  }
  if (piece == nullptr) return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  return {piece, [self = shared_from_this(), size](std::byte* back) {
            const std::lock_guard lock(self->mutex_);
            self->free_[size].push_back(back);
          }};
}

// Requires: mutex_. Adds nothing if there is no memory for it, or the device takes no more.
void RegisteredPool::add_slab(size_t piece_bytes, std::vector<std::byte*>* free) {
  const size_t bytes = std::max(piece_bytes, kSlabBytes);
  std::unique_ptr<rdma::RegisteredMemory> memory;
  if (!rdma::RegisteredMemory::make(*fabric_, bytes, rdma::Rights::none(), &memory).ok()) return;
  std::byte* const begin = memory->data();
  for (size_t at = 0; at < bytes; at += piece_bytes) free->push_back(begin + at);
  slabs_.emplace(begin, Slab{std::move(memory), bytes});
}

rdma::Slice RegisteredPool::slice(const std::byte* at, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto above = slabs_.upper_bound(at);
  if (above == slabs_.begin()) return {};
  const auto& [begin, slab] = *std::prev(above);
  const auto offset = static_cast<size_t>(at - begin);
  return offset + bytes <= slab.bytes ? slab.memory->slice(offset, bytes) : rdma::Slice();
}

}  // namespace bonsai::scale
