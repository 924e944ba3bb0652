// SPDX-License-Identifier: Apache-2.0
// Explores worlds of ownership (owner_world.h): all orders of moves, or lives that follow from a seed.
#ifndef BONSAI_SCALE_MEMBERSHIP_TESTING_OWNER_LIFE_H_
#define BONSAI_SCALE_MEMBERSHIP_TESTING_OWNER_LIFE_H_

#include <cstdint>
#include <string>

#include "scale/membership/testing/owner_world.h"

namespace bonsai::scale::membership::testing {

struct Explored {
  std::string wrong;    // empty: nothing; else what, and the moves that lead there
  uint64_t states = 0;  // distinct ones
  bool whole = false;   // all were visited, unless something was wrong
};

// Visits all states that follow from the setup, at most states_max, depth first.
Explored explore(const Setup& setup, uint64_t states_max);

struct Life {
  std::string wrong;     // with the seed and the last moves
  uint64_t moves = 0;    // made
  uint64_t answers = 0;  // reads answered and updates made durable
  uint64_t digest = 0;   // of the last state: equal for equal seeds
};

// A life of some hundred moves, with trouble, pauses and drifting clocks. Then trouble ends and one owner is gone. The
// other one must serve the pool within the longest lease that any owner may hold, plus three of its own.
Life live(uint64_t seed);

// Worlds that break an assumption of docs/nodes.md: clocks that drift by 5 %, clocks that stand while a machine is
// suspended, a disk that forgets.
enum class Broken : uint8_t { kDrift, kClockStands, kDiskForgets };
Life live_in(Broken broken, uint64_t seed);

}  // namespace bonsai::scale::membership::testing

#endif  // BONSAI_SCALE_MEMBERSHIP_TESTING_OWNER_LIFE_H_
