// SPDX-License-Identifier: Apache-2.0
// All sequences of events of one member (member_state.h), and what must be true along each.
#ifndef BONSAI_SCALE_MEMBERSHIP_TESTING_MEMBER_WALK_H_
#define BONSAI_SCALE_MEMBERSHIP_TESTING_MEMBER_WALK_H_

#include <cstdint>
#include <string>

namespace bonsai::scale::membership::testing {

struct MemberWalk {
  std::string wrong;       // empty: nothing
  uint64_t sequences = 0;  // of events
  uint32_t states = 0;     // that were reached, one bit each
};

MemberWalk walk_members();

}  // namespace bonsai::scale::membership::testing

#endif  // BONSAI_SCALE_MEMBERSHIP_TESTING_MEMBER_WALK_H_
