// SPDX-License-Identifier: Apache-2.0
#include "scale/remote_target.h"

#include "base/nvm/counters.h"
#include "base/nvm/racy_copy.h"
#include "base/sizes.h"
#include "base/status_macros.h"
#include "bonsai/options.h"

namespace bonsai::scale {

Status RemoteTarget::make(RemoteLink* link, size_t target, std::unique_ptr<RemoteTarget>* medium) {
  const rdma::RemoteRegion& region = link->pool(target).region;
  if (region.bytes > kPoolBytesMax || base::add_sizes(region.base, region.bytes) == UINT64_MAX) {
    return Status::Unavailable("a node offers a pool of " + std::to_string(region.bytes) +
                               " bytes, which none has; run the same version on both nodes");
  }
  BONSAI_RETURN_IF_ERROR(link->make_mirror(target));
  medium->reset(new RemoteTarget(link, target, link->mirror(target)));
  return Status::OK();
}

void RemoteTarget::store8(std::byte* dst, uint64_t value) {
  base::word_at(dst).store(value, std::memory_order_release);
  base::count_stored(sizeof value);
  link_.note_store(target_, offset_of(dst));
}

void RemoteTarget::copy(std::byte* dst, const void* src, size_t n) {
  base::racy_store(dst, src, n);
  base::count_stored(n);
}

void RemoteTarget::nt_copy(std::byte* dst, const void* src, size_t n, const base::Site&) {
  base::count_nt(dst, n);
  if (!link_.resident(target_, offset_of(dst), n)) return link_.note_copy(target_, offset_of(dst), src, n);
  base::racy_store(dst, src, n);
  link_.note(target_, offset_of(dst), n);
}

void RemoteTarget::flush(const std::byte* dst, size_t n, const base::Site&) {
  base::count_flush(dst, n);
  link_.note(target_, offset_of(dst), n);
}

bool RemoteTarget::fence(const base::Site&) {
  base::count_fence();
  return link_.fence();
}

}  // namespace bonsai::scale
