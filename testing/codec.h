// SPDX-License-Identifier: Apache-2.0
// Key numbers and value numbers of the histories as bytes of a store, and back.
#ifndef BONSAI_TESTING_CODEC_H_
#define BONSAI_TESTING_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bonsai/options.h"

namespace bonsai::testing {

// Keys keep the order of their numbers. kFixed8: the number, big-endian. kBytes: ten digits and a tail of 0 to
// `tail_bytes_max` bytes that depends on the number. Requires: number < 10^10.
class KeyCodec {
 public:
  explicit KeyCodec(KeyFormat format, size_t tail_bytes_max = 12) : format_(format), tail_bytes_max_(tail_bytes_max) {}
  [[nodiscard]] std::string key_of(uint64_t number) const;
  // nullopt: no key_of gives these bytes.
  [[nodiscard]] std::optional<uint64_t> number_of(std::string_view key) const;

 private:
  KeyFormat format_;
  size_t tail_bytes_max_;
};

inline constexpr size_t kValueBytesMin = 16;

// A value of `bytes` bytes: the number, and bytes that follow from it. Requires: bytes >= kValueBytesMin.
std::string encode_value(uint64_t number, size_t bytes);
// The number; kGarbled when any byte is not what encode_value wrote.
uint64_t decode_value(std::string_view value);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_CODEC_H_
