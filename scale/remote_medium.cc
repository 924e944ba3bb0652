// SPDX-License-Identifier: Apache-2.0
#include "scale/remote_medium.h"

#include <string>

#include "base/check.h"
#include "base/nvm/counters.h"
#include "base/nvm/racy_copy.h"
#include "base/sizes.h"
#include "base/status_macros.h"
#include "bonsai/options.h"
#include "scale/await_read.h"

namespace bonsai::scale {

Status RemoteMedium::make(RemoteLink* link, std::span<const size_t> members, std::unique_ptr<RemoteMedium>* medium) {
  const rdma::RemoteRegion& region = link->pool(members.front()).region;
  if (region.bytes > kPoolBytesMax || base::add_sizes(region.base, region.bytes) == UINT64_MAX) {
    return Status::Unavailable("a node offers a pool of " + std::to_string(region.bytes) +
                               " bytes, which none has; run the same version on both nodes");
  }
  std::shared_ptr<Mirror> mirror;
  BONSAI_RETURN_IF_ERROR(link->make_mirror(members, &mirror));
  std::vector<LinkTarget*> targets;
  for (const size_t member : members) targets.push_back(link->target(member));
  medium->reset(new RemoteMedium(link, std::move(targets), std::move(mirror)));
  return Status::OK();
}

void RemoteMedium::store8(std::byte* dst, uint64_t value) {
  base::word_at(dst).store(value, std::memory_order_release);
  base::count_stored(sizeof value);
  const uint64_t offset = offset_of(dst, sizeof value);
  BONSAI_CHECK(offset % sizeof value == 0);
  writes_.note_store(members_, offset);
}

void RemoteMedium::copy(std::byte* dst, const void* src, size_t n) {
  base::racy_store(dst, src, n);
  base::count_stored(n);
}

void RemoteMedium::nt_copy(std::byte* dst, const void* src, size_t n, const base::Site&) {
  base::count_nt(dst, n);
  const uint64_t offset = offset_of(dst, n);
  if (!mirror_->resident(offset, n)) return writes_.note_copy(members_, offset, src, n);
  base::racy_store(dst, src, n);
  writes_.note(members_, offset, n);
}

void RemoteMedium::flush(const std::byte* dst, size_t n, const base::Site&) {
  base::count_flush(dst, n);
  writes_.note(members_, offset_of(dst, n), n);
}

bool RemoteMedium::fence(const base::Site&) {
  base::count_fence();
  return writes_.fence(members_);
}

Status RemoteMedium::health() const {
  for (const LinkTarget* const member : members_) {
    if (const Status status = member->state.status(); !status.ok()) return status;
  }
  return Status::OK();
}

void RemoteMedium::repair(size_t member, std::span<const Repair> repairs) {
  LinkTarget* const to = members_[member];
  uint64_t bytes = 0;
  for (const Repair& each : repairs) {
    writes_.note_copy(to->alone(), each.offset, each.bytes, each.n);
    bytes += each.n;
  }
  if (!writes_.fence(to->alone()) || !to->state.takes_reads()) return;
  Group* const group = to->group.load(std::memory_order_acquire);
  if (group == nullptr) return;
  group->note_repair(to, repairs.front().offset, repairs.back().offset + repairs.back().n, bytes);
}

// A range whose earlier read failed is open, and is read again.
Status RemoteMedium::open_resident(uint64_t offset, uint64_t n, std::vector<Piece>* pieces) {
  for (LinkTarget* const member : members_) member->places.give_up(offset, n);
  reads_.settle();
  return mirror_->open(offset, n, pieces);
}

}  // namespace bonsai::scale
