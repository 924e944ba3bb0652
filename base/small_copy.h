// SPDX-License-Identifier: Apache-2.0
// Copies of keys and values: mostly 8 to 16 bytes, for which a call costs more than the copy.
#ifndef BONSAI_BASE_SMALL_COPY_H_
#define BONSAI_BASE_SMALL_COPY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace bonsai::base {

// Returns the end of the copy. Requires: room for it at `to`.
inline char* copy_small(char* to, std::string_view bytes) {
  if (bytes.size() == sizeof(uint64_t)) {
    std::memcpy(to, bytes.data(), sizeof(uint64_t));
  } else if (sizeof(uint64_t) < bytes.size() && bytes.size() <= 2 * sizeof(uint64_t)) {  // two words that may overlap
    uint64_t first, last;
    const size_t last_at = bytes.size() - sizeof last;
    std::memcpy(&first, bytes.data(), sizeof first);
    std::memcpy(&last, bytes.data() + last_at, sizeof last);
    std::memcpy(to, &first, sizeof first);
    std::memcpy(to + last_at, &last, sizeof last);
  } else if (!bytes.empty()) {
    std::memcpy(to, bytes.data(), bytes.size());
  }
  return to + bytes.size();
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_SMALL_COPY_H_
