// SPDX-License-Identifier: Apache-2.0
// Checked words on a volume (format.h): read, verified against their pool and place, and stored. All are resident,
// but for those of log segments.
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

// The value of a word that was read at `at`. `tie` binds the word to more than its place.
inline std::optional<uint64_t> value_of_word(const scale::Volume& volume, scale::Addr at, uint64_t word,
                                             uint64_t tie = 0) {
  if (!checked_word_ok(word, place_seed(volume, at) + tie)) return std::nullopt;
  return word & kCheckedWordMax;
}
// Requires, as all below: the word is in its target, and resident.
inline std::optional<uint64_t> load_word(const scale::Volume& volume, scale::Addr at, uint64_t tie = 0) {
  return value_of_word(volume, at, load8(volume, at), tie);
}

// The opening of a segment that has no records, by its entry in the log table. None: it may have records, or the entry
// fails its check.
inline std::optional<uint64_t> sequence_of_empty(const scale::Volume& volume, scale::Addr entry) {
  const std::optional<uint64_t> sequence = load_word(volume, entry + offsetof(SegmentEntry, sequence));
  const std::optional<uint64_t> end = load_word(volume, entry + offsetof(SegmentEntry, end), sequence.value_or(0));
  return end == segment_end(kSegmentHeaderBytes, true) ? sequence : std::nullopt;
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
