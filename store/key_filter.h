// SPDX-License-Identifier: Apache-2.0
// A set of keys that may say yes for a key that it does not have, but never no for one that it has.
//
// Thread-safety: one owner.
#ifndef BONSAI_STORE_KEY_FILTER_H_
#define BONSAI_STORE_KEY_FILTER_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/key.h"

namespace bonsai::store {

class KeyFilter {
 public:
  // With `keys_max` keys it says yes for one other key in kBitsPerKey, or fewer.
  explicit KeyFilter(size_t keys_max)
      : words_(std::bit_ceil(std::max<size_t>(keys_max, 2))), shift_(64 - std::bit_width(words_.size() - 1)) {}

  void add(std::string_view key) {
    const uint64_t mixed = mix(key);
    words_[mixed >> shift_] |= bit(mixed);
  }
  [[nodiscard]] bool may_have(std::string_view key) const {
    const uint64_t mixed = mix(key);
    return (words_[mixed >> shift_] & bit(mixed)) != 0;
  }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }

  static constexpr size_t kBitsPerKey = 64;

 private:
  // The upper bits choose a word, those next to the middle a bit. Short keys, which are most, cost a few instructions.
  static uint64_t mix(std::string_view key) {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
    uint64_t first, last;
    if (key.size() < sizeof first || key.size() > 2 * sizeof first) return base::Key::of(key).hash();
    std::memcpy(&first, key.data(), sizeof first);
    std::memcpy(&last, key.data() + key.size() - sizeof last, sizeof last);
    return (first + std::rotl(last, 23)) * kOdd;
  }
  static uint64_t bit(uint64_t mixed) { return uint64_t{1} << (mixed >> 32) % kBitsPerKey; }

  std::vector<uint64_t> words_;  // a power of two of them, at least two
  int shift_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_KEY_FILTER_H_
