// SPDX-License-Identifier: Apache-2.0
// All sequences of a few grants by three members, late and repeated ones among them, compared with the definition of a
// lease.
#ifndef BONSAI_SCALE_MEMBERSHIP_TESTING_LEASES_H_
#define BONSAI_SCALE_MEMBERSHIP_TESTING_LEASES_H_

#include <cstdint>
#include <string>

namespace bonsai::scale::membership::testing {

struct Leases {
  std::string wrong;       // empty: nothing
  uint64_t sequences = 0;  // that were compared
};

Leases explore_leases();

}  // namespace bonsai::scale::membership::testing

#endif  // BONSAI_SCALE_MEMBERSHIP_TESTING_LEASES_H_
