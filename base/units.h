// SPDX-License-Identifier: Apache-2.0
// Sizes, in bytes.
#ifndef BONSAI_BASE_UNITS_H_
#define BONSAI_BASE_UNITS_H_

#include <cstddef>
#include <cstdint>

namespace bonsai::base {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr size_t kPageBytes = 4096;  // page of this machine's memory and files

}  // namespace bonsai::base

#endif  // BONSAI_BASE_UNITS_H_
