// SPDX-License-Identifier: Apache-2.0
// Shows that a test notices the loss of a rule (mutants.h).
#ifndef BONSAI_BASE_TESTING_PLANTED_FAULT_H_
#define BONSAI_BASE_TESTING_PLANTED_FAULT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <utility>

#include "base/testing/figures.h"
#include "base/testing/mutants.h"

namespace bonsai::testing {

struct PlantedFault {
  const char* name;
  uint64_t mutant;
  std::function<bool()> found;  // whether the test's judge is dissatisfied
};

// Switches each rule off in turn: its judge must notice.
// Requires: no rule is off, and no other operation runs.
inline void expect_found(std::initializer_list<PlantedFault> faults) {
  for (const PlantedFault& fault : faults) {
    mutants_on.store(fault.mutant);
    const bool found = fault.found();
    mutants_on.store(0);
    EXPECT_TRUE(found) << fault.name << ": nobody notices the loss of this rule";
    add_figure("mutants", 1);
    add_figure("mutants_killed", found ? 1 : 0);
  }
}

// A judge that makes up to `trials` trials with the seeds first, first + 1, ...; each trial returns whether it found
// the fault. `first`: a seed that is known to find a fault which is hard to find.
inline std::function<bool()> within(uint64_t trials, std::function<bool(uint64_t seed)> finds, uint64_t first = 1) {
  return [trials, first, finds = std::move(finds)] {
    for (uint64_t seed = first; seed < first + trials; ++seed) {
      if (!finds(seed)) continue;
      std::printf("found by trial %llu\n", static_cast<unsigned long long>(seed));
      return true;
    }
    return false;
  };
}

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_PLANTED_FAULT_H_
