// SPDX-License-Identifier: Apache-2.0
// Conditional updates in the terms of a history: cells that are written and cells that are required.
#ifndef BONSAI_TESTING_CONDITIONAL_H_
#define BONSAI_TESTING_CONDITIONAL_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bonsai/db.h"
#include "testing/recorder.h"

namespace bonsai::testing {

struct ConditionalUpdate {
  std::vector<Cell> cells;
  // Not null: what is required is that the keys are unchanged since then. The required cells have their values there.
  const Snapshot* since = nullptr;
};

// Makes the update by PutIf or DeleteIf, if it is of one key, else by a batch.
Status perform(DB* db, const ConditionalUpdate& update, const std::function<std::string(uint64_t)>& key_of);

// As above, and records it: as an update if it is made, as a read if it is refused, and not at all after another error,
// which it returns. Requires: the recorder's lane has room for twice the cells.
Status perform_recorded(DB* db, const ConditionalUpdate& update, const std::function<std::string(uint64_t)>& key_of,
                        Recorder::Lane* lane);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_CONDITIONAL_H_
