// SPDX-License-Identifier: Apache-2.0
#include "testing/codec.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "base/random.h"
#include "testing/history.h"

namespace bonsai::testing {

namespace {

constexpr size_t kDigits = 10;

}  // namespace

std::string KeyCodec::key_of(uint64_t number) const {
  if (format_ == KeyFormat::kFixed8) {
    const uint64_t big_endian = __builtin_bswap64(number);
    std::string key(sizeof big_endian, '\0');
    std::memcpy(key.data(), &big_endian, sizeof big_endian);
    return key;
  }
  std::string key(kDigits, '0');
  for (uint64_t i = kDigits, rest = number; i-- > 0; rest /= 10) key[i] = static_cast<char>('0' + rest % 10);
  base::Random random(number);
  const size_t tail = random.below(tail_bytes_max_ + 1);
  for (size_t i = 0; i < tail; ++i) key.push_back(static_cast<char>(random.below(256)));
  return key;
}

std::optional<uint64_t> KeyCodec::number_of(std::string_view key) const {
  uint64_t number = 0;
  if (format_ == KeyFormat::kFixed8) {
    if (key.size() != sizeof number) return std::nullopt;
    std::memcpy(&number, key.data(), sizeof number);
    return __builtin_bswap64(number);
  }
  if (key.size() < kDigits) return std::nullopt;
  for (size_t i = 0; i < kDigits; ++i) {
    if (key[i] < '0' || key[i] > '9') return std::nullopt;
    number = number * 10 + static_cast<uint64_t>(key[i] - '0');
  }
  if (key_of(number) != key) return std::nullopt;
  return number;
}

std::string encode_value(uint64_t number, size_t bytes) {
  BONSAI_CHECK(bytes >= kValueBytesMin);
  std::string value(bytes, '\0');
  const uint64_t head[2] = {number, base::splitmix64(number) ^ bytes};
  std::memcpy(value.data(), head, sizeof head);
  uint64_t word = head[1];
  for (size_t at = sizeof head; at < bytes; at += sizeof word) {
    word = base::splitmix64(word);
    std::memcpy(value.data() + at, &word, std::min(sizeof word, bytes - at));
  }
  return value;
}

uint64_t decode_value(std::string_view value) {
  if (value.size() < kValueBytesMin) return kGarbled;
  uint64_t number = 0;
  std::memcpy(&number, value.data(), sizeof number);
  return encode_value(number, value.size()) == value ? number : kGarbled;
}

}  // namespace bonsai::testing
