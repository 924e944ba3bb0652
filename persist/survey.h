// SPDX-License-Identifier: Apache-2.0
// Finds, entry by entry, what can be trusted in a dnode whose runs may be damaged. For the offline check and for
// salvage; ordinary reads stop at damage.
#ifndef BONSAI_PERSIST_SURVEY_H_
#define BONSAI_PERSIST_SURVEY_H_

#include <vector>

#include "persist/dnode.h"
#include "persist/run_reader.h"

namespace bonsai::persist {

struct Survey {
  // A damaged entry whose key is in [lo, hi). The dnode's state of those keys is unknown, older runs included, since
  // the lost entry may have been newer.
  struct Lost {
    base::Fence lo, hi;
    scale::Addr where;
  };
  // The newest of each key that is not lost, in key order; tombstones included. They are views, which stay as the
  // reader's.
  std::vector<Entry> entries;
  std::vector<Lost> lost;  // in no order; may overlap
  Status status;           // Unavailable: the runs could not be read, and nothing is known
};

// Looks at the keys of `dnode` in [lo, hi). Safe on damaged runs. Requires: the dnode is valid.
Survey survey(RunReader* reader, const Dnode& dnode, const base::Fence& lo, const base::Fence& hi);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_SURVEY_H_
