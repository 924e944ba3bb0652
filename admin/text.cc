// SPDX-License-Identifier: Apache-2.0
#include "admin/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace bonsai::admin {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

void append_hex(unsigned char byte, std::string* out) {
  out->push_back(kHexDigits[byte >> 4]);
  out->push_back(kHexDigits[byte & 15]);
}

// The value of a hex digit, or -1.
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string fixed8_key(uint64_t number) {
  std::string key(8, '\0');
  for (int i = 7; i >= 0; --i, number >>= 8) key[static_cast<size_t>(i)] = static_cast<char>(number & 0xff);
  return key;
}

uint64_t fixed8_number(std::string_view key) {
  uint64_t number = 0;
  for (const char c : key) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

}  // namespace

std::string escape(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c >= ' ' && c <= '~') {
      out.push_back(c);
    } else {
      out += "\\x";
      append_hex(static_cast<unsigned char>(c), &out);
    }
  }
  return out;
}

Status unescape(std::string_view text, std::string* bytes) {
  bytes->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes->push_back(text[i]);
      continue;
    }
    const char kind = ++i < text.size() ? text[i] : '\0';
    constexpr std::string_view kKinds = "\\tnr", kBytes = "\\\t\n\r";
    if (const size_t simple = kKinds.find(kind); simple != std::string_view::npos) {
      bytes->push_back(kBytes[simple]);
      continue;
    }
    std::string byte;
    if (kind != 'x' || !from_hex(text.substr(std::min(i + 1, text.size()), 2), &byte).ok() || byte.size() != 1) {
      return Status::InvalidArgument("a backslash is followed by none of \\ t n r xHH; write a backslash as \\\\");
    }
    bytes->append(byte);
    i += 2;
  }
  return Status::OK();
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char c : bytes) append_hex(static_cast<unsigned char>(c), &out);
  return out;
}

Status from_hex(std::string_view hex, std::string* bytes) {
  bytes->clear();
  if (hex.size() % 2 != 0) {
    return Status::InvalidArgument("hex bytes need two digits each, but " + std::to_string(hex.size()) +
                                   " digits were given; add or drop one");
  }
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = hex_digit(hex[i]), low = hex_digit(hex[i + 1]);
    if (high < 0 || low < 0) {
      return Status::InvalidArgument("'" + escape(hex.substr(i, 2)) +
                                     "' is no hex byte; use 0-9 and a-f, or drop --hex");
    }
    bytes->push_back(static_cast<char>(high << 4 | low));
  }
  return Status::OK();
}

Status parse_number(std::string_view text, std::string_view what, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (error == std::errc() && end == text.data() + text.size()) return Status::OK();
  return Status::InvalidArgument(std::string(what) + " is '" + escape(text) +
                                 "'; give a whole number from 0 to 18446744073709551615");
}

Status parse_size(std::string_view text, std::string_view what, uint64_t* bytes) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string unit(text.substr(digits));
  for (char& c : unit) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  const size_t letter = unit.empty() ? std::string_view::npos : std::string_view("KMGT").find(unit[0]);
  const size_t power = letter == std::string_view::npos ? 0 : letter + 1;
  const std::string_view rest = std::string_view(unit).substr(power > 0 ? 1 : 0);
  uint64_t count = 0;
  const bool understood = digits > 0 && (rest.empty() || rest == "B" || (power > 0 && rest == "IB")) &&
                          parse_number(text.substr(0, digits), what, &count).ok() &&
                          count <= UINT64_MAX >> (10 * power);
  if (!understood) {
    return Status::InvalidArgument(std::string(what) + " is '" + escape(text) +
                                   "'; give a size such as 65536, 64K, 512M or 1G");
  }
  *bytes = count << (10 * power);
  return Status::OK();
}

std::string human_size(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double count = static_cast<double>(bytes);
  size_t unit = 0;
  for (; count >= 1024 && unit + 1 < kUnits.size(); ++unit) count /= 1024;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", count, kUnits[unit]);
  return text.data();
}

std::string count_of(uint64_t count, std::string_view one) {
  return std::to_string(count) + " " + std::string(one) + (count == 1 ? "" : "s");
}

std::string row(std::string_view name, const std::string& value) {
  std::string line(name);
  line.resize(std::max(line.size() + 1, size_t{22}), ' ');
  return line + value + "\n";
}

Status KeyText::parse(std::string_view text, std::string* key) const {
  if (hex) return from_hex(text, key);
  if (format == KeyFormat::kBytes) {
    *key = text;
    return Status::OK();
  }
  uint64_t number = 0;
  Status status = parse_number(text, "the key (this pool has fixed8 keys)", &number);
  if (status.ok()) *key = fixed8_key(number);
  return status;
}

std::string KeyText::show(std::string_view key) const {
  if (hex) return to_hex(key);
  if (format == KeyFormat::kFixed8 && key.size() == 8) return std::to_string(fixed8_number(key));
  return escape(key);
}

}  // namespace bonsai::admin
