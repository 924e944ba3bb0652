// SPDX-License-Identifier: Apache-2.0
// Values that name their key, so that every read can be verified for the price of a multiplication.
//
// A value repeats one 8-byte word: the low half is a tag of the key's id, the high half the stamp of the write. Checked
// are the size, the tag, and that the last whole word equals the first (a value mixed of two writes fails that).
#ifndef BONSAI_BENCH_YCSB_VALUES_H_
#define BONSAI_BENCH_YCSB_VALUES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace bonsai::bench {

[[nodiscard]] inline uint32_t value_tag(uint64_t id) { return static_cast<uint32_t>((id * 0x9E3779B97F4A7C15u) >> 32); }

inline void fill_value(uint64_t id, uint32_t stamp, char* room, size_t bytes) {
  const uint64_t word = uint64_t{stamp} << 32 | value_tag(id);
  if (bytes == 8) {
    std::memcpy(room, &word, 8);
    return;
  }
  for (size_t done = 0; done < bytes; done += 8) std::memcpy(room + done, &word, std::min<size_t>(8, bytes - done));
}

// The stamp of a value. Requires: value_is_of() its key, at least 8 bytes.
[[nodiscard]] inline uint32_t value_stamp(std::string_view value) {
  uint32_t stamp;
  std::memcpy(&stamp, value.data() + sizeof stamp, sizeof stamp);
  return stamp;
}

[[nodiscard]] inline bool value_is_of(uint64_t id, std::string_view value, size_t bytes) {
  if (value.size() != bytes) return false;
  const uint32_t tag = value_tag(id);
  if (bytes < sizeof tag) return std::memcmp(value.data(), &tag, bytes) == 0;
  uint32_t found;
  std::memcpy(&found, value.data(), sizeof found);
  if (found != tag) return false;
  return bytes < 16 || std::memcmp(value.data(), value.data() + bytes / 8 * 8 - 8, 8) == 0;
}

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_YCSB_VALUES_H_
