// SPDX-License-Identifier: Apache-2.0
#include "base/key.h"

namespace bonsai::base {

std::string printable(std::string_view key) {
  constexpr size_t kShownBytesMax = 32;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "\"";
  for (size_t i = 0; i < std::min(key.size(), kShownBytesMax); ++i) {
    const auto byte = static_cast<unsigned char>(key[i]);
    if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
      text += static_cast<char>(byte);
    } else {
      text.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    }
  }
  text += '"';
  if (key.size() > kShownBytesMax) text += "...";
  return text;
}

std::string printable_range(const Fence& lo, const Fence& hi) {
  std::string text = "[";
  text += lo.bytes().empty() ? std::string("first key") : printable(lo.bytes());
  text += ", ";
  text += hi.is_infinite() ? std::string("end") : printable(hi.bytes());
  text += ')';
  return text;
}

}  // namespace bonsai::base
