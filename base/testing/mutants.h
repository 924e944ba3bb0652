// SPDX-License-Identifier: Apache-2.0
// Rules that a test switches off, so that it can show what notices their loss. The product knows nothing of it: the
// conditions are put into copies of its sources (scripts/mutate.py), which only tests compile.
#ifndef BONSAI_BASE_TESTING_MUTANTS_H_
#define BONSAI_BASE_TESTING_MUTANTS_H_

#include <atomic>
#include <cstdint>

#include "base/check.h"

namespace bonsai::testing {

// Bits of the rules that are off; a room's testing/mutants.h names them. Set it only while no operation runs.
inline std::atomic<uint64_t> mutants_on{0};

inline bool mutant(uint64_t bit) { return (mutants_on.load(std::memory_order_relaxed) & bit) != 0; }

#ifdef BONSAI_STEPPED
// Without a rule, invariants break. The test's judge must notice that by itself, so the program goes on.
inline const bool broken_invariants_pass = [] {
  base::broken_invariants_pass = [] { return mutants_on.load(std::memory_order_relaxed) != 0; };
  return true;
}();
#endif

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_MUTANTS_H_
