// SPDX-License-Identifier: Apache-2.0
#include "scale/remote_medium.h"

#include "base/check.h"
#include "base/nvm/counters.h"
#include "base/nvm/racy_copy.h"
#include "base/sizes.h"
#include "base/status_macros.h"
#include "bonsai/options.h"

namespace bonsai::scale {

Status RemoteMedium::make(RemoteLink* link, size_t target, std::unique_ptr<RemoteMedium>* medium, bool shared) {
  const rdma::RemoteRegion& region = link->pool(target).region;
  if (region.bytes > kPoolBytesMax || base::add_sizes(region.base, region.bytes) == UINT64_MAX) {
    return Status::Unavailable("a node offers a pool of " + std::to_string(region.bytes) +
                               " bytes, which none has; run the same version on both nodes");
  }
  std::shared_ptr<Mirror> mirror;
  BONSAI_RETURN_IF_ERROR(link->make_mirror(target, shared, &mirror));
  medium->reset(new RemoteMedium(link, target, std::move(mirror)));
  return Status::OK();
}

void RemoteMedium::store8(std::byte* dst, uint64_t value) {
  base::word_at(dst).store(value, std::memory_order_release);
  base::count_stored(sizeof value);
  const uint64_t offset = offset_of(dst, sizeof value);
  BONSAI_CHECK(offset % sizeof value == 0);
  writes_.note_store(&target_, offset);
}

void RemoteMedium::copy(std::byte* dst, const void* src, size_t n) {
  base::racy_store(dst, src, n);
  base::count_stored(n);
}

void RemoteMedium::nt_copy(std::byte* dst, const void* src, size_t n, const base::Site&) {
  base::count_nt(dst, n);
  const uint64_t offset = offset_of(dst, n);
  if (!mirror_->resident(offset, n)) return writes_.note_copy(&target_, offset, src, n);
  base::racy_store(dst, src, n);
  writes_.note(&target_, offset, n);
}

void RemoteMedium::flush(const std::byte* dst, size_t n, const base::Site&) {
  base::count_flush(dst, n);
  writes_.note(&target_, offset_of(dst, n), n);
}

bool RemoteMedium::fence(const base::Site&) {
  base::count_fence();
  return writes_.fence(target_);
}

// A range whose earlier read failed is open, and is read again.
Status RemoteMedium::open_resident(uint64_t offset, uint64_t n, std::vector<Piece>* pieces) {
  target_.places.give_up(offset, n);
  reads_.settle();
  return mirror_->open(offset, n, pieces);
}

}  // namespace bonsai::scale
