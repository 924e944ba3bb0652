// SPDX-License-Identifier: Apache-2.0
// Explicit conversions to narrower integers. Bytes on NVM are written once and trusted for years: a value that does not
// fit into its field must not be stored silently.
#ifndef BONSAI_BASE_NARROW_H_
#define BONSAI_BASE_NARROW_H_

#include <type_traits>
#include <utility>

#include "base/check.h"

namespace bonsai::base {

// Converts `value` to `To`. Requires, and checks in every build: `To` can represent it.
template <class To, class From>
constexpr To checked_narrow(From value) {
  if constexpr (std::is_enum_v<From>) {
    return checked_narrow<To>(static_cast<std::underlying_type_t<From>>(value));
  } else {
    BONSAI_CHECK(std::in_range<To>(value));
    return static_cast<To>(value);
  }
}

// The lowest bits of a hash, checksum or mask: the others are meant to be dropped.
template <class To, class From>
constexpr To low_bits(From value) {
  return static_cast<To>(value);
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NARROW_H_
