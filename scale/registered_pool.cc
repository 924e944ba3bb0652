// SPDX-License-Identifier: Apache-2.0
#include "scale/registered_pool.h"

#include <bit>

#include "base/check.h"
#include "base/status_macros.h"

namespace bonsai::scale {

Status RegisteredPool::make(std::shared_ptr<rdma::Fabric> fabric, std::shared_ptr<RegisteredPool>* pool) {
  std::shared_ptr<RegisteredPool> made(new RegisteredPool(std::move(fabric)));
  BONSAI_RETURN_IF_ERROR(made->add_slab(kReserveBytes, kReserveSlabBytes, &made->reserve_));
  *pool = std::move(made);
  return Status::OK();
}

std::shared_ptr<std::byte> RegisteredPool::take(size_t bytes) {
  const size_t piece_bytes = std::bit_ceil(std::max(bytes, kPieceBytesMin));
  std::vector<Slab*>* const with_room = &with_room_[static_cast<size_t>(std::countr_zero(piece_bytes))];
  {
    const std::lock_guard lock(mutex_);
    // Without memory for it, or when the device takes no more, the piece is not registered.
    if (with_room->empty()) static_cast<void>(add_slab(piece_bytes, std::max(piece_bytes, kSlabBytes), with_room));
    if (std::shared_ptr<std::byte> piece = take_from(with_room); piece != nullptr) return piece;
  }
  return {new std::byte[bytes], std::default_delete<std::byte[]>()};
}

std::shared_ptr<std::byte> RegisteredPool::take_reserve() {
  const std::lock_guard lock(mutex_);
  return take_from(&reserve_);
}

// Null: no slab has room. Requires: the mutex.
std::shared_ptr<std::byte> RegisteredPool::take_from(std::vector<Slab*>* with_room) {
  if (with_room->empty()) return nullptr;
  Slab* const slab = with_room->back();
  BONSAI_CHECK(!slab->free.empty() && (!slab->idle() || slab->bytes <= idle_bytes_));
  if (slab->idle()) idle_bytes_ -= slab->bytes;
  std::byte* const piece = slab->free.back();
  slab->free.pop_back();
  if (slab->free.empty()) with_room->pop_back();
  return {piece,
          [self = shared_from_this(), slab, with_room](std::byte* back) { self->give_back(back, slab, with_room); }};
}

// Beyond kIdleBytesMax a slab that becomes idle is no longer registered.
void RegisteredPool::give_back(std::byte* piece, Slab* slab, std::vector<Slab*>* with_room) {
  std::unique_ptr<rdma::RegisteredMemory> unneeded;  // freed without the lock, since that asks the device
  const std::lock_guard lock(mutex_);
  BONSAI_CHECK(slab->free.size() < slab->pieces);
  BONSAI_CHECK(piece >= slab->memory->data() && piece < slab->memory->data() + slab->bytes);
  if (slab->free.empty()) with_room->push_back(slab);
  slab->free.push_back(piece);
  if (!slab->idle()) return;
  if (with_room == &reserve_ || idle_bytes_ + slab->bytes <= kIdleBytesMax) {
    idle_bytes_ += slab->bytes;
    return;
  }
  std::erase(*with_room, slab);
  BONSAI_CHECK(slab->bytes <= registered_bytes_ && idle_bytes_ <= registered_bytes_ - slab->bytes);
  registered_bytes_ -= slab->bytes;
  unneeded = std::move(slab->memory);
  slabs_.erase(unneeded->data());
}

// Requires: the mutex. Errors: NoSpace and others of registering; nothing was added then.
Status RegisteredPool::add_slab(size_t piece_bytes, size_t slab_bytes, std::vector<Slab*>* with_room) {
  BONSAI_CHECK(piece_bytes > 0 && slab_bytes % piece_bytes == 0);
  std::unique_ptr<rdma::RegisteredMemory> memory;
  BONSAI_RETURN_IF_ERROR(rdma::RegisteredMemory::make(*fabric_, slab_bytes, rdma::Rights::none(), &memory));
  std::byte* const begin = memory->data();
  std::vector<std::byte*> free;
  for (size_t at = 0; at < slab_bytes; at += piece_bytes) free.push_back(begin + at);
  const size_t pieces = free.size();
  const auto [at, is_new] = slabs_.emplace(begin, Slab{std::move(memory), slab_bytes, pieces, std::move(free)});
  BONSAI_CHECK(is_new);
  with_room->push_back(&at->second);
  registered_bytes_ += slab_bytes;
  idle_bytes_ += slab_bytes;
  return Status::OK();
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
