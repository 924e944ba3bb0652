// SPDX-License-Identifier: Apache-2.0
// From record numbers to keys. A record number n becomes an *id* (n itself, or fnv64(n) for hashed inserts), and an id
// becomes the bytes of a key: 8 bytes big-endian (`fixed8`), or "user" and the id in decimal (`string`, as in YCSB).
#ifndef BONSAI_BENCH_YCSB_KEYS_H_
#define BONSAI_BENCH_YCSB_KEYS_H_

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "bench/ycsb/generators.h"
#include "bonsai/options.h"

namespace bonsai::bench {

enum class KeyForm : uint8_t { kFixed8, kString };

[[nodiscard]] inline std::string_view key_form_name(KeyForm form) {
  return form == KeyForm::kFixed8 ? "fixed8" : "string";
}

// The shape of records; a store that was loaded in one shape must be loaded again for another.
struct RecordShape {
  KeyForm key_form = KeyForm::kFixed8;
  bool hashed = true;
  uint32_t zero_padding = 1;
  size_t value_bytes = 8;

  bool operator==(const RecordShape&) const = default;

  [[nodiscard]] uint64_t id(uint64_t number) const { return hashed ? fnv64(number) : number; }
  // The most bytes that a key takes.
  [[nodiscard]] size_t key_bytes_max() const {
    return key_form == KeyForm::kFixed8 ? 8 : 4 + (zero_padding > 20 ? zero_padding : 20);
  }
};

// Writes the key of `id` to `room`, which holds key_bytes_max() bytes. Returns the key, which is in `room`.
inline std::string_view encode_key(const RecordShape& shape, uint64_t id, char* room) {
  if (shape.key_form == KeyForm::kFixed8) {
    const uint64_t big_endian = __builtin_bswap64(id);
    std::memcpy(room, &big_endian, 8);
    return {room, 8};
  }
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), id).ptr;
  const size_t n = static_cast<size_t>(end - digits.data());
  const size_t zeros = n < shape.zero_padding ? shape.zero_padding - n : 0;
  std::memcpy(room, "user", 4);
  std::memset(room + 4, '0', zeros);
  std::memcpy(room + 4 + zeros, digits.data(), n);
  return {room, 4 + zeros + n};
}

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_YCSB_KEYS_H_
