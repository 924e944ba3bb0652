// SPDX-License-Identifier: Apache-2.0
// Random operations of one thread on a store and on the model side by side; every answer must be the same.
#ifndef BONSAI_TESTING_MODEL_RUN_H_
#define BONSAI_TESTING_MODEL_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "bonsai/db.h"
#include "testing/history.h"

namespace bonsai::testing {

struct ModelRun {
  KeyFormat key_format = KeyFormat::kBytes;
  uint64_t steps = 1000;
  uint64_t seed = 1;
  size_t keys = 400;                          // most operations use one of so many keys
  size_t value_bytes_max = size_t{64} << 10;  // of ordinary values
  size_t large_bytes_max = size_t{3} << 20;   // of a few; 0 = none
  uint32_t held_max = 4;                      // snapshots and iterators held at one time, each
};

// Opens the store (empty at first) with the key format of the run; called again for every reopening.
using StoreOpener = std::function<Status(std::unique_ptr<DB>*)>;

// Covers every operation of DB, iterators both ways, snapshots and iterators held while updates go on, drains, reopens
// and arguments out of bounds. Ends at the first difference, which the text names with its step.
Verdict run_against_model(const ModelRun& run, const StoreOpener& open);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_MODEL_RUN_H_
