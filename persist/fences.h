// SPDX-License-Identifier: Apache-2.0
// Keys as fences of dnodes.
#ifndef BONSAI_PERSIST_FENCES_H_
#define BONSAI_PERSIST_FENCES_H_

#include <algorithm>
#include <string>
#include <string_view>

#include "persist/format.h"

namespace bonsai::persist {

// Whether a fence fits into a header that also holds another of its size; if not, the two may take blocks of their own.
constexpr bool fits_inline(std::string_view fence) { return fence.size() <= kInlineFenceBytes / 2; }

// A fence between two adjacent keys: `key`, or if that is long, its shortest prefix above `below`. Requires: below <
// key.
inline std::string fence_between(std::string_view below, std::string_view key) {
  if (fits_inline(key)) return std::string(key);
  const auto differ = std::mismatch(key.begin(), key.end(), below.begin(), below.end()).first;
  return std::string(key.begin(), differ + 1);
}

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_FENCES_H_
