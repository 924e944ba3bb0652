// SPDX-License-Identifier: Apache-2.0
// Chooses which of the possible crashes to test. Pending stores form independent units, and a crash keeps a prefix of
// each unit. If there are few possible crashes all are tested, else the small deviations that find most bugs, and
// random ones.
#ifndef BONSAI_BASE_NVM_CRASH_CHOICES_H_
#define BONSAI_BASE_NVM_CRASH_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/random.h"

namespace bonsai::base {

struct ChoiceUnit {
  size_t stores;  // a crash keeps 0..stores of them
  size_t line;    // units of one line are kept or lost together in the systematic deviations
};

// Calls emit(kept) with kept[i] in 0..units[i].stores. If there are at most choices_max choices it emits all. Else it
// emits choices_max (at least 2) in total: nothing kept, all kept, each line alone, each line missing (random lines if
// there are too many), and random choices, which may repeat. Requires: units of one line are neighbours.
// Returns whether it emitted all possible choices. Deterministic for equal arguments and equal `random`.
bool each_crash_choice(const std::vector<ChoiceUnit>& units, uint64_t choices_max, Random& random,
                       const std::function<void(const std::vector<size_t>& kept)>& emit);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_CRASH_CHOICES_H_
