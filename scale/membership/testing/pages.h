// SPDX-License-Identifier: Apache-2.0
// Explores what crashes and damage leave of a node's page (page.h).
#ifndef BONSAI_SCALE_MEMBERSHIP_TESTING_PAGES_H_
#define BONSAI_SCALE_MEMBERSHIP_TESTING_PAGES_H_

#include <cstdint>
#include <string>

#include "scale/membership/page.h"

namespace bonsai::scale::membership::testing {

struct Pages {
  std::string wrong;    // empty: nothing
  uint64_t images = 0;  // that were looked at
};

// A page whose fields all follow from n >= 1.
Page make_page(uint64_t n);

// Writes one page after the other, with a crash at each moment: a write in flight is cut at each 8th byte, or loses one
// of its sectors. A second crash may come while the copies are made equal. Whenever a page counts, each slot alone is
// damaged, a bit here and there, and zeroed.
Pages explore_pages();

}  // namespace bonsai::scale::membership::testing

#endif  // BONSAI_SCALE_MEMBERSHIP_TESTING_PAGES_H_
