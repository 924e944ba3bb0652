// SPDX-License-Identifier: Apache-2.0
// What is left of a pool without some of its targets, as check and salvage print it.
#ifndef BONSAI_ADMIN_RANGES_H_
#define BONSAI_ADMIN_RANGES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/damage.h"

namespace bonsai::admin {

// "whole", "part" or "nothing".
std::string_view left_text(RangeState::Left left);

// The targets that are missing, which are the first `missing` of `damages`; the ranges of keys; and how many records
// are left in which kind of range.
std::string ranges_text(const std::vector<Damage>& damages, uint64_t missing, const std::vector<RangeState>& ranges);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_RANGES_H_
