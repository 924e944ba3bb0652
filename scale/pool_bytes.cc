// SPDX-License-Identifier: Apache-2.0
#include "scale/pool_bytes.h"

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

#include "base/nvm/bus_guard.h"
#include "base/nvm/product.h"

namespace bonsai::scale {
namespace {

constexpr base::Site kSiteServe{"server.flush"};

// Whether the file is as large as its mapping. A device, and memory without a file, are.
bool has_bytes(const base::Mapping& mapping) {
  struct stat found {};
  if (mapping.fd() < 0 || ::fstat(mapping.fd(), &found) != 0 || !S_ISREG(found.st_mode)) return true;
  return static_cast<uint64_t>(found.st_size) >= mapping.bytes();
}

}  // namespace

Status PoolBytes::register_at(rdma::Fabric* fabric) {
  const std::span<std::byte> memory = media.hooked != nullptr ? std::span(media.hooked->view(), media.hooked->bytes())
                                                              : std::span(mapping->data(), mapping->bytes());
  rdma::Rights rights;
  rights.read = rights.write = true;
  // All processes that have the file mapped then share its lock, also after this server has ended.
  const bool is_file = memory.data() == mapping->data() && mapping->fd() >= 0;
  return is_file ? fabric->register_file(memory, rights, mapping->fd(), &region)
                 : fabric->register_region(memory, rights, &region);
}

bool PoolBytes::holds(const Range& range) const {
  const rdma::RemoteRegion served = region->remote();
  const uint64_t offset = range.address - served.base;
  return offset <= served.bytes && range.bytes <= served.bytes - offset;
}

rdma::FlushResult PoolBytes::flush(std::span<const Range> ranges, std::string* note) {
  if (cut_short_) return rdma::FlushResult::kFailed;
  for (const Range& range : ranges) {
    if (!flush(range)) {
      cut_short_ = true;
      *note = mapping->path() +
              " was cut short while it was in use: its owner's updates fail from now on; restore the file";
      return rdma::FlushResult::kFailed;
    }
  }
  return fence() ? rdma::FlushResult::kDone : rdma::FlushResult::kFailed;
}

// False: the file does not have these bytes any more.
bool PoolBytes::flush(const Range& range) {
  const std::byte* const begin = region->memory().data() + (range.address - region->remote().base);
  if (media.hooked == nullptr) {
    base::ProductMedium medium(mapping->data(), mapping->bytes(), mapping->domain());
    return base::survive_bus_error([&] { medium.flush(begin, range.bytes, kSiteServe); });
  }
  // Such a medium notes the range only, and its fence hands it to the kernel.
  if (!has_bytes(*mapping)) return false;
  media.hooked->flush(begin, range.bytes, kSiteServe);
  return true;
}

bool PoolBytes::fence() {
  if (media.hooked != nullptr) return media.hooked->fence(kSiteServe);
  return base::ProductMedium(mapping->data(), mapping->bytes(), mapping->domain()).fence(kSiteServe);
}

}  // namespace bonsai::scale
