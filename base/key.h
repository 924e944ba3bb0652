// SPDX-License-Identifier: Apache-2.0
// Keys: byte strings in bytewise order, with their first eight bytes as one integer, `head`.
//
// Most comparisons end at `head`; for eight-byte keys all of them do. So one code path serves both key formats.
#ifndef BONSAI_BASE_KEY_H_
#define BONSAI_BASE_KEY_H_

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace bonsai::base {

// The first eight bytes as a big-endian integer, padded with zeros. Keys with different heads are in the order of their
// heads; equal heads decide nothing.
inline uint64_t key_head(std::string_view bytes) {
  uint64_t raw = 0;
  if (bytes.size() >= sizeof raw) {  // one load
    std::memcpy(&raw, bytes.data(), sizeof raw);
  } else if (!bytes.empty()) {
    std::memcpy(&raw, bytes.data(), bytes.size());
  }
  return __builtin_bswap64(raw);
}

inline size_t common_prefix_bytes(std::string_view a, std::string_view b) {
  const auto n = static_cast<ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}

// Length of the common prefix in bits.
inline size_t common_prefix_bits(std::string_view a, std::string_view b) {
  const size_t bytes = common_prefix_bytes(a, b);
  if (bytes == std::min(a.size(), b.size())) return bytes * 8;
  const auto differ = static_cast<uint8_t>(a[bytes] ^ b[bytes]);
  return bytes * 8 + static_cast<size_t>(std::countl_zero(differ));
}

// A key that does not own its bytes. Requires: `bytes` outlives it.
struct Key {
  uint64_t head = 0;
  std::string_view bytes;

  static Key of(std::string_view bytes) { return {key_head(bytes), bytes}; }

  [[nodiscard]] uint64_t hash() const {
    if (bytes.size() <= 8) return XXH3_64bits_withSeed(&head, sizeof head, bytes.size());
    return XXH3_64bits(bytes.data(), bytes.size());
  }
};

// With equal heads and one key of at most eight bytes, the shorter is a prefix of the longer.
inline std::strong_ordering compare(const Key& a, const Key& b) {
  if (a.head != b.head) return a.head <=> b.head;
  const size_t common = std::min(a.bytes.size(), b.bytes.size());
  if (common > 8) {
    const int rest = std::memcmp(a.bytes.data() + 8, b.bytes.data() + 8, common - 8);
    if (rest != 0) return rest <=> 0;
  }
  return a.bytes.size() <=> b.bytes.size();
}
inline bool operator==(const Key& a, const Key& b) {
  return a.head == b.head && a.bytes.size() == b.bytes.size() &&
         (a.bytes.size() <= 8 || std::memcmp(a.bytes.data() + 8, b.bytes.data() + 8, a.bytes.size() - 8) == 0);
}
inline bool operator<(const Key& a, const Key& b) { return compare(a, b) < 0; }

// An end of a key range: an owned key, or the end of the key space.
class Fence {
 public:
  Fence() = default;  // the empty key, below every key
  explicit Fence(std::string_view bytes) : bytes_(bytes), head_(key_head(bytes)) {}
  // Becomes Fence(bytes), in the memory that it has.
  void assign(std::string_view bytes) {
    bytes_.assign(bytes);
    head_ = key_head(bytes);
    infinite_ = false;
  }
  static Fence infinite() {
    Fence fence;
    fence.infinite_ = true;
    return fence;
  }

  [[nodiscard]] bool is_infinite() const { return infinite_; }
  [[nodiscard]] Key key() const { return {head_, bytes_}; }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  // True if `key` is below this fence.
  [[nodiscard]] bool above(const Key& key) const { return infinite_ || key < this->key(); }

  friend std::strong_ordering compare(const Fence& a, const Fence& b) {
    if (a.infinite_ || b.infinite_) return a.infinite_ <=> b.infinite_;
    return base::compare(a.key(), b.key());
  }
  friend bool operator<(const Fence& a, const Fence& b) { return compare(a, b) < 0; }
  friend bool operator==(const Fence& a, const Fence& b) { return compare(a, b) == 0; }

 private:
  std::string bytes_;
  uint64_t head_ = 0;
  bool infinite_ = false;
};

// For messages: printable form of a key, shortened.
std::string printable(std::string_view key);
std::string printable_range(const Fence& lo, const Fence& hi);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_KEY_H_
