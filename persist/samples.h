// SPDX-License-Identifier: Apache-2.0
// Searches of a dnode's metadata, eight samples or sixteen fingerprints at a time.
#ifndef BONSAI_PERSIST_SAMPLES_H_
#define BONSAI_PERSIST_SAMPLES_H_

#include <smmintrin.h>

#include <algorithm>
#include <cstdint>

#include "base/narrow.h"

namespace bonsai::persist {

// The number of samples that are not above a bound, and the number below it.
struct Ranks {
  uint32_t not_above, below;
};
// Requires: they are sorted, aligned to 16 bytes, and padded to eight by the highest.
inline Ranks ranks_of(const uint16_t* samples, uint32_t n, uint16_t bound) {
  const __m128i wanted = _mm_set1_epi16(base::low_bits<int16_t>(bound));
  __m128i counts = _mm_setzero_si128();  // eight
  for (uint32_t i = 0; i < n; i += 8) {
    const __m128i have = _mm_load_si128(reinterpret_cast<const __m128i*>(samples + i));
    counts = _mm_sub_epi16(counts, _mm_cmpeq_epi16(_mm_max_epu16(have, wanted), wanted));
  }
  counts = _mm_madd_epi16(counts, _mm_set1_epi16(1));
  counts = _mm_add_epi32(counts, _mm_shuffle_epi32(counts, 0x4e));
  counts = _mm_add_epi32(counts, _mm_shuffle_epi32(counts, 0xb1));
  Ranks ranks;
  ranks.not_above = std::min(base::low_bits<uint32_t>(_mm_cvtsi128_si32(counts)), n);
  ranks.below = ranks.not_above;
  while (ranks.below > 0 && samples[ranks.below - 1] == bound) --ranks.below;
  return ranks;
}

// A mask of the ones among 32 fingerprints that are `wanted`. Requires: aligned to 16 bytes.
inline uint32_t matches(const char* fingerprints, uint8_t wanted) {
  const __m128i all = _mm_set1_epi8(static_cast<char>(wanted));
  const auto half = [&](const char* at) {
    const __m128i have = _mm_load_si128(reinterpret_cast<const __m128i*>(at));
    return base::low_bits<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(have, all)));
  };
  return half(fingerprints) | half(fingerprints + sizeof(__m128i)) << 16;
}

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_SAMPLES_H_
