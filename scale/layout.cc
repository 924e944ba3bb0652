// SPDX-License-Identifier: Apache-2.0
#include "scale/layout.h"

#include <bit>

#include "base/check.h"
#include "base/narrow.h"
#include "base/units.h"

namespace bonsai::scale {

std::string_view layout_text(LayoutChoice choice) {
  switch (choice) {
    case LayoutChoice::kNone:
      return "none";
    case LayoutChoice::kSoftware:
      return "software";
    case LayoutChoice::kHardware:
      return "hardware";
  }
  return "";
}

Layout::Layout(LayoutChoice kind, std::span<const size_t> ring, uint64_t unit_bytes, uint64_t begin)
    : kind_(kind), unit_bytes_(unit_bytes), begin_(begin), ring_size_(ring.size()) {
  BONSAI_CHECK(striped() && ring.size() >= 2 && ring.size() <= kTargetsMax);
  BONSAI_CHECK(std::has_single_bit(unit_bytes) && unit_bytes >= kStripeUnitMin && unit_bytes <= kStripeUnitMax);
  BONSAI_CHECK(begin % base::kPageBytes == 0);
  for (size_t i = 0; i < ring.size(); ++i) {
    BONSAI_CHECK(ring[i] < kTargetsMax && !in_ring(ring[i]));
    ring_[i] = base::checked_narrow<uint8_t>(ring[i]);
    position_[ring[i]] = base::checked_narrow<uint8_t>(i);
    ring_bits_ |= uint64_t{1} << ring[i];
  }
}

}  // namespace bonsai::scale
