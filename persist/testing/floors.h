// SPDX-License-Identifier: Apache-2.0
// The least values that words of a pool may have in the image of a crash. These words distinguish an earlier state of a
// place from the present one; they have been made durable and must never be older.
#ifndef BONSAI_PERSIST_TESTING_FLOORS_H_
#define BONSAI_PERSIST_TESTING_FLOORS_H_

#include <cstddef>
#include <map>
#include <string>

#include "persist/testing.h"
#include "persist/words.h"

namespace bonsai::persist::testing {

// The sequence of a segment that was entered. Its own word may not be resident.
inline uint64_t entered_sequence(const Rig& rig, uint32_t segment) {
  return load_word(rig.volume, rig.pool.entries()[segment] + offsetof(SegmentEntry, sequence)).value_or(0);
}

class Floors {
 public:
  // An epoch was closed.
  void raise_epoch(const Rig& rig) {
    raise(rig, rig.pool.state(kStateEpochOffset));
    raise(rig, rig.pool.epoch_copy());
  }
  // Dnodes were retired.
  void raise_extents(const Rig& rig) {
    const Superblock& sb = rig.pool.superblocks[0];
    for (uint64_t i = 0; i < sb.extents; ++i) raise(rig, scale::Addr(0, sb.extent_table_offset + 8 * i));
  }
  // The ends of open segments were noted.
  void raise_ends(const Rig& rig) {
    for (uint32_t i = 0; i < rig.log->segments(); ++i) {
      const uint64_t sequence = entered_sequence(rig, i);
      const auto end = load_word(rig.volume, rig.pool.entries()[i] + offsetof(SegmentEntry, end), sequence);
      ends_[i] = {.sequence = sequence, .noted = end.value_or(0) >> 1};
    }
  }

  // The fault of an image that was analysed; empty: none.
  [[nodiscard]] std::string broken_in(const Rig& rig) const {
    for (const auto& [at, floor] : words_) {
      if (load_word(rig.volume, scale::Addr::of_bits(at)).value_or(0) < floor) return "a word has lost its value";
    }
    for (const auto& [segment, end] : ends_) {
      const SegmentState& state = rig.analysis.segments[segment];
      const bool is_emptied = state.sealed && state.noted == kSegmentHeaderBytes;  // closing found it free
      if (state.sequence == end.sequence && state.noted < end.noted && !is_emptied)
        return "an end is not noted any more";
    }
    return "";
  }

 private:
  void raise(const Rig& rig, scale::Addr at) { words_[at.bits()] = load_word(rig.volume, at).value_or(0); }

  std::map<uint64_t, uint64_t> words_;  // by address
  std::map<uint32_t, SegmentState> ends_;
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_FLOORS_H_
