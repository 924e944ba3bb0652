// SPDX-License-Identifier: Apache-2.0
#include "scale/interleaved_views.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <string>

#include "base/sizes.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace bonsai::scale {

Status InterleavedViews::check(uint64_t unit_bytes, uint64_t targets, uint64_t bytes) {
  if (unit_bytes < base::kPageBytes) {
    return Status::InvalidArgument("stripe units of " + std::to_string(unit_bytes) + " bytes are too small to map on " +
                                   "this machine; units of " + std::to_string(base::kPageBytes) +
                                   " bytes or more can be mapped: create a pool with those");
  }
  const uint64_t all = base::multiply_sizes(targets, bytes);
  if (all / unit_bytes <= kPiecesMax) return Status::OK();
  const uint64_t enough = std::bit_ceil(all / kPiecesMax + 1);
  if (enough > kStripeUnitMax) {
    return Status::InvalidArgument("striped targets of this machine have at most " +
                                   std::to_string(kPiecesMax * kStripeUnitMax) + " bytes together, " +
                                   std::to_string(all) + " are too many to map; use layout none");
  }
  return Status::InvalidArgument("stripe units of " + std::to_string(unit_bytes) + " bytes are too small to map " +
                                 std::to_string(all) + " bytes of this machine; units of " + std::to_string(enough) +
                                 " bytes or more can be mapped: create a pool with those");
}

Status InterleavedViews::make(const Layout& layout, std::span<std::byte* const> views, uint64_t bytes,
                              std::unique_ptr<InterleavedViews>* made) {
  BONSAI_RETURN_IF_ERROR(check(layout.unit_bytes(), layout.ring().size(), bytes));
  std::unique_ptr<InterleavedViews> all(new InterleavedViews(base::round_up(bytes, base::kPageBytes)));
  for (const size_t target : layout.ring()) BONSAI_RETURN_IF_ERROR(all->add(layout, target, views));
  *made = std::move(all);
  return Status::OK();
}

// An old size of 0 asks mremap() to map the pages once more, and to leave the old mapping.
Status InterleavedViews::add(const Layout& layout, size_t target, std::span<std::byte* const> views) {
  void* const at = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return Status::NoSpace("no addresses for the " + std::to_string(bytes_) +
                           " bytes of a striped target; raise the limit of address space (ulimit -v)");
  }
  views_.push_back(static_cast<std::byte*>(at));
  int error = 0;
  layout.each_piece(Addr(target, 0), bytes_, [&](Addr place, uint64_t done, uint64_t n) {
    if (error != 0) return;
    std::byte* const from = views[place.target()] + place.offset();
    if (::mremap(from, 0, n, MREMAP_MAYMOVE | MREMAP_FIXED, views_.back() + done) == MAP_FAILED) error = errno;
  });
  if (error == 0) return Status::OK();
  if (error == ENOMEM) {
    return Status::NoSpace(
        "the kernel maps no more pieces of a striped target; raise vm.max_map_count, or create the pool with larger "
        "units");
  }
  return Status::NotSupported(
      "the memory of a striped target cannot be mapped once more, as that of a pool that is opened read-only: open it "
      "for updates, or look at it by `bonsai check`, or use layout none");
}

InterleavedViews::~InterleavedViews() {
  for (std::byte* view : views_) ::munmap(view, bytes_);
}

}  // namespace bonsai::scale
