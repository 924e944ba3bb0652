// SPDX-License-Identifier: Apache-2.0
// Judges the answers of a pool's owners, one after the other, as one history.
#ifndef BONSAI_TESTING_SIM_OWNER_HISTORY_H_
#define BONSAI_TESTING_SIM_OWNER_HISTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "testing/history.h"

namespace bonsai::testing::sim {

// One opening of the pool. Its operations are those of its lanes that were invoked in it.
struct Tenure {
  uint32_t lane_first = 0, lanes = 0;
  uint64_t begin = 0;    // ordinal: the pool was open
  uint64_t end = kOpen;  // ordinal: its process had ended; what it did from then on nobody observed

  [[nodiscard]] bool has(const Operation& operation) const {
    return operation.thread - lane_first < lanes && operation.invoke >= begin;
  }
};

struct OwnersVerdict {
  std::string violation;     // empty: none
  uint64_t old_answers = 0;  // reads that a replaced owner was asked and answered after the next owner's first answer
  std::string old_answer;    // the first of them
  uint64_t answers = 0;      // that were judged
  uint64_t outlived = 0;     // tenures with operations after the next owner's first answer, answered or not
};

// Judges what clients observed: per key linearizable across tenures, and no answer to what was asked after the first
// answer of a later tenure. Old answers of reads are counted, and left out of the history that is to be linearizable.
// Requires: tenures are in the order of their beginnings; those of one lane do not overlap.
OwnersVerdict judge_owners(const History& history, const std::vector<Tenure>& tenures);

}  // namespace bonsai::testing::sim

#endif  // BONSAI_TESTING_SIM_OWNER_HISTORY_H_
