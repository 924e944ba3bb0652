// SPDX-License-Identifier: Apache-2.0
// Checked words on a volume (format.h): read, verified against their pool and place, and stored. All are resident.
#ifndef BONSAI_PERSIST_WORDS_H_
#define BONSAI_PERSIST_WORDS_H_

#include <cstdint>
#include <cstring>
#include <optional>

#include "persist/format.h"
#include "scale/volume.h"

namespace bonsai::persist {

inline uint64_t place_seed(const scale::Volume& volume, scale::Addr at) {
  return place_seed(volume.identity(), at.bits());
}

inline uint64_t load8(const scale::Volume& volume, scale::Addr at) {
  uint64_t word;
  std::memcpy(&word, volume.resident(at), sizeof word);
  return word;
}

// `tie` binds the word to more than its place. Requires, as all below: the word is in its target.
inline std::optional<uint64_t> load_word(const scale::Volume& volume, scale::Addr at, uint64_t tie = 0) {
  const uint64_t word = load8(volume, at);
  if (!checked_word_ok(word, place_seed(volume, at) + tie)) return std::nullopt;
  return word & kCheckedWordMax;
}

// The caller flushes and fences. Requires: value <= kCheckedWordMax.
template <class AnyVolume>
void store_word(AnyVolume& volume, scale::Addr at, uint64_t value, uint64_t tie = 0) {
  volume.store8(at, checked_word(value, place_seed(volume, at) + tie));
}

// Stores both words of a segment's entry, the end first. A crash leaves the old entry, or one that is older than the
// segment's word.
template <class AnyVolume>
void store_entry(AnyVolume& volume, scale::Addr entry, uint64_t sequence, uint64_t end, bool sealed) {
  store_word(volume, entry + offsetof(SegmentEntry, end), segment_end(end, sealed), sequence);
  store_word(volume, entry + offsetof(SegmentEntry, sequence), sequence);
}

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_WORDS_H_
