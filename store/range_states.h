// SPDX-License-Identifier: Apache-2.0
// What is left of the key space, range by range, for the reports of Check and Salvage.
#ifndef BONSAI_STORE_RANGE_STATES_H_
#define BONSAI_STORE_RANGE_STATES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/key.h"
#include "bonsai/damage.h"

namespace bonsai::store {

// Neighbours in the same state become one range; where nothing was added, nothing is left.
class RangeStates {
 public:
  // `hurt`: something in [lo, hi) cannot be trusted. Requires: ranges come in the order of keys and do not overlap.
  void add(const base::Fence& lo, const base::Fence& hi, bool hurt, uint64_t records) {
    BONSAI_CHECK(!(lo < end_));
    if (end_ < lo) append(end_, lo, RangeState::Left::kNothing, 0);
    const RangeState::Left part = records == 0 ? RangeState::Left::kNothing : RangeState::Left::kPart;
    append(lo, hi, hurt ? part : RangeState::Left::kWhole, records);
    end_ = hi;
  }

  // Of the whole key space, in the order of keys.
  [[nodiscard]] std::vector<RangeState> take() {
    if (!end_.is_infinite()) append(end_, base::Fence::infinite(), RangeState::Left::kNothing, 0);
    std::vector<RangeState> states;
    for (const Range& range : ranges_) {
      states.push_back({base::printable_range(range.lo, range.hi), range.left, range.records});
    }
    ranges_.clear();
    end_ = base::Fence();
    return states;
  }

 private:
  struct Range {
    base::Fence lo, hi;
    RangeState::Left left;
    uint64_t records;
  };

  void append(const base::Fence& lo, const base::Fence& hi, RangeState::Left left, uint64_t records) {
    if (!ranges_.empty() && ranges_.back().left == left) {
      ranges_.back().hi = hi;
      ranges_.back().records += records;
    } else {
      ranges_.push_back({lo, hi, left, records});
    }
  }

  std::vector<Range> ranges_;
  base::Fence end_;  // of what was added
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_RANGE_STATES_H_
