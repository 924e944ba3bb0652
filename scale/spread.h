// SPDX-License-Identifier: Apache-2.0
// The lane that carries a write to a byte of a target. The address alone decides, so that writes of one word keep their
// order. Units of a spread range take turns among all lanes except the first; the first lane carries all other writes.
//
// Thread-safety: const members from any thread.
#ifndef BONSAI_SCALE_SPREAD_H_
#define BONSAI_SCALE_SPREAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace bonsai::scale {

class Spread {
 public:
  // Requires: ranges are disjoint and in rising order; no thread writes there yet.
  void add(uint64_t offset, uint64_t n, uint64_t unit_bytes) {
    BONSAI_CHECK(unit_bytes != 0 && (ranges_.empty() || ranges_.back().offset + ranges_.back().bytes <= offset));
    ranges_.push_back({offset, n, unit_bytes});
  }

  // The lane of the byte. *n becomes smaller if that lane carries fewer bytes from there on. Requires: lanes > 0.
  [[nodiscard]] size_t lane_of(uint64_t offset, size_t lanes, uint64_t* n) const {
    BONSAI_CHECK(lanes > 0 && *n > 0);
    if (lanes == 1) return 0;
    for (const Range& range : ranges_) {
      if (offset < range.offset) {
        *n = std::min(*n, range.offset - offset);
        return 0;
      }
      const uint64_t at = offset - range.offset;
      if (at >= range.bytes) continue;
      *n = std::min({*n, range.unit_bytes - at % range.unit_bytes, range.bytes - at});
      return 1 + at / range.unit_bytes % (lanes - 1);
    }
    return 0;
  }

 private:
  struct Range {
    uint64_t offset, bytes, unit_bytes;
  };
  std::vector<Range> ranges_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_SPREAD_H_
