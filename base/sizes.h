// SPDX-License-Identifier: Apache-2.0
// Arithmetic with sizes that come from outside: options, messages of other nodes, media.
//
// A result that 64 bits cannot hold is UINT64_MAX. It never wraps around to a small number, and every bound of a size
// is below it. So a caller computes first, and then compares the result with its bound once.
#ifndef BONSAI_BASE_SIZES_H_
#define BONSAI_BASE_SIZES_H_

#include <cstdint>

namespace bonsai::base {

constexpr uint64_t add_sizes(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

constexpr uint64_t multiply_sizes(uint64_t a, uint64_t b) { return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b; }

// The next multiple of `unit`. Requires: unit is not 0.
constexpr uint64_t round_up(uint64_t n, uint64_t unit) {
  return n > UINT64_MAX - (unit - 1) ? UINT64_MAX : (n + (unit - 1)) / unit * unit;
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_SIZES_H_
