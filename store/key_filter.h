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

#include "base/check.h"
#include "base/key.h"

namespace bonsai::store {

class KeyFilter {
 public:
  // With `keys_max` keys it says yes for one other key in kPlacesPerKey.
  explicit KeyFilter(size_t keys_max)
      : taken_(std::bit_ceil(keys_max * kPlacesPerKey)), shift_(64 - std::countr_zero(taken_.size())) {
    BONSAI_CHECK(keys_max > 0);
  }

  void add(std::string_view key) { taken_[place(key)] = 1; }
  [[nodiscard]] bool may_have(std::string_view key) const { return taken_[place(key)] != 0; }
  void clear() { std::fill(taken_.begin(), taken_.end(), 0); }

  static constexpr size_t kPlacesPerKey = 32;

 private:
  // Keys of 8 to 16 bytes, which are most, cost a few instructions.
  [[nodiscard]] size_t place(std::string_view key) const {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
    uint64_t first, last;
    if (key.size() - sizeof first > sizeof first) [[unlikely]]
      return base::Key::of(key).hash() >> shift_;
    std::memcpy(&first, key.data(), sizeof first);
    std::memcpy(&last, key.data() + key.size() - sizeof last, sizeof last);
    return (first + std::rotl(last, 23)) * kOdd >> shift_;
  }

  std::vector<uint8_t> taken_;  // a power of two of them
  int shift_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_KEY_FILTER_H_
