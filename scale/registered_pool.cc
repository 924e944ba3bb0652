// SPDX-License-Identifier: Apache-2.0
#include "scale/registered_pool.h"

#include <bit>

namespace bonsai::scale {

std::shared_ptr<RegisteredPool> RegisteredPool::make(std::shared_ptr<rdma::Fabric> fabric) {
  return std::shared_ptr<RegisteredPool>(new RegisteredPool(std::move(fabric)));
}

std::shared_ptr<std::byte> RegisteredPool::take(size_t bytes) {
  const size_t piece_bytes = std::bit_ceil(std::max(bytes, kPieceBytesMin));
  std::vector<Slab*>* const with_room = &with_room_[static_cast<size_t>(std::countr_zero(piece_bytes))];
  std::byte* piece = nullptr;
  Slab* slab = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (with_room->empty()) add_slab(piece_bytes, with_room);
    if (!with_room->empty()) {
      slab = with_room->back();
      if (slab->idle()) idle_bytes_ -= slab->bytes;
      piece = slab->free.back();
      slab->free.pop_back();
      if (slab->free.empty()) with_room->pop_back();
    }
  }
  if (piece == nullptr) return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  return {piece,
          [self = shared_from_this(), slab, with_room](std::byte* back) { self->give_back(back, slab, with_room); }};
}

// Beyond kIdleBytesMax a slab that becomes idle is no longer registered.
void RegisteredPool::give_back(std::byte* piece, Slab* slab, std::vector<Slab*>* with_room) {
  std::unique_ptr<rdma::RegisteredMemory> unneeded;  // freed without the lock, since that asks the device
  const std::lock_guard lock(mutex_);
  if (slab->free.empty()) with_room->push_back(slab);
  slab->free.push_back(piece);
  if (!slab->idle()) return;
  if (idle_bytes_ + slab->bytes <= kIdleBytesMax) {
    idle_bytes_ += slab->bytes;
    return;
  }
  std::erase(*with_room, slab);
  registered_bytes_ -= slab->bytes;
  unneeded = std::move(slab->memory);
  slabs_.erase(unneeded->data());
}

// Requires: mutex_. Adds nothing if there is no memory for it, or the device takes no more.
void RegisteredPool::add_slab(size_t piece_bytes, std::vector<Slab*>* with_room) {
  const size_t bytes = std::max(piece_bytes, kSlabBytes);
  std::unique_ptr<rdma::RegisteredMemory> memory;
  if (!rdma::RegisteredMemory::make(*fabric_, bytes, rdma::Rights::none(), &memory).ok()) return;
  std::byte* const begin = memory->data();
  std::vector<std::byte*> free;
  for (size_t at = 0; at < bytes; at += piece_bytes) free.push_back(begin + at);
  const size_t pieces = free.size();
  Slab& slab = slabs_.emplace(begin, Slab{std::move(memory), bytes, pieces, std::move(free)}).first->second;
  with_room->push_back(&slab);
  registered_bytes_ += bytes;
  idle_bytes_ += bytes;
}

size_t RegisteredPool::registered_bytes() const {
  const std::lock_guard lock(mutex_);
  return registered_bytes_;
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
