// SPDX-License-Identifier: Apache-2.0
// Finds, entry by entry, what can be trusted in a dnode whose runs may be damaged. For the offline check and for
// salvage; ordinary reads stop at damage.
#ifndef BONSAI_PERSIST_SURVEY_H_
#define BONSAI_PERSIST_SURVEY_H_

#include <memory>
#include <vector>

#include "persist/dnode.h"
#include "scale/volume.h"

namespace bonsai::persist {

struct Survey {
  // A damaged entry whose key is in [lo, hi). The state of these keys in the dnode is unknown, older runs included,
  // since the lost entry may have been newer.
  struct Lost {
    base::Fence lo, hi;
    scale::Addr where;
  };
  std::vector<Entry> entries;        // the newest of each key that is not lost, in key order; tombstones included
  std::vector<Lost> lost;            // in no order; may overlap
  Status status;                     // Unavailable: the runs could not be read, and nothing is known
  std::unique_ptr<RunReader> bytes;  // of the entries
};

// Looks at the keys of `dnode` in [lo, hi). Safe on damaged runs. Requires: the dnode is valid.
Survey survey(const scale::Volume& volume, const Dnode& dnode, const base::Fence& lo, const base::Fence& hi);

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_SURVEY_H_
