// SPDX-License-Identifier: Apache-2.0
#include "admin/ranges.h"

#include <array>

#include "admin/text.h"

namespace bonsai::admin {

std::string_view left_text(RangeState::Left left) {
  switch (left) {
    case RangeState::Left::kWhole:
      return "whole";
    case RangeState::Left::kPart:
      return "part";
    case RangeState::Left::kNothing:
      return "nothing";
  }
  return "unknown";
}

std::string ranges_text(const std::vector<Damage>& damages, uint64_t missing, const std::vector<RangeState>& ranges) {
  std::string text;
  for (uint64_t i = 0; i < missing && i < damages.size(); ++i) {
    text += "MISSING  " + damages[i].where + ": " + damages[i].what + "\n";
  }
  struct Sum {
    uint64_t ranges = 0, records = 0;
  };
  std::array<Sum, 3> sums;
  for (const RangeState& range : ranges) {
    const std::string kind(left_text(range.left));
    text += "LEFT     " + kind + (range.records == 0 ? "" : ", " + count_of(range.records, "record")) +
            "\n         keys: " + range.key_range + "\n";
    Sum& sum = sums[static_cast<size_t>(range.left)];
    ++sum.ranges;
    sum.records += range.records;
  }
  const auto of = [&sums](RangeState::Left left) {
    const Sum& sum = sums[static_cast<size_t>(left)];
    return count_of(sum.ranges, "range") +
           (left == RangeState::Left::kNothing ? "" : ", " + count_of(sum.records, "record"));
  };
  return text + row("whole", of(RangeState::Left::kWhole)) + row("in part", of(RangeState::Left::kPart)) +
         row("lost", of(RangeState::Left::kNothing));
}

}  // namespace bonsai::admin
