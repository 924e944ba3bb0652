// SPDX-License-Identifier: Apache-2.0
// A group of three members, or of two and a witness, their pages and successive owners: all orders of acknowledgements,
// failures, pages that reach some voters, joinings and openings (in_sync.h decides).
//
// Judged: an opening uses only members that hold every acknowledged update, and so does the page in force name only
// such members.
#ifndef BONSAI_SCALE_MEMBERSHIP_TESTING_GROUP_H_
#define BONSAI_SCALE_MEMBERSHIP_TESTING_GROUP_H_

#include <cstdint>
#include <string>

namespace bonsai::scale::membership::testing {

struct GroupSetup {
  uint64_t needed = 2;
  bool witness = false;                         // the third is one
  int failures = 2, changes = 2, openings = 2;  // how many there may be
};

inline constexpr GroupSetup kGroupSetups[] = {
    {.needed = 1}, {.needed = 2}, {.needed = 3}, {.needed = 1, .witness = true}, {.needed = 2, .witness = true}};

struct GroupExplored {
  std::string wrong;      // empty: nothing; else what, and the moves that lead there
  uint64_t states = 0;    // distinct ones
  uint64_t openings = 0;  // that were allowed
  bool whole = false;     // all states were visited, unless something was wrong
};

GroupExplored explore_group(const GroupSetup& setup, uint64_t states_max);

}  // namespace bonsai::scale::membership::testing

#endif  // BONSAI_SCALE_MEMBERSHIP_TESTING_GROUP_H_
