// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), by ISA-L: carry-less multiplication or the crc32 instruction where the processor has them.
#ifndef BONSAI_BASE_CRC_H_
#define BONSAI_BASE_CRC_H_

#include <isa-l/crc.h>
#include <nmmintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bonsai::base {

// Up to this size the crc32 instruction is faster than ISA-L, whose call first chooses a variant by CPU.
inline constexpr size_t kShortBytesMax = 64;

// Adds the last bytes, fewer than eight, to the register.
[[nodiscard]] inline uint32_t crc32c_rest(const unsigned char* at, size_t n, uint32_t crc) {
  if ((n & 4) != 0) {
    uint32_t word;
    std::memcpy(&word, at, sizeof word);
    crc = _mm_crc32_u32(crc, word);
    at += sizeof word;
  }
  if ((n & 2) != 0) {
    uint16_t word;
    std::memcpy(&word, at, sizeof word);
    crc = _mm_crc32_u16(crc, word);
    at += sizeof word;
  }
  return (n & 1) != 0 ? _mm_crc32_u8(crc, *at) : crc;
}

// Equals crc32c() below; for short inputs.
[[nodiscard]] inline uint32_t crc32c_short(const void* data, size_t n, uint32_t seed) {
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t crc = static_cast<uint32_t>(~seed);
  for (; n >= 8; at += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    crc = _mm_crc32_u64(crc, word);
  }
  return ~crc32c_rest(at, n, static_cast<uint32_t>(crc));
}

// The CRCs of four pieces of n bytes each, `stride` apart, each with its own seed. The instruction has a latency of
// three cycles and a throughput of one per cycle, so four independent CRCs cost little more than one.
[[nodiscard]] inline std::array<uint32_t, 4> crc32c_four(const void* data, size_t stride, size_t n,
                                                         const std::array<uint32_t, 4>& seeds) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::array<uint64_t, 4> crcs;
  for (size_t i = 0; i < 4; ++i) crcs[i] = static_cast<uint32_t>(~seeds[i]);
  for (; n >= 8; at += 8, n -= 8) {
    for (size_t i = 0; i < 4; ++i) {
      uint64_t word;
      std::memcpy(&word, at + i * stride, sizeof word);
      crcs[i] = _mm_crc32_u64(crcs[i], word);
    }
  }
  std::array<uint32_t, 4> four;
  for (size_t i = 0; i < 4; ++i) four[i] = ~crc32c_rest(at + i * stride, n, static_cast<uint32_t>(crcs[i]));
  return four;
}

// The CRC-32C of n bytes, as iSCSI and RFC 3720 define it: crc32c("123456789", 9) == 0xe3069283.
// `seed` is the CRC of what comes before: crc32c(b, m, crc32c(a, n)) is the CRC of a followed by b; 0 for none.
// Conventions: ISA-L's crc32_iscsi takes and returns the raw register without inverting it; this function inverts it
// before and after. ISA-L's length is an int, so longer inputs are passed in pieces.
// Note: of all strings of zeros only the empty one has CRC 0, so a page of zeros with a zero CRC is not valid.
[[nodiscard]] inline uint32_t crc32c(const void* data, size_t n, uint32_t seed = 0) {
  constexpr size_t kPieceBytesMax = size_t{1} << 30;
  if (n <= kShortBytesMax) return crc32c_short(data, n, seed);
  auto* at = static_cast<unsigned char*>(const_cast<void*>(data));  // ISA-L only reads, in spite of its type
  uint32_t crc = ~seed;
  while (n > 0) {
    const size_t piece = std::min(n, kPieceBytesMax);
    crc = crc32_iscsi(at, static_cast<int>(piece), crc);
    at += piece;
    n -= piece;
  }
  return ~crc;
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CRC_H_
