// SPDX-License-Identifier: Apache-2.0
#include "bench/results/hdr_log.h"

#include <zlib.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/check.h"

namespace bonsai::bench {
namespace {

constexpr uint32_t kV2Cookie = 0x1c849313;
constexpr uint32_t kV2CompressedCookie = 0x1c849314;
constexpr uint32_t kSignificantDigits = 3;
constexpr uint64_t kLowestValue = 1;
constexpr size_t kVarintBytesMax = 9;

void append_big_endian(uint64_t value, int bytes, std::string* out) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

// A signed number, zigzag, then seven bits per byte, least significant first; a ninth byte holds eight.
void append_varint(int64_t number, std::string* out) {
  uint64_t rest = (static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63);
  for (size_t i = 1; i < kVarintBytesMax && rest >= 0x80; ++i) {
    out->push_back(static_cast<char>((rest & 0x7f) | 0x80));
    rest >>= 7;
  }
  out->push_back(static_cast<char>(rest));
}

// Encodes the counts up to the last one that is not 0; a sequence of zeros is encoded as its negated length.
std::string counts_payload(const std::vector<uint64_t>& counts) {
  std::string payload;
  int64_t zeros = 0;
  for (const uint64_t count : counts) {
    if (count == 0) {
      ++zeros;
      continue;
    }
    if (zeros == 1) append_varint(0, &payload);
    if (zeros > 1) append_varint(-zeros, &payload);
    zeros = 0;
    append_varint(static_cast<int64_t>(count), &payload);
  }
  return payload;
}

std::string encoded(const Histogram& histogram) {
  const std::string payload = counts_payload(histogram.buckets());
  std::string out;
  append_big_endian(kV2Cookie, 4, &out);
  append_big_endian(payload.size(), 4, &out);
  append_big_endian(0, 4, &out);  // normalizing index offset
  append_big_endian(kSignificantDigits, 4, &out);
  append_big_endian(kLowestValue, 8, &out);
  append_big_endian(Histogram::kNanosecondsMax, 8, &out);
  append_big_endian(std::bit_cast<uint64_t>(1.0), 8, &out);  // integer to double ratio
  return out + payload;
}

std::string compressed(const std::string& plain) {
  uLongf bytes = compressBound(plain.size());
  std::vector<Bytef> room(bytes);
  const int code =
      compress2(room.data(), &bytes, reinterpret_cast<const Bytef*>(plain.data()), plain.size(), Z_BEST_COMPRESSION);
  BONSAI_CHECK(code == Z_OK);
  std::string out;
  append_big_endian(kV2CompressedCookie, 4, &out);
  append_big_endian(bytes, 4, &out);
  out.append(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(bytes));
  return out;
}

std::string base64(const std::string& bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t present = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < present ? static_cast<uint8_t>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) text += j <= present ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string hdr_log(const Histogram& histogram, const HdrInterval& interval) {
  std::array<char, 160> numbers{};
  std::snprintf(numbers.data(), numbers.size(), "#[StartTime: %.3f (seconds since epoch)]\n",
                interval.start_wall_seconds);
  std::string text = "#[Logging for: " + std::string(interval.what) + "; values in ns]\n";
  text.append("#[Histogram log format version 1.3]\n").append(numbers.data());
  text += "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
  std::snprintf(numbers.data(), numbers.size(), "0.000,%.3f,%.3f,", interval.seconds,
                static_cast<double>(histogram.max()) / 1e6);
  return text + numbers.data() + base64(compressed(encoded(histogram))) + "\n";
}

}  // namespace bonsai::bench
